"""Block formats: sizes, scales and their places, chips, error on data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmalab.errors import UsageError
from mmalab.plan import block_formats as plans
from mmalab.plan.scale_orders import padded_scales


@pytest.mark.parametrize(("name", "bits", "block", "k"), [
    ("mxfp4", 4.25, 32, 64), ("nvfp4", 4.5, 16, 64), ("mxfp8", 8.25, 32, 32),
    ("mxfp6", 6.25, 32, 32), ("fp8", 8, 0, 32), ("bf16", 16, 0, 16)])
def test_e07_bits_and_k(name: str, bits: float, block: int, k: int) -> None:
    """Bits per element with scales; K of one instruction (E07)."""
    found = plans.format_plan(name, rows=128, cols=256)
    assert (found.bits_per_element, found.format.block, found.k["tcgen05"]) == (bits, block, k)
    assert found.bytes == 128 * 256 * bits / 8


@pytest.mark.parametrize(("element", "scale", "block", "name"), [
    ("e2m1", "ue8m0", 32, "mxfp4"), ("e2m1", "e4m3", 16, "nvfp4"), ("e2m1", "ue4m3", 16, "nvfp4"),
    ("e2m1", "ue8m0", 16, "mxfp4_block16"), ("e4m3", "ue8m0", 32, "mxfp8"),
    ("bf16", "", 0, "bf16")])
def test_e07_names(element: str, scale: str, block: int, name: str) -> None:
    """What a format is made of names it, whatever its label says (E07)."""
    assert plans.name_of(element, scale, block) == name


def test_e07_mislabelled() -> None:
    """E2M1 with float scales for 32 is neither of the two four-bit formats (E07)."""
    with pytest.raises(UsageError, match=r"legal: .*mxfp4 \(ue8m0 for 32\).*nvfp4 \(ue4m3 for 16"):
        plans.name_of("e2m1", "e4m3", 32)


def test_e01_scale_offset() -> None:
    """Row 33, block 5 of 8: byte 533 (E01)."""
    assert plans.scale_offset(33, 5, blocks=8) == 533


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 200), st.integers(1, 12), st.sampled_from(plans.SCALE_ORDERS))
def test_e01_offsets_are_places(rows: int, blocks: int, order: str) -> None:
    """Every scale has a byte of its own inside the padded tensor (E01)."""
    at = {plans.scale_offset(row, block, blocks, order, rows=rows)
          for row in range(rows) for block in range(blocks)}
    assert len(at) == rows * blocks
    assert max(at) < padded_scales(rows, blocks, order)


@pytest.mark.parametrize("order", plans.SCALE_ORDERS)
def test_e10_the_data_tell_their_order(order: str) -> None:
    """A tensor with the test pattern is read back in the one order that it was written in (E10)."""
    rows, blocks = 256, 8
    pattern = plans.scale_test_pattern(rows, blocks)
    flat = np.full(padded_scales(rows, blocks, order), 255, np.uint8)
    for row in range(rows):
        for block in range(blocks):
            at = plans.scale_offset(row, block, blocks, order, rows=rows)
            flat[at] = pattern[row, block]
    assert plans.identify_scale_order(flat, rows, blocks) == (order,)
    assert plans.identify_scale_order(flat[::-1].copy(), rows, blocks) == ()


def test_e10_a_kernels_scales_carry_the_pattern() -> None:
    """Blocks whose amax is 2^((row + 3 block) mod 8) x 4 get those codes from every policy."""
    rows, blocks = 16, 4
    data = np.zeros((rows, blocks, 32))
    codes = plans.scale_test_pattern(rows, blocks)
    data[..., 7] = np.exp2(codes.astype(float) - 127) * 4
    for policy in ("floor", "even", "ceil"):
        scales = plans.quantise("mxfp4", data.reshape(rows, -1), policy)[1]
        assert (np.log2(scales) + 127 == codes).all()


def test_e04_floor_clips_where_ceil_does_not() -> None:
    """amax 7 in E2M1: scale 1 and 6 by the OCP rule, scale 2 and no clip by the others (E04)."""
    x = np.array([7.0] + [0.0] * 31)
    values = {p: plans.quantise("mxfp4", x, p) for p in ("floor", "even", "ceil", "rceil", "rne")}
    assert {p: float(v[1][0]) for p, v in values.items()} == {
        "floor": 1, "even": 2, "ceil": 2, "rceil": 2, "rne": 1}
    assert float(values["floor"][0][0]) == 6
    assert plans.data_error("mxfp4", x, policy="floor").saturated == 1 / 32
    assert plans.data_error("mxfp4", x, policy="ceil").saturated == 0


def test_e04_floor_clips_above_one_and_a_half() -> None:
    """Swept over [1, 2): clipped exactly where amax's mantissa exceeds 1.5 (E04)."""
    amax = 1 + np.random.default_rng().random(200)
    clipped = [plans.data_error("mxfp4", np.array([a] + [0.0] * 31), policy="floor").saturated > 0
               for a in amax]
    assert clipped == (amax > 1.5).tolist()


