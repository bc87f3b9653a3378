"""From an instruction form to something that an assembler can judge: operands, and a module.

A *specimen* is one spelling with one list of operands. ``mbarrier.inval.shared.b64`` becomes::

    .version 9.5
    .target sm_100a
    .address_size 64
    .extern .shared .align 1024 .b8 tile[];
    .visible .entry probe()
    {
        mbarrier.inval.shared.b64 [tile];
        ret;
    }

A form that takes several operand lists (A of wgmma behind a descriptor or in registers) has a
specimen for each; so has one with operands that may be missing, without them and with all of them.
Registers stand as they come: what is asked is whether the text is an instruction of the chip, not
what it computes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from mmalab import isa
from mmalab.errors import UsageError
from mmalab.isa.form import OperandSpec
from mmalab.isa.lookup import row_of
from mmalab.toolchain import cache

__all__ = ["Frame", "Specimen", "all_specimens", "chosen", "module", "specimens_of"]

#: What must stand around an instruction: `straight` nothing, `end` that nothing follows, `jump` a
#: label, `call` a function to call, `argument` a parameter of a call, `parameter` a function whose
#: parameter it reads. `apart`: in a module of its own, because the assembler's refusal has no line.
Frame = Literal["straight", "end", "jump", "call", "argument", "parameter", "apart"]

#: Register file by the bits of a type: first letter of the name, and the declaration.
_FILES = {1: ("p", "pred"), 8: ("b", "b8"), 16: ("h", "b16"), 32: ("r", "b32"), 64: ("q", "b64"),
          128: ("o", "b128")}
_TYPED = {"f32": "f", "f64": "d"}
_DECLARED = {**dict(_FILES.values()), "f": "f32", "d": "f64"}
_REGISTER = re.compile(r"%([pbhrqofd])(\d+)")

_FRAMES: dict[str, Frame] = {
    "trap": "end", "exit": "end", "ret": "end", "bra": "jump", "brx": "jump", "call": "call",
}
#: Instructions whose 32-bit forms belong to ``.address_size 32``.
_POINTERS = frozenset({"cvta", "mapa", "getctarank", "stacksave", "stackrestore", "alloca"})


@dataclass(frozen=True, slots=True)
class Specimen:
    """One spelling with operands. `name` is the opcode, with its operands where the form has
    further lists; `registers` the highest register of each file; `family` that of the form, with
    the kind of a tcgen05."""

    name: str
    opcode: str
    text: str
    frame: Frame
    registers: tuple[tuple[str, int], ...]
    family: str = ""

    @property
    def group(self) -> str:
        """A function has one ``.cta_group``: specimens of one group may share it."""
        found = re.search(r"cta_group::\d", self.text)
        return found[0] if found else ""

    def module(self, target: str, version: str) -> str:
        """The PTX that holds nothing but this specimen."""
        return module([self], target, version)[0]


@lru_cache(maxsize=1)
def all_specimens() -> tuple[Specimen, ...]:
    """Every spelling class of the instruction table: see :func:`mmalab.isa.forms`.

    Kept by the content of the sources that say what they are: writing them takes longer than
    reading all answers.
    """
    key = cache.digest("atlas specimens 1", *_sources())
    kept = cache.load(key)
    if kept is not None:
        return tuple(
            Specimen(name, opcode, text, frame, tuple((file, top) for file, top in used), family)
            for name, opcode, text, frame, used, family in json.loads(kept))
    made = tuple(dict.fromkeys(s for key in isa.forms() for s in specimens_of(key)))
    rows = [[s.name, s.opcode, s.text, s.frame, s.registers, s.family] for s in made]
    cache.store(key, json.dumps(rows, separators=(",", ":")).encode())
    return made


def _sources() -> Iterator[bytes]:
    """The instruction table's code, and this module."""
    table = sorted(Path(isa.__file__).parent.rglob("*.py"))
    yield from (path.read_bytes() for path in (*table, Path(__file__)))


def specimens_of(opcode: str) -> tuple[Specimen, ...]:
    """One specimen for each operand list of an opcode, the usual one first.

    Raises:
        UnknownForm: the table does not describe it.
    """
    row = row_of(opcode)
    if row is None:
        isa.find(opcode)  # which raises, and names what is near
        return ()
    parts = tuple(opcode.split(".")[1:])
    modifiers = row.match(parts) or row.match_any_order(parts) or {}
    spelling = _Spelling(opcode, row.family, modifiers)
    family = f"{row.family} {modifiers.get('kind', '')}".rstrip()
    found: dict[str, Specimen] = {}
    for listed in (row.operands(modifiers), *row.others(modifiers)):
        for specs in dict.fromkeys((tuple(s for s in listed if not s.optional), listed)):
            text = _instruction(spelling, specs)
            if text not in found:
                name = opcode if not found else f"{opcode} {_shape(specs)}".rstrip()
                found[text] = Specimen(name, opcode, text, _frame(spelling), _registers(text),
                                       family)
    return tuple(found.values())


