"""Descriptors that are legal words and name other bytes than the operand's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from wgmma_cases import Setup, arguments, dense

import mmalab
from mmalab.descriptors import WGMMA

FORM = "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"
B_AT = 16384
#: Where the kernel's image begins in shared memory.
BASE = 0x400


def setup(form: str = FORM, n: int = 64, swizzle: str = "128B", major: str = "K",
          sparse: bool = False) -> Setup:
    """A product whose operands lie in tiles without gaps."""
    a = dense("K", "128B", 0, 64, 16, 16)
    b = dense(major, swizzle, B_AT, n, 32 if sparse else 16, 16)
    return Setup(form, a, b, 2 * B_AT, {"selector": 1} if sparse else {})


def placed(case: Setup) -> int:
    """The descriptor of B in the kernel."""
    return case.b.word + (BASE >> 4)


def run(case: Setup, **options: Any) -> mmalab.Run:
    """One product of normal numbers."""
    rng = np.random.default_rng()
    return mmalab.emulate(case.kernel(1), arguments(case, 1, rng, "normal"), **options)


@pytest.mark.parametrize(("lbo", "sbo", "pair"), [
    (16, 512, "B[0][4] and B[0][8]"),
    (16, 0, "B[0][0] and B[0][8]"),
    (1024, 16, "B[8][0] and B[0][8]"),
    (16, 896, "B[0][7] and B[0][8]"),
])
@pytest.mark.parametrize("sanitize", [False, True])
def test_strides_that_overlap(lbo: int, sbo: int, pair: str, sanitize: bool) -> None:
    """SBO too small, none, swapped with LBO: which elements meet, and the word that fits."""
    case = setup()
    fits, case.b.lbo, case.b.sbo = placed(case), lbo, sbo
    [finding] = [f for f in run(case, sanitize=sanitize).findings
                 if f.code == "descriptor-mismatch"]
    assert finding.severity == "warning"
    assert f"operand b of {FORM} has {pair} at one address" in finding.message
    assert f"SBO {sbo}, swizzle 128B; see mmalab descriptor smem {placed(case):#x}" in (
        finding.message)
    assert finding.message.endswith(
        f"LBO 16 and SBO 1024 bytes (fields 1 and 64): {fits:#x}")


@pytest.mark.parametrize("case", [
    setup(),
    setup(FORM.replace("n64", "n8"), 8),
    setup(swizzle="none"),
    setup(swizzle="64B", major="MN"),
    setup(swizzle="none", major="MN"),
    setup("wgmma.mma_async.sp.sync.aligned.m64n64k32.f32.bf16.bf16", swizzle="32B", sparse=True),
    setup("wgmma.mma_async.sp.sync.aligned.m64n64k32.f32.bf16.bf16", sparse=True),
], ids=["K", "8 columns", "K, none", "MN", "MN, none", "sparse in 32B", "sparse"])
def test_right_strides(case: Setup) -> None:
    """Tiles without gaps; SBO does not matter where there are 8 rows."""
    if case.key.endswith("n8k16.f32.bf16.bf16"):
        case.b.sbo = 0
    assert not [f for f in run(case).findings if f.code == "descriptor-mismatch"]


def test_an_address_that_was_not_shifted() -> None:
    """The start field holds 16 bytes each; the operand lies outside then, and why is told."""
    case, at = setup(), 0x3400
    case.b.start = 16 * at - BASE
    [finding] = run(case).findings
    assert finding.code == "out-of-bounds"
    assert finding.message.endswith("Repair: the start field holds the address "
                                    f"{at:#x} itself: address >> 4 belongs there")
    assert WGMMA.read(finding.witness["descriptor"]).start == 16 * at


def test_an_operand_outside_that_a_smaller_stride_brings_back() -> None:
    """SBO for another tile: the operand ends behind the CTA's memory."""
    case = setup()
    fits, case.b.sbo = placed(case), 8192
    [finding] = run(case).findings
    assert finding.code == "out-of-bounds"
    assert finding.message.endswith(f"SBO 1024 bytes (fields 1 and 64): {fits:#x}")
