"""Matrix instructions on registers as LLVM functions, for the compiled emulator.

`fragment_ir` gives the text of one function

    void NAME(ptr d, ptr a, ptr b, ptr c)

whose pointers point at the operands' registers, rows of 32 lanes: ``[register][32] x i32`` (x i64
for FP64). d may overlap any of the others. The function computes the whole warp's instruction, bit
for bit as :func:`mmalab.numerics.fragment_mma` does (``fast=True``: with float32 products and sums
instead, which is approximate in order and rounding, and has IEEE NaNs).

How it works: the registers of A are decoded where they stand, lane by lane; B's are transposed, so
that the 8 columns of one k make a vector; then four rows at a time meet each column vector. Every
place is taken from the form's fragments. What has no generator (sparse, block-scaled and m8n8k4
forms, directed roundings of FP64) raises UnsupportedInstruction; `fragment_mma` serves those.
"""

from __future__ import annotations

import re
from functools import lru_cache

from mmalab.errors import UnsupportedInstruction
from mmalab.isa.form import Form, Fragment
from mmalab.numerics.decode_ir import exponent_kind, exponents, values
from mmalab.numerics.fragment_places import COLUMNS, LANES, Places, places_of
from mmalab.numerics.fused_ir import instruction, plan, slow_function
from mmalab.numerics.ir import Emitter, bare, vector
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
    return ""


def fragment_ir(unit: Unit, form: Form, *, fast: bool = False) -> tuple[str, str]:
    """The name and the IR text of the function for one form under one unit.

    Raises:
        UnsupportedInstruction: there is no generator for it.
    """
    problem = _problem(unit, form)
    if problem:
        raise UnsupportedInstruction(f"{form.key} as {unit.name}", problem,
                                     legal="mmalab.numerics.fragment_mma")
    m, n, k = form.shape or (0, 0, 0)
    fast = fast and unit.algorithm in ("tfs", "rewrite")
    plain = re.sub(r"\W", "_", unit.name)
    name = f"mma_{plain}_m{m}n{n}k{k}" + ("_fast" if fast else "")
    frags = tuple(form.fragments[role] for role in "ABD")
    return name, _text(name, unit, frags, k, fast)


@lru_cache(maxsize=256)
def _text(name: str, unit: Unit, frags: tuple[Fragment, ...], k: int, fast: bool) -> str:
    places = Places(*frags)
    writer = {"tfs": _Fused, "rewrite": _Fused, "integer": _Integer, "bits": _Bits,
              "fma": _Double}[unit.algorithm]
    return (_Fast if fast else writer)(name, unit, places, k).text()


