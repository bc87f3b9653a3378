"""Bytes per FLOP, the invariance over formats, data-sheet identities, plausibility."""

from __future__ import annotations

import pytest

from mmalab.errors import UsageError
from mmalab.isa import Evidence
from mmalab.plan import chips, rates, traffic


@pytest.mark.parametrize(("dtype", "k", "accumulator", "operands"), [
    ("f16", 16, 0.25, 0.01171875), ("e4m3", 32, 0.125, 0.005859375),
    ("e2m1", 64, 0.0625, 0.0029296875)])
def test_article_b_traffic(dtype: str, k: int, accumulator: float, operands: float) -> None:
    """4 / K and (M + N) b / (2 M N) for m128n256; 562.5 and 26.4 TB/s in every format."""
    found = traffic.traffic(128, 256, dtype)
    assert (found.k, found.accumulator, found.operands) == (k, accumulator, operands)
    assert found.accumulator_tb_s == pytest.approx(562.5)
    assert found.operand_tb_s == pytest.approx(26.367, abs=1e-3)
    assert found.ratio == pytest.approx(21.333, abs=1e-3)
    assert found.to_hbm == pytest.approx(70.3, abs=0.05)
    assert found.accumulator_per_sm_tb_s == pytest.approx(3.80, abs=0.005)
    assert found.evidence is Evidence.INFERRED


def test_the_same_model_on_hopper() -> None:
    """1,024 bytes per clock and SM, 1.87 TB/s: half of Blackwell, out of registers."""
    found = traffic.traffic(64, 256, "bf16", on="H100")
    assert found.accumulator_per_clock == 1024
    assert found.accumulator_per_sm_tb_s == pytest.approx(1.87, abs=0.005)


def test_a_pair_shares_b() -> None:
    """m256n256 over two SMs reads two thirds of the bytes per FLOP of m128n256."""
    alone, pair = traffic.traffic(128, 256, "f16"), traffic.traffic(256, 256, "f16", cta_group=2)
    assert pair.operands / alone.operands == pytest.approx(2 / 3)
    assert pair.accumulator == alone.accumulator


def test_the_model_is_an_upper_bound() -> None:
    """An accumulator that stays in the unit moves nothing."""
    assert traffic.traffic(128, 256, "f16", passes=0).accumulator == 0
    assert traffic.traffic(128, 256, "f16", k=64).accumulator == 0.0625


@pytest.mark.parametrize("on", ["B200", "B300", "H200", "A100", "RTX 5090"])
def test_invariance_holds_wherever_the_rate_follows_k(on: str) -> None:
    """Accumulator bytes per second are one number; where bits x K is not 256 it is said."""
    found = traffic.invariance(on=on)
    if on != "RTX 5090":  # its FP4 rate is four times FP8's with f32 sums, K only twice
        assert all(row.holds for row in found)
    odd = {row.name for row in found if not row.rule}
    expected = {"B200": {"e3m2 (f8f6f4)", "e2m1 (f8f6f4)"},
                "B300": {"e3m2 (f8f6f4)", "e2m1 (f8f6f4)", "e2m1 (mxf4)"}}
    assert odd == expected.get(on, set())


@pytest.mark.parametrize("row", rates.identities(), ids=lambda row: f"{row.chip}-{row.dtype}")
def test_every_data_sheet_row_is_a_product(row: rates.Identity) -> None:
    """SMs x rate x clock is the published dense figure within 1 %; sparse is twice the dense."""
    assert row.ratio == pytest.approx(1, abs=0.01)
    if (row.chip, row.dtype) == ("B300", "e2m1"):
        assert row.sparse_factor == pytest.approx(4 / 3)
    elif row.sparse_factor is not None:
        assert row.sparse_factor == pytest.approx(2, rel=0.01)


def test_article_b_identities() -> None:
    """V100 to B200: 1,024, 2,048, 4,096, 8,192 per clock; 256, 128, 64, 32 bytes of registers."""
    names = ("V100", "A100", "H100", "B200")
    assert [chips.chip(name).rate("f16").per_clock for name in names] == [1024, 2048, 4096, 8192]
    assert [rates.register_file_ratio(name) for name in names] == [256, 128, 64, 32]
    a100, b200 = rates.identities("A100")[0], rates.identities("B200")[0]
    assert a100.computed == pytest.approx(311.87, abs=0.01)
    assert b200.implied_clock == pytest.approx(1855.8, abs=0.1)
    assert b200.evidence is Evidence.INFERRED


