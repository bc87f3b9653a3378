"""The boxes that tensor copies have brought into shared memory, as long as they lie there.

A box is a small tensor: rows of bytes, then steps of further dimensions. An address in it has
coordinates, the first in bytes::

    box of 64 x 32 bf16 at 0x2400: 4096 bytes, rows of 128
    0x2400 + 3 * 128 + 32   ->  (32, 3): byte 32 of row 3

Addresses are those before the swizzle, which permutes the bytes of rows the same way for the copy
and for whoever reads them with the same swizzle.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass

from mmalab.emulator.events import Async, Span

__all__ = ["Box", "Boxes"]


@dataclass(frozen=True, eq=False, slots=True)
class Box:
    """One box, brought by one copy: two copies of equal boxes are two boxes."""

    start: int
    size: int
    #: Bytes from one row to the next, then from one step of each further dimension to the next.
    steps: tuple[int, ...]
    swizzle: str
    site: int
    #: Global addresses of its first row, and of the row behind its last; negative: not known.
    first: int
    behind: int
    #: Bytes of a row, rows, steps of each further dimension.
    counts: tuple[int, ...]

    def coordinates(self, address: int) -> tuple[int, ...]:
        """Where an address of the box lies: byte of the row, row, and so on."""
        offset, (row, *further) = address - self.start, self.counts
        return (offset % row, *[offset // step % count
                                for step, count in zip(self.steps, further, strict=True)])

    def goes_on(self, other: Box | None) -> bool:
        """Whether another box holds the rows behind this one's, or may."""
        return self.behind < 0 or (other is not None and (
            other.first < 0 or (other.first, other.steps) == (self.behind, self.steps)))


class Boxes:
    """The boxes in the shared memory of every CTA."""

    def __init__(self) -> None:
        self._starts: dict[int, list[int]] = {}
        self._boxes: dict[int, dict[int, Box]] = {}

    def issue(self, event: Async) -> None:
        """A copy replaces the boxes that it writes over."""
        rows = [span for span in event.spans if span.space == "global" and span.proxy == "async"]
        for span in event.spans:
            if span.space == "shared" and span.kind == "write":
                self._replace(event, span, rows)

    def _replace(self, event: Async, span: Span, rows: list[Span]) -> None:
        boxes = self._boxes.setdefault(span.owner, {})
        starts = self._starts.setdefault(span.owner, [])
        start, size, *steps = span.box or (int(span.starts.min()) if len(span.starts) else 0, 0)
        old = boxes.get(start)
        if old is None or old.size != size:
            end = start + size if span.box else int(span.starts.max(initial=0)) + span.size
            for one in [one for one in starts if one < end and one + boxes[one].size > start]:
                del boxes[one]
                starts.remove(one)
            if span.box:
                insort(starts, start)
        if span.box:
            first, behind = _reach(rows, size // steps[0])
            ends = (*steps[1:], size)
            counts = steps[0], *[end // step for step, end in zip(steps, ends, strict=True)]
            boxes[start] = Box(start, size, tuple(steps), span.swizzle, event.site, first, behind,
                               counts)

    def at(self, cta: int, address: int) -> Box | None:
        """The box that an address lies in."""
        starts = self._starts.get(cta)
        if not starts:
            return None
        number = bisect_right(starts, address) - 1
        if number < 0:
            return None
        box = self._boxes[cta][starts[number]]
        return box if address < box.start + box.size else None

    def retire(self, cta: int) -> None:
        """All threads of a CTA have ended."""
        self._starts.pop(cta, None)
        self._boxes.pop(cta, None)


def _reach(rows: list[Span], count: int) -> tuple[int, int]:
    """Where a box of `count` rows begins in global memory and would go on, if all of it is there
    in rows of one distance."""
    if len(rows) != 1 or len(rows[0].starts) != count or count < 2:
        return -1, -1
    starts = rows[0].starts
    first, last, step = int(starts[0]), int(starts[-1]), int(starts[1]) - int(starts[0])
    if last - first != step * (count - 1):
        return -1, -1
    return first, last + step
