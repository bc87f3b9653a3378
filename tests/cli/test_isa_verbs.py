"""forms, explain, legal, layout: the questions about instructions."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

BF16 = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"


def test_forms_by_glob_and_words(mmalab) -> None:
    """A glob and words both find the form; JSON is a list of spellings."""
    assert mmalab("forms", "mma.sync*m16n8k16*bf16*").out.splitlines() == [BF16]
    assert BF16 in mmalab("forms", "mma.sync", "bf16", "--json").json


def test_forms_without_match(mmalab) -> None:
    """Nothing found is exit 1, with what is near."""
    answer = mmalab("forms", "mma.snyc")
    assert answer.code == 1
    assert "nearest" in answer.err


def test_explain(mmalab) -> None:
    """A form has its fragments, targets and source, in both outputs."""
    answer = mmalab("explain", BF16, "--json").json
    assert answer["shape"] == [16, 8, 16]
    assert answer["targets"] == "sm_80+"
    assert set(answer["fragments"]) == {"A", "B", "C", "D"}
    assert "source" in mmalab("explain", BF16).out


def test_explain_a_finding(mmalab) -> None:
    """The code of a finding has its meaning, and where to read on."""
    told = mmalab("explain", "tx-mismatch")
    assert told.code == 0
    assert "bytes announced to an mbarrier differ" in told.out
    assert "read-a-finding.md" in told.out
    assert mmalab("explain", "tx-mismatch", "--json").json["code"] == "tx-mismatch"
    assert mmalab("explain", "tx-mismatches").code == 2


@pytest.mark.parametrize(("words", "code"), [
    ([BF16, "--target", "sm_80"], 0), ([BF16, "--target", "sm_75"], 1),
    ([BF16, "--target", "sm_80", "--ptx", "6.5"], 1), (["mma.sync.bogus"], 2),
    (["add.f32 %f1, %f2, %f3;", "--target", "sm_75"], 0),
    (["add.f32 %f1, %f2;", "--target", "sm_75"], 1), ([BF16, "--target", "sm_1"], 2)])
def test_legal(mmalab, words: list[str], code: int) -> None:
    """Exit 0 legal, 1 illegal (with the reason), 2 not an instruction or not a target."""
    answer = mmalab("legal", *words)
    assert answer.code == code
    if "sm_1" not in words:
        assert mmalab("legal", *words, "--json").json["legal"] == (code == 0)


def test_layout_both_ways(mmalab) -> None:
    """Where element (9, 5) of D lives, and what lives there."""
    place = mmalab("layout", BF16, "-D", "--at", "9,5", "--json").json
    assert (place["lane"], place["slot"], place["register"], place["bits"], place["at"]) == (
        6, 3, 3, [31, 0], [9, 5])
    back = mmalab("layout", BF16, "-D", "--lane", 6, "--slot", 3, "--json").json
    assert back["at"] == [9, 5]
    assert mmalab("layout", BF16, "-D", "--at", "9,5").out == (
        "D[9][5]: lane 6, slot 3 (register 3, bits 31:0)\n")


def test_layout_of_a_lane_is_a_list(mmalab) -> None:
    """A lane's whole fragment is a list in slot order."""
    rows = mmalab("layout", BF16, "-B", "--lane", 6, "--json").json
    assert [row["slot"] for row in rows] == [0, 1, 2, 3]


@pytest.mark.parametrize("words", [[], ["-A", "-B"], ["-A", "--at", "x"], ["-A", "--at", "16,0"],
                                   ["-A", "--lane", "32"]])
def test_layout_wrong_use(mmalab, words: list[str]) -> None:
    """No operand, two operands, no coordinate, outside: exit 2."""
    assert mmalab("layout", BF16, *words).code == 2


def test_layout_picture(mmalab, tmp_path: Path) -> None:
    """The SVG has a cell for each element, with its holder."""
    file = tmp_path / "a.svg"
    assert mmalab("layout", BF16, "-A", "--svg", file).code == 0
    root = ET.fromstring(file.read_text())  # noqa: S314 (our own file)
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{space}rect")) == 1 + 16 * 16
    assert "31:7" in [node.text for node in root.iter(f"{space}text")]


@pytest.mark.parametrize(("words", "says"), [
    (["explain", "tx-mismach"], ["is neither an instruction nor the code of a finding",
                                 "legal: tx-mismatch"]),
    (["explain", "m16n8k16"], ["legal: mma.sync.aligned.m16n8k16"]),
    (["layout", "m16n8k16", "-A"], ["legal: mma.sync.aligned.m16n8k16"]),
    (["layout", "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16", "-B"],
     ["lies in shared memory", "mmalab descriptor smem"]),
    (["layout", "tcgen05.mma.cta_group::1.kind::f16", "-D"],
     ["lies in Tensor Memory", "mmalab plan tmem --mma 128x256 --at 9,5"]),
    (["layout", "add.f32", "-A"], ["has no fragment", "legal: a matrix instruction of a warp"]),
])
def test_what_leads_on(mmalab, words: list[str], says: list[str]) -> None:
    """A slip, a part of an opcode, an operand in memory: what to type instead."""
    answer = mmalab(*words)
    assert answer.code == 2
    for part in says:
        assert part in answer.err
