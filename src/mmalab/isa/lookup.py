"""From an opcode to its form: find, list, and suggest.

    >>> form = find("ld.global.v4.b32")
    >>> form.family, dict(form.modifiers), form.operands[0].count
    ('ld', {'space': 'global', 'vec': 'v4', 'type': 'b32'}, 4)

An opcode that no row describes raises UnknownForm with the nearest legal spellings; an instruction
that the ISA has and this table does not (textures) says so.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Iterator
from functools import lru_cache, reduce
from itertools import islice, product
from operator import and_

from mmalab.errors import UnknownForm, UsageError
from mmalab.isa.form import Form, Source
from mmalab.isa.index import LATER_ISSUES, all_rows, heads, rows
from mmalab.isa.syntax import Element, Need, Row
from mmalab.isa.targets import TargetSet, parse_targets
from mmalab.isa.vocabulary import REQUIREMENTS, name_of

__all__ = ["find", "form_of", "forms", "in_later_issue", "nearest", "needs_of", "row_of"]

_MANUAL = "PTX ISA"
#: Where everything is listed, for those to whose words no spelling is near.
_LISTED = "mmalab forms lists all"


@lru_cache(maxsize=8192)
def _match(opcode: str) -> tuple[Row, tuple[tuple[str, str], ...]] | None:
    head, *rest = opcode.split(".")
    parts, candidates = tuple(rest), rows(head)
    for row in candidates:
        found = row.match(parts)
        if found is not None:
            return row, tuple(found.items())
    for row in candidates:
        found = row.match_any_order(parts)
        if found is not None:
            return row, tuple(found.items())
    return None


def row_of(opcode: str) -> Row | None:
    """The table row that describes an opcode, None if none does."""
    found = _match(opcode)
    return found[0] if found else None


def needs_of(row: Row, modifiers: dict[str, str]) -> list[tuple[str, Need]]:
    """What the row and each of its modifiers ask for: (who asks, need)."""
    found = [(row.family, row.need)]
    for name, value in modifiers.items():
        need = row.needs.get(value)
        if need is None and (name, value) in REQUIREMENTS:
            need = Need(*REQUIREMENTS[name, value])
        if need is not None:
            found.append((f".{value}", need))
    return found


def find(opcode: str) -> Form:
    """The form that `opcode` (the full dotted spelling) names.

    Raises:
        UnknownForm: no row describes it; the message names the nearest legal spellings.
    """
    if not isinstance(opcode, str):
        raise UnknownForm(f"{opcode!r}", "is no opcode: those are text",
                          legal='"add.f32"', where="mmalab.isa.find")
    return _find(opcode)


def form_of(given: Form | str) -> Form:
    """A form, or the one that an opcode names.

    Raises:
        UnknownForm: as :func:`find`.
    """
    return given if isinstance(given, Form) else find(given)


@lru_cache(maxsize=8192)
def _find(opcode: str) -> Form:
    found = _match(opcode)
    if found is None:
        raise unknown(opcode)
    row, pairs = found
    modifiers = dict(pairs)
    needs = [need for _, need in needs_of(row, modifiers)]
    targets: TargetSet = reduce(and_, (parse_targets(need.targets) for need in needs))
    return Form(
        key=opcode,
        family=row.family,
        modifiers=modifiers,
        operands=row.operands(modifiers),
        targets=str(targets),
        ptx=max(need.ptx for need in needs),
        source=Source(_MANUAL, row.section),
        evidence=row.evidence,
        summary=row.summary,
        shape=row.size(modifiers),
        fragments=row.spread(modifiers),
        notes=row.notes,
        sparsity=row.sparsity,
        until=row.until,
        others=row.others(modifiers),
        ptx_on=row.ptx_on,
        gone=row.gone,
    )


# --- what is near ---------------------------------------------------------------------------------


def in_later_issue(opcode: str) -> str:
    """The family head when the ISA has the instruction and this table does not, else ""."""
    return next((h for h in LATER_ISSUES if opcode == h or opcode.startswith(h + ".")), "")


def unknown(opcode: str) -> UnknownForm:
    """The exception for an opcode that no row describes."""
    later = in_later_issue(opcode)
    if later:
        return UnknownForm(opcode, f"{later} is in the PTX ISA, but not in this table yet",
                           where=f"{_MANUAL}, {later}")
    near = nearest(opcode)
    rule = "is not an instruction of the PTX ISA" + _difference(opcode, near)
    if not near and opcode.strip():
        near = forms(opcode)[:3]  # a part of an opcode, as m16n8k16
    return UnknownForm(opcode or "an empty opcode", rule, legal=near,
                       where=_MANUAL if near else f"{_MANUAL}; {_LISTED}")


def _difference(opcode: str, near: list[str]) -> str:
    """", `.x` instead of `.y`" for the best suggestion, when words can be told apart."""
    if not near:
        return ""
    have, want = opcode.split("."), near[0].split(".")
    extra = [p for p in have if have.count(p) > want.count(p)]
    missing = [p for p in want if want.count(p) > have.count(p)]
    pairs = list(zip(extra, missing, strict=False))
    words = [f".{m} instead of .{x}" for x, m in pairs]
    words += [f"without .{x}" for x in extra[len(pairs):]]
    words += [f"with .{m}" for m in missing[len(pairs):]]
    return " (nearest: " + ", ".join(words) + ")" if words else ""


def nearest(opcode: str, count: int = 3) -> list[str]:
    """The nearest legal spellings, nearest first."""
    return list(islice(_ranked(opcode), count))


@lru_cache(maxsize=256)
def _ranked(opcode: str) -> tuple[str, ...]:
    """One spelling for each row of the nearest heads, nearest first."""
    head, *parts = opcode.split(".")
    near_heads = [head] if rows(head) else difflib.get_close_matches(head, heads(), 3, 0.5)
    scored: list[tuple[float, str]] = []
    for other in near_heads:
        cost = 0.0 if other == head else 1.0
        for row in rows(other):
            for elements in row.variants:
                distance, words = _align(tuple(parts), elements)
                scored.append((cost + distance, ".".join((other, *words))))
    scored.sort(key=lambda item: item[0])
    return tuple(dict.fromkeys(spelling for _, spelling in scored))


def _align(parts: tuple[str, ...], elements: tuple[Element, ...]) -> tuple[float, list[str]]:
    """Edit distance between an opcode's parts and a row, and the legal spelling it leads to."""
    # cost[i][j]: parts[:i] against elements[:j], with the words chosen so far.
    table: list[list[tuple[float, list[str]]]] = [[(0.0, [])]]
    for element in elements:
        cost, words = table[0][-1]
        table[0].append(_skip(cost, words, element))
    for i, part in enumerate(parts, 1):
        line = [(float(i), list[str]())]
        for j, element in enumerate(elements, 1):
            change, word = _closest(part, element.words)
            change += _intent(part, element) if change else 0.0
            diagonal = table[i - 1][j - 1]
            up = table[i - 1][j]
            line.append(min(
                (diagonal[0] + change, [*diagonal[1], word]),
                (up[0] + 1.0, up[1]),
                _skip(*line[-1], element),
                key=lambda option: option[0],
            ))
        table.append(line)
    return table[-1][-1]


