"""The fused sum in rational numbers: written from its description, sharing no code with mmalab."""

from __future__ import annotations

from fractions import Fraction

#: type -> exponent bits, fraction bits, bias, kind of specials, dropped low bits
TYPES = {
    "f32": (8, 23, 127, "ieee", 0), "tf32": (8, 10, 127, "ieee", 13),
    "bf16": (8, 7, 127, "ieee", 0),
    "f16": (5, 10, 15, "ieee", 0), "e5m2": (5, 2, 15, "ieee", 0), "e4m3": (4, 3, 7, "nan", 0),
    "e3m2": (3, 2, 3, "", 0), "e2m3": (2, 3, 1, "", 0), "e2m1": (2, 1, 1, "", 0),
    "ue8m0": (8, 0, 127, "", 0), "ue4m3": (4, 3, 7, "", 0),
}
NAN = {"f32": 0x7FFFFFFF, "f16": 0x7FFF}


def read(kind, word):
    """(value or "nan"/"+inf"/"-inf", exponent of its encoding)."""
    ebits, fbits, bias, specials, drop = TYPES[kind]
    word = int(word) >> drop
    fraction, field = word & (1 << fbits) - 1, word >> fbits & (1 << ebits) - 1
    minus = word >> ebits + fbits & 1
    if specials == "ieee" and field == (1 << ebits) - 1:
        return ("nan" if fraction else "-inf" if minus else "+inf"), 0
    if specials == "nan" and field == (1 << ebits) - 1 and fraction == (1 << fbits) - 1:
        return "nan", 0
    exponent = max(field, 1) - bias
    value = Fraction(fraction + ((field > 0) << fbits)) * Fraction(2) ** (exponent - fbits)
    return (-value if minus else value), exponent


def cut(value, grid):
    """Toward zero to a multiple of 2^grid."""
    steps = abs(value) / Fraction(2) ** grid
    whole = Fraction(steps.numerator // steps.denominator) * Fraction(2) ** grid
    return whole if value >= 0 else -whole


def log2(value):
    """floor(log2(|value|))."""
    top, bottom = abs(value).numerator, abs(value).denominator
    guess = top.bit_length() - bottom.bit_length()
    return guess if Fraction(2) ** guess <= abs(value) else guess - 1


def special(pairs, c):
    """The result where NaN or Inf takes part, else None."""
    seen = set()
    for x, y in [*pairs, (c, Fraction(1))]:
        if "nan" in (x, y):
            return "nan"
        if isinstance(x, str) or isinstance(y, str):
            if x == 0 or y == 0:
                return "nan"
            minus = (x == "-inf" if isinstance(x, str) else x < 0) != (
                y == "-inf" if isinstance(y, str) else y < 0)
            seen.add("-inf" if minus else "+inf")
    return "nan" if len(seen) == 2 else seen.pop() if seen else None


def fused_sum(a_kind, a, b_kind, b, c_kind, c, fraction, rounding, floor):
    """One block of the truncated fused sum on raw words; returns a raw word."""
    left, right = [read(a_kind, w) for w in a], [read(b_kind, w) for w in b]
    start, start_exponent = read(c_kind, c)
    odd = special([(x[0], y[0]) for x, y in zip(left, right, strict=True)], start)
    half = rounding == "RNE16"
    if odd:
        inf, sign = (0x7C00, 0x8000) if half else (0x7F800000, 0x80000000)
        return {"nan": NAN["f16" if half else "f32"], "+inf": inf, "-inf": inf | sign}[odd]
    terms = [(x[0] * y[0], x[1] + y[1]) for x, y in zip(left, right, strict=True)]
    top = max([e for v, e in terms if v] + [start_exponent if start else floor])
    total = sum(cut(v, top - fraction) for v, _ in terms) + cut(start, top - fraction)
    return to_half(total) if half else to_single(total, 10 if rounding == "RZ-E8M13" else 0)


def to_single(value, dropped=0):
    """Toward zero to FP32, its low `dropped` bits cleared; +0 for nothing; Inf from 2^128."""
    if not value:
        return 0
    exponent = max(log2(value), -126)
    if exponent > 127:
        return 0x7F800000 | (value < 0) << 31
    kept = int(abs(cut(value, exponent - 23)) / Fraction(2) ** (exponent - 23))
    subnormal = exponent == -126 and kept < 1 << 23
    word = kept if subnormal else kept - (1 << 23) + (exponent + 127 << 23)
    word &= ~((1 << dropped) - 1)
    return (word | (value < 0) << 31) if word else 0


def to_half(value):
    """Nearest even FP16; +0 for nothing."""
    if not value:
        return 0
    exponent = max(log2(value), -14)
    step = Fraction(2) ** (exponent - 10)
    units = round(abs(value) / step)  # Python rounds halves to even
    if units >= 1 << 11:
        units, exponent = units // 2, exponent + 1
    if exponent > 15:
        return 0x7C00 | (value < 0) << 15
    word = units if units < 1 << 10 else units - (1 << 10) + (exponent + 15 << 10)
    return (word | (value < 0) << 15) if word else 0
