"""What the assembler makes of the wgmma kernels: no spills, no serialised products, few words."""

from __future__ import annotations

from typing import Any

import pytest

import mmalab
from mmalab.kernels import ladder
from mmalab.kernels.sm90_wgmma import Plan, gemm, skinny
from mmalab.ptx import parse

RUNGS = ladder("sm90_wgmma")


def _assembled(kernel: Any) -> Any:
    """The cubin, of which ptxas had nothing to say."""
    cubin = mmalab.assemble(kernel)
    assert cubin.target == "sm_90a"
    # with A from registers and odd K there is none left: two words go to memory, once a tile
    assert cubin.resources.spills <= (16 if kernel.facts.get("phases") == 8 else 0)
    assert cubin.diagnostics == ()
    return cubin


@pytest.mark.parametrize("name", RUNGS)
def test_text_is_well_formed_and_checks_clean(name):
    """Each rung parses, requires the block that it brings, and the checker has nothing to say."""
    kernel = RUNGS[name](1024, 2080, 1056)
    (entry,) = parse(kernel.ptx).entries
    assert entry.name == kernel.entry == kernel.name
    assert dict(entry.attributes)[".reqntid"].split(",")[0] == str(kernel.block[0])
    assert list(mmalab.check(kernel)) == []


@pytest.mark.toolkit
@pytest.mark.parametrize("name", RUNGS)
def test_rungs_assemble_without_spills_or_advice(name):
    """No register is spilled and no product serialised (C7510 to C7519), edges and all."""
    for sizes in ((4096, 4096, 4096), (4000, 4112, 1008)):
        _assembled(RUNGS[name](*sizes))


@pytest.mark.toolkit
@pytest.mark.parametrize("given", [
    {"m": 333, "n": 531, "k": 137},
    {"m": 4096, "n": 4096, "k": 4092},
    {"m": 4096, "n": 4096, "k": 4090},
    {"m": 4096, "n": 4096, "k": 4095},
    {"m": 4096, "n": 4096, "k": 4096, "dtype": "e4m3", "out": "bf16", "scaled": True},
    {"m": 4096, "n": 4096, "k": 4096, "dtype": "e4m3", "promote_every": 64},
    {"m": 4096, "n": 4096, "k": 4096, "dtype": "e4m3", "promote_every": 128,
     "plan": Plan((128, 192), 5, (2, 1), part=96, parts=2)},
    {"m": 4096, "n": 4096, "k": 4096, "out": "f32"},
    {"m": 4096, "n": 4096, "k": 4096, "plan": Plan((192, 200), 4, groups=3, store="direct")},
])
def test_choices_assemble_without_spills_or_advice(given):
    """What `gemm` chooses for these sizes and types, and partial sums in two sets."""
    _assembled(gemm(**given))


@pytest.mark.toolkit
@pytest.mark.parametrize("m", [1, 16, 64])
def test_skinny_kernels_leave_room_for_more_ctas(m):
    """Few registers: four CTAs of 160 threads fit an SM."""
    resources = _assembled(skinny(m, 28672, 8192, resident=4)).resources
    assert 4 * 160 * resources.registers <= 65536


@pytest.mark.toolkit
def test_main_loop_is_products_and_little_else():
    """256 x 208: 16 products a slice follow each other, with at most 50 instructions around."""
    (entry,) = _assembled(gemm(8192, 8192, 8192)).sass.entries
    loops = [loop.histogram() for loop in entry.loops if loop.histogram().get("HGMMA")]
    inner = min(loops, key=lambda counts: sum(counts.values()))
    assert inner["HGMMA"] == 8
    assert sum(inner.values()) <= 58


@pytest.mark.toolkit
def test_registers_are_dealt_out_by_role():
    """384 threads start with 168 registers; setmaxnreg gives them to those that multiply."""
    kernel = gemm(8192, 8192, 8192)
    assert _assembled(kernel).resources.registers == 168
    give, take = kernel.facts["registers"]
    assert 128 * give + 256 * take <= 65536
