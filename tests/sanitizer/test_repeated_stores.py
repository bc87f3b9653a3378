"""CTAs that store the same tile: one finding, and the repair is the address or the grid."""

from __future__ import annotations

import numpy as np
import pytest

import mmalab

TEXT = """.version 8.4
.target sm_90a
.address_size 64
.visible .entry tile(.param .u64 out, .param .u64 other)
.reqntid 128, 1, 1
{{
    .reg .b32 %r<8>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd0, [out];
    ld.param.u64 %rd2, [other];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ctaid.y;
    {place}
    mul.wide.u32 %rd1, %r3, 16;
    add.s64 %rd1, %rd1, %rd0;
    st.global.b32 [%rd1], %r0;
    st.global.b32 [%rd1+4], %r0;
    st.global.b32 [%rd1+8], {value};
    st.global.b32 [%rd1+12], {value};
    ret;
}}
"""
SAME = "mov.u32 %r3, %r0;"


def found(place: str, value: str, grid: tuple[int, ...]) -> list[mmalab.Finding]:
    """The findings of one run."""
    out = [np.zeros(2048, np.uint32) for _ in "ab"]
    return mmalab.emulate(TEXT.format(place=place, value=value), out, grid=grid).findings


@pytest.mark.parametrize(("value", "severity"), [("%r0", "warning"), ("%r1", "error")])
def test_one_finding_for_all_stores(value: str, severity: str) -> None:
    """Values that are the same make it a warning; the most severe store stands for all."""
    [finding] = found(SAME, value, (2, 1, 1))
    assert (finding.code, finding.severity) == ("data-race", severity)
    assert ("both CTAs execute this store. Repair: an address that depends on %ctaid.x (the grid "
            "is 2 x 1 x 1), a smaller grid") in finding.message
    assert "(the same at lines " in finding.message


def test_the_axis_that_the_address_forgot() -> None:
    """The address depends on one of the two."""
    [finding] = found("mad.lo.u32 %r3, %r1, 128, %r0;", "%r2", (2, 2, 1))
    assert "depends on %ctaid.y (the grid is 2 x 2 x 1)" in finding.message


def test_every_cta_has_its_tile() -> None:
    """The right twin."""
    assert found("mad.lo.u32 %r3, %r2, 2, %r1; mad.lo.u32 %r3, %r3, 128, %r0;", "%r1",
                 (2, 2, 1)) == []
