"""How operands of wgmma step through the boxes that tensor copies brought.

In a box an operand has two directions: along some dimensions its rows (MN) go, along others its K.
What is wrong shows without knowing which matrix is meant::

    box of 64 x 64 bf16 (128B), an A of 64 x 16 at its start, K-major
    K goes along dimension 0 (32 bytes), MN along dimension 1 (64 rows)

    next product at + 32 bytes     dimension 0 goes on by 32 bytes: the next 16 of K
    next product at + 512 bytes    dimension 1 goes on by 4 rows: the same K again, other rows

==========================================  ======================================================
one product                                 K and MN go along one dimension of one box: strides or
                                            major are another layout's
one product                                 one operand leaves out parts of K, the other does not
one product                                 begins inside a box, leaves it before its end of rows or
                                            of K, and what lies there is not what comes next
the next product of one sum (no fence       rows move where K should; A and B go on by different
between, both in the same box)              parts of K (a note where one goes back or stays); K goes
                                            on by no whole number of products' depths;
                                            what was K is rows now
==========================================  ======================================================

All are warnings but that. Sums over shifted rows of one box (a convolution by descriptors) would be
told too: nobody is known to write them. An operand and its steps that are consistently those of the
other major multiply the transposed tile, which only the numbers tell.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.events import Async, Span, Tile, Wgmma
from mmalab.findings import Severity
from mmalab.sanitizer.boxes import Box, Boxes
from mmalab.sanitizer.shadow import Page
from mmalab.sanitizer.sweep import Sweeps
from mmalab.sanitizer.world import World

__all__ = ["StepRule"]

_WARPS = 4
_CHUNK = 16


class _Reading(NamedTuple):
    """An operand of some shape at some place of a box of some shape."""

    #: Dimensions of the box that change along MN, and along K.
    rows: frozenset[int]
    depths: frozenset[int]
    #: The first piece (MN, K) that lies outside the box, if any does.
    outside: tuple[int, int] | None
    #: Whether K goes through the box without leaving anything out.
    close: bool
    #: Kept, so that its identity stays its own.
    chunks: NDArray[np.int64]

    def depth(self) -> tuple[int, int] | None:
        """The one dimension along which K goes, and how far a product goes along it."""
        if len(self.depths) != 1:
            return None
        [along] = self.depths
        return along, self.chunks.shape[1] * (_CHUNK if along == 0 else 1)


class _Place(NamedTuple):
    """Where an operand begins in a box, and all of its bytes."""

    box: Box
    at: tuple[int, ...]
    reading: _Reading
    tile: Tile
    span: Span

    @property
    def advice(self) -> str:
        """How the next product's operand is found."""
        depth = self.reading.depth()
        if depth is None:
            return "the address of the next part of K"
        along, count = depth
        step = count * (1 if along == 0 else self.box.steps[along - 1])
        other = "MN" if self.tile.major == "K" else "K"
        return (f"{step} bytes ({step >> 4} in the start field) from one product of K to the next"
                + (f"; or major {other}, if that is how the tile lies" if self.tile.either else ""))


