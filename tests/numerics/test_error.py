"""Error figures and probes: what was measured on an H200, predicted here."""

from __future__ import annotations

import numpy as np
import pytest
from adversarial import fresh, operands

from mmalab import numerics
from mmalab.errors import UsageError


@pytest.mark.parametrize(("unit", "promote", "measured"), [
    ("sm_90.mma.bf16.f32", None, 4.02e-6),
    ("sm_90.wgmma.f16.f32", None, 4.88e-6),
    ("sm_90.wgmma.f16.f16", None, 2.363e-3),
    ("sm_90.wgmma.tf32.f32", None, 9.65e-6),
    ("sm_90.wgmma.e4m3.f32", None, 1.191e-3),
    ("sm_90.wgmma.e4m3.f32", 128, 1.039e-4),
    ("sm_90.wgmma.e4m3.f32", 64, 6.20e-5),
    ("sm_90.wgmma.e5m2.f32", None, 7.21e-4),
])
def test_chains_err_as_measured(unit, promote, measured):
    """K = 4096, uniform [-1, 1): within 3 % of the H200's relative RMS (128 x 128 outputs)."""
    error = numerics.chain_error(unit, 4096, promote_every=promote)
    assert error.from_sums == pytest.approx(measured, rel=0.03)


def test_truncation_shrinks_positive_sums():
    """Uniform [0, 1) in FP8 with fast accumulation comes out 6.6 % low."""
    assert numerics.chain_error("sm_90.wgmma.e4m3.f32", 4096, low=0.0).bias == pytest.approx(
        -0.066, abs=0.002)


@pytest.mark.parametrize(("unit", "exponent"), [
    ("sm_90.wgmma.bf16.f32", 23), ("sm_90.wgmma.e4m3.f32", 13), ("sm_89.mma.e5m2.f32", 13),
    ("sm_90.mma.e4m3.f32", 23), ("sm_100.tcgen05.e4m3.f32", 23), ("sm_90.mma.f16.f16", 10),
    ("sm_100.tcgen05.mxf4nvf4.f32", 23),
])
def test_probe_reads_the_accumulator(unit, exponent):
    """The largest e whose 2^e + 1 keeps the 1."""
    found = numerics.probe(unit)
    assert (found.exponent, found.bits) == (exponent, exponent + 1)
    assert found.lost == f"{2 ** (exponent + 1)} + 1 = {2 ** (exponent + 1)}"


def test_probe_is_for_floating_accumulators():
    """Integers are exact; asking is an error."""
    with pytest.raises(UsageError, match="is for f32 and f16 accumulators"):
        numerics.probe("sm_90.mma.s8.s32")


def test_identify_names_the_generation():
    """Outputs of an Ampere unit are explained by Ampere units alone."""
    unit, rng = numerics.unit("sm_80.mma.bf16.f32"), fresh()
    a, b, c = operands(unit, 64, 1, 16, "normal", rng)
    d = numerics.matmul(a, b, c, unit=unit, raw=True)[:, 0]
    shares = numerics.identify(a, np.repeat(b.T, 64, axis=0), c[:, 0], d, a_type="bf16",
                               b_type="bf16", acc="f32")
    explained = {name.split(".")[0] for name, share in shares.items() if share == 1}
    assert explained == {"sm_80", "sm_86", "sm_87", "sm_88", "sm_89"}
    assert next(iter(shares.values())) == 1


def test_figures_by_hand():
    """relative_rms and backward_error on numbers that one can check."""
    reference = np.array([[3.0, 4.0]])
    off = reference + np.array([[0.5, 0.0]])
    assert numerics.relative_rms(off, reference) == pytest.approx(0.1)
    a, b = np.array([[1.0, -1.0]]), np.array([[2.0], [1.0]])
    assert numerics.backward_error(np.array([[1.3]]), a, b) == pytest.approx(0.1)
    assert numerics.backward_error(np.zeros((1, 1)), 0 * a, b) == 0
