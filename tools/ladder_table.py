"""Compile every rung of the ladder and write what the assembler made of it.

    PYTHONPATH=src python tools/ladder_table.py                   # needs ptxas and nvdisasm

writes `records/compiled/sm80_mma_ladder.json` and, from it, the table in
`src/mmalab/kernels/sm80_mma/README.md`. Counts are per warp and slice of K of the main loop, of the
1024 x 1024 x 1024 kernel, without instructions that are predicated off for good. A kernel that
asks for more than the table's chip is compiled for the one that it names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mmalab.kernels import ladder
from mmalab.kernels.ladder import WHAT
from mmalab.ptx.kernel import Kernel
from mmalab.toolchain import Function, Loop, assemble

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "records/compiled/sm80_mma_ladder.json"
README = ROOT / "src/mmalab/kernels/sm80_mma/README.md"
BEGIN, END = "<!-- ladder: begin -->", "<!-- ladder: end -->"
SIZE, TARGET = 1024, "sm_89"
MATRIX = ("HMMA", "QMMA", "IMMA", "FFMA")
HEAD = ("rung", "what changes", "shared bytes", "registers", "instructions per slice",
        "of them matrix or FFMA", "LDSM, LDS", "LDGSTS, LDG", "other", "operations per instruction")


def compiled(name: str, kernel: Kernel) -> dict[str, Any]:
    """The figures of one rung."""
    target = kernel.target if kernel.target == "sm_90a" else TARGET
    cubin = assemble(kernel, target)
    (entry,) = cubin.sass.entries
    loop = _densest(entry) if kernel.facts.get("copy") == "tma" else entry.main_loop
    if loop is None or loop.flops is None:
        message = f"{name}: no main loop of countable operations"
        raise SystemExit(message)
    slices = kernel.facts["slices_per_iteration"]
    counts = {opcode: round(n / slices, 2) for opcode, n in sorted(loop.histogram().items())}
    return {
        "rung": name, **({"target": target} if target != TARGET else {}),
        "shared_bytes": kernel.facts["shared_bytes"],
        "registers": cubin.resources.registers, "spills": cubin.resources.spills,
        "threads": kernel.block[0], "slices_per_iteration": slices,
        "instructions": round(len(loop.issued) / slices, 2),
        "operations_per_instruction": round(loop.flops / len(loop.issued)), "opcodes": counts,
    }


def _densest(entry: Function) -> Loop:
    """The loop with the most matrix instructions for all: the slices, inside that of the tiles."""
    return max(entry.loops, key=lambda loop: loop.histogram()["HMMA"] / len(loop.issued))


def record() -> dict[str, Any]:
    """All rungs, and what made them."""
    rungs = {name: factory(SIZE, SIZE, SIZE) for name, factory in ladder("sm80_mma").items()}
    toolkit = assemble(rungs["textbook"], TARGET).toolkit
    return {"what": "main loops of the mma.sync ladder, per warp and slice of K",
            "command": "python tools/ladder_table.py", "toolkit": f"ptxas {toolkit}",
            "target": TARGET, "size": [SIZE, SIZE, SIZE],
            "rungs": [compiled(name, kernel) for name, kernel in rungs.items()]}


def table(data: dict[str, Any]) -> str:
    """The record as a Markdown table."""
    rows = [HEAD, tuple("---" for _ in HEAD), *(_row(rung) for rung in data["rungs"])]
    body = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    return (f"{BEGIN}\n{body}\n\nCompiled for {data['target']} by {data['toolkit']} at "
            f"{' x '.join(map(str, data['size']))}; `{data['command']}` remakes record and table.\n"
            f"{END}")


def _row(rung: dict[str, Any]) -> tuple[str, ...]:
    opcodes = dict(rung["opcodes"])
    parts = [sum(opcodes.pop(name, 0) for name in names)
             for names in (MATRIX, ("LDSM", "LDS"), ("LDGSTS", "LDG"))]
    registers = f"{rung['registers']}" + (f" ({rung['spills']} spilled)" if rung["spills"] else "")
    numbers = [rung["instructions"], *parts, sum(opcodes.values())]
    return (f"`{rung['rung']}`", WHAT[rung["rung"]], f"{rung['shared_bytes']:,}", registers,
            *(f"{n:.4g}" for n in numbers), f"{rung['operations_per_instruction']:,}")


def updated(readme: str, data: dict[str, Any]) -> str:
    """The README with its table replaced."""
    before, _, rest = readme.partition(BEGIN)
    return before + table(data) + rest.partition(END)[2]


def main() -> None:
    """Run the command."""
    data = record()
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(json.dumps(data, indent=1) + "\n")
    README.write_text(updated(README.read_text(), data))


if __name__ == "__main__":
    main()
