"""The truncated fused sum as vector code: a few rows against a vector of columns.

The specification shifts integers. The same cut falls out of floating arithmetic, at a fraction of
the work: with E known, multiply the exact product by 2^(F - E) and convert to an integer, which
truncates toward zero::

    E = max(exponents)               two operations for 4 (FP8), 2 (FP16) or 1 (TF32) products
    t_k = int(a_k * b_k * 2^(F-E))   multiply, multiply, convert; then one integer addition
    d = float toward zero(sum) * 2^(E-F)

Every step is exact, or cuts exactly what the adder cuts, as long as E lies in [-100, 120] and no
operand is Inf or NaN. Where a lane leaves that range the block is done again, in a cold path, by a
scalar integer version of the specification (:mod:`~mmalab.numerics.slow_ir`), so there is no input
for which the result differs. Accumulators travel as floats, FP16 ones too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mmalab import formats
from mmalab.numerics.decode_ir import Exponents, exponent_kind
from mmalab.numerics.ir import Emitter, bare, constant, double_hex, float_hex, vector
from mmalab.numerics.unit import Unit

__all__ = ["Block", "Operands", "fused_block", "instruction", "plan"]

#: E must stay inside for 2^(F-E) and 2^(E-F) to be normal floats.
_LOWEST, _HIGHEST = -100, 120


@dataclass(frozen=True, slots=True)
class Block:
    """Elements that are fused at once: their k, and which bytes of the packed exponents count
    ("all", or "low"/"high" halves where FP8 is rewritten to FP16)."""

    ks: tuple[int, ...]
    part: str = "all"


class Operands(Protocol):
    """Where decoded operands lie. `q` counts packed exponent words along K."""

    def a_value(self, out: Emitter, row: int, k: int) -> str:
        """A float (one lane)."""

    def b_value(self, out: Emitter, k: int) -> str:
        """A vector of floats."""

    def a_exponents(self, out: Emitter, row: int, q: int) -> str:
        """An i32 with packed exponents."""

    def b_exponents(self, out: Emitter, q: int) -> str:
        """A vector of i32 with packed exponents."""

    def redo(self, out: Emitter, block: int, row: int, c: str) -> str:
        """Call the slow function for a row; `c` and the result are vectors of floats."""


def plan(unit: Unit, k: int) -> list[Block]:
    """The fused blocks of one instruction, in order."""
    size = unit.block(k)
    if unit.algorithm == "rewrite":
        low = [i for i in range(k) if i % 4 < 2]
        high = [i for i in range(k) if i % 4 >= 2]
        return [Block(tuple(half[i : i + size]), part)
                for half, part in ((low, "low"), (high, "high"))
                for i in range(0, len(half), size)]
    return [Block(tuple(range(i, i + size))) for i in range(0, k, size)]


def instruction(out: Emitter, unit: Unit, k: int, width: int, rows: int, operands: Operands,
                c: Sequence[str]) -> list[str]:
    """One instruction on `rows` rows and `width` columns; c and the results are float vectors."""
    kind = vector(width, "float")
    rewrite = unit.algorithm == "rewrite"
    start = [bare(width, "float", "0.0")] * rows if rewrite else list(c)
    total = start
    for number, block in enumerate(plan(unit, k)):
        total = fused_block(out, unit, block, number, width, operands, total)
    if not rewrite:
        return total
    results = []
    for row in range(rows):
        added = out.binary("fadd", kind, c[row], total[row])
        if unit.acc == "f16":
            added = _to_half_and_back(out, added, width)
        nan = out.value(f"fcmp uno {kind} {added}, {added}")
        results.append(out.value(f"select {vector(width, 'i1')} {nan}, "
                                 f"{constant(width, 'float', float_hex(0x7FFFFFFF))}, "
                                 f"{kind} {added}"))
    return results


def fused_block(out: Emitter, unit: Unit, block: Block, number: int, width: int,
                operands: Operands, c: Sequence[str]) -> list[str]:
    """One block for all rows; falls back to the slow function where a lane is out of range."""
    kind, flags_kind = vector(width, "float"), vector(width, "i1")
    rows = range(len(c))
    tops = _largest(out, unit, block, width, operands, len(c))
    scales = [_scales(out, unit, width, tops[row], c[row]) for row in rows]
    sums = _sums(out, unit, block, width, operands, [one.down for one in scales])
    finished = [_finished(out, unit, block, width, sums[row], scales[row], c[row]) for row in rows]
    flags = finished[0][1]
    for _, more in finished[1:]:
        flags = out.binary("or", flags_kind, flags, more)
    alarm = out.call("i1", f"llvm.vector.reduce.or.v{width}i1", f"{flags_kind} {flags}")
    alarm = out.call("i1", "llvm.expect.i1", f"i1 {alarm}", "i1 false")
    name = out.fresh("block")
    out.do(f"br label %{name}.hot")
    out.label(f"{name}.hot")
    out.do(f"br i1 {alarm}, label %{name}.cold, label %{name}.done")
    out.label(f"{name}.cold")
    redone = [operands.redo(out, number, row, c[row]) for row in rows]
    out.do(f"br label %{name}.done")
    out.label(f"{name}.done")
    return [out.value(f"phi {kind} [ {result}, %{name}.hot ], [ {again}, %{name}.cold ]")
            for (result, _), again in zip(finished, redone, strict=True)]


def _largest(out: Emitter, unit: Unit, block: Block, width: int, operands: Operands,
             rows: int) -> list[str]:
    """The largest product exponent of each row and column: <width x i32> for each row."""
    packing = exponent_kind(unit.a)
    lanes = width * packing.per
    packed, word = vector(lanes, packing.element), vector(width, "i32")
    suffix = f"v{lanes}{packing.element}"
    tops = [""] * rows
    for q in sorted({k // packing.per for k in block.ks}):
        right = out.cast("bitcast", word, operands.b_exponents(out, q), packed)
        for row in range(rows):
            left = out.splat(width, "i32", operands.a_exponents(out, row, q))
            left = out.cast("bitcast", word, left, packed)
            if packing.per == 1:
                total = out.binary("add", packed, left, right)
            else:
                total = out.call(packed, f"llvm.sadd.sat.{suffix}", f"{packed} {left}",
                                 f"{packed} {right}")
            tops[row] = total if not tops[row] else out.call(
                packed, f"llvm.smax.{suffix}", f"{packed} {tops[row]}", f"{packed} {total}")
    return [_unpacked(out, packing, block.part, width, top) for top in tops]


def _unpacked(out: Emitter, packing: Exponents, part: str, width: int, packed: str) -> str:
    """The largest of the exponents packed in each 32-bit lane, as i32."""
    if packing.per == 1:
        return packed
    lanes = width * packing.per
    kind, word = vector(lanes, packing.element), vector(width, "i32")
    bits = 32 // packing.per

    def folded(shift: int) -> None:
        nonlocal packed
        wide = out.cast("bitcast", kind, packed, word)
        moved = out.binary("lshr", word, wide, bare(width, "i32", shift))
        moved = out.cast("bitcast", word, moved, kind)
        packed = out.call(kind, f"llvm.smax.v{lanes}{packing.element}", f"{kind} {packed}",
                          f"{kind} {moved}")

    if part == "high":
        wide = out.cast("bitcast", kind, packed, word)
        packed = out.cast("bitcast", word,
                          out.binary("lshr", word, wide, bare(width, "i32", 16)), kind)
    elif part == "all" and packing.per == 4:
        folded(16)
    folded(bits)
    wide = out.cast("bitcast", kind, packed, word)
    wide = out.binary("shl", word, wide, bare(width, "i32", 32 - bits))
    return out.binary("ashr", word, wide, bare(width, "i32", 32 - bits))


@dataclass(frozen=True, slots=True)
class _Scales:
    """2^(F-E) and 2^(E-F) as float vectors, lanes without a product, lanes out of range."""

    down: str
    up: str
    empty: str
    flags: str


def _scales(out: Emitter, unit: Unit, width: int, top: str, c: str) -> _Scales:
    """Bring c's exponent in and make the two scale factors."""
    word, flag, kind = vector(width, "i32"), vector(width, "i1"), vector(width, "float")
    packing = exponent_kind(unit.a)

    def compare(test: str, x: str, value: int) -> str:
        return out.value(f"icmp {test} {word} {x}, {bare(width, 'i32', value)}")

    bits = out.cast("bitcast", kind, c, word)
    field = out.binary("and", word, bits, bare(width, "i32", 0x7F800000))
    field = out.binary("lshr", word, field, bare(width, "i32", 23))
    start = out.binary("sub", word, field, bare(width, "i32", 127))
    empty = ""
    if unit.acc == "f16":
        # Accumulators are FP16 numbers: subnormals count from -14, zero from the unit's floor.
        start = out.call(word, f"llvm.smax.v{width}i32", f"{word} {start}",
                         constant(width, "i32", -14))
        zero = out.value(f"fcmp oeq {kind} {c}, {bare(width, 'float', '0.0')}")
        start = out.value(f"select {flag} {zero}, {constant(width, 'i32', unit.floor)}, "
                          f"{word} {start}")
    largest = out.call(word, f"llvm.smax.v{width}i32", f"{word} {top}", f"{word} {start}")
    flags = compare("sgt", largest, _HIGHEST)
    if packing.alarm < _HIGHEST:
        flags = out.binary("or", flag, flags, compare("sgt", top, packing.alarm))
    if unit.acc != "f16":
        # Without a product the result is c; 0 keeps the factors normal there.
        empty = compare("slt", top, packing.none)
        largest = out.value(f"select {flag} {empty}, {constant(width, 'i32', 0)}, {word} {largest}")
        if formats.get(unit.a).exponent_bits == 8:
            flags = out.binary("or", flag, flags, compare("slt", largest, _LOWEST))
    down = out.binary("sub", word, bare(width, "i32", 127 + unit.fraction), largest)
    down = out.binary("shl", word, down, bare(width, "i32", 23))
    up = out.binary("sub", word, bare(width, "i32", 254 << 23), down)
    return _Scales(out.cast("bitcast", word, down, kind), out.cast("bitcast", word, up, kind),
                   empty, flags)


