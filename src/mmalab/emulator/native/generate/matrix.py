"""Tensor-core instructions of full warps: mma.sync, ldmatrix, stmatrix.

Where the elements are is the form's fragments' business: the product is one function per form and
numerics unit, made by :mod:`mmalab.numerics`, that works on registers laid out in memory; ldmatrix
takes each register's bytes from the row and column that the fragment names.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmalab import numerics
from mmalab.emulator.native.emit import Value, const
from mmalab.emulator.native.generate.memory import (
    count_lanes,
    shared_place,
    split,
    watch,
)
from mmalab.emulator.native.generate.registry import generates
from mmalab.emulator.native.scope import V1, V32, V64
from mmalab.emulator.native.step import SiteWriter
from mmalab.emulator.program import Addr, Op, Reg, Vec
from mmalab.errors import MmalabError

__all__: list[str] = []


def _items(op: Op) -> tuple[Op, ...]:
    return op.items if isinstance(op, Vec) else (op,)


@generates("mma.sync")
def _multiply(w: SiteWriter) -> bool:
    """Registers to memory, one call, registers back."""
    if w.active is not None or len(w.operands) != 4:
        return False
    if not hasattr(numerics, "fragment_ir"):
        return False
    mode = next(o.removeprefix("numerics:") for o in w.step.options if o.startswith("numerics:"))
    try:
        unit = numerics.unit_for(w.step.program.target, w.site.form.family, w.site.form.modifiers)
        name, text = numerics.fragment_ir(unit, w.site.form, mode=mode)
    except MmalabError:
        return False  # the executor says what it is
    w.step.helpers[name] = text
    f = w.f
    places = []
    for op, role in zip(w.operands, "dabc", strict=True):
        items = _items(op)
        wide = isinstance(items[0], Reg) and items[0].file == "q"
        place = w.step.scratch(f"mma.{role}", len(items), 256 if wide else 128)
        places.append(place)
        for i, item in enumerate(items if role != "d" else ()):
            value = w.scope.read(item, "b64" if wide else "b32")
            f.store(value, f.offset(place, i * (256 if wide else 128)), 64)
    f.call("void", name, places)
    for i, item in enumerate(_items(w.operands[0])):
        wide = isinstance(item, Reg) and item.file == "q"
        value = f.load(V64 if wide else V32, f.offset(places[0], i * (256 if wide else 128)), 64)
        w.scope.write(item, value, None)
    return True


# --- ldmatrix -------------------------------------------------------------------------------------


def _pieces(w: SiteWriter, name: str) -> NDArray[np.int64] | None:
    """[registers, elements, 32, 2]: provider lane and byte offset of every element, b16 only."""
    fragment = w.site.form.fragments.get(name)
    if fragment is None or fragment.bits != 16:
        return None
    # rows of matrix j come from lanes 8 j to 8 j + 7, whatever the element order in a row
    where = fragment.coordinates().transpose(1, 0, 2)  # [slots, lanes, (row, column)]
    places = np.stack((where[..., 0], 2 * where[..., 1]), axis=-1)
    return places.reshape(fragment.registers, 2, 32, 2)


def _lanes(values: NDArray[np.int64]) -> Value:
    return Value(V32, "<" + ", ".join(f"i32 {v}" for v in values.tolist()) + ">")


@generates("ldmatrix")
def _load_matrix(w: SiteWriter) -> bool:
    address = w.operands[1]
    targets = _items(w.operands[0])
    pieces = _pieces(w, "D")
    ordinary = w.active is None and isinstance(address, Addr) and "events" not in w.step.options
    if not ordinary or pieces is None or len(pieces) != len(targets):
        return False
    assert isinstance(address, Addr)  # noqa: S101 - told by `ordinary`
    f = w.f
    rows = 8 * len(targets)
    everyone, w.active = w.active, _first_lanes(rows)
    place = shared_place(w, address, 16)
    slow, merge = split(w, place)
    count_lanes(w, place, "shared", 16)
    watch(w, place, "shared", 16, "read")
    w.active = everyone
    values = [_register(place.base, place.offsets, piece, w) for piece in pieces]
    fast_end = f.current
    f.branch(merge)
    f.label(slow)
    w.executor()
    keys = [(t.file, t.slot) for t in targets if isinstance(t, Reg)]
    reloaded = [w.scope.reload(key) for key in keys]
    slow_end = f.current
    f.branch(merge)
    f.label(merge)
    for key, a, b in zip(keys, values, reloaded, strict=True):
        w.scope.set(key, f.phi((a, fast_end), (b, slow_end)))
    return True


def _first_lanes(count: int) -> Value | None:
    if count == 32:
        return None
    bits = ", ".join(f"i1 {'true' if i < count else 'false'}" for i in range(32))
    return Value(V1, f"<{bits}>")


def _register(base: Value, offsets: Value, piece: NDArray[np.int64], w: SiteWriter) -> Value:
    """One destination register: its two 16-bit elements, in one gather where they are neighbours."""
    low, high = piece
    if (high[:, 0] == low[:, 0]).all() and (high[:, 1] == low[:, 1] + 2).all() and (
        low[:, 1] % 4 == 0
    ).all():
        return _word(base, offsets, low, w)
    f = w.f
    halves = []
    for element in (low, high):
        word = _word(base, offsets, element, w, align=True)
        shift = _lanes(8 * (element[:, 1] % 4))
        halves.append(f.binary("and", f.binary("lshr", word, shift), const(V32, 0xFFFF)))
    return f.binary("or", halves[0], f.binary("shl", halves[1], const(V32, 16)))


def _word(base: Value, offsets: Value, places: NDArray[np.int64], w: SiteWriter, *,
          align: bool = False) -> Value:
    """The 32-bit word at each lane's (provider, byte) place."""
    f = w.f
    order = _lanes(places[:, 0])
    row = f.emit(V32, f"shufflevector {offsets}, {V32} poison, {order}")
    byte = places[:, 1] // 4 * 4 if align else places[:, 1]
    pointers = f.offset(base, f.resize(f.binary("add", row, _lanes(byte)), V64))
    return f.call(V32, "llvm.masked.gather.v32i32.v32p0",
                  [pointers, const("i32", 4), const(V1, 1), const(V32, 0)])