def _intent(part: str, element: Element) -> float:
    """What it costs besides to change a part that names a real shape or type: it was meant."""
    if element.name == "shape":
        return 0.6
    return 0.9 if element.name.endswith("type") and name_of(part) == "type" else 0.0


def _skip(cost: float, words: list[str], element: Element) -> tuple[float, list[str]]:
    return (cost, words) if element.optional else (cost + 0.6, [*words, element.words[0]])


@lru_cache(maxsize=65536)
def _closest(part: str, words: tuple[str, ...]) -> tuple[float, str]:
    if part in words:
        return 0.0, part
    ratio, word = max((_likeness(part, w), w) for w in words)
    return 1.0 - 0.5 * ratio, word


def _likeness(part: str, word: str) -> float:
    """0 to 1: by letters; words that differ in numbers alone by those (m64n264k16 is nearer to
    m64n256k16 than to m64n64k16, which has more of its letters)."""
    if _NUMBER.sub("#", part) != _NUMBER.sub("#", word) or not _NUMBER.search(part):
        return difflib.SequenceMatcher(None, part, word).ratio()
    pairs = [(int(a), int(b)) for a, b in zip(_NUMBER.findall(part), _NUMBER.findall(word),
                                              strict=True)]
    # the second term tells words apart of which none is alike, as for n0
    return 1.0 - sum(abs(a - b) * (1 / max(a, b, 1) + 1e-4) for a, b in pairs) / len(pairs)


_NUMBER = re.compile(r"\d+")


# --- lists ----------------------------------------------------------------------------------------


def spellings(row: Row, limit: int = 64) -> Iterator[str]:
    """Representative opcodes of a row: every combination of its required words (or, where those
    are more than `limit`, each word once), then each optional word once."""
    for elements in row.variants:
        needed = [e for e in elements if not e.optional]
        base = [e.words[0] for e in needed]
        total = reduce(lambda n, e: n * len(e.words), needed, 1)
        if total <= limit:
            combinations: Iterator[tuple[str, ...]] = product(*(e.words for e in needed))
        else:
            combinations = (
                tuple(word if e is other else b for other, b in zip(needed, base, strict=True))
                for e in needed for word in e.words
            )
        for words in combinations:
            yield ".".join((row.head, *words))
        for option in elements:
            if option.optional:
                for word in option.words:
                    chosen = iter(base)
                    yield ".".join((row.head, *(
                        word if e is option else next(chosen)
                        for e in elements if e is option or not e.optional
                    )))


def forms(pattern: str | None = None) -> list[str]:
    """Representative keys of the table: all, those that a glob matches (``mma.sync*bf16*``), or
    those that hold every word (``ld shared v4``; a word may also stand in the summary)."""
    if not isinstance(pattern, (str, type(None))):
        raise UsageError(f"{pattern!r}", "is no pattern: those are text",
                         legal=["mma.sync*bf16*", "ld shared v4"], where="mmalab.isa.forms")
    keys = dict.fromkeys(
        (key, row.summary) for row in all_rows() for key in spellings(row)
    )
    if pattern is None:
        return list(dict.fromkeys(key for key, _ in keys))
    if any(ch in pattern for ch in "*?["):
        return list(dict.fromkeys(key for key, _ in keys if fnmatch.fnmatchcase(key, pattern)))
    words = pattern.split()
    return list(dict.fromkeys(
        key for key, summary in keys
        if all(word in key.split(".") or word in key or word in summary for word in words)
    ))
