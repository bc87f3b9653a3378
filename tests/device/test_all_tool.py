"""tools/gpu_all.py without a GPU: its steps are commands that exist, one that hangs or fails costs
the others nothing, and none begins that would not end in time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pretend import ROOT, tool

from mmalab.bench.tables import table_rows

TOOL = tool("gpu_all")


def step(name: str, program: str, expected: float = 0.1, limit: float = 30.0) -> object:
    return TOOL.Step(name, ("-c", program), expected, limit)


@pytest.mark.parametrize("step", TOOL.STEPS, ids=[step.name for step in TOOL.STEPS])
def test_steps_are_commands(step: object, tmp_path: Path) -> None:
    """Each is a tool or a verb that knows the options that it is given."""
    words = step.command(tmp_path, 2)  # type: ignore[attr-defined]
    if words[1:4] == ["-m", "mmalab", "bench"]:
        assert words[-4:] == ["--gpu", "0", "--gpu", "1"]
        assert table_rows([words[words.index("--table") + 1]])
    elif words[1] != "-m":
        done = subprocess.run([*words[:2], "--help"], capture_output=True, text=True, cwd=ROOT,
                              check=False)
        assert done.returncode == 0, done.stderr
        for option in (word for word in words[2:] if word.startswith("--")):
            assert option in done.stdout
    assert 0 < step.seconds(2) <= step.expected < step.limit  # type: ignore[attr-defined]


def test_a_step_that_hangs_or_fails_costs_the_others_nothing(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
        ) -> None:
    monkeypatch.setattr(TOOL, "STEPS", (
        step("hangs", "import time; print('before', flush=True); time.sleep(60)", limit=1.0),
        step("fails", "print('why'); raise SystemExit(3)"),
        step("long", "print('never')", expected=1000),
        step("fine", "import mmalab; print(mmalab.__version__)")))
    assert TOOL.main(["--out", str(tmp_path), "--budget", "60"]) == 1
    hangs, fails, long, fine, _ = capsys.readouterr().out.splitlines()
    assert "ended after 1 s; before" in hangs
    assert fails.split()[:3] == ["fails", "exit", "3"]
    assert fails.endswith("why")
    assert "not begun" in long
    assert fine.split()[:3] == ["fine", "exit", "0"]
    assert (tmp_path / "fails.log").read_text() == "why\n"
    assert (tmp_path / "records/h200/bench").is_dir()


def test_a_table_is_measured_by_the_verb(tmp_path: Path) -> None:
    """The whole command line, with one option more that measures nothing."""
    table = next(each for each in TOOL.STEPS if each.name == "bench-int8")
    done = subprocess.run([*table.command(tmp_path, 2), "--dry-run"], capture_output=True,
                          text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert "2 rows" in done.stderr


def test_faults_come_last() -> None:
    """What breaks contexts on purpose is behind everything else."""
    assert [each.name for each in TOOL.STEPS][-1] == "faults"


def test_the_dry_run_adds_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert TOOL.main(["--dry-run", "--steps", "wgmma", "bench-int8", "--gpus", "2"]) == 0
    wgmma, int8, total = capsys.readouterr().out.splitlines()
    seconds = [int(line.split()[1]) for line in (wgmma, int8)]
    assert int(total.split()[0]) == pytest.approx(sum(seconds), abs=1)
    assert sys.executable not in wgmma
