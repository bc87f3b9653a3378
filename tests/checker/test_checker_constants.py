"""Constants that reach an instruction through a register."""

from __future__ import annotations

import pytest

import mmalab

_ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], %r0;"


def codes(body: str) -> list[str]:
    text = (".version 8.6\n.target sm_100a\n.address_size 64\n.visible .entry k()\n.reqntid 32\n{\n"
            ".shared .align 4 .b8 place[4];\n.reg .pred %p<2>;\n.reg .b32 %r<4>;\n"
            f"{body}\nret;\n}}\n")
    return [finding.code for finding in mmalab.check(text) if finding.severity == "error"]


@pytest.mark.parametrize("count", [0, 16, 31, 33, 48, 96, 513, 1024])
def test_counts_that_no_allocation_has(count: int) -> None:
    assert codes(f"mov.u32 %r0, {count};\n{_ALLOC}") == ["tmem-size"]


@pytest.mark.parametrize("count", [32, 64, 128, 256, 512])
def test_counts_that_are_legal(count: int) -> None:
    assert codes(f"mov.u32 %r0, {count};\n{_ALLOC}") == []


@pytest.mark.parametrize("body", [
    f"mov.u32 %r0, 48;\nmov.u32 %r0, 64;\n{_ALLOC}", f"mov.u32 %r0, %tid.x;\n{_ALLOC}",
    f"mov.u32 %r0, 48;\nadd.u32 %r0, %r0, 16;\n{_ALLOC}",
    f"mov.u32 %r0, 48;\n{{\n.reg .b32 %r0;\nmov.u32 %r0, 64;\n{_ALLOC}\n}}",
    f"setp.eq.u32 %p0, 0, 1;\n@%p0 mov.u32 %r0, 48;\n{_ALLOC}",
])
def test_doubt_is_no_finding(body: str) -> None:
    """Written twice, not by a literal, in another scope, or under a guard."""
    assert "tmem-size" not in codes(body)