def _sums(out: Emitter, unit: Unit, block: Block, width: int, operands: Operands,
          down: Sequence[str]) -> list[list[str]]:
    """The cut products of each row, added: one integer vector, or two where one would overflow."""
    word, kind = vector(width, "i32"), vector(width, "float")
    parts = 2 if len(block.ks) > 16 and unit.fraction > 20 else 1
    sums = [[""] * parts for _ in down]
    for i, k in enumerate(block.ks):
        column = operands.b_value(out, k)
        for row, scale in enumerate(down):
            left = out.splat(width, "float", operands.a_value(out, row, k))
            product = out.binary("fmul", kind, left, column)
            cut = out.cast("fptosi", kind, out.binary("fmul", kind, product, scale), word)
            held = sums[row][i % parts]
            sums[row][i % parts] = out.binary("add", word, held, cut) if held else cut
    return sums


def _finished(out: Emitter, unit: Unit, block: Block, width: int, sums: Sequence[str],
              scales: _Scales, c: str) -> tuple[str, str]:
    """c joins a row's sum, which is rounded: (result, lanes that must be done again)."""
    word, kind = vector(width, "i32"), vector(width, "float")
    carried = out.cast("fptosi", kind, out.binary("fmul", kind, c, scales.down), word)
    flags = scales.flags
    if len(block.ks) * 4 + 2 << unit.fraction >= 1 << 31:
        flags = _overflow(out, width, [*sums, carried], flags)
    total = carried
    for part in sums:
        total = out.binary("add", word, total, part)
    return _rounded(out, unit, block, width, total, scales, c), flags


