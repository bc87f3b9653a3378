"""The ledger of Tensor Memory: the articles' numbers, what does not fit, what does instead."""

from __future__ import annotations

import json

import pytest

from mmalab.cli.output import plain
from mmalab.errors import UsageError
from mmalab.plan import pictures, tmem
from mmalab.plan.packing import Part


def test_two_accumulators_fill_the_pool() -> None:
    """128 x 256, two stages: 512 of 512 columns, one CTA."""
    found = tmem.ledger(128, 256, stages=2)
    assert (found.columns, found.allocated, found.free, found.ctas) == (512, 512, 0, 1)
    assert found.path == "D"


def test_nvfp4_scales_do_not_fit_beside_them() -> None:
    """12 columns too many; one stage, N = 240 or a pair with M = 128 would fit."""
    found = tmem.ledger(128, 256, stages=2, scales="nvfp4")
    assert not found.fits
    assert found.misfit is not None
    assert found.misfit.given == "524 columns"
    changes = {item.change: item.columns for item in found.alternatives}
    assert changes["1 stage"] == 268
    assert changes["N = 240"] == 492
    assert all(item.columns <= 512 for item in found.alternatives)


def test_every_alternative_really_fits() -> None:
    """The offers are recomputed from scratch."""
    assert tmem.ledger(128, 240, stages=2, scales="nvfp4").fits
    assert tmem.ledger(128, 248, stages=2, scales="nvfp4").fits
    assert not tmem.ledger(128, 256, stages=2, scales="nvfp4").fits
    assert tmem.ledger(128, 256, stages=2, scales="nvfp4", cta_group=2).fits


@pytest.mark.parametrize(("columns", "ctas"), [(32, 16), (64, 8), (128, 4), (256, 2), (512, 1)])
def test_the_pool_admits(columns: int, ctas: int) -> None:
    """16, 8, 4, 2, 1 allocations."""
    assert tmem.admitted(columns) == ctas


def test_admitted_counts_alignment() -> None:
    """256 + 32 columns: a second CTA finds no aligned 256."""
    assert tmem.admitted((256, 32)) == 1
    assert tmem.admitted((128, 64)) == 2


@pytest.mark.parametrize(("columns", "near"), [(16, "32"), (48, "32, 64"), (96, "64, 128"),
                                               (1024, "512")])
def test_k02_sizes_that_the_assembler_lets_through(columns: int, near: str) -> None:
    """Column counts in a register are nobody's but ours to check (K02)."""
    with pytest.raises(UsageError, match=f"not a power of two from 32 to 512\n  legal: {near}"):
        tmem.admitted(columns)


@pytest.mark.parametrize(("scales", "k", "columns"), [
    ("mxfp4", None, 12), ("nvfp4", None, 12),     # one word of scales each: 4 + 8 columns
    ("mxfp4", 128, 12), ("nvfp4", 128, 24),       # NVFP4 has twice as many scales
    ("mxfp8", 128, 12), ("mxfp6", 256, 24),
])
def test_columns_of_scale_factors(scales: str, k: int | None, columns: int) -> None:
    """SFA takes 4 columns for 4 scales of 128 rows, SFB 8 for N = 256."""
    parts = tmem.ledger(128, 256, scales=scales, k=k).parts
    assert sum(part.columns for part in parts if part.role == "scales") == columns


@pytest.mark.parametrize(("m", "n", "options", "path", "columns"), [
    (256, 256, {"cta_group": 2}, "A", 256), (128, 256, {"cta_group": 2}, "B", 128),
    (128, 256, {"cta_group": 2, "sparse": True}, "C", 256), (128, 256, {}, "D", 256),
    (64, 256, {"ws": True}, "E", 128), (64, 256, {}, "F", 256), (32, 256, {"ws": True}, "G", 64),
])
def test_columns_follow_the_layout(m: int, n: int, options: dict[str, object], path: str,
                                   columns: int) -> None:
    """Layouts A to G."""
    found = tmem.ledger(m, n, **options)  # type: ignore[arg-type]
    accumulator = next(part for part in found.parts if part.role == "accumulator")
    assert (found.path, accumulator.columns) == (path, columns)


