"""Small kernels of all kinds that a ring feeds, with operands; each takes the emulator a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab import formats
from mmalab.kernels import sm80_mma, sm90_wgmma
from mmalab.kernels.sm90_wgmma import Plan
from mmalab.ptx.kernel import Kernel

__all__ = ["KERNELS", "operands", "unwritten"]

#: Bits of an element that is no result.
UNWRITTEN = 0x7FFF


def _mma(m: int, n: int, k: int, **choices: Any) -> Callable[[], Kernel]:
    return lambda: sm80_mma.gemm(m, n, k, copy="tma", **choices)


def _wgmma(n: int, k: int, *, plan: dict[str, Any], **choices: Any) -> Callable[[], Kernel]:
    return lambda: sm90_wgmma.gemm(512, n, k, plan=Plan(sms=2, **plan), **choices)


_SHIFTED = {"tile": (256, 192), "stages": 4, "copy": "shifted", "flight": 0}
#: By name; 2 or 4 CTAs each, several tiles a CTA.
KERNELS: dict[str, Callable[[], Kernel]] = {
    "mma": _mma(512, 256, 512, stages=4, sms=2),
    "mma one slice": _mma(512, 384, 64, sms=4),
    "mma even": _mma(512, 384, 1024, sms=4, waves="even"),
    "wgmma": _wgmma(512, 512, plan={"cluster": (2, 1)}),
    "wgmma staged": _wgmma(512, 512, plan={"store": "staged", "stages": 3, "panels": 2}, out="f32"),
    "wgmma pingpong": _wgmma(384, 512, plan={"tile": (128, 192), "stages": 5, "store": "staged",
                                             "schedule": "pingpong", "panels": 1}),
    "wgmma promoted": _wgmma(512, 512, plan={"part": 128}, dtype="e4m3", promote_every=128),
    "wgmma shifted": _wgmma(384, 516, plan=_SHIFTED),
    "wgmma shifted, a slice more": _wgmma(384, 510, plan=_SHIFTED),
    "wgmma loaded": _wgmma(384, 516, plan={**_SHIFTED, "left": "registers"}),
    "wgmma padded": _wgmma(384, 516, plan={**_SHIFTED, "copy": "padded"}),
    "wgmma threads": _wgmma(384, 516, plan={"tile": (128, 192), "copy": "threads",
                                            "store": "direct"}),
}


def operands(kernel: Kernel, seed: int = 1) -> list[Any]:
    """Random A and B, and a C of ones that nobody has written."""
    rng = np.random.default_rng(seed)
    return [np.full(param.shape, UNWRITTEN, f"u{formats.dtype_of(param.dtype).itemsize}").view(
                formats.dtype_of(param.dtype)) if param.name == "c" else
            rng.standard_normal(param.shape, np.float32).astype(formats.dtype_of(param.dtype))
            for param in kernel.params if param.name != "trace"]


def unwritten(c: NDArray[Any]) -> int:
    """How many elements of C are as they were."""
    return int((c.view(f"u{c.itemsize}") == UNWRITTEN).sum())