class _Spelling(NamedTuple):
    """What of a :class:`~mmalab.isa.form.Form` is needed here: making all forms whole takes longer
    than reading all answers."""

    key: str
    family: str
    modifiers: Mapping[str, str]


def _registers(text: str) -> tuple[tuple[str, int], ...]:
    highest: dict[str, int] = {}
    for file, number in _REGISTER.findall(text):
        highest[file] = max(highest.get(file, 0), int(number))
    return tuple(highest.items())


def _shape(specs: Sequence[OperandSpec]) -> str:
    """Operands by name, to tell one list from another: ``{d x 4}, [a], b``."""
    words = (f"{{{s.name} x {s.count}}}" if s.vector and s.role != "address" else s.name
             for s in specs)
    return ", ".join(f"[{w}]" if s.role == "address" else w
                     for s, w in zip(specs, words, strict=True))


def _frame(form: _Spelling) -> Frame:
    head = form.key.split(".")[0]
    if head in _POINTERS and form.key.endswith("u32"):
        return "apart"
    space = form.modifiers.get("space", "")
    if head == "ld" and space == "param::func":
        return "parameter"
    if head == "st" and space.startswith("param"):
        return "argument"
    return _FRAMES.get(head, "straight")


# --- operands -------------------------------------------------------------------------------------

#: Variables that stand for a space; anything else is a 64-bit register.
_VARIABLES = {"shared": "tile", "shared::cta": "tile", "shared::cluster": "tile",
              "const": "table", "local": "own", "param": "given", "param::entry": "given",
              "param::func": "passed"}


def _instruction(form: _Spelling, specs: Iterable[OperandSpec]) -> str:
    texts, number = [], 0
    for spec in specs:
        texts.append(_operand(form, spec, number))
        number += max(spec.count, 2)
    return f"{form.key} {', '.join(texts)}".rstrip() + ";"


def _operand(form: _Spelling, spec: OperandSpec, number: int) -> str:
    match spec.role:
        case "address":
            return _address(form, spec, number)
        case "label":
            return "table_of_jumps" if form.key.startswith("brx") else "there"
        case "call":
            return "callee"
        case "sink":
            return "_"
        case "immediate":
            value = str(spec.values[0] if spec.values else _IMMEDIATES.get(form.family, 0))
            return f"{{{', '.join([value] * spec.count)}}}" if spec.vector else value
    if spec.values:
        return str(spec.values[0])
    if spec.vector:
        inside = (_register(spec.type, number + i) for i in range(spec.count))
        return "{" + ", ".join(inside) + "}"
    return _register(spec.type, number) + (f"|%p{number + 1}" if spec.pair else "")


#: Immediates that the table does not limit and that cannot be 0.
_IMMEDIATES = {"alloca": 8}


def _register(type_name: str, number: int) -> str:
    file = _TYPED.get(type_name) or _FILES[isa.type_bits(type_name)][0]
    return f"%{file}{number}"


def _address(form: _Spelling, spec: OperandSpec, number: int) -> str:
    base = _base(form, spec) or f"%q{number}"
    if not spec.vector:
        return f"[{base}]"
    inside = ", ".join(f"%r{number + i}" for i in range(spec.count))
    return f"[{base}, {{{inside}}}]"


def _base(form: _Spelling, spec: OperandSpec) -> str:
    """A variable of the space that an address must be in; "" for a 64-bit register."""
    if form.family.startswith("tcgen05"):
        if spec.name == "mbar" or form.modifiers.get("space") == "shared::cta":
            return "tile"
        return "" if form.family == "tcgen05.alloc" else "%r0"
    if spec.vector or (form.family == "cp.async" and spec.name == "a"):
        return ""  # tensor maps, and the source of cp.async, are in global memory
    if form.family == "st.bulk":
        return ""  # the assembler's macro for it adds to the address, which must be a register
    if spec.name == "mbar" or form.family.endswith(".tensor"):
        return "tile"
    return _VARIABLES.get(form.modifiers.get("source" if spec.name == "b" else "space", ""), "")


# --- modules --------------------------------------------------------------------------------------

#: Instructions of one function: few, so that a function stays small for the register allocator;
#: many, because a function costs the assembler far more than an instruction.
_TOGETHER = 16

_HEAD = ".version {version}\n.target {target}\n.address_size 64\n"
_GLOBALS = (("tile", ".extern .shared .align 1024 .b8 tile[];\n"),
            ("table", ".const .align 16 .b8 table[256];\n"))
_CALLEES = {"call": ".func callee()\n{\n    ret;\n}\n",
            "argument": ".func taker(.param .align 16 .b8 given[64])\n{\n    ret;\n}\n"}


