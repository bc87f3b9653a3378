"""``mmalab atlas``: every question as a table and as JSON, and wrong use."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmalab.atlas import probe
from mmalab.atlas.specimens import specimens_of

pytestmark = pytest.mark.toolkit

NVFP4 = ("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X"
         ".f32.e2m1.e2m1.f32.ue4m3")


@pytest.fixture
def refused(tmp_path: Path) -> Path:
    """An NVFP4 product whose target and version are both too small for it."""
    path = tmp_path / "nvfp4.ptx"
    path.write_text(specimens_of(NVFP4)[0].module("sm_120", "8.6"), encoding="utf-8")
    return path


@pytest.fixture
def article(tmp_path: Path) -> Path:
    path = tmp_path / "probe.ptx"
    path.write_text(probe(), encoding="utf-8")
    return path


@pytest.mark.parametrize(("words", "says"), [
    (["wgmma.fence*"], "sm_90a"),
    (["tcgen05.alloc*", "--target", "sm_100"], "not supported on .target 'sm_100'"),
    (["elect.sync", "--what", "versions"], "8.0"),
    (["wgmma.fence*", "--what", "ports", "--target", "sm_100a"],
     "tcgen05.fence::after_thread_sync"),
    (["sm_100a", "sm_100f", "--what", "images", "--target", "10.3"], "every device has an image"),
    (["mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "--what", "opcodes", "--target",
      "sm_80"], "HMMA.16816.F32.BF16"),
    (["--what", "allocator"], "UTCATOMSWS.FIND_AND_SET.ALIGN"),
    (["16x256b", "--what", "drain"], "LDTM.16dp256bit.x32"),
    (["24", "240", "240", "--what", "registers"], "64,512"),
    (["--what", "messages", "Feature 'x' requires PTX ISA .version 8.6 or later"], "raise"),
])
def test_tables(mmalab, words: list[str], says: str) -> None:
    """The answer is in the table, and every row of the JSON has the five fields."""
    answer = mmalab("atlas", *words)
    assert answer.code == 0
    assert says in answer.out
    rows = mmalab("atlas", *words, "--json").json
    assert rows
    for row in rows:
        assert {"form", "ptx", "toolkit", "targets", "messages"} <= row.keys()


def test_why(mmalab, refused: Path, article: Path) -> None:
    """The cause, what to write, and the neighbours that were tried."""
    answer = mmalab("atlas", refused, "--what", "why")
    assert answer.code == 1
    assert "suffix and version" in answer.out
    row, = mmalab("atlas", refused, "--what", "why", "--json").json
    assert row["instead"] == [".target sm_120f with .version 8.8",
                              ".target sm_120a with .version 8.7"]
    assert row["trials"][0] == {
        "change": "as given", "target": "sm_120", "version": "8.6", "toolkit": row["toolkit"],
        "accepted": False, "message": row["messages"]["sm_120"]}
    assert mmalab("atlas", article, "--what", "why").code == 0


def test_a_file_over_targets_and_versions(mmalab, article: Path) -> None:
    """Where the article's probe assembles, and the least version that it needs."""
    row, = mmalab("atlas", article, "--target", "sm_90a", "--target", "sm_100f", "--json").json
    assert row["targets"] == ["sm_100f"]
    assert "not supported on .target 'sm_90a'" in row["messages"]["sm_90a"]
    row, = mmalab("atlas", article, "--what", "versions", "--json").json
    assert (row["version"], row["targets"]) == ("8.6", ["sm_100a"])
    assert "requires PTX ISA .version 8.6" in row["messages"]["sm_100a"]


def test_guardrails_and_differences(mmalab, article: Path) -> None:
    rows = mmalab("atlas", "--what", "guardrails", "--toolkit", "12.9", "--json").json
    assert [row["references"] for row in rows if "references" in row][:4] == [15, 15, 15, 15]
    row, = mmalab("atlas", article, "--what", "diff", "--toolkit", "12.9", "--toolkit", "13.5",
                  "--json").json
    assert {"what": "registers", "old": "14", "new": "8"} in row["changes"]


def test_a_record(mmalab, tmp_path: Path) -> None:
    place = tmp_path / "record.json"
    assert mmalab("atlas", "movmatrix*", "-o", place).code == 0
    assert '"spellings": 1' in place.read_text(encoding="utf-8")


@pytest.mark.parametrize(("words", "says"), [
    (["--what", "weather"], "targets"),
    (["add.u32", "--target", "sm_101a"], "sm_100a"),
    (["no.such.form"], "no.such.form"),
    (["add.u32", "--toolkit", "11.0"], "13.5"),
    (["--what", "why", "missing.ptx"], "cannot be read"),
    (["--what", "why"], "FILE"),
    (["--what", "images"], "compute_90"),
    (["sm_100a", "--what", "images", "--target", "9.9"], "10.0"),
    (["--what", "registers", "24", "many"], "24 240 240"),
    (["--what", "registers", "24", "25"], "multiple of 8"),
    (["--what", "drain", "1x1b"], "32x32b"),
    (["--what", "diff", "--toolkit", "13.5"], "two toolkits"),
    (["--what", "drain", "-o", "x.json"], "targets"),
    (["elect.sync", "--what", "ports"], "--target"),
])
def test_wrong_use(mmalab, words: list[str], says: str) -> None:
    """Exit 2, the rule and what would be legal."""
    answer = mmalab("atlas", *words)
    assert answer.code == 2
    assert says in answer.err


def test_text_that_does_not_parse(mmalab, tmp_path: Path) -> None:
    path = tmp_path / "broken.ptx"
    path.write_text(".version 8.6\n.target sm_100a\n.address_size 64\n.entry k( {", "utf-8")
    answer = mmalab("atlas", path, "--what", "why")
    assert answer.code == 2
    assert ":4:" in answer.err
