"""Which plan the rule picks, and what plans and problems refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from mmalab.errors import UsageError
from mmalab.kernels import ladder
from mmalab.kernels.bands import rows_of
from mmalab.kernels.sm90_wgmma import Plan, gemm
from mmalab.kernels.sm90_wgmma.choose import clocks
from mmalab.kernels.sm90_wgmma.plan import MOST_SHARED
from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.kernels.sm90_wgmma.recipe import recipe

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("sizes", "given", "tile", "schedule"), [
    ((8192, 8192, 8192), {}, (256, 208), "cooperative"),
    ((4096, 4096, 4096), {}, (128, 256), "cooperative"),
    ((8192, 8192, 1024), {}, (128, 192), "pingpong"),
    ((4096, 576, 7168), {}, (128, 144), "pingpong"),
    ((4096, 57344, 8192), {}, (256, 208), "cooperative"),
    ((8192, 8192, 8192), {"dtype": "tf32"}, (256, 208), "cooperative"),
    ((8192, 8192, 8192), {"dtype": "e4m3", "promote_every": 128}, (128, 192), "cooperative"),
    ((4096, 4096, 4096), {"dtype": "e4m3", "promote_every": 128}, (128, 256), "cooperative"),
    ((8192, 8192, 4092), {}, (256, 192), "cooperative"),
    ((512, 512, 512), {}, (128, 64), "cooperative"),
])
def test_rule(sizes, given, tile, schedule):
    """Large tiles whose last wave is full, turns for short K, columns that fit, small for few."""
    facts = gemm(*sizes, **given).facts
    assert (facts["tile"][:2], facts["schedule"]) == (tile, schedule)


_NAME = re.compile(r"wgmma_([a-z0-9]+)_[a-z0-9]+_([a-z0-9]+)_(\d+)x(\d+)_(\d)x(\d)_(\d)stages"
                   r"_(\w+?)_(?:permuted|staged_1panels)_(\d+)x(\d+)x(\d+) ")


def _recorded() -> dict[str, list[tuple[float, float]]]:
    """Of each product, the measured microseconds and the model's clocks of every plan tried."""
    rows: dict[str, list[tuple[float, float]]] = {}
    folders = (ROOT / "records/h200/bench", ROOT / "records/h200/plans")
    for path in sorted(path for folder in folders for path in folder.glob("*.json")):
        for row in json.loads(path.read_text())["rows"]:
            for tried in row["ours_candidates"]:
                if (found := _NAME.match(tried["name"])) is None:
                    continue
                dtype, out, *numbers = found.groups()
                height, width, down, across, stages = (int(x) for x in numbers[:5])
                if max(down, across) > 2:  # fewer SMs fit, which the model does not know
                    continue
                m, n, k = (int(x) for x in numbers[6:])
                plan = Plan((height, width), stages, (down, across), schedule=numbers[5])
                problem = Problem(m, n, k, recipe(dtype), out, plan)
                rows.setdefault(f"{path.stem}: {row['row']['title']}", []).append(
                    (tried["look_seconds"] * 1e6, clocks(problem)))
    return {title: pairs for title, pairs in rows.items() if len(pairs) > 1}


def test_model_is_near_what_was_measured():
    """Of the recorded plans nine in ten are within 3 % of the model, up to the product's clock."""
    ratios = []
    for pairs in _recorded().values():
        scale = median(time / count for time, count in pairs)
        ratios += [count * scale / time for time, count in pairs]
    assert len(ratios) >= 20
    assert sum(abs(ratio - 1) < 0.03 for ratio in ratios) >= 0.9 * len(ratios)
    assert max(abs(ratio - 1) for ratio in ratios) < 0.08


@pytest.mark.parametrize(("n", "k", "store", "copy"), [
    (4096, 4096, "permuted", "tma"), (4104, 4096, "staged", "tma"), (4101, 4096, "direct", "tma"),
    (4096, 4092, "permuted", "shifted"), (4101, 4095, "direct", "shifted"),
    (4, 4095, "direct", "threads"),
])
def test_way_out_follows_from_n_and_copies_from_k(n, k, store, copy):
    """16 columns, 8 columns or any; rows of 16 bytes or any."""
    facts = gemm(4096, n, k).facts
    assert (facts["store"], facts["copy"]) == (store, copy)


