"""Helpers of the wgmma tests: a run on the CPU, compared with the reference bit for bit.

    multiplied(gemm(130, 144, 208))           # fresh values; prints the seed
    found_in(kernel, r"    bar\\.sync 0;\\n", "")   # codes of the findings once the text is changed
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from products import arguments, emulated

import mmalab


def multiplied(kernel: Any, mix: str = "normal", **options: Any) -> Any:
    """The Run of a kernel whose output holds the reference's bits."""
    return emulated(kernel, "sm_90", mix, **options)


def right_and_clean(kernel: Any, copy: str) -> None:
    """The reference's bits, exactly, and nothing to find; rows are read by `copy`."""
    run = multiplied(kernel)
    assert run.findings == []
    assert set(run.fidelity.values()) == {"exact"}
    assert list(mmalab.check(kernel)) == []
    assert kernel.facts["copy"] == copy


def found_in(kernel: Any, old: str, new: str) -> set[str]:
    """What the sanitizer finds where each match of `old` in the kernel's text is `new` instead."""
    text, count = re.subn(old, new, kernel.ptx)
    assert count
    run = mmalab.emulate(replace(kernel, ptx=text), arguments(kernel), target="sm_90a")
    return {finding.code for finding in run.findings}
