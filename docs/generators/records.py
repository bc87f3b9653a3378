"""Figures of the site, read from the committed records: no number is typed into a page.

Each function names the record that it reads; a record that lost a key fails the build.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from generators.markdown import code, table
from mmalab.bench import record

__all__ = ["RECORDS", "benches", "load", "measured", "table_of_records"]

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "records"


def load(name: str) -> Any:
    """One record below records/, parsed."""
    return json.loads((RECORDS / name).read_text(encoding="utf-8"))


def measured() -> str:
    """A table of what was measured: figure, record, and what remakes it."""
    ladder, wgmma, copies, clusters = (
        load(f"h200/{name}.json")
        for name in ("equality", "wgmma_equality", "tma_equality", "cluster_equality"))
    seconds = load("bench/emulate.json")["seconds"]
    rates = {row["what"]: row.get("GMAC/s") for row in load("bench/numerics.json")["rows"]}
    plain, checked = (seconds[f"bf16 mma.sync, exact{tail}"] for tail in ("", ", sanitized"))
    fp8, bf16 = (rates[f"{unit} 1024^3, 2 threads"]
                 for unit in ("sm_90.wgmma.e4m3.f32", "sm_80.mma.bf16.f32"))
    return table(("what", "figure", "record", "remade by"), [
        ("outputs of both ladders and of other products in which emulator and H200 differ in a bit",
         f"{ladder['mismatches']} of {ladder['outputs']:,}", *_told("h200/equality.json")),
        ("outputs of every `wgmma` form in which they differ",
         (f"{wgmma['mismatches']} of {wgmma['outputs']:,}; of outputs of words that the ISA does "
         f"not define, {wgmma['probe_mismatches']:,} of {wgmma['probe_outputs']:,}"),
         *_told("h200/wgmma_equality.json")),
        ("tensor copies in which they differ in any byte",
         (f"{sum(copies['differ'].values())} of {sum(copies['kernels'].values())} kernels"
          + (f" at the time; since then: {copies['since']}" if "since" in copies else "")),
         *_told("h200/tma_equality.json")),
        ((f"bytes that CTAs of clusters of {' and '.join(map(str, clusters['clusters']))} send "
          "each other in which they differ"), f"{clusters['mismatches']} of {clusters['bytes']:,}",
         *_told("h200/cluster_equality.json")),
        ("BF16 `mma.sync` GEMM 1024³ emulated exactly, without and with the sanitizer, 2 cores",
         f"{plain:.2f} s, {checked:.2f} s", *_told("bench/emulate.json")),
        ("exact accumulation of whole matrices, FP8 and BF16, 2 cores",
         f"{fp8:.1f} and {bf16:.1f} GMAC/s", code("records/bench/numerics.json"),
         code("bench/numerics.py")),
    ])


def _told(name: str) -> tuple[str, str]:
    """A record's path, and the command that it names itself."""
    return code(f"records/{name}"), code(load(name)["command"].removeprefix("PYTHONPATH=src "))


def benches() -> str:
    """The GEMM records of `mmalab bench`, as the tool that made them prints them."""
    rows = [row for path in sorted((RECORDS / "h200/bench").glob("*.json"))
            for row in json.loads(path.read_text(encoding="utf-8"))["rows"]]
    return record.markdown(rows)


def table_of_records() -> str:
    """Every record, with what it says of itself."""
    lines = []
    for path in sorted(RECORDS.rglob("*.json")):
        held = json.loads(path.read_text(encoding="utf-8"))
        device = held.get("device", held.get("machine", held.get("ptxas", held.get("toolkit", ""))))
        if isinstance(device, dict):
            device = device.get("name", device.get("processor", ""))
        elif isinstance(device, list):
            device = f"ptxas {', '.join(device)}"
        lines.append((code(str(path.relative_to(ROOT))), held.get("what", ""), str(device),
                      code(held.get("command", ""))))
    return table(("record", "what", "made on", "command"), lines)
