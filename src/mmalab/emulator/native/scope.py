"""The values of one block while it is being written: slots in SSA form, lanes under a mask.

A slot is loaded at its first use and kept as an SSA value; at the end only what is live behind the
block is stored. In a masked block (`mask` set), and under a guard, a write keeps the old value in the
lanes that do not execute.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from mmalab.emulator.native.abi import Context
from mmalab.emulator.native.emit import FunctionWriter, Value, const, element, vector
from mmalab.emulator.program import Guarded, Imm, Op, Reg, Special, Symbol

__all__ = ["BIT", "Frame", "Scope", "V1", "V16", "V32", "V64", "VF32", "VF64", "VPTR"]

V1, V16, V32, V64 = vector("i1"), vector("i16"), vector("i32"), vector("i64")
VF32, VF64, VPTR = vector("float"), vector("double"), vector("ptr")
BIT = "i1"

Key = tuple[str, int]


@dataclass(slots=True)
class Frame:
    """What a step function has at hand: pointers into the warp's state, loaded once at entry."""

    f: FunctionWriter
    context: Value
    row: Value
    r: Value
    q: Value
    p: Value
    pc: Value
    status: Value

    def word(self, which: Context) -> Value:
        """A context word as i64, loaded where it is asked for (cheap, and never stale)."""
        return self.f.load("i64", self.f.offset(self.context, 8 * which), 8)

    def pointer(self, which: Context) -> Value:
        """A context word as a pointer."""
        return self.f.load("ptr", self.f.offset(self.context, 8 * which), 8)


class Scope:
    """One block's environment."""

    def __init__(self, frame: Frame, mask: Value | None, special: Callable[[Scope, str], Value]):
        self.frame = frame
        self.f = frame.f
        self.mask = mask
        self._special = special
        self._values: dict[Key, Value] = {}
        self._dirty: set[Key] = set()

    # --- slots

    def _pointer(self, key: Key) -> Value:
        file, slot = key
        base, stride = {"r": (self.frame.r, 128), "q": (self.frame.q, 256),
                        "p": (self.frame.p, 4)}[file]
        return self.f.offset(base, slot * stride)

    def _load(self, key: Key) -> Value:
        pointer = self._pointer(key)
        if key[0] == "p":
            return self.f.cast("bitcast", self.f.load("i32", pointer, 4), V1)
        return self.f.load(V32 if key[0] == "r" else V64, pointer, 64)

    def get(self, key: Key) -> Value:
        """The slot's value as stored: <32 x i32>, <32 x i64> or <32 x i1>."""
        if key not in self._values:
            self._values[key] = self._load(key)
        return self._values[key]

    def set(self, key: Key, value: Value) -> None:
        """The slot's new value, all lanes of it."""
        self._values[key] = value
        self._dirty.add(key)

    def flush(self, keys: AbstractSet[Key] | None = None) -> None:
        """Store dirty slots (only those in `keys` where given) to the warp's state."""
        for key in sorted(self._dirty if keys is None else self._dirty & keys):
            value = self._values[key]
            if key[0] == "p":
                self.f.store(self.f.cast("bitcast", value, "i32"), self._pointer(key), 4)
            else:
                self.f.store(value, self._pointer(key), 64)

    def reload(self, key: Key) -> Value:
        """The slot's value in memory, not remembered."""
        return self._load(key)

    # --- operands

    def read(self, op: Op, type_: str) -> Value:
        """An operand as a vector of the LLVM integer type of PTX `type_`'s width (or i1)."""
        bits = width(type_)
        want = V1 if bits == 1 else vector(f"i{bits}")
        if isinstance(op, Reg):
            value = self.get((op.file, op.slot))
            return value if want == V1 else self.f.resize(value, want)
        if isinstance(op, (Imm, Symbol)):
            return const(want, _signed(op.word, bits))
        if isinstance(op, Guarded):
            value = self.get((op.reg.file, op.reg.slot))
            return self.invert(value) if op.negated else value
        if isinstance(op, Special):
            return self.f.resize(self._special(self, op.name), want)
        raise TypeError(f"operand {op!r} is not a value")

    def read_float(self, op: Op, type_: str) -> Value:
        """An f32 or f64 operand as <32 x float> or <32 x double>."""
        value = self.read(op, type_)
        return self.f.cast("bitcast", value, VF32 if width(type_) == 32 else VF64)

    def write(self, op: Op, value: Value, active: Value | None, *, signed: bool = False) -> None:
        """Write a result, extended to the register's width, in the active lanes."""
        if isinstance(op, Reg):  # otherwise the sink `_`
            self.set((op.file, op.slot), self.merged(op, value, active, signed=signed))

    def merged(self, op: Reg, value: Value, active: Value | None, *, signed: bool = False) -> Value:
        """What the register holds after `value` was written in the active lanes."""
        inner = element(value.type)
        if inner in ("float", "double"):
            value = self.f.cast("bitcast", value, V32 if inner == "float" else V64)
        if op.file != "p":
            value = self._to_register(value, op, signed=signed)
        if active is None:
            return value
        return self.f.select(active, value, self.get((op.file, op.slot)))

    def _to_register(self, value: Value, op: Reg, *, signed: bool) -> Value:
        f = self.f
        have = int(element(value.type)[1:])
        if have < op.bits:
            value = f.resize(value, vector(f"i{op.bits}"), signed=signed)
        elif have > op.bits:
            value = f.resize(value, vector(f"i{op.bits}"))
        return f.resize(value, V64 if op.file == "q" else V32)

    # --- masks

    def invert(self, value: Value) -> Value:
        """Not of an i1 vector."""
        return self.f.binary("xor", value, const(V1, 1))

    def active(self, guard: tuple[int, bool] | None) -> Value | None:
        """Lanes that execute a site with this guard; None where all 32 do."""
        if guard is None:
            return self.mask
        slot, negated = guard
        predicate = self.get(("p", slot))
        if negated:
            predicate = self.invert(predicate)
        if self.mask is None:
            return predicate
        return self.f.binary("and", predicate, self.mask)

    def bits(self, active: Value | None) -> Value:
        """A lane mask as an i32."""
        if active is None:
            return const("i32", -1)
        return self.f.cast("bitcast", active, "i32")


def width(type_: str) -> int:
    """Bits of a PTX type name."""
    if type_ == "pred":
        return 1
    digits = type_.lstrip("abcdefghijklmnopqrstuvwxyz")
    if type_ in ("f16x2", "bf16x2", "tf32", "u16x2", "s16x2"):
        return 32
    return int(digits) if digits.isdigit() else 32


def _signed(word: int, bits: int) -> int:
    word &= (1 << bits) - 1
    return word - (1 << bits) if word >> (bits - 1) and bits > 1 else word
