"""Shared memory of a pipelined kernel: stages that fit, with every alignment counted.

    >>> found = stage_plan(128, 256, 64, "bf16", target="sm_90a")
    >>> found.stage_bytes, found.max_stages, found.swizzle
    (49152, 4, '128B')

A stage holds the A tile (M x K) and the B tile (N x K), K contiguous, each in panels as wide as the
swizzle and at its alignment (1024 bytes for 128B, 512 for 64B, 256 for 32B), the block scales in
tiles of 512 bytes, and two mbarriers. The total of a CTA is the struct with its padding:

    total(S) = sum over members of align(offset) + bytes, stages behind each other
    S_max    = the largest S with total(S) <= what a CTA of the target may have

A struct counted without padding chooses a stage too many::

    >>> stage = [Member(name, 33000, 1024, per_stage=True) for name in "AB"]
    >>> members = [*stage, Member("epilogue", 34000, 1024)]
    >>> shared_layout(members, 3, "sm_90a").fits, 3 * 66000 + 34000 <= capacity("sm_90a")
    (False, True)

Sources: CUDA C++ Programming Guide, compute capabilities (:mod:`mmalab.isa.targets`); PTX ISA,
tensor swizzling modes; cuBLAS, block scaling factors layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile
from typing import Any

from mmalab import isa
from mmalab.errors import UsageError
from mmalab.isa.tensor_memory import kind_of
from mmalab.plan.aligned import aligned
from mmalab.plan.asked import asked
from mmalab.plan.block_format_table import BlockFormat, block_format
from mmalab.plan.misfit import Misfit
from mmalab.plan.scale_orders import padded_scales
from mmalab.plan.swizzle import SwizzleSearch, swizzle_search

__all__ = ["FORMULA", "SOURCE", "Member", "Placed", "SharedLayout", "StagePlan", "capacity",
           "max_stages", "shared_layout", "stage_plan", "tile_stages"]

_GUIDE = "CUDA C++ Programming Guide, compute capabilities"
_WHERE = "mmalab.plan.smem"
#: What the question rests on, in one line each.
FORMULA = ("stages x (M + N) x K x bits / 8, each tile at 8 spans of its swizzle, + scales in "
           "tiles of 512 bytes + 16 bytes of mbarriers a stage + epilogue <= bytes of a CTA")
SOURCE = f"{_GUIDE}; PTX ISA, tensor swizzling modes"
#: More stages than any shared memory holds, of 16 bytes and a barrier.
_MOST_STAGES = 8192
_TALL = 4096
#: Span of each hardware swizzle in bytes; a tile begins at a multiple of 8 spans.
_SPANS = {"128B": 128, "64B": 64, "32B": 32}
#: The most stages that anybody asks for.
_MOST = 64


@dataclass(frozen=True, slots=True)
class Member:
    """One member of the shared-memory struct; `per_stage` members come once for each stage."""

    name: str
    bytes: int
    align: int = 16
    per_stage: bool = False

    def __post_init__(self) -> None:
        if self.bytes < 0 or self.align < 1 or self.align & (self.align - 1):
            raise UsageError(f"{self.name}: {self.bytes} bytes at a multiple of {self.align}",
                             "cannot be laid out", legal="bytes from 0, a power of two",
                             where=_WHERE)


@dataclass(frozen=True, slots=True)
class Placed:
    """A member with its byte offset, and the padding in front of it."""

    name: str
    offset: int
    bytes: int
    padding: int


@dataclass(frozen=True)
class SharedLayout:
    """A struct laid out: total bytes with padding, and against the limit of a CTA."""

    target: str
    stages: int
    members: tuple[Placed, ...]
    bytes: int
    padding: int
    limit: int
    misfit: Misfit | None

    @property
    def fits(self) -> bool:
        """Whether one CTA may have it."""
        return self.misfit is None

    def table(self) -> str:
        """Member by member: offset, bytes, padding in front."""
        rows = [(m.name, m.offset, m.bytes, m.padding) for m in self.members]
        total = (f"{self.bytes:,} of {self.limit:,} bytes ({self.padding:,} of padding)")
        lines = [aligned(rows, ("member", "offset", "bytes", "padding")), total]
        return "\n".join([*lines, *([str(self.misfit)] if self.misfit else [])])

    def __str__(self) -> str:
        return self.table()


@dataclass(frozen=True)
class StagePlan:
    """A pipeline's shared memory on one chip.

    `stage_bytes` is one stage without barriers; `ctas` how many CTAs with `stages` stages an SM's
    shared memory holds; `conflicts` the bank-conflict search of one panel of A, for the reads of
    ldmatrix and the 16-byte writes of cp.async together (None where rows do not fill 16 bytes);
    `boxes` the tensor copies of one stage's A and B, (bytes of a row, rows) each: a box is as wide
    as the swizzle and has 256 rows at most. Their bytes are what an mbarrier has to expect.
    """

    m: int
    n: int
    k: int
    format: BlockFormat
    target: str
    stages: int
    swizzle: str
    stage_bytes: int
    layout: SharedLayout
    max_stages: int
    ctas: int
    conflicts: SwizzleSearch | None
    boxes: tuple[tuple[int, int], ...] = ()
    misfit: Misfit | None = None

    @property
    def fits(self) -> bool:
        """Whether the stages asked for fit."""
        return self.misfit is None

    def table(self) -> str:
        """The plan as text."""
        head = (f"{self.m} x {self.n} x {self.k} {self.format}, {self.stages} stages on "
                f"{self.target}: {self.stage_bytes:,} bytes a stage, swizzle {self.swizzle}, at "
                f"most {self.max_stages} stages, {self.ctas} CTA{'s' * (self.ctas != 1)} per SM")
        lines = [head, self.layout.table()]
        if self.misfit and self.misfit != self.layout.misfit:
            lines[-1] = self.layout.table().replace(str(self.layout.misfit), str(self.misfit))
        if self.boxes:
            expected = sum(width * rows for width, rows in self.boxes)
            boxes = ", ".join(f"{rows} x {width} bytes" for width, rows in self.boxes)
            lines.append(f"tensor copies of a stage: {boxes}; the barrier expects {expected} bytes")
        if self.conflicts is not None:
            lines += ["", "bank conflicts of a panel of A:", self.conflicts.table()]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON-able data."""
        return {
            "m": self.m, "n": self.n, "k": self.k, "format": self.format, "target": self.target,
            "fits": self.fits, "stages": self.stages, "max_stages": self.max_stages,
            "ctas": self.ctas, "swizzle": self.swizzle, "stage_bytes": self.stage_bytes,
            "layout": self.layout, "misfit": self.misfit, "boxes": self.boxes,
            "conflicts": self.conflicts.as_dict() if self.conflicts else None,
        }


