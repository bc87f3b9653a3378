"""One 64-bit address space: caller arrays, shared, local and parameter memory, all with bounds.

The tag ``address >> 40`` says what an address points into: 1 the generic window of shared memory,
2 of local memory, 3 of the kernel's parameters, 16 and up a buffer each. Buffer k starts at
``(16 + k) << 40`` and ends at its last byte, so no wild pointer of one buffer reaches another, and
nothing of the host is ever touched outside them.

    >>> import numpy as np
    >>> space = AddressSpace()
    >>> base = space.add(np.arange(8, dtype=np.uint32), "x")
    >>> hex(base)
    '0x100000000000'
    >>> lanes = base + 4 * np.arange(32, dtype=np.uint64)[None]
    >>> words, faults = space.load("global", lanes, 4, np.ones((1, 32), bool), np.array([0]))
    >>> words[0, 0, :8].tolist(), faults[0].kind, int(faults[0].lanes.sum())
    ([0, 1, 2, 3, 4, 5, 6, 7], 'out-of-bounds', 24)

Loads and stores take addresses for whole warps, ``[warps, 32]``, and report what went wrong as
records; lanes at fault read zero and write nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmalab.errors import LimitExceeded, UsageError
from mmalab.tensormap import MAP_BYTES, TensorMap

__all__ = [
    "FIRST_BUFFER_TAG", "LOCAL_TAG", "OFFSET_MASK", "PARAM_TAG", "RANK_SHIFT", "SHARED_TAG",
    "TAG_SHIFT",
    "AddressSpace", "Buffer", "Extent", "Fault", "HostTable", "Region", "aligned_zeros",
]

_WHERE = "mmalab.emulate"

TAG_SHIFT = 40
OFFSET_MASK = (1 << TAG_SHIFT) - 1
SHARED_TAG, LOCAL_TAG, PARAM_TAG, FIRST_BUFFER_TAG = 1, 2, 3, 16
#: Shared addresses carry the CTA's rank in its cluster above this bit.
RANK_SHIFT = 24

FaultKind = Literal["out-of-bounds", "misaligned-access", "read-only-write", "uninitialised-read"]
Words: TypeAlias = NDArray[Any]
Mask: TypeAlias = NDArray[np.bool_]

_DTYPES: dict[int, type[np.unsignedinteger[Any]]] = {
    1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong in one access: `kind` is the finding's code, `lanes` [warps, 32]."""

    kind: FaultKind
    space: str
    lanes: Mask
    addresses: NDArray[np.uint64]
    size: int


