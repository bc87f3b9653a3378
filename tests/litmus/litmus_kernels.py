"""The litmus set as data: rows of the manifest, their arguments, their verdicts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mmalab import TensorMap

__all__ = ["KERNELS", "check_verdict", "launch"]

HERE = Path(__file__).parent
KERNELS: dict[str, dict[str, Any]] = {
    row["entry"]: row for row in json.loads((HERE / "manifest.json").read_text())["kernels"]}


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


def launch(emulate: Callable[..., Any], name: str, **options: Any) -> tuple[Any, list[np.ndarray]]:
    """One run of one kernel by `emulate`: the run, and its arrays afterwards."""
    row = KERNELS[name]
    arrays = arguments(row)
    text = (HERE / "kernels" / row["file"]).read_text()
    args = [launchable(*pair) for pair in zip(row["args"], arrays, strict=True)]
    run = emulate(text, args, entry=row["entry"], grid=tuple(row["grid"]),
                  block=tuple(row["block"]), cluster=tuple(row.get("cluster", (1, 1, 1))),
                  dynamic_shared=row["shared"], max_steps=200_000, **options)
    return run, arrays


def check_verdict(name: str, findings: list[Any]) -> None:
    """The verdict, one of the accepted codes, and the severity are as the manifest says."""
    expect = KERNELS[name]["expect"]
    told = [str(finding) for finding in findings]
    serious = {f.code: f.severity for f in findings if f.severity != "note"}
    if expect["verdict"] == "clean":
        assert not serious, told
        return
    assert set(serious) & set(expect["any_of"]), told
    worst = "error" if "error" in serious.values() else "warning"
    assert worst == expect["severity"], told
