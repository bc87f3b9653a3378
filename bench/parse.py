"""How many lines of PTX a second the parser reads: one JSON record on standard output.

    python bench/parse.py [FILE.ptx ...]        default: the corpus of compilers' output

Three figures: the files as they are, one after the other; each file's functions repeated to a long
module, so that start-up does not count; and the same through the grammar alone, without the fast
path. Processor time, the best of several rounds, lines counted as newlines. `times_split` is the
parser's time over that of ``line.split()`` on every line: it holds on a busy machine too.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

from mmalab.ptx import parse
from mmalab.ptx.parser import parse_with_spans

CORPUS = Path(__file__).resolve().parent.parent / "tests" / "corpus" / "ptx"
ROUNDS = 5
LONG = 40_000


def _rate(texts: list[str], read: Callable[[str], object]) -> float:
    """Lines a second, of the best round."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        for text in texts:
            read(text)
        best = min(best, time.process_time() - start)
    return sum(text.count("\n") for text in texts) / best


def _split(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def _long(text: str) -> str:
    """The text with its functions repeated to at least LONG lines, .file and .section left out."""
    module, spans = parse_with_spans(text)
    places = [spans.nodes[id(item)] for item in module.functions]
    once = "\n".join(text[start:end] for start, end in places)
    head = text[: min(start for start, _ in places)]
    return head + "\n".join([once] * (LONG // max(1, once.count("\n")) + 1)) + "\n"


def main(names: list[str]) -> None:
    """Measure and print the record."""
    paths = [Path(name) for name in names] or sorted(CORPUS.rglob("*.ptx"))
    texts = [path.read_text() for path in paths]
    long = [_long(max(texts, key=len))]
    rates = [(_rate(long, _split), _rate(long, parse)) for _ in range(3)]
    print(json.dumps({
        "benchmark": "parse",
        "files": len(texts),
        "lines": sum(text.count("\n") for text in texts),
        "lines_per_s": round(_rate(texts, parse)),
        "lines_per_s_long": round(max(rate for _, rate in rates)),
        "times_split": round(min(split / rate for split, rate in rates), 2),
        "lines_per_s_grammar_only": round(
            _rate(texts[:20], lambda text: parse_with_spans(text, fast=False))),
        "python": platform.python_version(),
        "machine": platform.processor() or platform.machine(),
    }))


if __name__ == "__main__":
    main(sys.argv[1:])
