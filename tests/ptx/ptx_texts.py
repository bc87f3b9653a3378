"""PTX for the tests of this folder: what compilers wrote, and a frame for single statements."""

from __future__ import annotations

from pathlib import Path

CORPUS = Path(__file__).resolve().parent.parent / "corpus" / "ptx"

HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n"


def corpus_files() -> list[Path]:
    """All PTX files of the corpus; there must be some, or the tests on them would be empty."""
    files = sorted(CORPUS.rglob("*.ptx"))
    if not files:
        raise FileNotFoundError(f"no PTX in {CORPUS}")
    return files


def read(path: Path) -> str:
    """The text with its line ends as they are."""
    return path.read_bytes().decode()


def body(statements: str) -> str:
    """A module whose one kernel has these statements, the first of them on line 6."""
    return f"{HEADER}.entry k(.param .u64 p)\n{{\n{statements}\n}}\n"
