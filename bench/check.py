"""How long ``check`` takes on a kernel of two thousand lines: one JSON record on standard output.

    python bench/check.py [FILE.ptx ...]        default: the corpus of compilers' output

`ms_kernel` is the time for the corpus's file nearest to 2,000 lines, parsing included, in a process
that has checked other files before; `ms_kernel_first` is the same with nothing in the caches, which
is what ``mmalab check FILE`` does. `ms_per_1000_lines` is for all files. Processor time, the best
of several rounds (of one where caches must be cold).
"""

from __future__ import annotations

import json
import platform
import sys
import time
from pathlib import Path

from mmalab.checker import check
from mmalab.ptx import parse

CORPUS = Path(__file__).resolve().parent.parent / "tests" / "corpus" / "ptx"
ROUNDS = 5
KERNEL = 2000


def _seconds(texts: list[str], rounds: int) -> float:
    """Processor time of one pass over the texts, of the best round."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for text in texts:
            check(text)
        best = min(best, time.process_time() - start)
    return best


def main(names: list[str]) -> None:
    """Measure and print the record."""
    paths = [Path(name) for name in names] or sorted(CORPUS.glob("*.ptx"))
    texts = [path.read_text() for path in paths]
    kernel = min(texts, key=lambda text: abs(text.count("\n") - KERNEL))
    first = _seconds([kernel], 1)
    everything = _seconds(texts, 1)
    warm = _seconds([kernel], ROUNDS)
    start = time.process_time()
    parse(kernel)
    parsing = time.process_time() - start
    lines = sum(text.count("\n") for text in texts)
    print(json.dumps({
        "benchmark": "check",
        "files": len(texts),
        "lines": lines,
        "kernel_lines": kernel.count("\n"),
        "ms_kernel": round(1e3 * warm, 1),
        "ms_kernel_first": round(1e3 * first, 1),
        "ms_kernel_parse": round(1e3 * parsing, 1),
        "ms_per_1000_lines": round(1e6 * everything / lines, 1),
        "python": platform.python_version(),
        "machine": platform.processor() or platform.machine(),
    }))


if __name__ == "__main__":
    main(sys.argv[1:])
