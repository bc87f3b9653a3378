"""Dot products recorded on eight chips by others, and mma.sync forms recorded on an H200."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mmalab import formats, isa, numerics
from mmalab.numerics import fragment_mma, unit_for
from mmalab.numerics.reference import multiply

CHIPS = {"V100": "sm_70", "A100": "sm_80", "A2": "sm_86", "Ada": "sm_89", "L40S": "sm_89",
         "H100": "sm_90", "H200": "sm_90", "B200": "sm_100"}
TYPES = {"fp16": "f16", "bf16": "bf16", "tf32": "tf32", "E4M3": "e4m3", "E5M2": "e5m2"}


def _unit(chip, kind, out):
    # FP8 with FP32 results of H100 and H200 was recorded with wgmma, and without c.
    wgmma = chip in ("H100", "H200") and kind[0] == "E" and out == "fp32"
    return numerics.unit(f"{CHIPS[chip]}.{'wgmma' if wgmma else 'mma'}.{TYPES[kind]}."
                         f"{'f32' if out == 'fp32' else 'f16'}"), wgmma


@pytest.mark.shared
def test_every_recorded_dot_product_is_reproduced(shared):
    """All 2,500 outputs of each chip, type and output type, to the bit."""
    table = np.load(shared / "vectors" / "recorded_dot_products.npz")
    print()
    wrong = cells = 0
    for key in [key for key in table.files if ".d." in key]:
        chip, kind, _, out = key.split(".")
        unit, no_c = _unit(chip, kind, out)
        values = [table[f"{chip}.{kind}.{name}"].view(np.float32) for name in "abc"]
        a, b = (formats.encode(v, t) for v, t in zip(values, (unit.a, unit.b), strict=False))
        c = formats.encode(values[2] * (not no_c), unit.acc)
        k = max(size for size, _ in unit.splits if size <= a.shape[1])
        got = multiply(unit, a[:, None, :], b[:, :, None], c[:, None, None], k=k)[:, 0, 0]
        want = formats.encode(table[key].view(np.float32), unit.acc)
        right = int((got == want).sum())
        print(f"{key:20} {unit.name:24} {right} of {len(want)}")
        wrong, cells = wrong + len(want) - right, cells + 1
    assert (wrong, cells) == (0, 48)


RECORDED = Path(__file__).parent / "recorded"


def _recorded_forms():
    return json.loads((RECORDED / "h200_mma.json").read_text())["forms"]


@pytest.mark.parametrize("entry", _recorded_forms(), ids=lambda e: f"{e['name']}:{e['key']}")
def test_every_mma_form_of_an_h200(entry):
    """Registers in, registers out: each dense and sparse form gives the chip's bits."""
    form = isa.find(entry["key"])
    unit = unit_for("sm_90", form.family, form.modifiers)
    with np.load(RECORDED / "h200_mma.npz") as table:
        a, b, c, e, d = (table[f"{entry['name']}.{x}"] for x in "abced")
    sparse = {} if form.sparsity is None else {"metadata": e, "selector": entry["selector"]}
    np.testing.assert_array_equal(fragment_mma(unit, form, a, b, c, **sparse), d)
