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

from mmalab import isa
from mmalab.errors import UsageError
from mmalab.isa.tensor_memory import (
    COLUMNS,
    DataPath,
    Kind,
    data_path,
    kind_of,
    legal_sizes,
    metadata_columns,
    operand_columns,
    scale_columns,
    shape_problem,
)
from mmalab.plan.aligned import aligned
from mmalab.plan.block_format_table import BLOCK_FORMATS, BlockFormat, block_format
from mmalab.plan.misfit import Misfit
from mmalab.plan.packing import Packing, Part, legal_size, pack, separate_columns
from mmalab.plan.pool import Pool

__all__ = ["FORMULA", "SOURCE", "Alternative", "Ledger", "Tile", "admitted", "ledger", "ledger_of",
           "parts_of"]

_ALLOC = "PTX ISA, tcgen05.alloc"

#: What the question rests on, in one line each.
FORMULA = ("D: N columns a stage (N/2 in layouts B and E, N/4 in G); scales: 4 x ceil(rows / "
           "128) x ceil(K / block / 4); A: K x bits / 32; allocations: powers of two from 32 to "
           "512")
SOURCE = "PTX ISA, tcgen05.alloc, data path layouts, scale factors; CUTLASS tmem_frg, tmem_sf_frg"


@dataclass(frozen=True, slots=True)
class Tile:
    """What a kernel keeps in Tensor Memory.

    M and N are the instruction's (a CTA pair: both CTAs together); `k` elements along K are there
    at once, a multiple of the instruction's K (which it is when 0). `scale_stages`, `a_stages` are
    buffers for scale factors and for an A operand; `epilogue` further columns.
    """

    m: int
    n: int
    format: BlockFormat
    k: int = 0
    stages: int = 1
    cta_group: int = 1
    scale_stages: int = 1
    sparse: bool = False
    ws: bool = False
    a_stages: int = 0
    epilogue: int = 0

    @property
    def kind(self) -> Kind:
        """The ``.kind`` of the product."""
        return kind_of(self.format.kind)

    @property
    def k_step(self) -> int:
        """K of one instruction: of the dense kind, twice that for a sparse one; a later chip's (96)
        where `k` is a multiple of that alone."""
        usual = self.kind.k * (1 + self.sparse)
        later = [] if self.sparse else [k for k, _ in self.kind.later_k]
        return next((step for step in (usual, *later) if self.k % step == 0), usual)

    @property
    def path(self) -> DataPath:
        """The layout of D."""
        return data_path(self.m, self.n, cta_group=self.cta_group, sparse=self.sparse, ws=self.ws)

    @property
    def spelling(self) -> str:
        """The PTX opcode."""
        return self.kind.spelling(cta_group=self.cta_group, sparse=self.sparse, ws=self.ws,
                                  block=self.format.block or 32)


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


