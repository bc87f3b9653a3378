"""tools/gpu_faults.py without a GPU: the emulator predicts each fault; a promise that is broken, a
process that dies and a device that does not come back are told."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fake_driver import NAMES, fake_gpu
from pretend import INFO, tool

import mmalab
from mmalab.errors import ToolError

TOOL = tool("gpu_faults")
#: What the device of these tests answers, by the driver's word for it.
NUMBERS = {name: number for number, name in NAMES.items()}


def answer(fault: Any) -> int:
    """What its stream says of a fault: not ready for ever, or an error."""
    return 600 if fault.hangs else NUMBERS[fault.drivers[0]] if fault.drivers else 0


@pytest.fixture
def on_emulator(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A machine with one H200; launches that it answers well compute what the emulator does."""
    def made(number: int) -> None:
        gpu = fake_gpu(monkeypatch, query=number)
        launched = mmalab.launch

        def launch(kernel: Any, args: list[Any], **given: Any) -> Any:
            done = launched(kernel, args, **given)
            given.pop("patience", None)
            mmalab.emulate(kernel, args, **given)
            return done

        monkeypatch.setattr(mmalab, "launch", launch)
        monkeypatch.setattr(gpu, "attribute", lambda name: 232448, raising=False)
    return made


@pytest.mark.parametrize("fault", TOOL.FAULTS, ids=[fault.name for fault in TOOL.FAULTS])
def test_the_emulator_predicts_each(fault: Any) -> None:
    found = TOOL.predicted(fault)
    assert found["right"], found


@pytest.mark.parametrize("fault", [f for f in TOOL.FAULTS if f.make is None],
                         ids=[f.name for f in TOOL.FAULTS if f.make is None])
def test_promises_are_kept(on_emulator: Any, fault: Any) -> None:
    """Kernel, launch, driver, finding, what to do; and what the next launch says."""
    on_emulator(answer(fault))
    row = TOOL.one(fault, 0.01)
    assert row["kept"], row
    assert ("it is right" in row["next_launch"]) is fault.refused
    json.dumps(row)


def test_another_error_than_expected_is_a_broken_promise(on_emulator: Any) -> None:
    on_emulator(NUMBERS["LAUNCH_FAILED"])
    fault = next(f for f in TOOL.FAULTS if f.name == "misaligned, global")
    row = TOOL.one(fault, 0.01)
    assert not row["kept"]
    assert row["promises"]["the driver's word"] is False
    assert row["promises"]["the emulator's finding"] is True
    assert "BROKEN: the driver's word" in TOOL._line({
        **row, "process_seconds": 1.0, "process_ended": "by itself"})


def test_a_fault_that_the_device_does_not_have_is_told(on_emulator: Any) -> None:
    on_emulator(0)
    row = TOOL.one(next(f for f in TOOL.FAULTS if f.name == "trap"), 0.01)
    assert (row["kept"], row["said"]) == (False, "nothing: it ran, 1.5 ms")


def test_an_error_without_the_finding_is_a_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    def launch(*_: Any, **__: Any) -> Any:
        raise ToolError("kernel trapped on X", "CUDA_ERROR_LAUNCH_FAILED", where="x")

    monkeypatch.setattr(mmalab, "launch", launch)
    row = TOOL.one(next(f for f in TOOL.FAULTS if f.name == "trap"), 0.01)
    assert {name for name, kept in row["promises"].items() if not kept} == {
        "the launch", "the emulator's finding", "what to do", "of the next launch"}


class Process:
    """Stands for a process that prints `out`, or stays for ever."""

    def __init__(self, out: str, *, stays: bool = False) -> None:
        self.out, self.stays, self.returncode = out, stays, 0

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it prints, or that it does not end."""
        if self.stays:
            raise subprocess.TimeoutExpired("python", timeout or 0)
        return self.out, "its last words"

    def kill(self) -> None:
        """End it."""
        self.stays, self.returncode = False, -9


def test_a_process_that_stays_is_ended_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    row = json.dumps({"name": "hang, mbarrier", "kept": True, "promises": {}})
    monkeypatch.setattr(TOOL.subprocess, "Popen", lambda *_, **__: Process(row, stays=True))
    found = TOOL.apart("hang, mbarrier", 0.01)
    assert (found["process_ended"], found["exit"], found["kept"]) == ("killed", -9, True)
    monkeypatch.setattr(TOOL.subprocess, "Popen", lambda *_, **__: Process("no row"))
    found = TOOL.apart("trap", 0.01)
    assert (found["kept"], found["said"]) == (False, "its last words")


def test_no_second_hang_on_a_device_that_is_stuck(monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                                  capsys: pytest.CaptureFixture[str]) -> None:
    """After the first hang a fresh process cannot launch: the record says so, and stops."""
    ran: list[str] = []

    def apart(name: str, patience: float) -> dict[str, Any]:
        ran.append(name)
        return {"name": name, "kept": name != "alive", "promises": {}, "finds": "deadlock",
                "emulator": {"right": True}, "process_seconds": 1.0, "process_ended": "killed"}

    monkeypatch.setattr(TOOL, "apart", apart)
    monkeypatch.setattr(mmalab.device, "info", lambda gpu=0: INFO)
    out = tmp_path / "faults.json"
    assert TOOL.main(["--only", "hang", "--out", str(out)]) == 1
    assert ran == ["hang, mbarrier", "alive"]
    record = json.loads(out.read_text())
    assert record["rows"][0]["device_afterwards"]["kept"] is False
    assert "cannot launch: no further hang is tried" in capsys.readouterr().out
