"""Instructions with one result, as methods that allocate it: ``x = b.add("s32", a, 5)``.

The first argument is what follows the opcode, its type last: ``b.fma("rn.f32", a, b, c)``,
``b.ld("global.v4.b32", address)``. The result has that type, except where the instruction says
otherwise: ``mul.wide.u32`` gives 64 bits, ``cvt.f32.s32`` an f32, ``setp`` a predicate, a load of
``.v4`` a list of four. `out` names a register to write instead of a new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from mmalab.errors import UsageError
from mmalab.ptx.declarations import TYPES
from mmalab.ptx.nodes import Address, Immediate, Name, Negated, Operand, Pair, Register, Sink

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Given", "Operations"]

_WHERE = "mmalab.ptx.KernelBuilder"
#: What the builder takes as an operand: nodes, numbers, names, and lists of them for vectors.
Given: TypeAlias = "Operand | int | float | str | Sequence[Operand | int | float | str]"

_WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64", "b32": "b64"}


def _result_type(modifiers: str) -> str:
    """Take the type of ``rn.ftz.f32``: its last part."""
    last = modifiers.rpartition(".")[2]
    if last not in TYPES:
        raise UsageError(f"{modifiers}: no type at its end", legal=("s32", "rn.f32", "lo.u32"),
                         where=_WHERE)
    return last


def _one(opcode: str, doc: str) -> Callable[..., Register]:
    """Make the method of an instruction whose result has the type that it is spelled with."""

    def method(self: Operations, modifiers: str, *sources: Given,
               out: Register | None = None) -> Register:
        result = out or self.reg(_result_type(modifiers))
        self.emit(f"{opcode}.{modifiers}", result, *sources)
        return result

    method.__name__ = opcode.replace(".", "_")
    method.__doc__ = doc
    return method


def _wide(opcode: str, doc: str) -> Callable[..., Register]:
    """Make the method of an instruction whose result is twice as wide as its type."""

    def method(self: Operations, modifiers: str, *sources: Given,
               out: Register | None = None) -> Register:
        narrow = _result_type(modifiers)
        if narrow not in _WIDE:
            raise UsageError(f"{opcode}.{modifiers}", "has no type of twice the width",
                             legal=sorted(_WIDE), where=_WHERE)
        result = out or self.reg(_WIDE[narrow])
        self.emit(f"{opcode}.{modifiers}", result, *sources)
        return result

    method.__name__ = opcode.replace(".", "_")
    method.__doc__ = doc
    return method


class Operations:
    """The methods; the class that mixes it in provides `emit` and `reg`."""

    def emit(self, opcode: str, *operands: Given, comment: str = "",
             unchecked: bool = False) -> None:
        """Append one instruction."""
        raise NotImplementedError

    def reg(self, dtype: str, name: str | None = None) -> Register:
        """Allocate a register."""
        raise NotImplementedError

    mov = _one("mov", "Copy: ``mov.{m} d, a``.")
    add = _one("add", "Add: ``add.{m} d, a, b``.")
    sub = _one("sub", "Subtract: ``sub.{m} d, a, b``.")
    mul = _one("mul", "Multiply (floats; integers say which half): ``mul.{m} d, a, b``.")
    mul_lo = _one("mul.lo", "Multiply, low half: ``mul.lo.{m} d, a, b``.")
    mul_hi = _one("mul.hi", "Multiply, high half: ``mul.hi.{m} d, a, b``.")
    mad_lo = _one("mad.lo", "Multiply and add, low half: ``mad.lo.{m} d, a, b, c``.")
    fma = _one("fma", "Fused multiply-add: ``fma.{m} d, a, b, c``.")
    div = _one("div", "Divide: ``div.{m} d, a, b``.")
    rem = _one("rem", "Remainder: ``rem.{m} d, a, b``.")
    min = _one("min", "Minimum: ``min.{m} d, a, b``.")
    max = _one("max", "Maximum: ``max.{m} d, a, b``.")
    abs = _one("abs", "Absolute value: ``abs.{m} d, a``.")
    neg = _one("neg", "Negate: ``neg.{m} d, a``.")
    and_ = _one("and", "Bitwise and: ``and.{m} d, a, b``.")
    or_ = _one("or", "Bitwise or: ``or.{m} d, a, b``.")
    xor = _one("xor", "Bitwise exclusive or: ``xor.{m} d, a, b``.")
    not_ = _one("not", "Complement: ``not.{m} d, a``.")
    shl = _one("shl", "Shift left: ``shl.{m} d, a, n``.")
    shr = _one("shr", "Shift right: ``shr.{m} d, a, n``.")
    lop3 = _one("lop3", "Any function of three words: ``lop3.{m} d, a, b, c, table``.")
    prmt = _one("prmt", "Pick bytes: ``prmt.{m} d, a, b, selector``.")
    selp = _one("selp", "Choose by a predicate: ``selp.{m} d, a, b, p``.")
    rcp = _one("rcp", "Reciprocal: ``rcp.{m} d, a``.")
    sqrt = _one("sqrt", "Square root: ``sqrt.{m} d, a``.")
    ex2 = _one("ex2", "Power of two: ``ex2.{m} d, a``.")
    lg2 = _one("lg2", "Logarithm to base two: ``lg2.{m} d, a``.")
    cvta = _one("cvta", "Convert an address: ``cvta.to.global.u64 d, a``.")
    shfl = _one("shfl.sync", "Exchange between lanes: ``shfl.sync.{m} d, a, b, c, mask``.")
    mul_wide = _wide("mul.wide", "Multiply to twice the width: ``mul.wide.{m} d, a, b``.")
    mad_wide = _wide("mad.wide", "Multiply to twice the width, add: ``mad.wide.{m} d, a, b, c``.")

    def cvt(self, modifiers: str, source: Given, *, out: Register | None = None) -> Register:
        """Convert: ``cvt("rn.f16.f32", x)``; the first type is the result's."""
        types = [part for part in modifiers.split(".") if part in TYPES]
        if not types:
            raise UsageError(f"cvt.{modifiers}: no result type", legal=("f32.s32", "rn.bf16.f32"),
                             where=_WHERE)
        result = out or self.reg(types[0])
        self.emit(f"cvt.{modifiers}", result, source)
        return result

    def setp(self, compare: str, type_: str, a: Given, b: Given, *combined: Given,
             out: Register | None = None) -> Register:
        """Compare: ``setp("lt", "s32", a, b)``; ``setp("lt.and", "s32", a, b, p)`` combines."""
        result = out or self.reg("pred")
        self.emit(f"setp.{compare}.{type_}", result, a, b, *combined)
        return result

    def ld(self, modifiers: str, address: Given, *more: Given, out: Any = None) -> Any:
        """Load: ``ld("global.u32", b.at(p))`` gives a register, ``.v4.f32`` a list of four."""
        type_ = _result_type(modifiers)
        width = next((int(part[1:]) for part in modifiers.split(".") if part in ("v2", "v4", "v8")),
                     0)
        if out is None:
            out = [self.reg(type_) for _ in range(width)] if width else self.reg(type_)
        self.emit(f"ld.{modifiers}", out, address, *more)
        return out

    def st(self, modifiers: str, address: Given, value: Given, *more: Given) -> None:
        """Store: ``st("shared.v2.b32", b.at(tile, 8), [x, y])``."""
        self.emit(f"st.{modifiers}", address, value, *more)

    def ldmatrix(self, count: int, address: Given, *, trans: bool = False) -> list[Register]:
        """Load `count` 8 x 8 matrices of 16-bit elements from shared memory: one register each."""
        if count not in (1, 2, 4):
            raise UsageError(f"ldmatrix: {count} matrices", legal=("1", "2", "4"), where=_WHERE)
        out = [self.reg("b32") for _ in range(count)]
        trans_part = ".trans" if trans else ""
        self.emit(f"ldmatrix.sync.aligned.m8n8.x{count}{trans_part}.shared.b16", out, address)
        return out

    # --- operands ---------------------------------------------------------------------------------

    @staticmethod
    def at(base: Register | Name | int, offset: int = 0,
           coordinates: Sequence[Register | Name | Immediate | int] = ()) -> Address:
        """Make ``[r+16]`` of ``at(r, 16)``, ``[m, {x, y}]`` of ``at(m, coordinates=[x, y])``."""
        parts = tuple(Immediate(item, str(item)) if isinstance(item, int) else item
                      for item in coordinates)
        if isinstance(base, int):
            return Address(None, base + offset, parts)
        return Address(base, offset, parts)

    @staticmethod
    def pair(first: Register | Sink, second: Register | Sink) -> Pair:
        """Two destinations: ``first|second``."""
        return Pair(first, second)

    @staticmethod
    def negated(predicate: Register) -> Negated:
        """``!predicate`` as an operand."""
        return Negated(predicate)

    @property
    def sink(self) -> Sink:
        """``_``: the result is dropped."""
        return Sink()
