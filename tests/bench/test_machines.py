"""Rows over several devices: each in a process of its own, which a failure replaces."""

from __future__ import annotations

import os
from typing import Any

from mmalab.bench.machines import over_gpus
from mmalab.bench.row import Row


def measured(row: Row, gpu: int) -> dict[str, Any]:
    """Stands for a measurement; what it returns says where it ran."""
    if row.title == "dies":
        os._exit(7)
    found: dict[str, Any] = {"row": {"title": row.title}, "gpu": gpu, "pid": os.getpid()}
    return found | {"problem": "a fault"} if row.title == "faults" else found


def test_a_failure_costs_one_row_and_one_process() -> None:
    titles = ["first", "second", "faults", "third", "dies", "fourth"]
    rows = [Row(title, 1, 1, 1, "none.none") for title in titles]
    told: list[str] = []
    found = over_gpus(rows, [0], measured, lambda record: told.append(record["row"]["title"]))
    assert [record["row"]["title"] for record in found] == titles == told
    pids = [record.get("pid") for record in found]
    assert pids[0] == pids[1] == pids[2]
    assert pids[3] not in (None, pids[2])
    assert pids[4] is None
    assert "died" in found[4]["problem"]
    assert pids[5] not in (None, pids[3])


def test_every_device_takes_rows() -> None:
    """Nothing is lost or done twice, and the order of the records is that of the rows."""
    rows = [Row(str(at), 1, 1, 1, "none.none") for at in range(6)]
    found = over_gpus(rows, [0, 1], measured, lambda record: None)
    assert [record["row"]["title"] for record in found] == [row.title for row in rows]
    assert {record["gpu"] for record in found} <= {0, 1}
