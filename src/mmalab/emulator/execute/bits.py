"""Logic, shifts, bit fields, byte permutation, counting bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.execute.registry import executes
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.program import Imm, Vec
from mmalab.emulator.types import is_signed

__all__: list[str] = []

Words = NDArray[Any]


@executes("and")
def _and(lanes: Lanes) -> None:
    lanes.write(0, lanes.read(1) & lanes.read(2))


@executes("or")
def _or(lanes: Lanes) -> None:
    lanes.write(0, lanes.read(1) | lanes.read(2))


@executes("xor")
def _xor(lanes: Lanes) -> None:
    lanes.write(0, lanes.read(1) ^ lanes.read(2))


@executes("not")
def _not(lanes: Lanes) -> None:
    lanes.write(0, ~lanes.read(1))


@executes("cnot")
def _c_not(lanes: Lanes) -> None:
    a = lanes.read(1)
    lanes.write(0, (a == 0).astype(a.dtype))


@executes("lop3")
def _lop3(lanes: Lanes) -> None:
    a, b, c = (lanes.read(i) for i in (1, 2, 3))
    table = lanes.operands[4]
    lut = table.word if isinstance(table, Imm) else 0
    result = np.zeros_like(a)
    for row in range(8):
        if lut >> row & 1:
            x, y, z = (w if row >> bit & 1 else ~w for w, bit in ((a, 2), (b, 1), (c, 0)))
            result |= x & y & z
    boolean = lanes.modifier("bool")
    if not boolean:
        lanes.write(0, result)
        return
    q, nonzero = lanes.predicate(5), result != 0
    outcome = nonzero | q if boolean == "or" else nonzero & q
    target = lanes.operands[0]
    if isinstance(target, Vec):
        lanes.assign(target.items[0], result, "b32")
        lanes.assign(target.items[1], outcome, "pred")


# --- shifts ---------------------------------------------------------------------------------------

def _shift_left(a: Words, amount: Words) -> Words:
    bits = a.dtype.itemsize * 8
    inside = amount < bits
    moved = a << np.where(inside, amount, 0).astype(a.dtype)
    return np.asarray(np.where(inside, moved, a.dtype.type(0)))


def _shift_right(a: Words, amount: Words, *, signed: bool) -> Words:
    bits = a.dtype.itemsize * 8
    if signed:
        x = a.view(f"i{bits // 8}")
        return np.asarray((x >> np.minimum(amount, bits - 1).astype(x.dtype)).view(a.dtype))
    inside = amount < bits
    moved = a >> np.where(inside, amount, 0).astype(a.dtype)
    return np.asarray(np.where(inside, moved, a.dtype.type(0)))


@executes("shl")
def _shl(lanes: Lanes) -> None:
    lanes.write(0, _shift_left(lanes.read(1), lanes.read(2)))


@executes("shr")
def _shr(lanes: Lanes) -> None:
    signed = is_signed(lanes.modifier("type"))
    lanes.write(0, _shift_right(lanes.read(1), lanes.read(2), signed=signed))


@executes("shf")
def _shf(lanes: Lanes) -> None:
    low, high, amount = lanes.read(1), lanes.read(2), lanes.read(3)
    amount = (np.minimum(amount, 32) if lanes.modifier("wrapping") == "clamp"
              else amount & np.uint32(31)).astype(np.uint64)
    both = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
    if lanes.modifier("mode") == "l":
        lanes.write(0, (both << amount >> np.uint64(32)).astype(np.uint32))
    else:
        lanes.write(0, (both >> amount).astype(np.uint32))


# --- fields ---------------------------------------------------------------------------------------

@executes("bfe")
def _extract(lanes: Lanes) -> None:
    a = lanes.read(1)
    bits, signed = a.dtype.itemsize * 8, is_signed(lanes.modifier("type"))
    start, length = (lanes.read(i) & np.uint32(0xFF) for i in (2, 3))
    field = _shift_right(a, start, signed=False)
    keep = ~_shift_left(np.full_like(a, -1 & (1 << bits) - 1), length)
    field &= keep
    if signed:
        top = np.minimum(start + length - 1, bits - 1)
        sign = (_shift_right(a, top, signed=False) & a.dtype.type(1)) != 0
        # Bits beyond the word read as its sign, and so does the rest of the result.
        have = np.where(start >= bits, 0, np.minimum(length, bits - np.minimum(start, bits)))
        fill = _shift_left(np.full_like(a, -1 & (1 << bits) - 1), have.astype(np.uint32))
        field = np.where(sign, field | fill, field & ~fill)
    lanes.write(0, np.where(length == 0, a.dtype.type(0), field))


@executes("bfi")
def _insert(lanes: Lanes) -> None:
    a, b = lanes.read(1), lanes.read(2)
    start, length = (lanes.read(i) & np.uint32(0xFF) for i in (3, 4))
    ones = np.full_like(a, np.iinfo(a.dtype).max)
    mask = _shift_left(~_shift_left(ones, length), start)
    lanes.write(0, (_shift_left(a, start) & mask) | (b & ~mask))


@executes("bmsk")
def _mask(lanes: Lanes) -> None:
    start, length = lanes.read(1), lanes.read(2)
    if lanes.modifier("wrapping") == "wrap":
        start, length = start & np.uint32(31), length & np.uint32(31)
    ones = np.full_like(start, 0xFFFFFFFF)
    lanes.write(0, _shift_left(~_shift_left(ones, length), start))


@executes("szext")
def _extend(lanes: Lanes) -> None:
    a, count = lanes.read(1), lanes.read(2)
    if lanes.modifier("wrapping") == "wrap":
        count = count & np.uint32(31)
    count = np.minimum(count, 32)
    drop = (np.uint32(32) - count).astype(np.uint32)
    signed = is_signed(lanes.modifier("type"))
    moved = _shift_right(_shift_left(a, drop), drop, signed=signed)
    lanes.write(0, np.where(count == 0, np.uint32(0), moved))


# --- counting -------------------------------------------------------------------------------------

@executes("popc")
def _popc(lanes: Lanes) -> None:
    lanes.write(0, np.bitwise_count(lanes.read(1)).astype(np.uint32))


def _leading_zeros(a: Words) -> NDArray[np.uint32]:
    bits = a.dtype.itemsize * 8
    smeared = a.copy()
    for step in (1, 2, 4, 8, 16, 32):
        if step < bits:
            smeared |= smeared >> a.dtype.type(step)
    return (bits - np.bitwise_count(smeared)).astype(np.uint32)


@executes("clz")
def _clz(lanes: Lanes) -> None:
    lanes.write(0, _leading_zeros(lanes.read(1)))


@executes("bfind")
def _find_bit(lanes: Lanes) -> None:
    a = lanes.read(1)
    bits = a.dtype.itemsize * 8
    if is_signed(lanes.modifier("type")):
        a = np.where(a.view(f"i{bits // 8}") < 0, ~a, a)
    zeros = _leading_zeros(a)
    position = zeros if lanes.has("shiftamt") else (bits - 1 - zeros.astype(np.int64))
    lanes.write(0, np.where(a == 0, 0xFFFFFFFF, position).astype(np.uint32))


@executes("fns")
def _find_nth_set(lanes: Lanes) -> None:
    mask, base = lanes.read(1), lanes.read(2)
    offset = lanes.signed(3)
    result = np.full_like(mask, 0xFFFFFFFF)
    for where in np.argwhere(lanes.mask):
        i = tuple(where)
        result[i] = _nth_set(int(mask[i]), int(base[i]) & 31, int(offset[i]))
    lanes.write(0, result)


def _nth_set(mask: int, base: int, offset: int) -> int:
    if offset == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    step = 1 if offset > 0 else -1
    left, position = abs(offset), base
    while 0 <= position < 32:
        if mask >> position & 1:
            left -= 1
            if not left:
                return position
        position += step
    return 0xFFFFFFFF


@executes("brev")
def _reverse(lanes: Lanes) -> None:
    a = np.ascontiguousarray(lanes.read(1))
    size = a.dtype.itemsize
    as_bits = np.unpackbits(a.view(np.uint8).reshape(*a.shape, size), axis=-1, bitorder="little")
    back = np.packbits(as_bits[..., ::-1], axis=-1, bitorder="little")
    lanes.write(0, np.ascontiguousarray(back).view(a.dtype)[..., 0])


@executes("prmt")
def _permute(lanes: Lanes) -> None:
    a, b, c = (lanes.read(i).astype(np.uint64) for i in (1, 2, 3))
    both = a | b << np.uint64(32)
    result = np.zeros(lanes.mask.shape, np.uint64)
    for byte in range(4):
        selector = _selector(lanes.modifier("mode"), c, byte)
        value = both >> ((selector & np.uint64(7)) * np.uint64(8)) & np.uint64(0xFF)
        signed = np.where(value & np.uint64(0x80), np.uint64(0xFF), np.uint64(0))
        value = np.where(selector & np.uint64(8), signed, value)
        result |= value << np.uint64(8 * byte)
    lanes.write(0, result.astype(np.uint32))


def _selector(mode: str, c: NDArray[np.uint64], byte: int) -> NDArray[np.uint64]:
    """Which of the eight bytes goes to place `byte` (bit 3: replicate its sign)."""
    if not mode:
        return c >> np.uint64(4 * byte) & np.uint64(15)
    low = (c & np.uint64(3)).astype(np.int64)
    chosen = {
        "f4e": low + byte, "b4e": (low - byte) & 7, "rc8": low,
        "ecl": np.maximum(low, byte), "ecr": np.minimum(low, byte),
        "rc16": (low & 1) * 2 + (byte & 1),
    }[mode]
    return chosen.astype(np.uint64)
