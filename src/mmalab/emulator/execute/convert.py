"""mov and cvt: copies, packing, and every conversion between number formats.

The values come from :func:`mmalab.formats.convert`; what is here is the register side: which halves
of which operand, .ftz, .sat, packed destinations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab import formats
from mmalab.emulator import ieee
from mmalab.emulator.execute.floating import canonical, saturate
from mmalab.emulator.execute.half import from_half, to_half
from mmalab.emulator.execute.registry import executes
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.program import Vec
from mmalab.emulator.types import is_float, is_signed, width

__all__: list[str] = []

Words = NDArray[Any]
_INTEGRAL = ("rni", "rzi", "rmi", "rpi")


@executes("mov")
def _move(lanes: Lanes) -> None:
    target, source = lanes.operands[0], lanes.operands[1]
    kind = lanes.type(0)
    if isinstance(target, Vec):
        part = width(kind) // len(target.items)
        whole = _bits(lanes.read(1), width(kind))
        for index, item in enumerate(target.items):
            lanes.assign(item, _slice(whole, index * part, part), f"b{part}")
    elif isinstance(source, Vec):
        part = width(kind) // len(source.items)
        pieces = [lanes.value(item, f"b{part}") for item in source.items]
        lanes.write(0, _join(pieces, part, width(kind)))
    else:
        lanes.write(0, lanes.read(1))


def _bits(words: Words, bits: int) -> Words:
    """[warps, 32, n] uint64 of a word of any width."""
    return words if bits == 128 else words.astype(np.uint64)[..., None]


def _slice(whole: Words, start: int, bits: int) -> Words:
    word = whole[..., start // 64] >> np.uint64(start % 64)
    return word.astype(f"u{bits // 8}")


def _join(pieces: list[Words], part: int, bits: int) -> Words:
    whole = np.zeros((*pieces[0].shape, max(bits // 64, 1)), np.uint64)
    for index, piece in enumerate(pieces):
        start = index * part
        whole[..., start // 64] |= piece.astype(np.uint64) << np.uint64(start % 64)
    return whole if bits == 128 else whole[..., 0].astype(f"u{bits // 8}")


# --- cvt ------------------------------------------------------------------------------------------

@executes("cvt")
def _convert(lanes: Lanes) -> None:
    dtype, atype = lanes.modifier("dtype"), lanes.modifier("atype")
    if "x" in dtype or ("x" in atype and atype != ""):
        _convert_packed(lanes, dtype, atype)
        return
    words = lanes.read(1)
    if not is_float(dtype) and not is_float(atype) and not lanes.has("sat"):
        _resize(lanes, words, dtype, atype)
        return
    lanes.write(0, _convert_words(lanes, words, dtype, atype))


def _resize(lanes: Lanes, words: Words, dtype: str, atype: str) -> None:
    """Integer to integer: extend as the source says, keep the low bits."""
    size = width(dtype) // 8
    if is_signed(atype):
        words = words.view(f"i{words.dtype.itemsize}").astype(f"i{size}").view(f"u{size}")
    lanes.write(0, words.astype(f"u{size}"))


def _convert_words(lanes: Lanes, words: Words, dtype: str, atype: str) -> Words:
    rounding = lanes.modifier("rounding", "rn")
    if lanes.has("ftz") and atype == "f32":
        words = np.ascontiguousarray(ieee.flush(words.view(np.float32))).view(np.uint32)
    if is_float(dtype) and is_float(atype) and rounding in _INTEGRAL:
        words = _integral(words, atype, rounding)
        rounding = "rn"
    integers = not is_float(dtype) and not is_float(atype)
    keep = True if lanes.has("satfinite") or (integers and lanes.has("sat")) else None
    if dtype == atype and is_float(dtype):
        result = _canonical_nan(words, dtype)
    else:
        result = formats.convert(words, atype, dtype, rounding, keep, relu=lanes.has("relu"))
    return _clamped(lanes, result.astype(f"u{max(width(dtype), 8) // 8}"), dtype)


def _canonical_nan(words: Words, kind: str) -> Words:
    if kind == "f32":
        return canonical(words.view(np.float32))
    if kind == "f64":
        return words
    return to_half(from_half(words, kind), kind)


def _integral(words: Words, kind: str, rounding: str) -> Words:
    if kind in ("f16", "bf16"):
        return to_half(ieee.round_integral(from_half(words, kind), rounding), kind)
    numbers = ieee.round_integral(words.view(f"f{words.dtype.itemsize}"), rounding)
    return canonical(numbers)


def _clamped(lanes: Lanes, words: Words, kind: str) -> Words:
    """.sat and .ftz of a floating-point result."""
    if not is_float(kind):
        return words
    if lanes.has("ftz") and kind == "f32":
        words = np.ascontiguousarray(ieee.flush(words.view(np.float32))).view(np.uint32)
    if not lanes.has("sat"):
        return words
    if kind in ("f16", "bf16"):
        return to_half(saturate(from_half(words, kind)), kind)
    return np.ascontiguousarray(saturate(words.view(f"f{words.dtype.itemsize}"))).view(words.dtype)


# --- packed cvt -----------------------------------------------------------------------------------

def _parts(kind: str) -> tuple[str, int]:
    """("e4m3", 2) of e4m3x2."""
    base, _, count = kind.partition("x")
    return base, int(count or 1)


def _convert_packed(lanes: Lanes, dtype: str, atype: str) -> None:
    base, count = _parts(dtype)
    source, source_count = _parts(atype)
    operands = len(lanes.site.form.operands)
    random = None
    if lanes.modifier("rounding") == "rs":
        random = formats.random_slices(lanes.value(lanes.operands[-1], "b32"), base)
    values = _sources(lanes, source, source_count, count, operands)
    if lanes.modifier("scaled::n2::ue8m0"):
        raise lanes.refuse("scaled conversions are not executed")
    part = width(dtype) // count
    whole = np.zeros(lanes.mask.shape, np.uint64)
    for index, words in enumerate(values):
        converted = _convert_element(lanes, words, base, source,
                                     None if random is None else random[..., index])
        whole |= converted.astype(np.uint64) << np.uint64(index * part)
    lanes.write(0, whole.astype(f"u{width(dtype) // 8}"))


def _sources(lanes: Lanes, source: str, source_count: int, count: int,
             operands: int) -> list[Words]:
    """The elements to convert, lowest first."""
    if source_count > 1:
        packed = lanes.read(1)
        part = width(f"{source}x{source_count}") // source_count
        # The bits of an FP6 byte above the number are ignored.
        mask = packed.dtype.type((1 << formats.get(source).bits) - 1)
        return [packed >> packed.dtype.type(i * part) & mask for i in range(source_count)]
    if isinstance(lanes.operands[1], Vec):
        return lanes.read_all(1)[::-1]
    if count == 2 and operands >= 3:
        return [lanes.read(2), lanes.read(1)]
    raise lanes.refuse("this conversion is not executed")


def _convert_element(lanes: Lanes, words: Words, base: str, source: str,
                     random: Words | None) -> Words:
    keep = True if lanes.has("satfinite") else None
    dtype = formats.get(source).dtype
    rounding = lanes.modifier("rounding", "rn")
    if random is None:
        return formats.convert(words.astype(dtype), source, base, rounding, keep,
                               relu=lanes.has("relu"))
    bits = 13 if base == "f16" else 16
    return formats.convert(words.astype(dtype), source, base, rounding, keep,
                           relu=lanes.has("relu"), random=random, random_bits=bits)


@executes("cvt.pack")
def _pack(lanes: Lanes) -> None:
    dtype = lanes.modifier("dtype")
    bits = int(dtype[1:])
    low, high = ((-(1 << bits - 1), (1 << bits - 1) - 1) if dtype[0] == "s"
                 else (0, (1 << bits) - 1))
    a, b = (np.clip(lanes.signed(i).astype(np.int64), low, high) & ((1 << bits) - 1)
            for i in (1, 2))
    packed = (a << bits | b).astype(np.uint64)
    if lanes.has("ctype"):
        packed |= lanes.read(3).astype(np.uint64) << np.uint64(2 * bits)
    lanes.write(0, packed.astype(np.uint32))