@dataclass(slots=True)
class Region:
    """Bytes that addresses can reach, with typed views of them made on demand.

    `written` [bytes] bool is kept where reads before the first write are to be found.
    """

    name: str
    data: NDArray[np.uint8]
    writable: bool = True
    written: NDArray[np.bool_] | None = None
    _views: dict[int, Words] = field(default_factory=dict)

    def view(self, size: int) -> Words:
        """The bytes as unsigned words of `size` bytes; a remainder at the end is left out."""
        found = self._views.get(size)
        if found is None:
            whole = self.data[: self.data.size // size * size]
            found = self._views[size] = whole.view(_DTYPES[size])
        return found


@dataclass(slots=True)
class Buffer(Region):
    """A global or constant buffer: a caller's array, or a module's variable."""

    base: int = 0
    space: str = "global"
    #: The caller's array when the bytes are a copy that goes back after the run.
    copy_of: NDArray[Any] | None = None
    array: NDArray[Any] | None = None


class Extent(NamedTuple):
    """Where one address lies: byte `at` of a region, whose bytes `low` to `high` it may reach.

    `base` is the virtual address of a buffer's first byte, 0 in other regions.
    """

    region: Region
    at: int
    low: int
    high: int
    base: int = 0


@dataclass(frozen=True, slots=True)
class HostTable:
    """The buffers for compiled code, indexed by tag: pointer (uint64), size (uint64), writable
    (uint8). Tags below 16 have size 0."""

    pointers: NDArray[np.uint64]
    sizes: NDArray[np.uint64]
    writable: NDArray[np.uint8]


def aligned_zeros(shape: tuple[int, ...], dtype: Any, align: int = 64) -> NDArray[Any]:
    """Zeros whose first byte is `align`-aligned, C-contiguous."""
    kind = np.dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    raw = np.zeros(count + align, np.uint8)
    start = -raw.ctypes.data % align
    return np.asarray(raw[start : start + count].view(kind).reshape(shape))


class AddressSpace:
    """All memory of one launch; shared and local memory belong to the CTAs now resident."""

    def __init__(self, *, memory_budget: int = 1 << 34) -> None:
        self.buffers: list[Buffer] = []
        self.params = Region("parameters", np.zeros(0, np.uint8), writable=False)
        self.shared = Region("shared memory", np.zeros(0, np.uint8))
        self.local = Region("local memory", np.zeros(0, np.uint8))
        self.shared_bytes = self.local_bytes = 0
        self.shared_stride = self.local_stride = 0
        self.shared_start = 0
        self.warps_per_cta = 1
        self.cluster_size = 1
        self._budget = memory_budget

    # --- building -----------------------------------------------------------------------------

    def add(self, array: NDArray[Any], name: str, *, space: str = "global",
            writable: bool = True) -> int:
        """Make `array` reachable and return its virtual address; the same array gives the same.

        Contiguous arrays are used in place, others are copied in and, by :meth:`flush`, back.

        Raises:
            UsageError: of two arrays that share bytes one would be a copy.
        """
        for known in self.buffers:
            if known.array is not None and _same(known.array, array):
                return known.base
        contiguous = array.flags.c_contiguous
        for known in self.buffers:
            if (known.array is not None and (known.copy_of is not None or not contiguous)
                    and (known.writable or array.flags.writeable) and _share(known.array, array)):
                raise UsageError(f"{name}: shape {array.shape}, strides {array.strides}",
                                 f"shares bytes with {known.name}, and one of them is copied",
                                 legal="contiguous arrays, or arrays apart from each other",
                                 where=_WHERE)
        home = array if contiguous else np.ascontiguousarray(array)
        base = (FIRST_BUFFER_TAG + len(self.buffers)) << TAG_SHIFT
        writable = writable and array.flags.writeable
        self.buffers.append(Buffer(
            name, home.reshape(-1).view(np.uint8), writable, base=base, space=space, array=array,
            copy_of=None if contiguous or not writable else array))
        return base

    def add_map(self, made: TensorMap, name: str) -> bytes:
        """The 128 bytes of a tensor map over its array, which becomes reachable.

        Raises:
            UsageError: the map has no array, or its tensor is not aligned.
        """
        buffer = made.buffer
        if buffer is None:
            raise UsageError(f"{name}: a decoded tensor map", "has no array",
                             legal="mmalab.TensorMap.tiled(array, ...), or the map's bytes",
                             where=_WHERE)
        return made.encode(self.add(buffer, name))

    def add_maps(self, maps: Sequence[TensorMap], name: str) -> int:
        """The address of a buffer that holds tensor maps one behind the other."""
        encoded = b"".join(self.add_map(made, f"{name}, map {i}") for i, made in enumerate(maps))
        table = aligned_zeros((len(maps) * MAP_BYTES,), np.uint8)
        table[:] = np.frombuffer(encoded, np.uint8)
        return self.add(table, name)

    def add_bytes(self, name: str, data: NDArray[np.uint8], *, space: str, base: int) -> None:
        """A module's variable at the address that lowering gave it."""
        expected = (FIRST_BUFFER_TAG + len(self.buffers)) << TAG_SHIFT
        if base != expected:
            raise UsageError(f"variable {name} at {base:#x}", "module variables come first",
                             legal=hex(expected), where=_WHERE)
        self.buffers.append(Buffer(name, data, space != "const", base=base, space=space))

    def set_params(self, block: bytes) -> None:
        """The kernel's parameter block."""
        self.params = Region("parameters", np.frombuffer(block, np.uint8), writable=False)

    def resize(self, ctas: int, warps_per_cta: int, *, shared: int, shared_start: int,
               local: int, track: bool) -> None:
        """Fresh shared and local memory for `ctas` resident CTAs.

        `shared` counts from address 0; addresses below `shared_start` are nobody's.
        `track` keeps which bytes were written.
        """
        self.warps_per_cta = warps_per_cta
        self.shared_bytes, self.local_bytes, self.shared_start = shared, local, shared_start
        self.shared_stride = -(-shared // 64) * 64
        self.local_stride = -(-local // 16) * 16
        threads = ctas * warps_per_cta * 32
        need = ctas * self.shared_stride + threads * self.local_stride
        if need > self._budget:
            raise LimitExceeded(f"{need} bytes of shared and local memory for {ctas} CTAs",
                                f"the memory budget is {self._budget} bytes", where=_WHERE)
        self.shared = _fresh("shared memory", ctas * self.shared_stride, track)
        self.local = _fresh("local memory", threads * self.local_stride, track)

    def flush(self) -> None:
        """Copy results back into arrays that could not be used in place."""
        for buffer in self.buffers:
            if buffer.copy_of is not None and buffer.array is not None:
                whole = buffer.data.view(buffer.array.dtype).reshape(buffer.array.shape)
                buffer.copy_of[...] = whole

    def release(self) -> None:
        """Nobody is resident any more: forget shared and local memory."""
        self.shared = Region("shared memory", np.zeros(0, np.uint8))
        self.local = Region("local memory", np.zeros(0, np.uint8))

    def host_table(self) -> HostTable:
        """Pointers, sizes and permissions of all buffers, for compiled code."""
        count = FIRST_BUFFER_TAG + len(self.buffers)
        pointers, sizes = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
        writable = np.zeros(count, np.uint8)
        for tag, buffer in enumerate(self.buffers, FIRST_BUFFER_TAG):
            pointers[tag] = buffer.data.ctypes.data if buffer.data.size else 0
            sizes[tag], writable[tag] = buffer.data.size, buffer.writable
        return HostTable(pointers, sizes, writable)

    def describe(self, address: int) -> str:
        """Where a virtual address points, in words."""
        tag, offset = address >> TAG_SHIFT, address & OFFSET_MASK
        if tag == 0:
            return f"address {address:#x} (no buffer: null or not a pointer)"
        names = {SHARED_TAG: "shared memory", LOCAL_TAG: "local memory", PARAM_TAG: "parameters"}
        if tag in names:
            return f"generic address {address:#x} ({names[tag]}, offset {offset})"
        index = tag - FIRST_BUFFER_TAG
        if 0 <= index < len(self.buffers):
            found = self.buffers[index]
            return f"{found.name}, byte {offset} of {found.data.size}"
        return f"address {address:#x} (no such buffer)"

    # --- access -------------------------------------------------------------------------------

    def load(self, space: str, addresses: NDArray[np.uint64], size: int, mask: Mask,
             rows: NDArray[np.int64], *, count: int = 1) -> tuple[Words, list[Fault]]:
        """`count` consecutive words of `size` bytes for each lane: ``[count, warps, 32]``.

        `rows` [warps] are the warps' rows in the machine's state (they choose the CTA's shared
        and the thread's local memory). `size` 1, 2, 4 or 8.
        """
        words = np.zeros((count, *addresses.shape), _DTYPES[size])
        faults: list[Fault] = []
        for region, index, lanes in self.places(space, addresses, size * count, mask, rows,
                                                 faults):
            start = index >> (size.bit_length() - 1)
            view = region.view(size)
            for k in range(count):
                words[k] |= np.where(lanes, view[start + k], view.dtype.type(0))
            if region.written is not None:
                stale = _unwritten(region.written, index, size * count, lanes)
                if stale.any():
                    faults.append(Fault("uninitialised-read", space, stale, addresses,
                                        size * count))
        return words, faults

    def store(self, space: str, addresses: NDArray[np.uint64], size: int, words: Words, mask: Mask,
              rows: NDArray[np.int64]) -> list[Fault]:
        """Write ``words [count, warps, 32]``; of lanes that meet, the highest (warp, lane) wins."""
        faults: list[Fault] = []
        count = len(words)
        for region, index, lanes in self.places(space, addresses, size * count, mask, rows,
                                                 faults):
            if not region.writable:
                faults.append(Fault("read-only-write", space, lanes, addresses, size * count))
                continue
            chosen = index[lanes]
            start = chosen >> (size.bit_length() - 1)
            view = region.view(size)
            for k in range(count):
                view[start + k] = words[k][lanes]
            if region.written is not None:
                region.written[chosen[:, None] + np.arange(size * count)] = True
        return faults

    # --- address translation ------------------------------------------------------------------

    def extent(self, space: str, address: int, row: int) -> Extent | None:
        """Where one address of a warp's lane lies, None when it is nobody's; the caller holds
        what it touches against the bounds."""
        kind, tag = space.partition("::")[0], address >> TAG_SHIFT
        offset = address & OFFSET_MASK
        if kind == "shared" or (kind == "" and tag == SHARED_TAG):
            return self._shared_extent(address if kind else offset, row)
        if kind == "param" or (kind == "" and tag == PARAM_TAG):
            return Extent(self.params, address if kind else offset, 0, self.params.data.size)
        index = tag - FIRST_BUFFER_TAG
        if kind == "local" or not 0 <= index < len(self.buffers):
            return None
        buffer = self.buffers[index]
        if kind not in ("", buffer.space):
            return None
        return Extent(buffer, offset, 0, buffer.data.size, buffer.base)

    def _shared_extent(self, address: int, row: int) -> Extent | None:
        rank, offset = address >> RANK_SHIFT, address & (1 << RANK_SHIFT) - 1
        if rank >= self.cluster_size:
            return None
        cta = row // self.warps_per_cta
        base = (cta - cta % self.cluster_size + rank) * self.shared_stride
        return Extent(self.shared, base + offset, base + self.shared_start,
                      base + self.shared_bytes)

    def places(self, space: str, addresses: NDArray[np.uint64], size: int, mask: Mask,
               rows: NDArray[np.int64], faults: list[Fault],
               ) -> Iterator[tuple[Region, NDArray[np.int64], Mask]]:
        """Each region touched, with byte indices (0 for other lanes) and the lanes in bounds."""
        odd = mask & ((addresses & np.uint64(size - 1)) != 0)
        if odd.any():
            faults.append(Fault("misaligned-access", space, odd, addresses, size))
            mask = mask & ~odd
        reached = np.zeros(mask.shape, bool)
        for region, index, lanes in self._candidates(space, addresses, size, mask, rows):
            if lanes.any():
                reached |= lanes
                yield region, np.where(lanes, index, 0), lanes
        outside = mask & ~reached
        if outside.any():
            faults.append(Fault("out-of-bounds", space, outside, addresses, size))

    def _candidates(self, space: str, addresses: NDArray[np.uint64], size: int, mask: Mask,
                    rows: NDArray[np.int64]) -> Iterator[tuple[Region, NDArray[np.int64], Mask]]:
        kind = space.partition("::")[0]
        if kind == "shared":
            yield self._in_shared(addresses, size, mask, rows, own=space != "shared::cluster")
        elif kind == "local":
            yield self._in_local(addresses, size, mask, rows)
        elif kind == "param":
            yield _in_region(self.params, addresses, size, mask)
        else:
            yield from self._by_tag(kind, addresses, size, mask, rows)

    def _by_tag(self, kind: str, addresses: NDArray[np.uint64], size: int, mask: Mask,
                rows: NDArray[np.int64]) -> Iterator[tuple[Region, NDArray[np.int64], Mask]]:
        tags = addresses >> np.uint64(TAG_SHIFT)
        offsets = addresses & np.uint64(OFFSET_MASK)
        for tag in np.unique(tags[mask]).tolist():
            lanes = mask & (tags == tag)
            if FIRST_BUFFER_TAG <= tag < FIRST_BUFFER_TAG + len(self.buffers):
                buffer = self.buffers[tag - FIRST_BUFFER_TAG]
                if kind in ("", buffer.space):
                    yield _in_region(buffer, offsets, size, lanes)
            elif kind == "" and tag == SHARED_TAG:
                yield self._in_shared(offsets, size, lanes, rows)
            elif kind == "" and tag == LOCAL_TAG:
                yield self._in_local(offsets, size, lanes, rows)
            elif kind == "" and tag == PARAM_TAG:
                yield _in_region(self.params, offsets, size, lanes)

    def _in_shared(self, addresses: NDArray[np.uint64], size: int, mask: Mask,
                   rows: NDArray[np.int64], *, own: bool = False,
                   ) -> tuple[Region, NDArray[np.int64], Mask]:
        """`own`: the window of the CTA (``.shared::cta``, what ``.shared`` means), which ends where
        the memory of the cluster's other CTAs begins."""
        ctas = (rows // self.warps_per_cta)[:, None]
        offset = (addresses & np.uint64((1 << RANK_SHIFT) - 1)).astype(np.int64)
        rank = (addresses >> np.uint64(RANK_SHIFT)).astype(np.int64)
        inside = ((offset >= self.shared_start) & (offset + size <= self.shared_bytes)
                  & ((rank == ctas % self.cluster_size) if own else (rank < self.cluster_size)))
        target = ctas - ctas % self.cluster_size + rank
        return self.shared, target * self.shared_stride + offset, mask & inside

    def _in_local(self, addresses: NDArray[np.uint64], size: int, mask: Mask,
                  rows: NDArray[np.int64]) -> tuple[Region, NDArray[np.int64], Mask]:
        thread = rows[:, None] * 32 + np.arange(32)
        inside = addresses <= np.uint64(max(self.local_bytes - size, 0))
        if self.local_bytes < size:
            inside = np.zeros_like(inside)
        return self.local, thread * self.local_stride + addresses.astype(np.int64), mask & inside


def _in_region(region: Region, offsets: NDArray[np.uint64], size: int, mask: Mask,
               ) -> tuple[Region, NDArray[np.int64], Mask]:
    if region.data.size < size:
        return region, offsets.astype(np.int64), np.zeros_like(mask)
    return region, offsets.astype(np.int64), mask & (offsets <= np.uint64(region.data.size - size))


def _unwritten(written: NDArray[np.bool_], index: NDArray[np.int64], size: int,
               lanes: Mask) -> Mask:
    """Lanes of which some byte was never written."""
    complete = written[index[..., None] + np.arange(size)].all(axis=-1)
    return np.asarray(lanes & ~complete)


def _fresh(name: str, size: int, track: bool) -> Region:
    return Region(name, aligned_zeros((size,), np.uint8),
                  written=np.zeros(size, bool) if track else None)


#: Steps of the search for a common byte; undecided counts as shared.
_SHARE_WORK = 10_000


def _share(one: NDArray[Any], other: NDArray[Any]) -> bool:
    try:
        return bool(np.shares_memory(one, other, max_work=_SHARE_WORK))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    if (one.ctypes.data, one.nbytes, one.flags.writeable) != (
            other.ctypes.data, other.nbytes, other.flags.writeable):
        return False
    both = one.flags.c_contiguous and other.flags.c_contiguous
    return both or (one.strides == other.strides and one.shape == other.shape)
