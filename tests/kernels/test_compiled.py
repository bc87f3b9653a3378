"""What the assembler makes of the ladder: accepted everywhere, the article's counts, the README."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

import mmalab
from mmalab.kernels import ladder
from mmalab.kernels.sm80_mma import ffma, gemm, one_mma, one_wmma
from mmalab.ptx import parse

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def table_tool():
    """tools/ladder_table.py as a module."""
    spec = importlib.util.spec_from_file_location("ladder_table", ROOT / "tools/ladder_table.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["ladder_table"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["ladder_table"]


def test_text_is_well_formed_and_says_its_launch():
    """Each rung parses, has one kernel of its name, and requires the block that it brings."""
    for factory in ladder("sm80_mma").values():
        kernel = factory(256, 256, 256)
        (entry,) = parse(kernel.ptx).entries
        assert entry.name == kernel.entry == kernel.name
        assert dict(entry.attributes)[".reqntid"].split(",")[0] == str(kernel.block[0])


@pytest.mark.toolkit
@pytest.mark.parametrize("target", ["sm_89", "sm_90a", "sm_100a", "sm_120a"])
def test_every_rung_assembles(target):
    """ptxas accepts every rung for Ada, Hopper and both Blackwells."""
    for factory in ladder("sm80_mma").values():
        mmalab.assemble(factory(272, 144, 80), target)


@pytest.mark.toolkit
def test_rungs_assemble_for_their_own_target():
    """Each kernel is accepted by the oldest chip that it names."""
    singles = [one_mma(), one_wmma()]
    for kernel in [*singles, *(factory(128, 128, 128) for factory in ladder("sm80_mma").values())]:
        assert mmalab.assemble(kernel).target == kernel.target


@pytest.mark.toolkit
@pytest.mark.parametrize("layout", ["plain", "padded", "swizzled"])
def test_inner_loop_has_the_articles_matrix_instructions(layout):
    """Per slice 32 HMMA, 12 LDSM, 4 LDGSTS, 3 for synchronisation, and at most 10 others."""
    kernel = gemm(1024, 1024, 1024, layout=layout)
    (entry,) = mmalab.assemble(kernel, "sm_89").sass.entries
    slices = kernel.facts["slices_per_iteration"]
    counts = {opcode: n / slices for opcode, n in entry.main_loop.histogram().items()}
    known = {"HMMA": 32, "LDSM": 12, "LDGSTS": 4, "LDGDEPBAR": 1, "DEPBAR": 1, "BAR": 1}
    assert {opcode: counts.pop(opcode) for opcode in known} == known
    assert sum(counts.values()) <= 10


@pytest.mark.toolkit
def test_fp32_loop_is_the_comparison_of_the_article():
    """512 FFMA per slice of 8, in no more instructions than the article's 577."""
    (entry,) = mmalab.assemble(ffma(1024, 1024, 1024), "sm_89").sass.entries
    counts = entry.main_loop.histogram()
    assert counts["FFMA"] == 2 * 512
    assert sum(counts.values()) <= 2 * 577


@pytest.mark.toolkit
def test_bf16_kernels_let_two_blocks_share_an_sm():
    """No more than 128 registers for 256 threads, and nothing spilled."""
    for stages in (2, 3):
        resources = mmalab.assemble(gemm(1024, 1024, 1024, stages=stages), "sm_80").resources
        assert resources.registers <= 128
        assert resources.spills == 0


def test_readme_shows_the_record(table_tool):
    """The table in the README is the committed record, word for word."""
    data = json.loads(table_tool.RECORD.read_text())
    text = table_tool.README.read_text()
    assert table_tool.updated(text, data) == text
    assert [rung["rung"] for rung in data["rungs"]] == list(ladder("sm80_mma"))


@pytest.mark.toolkit
def test_record_is_what_the_assembler_says(table_tool):
    """Compiled again by the same toolkit, every figure of the record comes out the same."""
    data = json.loads(table_tool.RECORD.read_text())
    newest = mmalab.toolchain.find("ptxas").toolkit
    if f"ptxas {newest}" != data["toolkit"]:
        pytest.skip(f"the record is of {data['toolkit']}, the newest here is {newest}")
    assert table_tool.record() == data
