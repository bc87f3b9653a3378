"""The ledger of Tensor Memory: what a kernel needs of its 512 columns, and the best legal packing.

Accumulators (times stages), block-scale factors, sparse metadata, an A operand and the epilogue all
lie in one pool of 128 lanes x 512 columns::

    >>> print(ledger(128, 256, stages=2).summary())
    512 of 512 columns, allocated 512 (512): fits
    >>> print(ledger(128, 256, stages=2, scales="nvfp4").misfit)
    524 columns: Tensor Memory has 512
      fits: 1 stage (268 columns); N = 248 (508); N = 240 (492); cta_group::2 with M = 128 (264)
      see:  PTX ISA, tcgen05.alloc

Columns of each part (:mod:`mmalab.isa.tensor_memory` has the layouts):

    accumulator     N (layouts A, C, D, F), N/2 (B, E), N/4 (G), for f32, f16 and s32 alike
    scales of A     4 x ceil(rows of a CTA / 128) x ceil(K / block / 4)
    scales of B     4 x ceil(N / 128) x ceil(K / block / 4)
    metadata        K / K of an instruction x (1 for f16 and tf32, else 2)
    A operand       K x bits / 32

An allocation is a power of two from 32 to 512 columns; those of one CTA may not grow in size, and
a part must lie inside one allocation. The search takes the fewest columns, then the fewest
allocations. How many CTAs the pool admits is a bound: what a B200 makes resident is not measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mmalab.errors import UsageError
from mmalab.isa.tensor_memory import COLUMNS, GRANULE, legal_sizes
from mmalab.plan.aligned import aligned
from mmalab.plan.asked import asked
from mmalab.plan.block_format_table import BLOCK_FORMATS
from mmalab.plan.misfit import Misfit
from mmalab.plan.packing import Packing, Part, legal_size, pack, separate_columns
from mmalab.plan.pool import Pool
from mmalab.plan.tmem_tile import Tile, check_target, format_of, notes_of, parts_of

__all__ = ["FORMULA", "SOURCE", "Alternative", "Ledger", "Tile", "admitted", "ledger", "ledger_of",
           "parts_of"]

_ALLOC = "PTX ISA, tcgen05.alloc"

#: What the question rests on, in one line each.
FORMULA = ("D: N columns a stage (N/2 in layouts B and E, N/4 in G); scales: 4 x ceil(rows / "
           "128) x ceil(K / block / 4); A: K x bits / 32; allocations: powers of two from 32 to "
           "512")
SOURCE = "PTX ISA, tcgen05.alloc, data path layouts, scale factors; CUTLASS tmem_frg, tmem_sf_frg"


@dataclass(frozen=True, slots=True)
class Alternative:
    """A change that makes a ledger fit: what changes, and the columns then."""

    change: str
    columns: int
    allocated: int


@dataclass(frozen=True)
class Ledger:
    """The plan. `packing` is None when nothing legal holds all parts; `misfit` then says what does.

    `separate` is what one allocation for each part would take, `k` the elements along K that scale
    factors and metadata cover. `path` is the layout's letter, empty for a list of parts.
    """

    parts: tuple[Part, ...]
    packing: Packing | None
    separate: int
    misfit: Misfit | None = None
    alternatives: tuple[Alternative, ...] = ()
    tile: Tile | None = None
    notes: tuple[str, ...] = ()
    capacity: int = COLUMNS

    @property
    def path(self) -> str:
        """Letter of the accumulator's layout, A to G; empty for a list of parts."""
        return self.tile.path.name if self.tile else ""

    @property
    def columns(self) -> int:
        """Columns that the parts need, packed (their sum when nothing fits)."""
        if self.packing is not None:
            return self.packing.columns
        return sum(part.columns for part in self.parts)

    @property
    def allocations(self) -> tuple[int, ...]:
        """Allocations of the best packing, in the order in which the kernel makes them."""
        return self.packing.allocations if self.packing else ()

    @property
    def allocated(self) -> int:
        """Columns of all allocations; 0 when nothing fits."""
        return sum(self.allocations)

    @property
    def free(self) -> int:
        """Columns of the pool that no allocation takes."""
        return self.capacity - self.allocated

    @property
    def fits(self) -> bool:
        """Whether some legal packing exists."""
        return self.packing is not None

    @property
    def ctas(self) -> int:
        """CTAs whose allocations the pool of an SM admits at the same time (a bound)."""
        return admitted(self.allocations, capacity=self.capacity) if self.packing else 0

    def summary(self) -> str:
        """One line: columns, allocations, verdict."""
        if not self.fits:
            return f"{self.columns} of {self.capacity} columns: does not fit"
        listed = " + ".join(map(str, self.allocations))
        return (f"{self.columns} of {self.capacity} columns, allocated {self.allocated} "
                f"({listed}): fits")

    def table(self) -> str:
        """Parts with their places, the summary, and what to change."""
        places = self.packing.placements if self.packing else (None,) * len(self.parts)
        rows = []
        for part, place in zip(self.parts, places, strict=True):
            where = ("-", "-", "-") if place is None else (
                str(place.allocation), f"{place.column}-{place.column + part.columns - 1}",
                (f"{place.lane}-{place.lane + 15} of 32" if part.half else "all"))
            rows.append((part.name, part.columns, *where))
        lines = [aligned(rows, ("part", "columns", "allocation", "at", "lanes")), self.summary()]
        if self.separate != self.allocated:
            lines.append(f"one allocation for each part would take {self.separate} columns")
        if self.fits:
            lines.append(f"{self.ctas} of these CTAs fit into the pool of one SM (a bound)")
        lines += [str(self.misfit)] if self.misfit else []
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def __str__(self) -> str:
        return self.table()

    def as_dict(self) -> dict[str, Any]:
        """The ledger as JSON-able data."""
        return {
            "fits": self.fits, "columns": self.columns, "allocated": self.allocated,
            "allocations": list(self.allocations), "free": self.free, "separate": self.separate,
            "ctas": self.ctas, "path": self.path,
            "capacity": self.capacity, "instruction": self.tile.spelling if self.tile else None,
            "tile": self.tile,
            "parts": [{"name": part.name, "columns": part.columns, "role": part.role}
                      for part in self.parts],
            "packing": self.packing.as_dict() if self.packing else None,
            "misfit": self.misfit, "alternatives": self.alternatives, "notes": self.notes,
        }


