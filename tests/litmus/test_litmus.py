"""The litmus set: every kernel gets its verdict, under every schedule."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mmalab import TensorMap
from mmalab.sanitizer.run import emulate

HERE = Path(__file__).parent
KERNELS = {row["entry"]: row for row in json.loads((HERE / "manifest.json").read_text())["kernels"]}
SCHEDULES: list[str | int] = ["eager", "lazy", 1, 2, 3]
CLEAN = [name for name, row in KERNELS.items() if row["expect"]["verdict"] == "clean"]


def arguments(row: dict[str, Any]) -> list[np.ndarray]:
    """The arrays of a manifest row: inputs from files, outputs poisoned."""
    arrays = []
    for spec in row["args"]:
        role, *fields = spec.removeprefix("tma:").split(":")
        if role == "out":
            shape = tuple(int(n) for n in fields[0].split(","))
            arrays.append(np.full(shape, 0xDEADBEEF, np.uint32))
        else:
            arrays.append(np.load(HERE / fields[0]).copy())
    return arrays


def launchable(spec: str, array: np.ndarray) -> Any:
    """The argument of one spec: the array, or a tensor map over it."""
    if not spec.startswith("tma:"):
        return array
    options = dict(field.split("=") for field in spec.split(":") if "=" in field)
    box = tuple(int(n) for n in options["box"].split(","))
    return TensorMap.tiled(array, box=box, swizzle=options["swizzle"])


@cache
def run(name: str, schedule: str | int) -> tuple[Any, list[np.ndarray]]:
    """One run of one kernel, shared by the tests that look at it."""
    row = KERNELS[name]
    arrays = arguments(row)
    text = (HERE / "kernels" / row["file"]).read_text()
    args = [launchable(*pair) for pair in zip(row["args"], arrays, strict=True)]
    result = emulate(text, args, entry=row["entry"], grid=tuple(row["grid"]),
                     block=tuple(row["block"]), cluster=tuple(row.get("cluster", (1, 1, 1))),
                     dynamic_shared=row["shared"], schedule=schedule, max_steps=200_000)
    return result, arrays


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", KERNELS)
def test_verdict(name: str, schedule: str | int) -> None:
    """The verdict, one of the accepted codes, and the severity are as the manifest says."""
    expect = KERNELS[name]["expect"]
    findings = run(name, schedule)[0].findings
    told = [str(finding) for finding in findings]
    serious = {f.code: f.severity for f in findings if f.severity != "note"}
    if expect["verdict"] == "clean":
        assert not serious, told
        return
    assert set(serious) & set(expect["any_of"]), told
    worst = "error" if "error" in serious.values() else "warning"
    assert worst == expect["severity"], told


@pytest.mark.parametrize("name", CLEAN)
def test_clean_kernels_give_one_result(name: str) -> None:
    """A clean kernel's outputs do not depend on the schedule."""
    first = run(name, SCHEDULES[0])[1]
    for schedule in SCHEDULES[1:]:
        for one, other in zip(first, run(name, schedule)[1], strict=True):
            np.testing.assert_array_equal(one, other)