def capacity(target: str) -> int:
    """Bytes of shared memory that one CTA may ask for (with the opt-in attribute): 232,448 on
    9.0 and 10.0, 101,376 on 12.0.

    Raises:
        UsageError: no such target.
    """
    return isa.limits(target).shared_per_cta


def shared_layout(members: Sequence[Member], stages: int, target: str) -> SharedLayout:
    """Lay members out in order, each at its alignment, stages behind each other.

    The nearest fit is the most stages that do.

    Raises:
        UsageError: no such target, no stage.
    """
    if not 1 <= stages <= _MOST_STAGES:
        raise UsageError(f"{stages} stages", "is no pipeline", legal=f"1 to {_MOST_STAGES}",
                         where=_WHERE)
    placed, end = _lay_out(members, stages)
    limit = capacity(target)
    misfit = None
    if end > limit:
        most = max_stages(members, target)
        fits = f"{limit} bytes"
        if most:
            fits = f"{most} stage{'s' * (most > 1)} ({_lay_out(members, most)[1]} bytes)"
        misfit = Misfit(f"{end} bytes of shared memory",
                        f"a CTA of {target} may have {limit} ({limit // 1024} KiB): "
                        f"{end - limit} too many", (fits,), _GUIDE)
    return SharedLayout(isa.target(target).name, stages, placed, end,
                        sum(member.padding for member in placed), limit, misfit)