class _Writer:
    """One function; subclasses say how operands are decoded and a group of rows is computed."""

    #: LLVM type of accumulators in registers, and of an element in the arithmetic.
    register, element = "i32", "float"

    def __init__(self, name: str, unit: Unit, places: Places, k: int) -> None:
        self.name, self.unit, self.places, self.k = name, unit, places, k
        self.out = Emitter()
        self.half = unit.acc == "f16"
        self.columns = vector(COLUMNS, self.element)

    def text(self) -> str:
        """The module text: the function and what it needs."""
        out, places = self.out, self.places
        registers = places.d.registers
        out.do(f"%dd = alloca [{registers * LANES} x {self.register}], align 64")
        self.decode()
        rows = len(places.group)
        with out.loop(places.groups) as loop:
            lane = out.value(f"mul i64 {loop.index}, {places.group_lanes}")
            c = [self.load_c("%c", row, lane) for row in range(rows)]
            for row, d in enumerate(self.compute(lane, c)):
                self.store_d(row, lane, d)
        with out.loop(registers * 4) as loop:
            at = out.value(f"mul i64 {loop.index}, 8")
            kind = vector(8, self.register)
            piece = out.load(kind, out.at("%dd", at, self.register), 8)
            out.store(kind, piece, out.at("%d", at, self.register))
        head = f"define void @{self.name}(ptr %d, ptr %a, ptr %b, ptr %c) noinline {{"
        return "\n".join([head, "entry:", *out.lines, "  ret void", "}", *self.extra()])

    def extra(self) -> list[str]:
        """Further definitions."""
        return []

    def decode(self) -> None:
        """Bring A and B into scratch memory."""
        raise NotImplementedError

    def compute(self, lane: str, c: list[str]) -> list[str]:
        """A group of rows; `lane` is the group's first lane (an i64)."""
        raise NotImplementedError

    # --- accumulators: even and odd columns lie in neighbouring registers (FP16: in one) ---------

    def load_c(self, pointer: str, row: int, lane: str) -> str:
        """A row of 8 accumulators."""
        out, places = self.out, self.places
        if self.half:
            at = out.at(out.at(pointer, places.d_offset(row, 0), "i32"), lane, "i32")
            words = out.load(vector(4, "i32"), at)
            real = out.cast("bitcast", vector(4, "i32"), words, vector(8, "half"))
            return out.cast("fpext", vector(8, "half"), real, self.columns)
        kind = vector(4, self.element)
        pair = []
        for odd in (0, 1):
            at = out.at(pointer, places.d_offset(row, odd), self.register)
            pair.append(out.load(kind, out.at(at, lane, self.register)))
        return out.shuffle(kind, pair[0], pair[1], [0, 4, 1, 5, 2, 6, 3, 7])

    def store_d(self, row: int, lane: str, d: str) -> None:
        """The inverse of `load_c`, into the scratch copy of D."""
        out, places = self.out, self.places
        if self.half:
            real = out.cast("fptrunc", self.columns, d, vector(8, "half"))
            words = out.cast("bitcast", vector(8, "half"), real, vector(4, "i32"))
            at = out.at(out.at("%dd", places.d_offset(row, 0), "i32"), lane, "i32")
            out.store(vector(4, "i32"), words, at)
            return
        kind = vector(4, self.element)
        for odd in (0, 1):
            part = out.shuffle(self.columns, d, d, [odd, 2 + odd, 4 + odd, 6 + odd])
            at = out.at("%dd", places.d_offset(row, odd), self.register)
            out.store(kind, part, out.at(at, lane, self.register))

    # --- operands ---------------------------------------------------------------------------------

    def transpose_b(self, word: str) -> None:
        """%bt[k word][8 columns] from the registers of B; k words are (register, lane of quad)."""
        out, registers = self.out, self.places.b.registers
        out.do(f"%bt = alloca [{registers * LANES} x {word}], align 64")
        wide = vector(LANES, word)
        with out.loop(registers) as loop:
            at = out.value(f"mul i64 {loop.index}, {LANES}")
            row = out.load(wide, out.at("%b", at, word))
            for quad in range(4):
                part = out.shuffle(wide, row, row, [quad + 4 * n for n in range(COLUMNS)])
                target = out.at(out.at("%bt", at, word), quad * COLUMNS, word)
                out.store(vector(COLUMNS, word), part, target, 8)

    def element_words(self, words: str, slot: int, fragment: Fragment) -> str:
        """Element `slot` of each of 8 register words, zero-extended in its lane."""
        out, kind = self.out, vector(8, "i32")
        down = slot * fragment.bits + fragment.element_lsb
        if down:
            words = out.binary("lshr", kind, words, bare(8, "i32", down))
        if fragment.bits == 32:
            return words
        width = fragment.bits - fragment.element_lsb
        return out.binary("and", kind, words, bare(8, "i32", (1 << width) - 1))


class _Fused(_Writer):
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


