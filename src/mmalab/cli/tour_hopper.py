"""The tour's Hopper part: a matmul with TMA and wgmma on the CPU, and what is said when it breaks.

The kernel is ours and clean. Each fault takes out or changes one instruction of its PTX; the run
names the missing edge, or explains why nobody can go on, where a GPU would hang or compute garbage.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from mmalab import ptx
from mmalab.cli.gemm import operands, run_gemm
from mmalab.cli.tour_steps import Outcome
from mmalab.findings import Finding
from mmalab.kernels import sm90_wgmma
from mmalab.ptx.kernel import Kernel
from mmalab.ptx.nodes import Instruction
from mmalab.sanitizer import emulate

__all__ = ["FAULTS", "faults", "matmul"]

Edit = Callable[[ptx.Editor, Instruction], None]

_SIZE = 256


@lru_cache(maxsize=1)
def _kernel() -> Kernel:
    return sm90_wgmma.gemm(128, _SIZE, 2 * _SIZE, plan=sm90_wgmma.Plan())


def matmul() -> Outcome:
    """Warp-specialised: TMA fills a ring, two warpgroups multiply; every bit is compared."""
    kernel = _kernel()
    found = run_gemm(kernel)
    counters = found["counters"]
    bits = "every bit equal" if found["bits_equal"] else "bits differ"
    lines = (
        f"{kernel.name}",
        (f"{counters['instructions.wgmma.mma_async']:,} wgmma (by warp), "
        f"{counters['instructions.cp.async.bulk.tensor']:,} tensor copies, "
        f"{counters['instructions.mbarrier.try_wait']:,} mbarrier waits"),
        f"sanitizer: {found['verdict']}",
        f"against the arithmetic of {found['unit']}: {bits}",
    )
    return Outcome(bool(found["bits_equal"] and found["verdict"] == "clean"), lines,
                   {"bits_equal": found["bits_equal"], "verdict": found["verdict"]})


def _remove(editor: ptx.Editor, node: Instruction) -> None:
    editor.remove(node)


def _announce_less(editor: ptx.Editor, node: Instruction) -> None:
    """128 bytes less than the copies bring."""
    editor.replace(node, re.sub(r"\d+;", lambda m: f"{int(m[0][:-1]) - 128};", node.text.strip()))


#: (what is done, to the first or last instruction whose opcode begins so, how, what is found).
FAULTS: tuple[tuple[str, str, int, Edit, str], ...] = (
    ("the products are read without a wait", "wgmma.wait_group", -1, _remove,
     "missing-wgmma-wait"),
    ("no wgmma.fence before the first product", "wgmma.fence", 0, _remove, "missing-wgmma-fence"),
    ("128 bytes too few announced", "mbarrier.arrive.expect_tx", 0, _announce_less, "tx-mismatch"),
    ("a stage is never given back", "mbarrier.arrive.shared", 0, _remove, "deadlock"),
)


def faults() -> Outcome:
    """One instruction wrong at a time: found, with its line and the cheapest repair."""
    lines: list[str] = []
    data: dict[str, list[str]] = {}
    ok = True
    for what, opcode, which, edit, expected in FAULTS:
        found = _broken(opcode, which, edit)
        codes = sorted({finding.code for finding in found})
        first = next((finding for finding in found if finding.code == expected), None)
        ok &= first is not None
        lines += [f"{what}: {', '.join(codes) or 'nothing found'}",
                  *([f"    {first}", ""] if first else [])]
        data[what] = codes
    return Outcome(ok, tuple(lines), data)


def _broken(opcode: str, which: int, edit: Edit) -> list[Finding]:
    """The findings of the kernel after one edit."""
    kernel = _kernel()
    module = ptx.parse(kernel.ptx)
    editor = ptx.Editor(module)
    named = [i for i in module.functions[0].instructions() if i.opcode.startswith(opcode)]
    edit(editor, named[which])
    broken = replace(kernel, ptx=editor.text())
    return [f for f in emulate(broken, operands(broken, 0)).findings if f.severity == "error"]
