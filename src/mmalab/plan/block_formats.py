"""Number formats of a tensor-core product as a plan: bits, scales, instructions, chips, error.

    >>> found = format_plan("nvfp4", rows=128, cols=256)
    >>> found.bits_per_element, found.scale_columns, found.k["tcgen05"]
    (4.5, 16, 64)

A block format is an element, a scale and how many elements along K share it: mxfp4 is e2m1 with an
E8M0 scale for 32 (4.25 bits), nvfp4 e2m1 with a UE4M3 scale for 16 and one FP32 for the tensor
(4.5 bits), mxfp8 8.25 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK_FORMATS", "SCALE_ORDERS", "BlockFormat", "ChipSupport", "DataError",
           "FormatPlan", "block_format", "data_error", "format_plan", "identify_scale_order",
           "name_of", "scale_offset", "scale_test_pattern"]


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """`block` elements along K share a scale of type `scale`; block 0 means no scale."""

    name: str
    element: str
    scale: str = ""
    block: int = 0
    kind: str = ""
    global_scale: bool = False

    @property
    def bits(self) -> float:
        """Bits per element with its share of the block scale: 4.5 for nvfp4."""
        raise NotImplementedError


BLOCK_FORMATS: Mapping[str, BlockFormat] = {}


@dataclass(frozen=True, slots=True)
class ChipSupport:
    """How one target multiplies the format: which instruction, native or emulated, or not at all
    (`storage`: it can be kept and converted, weight-only)."""

    target: str
    how: Literal["native", "emulated", "storage", "none"]
    instruction: str
    unit: str


@dataclass(frozen=True, slots=True)
class DataError:
    """Quantisation of one array: relative RMS error, largest error / RMS, share of saturated and
    of flushed-to-zero elements, and the tensor's global scale where there is one."""

    elements: int
    relative_rms: float
    worst: float
    saturated: float
    flushed: float
    global_scale: float | None


@dataclass(frozen=True)
class FormatPlan:
    """The plan for a rows x cols operand (K along the columns)."""

    format: BlockFormat
    rows: int
    cols: int
    bits_per_element: float
    data_bytes: int
    scale_bytes: int
    padded_scale_bytes: int
    scale_columns: int
    k: Mapping[str, int]
    largest: float
    smallest: float
    half_ulp: float
    support: tuple[ChipSupport, ...]
    error: DataError | None


def block_format(name: str) -> BlockFormat:
    """The format called `name` (mxfp8, mxfp6, mxfp4, nvfp4, fp8, bf16 ...).

    Raises:
        UsageError: there is none; the message lists those that exist.
    """
    raise NotImplementedError


def name_of(element: str, scale: str, block: int) -> str:
    """The name of (element type, scale type, block): mxfp4, nvfp4 ..., whatever a label says.

    Raises:
        UsageError: no format is made like this; the message names the nearest.
    """
    raise NotImplementedError


def format_plan(name: str, *, rows: int, cols: int, data: NDArray[np.floating] | None = None
                ) -> FormatPlan:
    """Sizes, instructions, chips and (with `data`, any shape, blocks along the last axis) errors.

    Raises:
        UsageError: unknown format, sizes that are not positive.
    """
    raise NotImplementedError


def data_error(name: str, data: NDArray[np.floating], *, policy: str = "rceil") -> DataError:
    """What quantising `data` to the format costs; blocks lie along the last axis."""
    raise NotImplementedError


#: How a (rows, blocks) matrix of scales may lie in memory.
SCALE_ORDERS: tuple[str, ...] = ("row-major", "column-major", "128x4", "8x4")


def scale_offset(row: int, block: int, blocks: int, order: str = "128x4", *, rows: int = 0) -> int:
    """Byte offset of the scale of (`row`, `block`) in a tensor with `blocks` scales a row.

    128x4: tiles of 512 bytes ordered (row/128, block/4); inside (row%32)*16 + (row%128/32)*4 +
    block%4. Row 33, block 5 of 8 is at 533. Source: cuBLAS, block scaling factors layout.
    """
    raise NotImplementedError


def scale_test_pattern(rows: int, blocks: int) -> NDArray[np.uint8]:
    """E8M0 codes with 2^((row + 3 block) mod 8) at (row, block): it identifies its own order."""
    raise NotImplementedError


def identify_scale_order(data: NDArray[np.uint8], rows: int, blocks: int) -> tuple[str, ...]:
    """The orders under which the bytes of a :func:`scale_test_pattern` decode exactly."""
    raise NotImplementedError