def test_e06_global_scale() -> None:
    """amax 10: 10 / 2688 as decode multiplier; the round trip keeps amax (E06)."""
    x = np.zeros((2, 32))
    x[1, 3] = 10
    assert plans.data_error("nvfp4", x).global_scale == pytest.approx(10 / 2688)
    values, scales, whole = plans.quantise("nvfp4", x)
    assert (scales.max(), whole) == (448, 10 / 2688)
    assert values[1, 3] == pytest.approx(10)


@pytest.mark.parametrize(("name", "low", "high"), [
    ("bf16", 0.0015, 0.0018), ("fp8", 0.025, 0.028), ("mxfp8", 0.025, 0.028),
    ("nvfp4", 0.090, 0.100), ("mxfp4", 0.110, 0.120)])
def test_errors_on_gaussian_data(name: str, low: float, high: float) -> None:
    """About 9.5 % for NVFP4, 11.5 % for MXFP4, 2.7 % for FP8, on fresh normal data."""
    x = np.random.default_rng().standard_normal((256, 1024))
    error = plans.data_error(name, x)
    assert low < error.relative_rms < high


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(plans.BLOCK_FORMATS)), st.integers(1, 70), st.integers(0, 2**32 - 1))
def test_quantised_twice_is_quantised_once(name: str, length: int, seed: int) -> None:
    """Values that a format holds stay as they are (scales of their own blocks may only shrink)."""
    x = np.random.default_rng(seed).standard_normal(length) * 4
    fmt = plans.block_format(name)
    values, _, whole = plans.quantise(name, x)
    assert values.shape == x.shape
    if not fmt.global_scale:  # the second tensor scale would differ in its last bits
        assert (plans.quantise(name, values, "rceil")[0] == values).all()
    else:
        assert whole is not None


@pytest.mark.parametrize(("name", "target", "how"), [
    ("nvfp4", "sm_90a", "weight-only"), ("nvfp4", "sm_120a", "native"),   # N01
    ("fp8", "sm_86", "weight-only"), ("fp8", "sm_89", "native"), ("s4", "sm_90a", "emulated"),
    ("s4", "sm_80", "native"), ("s4", "sm_89", "native"), ("s4", "sm_100a", "emulated"),  # M01
    ("s4", "sm_120a", "emulated"), ("f16", "sm_75", "native"), ("bf16", "sm_75", "weight-only"),
    ("nvfp4", "sm_120", "weight-only"), ("mxfp8", "sm_100a", "native"),
])
def test_n01_m01_native_emulated_or_neither(name: str, target: str, how: str) -> None:
    """Storage, conversion and multiplication are three things (N01, M01)."""
    assert plans.support(name, [target])[0].how == how


@pytest.mark.parametrize(("name", "target", "unit"), [
    ("nvfp4", "sm_120a", "OMMA.SF"), ("mxfp8", "sm_120a", "QMMA.SF"), ("fp8", "sm_120a", "QMMA"),
    ("fp8", "sm_90a", "QGMMA"), ("bf16", "sm_90a", "HGMMA"), ("bf16", "sm_89", "HMMA"),
    ("f16", "sm_100a", "UTCHMMA"), ("fp8", "sm_100a", "UTCQMMA"), ("s8", "sm_100a", "UTCIMMA"),
    ("nvfp4", "sm_100a", "UTCOMMA"), ("s8", "sm_80", "IMMA")])
def test_m03_which_opcode_to_look_for(name: str, target: str, unit: str) -> None:
    """The unit whose absence in the machine code means a fallback (M03)."""
    assert plans.support(name, [target])[0].unit == unit


def test_n03_six_bits_take_a_byte() -> None:
    """FP6 and FP4 under kind::f8f6f4 have no smaller tile in shared memory than FP8 (N03)."""
    shared = {name: plans.format_plan(name, rows=128, cols=128).shared_bits
              for name in ("fp8", "fp6", "fp4", "mxfp6", "mxfp4", "nvfp4")}
    assert shared == {"fp8": 8, "fp6": 8, "fp4": 8, "mxfp6": 8, "mxfp4": 4, "nvfp4": 4}


def test_wrong_use() -> None:
    """Unknown names, no data, data with NaN, orders and places that are none."""
    with pytest.raises(UsageError, match=r"legal: .*nvfp4"):
        plans.block_format("nvpf4")
    with pytest.raises(UsageError, match="is no operand"):
        plans.format_plan("bf16", rows=0, cols=1)
    for data in ([], [np.nan], [np.inf]):
        with pytest.raises(UsageError, match="has no element, or NaN"):
            plans.quantise("bf16", np.array(data))
    with pytest.raises(UsageError, match="is not known"):
        plans.scale_offset(0, 0, 4, "4x4")
    with pytest.raises(UsageError, match="is outside of"):
        plans.scale_offset(0, 4, 4)
    with pytest.raises(UsageError, match="need the number of rows"):
        plans.scale_offset(0, 0, 4, "column-major")
    with pytest.raises(UsageError, match="scale policy"):
        plans.quantise("mxfp4", np.ones(32), "nearest")
