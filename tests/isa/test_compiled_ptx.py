"""Every instruction that nvcc and Triton wrote in the corpus is known and legal."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmalab import isa, ptx

CORPUS = Path(__file__).parents[1] / "corpus" / "ptx"
FILES = sorted(CORPUS.glob("*.ptx"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_compilers_write_what_the_table_holds(path: Path) -> None:
    """Each instruction is legal on the module's target and version, or of a later family."""
    module = ptx.parse(path.read_text(encoding="utf-8"))
    refused = set()
    for function in module.functions:
        for instruction in function.instructions():
            verdict = isa.legal(instruction, module.target, module.version)
            if verdict.known and not verdict.legal:
                refused.add((instruction.text, verdict.reason))
    assert refused == set()


def test_the_corpus_is_there() -> None:
    """The files were found: an empty folder would make the test above say nothing."""
    assert len(FILES) > 20
