"""Matrix instructions on registers as LLVM functions, for the compiled emulator.

`fragment_ir` gives the text of one function

    void NAME(ptr d, ptr a, ptr b, ptr c)

whose pointers point at the operands' registers, rows of 32 lanes: ``[register][32] x i32`` (x i64
for FP64). d may overlap any of the others. The function computes the whole warp's instruction, bit
for bit as :func:`mmalab.numerics.fragment_mma` does (``mode="fast"``: with float32 products and
sums instead, which is approximate in order and rounding, and has IEEE NaNs).

How it works: the registers of A are decoded where they stand, lane by lane; B's are transposed, so
that the 8 columns of one k make a vector; then four rows at a time meet each column vector. Every
place is taken from the form's fragments. What has no generator (sparse, block-scaled and m8n8k4
forms, directed roundings of FP64) raises UnsupportedInstruction; `fragment_mma` serves those.
"""

from __future__ import annotations

import re
from functools import lru_cache

from mmalab.errors import UnsupportedInstruction, UsageError
from mmalab.isa.form import Form, Fragment
from mmalab.numerics import native
from mmalab.numerics.decode_ir import exponent_kind, exponents, values
from mmalab.numerics.fragment_exact_ir import Bits, Double, Integer
from mmalab.numerics.fragment_places import COLUMNS, LANES, Places, places_of
from mmalab.numerics.fragment_writer import Writer
from mmalab.numerics.fused_ir import instruction, plan
from mmalab.numerics.ir import Emitter, vector
from mmalab.numerics.slow_ir import slow_function
from mmalab.numerics.unit import Unit

__all__ = ["fragment_ir", "has_fragment_ir"]


def has_fragment_ir(unit: Unit, form: Form) -> bool:
    """Whether :func:`fragment_ir` has code for it."""
    return _problem(unit, form) == ""


def _problem(unit: Unit, form: Form) -> str:
    if form.sparsity is not None or unit.scale:
        return "sparse and block-scaled forms have no generator"
    if unit.algorithm == "ffma" or (unit.algorithm == "fma" and unit.variant != "rn"):
        return "no generator for this arithmetic"
    if not form.fragments or form.fragments["C"].type != unit.acc:
        return "C and D differ in type"
    if places_of(form) is None:
        return "its fragments are not quads of rows and columns"
    if unit.algorithm in ("tfs", "rewrite") and not native.processor().converts_halves:
        return "this processor does not convert FP16 numbers"
    return ""


def fragment_ir(unit: Unit, form: Form, *, mode: str = "exact") -> tuple[str, str]:
    """The name and the IR text of the function for one form under one unit.

    The text is a whole module: every name in it begins with the function's, so that it can be
    pasted into another module, or compiled by itself and bound by address.

    Raises:
        UnsupportedInstruction: there is no generator for it.
        UsageError: `mode` is neither "exact" nor "fast".
    """
    if mode not in ("exact", "fast"):
        raise UsageError(f"mode {mode!r}", "says how products are summed", legal=["exact", "fast"],
                         where="mmalab.numerics")
    problem = _problem(unit, form)
    if problem:
        raise UnsupportedInstruction(f"{form.key} as {unit.name}", problem,
                                     legal="mmalab.numerics.fragment_mma")
    m, n, k = form.shape or (0, 0, 0)
    fast = mode == "fast" and unit.algorithm in ("tfs", "rewrite")
    plain = re.sub(r"\W", "_", unit.name)
    name = f"mma_{plain}_m{m}n{n}k{k}" + ("_fast" if fast else "")
    frags = tuple(form.fragments[role] for role in "ABD")
    return name, _text(name, unit, frags, k, fast)


@lru_cache(maxsize=256)
def _text(name: str, unit: Unit, frags: tuple[Fragment, ...], k: int, fast: bool) -> str:
    places = Places(*frags)
    writer = _Fast if fast else _WRITERS[unit.algorithm]
    return writer(name, unit, places, k).text()


