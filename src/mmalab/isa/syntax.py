"""The language of the instruction table: a row in the PTX manual's syntax, compiled to a matcher.

A row is what the manual prints, with the alternatives named::

    row("setp.cmp{.ftz}.type d:pred|q?, a, b", type="f32", summary="compare")

Opcode: ``.word`` stands for itself, ``{...}`` may be missing, ``.name=x|y`` takes one of the
words, and ``.name`` with a set (here `cmp` and `type`) takes one of that set. Operands: names that
begin with d are written, others read; the details follow a name:

    d:pred      its type: a PTX type, the name of a type modifier, ``wide`` (twice the width)
    d|q, d|q?   a second (predicate) destination, required or not
    a<vec>      a vector of as many registers as the modifier says; ``<4>``, ``<2*num>``, ``<A>``
                (as fragment A has)
    a~          the register may be wider than the type
    a^          also a vector of 2 or 4 registers that fill the type (mov)
    a:u32/pred  a predicate will also do
    #n @l &f !c _   an immediate, a label, a symbol, a call list, the sink
    +d          read and written
    [a] {, x}   an address; an operand that may be missing
    [a<dim>]    an address with coordinates, ``[map, {c0, c1}]``

``||`` separates whole operand lists, where one opcode takes several (A of wgmma: a descriptor or
registers). Operands called `policy`, `scale` and `ctas` are there exactly when the opcode has
``.L2::cache_hint``, ``.scaled::n2::ue8m0`` or ``.multicast``.

Matching ``setp.lt.ftz.f32`` gives {cmp: lt, ftz: ftz, type: f32}. ptxas takes the modifiers of an
opcode in any order as long as types keep theirs (``atom.global.gpu.acq_rel.add.f32``, as Triton
writes it), and so does :meth:`Row.match_any_order`. Words that name the instruction stay where they
are: ``mbarrier.arrive.release.cta.expect_tx`` is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from mmalab.errors import MmalabError
from mmalab.isa.form import Evidence, Fragment, OperandSpec, Role, Sparsity
from mmalab.isa.vocabulary import ALIASES, FAMILIES, SETS, name_of, value_of

__all__ = ["NAMES", "Element", "FragmentsOf", "Need", "Row", "row"]


@dataclass(frozen=True, slots=True)
class Element:
    """One place of an opcode: the modifier's name and the words it may take."""

    name: str
    words: tuple[str, ...]
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Need:
    """A requirement of a row, or of one of its modifiers."""

    targets: str = "any"
    ptx: tuple[int, int] = (1, 0)


#: Operands that are there exactly when the opcode has a word.
_COMES_WITH = {"policy": "L2::cache_hint", "scale": "scaled::n2::ue8m0", "ctas": "multicast"}

#: Modifiers whose relative order decides the meaning, whatever else moves.
_FIXED = frozenset({"type", "dtype", "atype", "btype", "ctype", "part", "alayout", "blayout"})
#: Of a copy: where to, where from.
_ENDS = frozenset({"space", "source"})

#: Words that are part of an instruction's name, by its first word: whatever else moves (``sync`` of
#: mma does), ptxas 13.5 takes no other word ahead of them, nor any of theirs behind another.
NAMES: Mapping[str, frozenset[str]] = {head: frozenset(words.split()) for head, words in {
    "bar": "cta arrive red warp", "barrier": "cta arrive red cluster wait",
    "cp": "async bulk tensor reduce prefetch mbarrier arrive commit_group wait_group wait_all",
    "createpolicy": "cvt fractional range", "cvt": "pack", "fence": "proxy", "membar": "proxy",
    "mbarrier": "init inval arrive arrive_drop expect_tx complete_tx test_wait try_wait parity"
                " pending_count",
    "multimem": "ld_reduce red st cp reduce async bulk", "red": "async", "st": "async bulk",
    "setmaxnreg": "inc dec", "tcgen05": "alloc commit cp dealloc ld mma relinquish_alloc_permit"
                                        " shift st wait::ld wait::st",
    "tensormap": "replace cp_fenceproxy", "wgmma": "mma_async fence commit_group wait_group",
    "wmma": "load store mma",
}.items()}


