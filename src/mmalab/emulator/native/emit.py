"""A small writer of LLVM IR text: values that know their type, one method per instruction.

Text and not an object tree, because a kernel becomes tens of thousands of instructions and building
objects for them costs more than LLVM's own parser. A warp's register is one ``<32 x i32>``::

    f = FunctionWriter("i32", "step", ["ptr", "i32"])
    a, b = f.load(V32, f.arg(0)), f.splat(V32, 7)
    f.ret(f.extract(f.binary("add", a, b), 0))

Nothing here knows about PTX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

__all__ = ["FunctionWriter", "Value", "const", "element", "lanes", "splat_text", "vector"]


@dataclass(frozen=True, slots=True)
class Value:
    """An SSA value or constant: LLVM type and how to refer to it."""

    type: str
    ref: str

    def __str__(self) -> str:
        return f"{self.type} {self.ref}"


def vector(element_type: str, count: int = 32) -> str:
    """``<32 x i32>``."""
    return f"<{count} x {element_type}>"


def lanes(type_: str) -> int:
    """Number of elements of a vector type; 0 for a scalar."""
    return int(type_[1 : type_.index(" ")]) if type_[0] == "<" else 0


def element(type_: str) -> str:
    """Element type of a vector type; the type itself for a scalar."""
    return type_[type_.index("x ") + 2 : -1] if type_[0] == "<" else type_


def splat_text(type_: str, value: int) -> str:
    """The constant that repeats `value` in every element of `type_`."""
    if value == 0:
        return "zeroinitializer"
    inner = element(type_)
    return f"splat ({inner} {_literal(inner, value)})"


def _literal(type_: str, value: int) -> str:
    if type_ == "i1":
        return "true" if value & 1 else "false"
    return str(value)


def const(type_: str, value: int) -> Value:
    """An integer constant of a scalar or vector integer type."""
    if type_[0] == "<":
        return Value(type_, splat_text(type_, value))
    return Value(type_, _literal(type_, value))


class FunctionWriter:
    """Writes one LLVM function. Blocks are labels in order; the entry block is implicit."""

    def __init__(
        self, returns: str, name: str, arguments: Sequence[str], attributes: str = ""
    ) -> None:
        self.returns = returns
        self.name = name
        self.arguments = list(arguments)
        self.attributes = attributes
        self.lines: list[str] = []
        #: Declarations of the functions called, by name.
        self.calls: dict[str, str] = {}
        #: The label of the block being written, for phi nodes.
        self.current = "entry"
        self.allocas: list[str] = []
        self._count = 0
        self._labels = 0

    # --- naming

    def arg(self, index: int) -> Value:
        """The function's argument."""
        return Value(self.arguments[index], f"%a{index}")

    def fresh_label(self, hint: str = "b") -> str:
        """A label name nobody else has."""
        self._labels += 1
        return f"{hint}.{self._labels}"

    def emit(self, type_: str, text: str) -> Value:
        """Append ``%n = text`` and return the value."""
        self._count += 1
        ref = f"%v{self._count}"
        self.lines.append(f"  {ref} = {text}")
        return Value(type_, ref)

    def do(self, text: str) -> None:
        """Append an instruction without a result."""
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        """Start the block called `name`."""
        self.current = name
        self.lines.append(f"{name}:")

    def comment(self, text: str) -> None:
        """A comment line."""
        self.lines.append(f"  ; {text}")

    # --- arithmetic

    def binary(self, operation: str, a: Value, b: Value) -> Value:
        """``add``, ``sub``, ``mul``, ``and``, ``shl``, ``fadd`` ... of two values of one type."""
        return self.emit(a.type, f"{operation} {a.type} {a.ref}, {b.ref}")

    def compare(self, operation: str, a: Value, b: Value) -> Value:
        """``icmp``/``fcmp`` with its predicate: ``compare("icmp ult", a, b)``."""
        count = lanes(a.type)
        type_ = vector("i1", count) if count else "i1"
        return self.emit(type_, f"{operation} {a.type} {a.ref}, {b.ref}")

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """Lane by lane where `condition` is a vector."""
        return self.emit(a.type, f"select {condition}, {a}, {b}")

    def cast(self, operation: str, value: Value, type_: str) -> Value:
        """``zext``, ``trunc``, ``bitcast``, ``sitofp`` ...; nothing where the type is the same."""
        if value.type == type_:
            return value
        return self.emit(type_, f"{operation} {value} to {type_}")

    def resize(self, value: Value, type_: str, *, signed: bool = False) -> Value:
        """Truncate, or extend by zero or sign, to the width of `type_`."""
        have, want = int(element(value.type)[1:]), int(element(type_)[1:])
        if have == want:
            return value
        return self.cast("trunc" if have > want else "sext" if signed else "zext", value, type_)

    def call(self, returns: str, name: str, arguments: Iterable[Value]) -> Value:
        """Call a function by name (without its @)."""
        arguments = list(arguments)
        listed = ", ".join(str(a) for a in arguments)
        self.calls[name] = f"declare {returns} @{name}({', '.join(a.type for a in arguments)})"
        if returns == "void":
            self.do(f"call void @{name}({listed})")
            return Value("void", "")
        return self.emit(returns, f"call {returns} @{name}({listed})")

    def phi(self, first: tuple[Value, str], second: tuple[Value, str]) -> Value:
        """The value that came with the control flow: (value, label it came from) twice."""
        (a, from_a), (b, from_b) = first, second
        return self.emit(a.type, f"phi {a.type} [ {a.ref}, %{from_a} ], [ {b.ref}, %{from_b} ]")

    # --- vectors

    def splat(self, scalar: Value, count: int = 32) -> Value:
        """Repeat a scalar value in every lane."""
        type_ = vector(scalar.type, count)
        first = self.emit(type_, f"insertelement {type_} poison, {scalar}, i32 0")
        zeros = f"<{count} x i32> zeroinitializer"
        return self.emit(type_, f"shufflevector {first}, {type_} poison, {zeros}")

    def extract(self, value: Value, index: int | Value) -> Value:
        """One element."""
        where = f"i32 {index}" if isinstance(index, int) else str(index)
        return self.emit(element(value.type), f"extractelement {value}, {where}")

    def insert(self, value: Value, scalar: Value, index: int | Value) -> Value:
        """`value` with one element replaced."""
        where = f"i32 {index}" if isinstance(index, int) else str(index)
        return self.emit(value.type, f"insertelement {value}, {scalar}, {where}")

    # --- memory

    def load(self, type_: str, pointer: Value, align: int = 1) -> Value:
        """Load from `pointer`."""
        return self.emit(type_, f"load {type_}, ptr {pointer.ref}, align {align}")

    def store(self, value: Value, pointer: Value, align: int = 1) -> None:
        """Store to `pointer`."""
        self.do(f"store {value}, ptr {pointer.ref}, align {align}")

    def offset(self, pointer: Value, bytes_: int | Value) -> Value:
        """`pointer` + bytes (a vector of offsets gives a vector of pointers)."""
        if isinstance(bytes_, int):
            if bytes_ == 0:
                return pointer
            return self.emit("ptr", f"getelementptr i8, ptr {pointer.ref}, i64 {bytes_}")
        count = lanes(bytes_.type)
        type_ = vector("ptr", count) if count else "ptr"
        return self.emit(type_, f"getelementptr i8, ptr {pointer.ref}, {bytes_}")

    def alloca(self, type_: str, align: int = 64) -> Value:
        """Stack space, allocated once at the function's entry."""
        self._count += 1
        ref = f"%s{self._count}"
        self.allocas.append(f"  {ref} = alloca {type_}, align {align}")
        return Value("ptr", ref)

    def each_lane(self, bits: Value, body: Callable[[Value], None]) -> None:
        """Run `body` for every set bit of an i32, lane numbers ascending."""
        loop, lane_label, done = (self.fresh_label(x) for x in ("lanes", "lane", "lanes.done"))
        left = self.alloca("i32", 4)
        self.store(bits, left, 4)
        self.branch(loop)
        self.label(loop)
        now = self.load("i32", left, 4)
        self.branch_if(self.compare("icmp eq", now, const("i32", 0)), done, lane_label)
        self.label(lane_label)
        one_less = self.binary("sub", now, const("i32", 1))
        self.store(self.binary("and", now, one_less), left, 4)
        body(self.call("i32", "llvm.cttz.i32", [now, const("i1", 1)]))
        self.branch(loop)
        self.label(done)

    def element_at(self, array: Value, index: Value, size: int) -> Value:
        """Pointer to element `index` (i32) of an array of `size`-byte elements."""
        wide = self.cast("zext", index, "i64")
        return self.offset(array, self.binary("mul", wide, const("i64", size)))

    # --- control

    def branch(self, label: str) -> None:
        """Jump."""
        self.do(f"br label %{label}")

    def branch_if(self, condition: Value, then: str, otherwise: str) -> None:
        """Conditional jump on an i1."""
        self.do(f"br {condition}, label %{then}, label %{otherwise}")

    def switch(self, value: Value, default: str, cases: Iterable[tuple[int, str]]) -> None:
        """Jump by value."""
        listed = " ".join(f"{value.type} {key}, label %{label}" for key, label in cases)
        self.do(f"switch {value}, label %{default} [ {listed} ]")

    def ret(self, value: Value | None = None) -> None:
        """Return."""
        self.do(f"ret {value}" if value is not None else "ret void")

    def text(self) -> str:
        """The whole definition."""
        arguments = ", ".join(f"{t} %a{i}" for i, t in enumerate(self.arguments))
        head = f"define {self.returns} @{self.name}({arguments}) {self.attributes} {{\nentry:"
        return "\n".join([head, *self.allocas, *self.lines, "}\n"])
