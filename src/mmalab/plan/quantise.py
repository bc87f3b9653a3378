"""What a number format does to one's own data: quantise, decode, compare.

    >>> x = np.array([7.0] + [0.1] * 31)
    >>> [float(quantise("mxfp4", x, policy)[0][0]) for policy in ("floor", "rceil")]
    [6.0, 8.0]

(amax 7 is above E2M1's 6: the OCP rule keeps scale 1 and clips to 6; NVIDIA's takes scale 2, and
7 / 2 = 3.5 is a tie that goes to 4.) Blocks lie along the last axis. NVFP4 has two levels: a scale
of the tensor, amax / (448 * 6), and a UE4M3 scale of each block, amax_block / 6 / that, rounded to
nearest. Elements are rounded to nearest even and saturate.

Source: OCP MX 1.0; PTX ISA, cvt; TransformerEngine's and torchao's NVFP4 recipes (equal in real
arithmetic; the last bits of their scales can differ).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmalab import formats
from mmalab.errors import UsageError
from mmalab.formats.scales import Policy
from mmalab.plan.block_format_table import BlockFormat, block_format

__all__ = ["DataError", "data_error", "quantise"]

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DataError:
    """Quantisation of one array: relative RMS error, largest error / RMS of the data, share of
    saturated and of flushed-to-zero elements, and the tensor's scale where there is one."""

    elements: int
    relative_rms: float
    worst: float
    saturated: float
    flushed: float
    global_scale: float | None

    def as_dict(self) -> dict[str, Any]:
        """The errors as JSON-able data."""
        return asdict(self)


def quantise(name: str | BlockFormat, data: ArrayLike, policy: str = "rceil"
             ) -> tuple[Array, Array, float | None]:
    """The values that `data` become, the scale of every block, and the tensor's scale.

    Values have the shape of `data`; scales (..., blocks), with all of them 1 for formats without
    block scales. `policy` is how an E8M0 scale is rounded (:mod:`mmalab.formats.scales`).

    Raises:
        UsageError: no number at all, NaN or infinity in the data, an unknown format or policy.
    """
    fmt = block_format(name) if isinstance(name, str) else name
    x = np.atleast_1d(np.asarray(data, np.float64))
    if not x.size or not np.isfinite(x).all():
        raise UsageError(f"data of shape {x.shape}", "has no element, or NaN or infinity",
                         legal="finite numbers", where="mmalab.plan.quantise")
    if not fmt.block:
        values = formats.decode(formats.encode(x, fmt.element, saturate=True), fmt.element)
        return np.asarray(values, np.float64), np.ones((*x.shape[:-1], 1)), None
    blocks = _blocks(x, fmt.block)
    amax = np.abs(blocks).max(axis=-1)
    scales, whole = _scales(fmt, amax, policy)
    effective = scales * (whole or 1.0)
    safe = np.where(effective == 0, 1.0, effective)[..., None]
    words = formats.encode(np.where(effective[..., None] == 0, 0.0, blocks / safe), fmt.element)
    values = formats.decode(words, fmt.element) * effective[..., None]
    return values.reshape(*x.shape[:-1], -1)[..., : x.shape[-1]], scales, whole


def _blocks(x: Array, block: int) -> Array:
    rest = -x.shape[-1] % block
    padded = np.concatenate([x, np.zeros((*x.shape[:-1], rest))], axis=-1) if rest else x
    return padded.reshape(*x.shape[:-1], -1, block)


def _scales(fmt: BlockFormat, amax: Array, policy: str) -> tuple[Array, float | None]:
    if fmt.scale == "ue8m0":
        codes = formats.e8m0_scale(amax, fmt.element, cast("Policy", policy))
        return np.asarray(formats.decode(codes, "ue8m0"), np.float64), None
    largest = formats.get(fmt.element).max_value
    whole = float(amax.max()) / (largest * formats.get(fmt.scale).max_value) or 1.0
    words = formats.encode(amax / largest / whole, fmt.scale)
    return np.asarray(formats.decode(words, fmt.scale), np.float64), whole


def data_error(name: str | BlockFormat, data: ArrayLike, *, policy: str = "rceil") -> DataError:
    """What quantising `data` to the format costs; blocks lie along the last axis.

    relative_rms = rms(q - x) / rms(x); an element is saturated when it is larger than what its
    block can hold, flushed when it is not 0 and became 0.

    Raises:
        UsageError: as :func:`quantise`.
    """
    fmt = block_format(name) if isinstance(name, str) else name
    try:
        x = np.atleast_1d(np.asarray(data, np.float64))
    except (TypeError, ValueError):
        raise UsageError(f"data of type {type(data).__name__}", "are no array of numbers",
                         legal="an array of rows of K", where="mmalab.plan.block_formats") from None
    values, scales, whole = quantise(fmt, x, policy)
    rms = float(np.sqrt(np.mean(x**2))) or 1.0
    limit = formats.get(fmt.element).max_value * scales * (whole or 1.0)
    if fmt.block:
        limit = np.repeat(limit, fmt.block, axis=-1)[..., : x.shape[-1]]
    return DataError(
        elements=x.size,
        relative_rms=float(np.sqrt(np.mean((values - x) ** 2))) / rms,
        worst=float(np.abs(values - x).max()) / rms,
        saturated=float(np.mean(np.abs(x) > limit)),
        flushed=float(np.mean((values == 0) & (x != 0))),
        global_scale=whole,
    )
