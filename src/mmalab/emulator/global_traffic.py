"""What a run does to global memory outside compiled code, noted for who wants to know whose it is.

Compiled accesses are watched where they happen (:mod:`mmalab.emulator.native.filter`). The rest is
written down here while the run goes on, and looked at when it has ended: single accesses of the
NumPy machine, bytes that asynchronous stores write, and buffers that copies read, as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.memory import FIRST_BUFFER_TAG, TAG_SHIFT

if TYPE_CHECKING:
    from mmalab.emulator.events import Span
    from mmalab.emulator.lanes import Lanes

__all__ = ["GlobalTraffic", "Touched"]


class Touched(NamedTuple):
    """`size` bytes from each of `addresses` [n] by the threads `by` [n] of the grid, from 1."""

    addresses: NDArray[np.int64]
    by: NDArray[np.int64]
    size: int
    write: bool


@dataclass(slots=True)
class GlobalTraffic:
    """The notes of one run."""

    touched: list[Touched] = field(default_factory=list)
    #: Stores that nobody knows the moment of: (row that issued it, first bytes, bytes from each).
    stored: list[tuple[int, NDArray[np.int64], int]] = field(default_factory=list)
    #: Which part of its box a tensor store writes, by the row that issued it: for each block the
    #: first element and the one behind the last, of each axis.
    parts: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    #: Tags of buffers that copies read, nobody knows when.
    fetched: set[int] = field(default_factory=set)

    def access(self, lanes: Lanes, inside: NDArray[np.bool_], addresses: NDArray[np.uint64],
               size: int, *, write: bool) -> None:
        """An access of the lanes `inside` [warps, 32]."""
        shape, state = lanes.machine.shape, lanes.machine.state
        first = state.ctas[lanes.rows // shape.warps] * shape.threads + 1
        thread = (first + lanes.rows % shape.warps * 32)[:, None] + np.arange(32)
        self.touched.append(Touched(addresses[inside].astype(np.int64), thread[inside], size,
                                    write))

    def fetch(self, address: int) -> None:
        """A copy reads the buffer behind a generic address."""
        tag = address >> TAG_SHIFT
        if tag >= FIRST_BUFFER_TAG:
            self.fetched.add(tag)

    def part(self, row: int, blocks: Iterable[Sequence[slice]]) -> None:
        """A tensor store of a warp writes these parts of its box alone."""
        self.parts.append((row, tuple(edge for at in blocks for axis in at
                                      for edge in (axis.start, axis.stop))))

    def operation(self, row: int, spans: Iterable[Span]) -> None:
        """What an asynchronous operation of a warp does to global memory."""
        for span in spans:
            if span.space != "global" or not len(span.starts):
                continue
            if span.kind == "read":
                for start in (span.starts[0], span.starts[-1]):
                    self.fetch(int(start))
            else:
                self.stored.append((row, span.starts.astype(np.int64), span.size))
