"""The cold path of compiled sums: the specification again, in scalar integers.

The vector code hands over the lanes of a block in which an operand is NaN or Inf, the largest
exponent is outside what floats can scale by, or a sum might overflow. Here each lane is done as
:func:`mmalab.numerics.accumulate.tfs` does it: exact products (as doubles), the largest encoding
exponent, truncation of each term to an i64, one rounding. It is text with holes, since nothing in
it depends on the vectors around it.
"""

from __future__ import annotations

from mmalab.numerics.decode_ir import exponent_kind
from mmalab.numerics.ir import double_hex, float_hex
from mmalab.numerics.unit import Unit

__all__ = ["slow_function"]


def slow_function(name: str, unit: Unit, width: int, size: int) -> str:
    """The specification in scalar integers: ``void name(c, av, ae, bv, be, places)``.

    `c` points at `width` floats, updated in place; the others at the decoded operands of the row
    and of the columns; `places` at four tables of `size` i32: element offsets of a's values, byte
    offsets of a's exponents, and the same of the first column of b, whose columns lie side by side.
    """
    packing = exponent_kind(unit.a)
    half = unit.acc == "f16"
    finish = _SLOW_HALF if half else _SLOW_SINGLE
    text = _SLOW.replace("@FINISH@", finish)
    for key, value in {
        "NAME": name, "SIZE": size, "SIZE2": 2 * size, "SIZE3": 3 * size, "WIDTH": width,
        "E": packing.element, "FLOOR": unit.floor, "LOW": -14 if half else -126,
        "F": unit.fraction, "INF": float_hex(0x7F800000), "NINF": float_hex(0xFF800000),
        "NAN": float_hex(0x7FFFFFFF), "DINF": double_hex(float("inf")),
        "DNINF": double_hex(float("-inf")),
        "MASK": -1024 if unit.rounding == "RZ-E8M13" else -1,
    }.items():
        text = text.replace(f"@{key}@", str(value))
    if packing.element == "i32":
        text = text.replace("sext i32 %xa to i32", "add i32 %xa, 0").replace(
            "sext i32 %xb to i32", "add i32 %xb, 0")
    return text


_SLOW = """
define internal void @@NAME@(ptr %c, ptr %av, ptr %ae, ptr %bv, ptr %be, ptr %places)
    noinline cold {
entry:
  br label %lane
lane:
  %j = phi i64 [ 0, %entry ], [ %j1, %stored ]
  %cp = getelementptr float, ptr %c, i64 %j
  %cf = load float, ptr %cp
  %cd = fpext float %cf to double
  %cbits = bitcast float %cf to i32
  %cfield0 = lshr i32 %cbits, 23
  %cfield = and i32 %cfield0, 255
  %cexp0 = sub i32 %cfield, 127
  %cexp = call i32 @llvm.smax.i32(i32 %cexp0, i32 @LOW@)
  %czero = fcmp oeq double %cd, 0.0
  %first = select i1 %czero, i32 @FLOOR@, i32 %cexp
  %cnan = fcmp uno double %cd, %cd
  %cpos = fcmp oeq double %cd, @DINF@
  %cneg = fcmp oeq double %cd, @DNINF@
  br label %scan
scan:
  %k = phi i64 [ 0, %lane ], [ %k1, %scan ]
  %top = phi i32 [ %first, %lane ], [ %top1, %scan ]
  %nan = phi i1 [ %cnan, %lane ], [ %nan1, %scan ]
  %pos = phi i1 [ %cpos, %lane ], [ %pos1, %scan ]
  %neg = phi i1 [ %cneg, %lane ], [ %neg1, %scan ]
  %p = call double @@NAME@.product(ptr %av, ptr %bv, ptr %places, i64 %k, i64 %j)
  %pa = getelementptr i32, ptr %places, i64 %k
  %pae = getelementptr i32, ptr %pa, i64 @SIZE@
  %oae = load i32, ptr %pae
  %qae = getelementptr i8, ptr %ae, i32 %oae
  %xa = load @E@, ptr %qae
  %pbe = getelementptr i32, ptr %pa, i64 @SIZE3@
  %obe = load i32, ptr %pbe
  %qbe0 = getelementptr i8, ptr %be, i32 %obe
  %qbe = getelementptr i32, ptr %qbe0, i64 %j
  %xb = load @E@, ptr %qbe
  %ea = sext @E@ %xa to i32
  %eb = sext @E@ %xb to i32
  %e = add i32 %ea, %eb
  %some = fcmp une double %p, 0.0
  %higher = call i32 @llvm.smax.i32(i32 %top, i32 %e)
  %top1 = select i1 %some, i32 %higher, i32 %top
  %isnan = fcmp uno double %p, %p
  %ispos = fcmp oeq double %p, @DINF@
  %isneg = fcmp oeq double %p, @DNINF@
  %nan1 = or i1 %nan, %isnan
  %pos1 = or i1 %pos, %ispos
  %neg1 = or i1 %neg, %isneg
  %k1 = add i64 %k, 1
  %more = icmp ult i64 %k1, @SIZE@
  br i1 %more, label %scan, label %judge
judge:
  %clash = and i1 %pos1, %neg1
  %bad = or i1 %nan1, %clash
  %inf = or i1 %pos1, %neg1
  %special = or i1 %bad, %inf
  %signed = select i1 %pos1, float @INF@, float @NINF@
  %sresult = select i1 %bad, float @NAN@, float %signed
  %grid = sub i32 %top1, @F@
  %down0 = sub i32 1023, %grid
  %down1 = zext i32 %down0 to i64
  %down2 = shl i64 %down1, 52
  %down = bitcast i64 %down2 to double
  br i1 %special, label %stored, label %start
start:
  %cscaled = fmul double %cd, %down
  %ccut = fptosi double %cscaled to i64
  br label %add
add:
  %n = phi i64 [ 0, %start ], [ %n1, %add ]
  %sum = phi i64 [ %ccut, %start ], [ %sum1, %add ]
  %t = call double @@NAME@.product(ptr %av, ptr %bv, ptr %places, i64 %n, i64 %j)
  %tscaled = fmul double %t, %down
  %tcut = fptosi double %tscaled to i64
  %sum1 = add i64 %sum, %tcut
  %n1 = add i64 %n, 1
  %again = icmp ult i64 %n1, @SIZE@
  br i1 %again, label %add, label %finish
finish:
  %m = call i64 @llvm.abs.i64(i64 %sum1, i1 false)
  %minus = icmp slt i64 %sum1, 0
  %lead = call i64 @llvm.ctlz.i64(i64 %m, i1 false)
  %lead32 = trunc i64 %lead to i32
  %bit = sub i32 63, %lead32
  %exp0 = add i32 %bit, %grid
@FINISH@
  br label %stored
stored:
  %result = phi float [ %sresult, %judge ], [ %fresult, %finish ]
  store float %result, ptr %cp
  %j1 = add i64 %j, 1
  %lanes = icmp ult i64 %j1, @WIDTH@
  br i1 %lanes, label %lane, label %end
end:
  ret void
}

define internal double @@NAME@.product(ptr %av, ptr %bv, ptr %places, i64 %k, i64 %j) alwaysinline {
  %pa = getelementptr i32, ptr %places, i64 %k
  %oa = load i32, ptr %pa
  %qa = getelementptr float, ptr %av, i32 %oa
  %a = load float, ptr %qa
  %pb = getelementptr i32, ptr %pa, i64 @SIZE2@
  %ob = load i32, ptr %pb
  %qb0 = getelementptr float, ptr %bv, i32 %ob
  %qb = getelementptr float, ptr %qb0, i64 %j
  %b = load float, ptr %qb
  %da = fpext float %a to double
  %db = fpext float %b to double
  %p = fmul double %da, %db
  ret double %p
}
"""