def module(specimens: Sequence[Specimen], target: str, version: str
           ) -> tuple[str, dict[int, tuple[int, ...]]]:
    """A module with these specimens, and to which of them (by position) each of its lines belongs.

    Specimens of one ``.cta_group`` share functions; those with a frame have their own. The line
    that declares a register file belongs to those that have registers in it.
    """
    texts = [s.text for s in specimens]
    parts = [_HEAD.format(target=target, version=version)]
    parts += [text for name, text in _GLOBALS if any(name in t for t in texts)]
    frames = {s.frame for s in specimens}
    parts += [text for frame, text in _CALLEES.items() if frame in frames]
    line = sum(part.count("\n") for part in parts) + 1
    owners: dict[int, tuple[int, ...]] = {}
    for count, members in enumerate(_functions(specimens)):
        name = "probe" if count == 0 else f"probe{count}"
        for text, whose in _function(name, members):
            parts.append(text + "\n")
            if whose:
                owners[line] = whose
            line += 1
    return "".join(parts), owners


Member = tuple[int, Specimen]
#: A line of a function, and the positions of the specimens that it belongs to.
Line = tuple[str, tuple[int, ...]]


def _functions(specimens: Sequence[Specimen]) -> Iterator[list[Member]]:
    """The specimens of each function, with their positions."""
    straight: dict[str, list[Member]] = {}
    for at, specimen in enumerate(specimens):
        if specimen.frame in ("straight", "apart"):
            straight.setdefault(specimen.group, []).append((at, specimen))
        else:
            yield [(at, specimen)]
    for members in straight.values():
        for first in range(0, len(members), _TOGETHER):
            yield members[first:first + _TOGETHER]


def _function(name: str, members: list[Member]) -> Iterator[Line]:
    at, first = members[0]
    if first.frame == "parameter":
        yield from _reader(name, at, first)
        return
    given = any("given" in s.text for _, s in members)
    yield f".visible .entry {name}({'.param .align 16 .b8 given[256]' * given})", ()
    yield "{", ()
    yield from _declarations(members)
    if any("own" in s.text for _, s in members):
        yield "    .local .align 16 .b8 own[64];", ()
    for position, specimen in members:
        yield from ((line, (position,)) for line in _framed(specimen))
    yield "    ret;", ()
    yield "}", ()


def _framed(specimen: Specimen) -> Iterator[str]:
    text = f"    {specimen.text}"
    match specimen.frame:
        case "jump":
            if "table_of_jumps" in text:
                yield "table_of_jumps: .branchtargets there;"
            yield text
            yield "there:"
        case "argument":
            yield "    {"
            yield "    .param .align 16 .b8 passed[64];"
            yield text.replace("given", "passed")
            yield "    call taker, (passed);"
            yield "    }"
        case _:
            yield text


def _reader(name: str, at: int, specimen: Specimen) -> Iterator[Line]:
    """A function that reads its parameter, and a kernel that calls it."""
    yield f".func {name}_callee(.param .align 16 .b8 passed[64])", ()
    yield "{", ()
    yield from _declarations([(at, specimen)])
    yield f"    {specimen.text}", (at,)
    yield "    ret;", ()
    yield "}", ()
    yield f".visible .entry {name}()", ()
    yield "{", ()
    yield "    .param .align 16 .b8 passed[64];", ()
    yield f"    call {name}_callee, (passed);", ()
    yield "    ret;", ()
    yield "}", ()


def _declarations(members: Iterable[Member]) -> Iterator[Line]:
    """One line for each register file, which belongs to the specimens that use it."""
    users: dict[str, list[tuple[int, int]]] = {}
    for position, specimen in members:
        for file, number in specimen.registers:
            users.setdefault(file, []).append((number, position))
    for file, used in users.items():
        most = max(number for number, _ in used)
        yield f"    .reg .{_DECLARED[file]} %{file}<{most + 1}>;", tuple(at for _, at in used)


def chosen(forms: str | Iterable[str] | None) -> tuple[Specimen, ...]:
    """Specimens of a pattern (as of :func:`mmalab.isa.forms`), of opcodes, or of everything.

    Raises:
        UnknownForm: an opcode that the table does not describe.
        UsageError: a pattern that matches nothing.
    """
    if forms is None:
        return all_specimens()
    if isinstance(forms, str):
        keys = isa.forms(forms)
        if not keys and isa.nearest(forms):
            keys = [isa.find(forms).key]  # a spelling that no list names, or the error
        if not keys:
            raise UsageError(f"pattern {forms!r}", "matches no form", legal=isa.nearest(forms),
                             where="mmalab forms")
        forms = keys
    return tuple(dict.fromkeys(s for key in forms for s in specimens_of(key)))
