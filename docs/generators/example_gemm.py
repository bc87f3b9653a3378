"""The example of the first page: pyptx's Hopper GEMM, run unmodified and mended.

`tests/corpus/test_pyptx.py` holds the same runs to what they must show; this file shows them.
pyptx traces its kernel when the site is built, so the line numbers are those of that text.
"""

from __future__ import annotations

import functools
import re
import sys
import warnings
from pathlib import Path
from typing import Any

from generators.markdown import fence

__all__ = ["findings", "mended"]

CORPUS = Path(__file__).resolve().parents[2] / "tests" / "corpus"
sys.path.append(str(CORPUS))

import test_pyptx  # noqa: E402

_SIZE = (256, 512, 192)


@functools.cache
def _text() -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyptx warns that its table of instructions lacks mma
        kernel = test_pyptx.example(test_pyptx._HOPPER).gemm_warp_specialized  # noqa: SLF001
        return str(kernel.ptx(M=1024, N=1024, K=512))


@functools.cache
def _run(text: str) -> tuple[Any, bool]:
    """The run of one cluster, and whether every bit of C is right."""
    run, got, wanted = test_pyptx.hopper(text, *_SIZE)
    return run, test_pyptx.same_bits(got, wanted)


def _judged(text: str) -> str:
    run, right = _run(text)
    m, n, k = _SIZE
    words = "no bit" if right else "some bits"
    return (f"{len(text.splitlines()):,} lines of PTX, M {m}, N {n}, K {k}, one cluster of two "
            f"CTAs: {run.counters['instructions']:,} warp instructions, "
            f"{run.counters['tensor.flops']:,} tensor FLOPs, {words} of C differing from the "
            f"chip's sums rounded to BF16. Verdict: {run.verdict}, {len(run.findings)} findings.")


def findings() -> str:
    """What the run of the published text says."""
    run, _ = _run(_text())
    told = [re.sub(r"\. Repair: ", ".\n    repair: ", str(one)) for one in run.findings]
    return f"{_judged(_text())}\n\n{fence(chr(10).join(told), wrap=True)}"


def mended() -> str:
    """The added lines, and what the run says then."""
    text = test_pyptx.mended(_text())
    added: dict[str, int] = {}
    old = _text().splitlines()
    for line in text.splitlines():
        if line in old:
            old.remove(line)
        else:
            added[line.strip()] = added.get(line.strip(), 0) + 1
    told = "\n".join(f"+ {line}" + (f"    // {count} times" if count > 1 else "")
                     for line, count in added.items())
    return f"{fence(told, 'diff')}\n\n{_judged(text)}"