class _Fused(Writer):
    """Floating types: values and packed exponents, then fused blocks."""

    def decode(self) -> None:
        self.decode_values(packed=True)

    def decode_values(self, *, packed: bool) -> None:
        """%av[register][slot][lane], %ae[register][lane], %bv[k][column], %be[k word][column]."""
        out, a, b = self.out, self.places.a, self.places.b
        out.do(f"%av = alloca [{a.registers * a.per * LANES} x float], align 64")
        out.do(f"%ae = alloca [{a.registers * LANES} x i32], align 64")
        out.do(f"%bv = alloca [{b.registers * b.per * LANES} x float], align 64")
        out.do(f"%be = alloca [{b.registers * LANES} x i32], align 64")
        out.do(f"%scratch = alloca {vector(COLUMNS, 'float')}, align 64")
        self.transpose_b("i32")
        for role, fragment, source in (("a", a.fragment, "%a"), ("b", b.fragment, "%bt")):
            with out.loop(fragment.registers * 4) as loop:
                at = out.value(f"mul i64 {loop.index}, 8")
                words = out.load(vector(8, "i32"), out.at(source, at, "i32"))
                self.decode_eight(role, fragment, loop.index, at, words, packed=packed)

    def decode_eight(self, role: str, fragment: Fragment, index: str, at: str, words: str, *,
                     packed: bool) -> None:
        """Eight register words: lanes of one register of A, columns of one k word of B."""
        out, type_name, per = self.out, fragment.type, 32 // fragment.bits
        if packed:
            packing = exponent_kind(type_name)
            lanes = vector(8 * packing.per, packing.element)
            short = exponents(
                out, type_name, out.cast("bitcast", vector(8, "i32"), words, lanes),
                8 * packing.per, packing.element, lsb=fragment.element_lsb,
                normalised=self.unit.algorithm == "rewrite")
            out.store(lanes, short, out.at(f"%{role}e", at, "i32"))
        if role == "a":  # index = register * 4 + lane / 8
            register = out.value(f"lshr i64 {index}, 2")
            lane = out.value(f"and i64 {at}, {LANES - 1}")
            base = out.binary("add", "i64", out.value(f"mul i64 {register}, {per * LANES}"), lane)
            stride = LANES
        else:
            base, stride = out.value(f"mul i64 {at}, {per}"), COLUMNS
        first = out.at(f"%{role}v", base, "float")
        for slot in range(per):
            real = values(out, type_name, self.element_words(words, slot, fragment), 8)
            out.store(vector(8, "float"), real, out.at(first, slot * stride, "float"))

    def compute(self, lane: str, c: list[str]) -> list[str]:
        here = _GroupOperands(self, lane)
        return instruction(self.out, self.unit, self.k, COLUMNS, len(c), here, c)

    def extra(self) -> list[str]:
        lines = []
        packing = exponent_kind(self.unit.a)
        for number, block in enumerate(plan(self.unit, self.k)):
            lines.append(slow_function(f"{self.name}.slow{number}", self.unit, COLUMNS,
                                       len(block.ks)))
            table = [
                *(self.places.a_step(k) for k in block.ks),
                *(self.places.a_word_step(k) * 4 + k % packing.per * packing.bytes
                  for k in block.ks),
                *(k * COLUMNS for k in block.ks),
                *(k // packing.per * COLUMNS * 4 + k % packing.per * packing.bytes
                  for k in block.ks),
            ]
            body = ", ".join(f"i32 {entry}" for entry in table)
            lines.append(f"@{self.name}.places{number} = internal constant "
                         f"[{len(table)} x i32] [{body}]")
        return lines


class _GroupOperands:
    """Operands of the rows of one group (see fused_ir.Operands)."""

    def __init__(self, writer: _Fused, lane: str) -> None:
        self.writer, self.places = writer, writer.places
        out, rows = writer.out, range(len(writer.places.group))
        base_v, base_e = out.at("%av", lane, "float"), out.at("%ae", lane, "i32")
        self.av = [out.at(base_v, self.places.a_row(row), "float") for row in rows]
        self.ae = [out.at(base_e, self.places.a_word_row(row), "i32") for row in rows]

    def a_value(self, out: Emitter, row: int, k: int) -> str:
        return out.load("float", out.at(self.av[row], self.places.a_step(k), "float"))

    def b_value(self, out: Emitter, k: int) -> str:
        return out.load(vector(COLUMNS, "float"), out.at("%bv", k * COLUMNS, "float"))

    def a_exponents(self, out: Emitter, row: int, q: int) -> str:
        step = self.places.a_word_step(q * self.places.a.per)
        return out.load("i32", out.at(self.ae[row], step, "i32"))

    def b_exponents(self, out: Emitter, q: int) -> str:
        return out.load(vector(COLUMNS, "i32"), out.at("%be", q * COLUMNS, "i32"))

    def redo(self, out: Emitter, block: int, row: int, c: str) -> str:
        kind, name = vector(COLUMNS, "float"), self.writer.name
        out.store(kind, c, "%scratch")
        out.do(f"call void @{name}.slow{block}(ptr %scratch, ptr {self.av[row]}, "
               f"ptr {self.ae[row]}, ptr %bv, ptr %be, ptr @{name}.places{block})")
        return out.load(kind, "%scratch")


class _Fast(_Fused):
    """Float32 products and sums, one after the other in ascending k."""

    def decode(self) -> None:
        self.decode_values(packed=False)

    def compute(self, lane: str, c: list[str]) -> list[str]:
        out, here = self.out, _GroupOperands(self, lane)
        for k in range(self.k):
            column = here.b_value(out, k)
            for row in range(len(c)):
                left = out.splat(COLUMNS, "float", here.a_value(out, row, k))
                c[row] = out.call(self.columns, f"llvm.fmuladd.v{COLUMNS}f32",
                                  f"{self.columns} {left}", f"{self.columns} {column}",
                                  f"{self.columns} {c[row]}")
        return c

    def extra(self) -> list[str]:
        return []


_WRITERS: dict[str, type[Writer]] = {
    "tfs": _Fused, "rewrite": _Fused, "integer": Integer, "bits": Bits, "fma": Double,
}
