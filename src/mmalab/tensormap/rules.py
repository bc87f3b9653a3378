"""The limits of tensor maps, each an error that says what would be legal.

They are those of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col; maps whose bytes a kernel has
changed are held to the same ones when a copy uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from mmalab.errors import UsageError
from mmalab.tensormap.elements import swizzle

if TYPE_CHECKING:
    from mmalab.tensormap.tensor_map import TensorMap

__all__ = ["FILLS", "INTERLEAVES", "L2_PROMOTIONS", "check_address", "check_map", "check_span",
           "check_view"]

INTERLEAVES = ("none", "16B", "32B")
L2_PROMOTIONS = ("none", "64B", "128B", "256B")
FILLS = ("zero", "nan")

_TILED = "CUDA driver API, cuTensorMapEncodeTiled"
_IM2COL = "CUDA driver API, cuTensorMapEncodeIm2col"
_WIDE = "CUDA driver API, cuTensorMapEncodeIm2colWide"
_NARROW = "PTX ISA, restrictions on sub-byte tensors"
_MAX_ADDRESS = 1 << 57
#: Shared memory of an SM: the driver refuses larger boxes.
_MAX_BYTES = 228 << 10
_MAX_DIM, _MAX_STRIDE, _MAX_BOX, _MAX_STEP, _MAX_PIXELS = 1 << 32, 1 << 40, 256, 8, 1024
#: Signed bits of a corner of the pixel box, by rank.
_CORNER_BITS = {3: 16, 4: 8, 5: 5}
_WIDE_SWIZZLES = ("64B", "128B", "128B_ATOM_32B")

_CALLED = {"dims": "size", "box": "box size", "element_strides": "traversal stride"}

_Problem = tuple[str, str, str, str]


def check_map(made: TensorMap) -> None:
    """All limits that do not depend on where the tensor lies.

    Raises:
        UsageError: the first one that is not kept.
    """
    for check in _CHECKS:
        for given, rule, legal, where in check(made):
            raise UsageError(given, rule, legal=legal or (), where=where)


def check_address(made: TensorMap, address: int) -> None:
    """The alignment of the tensor's first byte.

    Raises:
        UsageError: not a multiple of 16 (32 for 32-byte interleave and padded sub-byte types).
    """
    unit = _unit(made)
    if address % unit:
        raise UsageError(f"a tensor at address {address:#x}", f"is not {unit}-byte aligned",
                         legal=f"a multiple of {unit}", where=_TILED)
    if address >= _MAX_ADDRESS:
        raise UsageError(f"a tensor at address {address:#x}", "is beyond 57 bits",
                         legal=f"0 to {_MAX_ADDRESS - unit:#x}", where=_TILED)


def check_view(made: TensorMap, ahead: int) -> None:
    """The tensor begins at a multiple of its unit, in memory that begins at one.

    `ahead` is how far into that memory the array begins: 0, or more for a view of another array.

    Raises:
        UsageError: it does not.
    """
    unit = _unit(made)
    if (ahead + made.offset) % unit == 0:
        return
    given = f"offset {made.offset}" if not ahead else (
        f"a view that begins {ahead} bytes into its array"
        + (f", offset {made.offset}" if made.offset else ""))
    each = unit * 8 // made.element.bits
    raise UsageError(given, f"the tensor's first byte is not {unit}-byte aligned",
                     legal=[f"a multiple of {unit} bytes ({each} {made.dtype})",
                            *(["a copy of the view"] if ahead else [])], where=_TILED)


def check_span(made: TensorMap, size: int) -> None:
    """The tensor lies in the `size` bytes of its array.

    Raises:
        UsageError: it begins before them or ends behind them.
    """
    last = sum((n - 1) * step for n, step in zip(made.dims[1:], made.strides, strict=True))
    end = made.offset + last + (made.dims[0] * made.slice_bytes
                                or made.element.global_bytes(made.dims[0]))
    if made.offset < 0 or end > size:
        raise UsageError(f"dims {made.dims}, strides {made.strides}, offset {made.offset}",
                         f"reach bytes {made.offset} to {end} of an array of {size}",
                         legal=f"0 to {size}", where="mmalab.TensorMap")


def _unit(made: TensorMap) -> int:
    return 32 if made.interleave == "32B" or made.element.pads else 16


# --- the limits -----------------------------------------------------------------------------------

def _words(made: TensorMap) -> Iterator[_Problem]:
    for name, value, legal in (("interleave", made.interleave, INTERLEAVES),
                               ("l2_promotion", made.l2_promotion, L2_PROMOTIONS),
                               ("fill", made.fill, FILLS)):
        if value not in legal:
            yield f"{name} {value!r}", "is not known", ", ".join(legal), _TILED
    swizzle(made.swizzle)


def _rank(made: TensorMap) -> Iterator[_Problem]:
    least = 3 if made.im2col_box is not None or made.interleave != "none" else 1
    if not least <= made.rank <= 5:
        yield (f"{made.rank} dimensions", "is not a rank of such a map", f"{least} to 5",
               _IM2COL if made.im2col_box else _TILED)
    sizes = [("strides", made.strides, made.rank - 1),
             ("element_strides", made.element_strides, made.rank)]
    if made.im2col_box is None:
        sizes.append(("box", made.box, made.rank))
    for name, values, count in sizes:
        if len(values) != count:
            yield (f"{name} {values}", f"a tensor of rank {made.rank} has {count}", str(count),
                   _TILED)


def _sizes(made: TensorMap) -> Iterator[_Problem]:
    for name, values, most in (("dims", made.dims, _MAX_DIM), ("box", made.box, _MAX_BOX),
                               ("element_strides", made.element_strides, _MAX_STEP)):
        if name == "box" and made.im2col_box is not None:
            continue
        for index, value in enumerate(values):
            if not 1 <= value <= most:
                yield (f"{name} {values}, dimension {index}",
                       f"{value} is not a {_CALLED[name]}",
                       f"1 to {most}", _TILED)


def _strides(made: TensorMap) -> Iterator[_Problem]:
    unit = _unit(made)
    for index, stride in enumerate(made.strides):
        if stride % unit or not 0 <= stride < _MAX_STRIDE:
            near = max(unit, min(-(-stride // unit) * unit, _MAX_STRIDE - unit))
            rows = f" (rows of {near * 8 // made.element.bits} {made.dtype})" if index == 0 else ""
            yield (f"strides {made.strides}, dimension {index + 1}",
                   f"{stride} is not a multiple of {unit} bytes below 2^40", f"{near}{rows}",
                   _TILED)


def _inner(made: TensorMap) -> Iterator[_Problem]:
    first = made.box[0] if made.im2col_box is None else made.im2col_box.channels
    inner = made.element.shared_bytes(first)
    if inner % 16:
        each = 16 * 8 // (8 if made.element.pads else made.element.bits)
        yield (f"box {made.box} of {made.dtype}", f"{inner} inner bytes are no multiple of 16",
               f"multiples of {each} elements", _TILED)
    mode = made.swizzle_mode
    if made.interleave == "none" and inner > mode.span:
        most = mode.span * 8 // (8 if made.element.pads else made.element.bits)
        yield (f"box {made.box} of {made.dtype} with swizzle {made.swizzle}",
               f"its inner dimension has {inner} bytes, more than the swizzle's {mode.span}",
               f"at most {most} elements", _TILED)


def _bytes(made: TensorMap) -> Iterator[_Problem]:
    if made.noted_bytes > _MAX_BYTES:
        yield (f"box {made.box} of {made.dtype}",
               f"{made.noted_bytes} bytes are more than an SM has",
               f"at most {_MAX_BYTES} bytes", _TILED)


def _combinations(made: TensorMap) -> Iterator[_Problem]:
    if made.fill == "nan" and (not made.element.floating or made.element.narrow):
        yield (f"fill nan of {made.dtype}", "only floating types have it", "zero", _TILED)
    if made.swizzle == "96B" and (made.interleave != "none" or made.element.pads):
        yield (f"swizzle 96B with interleave {made.interleave}, {made.dtype}",
               "goes with no interleave and no padded type", "none", _NARROW)


def _narrow(made: TensorMap) -> Iterator[_Problem]:
    kind = made.element
    if not kind.narrow:
        return
    if made.interleave != "none":
        yield f"interleave {made.interleave} of {made.dtype}", "is not supported", "none", _NARROW
    if not kind.pads:
        if made.dims[0] % 2:
            yield f"dims {made.dims} of {made.dtype}", "the inner size must be even", \
                str(made.dims[0] + 1), _NARROW
        return
    if made.dims[0] % 128:
        yield (f"dims {made.dims} of {made.dtype}", "the inner size is no multiple of 128",
               str(-(-made.dims[0] // 128) * 128), _NARROW)
    if made.counts[0] != 128:
        yield (f"box {made.box} of {made.dtype}", "the inner size must be 128", "128", _NARROW)
    allowed = ("none", "128B", "128B_ATOM_32B", "128B_ATOM_64B")
    legal = allowed if kind.bits == 6 else allowed[:3]
    if made.swizzle not in legal:
        yield (f"swizzle {made.swizzle} of {made.dtype}", "is not supported", ", ".join(legal),
               _NARROW)


def _im2col(made: TensorMap) -> Iterator[_Problem]:
    corner = made.im2col_box
    if corner is None:
        return
    for name, value, most in (("channels", corner.channels, _MAX_BOX),
                              ("pixels", corner.pixels, _MAX_PIXELS)):
        if not 1 <= value <= most:
            yield f"{name} {value}", "out of range", f"1 to {most}", _IM2COL
    if corner.wide not in ("", "w", "w128"):
        yield f"wide {corner.wide!r}", "is not a mode", "w, w128", _WIDE
    count = 1 if corner.wide else made.rank - 2
    bits = _CORNER_BITS[3 if corner.wide else made.rank]
    if len(corner.lower) == len(corner.upper) == count:
        # Interleaved tensors begin with W; the driver counts sizes in 32 signed bits.
        first = 1 if made.interleave == "none" else 0
        for axis, (low, high) in enumerate(zip(corner.lower, corner.upper, strict=True), first):
            size = (made.dims[axis] + (1 << 31)) % (1 << 32) - (1 << 31)
            if size + high - low < 1:
                yield (f"corners {corner.lower} and {corner.upper}",
                       f"leave no pixel of dimension {axis}, which has {made.dims[axis]}",
                       f"an upper one of at least {low + 1 - made.dims[axis]}", _IM2COL)
    for name, values in (("lower", corner.lower), ("upper", corner.upper)):
        if len(values) != count:
            yield (f"{name} {values}", f"a tensor of rank {made.rank} has {count} corner offsets",
                   str(count), _IM2COL)
        for value in values:
            if not -(1 << bits - 1) <= value < 1 << bits - 1:
                yield (f"{name} {values}", f"{value} has more than {bits} bits",
                       f"{-(1 << bits - 1)} to {(1 << bits - 1) - 1}", _IM2COL)
    if corner.wide:
        yield from _im2col_wide(made, corner.wide)


def _im2col_wide(made: TensorMap, wide: str) -> Iterator[_Problem]:
    if made.interleave != "none":
        yield f"interleave {made.interleave} of im2col::w", "is not supported", "none", _WIDE
    if made.swizzle not in _WIDE_SWIZZLES:
        yield (f"swizzle {made.swizzle} of im2col::{wide}", "is not supported",
               ", ".join(_WIDE_SWIZZLES), _WIDE)


_CHECKS: tuple[Callable[[TensorMap], Iterator[_Problem]], ...] = (
    _words, _rank, _sizes, _im2col, _strides, _inner, _bytes, _combinations, _narrow)
