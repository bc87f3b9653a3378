"""Literal operands whose value the assembler or the chip limits, beyond the instruction table's.

    mbarrier.init.shared.b64 [bar], 0;      0 is not in 1 to 1048575
"""

from __future__ import annotations

from mmalab.checker.kinds import Kind
from mmalab.isa import Form, OperandSpec

__all__ = ["range_problem", "registers_only"]

_BYTE = range(256)
_COUNT = range(1, 1 << 20)

#: (family, operand name) -> legal values of a literal.
_RANGES: dict[tuple[str, str], range] = {
    ("bfe", "b"): _BYTE, ("bfe", "c"): _BYTE, ("bfi", "c"): _BYTE, ("bfi", "e"): _BYTE,
    ("mbarrier.init", "count"): _COUNT,
    ("mbarrier.test_wait", "parity"): range(2),
    ("mbarrier.try_wait", "parity"): range(2),
}


#: Read operands that must be registers, by family and name ("" for all).
_REGISTERS = frozenset({
    ("mma.sp", "e"), ("stmatrix", "b"), ("movmatrix", "a"), ("stackrestore", "a"),
    *((f"v{op}{lanes}", "") for lanes in (2, 4)
      for op in ("add", "sub", "avrg", "absdiff", "min", "max", "set")),
})


def registers_only(form: Form, spec: OperandSpec) -> bool:
    """Whether the operand may not be a literal."""
    return (form.family, spec.name) in _REGISTERS or (form.family, "") in _REGISTERS


def range_problem(form: Form, spec: OperandSpec, kind: Kind, kinds: tuple[Kind, ...]) -> str:
    """Why a literal's value is refused, "" where it is not."""
    if kind.tag == "float":
        return _fraction(form, kind)
    if kind.tag != "integer" or kind.value is None:
        return ""
    value = int(kind.value)
    allowed = _RANGES.get((form.family, spec.name))
    if allowed is not None and value not in allowed:
        return f"is {value}, legal are {allowed[0]} to {allowed[-1]}"
    if form.family.startswith("mbarrier.arrive") and spec.name == "count":
        expects = "expect_tx" in form.modifiers
        return "" if expects or value > 0 else f"is {value}, a count of arrivals is positive"
    if form.family == "cp.async" and spec.name == "src":
        size = int(kinds[2].value or 0)
        return "" if 0 <= value <= size else f"is {value}, legal are 0 to the copy's {size} bytes"
    if form.family == "alloca" and spec.name == "align":
        return "" if value > 0 and value & (value - 1) == 0 else f"is {value}, no power of two"
    return ""


def _fraction(form: Form, kind: Kind) -> str:
    if form.family != "createpolicy.fractional" or kind.value is None:
        return ""
    return "" if 0 < kind.value <= 1 else f"is {kind.value}, a fraction is above 0, at most 1"