#: From the modifiers of a spelling to its fragments by operand name in capitals (A, B, C, D).
FragmentsOf: TypeAlias = Callable[[Mapping[str, str]], Mapping[str, Fragment]]


def _no_fragments(_: Mapping[str, str]) -> Mapping[str, Fragment]:
    return {}


@dataclass(eq=False)
class Row:
    """One line of the instruction table. Build it with :func:`row`; nothing changes it after its
    chapter has named its section (not frozen, because hundreds are made on import).
    """

    syntax: str
    sets: Mapping[str, str]
    summary: str
    need: Need
    needs: Mapping[str, Need]
    section: str
    evidence: Evidence
    forced_family: str
    values: Mapping[str, range | tuple[int, ...]]
    operand_needs: Mapping[str, Need]
    notes: tuple[str, ...]
    until: tuple[int, int] | None
    implied: dict[str, str]
    shape: tuple[int, int, int] | None = None
    spread: FragmentsOf = _no_fragments
    sparsity: Sparsity | None = None
    sized: bool = False
    late: Mapping[str, tuple[tuple[tuple[int, ...], str, tuple[int, int]], ...]] = (
        field(default_factory=dict))
    ptx_on: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    gone: str = ""

    @property
    def head(self) -> str:
        """The opcode's first part."""
        match = re.match(r"[\w:]+", self.syntax)
        return match[0] if match else ""

    @cached_property
    def opcode(self) -> str:
        """The opcode part of the syntax."""
        return self.syntax.partition(" ")[0]

    @cached_property
    def variants(self) -> tuple[tuple[Element, ...], ...]:
        """The element sequences that the opcode stands for: more than one when an optional group
        of several words is all there or not at all."""
        return tuple(tuple(v) for v in self._expand(_tokens(self.opcode)))

    def _expand(self, tokens: list[tuple[str, bool]]) -> list[list[Element]]:
        variants: list[list[Element]] = [[]]
        for text, optional in tokens:
            words = text.split(".")[1:]
            elements = [self._element(word, optional and len(words) == 1) for word in words]
            grown = [[*v, *elements] for v in variants]
            variants = grown + variants if optional and len(words) > 1 else grown
        return variants

    def _element(self, word: str, optional: bool) -> Element:
        name, equals, choices = word.partition("=")
        if equals:
            return Element(name, tuple(choices.split("|")), optional)
        given = self.sets.get(name, SETS.get(name))
        if given is not None:
            return Element(ALIASES.get(name, name), tuple(given.split()), optional)
        return Element(name_of(word), (word,), optional)

    @cached_property
    def family(self) -> str:
        """The name under which executors and generators register."""
        if self.forced_family:
            return self.forced_family
        plain = self.opcode.partition("{")[0] + "."
        return next((f for f in FAMILIES if plain.startswith(f + ".")), self.head)

    # --- matching -------------------------------------------------------------------------------

    def match(self, parts: tuple[str, ...]) -> dict[str, str] | None:
        """The modifiers of an opcode (its parts behind the head), None if it is not this row."""
        for elements in self.variants:
            found = _match(elements, 0, parts, 0)
            if found is not None:
                return {name: value_of(word) for name, word in reversed(found)} | self.implied
        return None

    def match_any_order(self, parts: tuple[str, ...]) -> dict[str, str] | None:
        """As :meth:`match`, with the modifiers in any order that leaves types in theirs."""
        for elements in self.variants:
            found = _assign(elements, parts, NAMES.get(self.head, frozenset()))
            if found is not None:
                return {name: value_of(word) for name, word in found} | self.implied
        return None

    def spelling(self, **chosen: str) -> str:
        """The shortest spelling of the row; `chosen` fixes words by element name."""
        parts = [self.head]
        for element in self.variants[-1]:
            word = chosen.get(element.name)
            if word in element.words:
                parts.append(str(word))
            elif not element.optional:
                parts.append(element.words[0])
        return ".".join(parts)

    def size(self, modifiers: Mapping[str, str]) -> tuple[int, int, int] | None:
        """(M, N, K) of a matrix instruction, for the modifiers of one spelling."""
        if not self.sized:
            return self.shape
        m, n, k = map(int, re.findall(r"\d+", modifiers["shape"]))
        return m, n, k

    # --- operands -------------------------------------------------------------------------------

    @cached_property
    def _operand_texts(self) -> tuple[tuple[tuple[str, bool], ...], ...]:
        return tuple(
            _operand_list(text.strip()) for text in self.syntax.partition(" ")[2].split("||"))

    def operands(self, modifiers: Mapping[str, str]) -> tuple[OperandSpec, ...]:
        """The operand positions, for the modifiers of one spelling."""
        return self._listed(self._operand_texts[0], modifiers)

    def others(self, modifiers: Mapping[str, str]) -> tuple[tuple[OperandSpec, ...], ...]:
        """Further operand lists of the same spelling."""
        return tuple(self._listed(texts, modifiers) for texts in self._operand_texts[1:])

    def _listed(
        self, texts: tuple[tuple[str, bool], ...], modifiers: Mapping[str, str]
    ) -> tuple[OperandSpec, ...]:
        fragments = self.spread(modifiers)
        specs = (self._operand(text, modifiers, fragments, opt) for text, opt in texts)
        return tuple(
            replace(spec, optional=False) if spec.name in _COMES_WITH else spec
            for spec in specs if _COMES_WITH.get(spec.name, "") in ("", *modifiers)
        )

    def _operand(
        self,
        text: str,
        modifiers: Mapping[str, str],
        fragments: Mapping[str, Fragment],
        optional: bool,
    ) -> OperandSpec:
        match = _OPERAND.fullmatch(text)
        if match is None:
            raise MmalabError(f"instruction table, {self.syntax!r}", f"operand {text!r} is unclear")
        sigil, name = match["sigil"] or "", match["name"] or "_"
        role: Role = _ROLES.get(sigil, "write" if name.startswith("d") else "read")
        counted = match["count"] or ""
        need = self.operand_needs.get(name, Need())
        return OperandSpec(
            name=name,
            role=role,
            type=_type(name, role, match["type"] or "", modifiers, fragments.get(counted)),
            count=_count(counted, modifiers, fragments.get(counted)),
            vector=bool(counted) and (counted != "vec" or "vec" in modifiers),
            optional=optional,
            pair="pred" if match["pair"] else "",
            pair_required=bool(match["pair"]) and not match["pair"].endswith("?"),
            wider=match["mark"] == "~",
            packs=match["mark"] == "^",
            values=self.values.get(name),
            late=self.late.get(name, ()),
            alternative=match["other"] or "",
            targets="" if need == Need() else need.targets,
            ptx=need.ptx,
        )


