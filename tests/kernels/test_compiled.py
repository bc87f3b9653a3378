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
        kernel = factory(272, 144, 80)
        if target == "sm_90a" or kernel.target != "sm_90a":
            mmalab.assemble(kernel, target)


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


#: Blocks that fill an SM: each is compiled for all chips that can run it.
LARGE = [
    {"tile": (256, 128)}, {"tile": (256, 128), "stages": 4, "span": 128}, {"tile": (128, 256)},
    {"tile": (128, 128), "warp_tile": (64, 32)}, {"tile": (128, 128), "span": 128},
    {"copy": "tma", "stages": 4}, {"copy": "tma", "tile": (128, 256), "span": 64, "stages": 8},
    {"copy": "tma", "tile": (128, 128)}, {"copy": "tma", "stages": 4, "waves": "even"},
    {"copy": "tma", "stages": 4, "waves": "even", "drain": 4},
]
TYPES = [{}, {"dtype": "f16", "accumulate": "f16"}, {"dtype": "tf32"}, {"dtype": "s8"}]


def _densest(kernel, target):
    """Resources, and the loop with the most matrix instructions among all, without the loops
    inside, in which one waits for what is late."""
    cubin = mmalab.assemble(kernel, target)
    (entry,) = cubin.sass.entries
    loop = max(entry.loops, key=lambda loop: (
        sum(i.matrix for i in loop.issued) / len(loop.issued)))
    late = {i.address for inner in entry.loops if inner.header in loop.children
            for i in inner.instructions}
    return cubin.resources, [i for i in loop.issued if i.address not in late]


@pytest.mark.toolkit
@pytest.mark.parametrize("choice", LARGE, ids=str)
def test_large_tiles_multiply_back_to_back(choice):
    """Nothing spilled; two thirds and more of the loop are HMMA, and no seven others in a row (of
    them two that only a late slice needs)."""
    kernel = gemm(4096, 4096, 4096, **choice)
    for target in ["sm_90a"] if kernel.target != "sm_80" else ["sm_80", "sm_89", "sm_90a"]:
        resources, loop = _densest(kernel, target)
        assert resources.spills == 0
        letters = "".join("m" if instruction.matrix else "-" for instruction in loop)
        assert letters.count("m") >= 0.58 * len(letters)
        assert "-------" not in letters


@pytest.mark.toolkit
@pytest.mark.parametrize("choice", [LARGE[0], LARGE[2], LARGE[5], LARGE[-1]], ids=str)
@pytest.mark.parametrize("types", TYPES, ids=str)
def test_large_tiles_keep_sums_in_registers(choice, types):
    """No type spills, edges and all; 128-byte slices have more addresses, and need whole tiles."""
    kernel = gemm(4104, 4160, 1040, **choice, **types)
    assert mmalab.assemble(kernel, "sm_90a").resources.spills == 0


@pytest.mark.toolkit
def test_large_tiles_store_16_bytes_at_once():
    """128 x 4 bytes of a thread's sums leave in 32 stores, with ragged N too."""
    for kernel in (gemm(256, 136, 64, tile=(256, 128)), gemm(256, 144, 64, copy="tma")):
        (entry,) = mmalab.assemble(kernel, "sm_90a").sass.entries
        stores = [i.mnemonic for i in entry.instructions if i.opcode == "STG"]
        assert len(stores) == 32
        assert all(".128" in name for name in stores)


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
