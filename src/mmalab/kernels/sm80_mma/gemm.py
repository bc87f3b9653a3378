"""C = A B with mma.sync and ldmatrix: the article's fast kernel, its cousins, and larger ones.

===========  ==================================================  ==================================
`pipeline`   cp.async, one barrier a slice: the article's        128 x 128 of C, two blocks an SM
`carried`    the same, fragments carried across the barrier      256 x 128 and others, one block
`fed`        TMA and mbarriers, tiles dealt out (sm_90)          the same, persistent
===========  ==================================================  ==================================

The loop body holds as many slices as there are stages, so that a stage is an immediate offset; M, N
and K are constants of the code, so that edges cost nothing where the tiles divide. What is left per
slice beside the 48 matrix and copy instructions is one barrier, one wait, one commit and a share of
the loop's counter and pointers.

    >>> kernel = gemm(256, 128, 64)
    >>> kernel.grid, kernel.block, kernel.dynamic_shared
    ((1, 2, 1), (256, 1, 1), 49152)
    >>> gemm(8192, 8192, 8192, tile=(256, 128), stages=4).grid
    (2048, 1, 1)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from mmalab.errors import UsageError
from mmalab.kernels.arguments import check_arrays
from mmalab.kernels.reference import matrix_product
from mmalab.kernels.sm80_mma.carried import Carried
from mmalab.kernels.sm80_mma.fed import Fed
from mmalab.kernels.sm80_mma.maps import maps_of, prepare
from mmalab.kernels.sm80_mma.pipeline import Pipeline
from mmalab.kernels.sm80_mma.problem import BARRIERS, Problem, matrix_params
from mmalab.kernels.sm80_mma.recipe import recipe
from mmalab.kernels.sm80_mma.tile import LINES, SLICE
from mmalab.kernels.sm80_mma.tile import tile as tile_of
from mmalab.ptx.kernel import Kernel

__all__ = ["gemm"]

_COPIES = ("threads", "tma")
_WAVES = ("whole", "even")
_MOST_DRAIN = 4
_WHERE = "mmalab.kernels.sm80_mma.gemm"


def gemm(m: int, n: int, k: int, dtype: str = "bf16", layout: str = "swizzled", stages: int = 3,
         warp_tile: tuple[int, int] | None = None, accumulate: str | None = None,
         promote_every: int | None = None, *, tile: tuple[int, int] | None = None,
         span: int | None = None, band: int = 2048, copy: str = "threads",
         sms: int = 132, waves: str = "whole", drain: int = 2) -> Kernel:
    """C = A x B^T: A is M x K, B is stored N x K, C is M x N, all row-major.

    Args:
        m, n, k: sizes, multiples of 8.
        dtype: bf16, f16, tf32, e4m3 (sm_89 and later) or s8.
        layout: of the shared tiles: swizzled, padded or plain.
        stages: slices of K in shared memory, 2 or more.
        warp_tile: rows and columns of C that a warp owns: (64, 32), (64, 64) or (96, 64). None:
            (64, 32) for the article's tile, else (64, 64).
        accumulate: f32 or f16, s32 for s8; None is f32 (s32). C has this type.
        promote_every: add partial sums of so many values of K in IEEE FP32, None for one chain.
        tile: rows and columns of C that a block owns, such as (256, 128), with fragments carried
            across barriers. None: the article's pipeline, on 128 x 128.
        span: bytes of a line in a slice of K, 64 or 128. None: 64, 128 for TMA.
        band: with `tile`, rows of C that are finished before the next begin.
        copy: `threads` (cp.async) or `tma` (sm_90a: one block an SM that goes from tile to tile).
        sms: with TMA, SMs to fill (an H100 or H200 has 132).
        waves: with TMA, `whole` tiles only, or the last two waves dealt out by slices of K, so that
            all SMs end together: `even`.
        drain: with TMA, k-steps at a tile's end that are multiplied row by row, so that one row is
            stored under the next one's products: 1 to 4.

    Raises:
        UsageError: sizes, types or choices that no such kernel has, with the nearest that have.
    """
    problem = _problem(m, n, k, dtype, accumulate, promote_every, layout=layout, stages=stages,
                       warp_tile=warp_tile, tile=tile, span=span, band=band, copy=copy, sms=sms,
                       waves=waves, drain=drain)
    name = _name(problem)
    params = matrix_params(m, n, k, problem.recipe)
    return Kernel(
        name=name,
        ptx=_writer(problem)(problem, name).text(),
        entry=name,
        grid=problem.grid,
        block=(problem.threads, 1, 1),
        params=params,
        target=problem.target,
        dynamic_shared=problem.shared_bytes,
        reference=partial(matrix_product, family=problem.recipe.unit, k=problem.recipe.k,
                          promote_every=promote_every),
        validate=partial(check_arrays, name, params),
        prepare=partial(prepare, problem) if problem.box else None,
        facts=_facts(problem),
    )


def _problem(m: int, n: int, k: int, dtype: str, accumulate: str | None,
             promote_every: int | None, *, layout: str, stages: int,
             warp_tile: tuple[int, int] | None, tile: tuple[int, int] | None, span: int | None,
             band: int, copy: str, sms: int, waves: str, drain: int) -> Problem:
    """The choices checked and put together."""
    _check_tma(copy, waves, drain)
    if copy not in _COPIES:
        raise UsageError(f"copy {copy!r}", "is no way into shared memory", legal=list(_COPIES),
                         where=_WHERE)
    for name, count in (("band", band), ("sms", sms)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise UsageError(f"{name}={count!r}", "is no number of rows or SMs", legal="1 or more",
                             where=_WHERE)
    row, box = recipe(dtype, accumulate), copy == "tma"
    if box and tile is None:
        tile = (256, 128)
    if box and layout != "swizzled":
        raise UsageError(f"layout {layout!r}", "is none that TMA writes without bank conflicts",
                         legal="swizzled, or copy='threads'", where=_WHERE)
    made = tile_of(layout, stages, warp_tile or ((64, 64) if tile else (64, 32)),
                   tile or (LINES, LINES), span or (128 if box else SLICE),
                   sums=row.result_bytes, target="sm_90" if tile else "sm_89",
                   beside=BARRIERS if box else 0)
    return Problem(m, n, k, row, made, promote_every, band=band if tile else 0, box=box,
                   sms=sms, evenly=waves == "even", drain=drain)


def _check_tma(copy: str, waves: str, drain: int) -> None:
    """What only the kernel that TMA feeds can choose."""
    if waves not in _WAVES:
        raise UsageError(f"waves {waves!r}", "is no way to deal out tiles", legal=list(_WAVES),
                         where=_WHERE)
    if waves == "even" and copy != "tma":
        raise UsageError(f"waves='even' with copy={copy!r}", "has blocks of one tile each",
                         legal="copy='tma', or waves='whole'", where=_WHERE)
    if isinstance(drain, bool) or not isinstance(drain, int) or not 1 <= drain <= _MOST_DRAIN:
        raise UsageError(f"drain={drain!r}", "is no number of k-steps of a slice",
                         legal=f"1 to {_MOST_DRAIN}", where=_WHERE)


def _writer(problem: Problem) -> type[Pipeline | Fed]:
    if problem.box:
        return Fed
    return Carried if problem.band else Pipeline


def _name(problem: Problem) -> str:
    row, made = problem.recipe, problem.tile
    parts = ["gemm", row.dtype, row.accumulator, made.layout, f"{made.stages}stages",
             f"{made.warp_tile[0]}x{made.warp_tile[1]}"]
    if problem.band:
        parts += [f"{made.block[0]}x{made.block[1]}", f"{made.span}bytes",
                  "tma" if problem.box else "carried", *(["even"] if problem.even else ())]
    if problem.promote_every:
        parts.append(f"promoted{problem.promote_every}")
    return "_".join((*parts, f"{problem.m}x{problem.n}x{problem.k}"))


def _facts(problem: Problem) -> Mapping[str, Any]:
    made, row = problem.tile, problem.recipe
    return {
        "tile": (*made.block, problem.values),
        "warp_tile": made.warp_tile,
        "stages": made.stages,
        "layout": made.layout,
        "swizzle": str(made.swizzle) if made.swizzle else None,
        "shared_layout": str(made.shared),
        "shared_bytes": problem.shared_bytes,
        "copy": "tma" if problem.box else "threads",
        "band": problem.band or None,
        "waves": "even" if problem.even else "whole",
        "drain": problem.drain if problem.box else None,
        "instruction": row.key,
        "unit": row.unit,
        "instruction_k": row.k,
        "promote_every": problem.promote_every,
        "slices": problem.slices,
        "slices_per_iteration": problem.unroll,
        **({"maps": maps_of(problem)} if problem.box else {}),
        "flops": 2 * problem.m * problem.n * problem.k,
    }
