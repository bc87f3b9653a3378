"""Tensor-core instructions of full warps: mma.sync and ldmatrix.

Where the elements are is the form's fragments' business: the product is one function per form and
numerics unit, made by :mod:`mmalab.numerics`, that works on registers laid out in memory; ldmatrix
takes every element from the row and column that the fragment names.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmalab import numerics
from mmalab.emulator.native.emit import Value, const, vector
from mmalab.emulator.native.generate.memory import count_lanes, guard_slow, shared_place, watch
from mmalab.emulator.native.generate.registry import generates
from mmalab.emulator.native.primitive import V32, V64, PrimitiveWriter
from mmalab.emulator.program import Addr, Reg
from mmalab.errors import MmalabError
from mmalab.numerics.fragment_ir import fragment_ir

__all__: list[str] = []


@generates("mma.sync")
def _multiply(w: PrimitiveWriter) -> bool:
    """Registers to consecutive memory, one call, registers back."""
    w.whole = True
    if len(w.operands) != 4:
        return False
    try:
        unit = numerics.unit_for(w.target, w.site.form.family, w.site.form.modifiers)
        mode = "fast" if "numerics:fast" in w.options else "exact"
        name, text = fragment_ir(unit, w.site.form, mode=mode)
    except MmalabError:
        return False  # the executor says what it is
    w.helpers[name] = text
    places = [_registers(w, index) for index in range(4)]
    w.f.call("void", name, places)
    wide = _is_wide(w, 0)
    for i, index in enumerate(w.items(0)):
        at = w.f.offset(places[0], i * (256 if wide else 128))
        w.write(index, w.f.load(V64 if wide else V32, at, 64))
    return True


def _is_wide(w: PrimitiveWriter, index: int) -> bool:
    op = w.op(w.items(index)[0])
    return isinstance(op, Reg) and op.file == "q"


def _registers(w: PrimitiveWriter, index: int) -> Value:
    """An operand's registers behind each other on the stack; space only for the destination."""
    f, items, wide = w.f, w.items(index), _is_wide(w, index)
    size = 256 if wide else 128
    place = f.alloca(f"[{len(items) * size} x i8]")
    for i, item in enumerate(items if index else []):
        f.store(w.read(item, "b64" if wide else "b32"), f.offset(place, i * size), 64)
    return place


# --- ldmatrix -------------------------------------------------------------------------------------


def _elements(w: PrimitiveWriter) -> NDArray[np.int64] | None:
    """[registers, 32 lanes, 2, 2]: provider lane and byte in its row, of every 16-bit element."""
    fragment = w.site.form.fragments.get("D")
    if fragment is None or fragment.bits != 16:
        return None
    index = fragment.indices()
    row = index % fragment.rows + fragment.rows * (index // (fragment.rows * fragment.cols))
    byte = 2 * (index // fragment.rows % fragment.cols)
    places = np.stack((row, byte), axis=-1)  # [lanes, slots, 2]
    return places.reshape(32, fragment.registers, 2, 2).transpose(1, 0, 2, 3)


@generates("ldmatrix")
def _load_matrix(w: PrimitiveWriter) -> bool:
    w.whole = True
    elements = _elements(w)
    targets = w.items(0)
    if not isinstance(w.operands[1], Addr) or elements is None or len(elements) != len(targets):
        return False
    rows = 8 * len(targets)
    bits = const("i32", (1 << rows) - 1 if rows < 32 else -1)
    place = shared_place(w, 1, 16, bits)
    guard_slow(w, place.slow)
    count_lanes(w, place, "shared", 16, bits)
    watch(w, place, "shared", 16, "read", bits)
    f = w.f
    offsets = f.alloca(V32)
    f.store(place.offsets, offsets, 64)
    for target, piece in zip(targets, elements, strict=True):
        if not isinstance(w.op(target), Reg):
            continue
        if _whole_rows(piece):
            _copy_rows(w, place.base, offsets, w.at(target), piece)
        else:
            _copy_elements(w, place.base, offsets, w.at(target), piece)
    return True


def _whole_rows(piece: NDArray[np.int64]) -> bool:
    """Whether each four lanes hold one row of 16 bytes in order."""
    rows = piece.reshape(8, 8, 2)
    return bool((rows[..., 1] == 2 * np.arange(8)).all() and (rows[..., 0] == rows[:, :1, 0]).all())


def _copy_rows(w: PrimitiveWriter, base: Value, offsets: Value, target: Value,
               piece: NDArray[np.int64]) -> None:
    f, kind = w.f, vector("i8", 16)
    for group, provider in enumerate(piece.reshape(8, 8, 2)[:, 0, 0].tolist()):
        offset = f.load("i32", f.offset(offsets, 4 * provider), 4)
        row = f.load(kind, f.offset(base, f.cast("zext", offset, "i64")), 16)
        f.store(row, f.offset(target, 16 * group), 16)


def _copy_elements(w: PrimitiveWriter, base: Value, offsets: Value, target: Value,
                   piece: NDArray[np.int64]) -> None:
    """Element by element, by a table of (provider, byte): the transposed forms."""
    f = w.f
    flat = piece.reshape(64, 2).tolist()
    name = "rows." + "".join(f"{p:02x}{b:02x}" for p, b in flat)[:64].strip()
    listed = ", ".join(f"i8 {p}, i8 {b}" for p, b in flat)
    w.helpers[name] = f"@{name} = internal constant [128 x i8] [{listed}]"
    table = Value("ptr", f"@{name}")

    def body(lane: Value) -> None:
        for element in range(2):
            entry = f.offset(f.element_at(table, lane, 4), 2 * element)
            provider = f.cast("zext", f.load("i8", entry), "i32")
            byte = f.cast("zext", f.load("i8", f.offset(entry, 1)), "i64")
            offset = f.cast("zext", f.load("i32", f.element_at(offsets, provider, 4), 4), "i64")
            half = f.load("i16", f.offset(f.offset(base, offset), byte))
            f.store(half, f.offset(f.element_at(target, lane, 4), 2 * element), 2)

    f.each_lane(const("i32", -1), body)
