"""cp.async.bulk.tensor and its reductions: boxes of a tensor map, moved by one lane's word.

The map is 128 bytes wherever the kernel has it. They are read when the copy is issued, for its
checks and for what the listeners are told, and again when it is done: a kernel that changes a map
too early sees it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.events import Span
from mmalab.emulator.execute.bulk import destinations
from mmalab.emulator.execute.reduction import combine
from mmalab.emulator.execute.registry import executes
from mmalab.emulator.execute.tensor_boxes import load_boxes
from mmalab.emulator.issue import Illegal, Issue, Operands, Step, each_lane, told
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.memory import SHARED_TAG, TAG_SHIFT, Extent
from mmalab.errors import UsageError
from mmalab.isa.targets import target as target_row
from mmalab.tensormap import MAP_BYTES, NAN_FILL, Arrangement, Block, Cut, TensorMap, arrange, cut

__all__ = ["map_at"]

_Bytes = NDArray[np.uint8]
_ALIGN, _MAP_ALIGN = 128, 64
_MAP_WHERE = "CUDA driver API, CUtensorMap"

#: Element types that each reduction has (compared with an H200, floating sums included).
_REDUCES = {
    "add": ("u32", "s32", "u64", "f32", "f16", "bf16"),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"), "inc": ("u32",), "dec": ("u32",),
    "and": ("u32", "s32", "u64", "s64"), "or": ("u32", "s32", "u64", "s64"),
    "xor": ("u32", "s32", "u64", "s64"),
}


@lru_cache(maxsize=256)
def _decoded(data: bytes) -> TensorMap | UsageError:
    try:
        return TensorMap.decode(data)
    except UsageError as error:
        return error


def map_at(issue: Issue, address: int) -> TensorMap:
    """The tensor map at a generic address.

    Raises:
        Illegal: misaligned, out of bounds, or fields that no map can have.
    """
    return _map_of(issue, _map_bytes(issue, address))


def _map_bytes(issue: Issue, address: int) -> bytes:
    """The 128 bytes at a generic address, as they are now."""
    if address % _MAP_ALIGN:
        raise Illegal("misaligned-access", f"a tensor map at {address:#x}",
                      "is not 64-byte aligned", legal="a multiple of 64", where=_MAP_WHERE)
    found = issue.machine.space.extent("", address, issue.row)
    if found is None or found.at < found.low or found.at + MAP_BYTES > found.high:
        raise issue.outside("a tensor map", address, MAP_BYTES, "memory that the kernel has")
    data = found.region.data[found.at : found.at + MAP_BYTES].tobytes()
    if not any(data):
        raise Illegal("illegal-value", f"{MAP_BYTES} bytes at {address:#x}", "are all zero: nobody"
                      " has written a tensor map there", where=_MAP_WHERE)
    return data


def _map_of(issue: Issue, data: bytes) -> TensorMap:
    """The map that the bytes hold, if this chip has it."""
    made = _decoded(data)
    if isinstance(made, UsageError):
        raise told(made)
    _check_chip(issue, made)
    return made


def _check_chip(issue: Issue, made: TensorMap) -> None:
    """What Hopper's copies do not have."""
    newer = "ATOM" in made.swizzle or made.element.narrow or made.swizzle == "96B"
    if newer and target_row(issue.machine.target).capability[0] < 10:
        raise Illegal("illegal-value", f"a tensor map of {made.dtype} with swizzle {made.swizzle}",
                      f"{issue.machine.target} does not have it", legal="swizzles none, 32B, 64B"
                      " and 128B of whole bytes", where="PTX ISA, tensormap.replace")


#: Types whose sums nobody has measured: what they do with subnormals is not known.
_UNMEASURED_SUMS = ("f32.ftz", "f64", "tf32", "tf32.ftz")


def _refuse_unknown(issue: Issue, made: TensorMap) -> None:
    """Boxes and sums of which neither the manual nor a chip at hand says what every byte is.

    Raises:
        UnsupportedInstruction: im2col::w, im2col of interleaved tensors, swizzle 96B, sums of
            types that were not measured.
    """
    corner, what = made.im2col_box, ""
    if corner is not None and (corner.wide or made.slice_bytes):
        what = f"im2col::{corner.wide}" if corner.wide else "im2col of interleaved tensors"
    elif made.swizzle == "96B":
        what = "swizzle 96B"
    elif issue.modifiers.get("op") == "add" and made.dtype in _UNMEASURED_SUMS:
        what = f"the sum of {made.dtype} in a tensor"
    if what:
        raise issue.operands.lanes.refuse(f"{what} is not emulated")