@asked
def ledger(m: int, n: int, dtype: str | None = None, *, k: int | None = None, stages: int = 1,
           cta_group: int = 1, scales: str | None = None, scale_stages: int = 1,
           sparse: bool = False, ws: bool = False, a_stages: int = 0, epilogue: int = 0,
           target: str = "sm_100a") -> Ledger:
    """The ledger of one kernel, packed as well as the rules allow.

    Without `dtype` it is f16, or the element of `scales` (mxfp8, mxfp6, mxfp4, nvfp4). The other
    arguments are those of :class:`Tile`.

    Raises:
        UsageError: no ``tcgen05.mma`` has this shape, type or scale, or `target` has none at all.
    """
    tile = Tile(m, n, format_of(dtype, scales), k or 0, stages, cta_group, scale_stages, sparse, ws,
                a_stages, epilogue)
    parts = parts_of(tile)
    check_target(tile, target)
    found = ledger_of(parts)
    alternatives = () if found.fits else tuple(_alternatives(tile))
    misfit = found.misfit
    if misfit and alternatives:
        misfit = Misfit(misfit.given, misfit.rule, _worded(alternatives), misfit.source)
    return Ledger(parts, found.packing, found.separate, misfit, alternatives, tile, notes_of(tile))


def ledger_of(parts: Sequence[Part], *, capacity: int = COLUMNS) -> Ledger:
    """The ledger of any list of parts, such as a compiler's buffers with their lifetimes."""
    packing = pack(parts, capacity=capacity)
    misfit = None
    if packing is None:
        most = max((sum(p.columns for p in parts if p.start <= at < p.end)
                    for at in {part.start for part in parts}), default=0)
        fix = ("phases that do not overlap, smaller parts",)
        misfit = Misfit(f"{most} columns", f"Tensor Memory has {capacity}", fix, _ALLOC)
    return Ledger(tuple(parts), packing, separate_columns(parts), misfit, capacity=capacity)


