r"""Writing LLVM IR as text: a list of lines, fresh names, and the vector idioms used here.

    >>> out = Emitter()
    >>> x = out.value("add i32 %a, 1")
    >>> print("\n".join(out.lines), x)
      %v0 = add i32 %a, 1 %v0

Text, not a builder: the emulator pastes these functions into its own modules.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Emitter", "constant", "double_hex", "float_hex", "vector"]


def vector(width: int, element: str) -> str:
    """``<8 x float>``; a width of 0 is the bare element type."""
    return f"<{width} x {element}>" if width else element


def constant(width: int, element: str, value: int | str) -> str:
    """The typed constant with `value` in every lane."""
    if not width:
        return f"{element} {value}"
    lanes = ", ".join([f"{element} {value}"] * width)
    return f"{vector(width, element)} <{lanes}>"


def bare(width: int, element: str, value: int | str) -> str:
    """:func:`constant` without its type, for second operands."""
    return constant(width, element, value).removeprefix(vector(width, element) + " ")


def double_hex(value: float) -> str:
    """A floating literal that LLVM reads exactly (for float: `value` must be one)."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def float_hex(word: int) -> str:
    """The literal of the float with this word (a NaN keeps its payload)."""
    sign, exponent, fraction = word >> 31, word >> 23 & 0xFF, word & 0x7FFFFF
    if exponent == 255:
        return f"0x{sign << 63 | 0x7FF << 52 | fraction << 29:016X}"
    return double_hex(struct.unpack("<f", struct.pack("<I", word))[0])


class Emitter:
    """Lines of one function body."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._next = 0

    def fresh(self, stem: str) -> str:
        """A name that nothing else has."""
        self._next += 1
        return f"{stem}{self._next - 1}"

    def do(self, text: str) -> None:
        """An instruction without a result."""
        self.lines.append(f"  {text}")

    def value(self, text: str) -> str:
        """An instruction; returns the name of its result."""
        name = "%" + self.fresh("v")
        self.lines.append(f"  {name} = {text}")
        return name

    def label(self, name: str) -> None:
        """Begin a basic block."""
        self.lines.append(f"{name}:")

    # --- idioms -----------------------------------------------------------------------------------

    def binary(self, op: str, kind: str, x: str, y: str) -> str:
        """``op kind x, y``."""
        return self.value(f"{op} {kind} {x}, {y}")

    def call(self, result: str, name: str, *operands: str) -> str:
        """A call of a function or intrinsic; operands carry their types."""
        return self.value(f"call {result} @{name}({', '.join(operands)})")

    def cast(self, op: str, source: str, x: str, target: str) -> str:
        """``op source x to target``; nothing where the types agree."""
        return x if source == target else self.value(f"{op} {source} {x} to {target}")

    def splat(self, width: int, element: str, x: str) -> str:
        """`x` in every lane."""
        kind = vector(width, element)
        one = self.value(f"insertelement {kind} poison, {element} {x}, i32 0")
        return self.value(f"shufflevector {kind} {one}, {kind} poison, "
                          f"<{width} x i32> zeroinitializer")

    def shuffle(self, kind: str, x: str, y: str, lanes: list[int]) -> str:
        """Lanes of two vectors in the given order."""
        order = ", ".join(f"i32 {lane}" for lane in lanes)
        return self.value(f"shufflevector {kind} {x}, {kind} {y}, <{len(lanes)} x i32> <{order}>")

    def at(self, pointer: str, offset: str | int, element: str = "i8") -> str:
        """`pointer` plus `offset` elements (a constant or the name of an i64)."""
        if offset == 0:
            return pointer
        return self.value(f"getelementptr {element}, ptr {pointer}, i64 {offset}")

    def load(self, kind: str, pointer: str, align: int = 4) -> str:
        """A load of the given alignment."""
        return self.value(f"load {kind}, ptr {pointer}, align {align}")

    def store(self, kind: str, x: str, pointer: str, align: int = 4) -> None:
        """A store of the given alignment."""
        self.do(f"store {kind} {x}, ptr {pointer}, align {align}")

    @contextmanager
    def loop(self, count: str | int, carried: dict[str, tuple[str, str]] | None = None,
             ) -> Iterator[Loop]:
        """A counted loop (at least one turn); `carried` maps name -> (type, first value).

        Inside, read ``loop.index`` and ``loop[name]`` and assign ``loop[name]``; afterwards
        ``loop[name]`` is the last value.
        """
        loop = Loop(self, str(count), carried or {})
        loop.enter()
        yield loop
        loop.leave()


class Loop:
    """See :meth:`Emitter.loop`."""

    def __init__(self, out: Emitter, count: str, carried: dict[str, tuple[str, str]]) -> None:
        self._out, self._count, self._carried = out, count, carried
        self._id = out.fresh("loop")
        self.index = f"%{self._id}.i"
        self._values = {name: f"%{self._id}.{name}" for name in carried}

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __setitem__(self, name: str, value: str) -> None:
        self._values[name] = value

    def enter(self) -> None:
        """The head: where we come from is its own empty block, so that the phis can name it."""
        out = self._out
        out.do(f"br label %{self._id}.pre")
        out.label(f"{self._id}.pre")
        out.do(f"br label %{self._id}")
        out.label(self._id)
        self._head = len(out.lines)

    def leave(self) -> None:
        """The latch, and the phis that only now know their second values."""
        out, name = self._out, self._id
        out.do(f"br label %{name}.latch")
        out.label(f"{name}.latch")
        out.do(f"%{name}.n = add nuw nsw i64 {self.index}, 1")
        out.do(f"%{name}.more = icmp ult i64 %{name}.n, {self._count}")
        out.do(f"br i1 %{name}.more, label %{name}, label %{name}.end")
        out.label(f"{name}.end")
        phis = [f"  {self.index} = phi i64 [ 0, %{name}.pre ], [ %{name}.n, %{name}.latch ]"]
        for key, (kind, first) in self._carried.items():
            phis.append(f"  %{name}.{key} = phi {kind} [ {first}, %{name}.pre ], "
                        f"[ {self._values[key]}, %{name}.latch ]")
        out.lines[self._head : self._head] = phis