# kept = m cut to the last place of the result; its word is kept + (exponent + 126) << 23.
_SLOW_SINGLE = """
  %exp = call i32 @llvm.smax.i32(i32 %exp0, i32 -126)
  %lsb = sub i32 %exp, 23
  %right0 = sub i32 %lsb, %grid
  %right1 = call i32 @llvm.smax.i32(i32 %right0, i32 0)
  %left0 = sub i32 0, %right0
  %left1 = call i32 @llvm.smax.i32(i32 %left0, i32 0)
  %right = zext i32 %right1 to i64
  %left = zext i32 %left1 to i64
  %cut = lshr i64 %m, %right
  %kept = shl i64 %cut, %left
  %kept32 = trunc i64 %kept to i32
  %biased = add i32 %exp, 126
  %high = shl i32 %biased, 23
  %word0 = add i32 %kept32, %high
  %over = icmp sgt i32 %exp, 127
  %word1 = select i1 %over, i32 2139095040, i32 %word0
  %sign = select i1 %minus, i32 -2147483648, i32 0
  %word2 = or i32 %word1, %sign
  %gone = icmp eq i64 %kept, 0
  %word3 = select i1 %gone, i32 0, i32 %word2
  %word = and i32 %word3, @MASK@
  %fresult = bitcast i32 %word to float"""

_SLOW_HALF = """
  %exp = call i32 @llvm.smax.i32(i32 %exp0, i32 -14)
  %lsb = sub i32 %exp, 10
  %right0 = sub i32 %lsb, %grid
  %right1 = call i32 @llvm.smax.i32(i32 %right0, i32 0)
  %left0 = sub i32 0, %right0
  %left1 = call i32 @llvm.smax.i32(i32 %left0, i32 0)
  %right = zext i32 %right1 to i64
  %left = zext i32 %left1 to i64
  %cut = lshr i64 %m, %right
  %whole = shl i64 %cut, %right
  %rest = sub i64 %m, %whole
  %unit = shl i64 1, %right
  %half = lshr i64 %unit, 1
  %above = icmp ugt i64 %rest, %half
  %tie = icmp eq i64 %rest, %half
  %some2 = icmp ugt i64 %half, 0
  %odd0 = and i64 %cut, 1
  %odd = icmp eq i64 %odd0, 1
  %tie1 = and i1 %tie, %some2
  %tie2 = and i1 %tie1, %odd
  %up = or i1 %above, %tie2
  %up64 = zext i1 %up to i64
  %cut1 = add i64 %cut, %up64
  %kept = shl i64 %cut1, %left
  %keptd = uitofp i64 %kept to double
  %power0 = add i32 %lsb, 1023
  %power1 = zext i32 %power0 to i64
  %power2 = shl i64 %power1, 52
  %power = bitcast i64 %power2 to double
  %size = fmul double %keptd, %power
  %sizef = fptrunc double %size to float
  %over = fcmp oge float %sizef, 65536.0
  %limited = select i1 %over, float @INF@, float %sizef
  %negated = fneg float %limited
  %zeroed = fcmp oeq float %limited, 0.0
  %positive = xor i1 %minus, true
  %plain = or i1 %positive, %zeroed
  %fresult = select i1 %plain, float %limited, float %negated"""
