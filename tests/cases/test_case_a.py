"""A: which instruction exists on which chip, with which suffix, version and release.

What assemblers say to these questions is in tests/atlas/test_atlas_cases.py, what the table says in
tests/isa/test_isa_cases.py; here is what both leave open, and the words that a person gets.
"""

from __future__ import annotations

import pytest

from mmalab.isa.toolkits import first_release, version_of


def test_a12_releases_and_versions() -> None:
    """A12: two version numbers, and no word of the releases behind them.

    12.6 reads what 12.5 reads: a release without a PTX version of its own."""
    assert version_of("12.5") == version_of("12.6") == (8, 5)
    assert first_release((9, 1)) == "13.1"
    assert version_of("13.0") == (9, 0)


@pytest.mark.parametrize(("opcode", "code"), [
    ("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16", 1),
    ("setmaxnreg.dec.sync.aligned.u32", 1),
    ("tensormap.replace.tile.global_address.shared::cta.b1024.b64", 1),
    ("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes", 0),
    ("mbarrier.try_wait.parity.shared::cta.b64", 0), ("barrier.cluster.arrive", 0),
    ("stmatrix.sync.aligned.m8n8.x1.shared.b16", 0),
])
def test_a15_what_the_letter_brings(ask, opcode: str, code: int) -> None:
    """A15: what does 9.0 lose against 9.0a? The answer names the suffix, and nothing else."""
    said = ask("legal", opcode, "--target", "sm_90")
    assert said.code == code
    assert ("instead: .target sm_90a (the same chip)" in said.text) == bool(code)
    assert ask("legal", opcode, "--target", "sm_90a").code == 0


@pytest.mark.parametrize(("words", "says"), [
    (["12.6"], "reads PTX up to 8.5"), (["9.1"], "CUDA 13.1 is the first release"),
    (["sm_89"], "CUDA 11.8"),
    (["sm_103a", "--toolkit", "12.8"], "tcgen05.mma"),
    (["sm_90a", "--toolkit", "13.0"], "CUDA 13.0 knows sm_90a"),
])
def test_a12_j03_releases_on_the_command_line(ask, words: list[str], says: str) -> None:
    """A12, J03: by release, by version, by target with what is lost until then."""
    said = ask("atlas", *words, "--what", "toolkits")
    assert (said.code, says in said.text) == (0, True), said.text


def test_a12_the_table_as_json(ask) -> None:
    """Every row has the five fields of the atlas."""
    rows = ask("atlas", "--what", "toolkits", "--json").json
    assert all(row.keys() >= {"form", "ptx", "toolkit", "targets", "messages"} for row in rows)
    assert {row["form"]: row["version"] for row in rows}["12.6"] == "8.5"


@pytest.mark.parametrize("word", ["12.99", "9.9", "sm_101", "many"])
def test_a12_what_is_in_no_table(ask, word: str) -> None:
    """Wrong use, with what would be legal."""
    said = ask("atlas", word, "--what", "toolkits")
    assert said.code == 2
    assert "legal:" in said.text
