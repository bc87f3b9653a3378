"""The ledger of Tensor Memory: what a kernel needs of its 512 columns, and the best legal packing.

Accumulators (times stages), block-scale factors, sparse metadata, an A operand and the epilogue all
lie in one pool of 128 lanes x 512 columns::

    >>> print(ledger(128, 256, "f16", stages=2).summary())
    512 of 512 columns, allocations 512: fits
    >>> print(ledger(128, 256, "e2m1", stages=2, scales="nvfp4").misfit)   # doctest: +ELLIPSIS
    524 columns: Tensor Memory has 512
      fits: ...

Columns of each part (isa.tensor_memory has the layouts):

    accumulator     N (layouts A, C, D, F), N/2 (B, E), N/4 (G), for f32, f16 and s32 alike
    scales of A     4 x ceil(M_cta/128) x ceil(K_tile / block / 4): a copy fills 128 rows x 4 scales
    scales of B     4 x ceil(N/128)     x ceil(K_tile / block / 4)
    metadata        K_tile / K_mma x (2 for 8-bit and mxf4, 1 for 16-bit and tf32)
    A operand       K_tile x bits / 32

An allocation is a power of two from 32 to 512 columns; those of one CTA may not grow in size, and
a part must lie inside one allocation. The search takes the fewest columns, then the fewest
allocations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mmalab.plan.misfit import Misfit
from mmalab.plan.packing import Packing, Part

__all__ = ["Ledger", "admitted", "ledger", "parts_of"]


@dataclass(frozen=True)
class Ledger:
    """The plan. `packing` is None when nothing legal holds all parts; `misfit` then says what does.

    `separate` is what one allocation for each part would take (a power of two each).
    """

    m: int
    n: int
    k: int
    dtype: str
    kind: str
    stages: int
    cta_group: int
    scales: str | None
    path: str
    parts: tuple[Part, ...]
    packing: Packing | None
    separate: int
    misfit: Misfit | None
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> int:
        """Columns that the parts need, packed."""
        raise NotImplementedError

    @property
    def allocated(self) -> int:
        """Columns of the allocations of the best packing; 0 when nothing fits."""
        raise NotImplementedError

    @property
    def fits(self) -> bool:
        """Whether the best packing fits."""
        return self.packing is not None

    @property
    def ctas(self) -> int:
        """CTAs whose allocations the pool of an SM admits at the same time (a bound)."""
        raise NotImplementedError

    def summary(self) -> str:
        """One line: columns, allocations, verdict."""
        raise NotImplementedError


def parts_of(m: int, n: int, dtype: str, *, k: int | None = None, stages: int = 1,
             cta_group: int = 1, scales: str | None = None, scale_stages: int = 1,
             sparse: bool = False, ws: bool = False, a_in_tmem: bool = False,
             epilogue: int = 0) -> tuple[Part, ...]:
    """The parts of Tensor Memory that the product needs on one SM.

    `k` is the K of one pipeline stage in elements (the instruction's K when None); `scales` one of
    mxfp8, mxfp6, mxfp4, nvfp4; `epilogue` further columns.

    Raises:
        UsageError: no ``tcgen05.mma`` has this shape, type or scale.
    """
    raise NotImplementedError


def ledger(m: int, n: int, dtype: str | None = None, *, k: int | None = None, stages: int = 1,
           cta_group: int = 1, scales: str | None = None, scale_stages: int = 1,
           sparse: bool = False, ws: bool = False, a_in_tmem: bool = False, epilogue: int = 0,
           target: str = "sm_100a") -> Ledger:
    """The ledger of one kernel, packed as well as the rules allow.

    Without `dtype` it is f16, or the element of `scales`. M and N are those of the instruction: for
    a CTA pair both CTAs together.

    Raises:
        UsageError: no ``tcgen05.mma`` has this shape, type or scale, or `target` has none at all.
    """
    raise NotImplementedError


def admitted(columns: int | Sequence[int], *, capacity: int = 512) -> int:
    """CTAs that hold these allocations at the same time: 16, 8, 4, 2, 1 for 32 ... 512 columns.

    Raises:
        UsageError: no legal allocation (a power of two from 32 to `capacity`).
    """
    raise NotImplementedError
