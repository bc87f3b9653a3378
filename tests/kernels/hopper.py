"""Helper of the wgmma tests: a run on the CPU, compared with the reference bit for bit.

    multiplied(gemm(130, 144, 208))           # fresh values; prints the seed
"""

from __future__ import annotations

from typing import Any

import numpy as np
from products import arguments, differing

import mmalab


def multiplied(kernel: Any, mix: str = "normal", **options: Any) -> Any:
    """The Run of a kernel whose output holds the reference's bits."""
    args = [np.ascontiguousarray(a) for a in arguments(kernel, mix)]
    run = mmalab.emulate(kernel, args, target="sm_90a", **options)
    assert differing(kernel, args, "sm_90") == 0
    return run