@dataclass(frozen=True, slots=True)
class _Box:
    """A map (its bytes too) and a cut of it, with the bytes of the buffer that the tensor lies in,
    and where in them it begins."""

    data: bytes
    map: TensorMap
    cut: Cut
    memory: _Bytes
    at: int = 0

    def view(self, block: Block, kind: str = "u1") -> NDArray[np.generic]:
        """The block's bytes (or words) in the buffer."""
        size = np.dtype(kind).itemsize
        shape = (*block.shape[:-1], block.shape[-1] // size)
        return np.ndarray(shape, kind, self.memory, self.at + block.start,
                          (*block.strides[:-1], size))


def _box(issue: Issue, *, write: bool, whole: bool = False, before: _Box | None = None) -> _Box:
    """The box that the lane names; `whole`: with all that a store writes.

    `before` is the box of the same lane when it issued the copy: unless the map has changed since,
    it is the box still.

    Raises:
        Illegal: coordinates or map against the rules, bytes outside the map's buffer, or a map that
            has got another box meanwhile.
    """
    data = _map_bytes(issue, issue.generic("map"))
    if before is not None and before.data == data:
        return before
    made = _map_of(issue, data)
    _refuse_unknown(issue, made)
    try:
        found = cut(made, issue.coordinates, load=issue.modifiers.get("load", "tile").removesuffix(
            "_no_offs"), offsets=issue.offsets, whole=whole)
    except UsageError as error:
        raise told(error) from None
    if before is not None and before.cut.shape != found.shape:
        raise Illegal("illegal-value", f"{issue.name} of a box of {before.map.box}",
                      f"its tensor map has one of {made.box} now", where=f"PTX ISA, {issue.name}")
    if not found.blocks:
        return _Box(data, made, found, np.zeros(0, np.uint8))
    tensor = issue.machine.space.extent("global", made.offset, issue.row)
    end = max(block.end for block in found.blocks)
    if tensor is None or tensor.at + end > tensor.high:
        raise Illegal(
            "out-of-bounds", f"a box of {made.box} at {issue.coordinates}, bytes up to {end} behind"
            f" {issue.machine.space.describe(made.offset)}", "leaves the buffer behind the map",
            where=f"PTX ISA, {issue.name}")
    if write and not tensor.region.writable:
        raise Illegal("read-only-write", f"a tensor store to"
                      f" {issue.machine.space.describe(made.offset)}", "is read-only memory")
    return _Box(data, made, found, tensor.region.data, tensor.at)


# --- loads ----------------------------------------------------------------------------------------

@executes("cp.async.bulk.tensor")
def _copy(lanes: Lanes) -> None:
    if lanes.modifier("space") == "global":
        each_lane(lanes, _store)
    elif not _load_together(lanes):
        each_lane(lanes, _load)


@executes("cp.reduce.async.bulk.tensor")
def _reduce(lanes: Lanes) -> None:
    each_lane(lanes, _store)


@executes("cp.async.bulk.prefetch.tensor")
def _prefetch(lanes: Lanes) -> None:
    """Caches are not modelled; what is asked for must exist."""
    each_lane(lanes, _check_box)


def _check_box(issue: Issue) -> None:
    _box(issue, write=False)


@executes("prefetch")
def _prefetch_line(lanes: Lanes) -> None:
    """Caches are not modelled; a tensor map must be one."""
    if lanes.has("tensormap"):
        each_lane(lanes, _check_map)


def _check_map(issue: Issue) -> None:
    map_at(issue, issue.generic("a"))


def _load_together(lanes: Lanes) -> bool:
    """Load the boxes of one map for many lanes at once; False, and nothing done, where it must go
    lane by lane."""
    machine, (position, lane) = lanes.machine, np.argwhere(lanes.mask)[0].tolist()
    if (machine.observed or machine.schedule != "eager" or machine.space.shared.written is not None
            or lanes.modifier("load", "tile") != "tile" or lanes.has("cta_group")):
        return False
    operands = Operands(lanes)
    first, maps = Issue(operands, position, lane), operands.words("map")[lanes.mask]
    address = first.generic("map")
    if (maps != maps[0]).any() or address >> TAG_SHIFT == SHARED_TAG:
        return False
    try:
        made = map_at(first, address)
    except Illegal:
        return False
    tensor = machine.space.extent("global", made.offset, first.row)
    if tensor is None or not load_boxes(lanes, operands, made, tensor):
        return False
    if machine.traffic is not None:
        machine.traffic.fetch(address)
        machine.traffic.fetch(made.offset)
    return True


def _load(issue: Issue) -> None:
    box = _box(issue, write=False)
    size = _shared_bytes(box)
    places = [(*pair, _arranged(issue, box, pair[0], size))
              for pair in destinations(issue, size, _ALIGN)]
    held: list[_Bytes] = []
    if issue.machine.observed:
        issue.spans += [*_map_span(issue), *_global_spans(box, "read")]
    elif issue.machine.traffic is not None:
        issue.machine.traffic.fetch(issue.generic("map"))
        issue.machine.traffic.fetch(box.map.offset)
    steps: list[Step] = [lambda: held.append(_image(issue, box))]
    for place, barrier, how in places:
        if place.region.written is not None:
            issue.mark_written(place, how.places(place.at))
        first = len(issue.spans)
        if issue.machine.observed:
            issue.spans.append(_shared_span(issue, place, how, box.map, "write"))
        done = issue.signal(barrier, size, tuple(range(first, len(issue.spans))))
        steps.append(_arrives(held, place, how, done))
    issue.launch("mbarrier", steps)


def _arrives(held: list[_Bytes], place: Extent, how: Arrangement, done: Step) -> Step:
    """The step in which the box comes to one destination."""
    def write() -> None:
        how.put(place.region.data, place.at, held[0])
        done()
    return write


def _image(issue: Issue, issued: _Box) -> _Bytes:
    """The packed box, filled where it leaves the tensor."""
    box = _box(issue, write=False, before=issued)
    made = box.map
    image = np.zeros(box.cut.shape, np.uint8)
    if made.fill == "nan" and not box.cut.whole:
        image.reshape(-1).view(np.uint16)[:] = NAN_FILL
    for block in box.cut.blocks:
        data = box.view(block)
        image[block.at] = _to_tf32(data) if made.element.tf32 else data
        issue.machine.counters["global.bytes.read"] += prod(block.shape)
    return image


def _to_tf32(data: NDArray[np.generic]) -> _Bytes:
    """What a load makes of f32 where the map says tf32 (measured on an H200): rounded to the
    nearest, ties to even; every NaN the same. Subnormals stay, also with .ftz."""
    words = np.ascontiguousarray(data).view(np.uint32)
    nan = (words & 0x7FFFFFFF) > 0x7F800000
    rounded = words + 0xFFF + (words >> 13 & 1) & np.uint32(0xFFFFE000)
    return np.where(nan, np.uint32(0x7FFFE000), rounded).astype(np.uint32).view(np.uint8)


def _shared_bytes(box: _Box) -> int:
    """Bytes of the box in shared memory, which the mbarrier counts."""
    inner = box.cut.shape[-1]
    pads = box.map.element.pads
    return prod(box.cut.shape[:-1]) * (inner * 16 // (16 - pads))


def _arranged(issue: Issue, box: _Box, place: Extent, size: int) -> Arrangement:
    """How the box lies at one place; the swizzle must not carry it out of shared memory."""
    # the slices of an interleaved box follow each other, whatever the swizzle's span
    rows = 1 if box.map.slice_bytes else prod(box.cut.shape[:-1])
    how = arrange(rows, size // rows, box.map.swizzle, box.map.element, issue.offset(place))
    if place.at + how.low < place.low or place.at + how.high > place.high:
        raise issue.outside(f"a box with swizzle {box.map.swizzle}", issue.offset(place), size,
                            "shared memory of the CTA")
    return how


# --- stores and reductions ------------------------------------------------------------------------

def _store(issue: Issue) -> None:
    written = _box(issue, write=True, whole=True)  # beyond the tensor too nothing may be hurt
    box = _box(issue, write=True)
    _check_store(issue, box.map)
    size = _shared_bytes(box)
    source = issue.shared(issue.word("a"), size, "the source", align=_ALIGN)
    if issue.shared_cta(source) != issue.cta:
        raise Illegal("illegal-value", f"{issue.name} from shared memory of CTA"
                      f" {issue.owner(issue.shared_cta(source))}",
                      "the source lies in the own CTA's shared memory",
                      where=f"PTX ISA, {issue.name}")
    how = _arranged(issue, box, source, size)
    _check_source(issue, box, source, how)
    held: list[_Bytes] = []
    reduces = "op" in issue.modifiers
    if issue.machine.observed or issue.machine.traffic is not None:
        issue.spans += [*_map_span(issue),
                        _shared_span(issue, source, how, box.map, "read"),
                        *_global_spans(box, "atomic" if reduces else "write")]
    if issue.machine.traffic is not None:
        issue.machine.traffic.part(issue.row, (block.at for block in box.cut.blocks))
    issue.launch("bulk", [lambda: held.append(how.take(source.region.data, source.at)),
                          lambda: _write(issue, held[0], written)])


def _check_store(issue: Issue, made: TensorMap) -> None:
    where = f"PTX ISA, {issue.name}"
    if min(issue.coordinates) < 0:
        raise Illegal("illegal-value", f"{issue.name} to coordinates {issue.coordinates}",
                      "stores start inside the tensor", legal="coordinates of 0 or more",
                      where=where)
    if made.dtype == "b4x16_p64":
        raise Illegal("illegal-value", f"{issue.name} to a tensor of {made.dtype}",
                      "the type can be loaded only", legal="b4x16", where=where)
    op = issue.modifiers.get("op")
    if op is not None and made.dtype not in _REDUCES[op]:
        raise Illegal("illegal-value", f".{op} on a tensor of {made.dtype}",
                      "the reduction does not have this type", legal=", ".join(_REDUCES[op]),
                      where=where)


def _check_source(issue: Issue, box: _Box, source: Extent, how: Arrangement) -> None:
    """Report source bytes that nobody has written, of those that are stored."""
    if source.region.written is None:
        return
    stored = np.zeros(box.cut.shape, bool)
    for block in box.cut.blocks:
        stored[block.at] = True
    issue.check_written(source, how.places(source.at)[stored.reshape(-1)], issue.name)


def _write(issue: Issue, packed: _Bytes, issued: _Box) -> None:
    """Write or combine the box's part of the tensor, in whole 16 bytes."""
    box = _box(issue, write=True, whole=True, before=issued)
    image = packed.reshape(box.cut.shape)
    op = issue.modifiers.get("op")
    for block in box.cut.blocks:
        issue.machine.counters["global.bytes.written"] += prod(block.shape)
        data = np.ascontiguousarray(image[block.at])
        if op is None:
            box.view(block)[...] = data
        else:
            _combine(box, block, data, op)


def _combine(box: _Box, block: Block, data: _Bytes, op: str) -> None:
    kind = box.map.dtype
    word = f"u{box.map.element.bits // 8}"
    words, view = data.view(word), box.view(block, word)
    for old, new in _apart(view, words, block):
        # f32 keeps subnormals, unlike red (measured on an H200)
        old[...] = combine(op, kind, np.ascontiguousarray(old), new, False)


def _apart(view: NDArray[np.generic], words: NDArray[np.generic], block: Block,
           ) -> Iterator[tuple[NDArray[np.generic], NDArray[np.generic]]]:
    """Parts of a block that do not overlap in memory: all of it, or row by row."""
    reach = block.shape[-1]
    for n, step in zip(block.shape[-2::-1], block.strides[-2::-1], strict=True):
        if n > 1 and step < reach:
            for row in np.ndindex(view.shape[:-1]):
                yield view[row], words[row]
            return
        reach += (n - 1) * step
    yield view, words


# --- what the listeners are told ------------------------------------------------------------------

def _map_span(issue: Issue) -> list[Span]:
    """The map itself, where it lies in memory that can change."""
    address = issue.generic("map")
    found = issue.machine.space.extent("global", address, issue.row)
    if found is None:
        return []
    return [Span("global", -1, "read", np.array([address]), MAP_BYTES, "tensormap")]


def _global_spans(box: _Box, kind: str) -> list[Span]:
    base = box.map.offset
    return [Span("global", -1, kind, base + block.rows(), block.shape[-1])  # type: ignore[arg-type]
            for block in box.cut.blocks]


def _shared_span(issue: Issue, place: Extent, how: Arrangement, made: TensorMap,
                 kind: str) -> Span:
    owner, start = issue.owner(issue.shared_cta(place)), issue.offset(place)
    if how.dense:
        starts, size = np.array([start]), how.bytes
    else:
        starts, size = start + how.starts(), how.used
    return Span("shared", owner, kind, starts, size, "async",  # type: ignore[arg-type]
                made.swizzle, _pitches(made, start, how))


def _pitches(made: TensorMap, start: int, how: Arrangement) -> tuple[int, ...]:
    """How a box lies, if its rows follow each other."""
    if made.im2col_box is not None or made.slice_bytes or not how.dense:
        return ()
    steps = [how.bytes // prod(made.counts[1:])]
    for count in made.counts[1:-1]:
        steps.append(steps[-1] * count)
    return start, how.bytes, *steps