def parts_of(tile: Tile) -> tuple[Part, ...]:
    """The parts of Tensor Memory that a tile needs on one SM.

    Raises:
        UsageError: no ``tcgen05.mma`` has this shape, type or K.
    """
    _check(tile)
    path, k = tile.path, tile.k or tile.k_step
    parts = [Part(f"D{stage}" if tile.stages > 1 else "D", path.columns(tile.n), half=path.half)
             for stage in range(tile.stages)]
    if tile.format.block:
        scales = -(-k // tile.format.block)
        for stage in range(tile.scale_stages):
            number = str(stage) if tile.scale_stages > 1 else ""
            parts += [
                Part(f"SFA{number}", scale_columns(path.rows, scales), role="scales"),
                Part(f"SFB{number}", scale_columns(tile.n // path.parts, scales), role="scales"),
            ]
    if tile.sparse:
        parts.append(Part("metadata", metadata_columns(tile.kind.name) * (k // tile.k_step),
                          role="metadata"))
    stored = k // 2 if tile.sparse else k
    parts += [Part(f"A{stage}" if tile.a_stages > 1 else "A",
                   operand_columns(tile.kind.name, tile.format.element_bits, stored), role="A")
              for stage in range(tile.a_stages)]
    if tile.epilogue:
        parts.append(Part("epilogue", tile.epilogue, role="epilogue"))
    return tuple(parts)


def _check(tile: Tile) -> None:
    if not tile.format.kind:
        raise UsageError(f"{tile.format}", "no tcgen05.mma takes it",
                         legal=[row.name for row in BLOCK_FORMATS.values() if row.kind],
                         where="PTX ISA, tcgen05.mma")
    counts = (tile.stages - 1, tile.scale_stages - 1, tile.a_stages, tile.epilogue, tile.k)
    if tile.cta_group not in (1, 2) or min(counts) < 0:
        raise UsageError(
            f"cta_group::{tile.cta_group}, {tile.stages} stages, {tile.scale_stages} of scales, "
            f"{tile.a_stages} of A, {tile.epilogue} columns of epilogue, K = {tile.k}",
            "cannot be", legal="cta_group 1 or 2, stages from 1, nothing negative",
            where="mmalab.plan.tmem")
    problem = shape_problem(tile.kind.name, tile.m, tile.n, cta_group=tile.cta_group,
                            sparse=tile.sparse, ws=tile.ws)
    if problem:
        given, rule, near = problem
        raise UsageError(given, rule, legal=near, where="PTX ISA, tcgen05 matrix shapes")
    if tile.k % tile.k_step:
        up = -(-tile.k // tile.k_step) * tile.k_step
        raise UsageError(f"K = {tile.k}", f"is no multiple of the instruction's {tile.k_step}",
                         legal=[f"K = {k}" for k in (up - tile.k_step, up) if k],
                         where="PTX ISA, tcgen05 matrix shapes")


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
    tile = Tile(m, n, _format(dtype, scales), k or 0, stages, cta_group, scale_stages, sparse, ws,
                a_stages, epilogue)
    parts = parts_of(tile)
    _check_target(tile, target)
    found = ledger_of(parts)
    alternatives = () if found.fits else tuple(_alternatives(tile))
    misfit = found.misfit
    if misfit and alternatives:
        misfit = Misfit(misfit.given, misfit.rule, _worded(alternatives), misfit.source)
    return Ledger(parts, found.packing, found.separate, misfit, alternatives, tile, _notes(tile))


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


def _format(dtype: str | None, scales: str | None) -> BlockFormat:
    if scales is None:
        return block_format(dtype or "f16")
    chosen = block_format(scales)
    if not chosen.block:
        raise UsageError(f"scales {scales}", "has no block scales",
                         legal=[row.name for row in BLOCK_FORMATS.values() if row.block],
                         where="PTX ISA, tcgen05 block scaling")
    if dtype is None or block_format(dtype).element == chosen.element:
        return chosen
    element = block_format(dtype).element
    for row in BLOCK_FORMATS.values():
        if (row.element, row.kind, row.block) == (element, chosen.kind, chosen.block):
            return row
    raise UsageError(f"{dtype} with {scales} scales", f"{scales} has elements of {chosen.element}",
                     legal=[row.name for row in BLOCK_FORMATS.values()
                            if row.block and row.element == element] or [chosen.element],
                     where="PTX ISA, tcgen05 block scaling")


def _check_target(tile: Tile, target: str) -> None:
    has = isa.parse_targets(isa.find(tile.spelling).targets)
    if isa.target(target).name not in has:
        raise UsageError(f"{tile.spelling} on {target}", "is not in this target", legal=str(has),
                         where="PTX ISA, tcgen05.mma")
    for k, where in tile.kind.later_k:
        if tile.k_step == k and target not in isa.parse_targets(where):
            raise UsageError(f"K = {k} on {target}",
                             f"{tile.kind.name} has K = {tile.kind.k} there",
                             legal=f"K = {tile.kind.k}, or {where}",
                             where="PTX ISA, tcgen05 matrix shapes")


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


def _notes(tile: Tile) -> tuple[str, ...]:
    notes = []
    if tile.cta_group == 1 and tile.m == 128 and tile.n % 16 and not tile.ws:
        notes.append(f"CUTLASS takes N in steps of 16 for M = 128; N = {tile.n} is the ISA's")
    if tile.path.half:
        notes.append("M = 64 uses 16 of every 32 lanes: two accumulators share columns "
                     "(base lanes 0 and 16)")
    if tile.cta_group == 2:
        notes.append("both CTAs of the pair allocate the same columns, each on its own SM")
    if tile.k_step in (96, 128) and tile.format.block:
        notes.append(f"the layout of scales for K = {tile.k_step} is only drawn in the manual: "
                     "columns inferred")
    return tuple(notes)


def admitted(columns: int | Sequence[int], *, capacity: int = COLUMNS) -> int:
    """CTAs that hold these allocations at the same time: 16, 8, 4, 2, 1 for 32 ... 512 columns.

    Source: PTX ISA, tcgen05.alloc; a bound from the allocation rule, not a residency.

    Raises:
        UsageError: no legal allocation (a power of two from 32 to `capacity`).
    """
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