def _lay_out(members: Sequence[Member], stages: int) -> tuple[tuple[Placed, ...], int]:
    placed, end = [], 0
    for member in members:
        for stage in range(stages if member.per_stage else 1):
            offset = -(-end // member.align) * member.align
            name = f"{member.name}[{stage}]" if member.per_stage else member.name
            placed.append(Placed(name, offset, member.bytes, offset - end))
            end = offset + member.bytes
    return tuple(placed), end


def max_stages(members: Sequence[Member], target: str) -> int:
    """The most stages with which the members fit; 0 when one is too many already."""
    limit = capacity(target)
    fitting = takewhile(lambda stages: _lay_out(members, stages)[1] <= limit, range(1, _MOST + 1))
    return max(fitting, default=0)


@asked
def stage_plan(m: int, n: int, k: int, dtype: str, *, target: str, stages: int | None = None,
               scales: str | None = None, epilogue: int = 0, cta_group: int = 1, pad: int = 0
               ) -> StagePlan:
    """How many stages of M x N x K fit (`stages` None: as many as do), and how they lie.

    The tile is a CTA pair's when `cta_group` is 2: each CTA keeps half of A's rows and half of B's
    (and the scales of all of B). `epilogue` bytes are kept for the result, behind the stages. With
    `pad` unused bytes behind each row there is no swizzle. Formats of kinds f8f6f4 and mxf8f6f4
    take a byte an element for tcgen05, whatever their width.

    Raises:
        UsageError: rows that no swizzle or 16-byte copy can fill, unknown types or targets.
    """
    tile = _Tile(m, n, k, block_format(scales or dtype), isa.target(target).name, epilogue,
                 cta_group, pad)
    tile.check()
    members = tile.members()
    most = max_stages(members, tile.target)
    layout = shared_layout(members, stages or most or 1, tile.target)
    chip = isa.limits(target)
    held = -(-(layout.bytes + chip.shared_reserved) // chip.shared_unit) * chip.shared_unit
    misfit = layout.misfit
    if misfit:
        misfit = replace(misfit, nearest=(*misfit.nearest, *_smaller(tile, layout.stages)))
    return StagePlan(
        m=m, n=n, k=k, format=tile.format, target=tile.target, stages=layout.stages,
        swizzle=tile.swizzle, layout=layout, max_stages=most, boxes=tile.boxes(), misfit=misfit,
        stage_bytes=sum(member.bytes for member in members if member.per_stage and
                        "barrier" not in member.name),
        ctas=chip.shared_per_sm // held if layout.fits else 0,
        conflicts=_conflicts(m // cta_group, tile.span),
    )


@asked
def tile_stages(m: int, n: int, k: int, dtype: str, *, target: str, scales: str | None = None,
                epilogue: int = 0, cta_group: int = 1) -> int:
    """The most stages of M x N x K that fit: :func:`stage_plan` without the rest of the plan.

    Raises:
        UsageError: as :func:`stage_plan`.
    """
    tile = _Tile(m, n, k, block_format(scales or dtype), isa.target(target).name, epilogue,
                 cta_group, 0)
    tile.check()
    return max_stages(tile.members(), tile.target)


@dataclass(frozen=True, slots=True)
class _Tile:
    """What one stage holds, for one target."""

    m: int
    n: int
    k: int
    format: BlockFormat
    target: str
    epilogue: int
    cta_group: int
    pad: int

    def check(self) -> None:
        if min(self.m, self.n, self.k) < 1 or min(self.epilogue, self.pad) < 0 or self.pad % 16 \
                or self.cta_group not in (1, 2) or (self.m | self.n) % self.cta_group:
            raise UsageError(
                f"a tile of {self.m} x {self.n} x {self.k}, {self.epilogue} bytes of epilogue, "
                f"{self.pad} of padding", "is none",
                legal="positive sizes that a pair can halve, padding of 16 bytes", where=_WHERE)
        if self.k * self.bits % 128:
            step = 128 // self.bits
            near = (self.k // step * step or step, -(-self.k // step) * step)
            raise UsageError(
                f"rows of {self.k} {self.format}, {self.row} bytes",
                "are no multiple of 16 bytes", legal=[f"K = {value}" for value in near],
                where="PTX ISA, tensor copies: bytes of the innermost box dimension")

    @property
    def bits(self) -> int:
        """Bits of an element in shared memory: the container of tcgen05's kind where that runs."""
        if self.format.kind and isa.limits(self.target).tmem_columns:
            return kind_of(self.format.kind).container_bits or self.format.element_bits
        return self.format.element_bits

    @property
    def row(self) -> int:
        """Bytes of a row, without padding."""
        return self.k * self.bits // 8

    @property
    def swizzle(self) -> str:
        """The widest one that divides a row; none for padded rows."""
        if self.pad:
            return "none"
        return next((name for name, span in _SPANS.items() if self.row % span == 0), "none")

    @property
    def span(self) -> int:
        """Bytes of a row of one panel: the swizzle's, or those of the widest that would do."""
        widest = next((span for span in _SPANS.values() if self.row % span == 0), self.row)
        return min(self.row, widest)

    def members(self) -> list[Member]:
        """A, B, their scales, the result, two mbarriers a stage, the allocator's word."""
        align, pitch = 8 * _SPANS.get(self.swizzle, 16), self.row + self.pad
        found = [Member("A", self.m // self.cta_group * pitch, align, per_stage=True),
                 Member("B", self.n // self.cta_group * pitch, align, per_stage=True)]
        if self.format.block:
            blocks = -(-self.k // self.format.block)
            # Each CTA of a pair holds half of B, but multiplies with the scales of all of it.
            sizes = {"SFA": self.m // self.cta_group, "SFB": self.n}
            found += [Member(name, padded_scales(rows, blocks), 128, per_stage=True)
                      for name, rows in sizes.items()]
        if self.epilogue:
            found.append(Member("epilogue", self.epilogue, 128))
        if self.copied:
            found.append(Member("barriers", 16, 8, per_stage=True))
        if isa.limits(self.target).tmem_columns:
            found.append(Member("tmem address", 4, 4))
        return found

    @property
    def copied(self) -> bool:
        """Whether the chip has tensor copies that signal mbarriers."""
        return isa.target(self.target).number >= 90

    def boxes(self) -> tuple[tuple[int, int], ...]:
        """(bytes of a row, rows) of the tensor copies of A and B."""
        if not self.copied or self.pad:
            return ()
        widths = [self.span] * (self.row // self.span)
        return tuple((width, min(256, rows - first))
                     for rows in (self.m // self.cta_group, self.n // self.cta_group)
                     for width in widths for first in range(0, rows, 256))


def _smaller(tile: _Tile, stages: int) -> list[str]:
    """The largest N, and the largest part of K, with which so many stages fit."""
    narrow = (replace(tile, n=n) for n in range(tile.n - 16, 0, -16))
    short = (replace(tile, k=tile.k >> shift) for shift in (1, 2, 3)
             if (tile.k >> shift) * tile.bits % 128 == 0)
    found = []
    for name, tries in (("n", narrow), ("k", short)):
        fits = next((one for one in tries if one.m % one.cta_group == 0 == one.n % one.cta_group
                     and max_stages(one.members(), one.target) >= stages), None)
        if fits is not None:
            found.append(f"{name.upper()} = {getattr(fits, name)} ({stages} stages)")
    return found


@lru_cache(maxsize=256)
def _conflicts(rows: int, span: int) -> SwizzleSearch | None:
    """Reads and writes of one panel: `rows` rows of `span` bytes."""
    if span % 16 or span > 1024:
        return None
    # what repeats after 8 rows is looked at once, however tall the tile
    return swizzle_search(min(rows, _TALL), span, "u8")