def _type(
    name: str, role: Role, given: str, modifiers: Mapping[str, str], held: Fragment | None
) -> str:
    if role in ("label", "symbol", "call", "sink"):
        return ""
    if role == "address":
        return given or "addr"
    if given == "wide":
        main = modifiers["type"]
        return f"{main[0]}{2 * int(main[1:])}"
    if given:
        return modifiers.get(given, given)
    if held is not None:
        # Elements that fill their register keep their type (f32, s32, f64); others are packed.
        whole = held.bits == held.register_bits and held.type != "tf32"
        return held.type if whole else f"b{held.register_bits}"
    return modifiers.get(f"{name[0]}type", modifiers.get("type", "b32"))


def _count(counted: str, modifiers: Mapping[str, str], held: Fragment | None) -> int:
    if held is not None:
        return held.registers
    factor, star, name = counted.rpartition("*")
    if not name:
        return 1
    number = name if name.isdigit() else modifiers.get(name, "1").strip("vxd")
    return (int(factor) if star else 1) * int(number)


_ROLES: Mapping[str, Role] = {
    "[": "address", "#": "immediate", "@": "label", "&": "symbol", "!": "call", "_": "sink",
    "+": "update",
}
_OPERAND = re.compile(
    r"(?P<sigil>[\[#@&!_+]?)(?P<name>\w*)(:(?P<type>\w+)(/(?P<other>\w+))?)?(?P<pair>\|\w+\??)?"
    r"(<(?P<count>[\w*]+)>)?(?P<mark>[~^])?\]?"
)


def _operand_list(text: str) -> tuple[tuple[str, bool], ...]:
    found, optional = [], False
    for piece in re.split(r"(\{,|\}|,)", text):
        word = piece.strip()
        if word in ("{,", "}"):
            optional = word == "{,"
        elif word not in ("", ","):
            found.append((word, optional))
    return tuple(found)


