"""Addresses that are known before the kernel runs."""

from __future__ import annotations

import pytest
from checking import codes, found

V4 = "{%b32_0, %b32_1, %b32_2, %b32_3}"


@pytest.mark.parametrize("line", [
    f"ld.shared.v4.b32 {V4}, [tile+240];",
    "ld.shared.b32 %b32_0, [smem+100000];",
    "ld.global.u32 %u32_0, [gmem];",
    "ld.u32 %u32_0, [tile];",
    "ld.param.u32 %u32_0, [pst+60];",
    "ld.local.u32 %u32_0, [4];",
    "ld.shared::cluster.u32 %u32_0, [tile+4];",
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%b32_0}, [tile+16];",
    "cp.async.cg.shared.global [tile+16], [gmem+16], 16;\ncp.async.wait_all;",
    "mbarrier.init.shared.b64 [tile+8], 1;",
    "ld.shared.u32 %u32_0, [%u32_1+2];",
    "red.shared.add.u32 [tile+252], 1;",
])
def test_addresses_that_are_fine(line):
    """Aligned, inside, and in the right space: nothing to say."""
    assert found(line) == []


@pytest.mark.parametrize(("line", "code", "severity"), [
    (f"ld.shared.v4.b32 {V4}, [tile+4];", "misaligned-access", "error"),
    ("ld.shared.b32 %b32_0, [tile+2];", "misaligned-access", "error"),
    ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%b32_0}, [tile+8];", "misaligned-access", "error"),
    ("mbarrier.init.shared.b64 [tile+4], 1;", "misaligned-access", "error"),
    ("cp.async.ca.shared.global [tile+4], [gmem], 8;\ncp.async.wait_all;", "misaligned-access",
     "error"),
    ((".shared .align 4 .b8 low[64];\n" f"ld.shared.v4.b32 {V4}, [low+16];"), "misaligned-access",
     "warning"),
    ((".shared .align 4 .b8 low[64];\n" f"ld.shared.v4.b32 {V4}, [low+2];"), "misaligned-access",
     "error"),
    ("ld.shared.b32 %b32_0, [tile+256];", "out-of-bounds", "error"),
    ("ld.shared.b16 %b16_0, [tile+-2];", "out-of-bounds", "error"),
    ("ld.shared.b16 %b16_0, [smem+-2];", "out-of-bounds", "error"),
    ("ld.param.u32 %u32_0, [p0+8];", "out-of-bounds", "error"),
    (f"ld.shared.v4.b32 {V4}, [tile+244];", "misaligned-access", "error"),
    ("ld.shared.u32 %u32_0, [gmem];", "operand-mismatch", "error"),
    ("ld.global.u32 %u32_0, [tile];", "operand-mismatch", "error"),
    ("ld.u32 %u32_0, [pst];", "operand-mismatch", "error"),
    ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%b32_0}, [gmem];", "operand-mismatch", "error"),
    ("cp.async.ca.shared.global [gmem], [gmem], 4;\ncp.async.wait_all;", "operand-mismatch",
     "error"),
    ("ld.global.u32 %u32_0, [4];", "operand-mismatch", "error"),
    ("ld.global.u32 %u32_0, [%u32_1];", "operand-mismatch", "warning"),
    ("st.param.u64 [p0], %u64_0;", "read-only-write", "error"),
])
def test_addresses_that_are_not(line, code, severity):
    """What must go wrong at run time, or is refused, is said; what may is a warning."""
    assert (code, severity) in [(f.code, f.severity) for f in found(line)]


def test_bounds_give_their_numbers():
    """The witness of an access out of bounds holds the variable, its size and the bytes."""
    [finding] = found("ld.shared.b64 %b64_0, [tile+256];")
    assert finding.message.startswith(
        "ld.shared.b64 %b64_0, [tile+256]: bytes 256 to 263 of tile, which is of 256 bytes\n"
        "  legal: offsets 0 to 248")
    assert finding.witness == {"rule": "address-bounds", "variable": "tile", "size": 256,
                               "offset": 256, "bytes": 8}


def test_misalignment_beyond_doubt_only():
    """A register in the address leaves its value to the run."""
    assert codes(found(f"ld.shared.v4.b32 {V4}, [%u32_0+4];")) == []