class _Integer(_Writer):
    """s8, u8, s4, u4: elements widened to i32, multiplied and added."""

    element = "i32"

    def decode(self) -> None:
        out, a, b = self.out, self.places.a, self.places.b
        out.do(f"%av = alloca [{a.registers * a.per * LANES} x i32], align 64")
        out.do(f"%bv = alloca [{b.registers * b.per * LANES} x i32], align 64")
        self.transpose_b("i32")
        for role, side, source in (("a", a, "%a"), ("b", b, "%bt")):
            with out.loop(side.registers * 4) as loop:
                at = out.value(f"mul i64 {loop.index}, 8")
                words = out.load(vector(8, "i32"), out.at(source, at, "i32"))
                if role == "a":
                    register = out.value(f"lshr i64 {loop.index}, 2")
                    base = out.binary("add", "i64",
                                      out.value(f"mul i64 {register}, {side.per * LANES}"),
                                      out.value(f"and i64 {at}, {LANES - 1}"))
                else:
                    base = out.value(f"mul i64 {at}, {side.per}")
                first = out.at(f"%{role}v", base, "i32")
                stride = LANES if role == "a" else COLUMNS
                for slot in range(side.per):
                    out.store(vector(8, "i32"), self.widened(words, slot, side.fragment),
                              out.at(first, slot * stride, "i32"))

    def widened(self, words: str, slot: int, fragment: Fragment) -> str:
        """Element `slot` of 8 words as signed or unsigned i32."""
        out, kind, bits = self.out, vector(8, "i32"), fragment.bits
        up = out.binary("shl", kind, words, bare(8, "i32", 32 - bits * (slot + 1)))
        shift = "ashr" if fragment.type[0] == "s" else "lshr"
        return out.binary(shift, kind, up, bare(8, "i32", 32 - bits))

    def compute(self, lane: str, c: list[str]) -> list[str]:
        out, places, kind = self.out, self.places, self.columns
        base = out.at("%av", lane, "i32")
        rows = [out.at(base, places.a_row(row), "i32") for row in range(len(c))]
        sums = [bare(COLUMNS, "i32", 0)] * len(c)
        for k in range(self.k):
            column = out.load(kind, out.at("%bv", k * COLUMNS, "i32"))
            for row in range(len(c)):
                one = out.load("i32", out.at(rows[row], places.a_step(k), "i32"))
                term = out.binary("mul", kind, out.splat(COLUMNS, "i32", one), column)
                sums[row] = out.binary("add", kind, sums[row], term)
        return [self.added(first, total) for first, total in zip(c, sums, strict=True)]

    def added(self, c: str, total: str) -> str:
        """The exact sum joins c: modulo 2^32, or clamped."""
        kind = self.columns
        if self.unit.saturate:
            return self.out.call(kind, f"llvm.sadd.sat.v{COLUMNS}i32", f"{kind} {c}",
                                 f"{kind} {total}")
        return self.out.binary("add", kind, c, total)