def test_metadata_operand_and_epilogue() -> None:
    """Sparse f16: one column for K = 32; A of K = 64 in f16: 32 columns; 16 columns beside."""
    found = tmem.ledger(128, 128, "f16", k=64, sparse=True, a_stages=1, epilogue=16)
    columns = {part.name: part.columns for part in found.parts}
    assert columns == {"D": 128, "metadata": 2, "A": 16, "epilogue": 16}
    dense = tmem.ledger(128, 128, "f16", k=64, a_stages=2)
    assert [part.columns for part in dense.parts if part.role == "A"] == [32, 32]
    # FP4 under kind::f8f6f4 takes a byte an element.
    assert tmem.ledger(128, 64, "e2m1", k=32, a_stages=1).parts[-1].columns == 8


def test_sm_103_has_k_96() -> None:
    """Six scales a row run into a second word: 8 + 16 columns, and the guess is named."""
    found = tmem.ledger(128, 256, scales="nvfp4", k=96, target="sm_103a")
    assert [part.columns for part in found.parts[1:]] == [8, 16]
    assert any("inferred" in note for note in found.notes)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"m": 64, "n": 256, "scales": "nvfp4"}, "^M = 64: mxf4nvf4 .* has M = 128\n  legal: M = 128"),
    ({"m": 128, "n": 252}, "^N = 252: .* steps of 8\n  legal: N = 248, N = 256"),
    ({"m": 128, "n": 256, "target": "sm_120a"}, "is not in this target\n  legal: sm_100f sm_110f"),
    ({"m": 128, "n": 256, "target": "sm_100"}, "is not in this target"),
    ({"m": 128, "n": 256, "dtype": "s8", "target": "sm_103a"}, "legal: sm_100a sm_110a"),
    ({"m": 128, "n": 256, "dtype": "s4"}, "no tcgen05.mma takes it"),
    ({"m": 128, "n": 256, "scales": "nvfp4", "k": 96}, "K = 96 on sm_100a"),
    ({"m": 128, "n": 256, "scales": "nvfp4", "k": 100}, "legal: K = 64, K = 128"),
    ({"m": 128, "n": 256, "scales": "fp8"}, "has no block scales"),
    ({"m": 128, "n": 256, "dtype": "bf16", "scales": "nvfp4"}, "elements of e2m1"),
    ({"m": 128, "n": 256, "stages": 0}, "1 to 512 stages"),
    ({"m": 64, "n": 256, "ws": True, "cta_group": 2}, "without .ws"),
])
def test_requests_that_no_chip_knows(arguments: dict[str, object], message: str) -> None:
    """Wrong shapes, types, targets: the rule and the nearest legal value."""
    with pytest.raises(UsageError, match=message):
        tmem.ledger(**arguments)  # type: ignore[arg-type]


def test_scales_choose_the_element() -> None:
    """mxfp8 scales with e5m2 elements are a format of their own."""
    found = tmem.ledger(128, 128, "e5m2", scales="mxfp8")
    assert found.tile is not None
    assert found.tile.format.name == "mxfp8_e5m2"


def test_a_list_of_parts_has_a_ledger() -> None:
    """A compiler's buffers: K01's list, and one that does not fit."""
    found = tmem.ledger_of([Part("D", 384), *(Part(f"S{i}", 4) for i in range(3))])
    assert (found.separate, found.columns, found.allocated) == (608, 396, 512)
    wide = tmem.ledger_of([Part("D", 300), Part("P", 300)])
    assert wide.misfit is not None
    assert wide.misfit.given == "600 columns"


def test_tables_json_and_pictures() -> None:
    """Text, JSON and SVG agree on what fits."""
    for found in (tmem.ledger(64, 256, stages=3), tmem.ledger(128, 256, stages=2, scales="nvfp4")):
        data = json.loads(json.dumps(plain(found.as_dict())))
        assert data["fits"] == found.fits
        assert found.summary() in found.table()
        svg = pictures.ledger_svg(found)
        assert svg.count("<rect") >= 2 + len(found.parts)
        assert ("does not fit" in svg) is not found.fits
