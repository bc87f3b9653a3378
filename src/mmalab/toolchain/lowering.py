"""What each matrix instruction of the PTX became: native, emulated, or a fallback.

The PTX name is not the arithmetic. ``mma ... e4m3 ... f32`` is one QMMA on sm_89 and sm_120a; on
sm_90a and sm_100a the assembler unpacks FP8 to FP16 and issues two HMMA and an FADD, which keeps
many more bits; the Volta shape m8n8k4 is a loop of FFMA everywhere since sm_80.

    native      a matrix opcode made for these types (perhaps several, of a smaller shape)
    emulated    matrix opcodes made for other types, and conversions around them
    fallback    no matrix opcode at all
    removed     nothing was left of it: its result is not used

The link from PTX to SASS is the line information that :func:`assemble` asks for; helper functions
that the assembler calls are followed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mmalab.errors import UsageError
from mmalab.ptx import parse
from mmalab.ptx.nodes import Instruction as PtxInstruction
from mmalab.toolchain.assembler import Cubin
from mmalab.toolchain.sass import Function, Instruction, Sass

__all__ = ["Lowering", "Verdict", "lowerings", "verdict"]

Verdict = Literal["native", "emulated", "fallback", "removed"]

#: PTX families that multiply matrices.
_WARPGROUP = "wgmma.mma_async"
_MATRIX_FAMILIES = ("mma.sync", "mma.sp", "wmma.mma", _WARPGROUP, "tcgen05.mma")

_HALF = ("HMMA", "HGMMA", "UTCHMMA")
_BYTE = ("QMMA", "OMMA", "QGMMA", "UTCQMMA", "UTCOMMA")
_INTEGER = ("IMMA", "IGMMA", "UTCIMMA")

#: Opcodes made for each PTX element type or tcgen05 kind.
_NATIVE: dict[str, tuple[str, ...]] = {
    "f16": _HALF, "bf16": _HALF, "tf32": _HALF, "ti16": _HALF,
    "e4m3": _BYTE, "e5m2": _BYTE, "e3m2": _BYTE, "e2m3": _BYTE, "e2m1": _BYTE,
    "f8f6f4": _BYTE, "mxf8f6f4": _BYTE, "mxf4": _BYTE, "mxf4nvf4": _BYTE,
    "s8": _INTEGER, "u8": _INTEGER, "i8": _INTEGER,
    "s4": _INTEGER, "u4": _INTEGER,
    "b1": ("BMMA", "BGMMA"), "f64": ("DMMA",),
}


@dataclass(frozen=True, slots=True)
class Lowering:
    """One PTX matrix instruction and the SASS it became.

    `sass` counts matrix opcodes with their modifiers, `others` all other opcodes of the same PTX
    line (unrolled copies of the line count once per copy). `why` says what decides.
    """

    line: int
    opcode: str
    verdict: Verdict
    why: str
    sass: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)


def lowerings(cubin: Cubin) -> tuple[Lowering, ...]:
    """Every matrix instruction of a cubin that :func:`assemble` made, in text order.

    Raises:
        UsageError: the cubin has no PTX with it (it was read from a file), or no line information.
    """
    if cubin.ptx is None:
        raise UsageError("a cubin from a file", "has no PTX to compare with",
                         legal="a cubin made by assemble(...)", where="mmalab.toolchain")
    wanted = [i for i in _instructions(cubin.ptx) if _element(i.opcode)]
    if not wanted:
        return ()
    if all(i.ptx_line is None for i in cubin.sass):
        raise UsageError("a cubin without line information",
                         "does not say which PTX line each instruction comes from",
                         legal="assemble(..., line_info=True)", where="mmalab.toolchain")
    by_line = _by_line(cubin.sass)
    by_order = _by_order(cubin.ptx, cubin.sass)
    # The assembler counts an instruction to the line of its semicolon.
    return tuple(_lowering(i, by_order[i.line] if i.line in by_order else by_line.get(
        i.line + i.text.count("\n"), ())) for i in wanted)


def verdict(opcode: str, sass: Iterable[Instruction]) -> tuple[Verdict, str]:
    """Judge one PTX opcode by the SASS that it became: the verdict, and why."""
    found = list(sass)
    matrix = [i for i in found if i.matrix]
    kind = _element(opcode)
    if not found:
        return "removed", "no instruction carries its line"
    if not matrix:
        words = Counter(i.opcode for i in found).most_common(3)
        return "fallback", "no matrix opcode: " + ", ".join(f"{n} {word}" for word, n in words)
    names = ", ".join(f"{n} {word}" for word, n in Counter(i.mnemonic for i in matrix).items())
    if any(not _made_for(kind, opcode, i) for i in matrix):
        return "emulated", f"{kind} through {names}"
    return "native", names


def _made_for(kind: str, ptx: str, instruction: Instruction) -> bool:
    if instruction.opcode not in _NATIVE[kind]:
        return False
    if kind in ("s4", "u4"):
        return not {"S4", "U4"}.isdisjoint(instruction.modifiers)
    if kind == "b1" and ".xor" in ptx:
        return "XOR" in instruction.modifiers
    return True


def _element(opcode: str) -> str:
    """The type of A (or the tcgen05 kind) of a PTX matrix instruction; empty for others."""
    if not opcode.startswith(_MATRIX_FAMILIES):
        return ""
    parts = opcode.replace("::", ".").split(".")
    if opcode.startswith("tcgen05"):
        return parts[parts.index("kind") + 1] if "kind" in parts else ""
    # The types are d, a, b and perhaps c; only wmma on f16 writes no more than d and c.
    types = [part for part in parts if part in _TYPES]
    return "f16" if len(types) == 2 else types[1] if len(types) > 2 else ""


#: What stands in the type list of an opcode, accumulators included.
_TYPES = frozenset(_NATIVE) - {"f8f6f4", "mxf8f6f4", "mxf4", "mxf4nvf4", "i8", "ti16"} | {
    "f32", "s32"}


def _instructions(text: str) -> Iterator[PtxInstruction]:
    for function in parse(text).functions:
        yield from function.instructions()


def _by_line(sass: Sass) -> dict[int, list[Instruction]]:
    """SASS by PTX line, calls into helper functions followed."""
    helpers = {(f.section, f.instructions[0].address): f
               for f in sass.functions if not f.entry and f.instructions}
    found: dict[int, list[Instruction]] = {}
    for function in sass.entries or sass.functions:
        for instruction in function.instructions:
            if instruction.ptx_line is not None:
                lines = found.setdefault(instruction.ptx_line, [])
                lines.append(instruction)
                lines.extend(_called(instruction, function.section, helpers, ()))
    return found


def _by_order(text: str, sass: Sass) -> dict[int, list[Instruction]]:
    """SASS of warpgroup products by PTX line: the assembler counts them to the line of their fence
    or of a descriptor's arithmetic, but keeps their order. Those of a function and shape are shared
    out evenly (an unrolled loop has several for each line)."""
    found: dict[int, list[Instruction]] = {}
    for function in parse(text).functions:
        home = sass.function(function.name)
        code = home.instructions if home is not None else sass.instructions  # else: inlined
        asked: dict[tuple[int, ...], list[PtxInstruction]] = {}
        for ptx in function.instructions():
            shape = re.search(r"\.m(\d+)n(\d+)k(\d+)\.", ptx.opcode)
            if ptx.opcode.startswith(_WARPGROUP) and shape is not None:
                asked.setdefault(tuple(map(int, shape.groups())), []).append(ptx)
        for key, members in asked.items():
            pool = [i for i in code if i.opcode.endswith("GMMA") and i.shape == key]
            for at, ptx in enumerate(members):
                first, last = (len(pool) * i // len(members) for i in (at, at + 1))
                found[ptx.line] = pool[first:last]
    return found


def _called(instruction: Instruction, section: str, helpers: dict[tuple[str, int], Function],
            path: Sequence[str]) -> Iterator[Instruction]:
    if instruction.opcode != "CALL" or instruction.target is None:
        return
    helper = helpers.get((section, instruction.target))
    if helper is None or helper.name in path:
        return
    for inner in helper.instructions:
        yield inner
        yield from _called(inner, section, helpers, (*path, helper.name))


def _lowering(ptx: PtxInstruction, sass: Sequence[Instruction]) -> Lowering:
    judged, why = verdict(ptx.opcode, sass)
    return Lowering(ptx.line, ptx.opcode, judged, why,
                    Counter(i.mnemonic for i in sass if i.matrix),
                    Counter(i.opcode for i in sass if not i.matrix))
