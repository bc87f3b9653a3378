"""Fragment functions of the exact types: integers, single bits and FP64.

Integers are widened to i32 and multiplied; the sum of an instruction fits, so only its addition to
the accumulator wraps or clamps. Bits are joined and counted 32 at a time. FP64 is a chain of fused
multiply-adds, which the processor has; only the choice among several NaNs is NVIDIA's own and is
made in a cold path.
"""

from __future__ import annotations

from mmalab.isa.form import Fragment
from mmalab.numerics.fragment_places import COLUMNS, LANES
from mmalab.numerics.fragment_writer import Writer
from mmalab.numerics.ir import bare, vector

__all__ = ["Bits", "Double", "Integer"]


class Integer(Writer):
    """s8, u8, s4, u4: elements widened to i32, multiplied and added."""

    element = "i32"

    def decode(self) -> None:
        """%av[register][slot][lane] and %bv[k][column], widened."""
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
        """The sum of all k, then the accumulator."""
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


class Bits(Integer):
    """b1: population counts of whole register words."""

    def decode(self) -> None:
        """Bits stay packed."""
        self.transpose_b("i32")

    def compute(self, lane: str, c: list[str]) -> list[str]:
        """32 bits of K at a time."""
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


class Double(Writer):
    """FP64: one fused multiply-add per k."""

    register, element = "i64", "double"

    def decode(self) -> None:
        """A is read where it is."""
        self.transpose_b("double")
        self.out.do(f"%scratch = alloca {self.columns}, align 64")

    def compute(self, lane: str, c: list[str]) -> list[str]:
        """A fused multiply-add for each k, ascending."""
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
        """The cold path."""
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
