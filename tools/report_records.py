"""Write the records that ``mmalab report`` draws and that need an assembler or many runs to make.

    PYTHONPATH=src python tools/report_records.py                 # all of them
    PYTHONPATH=src python tools/report_records.py drain           # one

``pipeline`` runs the Hopper pipeline of tests/mutants and each of its faults through the sanitizer;
``drain`` assembles the loads of Tensor Memory (needs the toolchain extra).
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
from mutants.faults import MUTANTS  # noqa: E402
from mutants.hopper_pipeline import BLOCK, CLUSTER, GRID, SHARED, Fault, text  # noqa: E402

import mmalab  # noqa: E402
from mmalab import atlas  # noqa: E402
from mmalab.findings import Finding  # noqa: E402

COMMAND = "PYTHONPATH=src python tools/report_records.py"
#: A deadlock of many warps is told by its different waits, this many of them.
MOST_WAITS = 6


def save(path: Path, record: Mapping[str, Any], rows: str) -> None:
    """The record as JSON with one line for each of its `rows`."""
    head = {name: value for name, value in record.items() if name != rows}
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in record[rows])
    text_of = json.dumps(head, indent=1, ensure_ascii=False)[:-2]
    path.write_text(f'{text_of},\n "{rows}": [\n{lines}\n]}}\n', encoding="utf-8")


def today() -> str:
    """The date of a record."""
    return dt.datetime.now(tz=dt.UTC).date().isoformat()


# --- the pipeline and its faults ------------------------------------------------------------------

def run(fault: Fault) -> tuple[str, Any]:
    """The PTX and the run of one variant, on fresh operands and a poisoned output."""
    rng = np.random.default_rng()
    dtype = np.dtype(ml_dtypes.bfloat16)
    a = rng.standard_normal((256, 256)).astype(dtype)
    b = rng.standard_normal((128, 256)).astype(dtype)
    c = np.full((256, 128), np.nan, dtype)
    tiled = mmalab.TensorMap.tiled
    maps = [tiled(a, box=(64, 128), swizzle="128B"), tiled(b, box=(64, 32), swizzle="128B"),
            tiled(c, box=(64, 64), swizzle="128B")]
    ptx = text(fault)
    return ptx, mmalab.emulate(ptx, maps, grid=GRID, block=BLOCK, cluster=CLUSTER,
                               dynamic_shared=SHARED)


def told(ptx: str, finding: Finding) -> dict[str, Any]:
    """One finding with the line of PTX that it names, and a deadlock's causes and waits."""
    line = finding.where.line
    found: dict[str, Any] = {
        "code": finding.code, "severity": finding.severity, "where": str(finding.where),
        "message": finding.message, "line": line,
        "ptx": ptx.splitlines()[line - 1].strip() if line else "",
    }
    witness = finding.witness or {}
    if finding.code == "deadlock":
        found["causes"] = [{"words": each["words"], "repair": each["repair"]}
                           for each in witness["causes"]]
        found["waits"] = waits(witness["waiting"])
    return found


def waits(waiting: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Who waits, warps with the same instruction and reason together."""
    alike: dict[tuple[Any, ...], list[str]] = {}
    for each in waiting:
        key = (each["cta"][0], each["line"], each["instruction"], each["because"],
               each["released_by"])
        alike.setdefault(key, []).append(str(each["warp"]))
    return [{"cta": cta, "warps": ", ".join(warps), "line": line, "instruction": instruction,
             "because": because, "released_by": released}
            for (cta, line, instruction, because, released), warps in alike.items()][:MOST_WAITS]


def step_of(fault: Fault) -> str:
    """The step that is left out or changed."""
    return next(iter(fault.without or fault.values))


def pipeline() -> None:
    """Every fault, what should be said of it, and what was."""
    _, clean = run(Fault())
    rows = []
    for name, mutant in MUTANTS.items():
        ptx, result = run(mutant.fault)
        serious = [f for f in result.findings if f.severity != "note"]
        named = next((f for f in serious if f.code in mutant.codes), None)
        codes = Counter(f.code for f in serious)
        rows.append({
            "name": name, "what": mutant.what, "step": step_of(mutant.fault),
            "left_out": bool(mutant.fault.without), "expected": list(mutant.codes),
            "found": dict(codes), "caught": named is not None,
            "finding": told(ptx, named) if named else None,
        })
    counters = clean.counters
    save(ROOT / "records" / "pipeline_faults.json", {
        "what": "a Hopper pipeline, clean and with one fault at a time, through the sanitizer",
        "command": f"{COMMAND} pipeline", "date": today(), "mmalab": mmalab.__version__,
        "clean": {
            "verdict": "clean" if not clean.findings else "findings",
            "instructions": counters["instructions"], "flops": counters["tensor.flops"],
            "ptx_lines": len(text().splitlines()), "barrier_waits": counters["barrier.waits"],
            "grid": GRID, "block": BLOCK, "cluster": CLUSTER, "shared": SHARED,
        },
        "faults": rows,
    }, "faults")


# --- what ptxas makes of the loads of Tensor Memory ----------------------------------------------

def drain() -> None:
    """Registers of every load, and the allocator, by release."""
    releases = ("12.9", "13.5")
    rows = [{"toolkit": point.toolkit, "shape": point.shape, "num": point.num,
             "loaded": point.loaded, "registers": point.registers, "spills": point.spills,
             "opcodes": dict(point.opcodes)}
            for release in releases for point in atlas.drain(toolkit=release)]
    allocators = [{"toolkit": found.toolkit, "opt_level": level,
                   "instructions": found.instructions, "references": found.references,
                   "handlers": dict(found.handlers), "retries": found.retries}
                  for release in releases for level in range(4)
                  if (found := atlas.allocator(release, level))]
    save(ROOT / "records" / "compiled" / "tensor_memory.json", {
        "what": "registers that tcgen05.ld takes, and the allocator around tcgen05.alloc",
        "command": f"{COMMAND} drain", "date": today(), "target": "sm_100a",
        "allocators": allocators, "drain": rows,
    }, "drain")


RECORDS: dict[str, Callable[[], None]] = {"pipeline": pipeline, "drain": drain}


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*RECORDS, []], help="which; all without")
    for name in parser.parse_args().names or RECORDS:
        RECORDS[name]()
        print(name)


if __name__ == "__main__":
    main()