def _overflow(out: Emitter, width: int, terms: Sequence[str], flags: str) -> str:
    """Flag the lanes whose sum may leave 31 bits, judged by floats with room to spare."""
    kind = vector(width, "float")
    estimate = ""
    for term in terms:
        real = out.cast("sitofp", vector(width, "i32"), term, kind)
        estimate = real if not estimate else out.binary("fadd", kind, estimate, real)
    size = out.call(kind, f"llvm.fabs.v{width}f32", f"{kind} {estimate}")
    limit = bare(width, "float", double_hex(1.5e9))
    beyond = out.value(f"fcmp ogt {kind} {size}, {limit}")
    return out.binary("or", vector(width, "i1"), flags, beyond)


def _rounded(out: Emitter, unit: Unit, block: Block, width: int, total: str, scales: _Scales,
             c: str) -> str:
    """The exact integer sum as the unit's result."""
    word, kind, flag = vector(width, "i32"), vector(width, "float"), vector(width, "i1")
    real = out.cast("sitofp", word, total, kind)
    if len(block.ks) * 4 + 2 << unit.fraction > 1 << 24:
        real = _toward_zero(out, width, total, real, odd=unit.acc == "f16")
    result = out.binary("fmul", kind, real, scales.up)
    if unit.acc == "f16":
        short = _to_half_and_back(out, result, width)
        return out.binary("fadd", kind, short, bare(width, "float", "0.0"))  # -0 becomes +0
    kept = out.binary("fadd", kind, c, bare(width, "float", "0.0"))  # -0 becomes +0
    result = out.value(f"select {flag} {scales.empty}, {kind} {kept}, {kind} {result}")
    if unit.rounding == "RZ-E8M13":
        bits = out.cast("bitcast", kind, result, word)
        bits = out.binary("and", word, bits, bare(width, "i32", -1024))
        result = out.cast("bitcast", word, bits, kind)
    return result


def _toward_zero(out: Emitter, width: int, total: str, real: str, *, odd: bool) -> str:
    """Turn a sum rounded to nearest into one cut toward zero; `odd` marks inexact ones in the
    last bit, so that rounding to FP16 afterwards is as if from the exact sum."""
    word, kind, flag = vector(width, "i32"), vector(width, "float"), vector(width, "i1")
    back = out.cast("fptosi", kind, real, word)

    def size(x: str) -> str:
        return out.call(word, f"llvm.abs.v{width}i32", f"{word} {x}", "i1 false")

    above = out.value(f"icmp sgt {word} {size(back)}, {size(total)}")
    bits = out.cast("bitcast", kind, real, word)
    bits = out.binary("add", word, bits, out.cast("sext", flag, above, word))
    if odd:
        inexact = out.value(f"icmp ne {word} {back}, {total}")
        bits = out.binary("or", word, bits, out.cast("zext", flag, inexact, word))
    return out.cast("bitcast", word, bits, kind)


def _to_half_and_back(out: Emitter, x: str, width: int) -> str:
    kind, half = vector(width, "float"), vector(width, "half")
    return out.cast("fpext", half, out.cast("fptrunc", kind, x, half), kind)