def _tokens(opcode: str) -> list[tuple[str, bool]]:
    """("." + words, optional) pieces of an opcode pattern, without the head."""
    body = opcode[len(re.match(r"[\w:]+", opcode)[0]):]  # type: ignore[index]
    pieces = re.findall(r"\{([^}]*)\}|(\.[^.{]+)", body)
    return [(group or word, bool(group)) for group, word in pieces]


def _match(
    elements: tuple[Element, ...], i: int, parts: tuple[str, ...], j: int
) -> list[tuple[str, str]] | None:
    """Names and words, last first: element i on takes parts j on."""
    if i == len(elements):
        return [] if j == len(parts) else None
    element = elements[i]
    if j < len(parts) and parts[j] in element.words:
        rest = _match(elements, i + 1, parts, j + 1)
        if rest is not None:
            rest.append((element.name, parts[j]))
            return rest
    return _match(elements, i + 1, parts, j) if element.optional else None


def _assign(
    elements: tuple[Element, ...], parts: tuple[str, ...], names: frozenset[str]
) -> list[tuple[str, str]] | None:
    """The first free element for each part, in part order; fixed elements keep their order, and
    nothing passes a word of `names`."""
    taken: dict[int, str] = {}
    last = dict.fromkeys((_FIXED, _ENDS), -1)
    for part in parts:
        free = (i for i, e in enumerate(elements) if i not in taken and part in e.words)
        i = next(free, None)
        if i is None or any(word in names for at, word in taken.items() if at > i):
            return None
        if part in names and any(at > i for at in taken):
            return None
        for group in last:
            if elements[i].name in group:
                if i < last[group]:
                    return None
                last[group] = i
        taken[i] = part
    if any(i not in taken and not e.optional for i, e in enumerate(elements)):
        return None
    return [(elements[i].name, word) for i, word in sorted(taken.items())]


def row(
    syntax: str,
    summary: str = "",
    /,
    *,
    targets: str = "any",
    ptx: tuple[int, int] = (1, 0),
    needs: Mapping[str, tuple[str, tuple[int, int]]] | None = None,
    section: str = "",
    evidence: Evidence = Evidence.DOCUMENTED,
    family: str = "",
    values: Mapping[str, range | tuple[int, ...]] | None = None,
    operand_needs: Mapping[str, tuple[str, tuple[int, int]]] | None = None,
    notes: tuple[str, ...] = (),
    until: tuple[int, int] | None = None,
    implied: Mapping[str, str] | None = None,
    shape: tuple[int, int, int] | None = None,
    spread: FragmentsOf = _no_fragments,
    sparsity: Sparsity | None = None,
    sized: bool = False,
    late: Mapping[str, tuple[tuple[tuple[int, ...], str, tuple[int, int]], ...]] | None = None,
    ptx_on: Mapping[str, tuple[int, int]] | None = None,
    gone: str = "",
    **sets: str,
) -> Row:
    """A row of the table.

    `needs` gives, by word of the opcode, the targets and PTX version that this word asks for in
    this row; it replaces what :data:`~mmalab.isa.vocabulary.REQUIREMENTS` says of that word.
    `operand_needs` gives the same for operands that may be missing, by name. `until` is the last
    PTX version that has the instruction. `implied` are modifiers that no word spells (the f16
    inputs of ``wmma.mma...f32.f32``). `late` says which `values` came later, by operand. `sized`
    rows have the (M, N, K) that their spelling says. `ptx_on` names targets that have the row later
    than `ptx`, and `gone` says why no target has it any more (`targets` is then "no target").
    `sets` are the alternatives of the row's placeholders.
    """
    return Row(
        syntax=syntax,
        sets=sets,
        summary=summary,
        need=Need(targets, ptx),
        needs={word: Need(*need) for word, need in (needs or {}).items()},
        section=section,
        evidence=evidence,
        forced_family=family,
        values=values or {},
        operand_needs={name: Need(*need) for name, need in (operand_needs or {}).items()},
        notes=notes,
        until=until,
        implied=dict(implied or {}),
        shape=shape,
        spread=spread,
        sparsity=sparsity,
        sized=sized,
        late=late or {},
        ptx_on=ptx_on or {},
        gone=gone,
    )