class StepRule:
    """Looks at each operand in its box, and at each step from one product to the next."""

    def __init__(self, world: World, sweeps: Sweeps) -> None:
        self._world = world
        self._sweeps = sweeps
        self._boxes = Boxes()
        self._readings: dict[tuple[int, str, int, int, tuple[int, ...]], _Reading] = {}
        #: Steps of operands that go on as they should.
        self._right: set[tuple[object, ...]] = set()
        #: (CTA, warpgroup) -> D -> the places of its last product's operands.
        self._sums: dict[tuple[int, int], dict[tuple[int, ...], list[_Place | None]]] = {}

    def copied(self, event: Async) -> None:
        """A copy brings boxes."""
        self._boxes.issue(event)

    def fence(self, cta: int, warp: int) -> None:
        """What comes next need not go on with the sums of before."""
        self._sums.pop((cta, warp // _WARPS), None)

    def retire(self, cta: int, warps: int) -> None:
        """All threads of a CTA have ended."""
        self._boxes.retire(cta)
        for group in range(-(-warps // _WARPS)):
            self._sums.pop((cta, group), None)

    def product(self, event: Wgmma, page: Page) -> None:
        """The operands of one product, A (if it is in shared memory) and B."""
        places = [self._place(span) for span in event.reads]
        sums = self._sums.setdefault((event.cta, event.warp // _WARPS), {})
        before, sums[event.d] = sums.get(event.d), places
        for place in places:
            if place is not None and place.reading.rows & place.reading.depths:
                self._mixed(event, place, page)
                return
        known = [place for place in places if place is not None]
        if len(known) == 2 and known[0].reading.close != known[1].reading.close:
            self._gap(event, known[int(known[0].reading.close)], page)
            return
        if before is not None and event.reads_d and self._steps_wrong(event, before, places, page):
            return
        for place in places:
            if place is not None and place.reading.outside is not None:
                self._leaves(event, place, place.reading.outside, page)

    # -- one operand -----------------------------------------------------------------------------

    def _place(self, span: Span) -> _Place | None:
        tile = span.tile
        if tile is None:
            return None
        start = int(tile.chunks[0, 0]) + tile.base
        box = self._boxes.at(span.owner, start)
        if box is None or box.swizzle != span.swizzle:
            return None
        return _Place(box, box.coordinates(start), self._reading(tile, box), tile, span)

    def _reading(self, tile: Tile, box: Box) -> _Reading:
        """Which way an operand goes in a box: worked out once for each place of each shape."""
        key = id(tile.chunks), tile.major, tile.base - box.start, box.size, box.steps
        found = self._readings.get(key)
        if found is None:
            found = self._readings[key] = _read(tile, box)
        return found

    def _mixed(self, event: Wgmma, place: _Place, page: Page) -> None:
        along = min(place.reading.rows & place.reading.depths)
        what = "bytes of a row" if along == 0 else f"dimension {along}"
        major = "MN (1 as its tnsp)" if place.tile.major == "K" else "K (0 as its tnsp)"
        other = f", or major {major}" if place.tile.either else ""
        self._report(event, place, page, "mixed",
                     f"goes along the {what} of the box that "
                     f"{self._world.named(place.box.site)} wrote with its K and with its rows",
                     f"LBO and SBO of that tile{other}")

    def _gap(self, event: Wgmma, place: _Place, page: Page) -> None:
        self._report(event, place, page, "gap",
                     f"leaves out parts of K of the box that {self._world.named(place.box.site)} "
                     "wrote, which the other operand does not",
                     f"{'SBO' if place.span.swizzle != 'none' else 'LBO'} of that tile")

    def _leaves(self, event: Wgmma, place: _Place, outside: tuple[int, int], page: Page) -> None:
        """Begins inside the box, ends behind it: fine where it is a box on its own, or goes on."""
        box, reading, tile = place.box, place.reading, place.tile
        dimensions = reading.rows if outside[0] else reading.depths
        behind = int(tile.chunks[outside]) + tile.base
        if not any(place.at[one] for one in dimensions):
            return
        if box.goes_on(self._boxes.at(place.span.owner, behind)):
            self._world.reports.excused = True  # coordinates decide, which are each cluster's own
        else:
            where = "of its rows" if outside[0] else "of K"
            self._report(event, place, page, "leaves",
                         f"begins at {_shown(place.at)} of the box that "
                         f"{self._world.named(box.site)} wrote (it has {_shown(box.counts)}) and "
                         f"leaves it {where}: behind it lies something else", place.advice)

    # -- from one product to the next ------------------------------------------------------------

    def _steps_wrong(self, event: Wgmma, before: list[_Place | None], now: list[_Place | None],
                     page: Page) -> bool:
        """Whether a step is wrong; those that are not are known after the first tile."""
        key = tuple([(id(old.reading), old.at, id(new.reading), new.at)
                     if old is not None and new is not None and old.box is new.box else None
                     for old, new in zip(before, now, strict=False)])
        if key in self._right:
            return False
        told = self._step(event, before, now, page)
        if not told:
            self._right.add(key)
        return told

    def _step(self, event: Wgmma, before: list[_Place | None], now: list[_Place | None],
              page: Page) -> bool:
        """Whether an operand in the box of the product before goes on otherwise than along K, or
        not by as much as the other does: each fault is told."""
        told, known = False, list[tuple[Fraction, _Place]]()
        for old, new in zip(before, now, strict=False):
            if old is None or new is None or old.box is not new.box:
                continue
            part = self._part(old, new)
            wrong = self._turned(old, new) or self._wrong(old, new, part)
            if wrong:
                told |= self._report(event, new, page, "step", wrong, new.advice)
            elif part is not None:
                known.append((part, new))
        known.sort(key=lambda one: one[0])
        if len(known) == 2 and known[0][0] != known[1][0]:
            (less, _), (more, further) = known
            told |= self._report(
                event, further, page, "apart",
                f"goes on by {more} of what a product takes of K, the other operand by {less}",
                further.advice if less > 0 else f"{further.advice}; none where one part of an "
                "operand is meant for several of the other", "warning" if less > 0 else "note")
        return told

    @staticmethod
    def _part(old: _Place, new: _Place) -> Fraction | None:
        """By how many products' depths an operand goes on along K; None: not along K alone."""
        depth = new.reading.depth()
        if depth is None:
            return None
        along, deep = depth
        moved = [d for d, (one, other) in enumerate(zip(old.at, new.at, strict=True))
                 if one != other and d != along]
        return None if moved else Fraction(new.at[along] - old.at[along], deep)

    def _turned(self, old: _Place, new: _Place) -> str:
        """Whether one product's rows are the other's K."""
        both = (old.reading.rows & new.reading.depths) | (old.reading.depths & new.reading.rows)
        if not both:
            return ""
        along = min(both)
        return (f"takes the {'bytes of a row' if along == 0 else f'dimension {along}'} of the box "
                f"that {self._world.named(new.box.site)} wrote for its "
                f"{'K' if along in new.reading.depths else 'rows'}, and the product before, of the "
                "same sums, took them for the other")

    def _wrong(self, old: _Place, new: _Place, part: Fraction | None) -> str:
        """What is wrong with a step in a box, if something is."""
        if part is not None:
            return "" if part.denominator == 1 else (
                f"goes on by {part} of what a product takes of K: parts of it are multiplied "
                "twice, or not at all")
        moved = {d for d, (one, other) in enumerate(zip(old.at, new.at, strict=True))
                 if one != other}
        if not moved & new.reading.rows:
            return ""
        return (f"goes on from {_shown(old.at)} to {_shown(new.at)} of the box that "
                f"{self._world.named(new.box.site)} wrote: other rows for the same sums, where the "
                "next of K should be")

    # -- words -----------------------------------------------------------------------------------

    def _report(self, event: Wgmma, place: _Place, page: Page, kind: str, what: str,
                repair: str, severity: Severity = "warning") -> bool:
        """Report it, if the box is there still; whether it is."""
        if not self._still_there(place, page):
            return False
        world, box = self._world, place.box
        world.report(
            "descriptor-mismatch", severity,
            f"{world.named(event.site)}: an operand {what}. Repair: {repair}",
            cta=event.cta, warp=event.warp, site=event.site, cause=box.site, key=(kind,),
            witness={"box": list(box.counts), "at": list(place.at),
                     "writer_line": world.line(box.site), "repair": repair})
        return True

    def _still_there(self, place: _Place, page: Page) -> bool:
        """Whether the operand's bytes inside the box are those that its copy wrote: a kernel may
        have laid the tile out anew."""
        box, span = place.box, place.span
        bytes_ = (span.starts[:, None] + np.arange(0, span.size, _CHUNK)).reshape(-1)
        inside = bytes_[(bytes_ >= box.start) & (bytes_ < box.start + box.size)]
        cells = inside - page.base >> page.granule.bit_length() - 1
        return all(site == box.site for site, _ in self._sweeps.boxes(cells, page))


def _read(tile: Tile, box: Box) -> _Reading:
    offsets = tile.chunks + (tile.base - box.start)
    inside = (offsets >= 0) & (offsets < box.size)
    rows, depths = set[int](), set[int]()
    (rows if tile.major == "MN" else depths).add(0)
    for dimension, count in enumerate(box.counts):
        at = offsets % count if dimension == 0 else (
            offsets // box.steps[dimension - 1] % count)
        for axis, found in ((0, rows), (1, depths)):
            one, other = (at[:-1], at[1:]) if axis == 0 else (at[:, :-1], at[:, 1:])
            both = (inside[:-1] & inside[1:]) if axis == 0 else (inside[:, :-1] & inside[:, 1:])
            if ((one != other) & both).any():
                found.add(dimension)
    if len(depths) > 1 and tile.major == "K" and box.steps[0] == _CHUNK:
        depths.discard(0)  # a piece is a row: what comes next along K is a step of the box
    out = np.argwhere(~inside)
    return _Reading(frozenset(rows), frozenset(depths),
                    (int(out[0, 0]), int(out[0, 1])) if len(out) else None,
                    _close(offsets[0][inside[0]], box, depths), tile.chunks)


def _close(offsets: NDArray[np.int64], box: Box, depths: set[int]) -> bool:
    """Whether pieces follow each other along the one dimension that is K; more than one: true."""
    if len(depths) != 1:
        return True
    [along] = depths
    step = _CHUNK if along == 0 else box.steps[along - 1]
    return bool((np.diff(offsets) == step).all())


def _shown(at: tuple[int, ...]) -> str:
    first, *further = at
    rows = f"row {further[0]}, " if further else ""
    more = "".join(f", {one}" for one in further[1:])
    return f"({rows}byte {first}{more})"
