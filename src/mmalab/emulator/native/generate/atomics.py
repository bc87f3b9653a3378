"""atom and red on integers: lanes take turns, in lane order.

CTAs run on host threads, so global memory is changed with the host's own atomic operations; a CTA's
shared memory belongs to one thread. What makes memory depend on the order of CTAs (exch, cas, sums
of floats, counting up to different limits) is left to the executor, which takes the CTAs in order;
so are atomics of global memory whose old value is used (see ThreadedCode).
"""

from __future__ import annotations

from mmalab.emulator.native.emit import Value, const
from mmalab.emulator.native.generate.memory import changed, count_lanes, guard_slow, locate
from mmalab.emulator.native.generate.registry import generates
from mmalab.emulator.native.primitive import V32, V64, PrimitiveWriter
from mmalab.emulator.program import Addr, Imm, Vec
from mmalab.emulator.types import width

__all__: list[str] = []

_HOST = {"add": "add", "and": "and", "or": "or", "xor": "xor", "inc": "uinc_wrap",
         "dec": "udec_wrap"}
_TYPES = frozenset({"u32", "s32", "b32", "u64", "s64", "b64"})


@generates("atom", "red")
def _atomic(w: PrimitiveWriter) -> bool:
    type_, operation, space = w.modifier("type"), w.modifier("op"), w.modifier("space")
    first = 1 if w.site.form.family == "atom" else 0
    shared = space in ("shared", "shared::cta")
    if "filter" in w.options or not _known(w, first, shared=shared):
        return False
    size = width(type_) // 8
    place = locate(w, first, space, size, write=True)
    guard_slow(w, place.slow)
    count_lanes(w, place, space, size, w.bits)
    f, wide = w.f, size == 8
    kind, register = ("i64", V64) if wide else ("i32", V32)
    operands = [w.f.alloca(register) for _ in w.operands[first + 1 :]]
    for i, spilled in enumerate(operands):
        f.store(w.read(first + 1 + i, type_), spilled, 64)
    offsets, old = f.alloca(place.offsets.type), f.alloca(register)
    f.store(place.offsets, offsets, 64)
    step = 8 if place.offsets.type == V64 else 4

    def body(lane: Value) -> None:
        offset = f.load("i64" if step == 8 else "i32", f.element_at(offsets, lane, step), step)
        at = f.offset(place.base, f.resize(offset, "i64"))
        values = [f.load(kind, f.element_at(v, lane, size), size) for v in operands]
        before = _in_shared(w, at, operation, values) if shared else f.emit(
            kind, f"atomicrmw {_named(operation, type_)} ptr {at.ref}, {values[0]} seq_cst")
        f.store(before, f.element_at(old, lane, size), size)

    f.each_lane(w.bits, body)
    if first:
        w.write(0, f.load(register, old, 64))
    changed(w)
    return True


def _known(w: PrimitiveWriter, first: int, *, shared: bool) -> bool:
    operation, type_ = w.modifier("op"), w.modifier("type")
    plain = isinstance(w.operands[first], Addr) and not any(
        isinstance(op, Vec) for op in w.operands)
    if not plain or w.modifier("space") not in ("", "global", "shared", "shared::cta"):
        return False
    if shared and type_ == "f32":
        return operation == "add"
    if not shared and operation in ("inc", "dec"):
        return isinstance(w.operands[first + 1], Imm)
    return type_ in _TYPES and (shared or operation not in ("exch", "cas"))


def _named(operation: str, type_: str) -> str:
    if operation in ("min", "max"):
        return operation if type_[0] == "s" else "u" + operation
    return _HOST[operation]


def _in_shared(w: PrimitiveWriter, at: Value, operation: str, values: list[Value]) -> Value:
    """Read, combine, write; returns the value before."""
    f, value = w.f, values[0]
    bytes_ = int(value.type[1:]) // 8
    old = f.load(value.type, at, bytes_)
    if operation == "cas":
        new = f.select(f.compare("icmp eq", old, value), values[1], old)
    elif operation == "exch":
        new = value
    elif w.modifier("type") == "f32":
        total = f.binary("fadd", *(f.cast("bitcast", x, "float") for x in (old, value)))
        nan = f.compare("fcmp uno", total, total)
        new = f.select(nan, const("i32", 0x7FFFFFFF), f.cast("bitcast", total, "i32"))
    elif operation == "inc":
        up = f.binary("add", old, const(old.type, 1))
        new = f.select(f.compare("icmp uge", old, value), const(old.type, 0), up)
    elif operation == "dec":
        down = f.binary("sub", old, const(old.type, 1))
        zero = f.compare("icmp eq", old, const(old.type, 0))
        wrap = f.binary("or", zero, f.compare("icmp ugt", old, value))
        new = f.select(wrap, value, down)
    elif operation in ("min", "max"):
        name = ("s" if w.modifier("type")[0] == "s" else "u") + operation
        new = f.call(old.type, f"llvm.{name}.{old.type}", [old, value])
    else:
        new = f.binary(operation, old, value)
    f.store(new, at, bytes_)
    return old