def _alternatives(tile: Tile) -> list[Alternative]:
    """Single changes that make the tile fit, the ones that keep most of it first."""
    fewer = (_try(tile, f"{count} stage{'s' * (count > 1)}", stages=count)
             for count in range(tile.stages - 1, 0, -1))
    found = [next(filter(None, fewer), None)]
    _, sizes = legal_sizes(tile.kind.name, cta_group=tile.cta_group, sparse=tile.sparse, ws=tile.ws)
    for step in (1, 16):
        smaller = (_try(tile, f"N = {n}", n=n) for n in reversed(sizes)
                   if n < tile.n and n % step == 0)
        found.append(next(filter(None, smaller), None))
    if tile.scale_stages > 1:
        found.append(_try(tile, "1 stage of scales", scale_stages=1))
    if tile.k > tile.k_step:
        found.append(_try(tile, f"K = {tile.k_step} at once", k=0))
    for row in BLOCK_FORMATS.values():
        coarser = row.block > tile.format.block > 0 and row.element == tile.format.element
        if coarser and row.kind:
            found.append(_try(tile, f"{row.name} scales", format=row))
    if tile.cta_group == 1 and tile.m == 128 and not tile.ws:
        found.append(_try(tile, "cta_group::2 with M = 128", cta_group=2))
    if tile.epilogue:
        found.append(_try(tile, "no epilogue columns", epilogue=0))
    unique = {item.change: item for item in found if item}
    return list(unique.values())


def _try(tile: Tile, change: str, **changed: Any) -> Alternative | None:
    fields = {name: getattr(tile, name) for name in tile.__dataclass_fields__} | changed
    try:
        packing = pack(parts_of(Tile(**fields)))
    except UsageError:
        return None
    return None if packing is None else Alternative(change, packing.columns, packing.allocated)


def _worded(alternatives: Sequence[Alternative]) -> tuple[str, ...]:
    return tuple(f"{item.change} ({item.columns}{' columns' * (not at)})"
                 for at, item in enumerate(alternatives))


@asked
def admitted(columns: int | Sequence[int], *, capacity: int = COLUMNS) -> int:
    """CTAs that hold these allocations at the same time: 16, 8, 4, 2, 1 for 32 ... 512 columns.

    Source: PTX ISA, tcgen05.alloc; a bound from the allocation rule, not a residency.

    Raises:
        UsageError: no legal allocation (a power of two from 32 to `capacity`).
    """
    if not GRANULE <= capacity <= COLUMNS:
        raise UsageError(f"a capacity of {capacity} columns", "is none of Tensor Memory",
                         legal=f"{GRANULE} to {COLUMNS}", where=_ALLOC)
    wanted = (columns,) if isinstance(columns, int) else tuple(columns)
    for size in wanted:
        if legal_size(size) != size or size > capacity:
            below, above = legal_size(size) // 2, legal_size(size)
            legal = [str(s) for s in (below, above) if 32 <= s <= capacity] or [str(capacity)]
            raise UsageError(f"an allocation of {size} columns",
                             "is not a power of two from 32 to 512", legal=legal, where=_ALLOC)
    if not wanted:
        raise UsageError("no allocation", "any number of CTAs holds none", legal="32 ... 512",
                         where=_ALLOC)
    pool, count = Pool(capacity), 0
    while all(pool.take(size) is not None for size in wanted):
        count += 1
    return count
