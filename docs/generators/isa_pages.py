"""The instruction pages: one for each chapter of the table, written from its rows.

A chapter is a section of the PTX manual as the rows name it. Each family shows its rows in the
table's own syntax, what they need, how the fact is known and whether the emulator executes it; a
matrix family shows its fragments as grids of ``lane:slot``, one for each distinct layout.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from generators.markdown import anchor, code, fence, indented, prose, table
from mmalab import isa
from mmalab.emulator.execute import EXECUTORS
from mmalab.isa.index import LATER_ISSUES, all_rows
from mmalab.isa.syntax import Row

__all__ = ["chapter_of", "families", "pages", "path_of"]

#: Fragments with more cells than this are named, not drawn: the same pattern goes on.
_MOST_CELLS = 2048
_MOST_COLUMNS = 32


@functools.cache
def families() -> Mapping[str, tuple[Row, ...]]:
    """Family -> its rows, in table order."""
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in all_rows():
        found[row.family].append(row)
    return {family: tuple(rows) for family, rows in found.items()}


@functools.cache
def _forms() -> Mapping[str, tuple[isa.Form, ...]]:
    """Family -> every form of it."""
    found: defaultdict[str, list[isa.Form]] = defaultdict(list)
    for key in isa.forms():
        form = isa.find(key)
        found[form.family].append(form)
    return {family: tuple(forms) for family, forms in found.items()}


def chapter_of(family: str) -> str:
    """The manual's section that a family's first row names, without the instruction."""
    return families()[family][0].section.partition(":")[0].strip()


@functools.cache
def _chapters() -> Mapping[str, tuple[str, ...]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for family in families():
        found[chapter_of(family)].append(family)
    return {chapter: tuple(names) for chapter, names in found.items()}


def path_of(chapter: str) -> str:
    """The page of a chapter, below docs/."""
    return f"isa/{anchor(chapter)}.md"


def pages() -> dict[str, str]:
    """isa/index.md and a page for each chapter."""
    made = {path_of(chapter): _chapter(chapter, names) for chapter, names in _chapters().items()}
    return {"isa/index.md": _index(), **made}


def _index() -> str:
    total = sum(map(len, _forms().values()))
    lines = []
    for chapter, names in _chapters().items():
        page = path_of(chapter).removeprefix("isa/")
        links = ", ".join(f"[`{name}`]({page}#{anchor(name)})" for name in names)
        lines.append((f"[{chapter}]({page})", str(sum(len(_forms()[name]) for name in names)),
                      links))
    evidence: Counter[str] = Counter()
    for forms in _forms().values():
        for form in forms:
            evidence[str(form.evidence)] += 1
    known = ", ".join(f"{count:,} {how}" for how, count in evidence.items())
    return "\n\n".join((
        "# Instructions",
        (f"The table holds {len(families())} families and {total:,} forms; a form is an "
        "instruction with its modifiers chosen. These pages are written from it when the site is "
        f"built. How the forms are known: {known} ([the words](../glossary.md#evidence))."),
        ("On the command line: `mmalab forms`, `mmalab explain FORM`, `mmalab legal INSTRUCTION "
        "--target T`. To add a row: [add an instruction](../how-to/add-an-instruction.md)."),
        table(("chapter", "forms", "families"), lines),
        "[Tensor Memory](tensor-memory.md): kinds of `tcgen05.mma`, and where D lies.",
        "Not in the table yet; such an instruction is an error that says so: opcodes that begin "
        "with " + ", ".join(map(code, LATER_ISSUES)) + ".",
        "## How to read a row",
        fence("setp.cmp{.ftz}.type d:pred|q?, a, b"),
        ("The syntax is that of the table (`mmalab.isa.syntax`): `{...}` may be missing, "
        "`.name=x|y` takes one of the words, `.name` alone takes a word of a named set. Operands "
        "that begin with d are written. `a<4>` is a vector of four registers, `#n` an immediate, "
        "`[a]` an address, `a:b32` has a type of its own."),
    )) + "\n"


def _chapter(chapter: str, names: Iterable[str]) -> str:
    parts = [f"# {chapter}"]
    for name in names:
        parts += [f"## {name}", *_family(name)]
    return "\n\n".join(parts) + "\n"


def _family(name: str) -> list[str]:
    rows, forms = families()[name], _forms().get(name, ())
    executed = ("Executed by the emulator." if name in EXECUTORS else
                "The emulator refuses it by name (exit 2): no executor is registered.")
    parts = [f"{len(forms):,} forms. {executed}", _rows(rows)]
    notes = dict.fromkeys(note for form in forms for note in form.notes)
    if notes:
        parts.append("\n".join(f"- {note}" for note in notes))
    parts += _hardware(forms)
    parts += _fragments(forms)
    return parts


def _hardware(forms: Iterable[isa.Form]) -> Iterator[str]:
    """What the machine runs for a matrix form: chips by unit, forms that are alike together."""
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for form in forms:
        units = isa.explain_data(form)["execution"] if form.shape else {}
        chips: defaultdict[str, list[str]] = defaultdict(list)
        for chip, how in units.items():
            chips[how].append(chip)
        if chips:
            alike["; ".join(f"{how}: {' '.join(names)}" for how, names in chips.items())].append(
                form.key)
    if alike:
        yield "What the machine runs:"
        yield table(("unit: chips", "forms", "such as"),
                    [(how, str(len(keys)), code(keys[0])) for how, keys in alike.items()])


def _rows(rows: Iterable[Row]) -> str:
    """Rows that say the same of themselves, together: one heading, one block."""
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        alike[_said(row)].append(row.syntax)
    return "\n\n".join(f"{said}\n\n{fence(chr(10).join(held))}" for said, held in alike.items())


def _said(row: Row) -> str:
    """What it does, what it needs, where it is written, how it is known."""
    until = f", until {_version(row.until)}" if row.until else ""
    needs = "; ".join(f"`{word}`: {need.targets}, PTX {_version(need.ptx)}"
                      for word, need in row.needs.items())
    more = f"<br>Words that need more: {needs}." if needs else ""
    where = row.section.removeprefix(f"{chapter_of(row.family)}: ")
    targets = "any target" if row.need.targets == "any" else row.need.targets
    return (f"**{prose(row.summary or row.head)}**<br>{targets}, PTX {_version(row.need.ptx)} "
            f"and later{until}; {row.evidence} (PTX ISA: {prose(where)}).{more}")


def _version(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _fragments(forms: Iterable[isa.Form]) -> list[str]:
    """Every distinct fragment of a family: which forms have it, its layout, its grid."""
    seen: dict[tuple[object, ...], list[tuple[isa.Form, str]]] = {}
    for form in forms:
        for operand, fragment in form.fragments.items():
            side = "C" if operand == "D" else operand
            key = (side, str(fragment.layout), fragment.rows, fragment.cols, fragment.bits,
                   fragment.copies, fragment.batch)
            seen.setdefault(key, []).append((form, operand))
    drawn = sorted(seen.values(), key=lambda held: held[0][1])
    return ["Fragments:", *map(_fragment, drawn)] if drawn else []


def _fragment(held: list[tuple[isa.Form, str]]) -> str:
    form, operand = held[0]
    fragment = form.fragments[operand]
    name = "C, D" if any(other == "D" for _, other in held) and operand in "CD" else operand
    types = sorted({other.fragments[side].type for other, side in held})
    title = (f"{name}: {fragment.rows} x {fragment.cols}, {fragment.bits} bits an element "
             f"({', '.join(types)}), {len({other.key for other, _ in held})} forms")
    head = f'??? note "{title}"\n\n'
    said = (f"First: `{form.key}`. (lane, slot) → row + {fragment.rows} column = "
            f"`{fragment.layout}`.")
    small = (fragment.rows * fragment.cols * fragment.batch <= _MOST_CELLS
             and fragment.cols <= _MOST_COLUMNS)
    body = (fence("\n".join(isa.show(form, operand).splitlines()[1:])) if small else
            f"Too wide to print here: `mmalab layout {form.key} -{operand} --svg FILE`.")
    return head + indented(f"{said}\n\n{body}")
