"""Committed records of runs on a chip, as the claims read them.

A checkout has them in ``records/``; an installed package carries the same folder inside. Where
there is none, a claim that needs it is `not checkable here`.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from mmalab.errors import ToolError

__all__ = ["BENCH", "COPIES", "EQUALITY", "OCCUPANCY", "WARPGROUPS", "equality_mismatches",
           "largest_occupancy", "listed", "load"]

#: The ladder's kernels on an H200 against the emulator, and what the driver says of that chip.
EQUALITY = "records/h200/equality.json"
#: Tensor copies, and wgmma, on an H200 against the emulator; what its driver says of occupancy;
#: products timed and compared with cublasLt.
COPIES = "records/h200/tma_equality.json"
WARPGROUPS = "records/h200/wgmma_equality.json"
OCCUPANCY = "records/h200/occupancy.json"
BENCH = "records/h200/bench/mma.json"
_PLACES = (Path(__file__).parents[1] / "records", Path(__file__).parents[3] / "records")


@lru_cache(maxsize=8)
def load(name: str) -> Any:
    """The record ``records/NAME``.

    Raises:
        ToolError: it is not there.
    """
    for place in _PLACES:
        path = place / name.removeprefix("records/")
        if path.exists():
            return json.loads(path.read_text("utf-8"))
    raise ToolError(name, "is not installed", legal="a checkout, or the package's own records")


def listed(folder: str) -> tuple[str, ...]:
    """The records in a folder such as ``records/h200/bench``, by name; none where it is not."""
    for place in _PLACES:
        found = sorted((place / folder.removeprefix("records/")).glob("*.json"))
        if found:
            return tuple(f"{folder}/{path.name}" for path in found)
    return ()


def equality_mismatches(kernel: str) -> int:
    """Outputs in which an H200 and the emulator differed, over all recorded runs of a kernel.

    Raises:
        ToolError: no run of it is recorded.
    """
    rows = [row for row in load(EQUALITY)["cases"]
            if row["kernel"].startswith(kernel)]
    if not rows:
        raise ToolError(kernel, "no run of it is recorded", where=EQUALITY)
    return sum(row["mismatches"] for row in rows)


def largest_occupancy() -> dict[str, int]:
    """The most blocks, warps and registers that an H200's driver would make resident on an SM."""
    rows = load(OCCUPANCY)["rows"]  # registers of a thread, threads, shared bytes, blocks
    return {"blocks": max(blocks for _, _, _, blocks in rows),
            "warps": max(threads * blocks // 32 for _, threads, _, blocks in rows),
            "registers": max(registers * threads * blocks
                             for registers, threads, _, blocks in rows)}
