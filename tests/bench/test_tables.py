"""The README's table is what the tool makes of the committed records."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_tables", ROOT / "tools/bench_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readme_shows_the_records(tool: ModuleType) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    paths = sorted(tool.RECORDS.glob("*.json"))
    if tool.BEGIN not in readme:
        pytest.skip("the README has no table of measurements yet")
    assert tool.updated(readme, paths) == readme


def test_records_are_whole() -> None:
    """What every record must name, and that nothing was timed that had not been checked."""
    for path in sorted((ROOT / "records/h200/bench").glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        assert record["command"].startswith("mmalab bench gemm")
        assert record["evidence"] == "measured"
        assert {"name", "driver", "cuda", "power_limit"} <= set(record["device"])
        for row in record["rows"]:
            if "problem" in row:
                continue
            assert row["seed"] >= 0
            timed = {row[regime][side]["subject"] for regime in ("burst", "sustained")
                     if regime in row for side in ("ours", "baseline") if side in row[regime]}
            assert timed <= {check["subject"] for check in row["checks"] if not check["problem"]}