class _Bits(_Integer):
    """b1: population counts of whole register words."""

    def decode(self) -> None:
        self.transpose_b("i32")

    def compute(self, lane: str, c: list[str]) -> list[str]:
        out, places, kind = self.out, self.places, self.columns
        base = out.at("%a", lane, "i32")
        for q in range(self.k // 32):
            column = out.load(kind, out.at("%bt", q * COLUMNS, "i32"))
            for row in range(len(c)):
                at = out.at(base, places.a_word_row(row) + places.a_word_step(32 * q), "i32")
                one = out.splat(COLUMNS, "i32", out.load("i32", at))
                joined = out.binary(self.unit.variant, kind, one, column)
                count = out.call(kind, f"llvm.ctpop.v{COLUMNS}i32", f"{kind} {joined}")
                c[row] = out.binary("add", kind, c[row], count)
        return c


class _Double(_Writer):
    """FP64: one fused multiply-add per k."""

    register, element = "i64", "double"

    def decode(self) -> None:
        self.transpose_b("double")
        self.out.do(f"%scratch = alloca {self.columns}, align 64")

    def compute(self, lane: str, c: list[str]) -> list[str]:
        out, places, kind = self.out, self.places, self.columns
        base, start = out.at("%a", lane, "double"), list(c)
        for k in range(self.k):
            column = out.load(kind, out.at("%bt", k * COLUMNS, "double"))
            for row in range(len(c)):
                at = out.at(base, places.a_word_row(row) + places.a_word_step(k), "double")
                one = out.splat(COLUMNS, "double", out.load("double", at))
                c[row] = out.call(kind, f"llvm.fma.v{COLUMNS}f64", f"{kind} {one}",
                                  f"{kind} {column}", f"{kind} {c[row]}")
        return self.with_nan(base, start, c)

    def with_nan(self, base: str, start: list[str], c: list[str]) -> list[str]:
        """Where a result is NaN its row is done again, with the chip's choice among NaNs."""
        out, places, kind = self.out, self.places, self.columns
        flags = ""
        for total in c:
            bad = out.value(f"fcmp uno {kind} {total}, {total}")
            flags = bad if not flags else out.binary("or", vector(COLUMNS, "i1"), flags, bad)
        alarm = out.call("i1", f"llvm.vector.reduce.or.v{COLUMNS}i1",
                         f"{vector(COLUMNS, 'i1')} {flags}")
        name = out.fresh("nan")
        out.do(f"br label %{name}.hot")
        out.label(f"{name}.hot")
        out.do(f"br i1 {alarm}, label %{name}.cold, label %{name}.done")
        out.label(f"{name}.cold")
        redone = []
        for row, first in enumerate(start):
            out.store(kind, first, "%scratch")
            out.do(f"call void @{self.name}.slow(ptr %scratch, "
                   f"ptr {out.at(base, places.a_word_row(row), 'double')}, ptr %bt)")
            redone.append(out.load(kind, "%scratch"))
        out.do(f"br label %{name}.done")
        out.label(f"{name}.done")
        return [out.value(f"phi {kind} [ {hot}, %{name}.hot ], [ {cold}, %{name}.cold ]")
                for hot, cold in zip(c, redone, strict=True)]

    def extra(self) -> list[str]:
        steps = ", ".join(f"i32 {self.places.a_word_step(k)}" for k in range(self.k))
        text = _SLOW_DOUBLE
        for key, value in {"NAME": self.name, "K": self.k, "N": COLUMNS, "STEPS": steps}.items():
            text = text.replace(f"@{key}@", str(value))
        return [text]


#: One row in scalars. Of several NaNs b's is kept, else the accumulator's, else a's, made quiet.
_SLOW_DOUBLE = """
@@NAME@.steps = internal constant [@K@ x i32] [@STEPS@]

define internal void @@NAME@.slow(ptr %c, ptr %a, ptr %bt) noinline cold {
entry:
  br label %lane
lane:
  %j = phi i64 [ 0, %entry ], [ %j1, %next ]
  %cp = getelementptr double, ptr %c, i64 %j
  %first = load double, ptr %cp, align 8
  br label %step
step:
  %k = phi i64 [ 0, %lane ], [ %k1, %step ]
  %sum = phi double [ %first, %lane ], [ %sum1, %step ]
  %sp = getelementptr i32, ptr @@NAME@.steps, i64 %k
  %s = load i32, ptr %sp
  %ap = getelementptr double, ptr %a, i32 %s
  %x = load double, ptr %ap, align 4
  %bk = mul i64 %k, @N@
  %bi = add i64 %bk, %j
  %bp = getelementptr double, ptr %bt, i64 %bi
  %y = load double, ptr %bp, align 8
  %exact = call double @llvm.fma.f64(double %x, double %y, double %sum)
  %bad = fcmp uno double %exact, %exact
  %xbad = fcmp uno double %x, %x
  %ybad = fcmp uno double %y, %y
  %sbad = fcmp uno double %sum, %sum
  %pick0 = select i1 %xbad, double %x, double 0xFFF8000000000000
  %pick1 = select i1 %sbad, double %sum, double %pick0
  %pick2 = select i1 %ybad, double %y, double %pick1
  %bits = bitcast double %pick2 to i64
  %quiet = or i64 %bits, 2251799813685248
  %nan = bitcast i64 %quiet to double
  %sum1 = select i1 %bad, double %nan, double %exact
  %k1 = add i64 %k, 1
  %more = icmp ult i64 %k1, @K@
  br i1 %more, label %step, label %next
next:
  store double %sum1, ptr %cp, align 8
  %j1 = add i64 %j, 1
  %lanes = icmp ult i64 %j1, @N@
  br i1 %lanes, label %lane, label %end
end:
  ret void
}
"""
