"""Tensor-core instructions of full warps: mma.sync, ldmatrix, stmatrix and movmatrix.

Where the elements are is the form's fragments' business: the product is one function per form and
numerics unit, made by :mod:`mmalab.numerics`, that works on registers laid out in memory; ldmatrix
takes every element from the row and column that the fragment names.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmalab import numerics
from mmalab.emulator.memory import SHARED_TAG, TAG_SHIFT
from mmalab.emulator.native.emit import Value, const, vector
from mmalab.emulator.native.generate.memory import (
    changed,
    count_lanes,
    guard_slow,
    shared_place,
    watch,
)
from mmalab.emulator.native.generate.registry import generates
from mmalab.emulator.native.primitive import V32, V64, PrimitiveWriter, is_row
from mmalab.emulator.program import Addr, Reg
from mmalab.emulator.types import width
from mmalab.errors import MmalabError
from mmalab.numerics.fragment_ir import fragment_ir

__all__: list[str] = []


@generates("mma.sync")
def _multiply(w: PrimitiveWriter) -> bool:
    """One call on the registers where they lie; those not behind each other are copied."""
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
    for i, index in enumerate([] if is_row(w.operands[0]) else w.items(0)):
        at = w.f.offset(places[0], i * (256 if wide else 128))
        w.write(index, w.f.load(V64 if wide else V32, at, 64))
    return True


def _is_wide(w: PrimitiveWriter, index: int) -> bool:
    return width(w.site.form.operands[index].type) == 64


def _registers(w: PrimitiveWriter, index: int) -> Value:
    """An operand's registers behind each other: its own, or copies (no copy of the destination)."""
    if is_row(w.operands[index]):
        return w.at(w.items(index)[0])
    f, items, wide = w.f, w.items(index), _is_wide(w, index)
    size = 256 if wide else 128
    place = f.alloca(f"[{len(items) * size} x i8]")
    for i, item in enumerate(items if index else []):
        f.store(w.read(item, "b64" if wide else "b32"), f.offset(place, i * size), 64)
    return place


# --- ldmatrix -------------------------------------------------------------------------------------


def _elements(w: PrimitiveWriter, name: str) -> NDArray[np.int64] | None:
    """[registers, 32 lanes, 2, 2]: provider lane and byte in its row, of every 16-bit element."""
    fragment = w.site.form.fragments.get(name)
    if fragment is None or fragment.bits != 16:
        return None
    index = fragment.indices()
    row = index % fragment.rows + fragment.rows * (index // (fragment.rows * fragment.cols))
    byte = 2 * (index // fragment.rows % fragment.cols)
    places = np.stack((row, byte), axis=-1)  # [lanes, slots, 2]
    return places.reshape(32, fragment.registers, 2, 2).transpose(1, 0, 2, 3)


def _rows(w: PrimitiveWriter, index: int, count: int, kind: str) -> tuple[Value, Value]:
    """Host address of shared memory, and the stack place of the offsets of the rows' lanes."""
    f = w.f
    bits = const("i32", (1 << count) - 1 if count < 32 else -1)
    place = shared_place(w, index, 16, bits)
    slow = place.slow
    if not w.modifier("space"):  # a generic address must be in the window of shared memory
        tags = f.binary("lshr", w.address(index, 64), const(V64, TAG_SHIFT))
        other = f.cast("bitcast", f.compare("icmp ne", tags, const(V64, SHARED_TAG)), "i32")
        outside = f.compare("icmp ne", f.binary("and", other, bits), const("i32", 0))
        slow = f.binary("or", slow, outside)
    guard_slow(w, slow)
    count_lanes(w, place, "shared", 16, bits)
    watch(w, place, "shared", 16, kind, bits)
    offsets = f.alloca(V32)
    f.store(place.offsets, offsets, 64)
    return place.base, offsets


@generates("ldmatrix")
def _load_matrix(w: PrimitiveWriter) -> bool:
    w.whole = True
    elements = _elements(w, "D")
    targets = w.items(0)
    if not isinstance(w.operands[1], Addr) or elements is None or len(elements) != len(targets):
        return False
    base, offsets = _rows(w, 1, 8 * len(targets), "read")
    for target, piece in zip(targets, elements, strict=True):
        if not isinstance(w.op(target), Reg):
            continue
        if _whole_rows(piece):
            _copy_rows(w, base, offsets, w.at(target), piece)
        else:
            _copy_elements(w, base, offsets, w.at(target), piece)
    return True


@generates("stmatrix")
def _store_matrix(w: PrimitiveWriter) -> bool:
    """Rows that meet: the highest lane's stays, as its matrix and row come last."""
    w.whole = True
    elements = _elements(w, "B")
    sources = w.items(1)
    if "filter" in w.options or not isinstance(w.operands[0], Addr) or elements is None or (
        len(elements) != len(sources)
    ):
        return False
    base, offsets = _rows(w, 0, 8 * len(sources), "write")
    f, row = w.f, vector("i8", 16)
    for source, piece in zip(sources, elements, strict=True):
        tile = f.alloca("[128 x i8]")
        _to_rows(w, w.read(source, "b32"), piece, tile)
        for i in range(8):
            provider = int(piece[..., 0].min()) + i
            offset = f.load("i32", f.offset(offsets, 4 * provider), 4)
            data = f.load(row, f.offset(tile, 16 * i), 16)
            f.store(data, f.offset(base, f.cast("zext", offset, "i64")), 16)
    changed(w)
    return True


def _to_rows(w: PrimitiveWriter, words: Value, piece: NDArray[np.int64], tile: Value) -> None:
    """Put a register's elements where they stand in the 8 rows of 16 bytes at `tile`."""
    f = w.f
    halves = vector("i16", 64)
    first = int(piece[..., 0].min())
    places = (8 * (piece[..., 0] - first) + piece[..., 1] // 2).reshape(64)
    order = np.empty(64, np.int64)
    order[places] = np.arange(64)
    listed = ", ".join(f"i32 {i}" for i in order.tolist())
    raw = f.cast("bitcast", words, halves)
    f.store(f.emit(halves, f"shufflevector {raw}, {halves} poison, <64 x i32> <{listed}>"), tile,
            64)


@generates("movmatrix")
def _move_matrix(w: PrimitiveWriter) -> bool:
    """One shuffle of the warp's 64 halfwords."""
    w.whole = True
    fragments = w.site.form.fragments
    come, to = (fragments[name].indices().reshape(64) for name in ("A", "D"))
    source = np.empty(64, np.int64)
    source[come] = np.arange(64)
    listed = ", ".join(f"i32 {i}" for i in source[to].tolist())
    halves = vector("i16", 64)
    raw = w.f.cast("bitcast", w.read(1, "b32"), halves)
    moved = w.f.emit(halves, f"shufflevector {raw}, {halves} poison, <64 x i32> <{listed}>")
    w.write(0, w.f.cast("bitcast", moved, V32))
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