@pytest.mark.parametrize(("figure", "dtype", "acc", "on", "clock", "verdict", "per_clock"), [
    (1956, "f16", "f16", "RTX 5090", 2850, "implausible", 4037),      # G02
    (253.0, "f16", "f32", "RTX 5090", 2850, "plausible", 522),
    (2019, "e2m1", "f32", "RTX 5090", 2850, "plausible", 4167),
    (518.6, "f16", "f32", "H100", 1830, "plausible", 2147),
    (1978.9, "f16", "f32", "H100", None, "sparse or double counted", 8192),
])
def test_g02_plausibility(figure: float, dtype: str, acc: str, on: str, clock: float | None,
                          verdict: str, per_clock: int) -> None:
    """A measured figure as operations per SM and clock against the chip's rate (G02)."""
    found = rates.plausible(figure, dtype, on, acc, clock=clock)
    assert found.verdict == verdict
    assert found.per_clock == pytest.approx(per_clock, abs=1)


def test_g02_share_of_the_h100() -> None:
    """518.6 TFLOPS are 52 % of an H100 (G02)."""
    assert rates.plausible(518.6, "f16", "H100").share == pytest.approx(0.524, abs=0.001)


def test_g06_what_a_pipe_counter_ought_to_show() -> None:
    """Busy clocks from instructions and types; article A's slice keeps Ada busy for 256 clocks."""
    assert rates.tensor_clocks(1, 4096, "bf16", "RTX 4060 Laptop") == 8
    assert rates.tensor_clocks(32, 4096, "bf16", "RTX 4060 Laptop") == 256
    assert rates.tensor_clocks(1, 2 * 64 * 256 * 16, "bf16", "H200") == 128
    # BF16 sums in f32 at half of the FP16 rate: 97 % of its own peak reads as 48.6 %.
    bf16, f16 = (rates.tensor_clocks(1000, 4096, "f16", "RTX 4090", acc) for acc in ("f32", "f16"))
    assert bf16 == 2 * f16


def test_chips_are_found_by_name_and_target() -> None:
    """Names in any spelling; a target means its usual product."""
    assert chips.chip("rtx5090") is chips.chip("5090") is chips.chip("sm_120a")
    assert chips.chip("h100 sxm") is chips.CHIPS["H100 SXM"]
    assert chips.chip_of("sm_90a").name == "H200"
    with pytest.raises(UsageError, match=r"legal: .*B200"):
        chips.chip("B250")
    with pytest.raises(UsageError, match="has no product"):
        chips.chip_of("sm_107a")
    with pytest.raises(UsageError, match="no tensor rate"):
        chips.chip("V100").rate("e4m3")


@pytest.mark.parametrize("row", chips.CHIPS.values(), ids=lambda row: row.name)
def test_every_value_has_a_source(row: chips.Chip) -> None:
    """No number without its unit, its source and its evidence; types of one width share a rate."""
    for figure in (row.sms, row.clock, row.memory, row.bandwidth, row.l2, row.power):
        assert figure is not None
        assert figure > 0
        assert figure.unit
        assert figure.source
        assert figure.as_dict()["evidence"] in {"documented", "measured", "inferred"}
    assert row.as_dict()["rates"]
    if any(rate.dtype == "e4m3" for rate in row.rates):
        assert row.rate("e5m2") == row.rate("e4m3")


def test_wrong_use() -> None:
    """Figures and tiles that are none."""
    with pytest.raises(UsageError, match="not positive"):
        rates.plausible(0, "f16", "H100")
    with pytest.raises(UsageError, match="is no tile"):
        traffic.traffic(0, 256, "f16")
    assert rates.peak("A100", "f16", sparse=True) == 2 * rates.peak("A100", "f16")
    assert rates.published_peak("RTX 4060 Laptop", "f16") == rates.peak("RTX 4060 Laptop", "f16")
