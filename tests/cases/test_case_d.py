"""D: numbers that differ: accumulators, promotion, TF32, plateaus."""

from __future__ import annotations

import numpy as np
import pytest

from mmalab import isa, numerics
from mmalab.formats import decode, encode
from mmalab.numerics.plateau import plateau


def test_d01_the_false_control(ask) -> None:
    """D01: one tester saw no loss: by mma.sync, which on Hopper is conversions and F16 products."""
    fair = ask("numerics", "probe", "--unit", "sm_90.wgmma.e4m3.f32")
    control = ask("numerics", "probe", "--unit", "sm_90.mma.e4m3.f32")
    assert "14 bits" in fair.text
    assert "24 bits" in control.text
    told = ask("explain", "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32").text
    assert "native, QMMA (assembled): sm_89 sm_120" in told
    assert "emulated, F2FP + HMMA (assembled): sm_90 sm_100" in told


def test_d02_promotion() -> None:
    """D02: one-signed data, with sums promoted every 128 and never: the error grows with K."""
    rng = np.random.default_rng()
    rows = {}
    for depth in (512, 8192):
        a, b = (encode(rng.uniform(0.5, 1, (16, depth)), "e4m3") for _ in range(2))
        true = (decode(a, "e4m3").astype(np.float64) @ decode(b, "e4m3").astype(np.float64).T)
        for every in (None, 128):
            found = numerics.matmul(a, b.T, np.zeros((16, 16), np.uint32), raw=True,
                                    unit="sm_90.wgmma.e4m3.f32", promote_every=every)
            rows[depth, every] = float(np.abs(found.view(np.float32) / true - 1).max())
    assert rows[8192, None] > 4 * rows[8192, 128]
    assert rows[8192, None] > 2 * rows[512, None]


def test_d04_tf32() -> None:
    """D04: 1024.5 is a tie: 1025 by cvt.rna, 1024 by truncation, which is biased."""
    assert [float(decode(encode(np.array([1024.5]), "tf32", mode), "tf32")[0])
            for mode in ("rna", "rz")] == [1025, 1024]
    values = np.random.default_rng().uniform(1, 2, 20_000).astype(np.float32).astype(np.float64)
    bias = {mode: float((decode(encode(values, "tf32", mode), "tf32") / values - 1).mean())
            for mode in ("rna", "rz")}
    assert -4.0e-4 < bias["rz"] < -2.8e-4
    assert abs(bias["rna"]) < 3e-5


def test_d05_plateau() -> None:
    """D05: half the spacing of 8192 is more than 2.24, the spacing of 4096 is, too."""
    nearest, cut = (plateau(2.24023, "f16", mode) for mode in ("rn", "rz"))
    assert (nearest.total, cut.total) == (8192, 4096)
    assert np.float16(8192) + np.float16(2.24023) == 8192
    assert plateau(1, "bf16").total == 256


@pytest.mark.parametrize("words", [["0"], ["-1"], ["1e-6", "--dtype", "f32"],
                                   ["1", "--dtype", "f17"]])
def test_d05_what_is_no_growing_sum(ask, words: list[str]) -> None:
    said = ask("numerics", "plateau", *words[1:], "--", words[0])
    assert said.code == 2
    assert "legal" in said.text


def test_d07_no_bf16_sums() -> None:
    """D07: a description blames a bf16-accumulating instruction; there is none."""
    for opcode in ("wgmma.mma_async.sync.aligned.m64n8k16.bf16.bf16.bf16",
                   "mma.sync.aligned.m16n8k16.row.col.bf16.bf16.bf16.bf16"):
        verdict = isa.legal(opcode, "sm_90a")
        assert (verdict.legal, verdict.rule) == (False, "opcode")
        assert "no tensor core instruction accumulates in bf16" in verdict.instead
    assert isa.legal("wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16", "sm_90a")


def test_d08_fp4_probe() -> None:
    """D08: f32 sums and ue4m3 scales; the width is published, and says so."""
    unit = numerics.unit("sm_120.mma.mxf4nvf4.f32")
    assert unit.confidence != "measured"


def test_d10_rate_and_error(ask) -> None:
    """D10: 31.0 and 53.1 T of an RTX 4060 against both of its rates; and what f16 sums lose."""
    words = ["plan", "rates", "--dtype", "f16", "--on", "RTX 4060 Laptop", "--json"]
    shares = {acc: ask(*words, "--measured", measured, "--acc", acc, "--clock", 2600).json["share"]
              for acc, measured in (("f32", 31.0), ("f16", 53.1))}
    assert shares["f32"] == pytest.approx(2 * 31.0 / 53.1 * shares["f16"])
    a = np.random.default_rng().uniform(0.5, 1, (8, 4096)).astype(np.float16)
    ones = np.ones_like(a)
    true = a.astype(np.float64).sum(axis=1)
    error = {acc: float(np.abs(numerics.dot(a, ones, np.zeros(8, acc), unit=name) / true - 1).max())
             for acc, name in ((np.float32, "sm_89.mma.f16.f32"),
                               (np.float16, "sm_89.mma.f16.f16"))}
    assert error[np.float16] > 100 * error[np.float32]
