"""Number formats of a tensor-core product as a plan: bits, scales, instructions, chips, error.

    >>> found = format_plan("nvfp4", rows=128, cols=256)
    >>> found.bits_per_element, found.scale_columns, found.k["tcgen05"]
    (4.5, 16, 64)
    >>> found.data_bytes, found.scale_bytes
    (16384, 2048)

A block format is an element, a scale and how many elements along K share it: mxfp4 is e2m1 with an
E8M0 scale for 32 (4.25 bits), nvfp4 e2m1 with a UE4M3 scale for 16 and one FP32 for the tensor
(4.5 bits), mxfp8 8.25 bits.

The table is in ``block_format_table``, the arithmetic on data in ``quantise``, where scales lie in
``scale_orders``, the chips in ``support``; this module has their names, and the plan of them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from numpy.typing import ArrayLike

from mmalab import formats
from mmalab.errors import UsageError
from mmalab.isa.tensor_memory import kind_of, scale_columns
from mmalab.plan.aligned import aligned
from mmalab.plan.asked import asked
from mmalab.plan.block_format_table import BLOCK_FORMATS, BlockFormat, block_format, name_of
from mmalab.plan.quantise import DataError, data_error, quantise
from mmalab.plan.scale_orders import (
    SCALE_ORDERS,
    identify_scale_order,
    padded_scales,
    scale_offset,
    scale_test_pattern,
)
from mmalab.plan.support import ChipSupport, instructions, support

__all__ = ["BLOCK_FORMATS", "FORMULA", "SCALE_ORDERS", "SOURCE", "BlockFormat", "ChipSupport",
           "DataError", "FormatPlan", "block_format", "data_error", "format_plan",
           "identify_scale_order", "name_of", "padded_scales", "quantise", "scale_offset",
           "scale_test_pattern", "support"]

#: What the question rests on, in one line each.
FORMULA = ("bits = element + scale / block; columns = 4 x ceil(rows / 128) x ceil(K / block / "
           "4); error = rms(q(x) - x) / rms(x)")
SOURCE = "OCP MX 1.0; PTX ISA, tcgen05 block scaling, cvt; the instruction table for the chips"


@dataclass(frozen=True)
class FormatPlan:
    """The plan for a rows x cols operand, K along the columns.

    `scale_columns` is what its scales take of Tensor Memory when all of them are there at once,
    `k` the K of one instruction by class, `shared_bits` what an element takes in shared memory for
    tcgen05 (a byte under kind::f8f6f4 and mxf8f6f4, whatever its width), `half_ulp` the largest
    relative rounding error of a normal element, `scale_range` the smallest and largest scale.
    """

    format: BlockFormat
    rows: int
    cols: int
    bits_per_element: float
    shared_bits: int
    data_bytes: int
    scale_bytes: int
    padded_scale_bytes: int
    scale_columns: int
    k: Mapping[str, int]
    largest: float
    smallest: float
    half_ulp: float
    scale_range: tuple[float, float] | None
    support: tuple[ChipSupport, ...]
    error: DataError | None

    @property
    def bytes(self) -> int:
        """Elements and scales, without padding."""
        return self.data_bytes + self.scale_bytes

    def table(self) -> str:
        """The plan as text."""
        fmt, size = self.format, f"{self.data_bytes:,} bytes"
        scale = "none"
        if fmt.block:
            scale = f"{fmt.scale} for {fmt.block} elements along K"
            scale += ", and one f32 for the tensor" * fmt.global_scale
            size += (f" + {self.scale_bytes:,} of scales ({self.padded_scale_bytes:,} in 128x4 "
                     f"tiles, {self.scale_columns} columns of Tensor Memory)")
        span = f"{self.smallest:g} to {self.largest:g}, rounds to {100 * self.half_ulp:.3g} %"
        bits = f"{self.bits_per_element:g} in memory, {self.shared_bits} in shared memory (tcgen05)"
        rows = [
            ("element", f"{fmt.element}, {fmt.element_bits} bits: {span}"),
            ("scale", scale),
            ("bits per element", bits),
            (f"{self.rows} x {self.cols}", size),
            ("K of an instruction", ", ".join(f"{name} {k}" for name, k in self.k.items())),
        ]
        if self.error is not None:
            error = self.error
            text = (f"{100 * error.relative_rms:.3g} % relative RMS, worst {error.worst:.3g} RMS, "
                    f"{100 * error.saturated:.3g} % saturated, "
                    f"{100 * error.flushed:.3g} % flushed to zero")
            rows.append(("error on the data", text))
            if error.global_scale is not None:
                decode, encode = error.global_scale, 1 / error.global_scale
                text = f"{decode:.6g} to decode (amax / (448 x 6)), {encode:.6g} to encode"
                rows.append(("tensor's scale", text))
        chips = aligned([(row.target, row.how, row.instruction, row.unit) for row in self.support])
        return f"{fmt.name}\n{aligned(rows)}\n\n{chips}"

    def __str__(self) -> str:
        return self.table()

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON-able data."""
        return {**asdict(self), "bytes": self.bytes}


@asked
def format_plan(name: str, *, rows: int, cols: int, data: ArrayLike | None = None,
                policy: str = "rceil", targets: Sequence[str] = ()) -> FormatPlan:
    """Sizes, instructions, chips and (with `data`, any shape, blocks along the last axis) errors.

    bytes = rows x cols x element bits / 8 + rows x ceil(cols / block). Sources: OCP MX 1.0; PTX
    ISA, tcgen05; :mod:`mmalab.isa` for the chips.

    Raises:
        UsageError: unknown format or target, sizes that are not positive.
    """
    fmt = block_format(name)
    if rows < 1 or cols < 1:
        raise UsageError(f"{rows} x {cols}", "is no operand", legal="rows and columns from 1",
                         where="mmalab.plan.block_formats")
    element = formats.get(fmt.element)
    blocks = -(-cols // fmt.block) if fmt.block else 0
    scale = formats.get(fmt.scale) if fmt.block else None
    return FormatPlan(
        format=fmt, rows=rows, cols=cols, bits_per_element=fmt.bits,
        shared_bits=(kind_of(fmt.kind).container_bits if fmt.kind else 0) or element.bits,
        data_bytes=-(-rows * cols * element.bits // 8), scale_bytes=rows * blocks,
        padded_scale_bytes=padded_scales(rows, blocks) if blocks else 0,
        scale_columns=scale_columns(rows, blocks) if blocks else 0,
        k={family: k for family, (_, k) in instructions(fmt).items()},
        largest=element.max_value, smallest=element.min_subnormal,
        half_ulp=2.0 ** -(element.mantissa_bits + 1) if element.is_float else 0.5,
        scale_range=None if scale is None else (scale.min_subnormal, scale.max_value),
        support=support(fmt, targets),
        error=None if data is None else data_error(fmt, data, policy=policy),
    )
