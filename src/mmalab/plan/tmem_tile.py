"""What a kernel keeps in Tensor Memory, part by part, before it is packed.

    >>> tile = Tile(128, 256, format_of(None, "nvfp4"))
    >>> [(part.name, part.columns) for part in parts_of(tile)]
    [('D', 256), ('SFA', 4), ('SFB', 8)]

A tile is checked against the instruction table: shape, kind, K and target
(:mod:`mmalab.isa.tensor_memory`).
"""

from __future__ import annotations

from dataclasses import dataclass

from mmalab import isa
from mmalab.errors import UsageError
from mmalab.isa.tensor_memory import (
    DataPath,
    Kind,
    data_path,
    kind_of,
    metadata_columns,
    operand_columns,
    scale_columns,
    shape_problem,
)
from mmalab.plan.block_format_table import BLOCK_FORMATS, BlockFormat, block_format
from mmalab.plan.packing import Part

__all__ = ["Tile", "check_target", "format_of", "notes_of", "parts_of"]

#: Buffers at most: there are so many columns.
_MOST = 512


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
    if tile.cta_group not in (1, 2) or min(counts) < 0 or max(counts) > _MOST:
        raise UsageError(
            f"cta_group::{tile.cta_group}, {tile.stages} stages, {tile.scale_stages} of scales, "
            f"{tile.a_stages} of A, {tile.epilogue} columns of epilogue, K = {tile.k}",
            "cannot be", legal=f"cta_group 1 or 2, 1 to {_MOST} stages, nothing negative",
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


def format_of(dtype: str | None, scales: str | None) -> BlockFormat:
    """The format of a product: `dtype` (f16 when None), or what `scales` has for its elements.

    Raises:
        UsageError: unknown names, or scales that those elements do not have.
    """
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


def check_target(tile: Tile, target: str) -> None:
    """Raise UsageError where `target` has no such product."""
    has = isa.parse_targets(isa.find(tile.spelling).targets)
    if isa.target(target).name not in has:
        raise UsageError(f"{tile.spelling} on {target}", "is not in this target", legal=str(has),
                         where="PTX ISA, tcgen05.mma")
    for k, where in tile.kind.later_k:
        if tile.k_step == k and isa.target(target).name not in isa.parse_targets(where):
            raise UsageError(f"K = {k} on {target}",
                             f"{tile.kind.name} has K = {tile.kind.k} there",
                             legal=f"K = {tile.kind.k}, or {where}",
                             where="PTX ISA, tcgen05 matrix shapes")


def notes_of(tile: Tile) -> tuple[str, ...]:
    """What a reader of the plan should know about the tile."""
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
