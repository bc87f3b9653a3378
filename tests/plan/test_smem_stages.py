"""Shared memory of a pipeline: alignment counted, the most stages found, conflicts searched."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmalab.cli.output import plain
from mmalab.errors import UsageError
from mmalab.plan import smem
from mmalab.plan.smem import Member

members = st.lists(
    st.builds(Member, st.just("m"), st.integers(0, 40_000), st.sampled_from([1, 8, 128, 1024]),
              st.booleans()),
    min_size=1, max_size=5)


def test_hoppers_usual_tile() -> None:
    """128 x 256 x 64 bf16: 48 KiB a stage, four stages in 227 KiB."""
    found = smem.stage_plan(128, 256, 64, "bf16", target="sm_90a")
    assert (found.stage_bytes, found.max_stages, found.swizzle) == (49_152, 4, "128B")
    assert not smem.stage_plan(128, 256, 64, "bf16", target="sm_90a", stages=5).fits


def test_article_a_three_stages() -> None:
    """48 KiB swizzled and two blocks on Ada; padded rows take 60 KiB and leave one."""
    swizzled = smem.stage_plan(128, 128, 32, "bf16", target="sm_89", stages=3)
    padded = smem.stage_plan(128, 128, 32, "bf16", target="sm_89", stages=3, pad=16)
    assert (swizzled.layout.bytes, swizzled.ctas, swizzled.swizzle) == (49_152, 2, "64B")
    assert (padded.layout.bytes, padded.ctas, padded.swizzle) == (61_440, 1, "none")


def test_h02_padding_costs_a_stage() -> None:
    """Sizes alone choose three stages; with 1024-byte alignment two fit (H02)."""
    stage = [Member(name, 33_000, 1024, per_stage=True) for name in "AB"]
    listed = [*stage, Member("epilogue", 34_000, 1024)]
    assert smem.capacity("sm_90a") >= 3 * 66_000 + 34_000
    found = smem.shared_layout(listed, 3, "sm_90a")
    assert found.misfit is not None
    assert found.misfit.nearest == ("2 stages (169168 bytes)",)
    assert smem.max_stages(listed, "sm_90a") == 2


@pytest.mark.parametrize(("target", "fits"), [("sm_90a", True), ("sm_100a", True),
                                              ("sm_120a", False)])
def test_h01_one_kibibyte_too_much(target: str, fits: bool) -> None:
    """102,400 bytes: not on 12.x, whose CTAs may have 101,376 (H01)."""
    found = smem.shared_layout([Member("all", 102_400)], 1, target)
    assert found.fits is fits
    if found.misfit:
        assert "1024 too many" in found.misfit.rule
        assert found.misfit.nearest == ("101376 bytes",)


def test_h04_variants_against_the_budget() -> None:
    """The same tile with K = 32, 64 and 128 on 12.x: stages that fit in 101,376 bytes (H04)."""
    stages = {k: smem.stage_plan(128, 128, k, "fp8", target="sm_120a").max_stages
              for k in (32, 64, 128)}
    assert stages == {32: 12, 64: 6, 128: 3}
    assert not smem.stage_plan(128, 128, 128, "fp8", target="sm_120a", stages=4).fits


def test_block_scales_and_pairs() -> None:
    """NVFP4 of a pair: half of A and B in each CTA, the scales of all of B."""
    found = smem.stage_plan(256, 256, 256, "e2m1", scales="nvfp4", target="sm_100a", cta_group=2)
    sizes = {m.name: m.bytes for m in found.layout.members if m.name.endswith("[0]")}
    assert sizes == {"A[0]": 16_384, "B[0]": 16_384, "SFA[0]": 2048, "SFB[0]": 4096,
                     "barriers[0]": 16}
    # The byte containers of kind::f8f6f4 exist for tcgen05 alone.
    wide, dense = (smem.stage_plan(128, 128, 128, "fp4", target=t) for t in ("sm_100a", "sm_120a"))
    assert wide.stage_bytes == 2 * dense.stage_bytes


def test_conflicts_of_the_tile() -> None:
    """The hardware's swizzle frees reads and writes together; no padding does for 64-byte rows."""
    found = smem.stage_plan(128, 128, 32, "bf16", target="sm_89").conflicts
    assert found is not None
    assert found.swizzle is not None
    assert (found.swizzle.tma, found.swizzle.free) == ("64B", True)
    assert found.padding is not None
    assert not found.padding.free


@settings(max_examples=60, deadline=None)
@given(members, st.integers(1, 6))
def test_layouts_are_aligned_and_disjoint(listed: list[Member], stages: int) -> None:
    """Members follow each other at their alignment; padding and bytes add up."""
    found = smem.shared_layout(listed, stages, "sm_90a")
    end = 0
    for placed in found.members:
        assert placed.offset == end + placed.padding
        end = placed.offset + placed.bytes
    assert end == found.bytes
    assert found.padding == end - sum(placed.bytes for placed in found.members)
    assert found.fits == (end <= 232_448)
    most = smem.max_stages(listed, "sm_90a")
    if 0 < most < 64 and any(member.per_stage and member.bytes for member in listed):
        assert smem.shared_layout(listed, most, "sm_90a").fits
        assert not smem.shared_layout(listed, most + 1, "sm_90a").fits


def test_tables_and_json() -> None:
    """Text and JSON have the members and the verdict."""
    found = smem.stage_plan(128, 256, 64, "bf16", target="sm_90a", epilogue=32_768)
    data = json.loads(json.dumps(plain(found.as_dict())))
    assert data["fits"]
    assert data["max_stages"] == 4
    assert "epilogue" in found.table()
    assert "Swizzle<3,4,3>" in found.table()


def test_what_fits_instead() -> None:
    """Five stages of 48 KiB do not fit: four do, N = 224 does, half of K does; N = 240 does not."""
    found = smem.stage_plan(128, 256, 64, "bf16", target="sm_90a", stages=5)
    assert found.misfit is not None
    assert found.misfit.nearest == ("4 stages (196672 bytes)", "N = 224 (5 stages)",
                                    "K = 32 (5 stages)")
    assert smem.stage_plan(128, 224, 64, "bf16", target="sm_90a", stages=5).fits
    assert not smem.stage_plan(128, 240, 64, "bf16", target="sm_90a", stages=5).fits


def test_tensor_copies_of_a_stage() -> None:
    """Boxes have 256 rows at most and the width of the swizzle; padded rows have none."""
    found = smem.stage_plan(128, 320, 128, "bf16", target="sm_90a")
    assert found.boxes == ((128, 128), (128, 128), (128, 256), (128, 64), (128, 256), (128, 64))
    assert sum(width * rows for width, rows in found.boxes) == found.stage_bytes
    assert smem.stage_plan(128, 128, 32, "bf16", target="sm_90a", pad=16).boxes == ()
    assert smem.stage_plan(128, 128, 32, "bf16", target="sm_89").boxes == ()


def test_wrong_use() -> None:
    """Rows that are no multiple of 16 bytes, sizes that are none."""
    with pytest.raises(UsageError, match="no multiple of 16 bytes\n  legal: K = 504, K = 512"):
        smem.stage_plan(128, 128, 511, "bf16", target="sm_90a")
    with pytest.raises(UsageError, match="is none"):
        smem.stage_plan(127, 128, 64, "bf16", target="sm_100a", cta_group=2)
    with pytest.raises(UsageError, match="is no pipeline"):
        smem.shared_layout([Member("A", 16)], 0, "sm_90a")
    with pytest.raises(UsageError, match="a power of two"):
        Member("A", 16, 24)