def test_readme_shows_the_rungs_facts():
    """The README's table is what the kernels say of themselves."""
    text = (ROOT / "src/mmalab/kernels/sm90_wgmma/README.md").read_text()
    for name, factory in ladder("sm90_wgmma").items():
        facts = factory(8192, 8192, 8192).facts
        (row,) = (line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
        assert f"{facts['shared_bytes']:,}" in row
        assert " x ".join(str(size) for size in facts["tile"]) in row
        assert facts["instruction"].partition("aligned.")[2] in row


def test_every_size_has_a_plan():
    """No size is too odd: all that the rule picks fits shared memory."""
    rng = np.random.default_rng(5)
    for _ in range(40):
        m, n, k = (int(x) for x in rng.integers(1, 9000, 3))
        for dtype in ("bf16", "tf32"):
            assert gemm(m, n, k, dtype).dynamic_shared <= MOST_SHARED


def test_no_copy_named_is_whichever_the_rows_allow():
    """TMA where rows are multiples of 16 bytes, else threads; TMA named is TMA or an error."""
    small = {"tile": (128, 128), "store": "direct"}
    assert gemm(256, 256, 104, plan=Plan(**small)).facts["copy"] == "tma"
    assert gemm(256, 256, 104, plan=Plan(copy="tma", **small)).facts["copy"] == "tma"
    assert gemm(256, 256, 100, plan=Plan(**small)).facts["copy"] == "threads"


def test_bands():
    """The last band of rows has what is left."""
    assert rows_of(20, 8) == [8, 8, 4]


REFUSED = {
    "schedule": (lambda: Plan(schedule="eager"), "schedule 'eager': is not known"),
    "store": (lambda: Plan(store="pairs"), "store 'pairs': is not known"),
    "copy": (lambda: Plan(copy="cp.async"), "copy 'cp.async': is not known"),
    "groups": (lambda: Plan(groups=4), "groups=4: warpgroups do not fit"),
    "rows": (lambda: Plan((96, 128)), "tile .96, 128.: 96 rows do not split"),
    "columns": (lambda: Plan((128, 250)), "tile .128, 250.: wgmma has N"),
    "cluster": (lambda: Plan(cluster=(2, 2)), "cluster .2, 2.: shares one operand"),
    "part of a tile": (lambda: Plan((128, 24), cluster=(4, 1)), "24 lines in 4 parts"),
    "part": (lambda: Plan(part=100), "part=100: does not divide 256 columns"),
    "parts": (lambda: Plan(parts=3), "parts=3: sets of partial sums"),
    "flight": (lambda: Plan(flight=2), "flight=2: groups of products"),
    "panels": (lambda: Plan(panels=-1), "panels=-1: is no positive whole number"),
    "one stage": (lambda: gemm(256, 256, 256, plan=Plan((128, 128), 1)), "stages=1: a group of"),
    "stages": (lambda: gemm(256, 256, 256, plan=Plan(stages=9)), "stages=9: of 49152 bytes"),
    "m": (lambda: gemm(0, 256, 256), "m=0: is no size"),
    "k": (lambda: gemm(256, 256, 2.0), "k=2.0: is no size"),
    "no number": (lambda: gemm("8", 256, 256), "m=.8.: is no size"),
    "dtype": (lambda: gemm(256, 256, 256, "f64"), "dtype 'f64': these kernels do not"),
    "accumulate": (lambda: gemm(256, 256, 256, accumulate="f16"), "accumulate='f16': is no"),
    "out": (lambda: gemm(256, 256, 256, "s8", "f32"), "out='f32': is not what s32"),
    "staged words": (lambda: gemm(256, 264, 256, out="f32", plan=Plan(stages=2, store="staged")),
                     "n 264: store 'staged' of f32 deals out 32"),
    "staged words, gathered": (lambda: gemm(256, 256, 250, out="f32", plan=Plan(
        (128, 64), 4, store="staged", copy="threads")),
                               "store 'staged' .*k=250: rows of 500 bytes.*deal out no columns"),
    "staged words, shifted": (lambda: gemm(256, 256, 252, out="f32", plan=Plan(
        (256, 64), 3, flight=0, store="staged", copy="shifted")),
                              "store 'staged', out='f32', k=252: is none for lines"),
    "dealt": (lambda: gemm(256, 260, 256, plan=Plan()),
              "n 260: store 'permuted' of bf16 deals out"),
    "dealt parts": (lambda: gemm(256, 256, 256, out="f32", plan=Plan((128, 96), 4, (4, 1))),
                    "96 columns in 4 parts"),
    "staged columns": (lambda: gemm(256, 260, 256, plan=Plan(store="staged", stages=3)),
                       "n=260: rows of C in a tensor map"),
    "staged eights": (lambda: gemm(256, 88, 250, plan=Plan((128, 88), 4, store="staged")),
                      "88 columns of the tile: C leaves .*\n  legal: 80, 96, store='direct'"),
    "odd bytes": (lambda: gemm(256, 256, 255, "e4m3", plan=Plan(store="direct")),
                  "k=255: rows of odd bytes"),
    "gathered cluster": (lambda: gemm(256, 256, 252, plan=Plan(cluster=(2, 1), store="direct")),
                         "are gathered by threads"),
    "gathered and dealt": (lambda: gemm(256, 256, 100, plan=Plan((128, 128), 4)),
                           "store 'permuted' .*is a plan's default., k=100: rows of 200 bytes"),
    "gathered sums": (lambda: gemm(256, 256, 100, plan=Plan((256, 256), 8)),
                      "256 registers of sums: a thread has 192"),
    "gathered stages": (lambda: gemm(256, 256, 100, plan=Plan((128, 128), 8)), "stages=8: of"),
    "TMA of odd rows": (lambda: gemm(256, 256, 4092, plan=Plan(copy="tma", store="direct")),
                        ("rows of 8184 bytes are no .*\n.*'shifted', 'threads', 'padded', "
                         "'windowed', k=4096")),
    "odd bytes, TMA": (lambda: gemm(256, 256, 255, "e4m3", plan=Plan(copy="tma")),
                       "k=255: rows of odd bytes"),
    "promotion": (lambda: gemm(256, 256, 256, "e4m3", promote_every=48), "promote_every=48: in"),
    "promoted halves": (lambda: gemm(256, 256, 256, "e4m3", accumulate="f16", promote_every=128,
                                     plan=Plan((128, 128))), "adds partial sums in FP32"),
    "scales": (lambda: gemm(256, 256, 256, scaled=True, plan=Plan()), "scales belong to 128"),
    "registers": (lambda: gemm(256, 256, 256, "e4m3", promote_every=128, plan=Plan()),
                  "256 registers of sums"),
    "registers at first": (lambda: gemm(384, 208, 256, plan=Plan((192, 208), 3, groups=3,
                                                                 store="direct")),
                           "a block of 512 threads begins with 128 .*\n  legal: up to 200 col"),
    "batch": (lambda: gemm(256, 256, 256, batch=0), "batch=0: is no size"),
    "rows in all": (lambda: gemm(1 << 20, 256, 256, batch=1 << 12), "rows in all"),
    "odd rows": (lambda: gemm(255, 256, 252, batch=2), "take every matrix to begin"),
    "scaled batch": (lambda: gemm(256, 256, 256, "e4m3", scaled=True, batch=2),
                     "have no scales of their own"),
    "experts": (lambda: gemm(200, 256, 256, experts=2), "each 128 rows have a B"),
    "generation": (lambda: ladder("sm100"), "generation 'sm100': has no ladder"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refusals_name_what_would_be_legal(case):
    """What cannot be made is refused: what was given, the rule, and what would do."""
    call, words = case
    with pytest.raises(UsageError, match=words) as refused:
        call()
    assert "legal:" in str(refused.value)


def test_arguments_are_checked():
    """Arrays of another shape or type are refused before anything runs."""
    kernel = gemm(128, 64, 64)
    assert kernel.validate is not None
    a, b, c = (np.zeros(shape, np.uint16) for shape in ((128, 64), (64, 64), (128, 64)))
    kernel.validate([a, b, c])
    with pytest.raises(UsageError, match="is not what the kernel was made for"):
        kernel.validate([a, a, c])
