"""What limits a kernel, on a bed without a GPU: who is timed when, what is written and refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_bed import FakeBed, FakeSubject
from fed_kernels import operands
from host_gpu import host_gpu, seen
from numpy.typing import NDArray

import mmalab
from mmalab.bench import causes as module
from mmalab.bench.bed import BURST
from mmalab.bench.causes import Built, Case, build, measure, timed
from mmalab.bench.problem import Problem
from mmalab.bench.verify import Check
from mmalab.errors import UsageError

PROBLEM = Problem(8192, 8192, 8192)
CASE = Case("sm80_mma.gemm", 512, 256, 512, {"copy": "tma", "stages": 4, "sms": 2})


def test_all_take_turns() -> None:
    """Forwards, then backwards, so that nobody has the coolest chip."""
    bed = FakeBed(PROBLEM, drift=0.001)
    found = timed(bed, [FakeSubject(name, 1e-3) for name in "abc"], 2)  # type: ignore[arg-type]
    assert "".join(name for kind, name in bed.log if kind == BURST.name) == "abccba"
    means = [np.mean([block.seconds for block in found[name]]) for name in "abc"]
    assert means == pytest.approx([means[0]] * 3, rel=1e-5)


def test_only_kernels_that_a_ring_feeds() -> None:
    with pytest.raises(UsageError, match="has no role that fills"):
        build([Case("sm80_mma.gemm", 512, 256, 512, {})])


class OnTheEmulator:
    """A device that computes as the emulator does; a variant takes so long as its name says."""

    def __init__(self, patch: pytest.MonkeyPatch, built: Built, spoil: bool) -> None:
        self.built, self.spoil = built, spoil
        self.c: NDArray[Any] = np.zeros(0)
        self.trace = np.zeros(built.plan.shape, np.uint32)
        gpu = SimpleNamespace(enter=lambda: None, chip="sm_90", name="NVIDIA H200",
                              wait=lambda *_, **__: None)
        patch.setattr(module, "open_gpu", lambda index: gpu)
        patch.setattr(module, "arena", self.arena)
        patch.setattr(module, "bed", self.bed)
        patch.setattr(module, "KernelSubject", self.subject)
        patch.setattr(module, "verify", lambda arena, subject, seed: Check(
            subject.name, 0.0, 1.0, 1, 0, True))

    @contextmanager
    def arena(self, gpu: Any, problem: Problem, seed: int) -> Iterator[Any]:
        def allocate(size: int) -> int:
            assert size == self.trace.nbytes
            return 4096

        yield SimpleNamespace(gpu=gpu, problem=problem, sets=[0, 1], allocate=allocate,
                              poison=lambda: self.c.fill(0), result=lambda at: self.c.copy())

    @contextmanager
    def bed(self, gpu: Any, arena: Any) -> Iterator[FakeBed]:
        yield FakeBed(arena.problem)

    def subject(self, kernel: Any, arena: Any, name: str, more: Any) -> Any:
        made = FakeSubject(name, 0.9e-3 if "not written" in name else 1e-3,
                           facts={"unit": kernel.facts["unit"]})
        last = kernel.name.endswith("_traced")
        assert more == ({"trace": 4096} if last else None)

        def enqueue(at: int) -> None:
            args = operands(kernel) + ([np.zeros(self.trace.shape, np.uint32)] if last else [])
            mmalab.emulate(kernel, args, sanitize=False)
            self.c = args[2]
            if last:
                self.trace = args[3]
                self.c.view(np.uint32)[0, 0] ^= self.spoil

        made.enqueue = enqueue  # type: ignore[method-assign]
        return made


@pytest.fixture(scope="module")
def built() -> Built:
    (found,) = build([CASE])
    return found


@pytest.fixture
def device(built: Built, monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], OnTheEmulator]:
    def made(spoil: bool) -> OnTheEmulator:
        found = OnTheEmulator(monkeypatch, built, spoil)

        def read(operands: Any, plan: Any, subject: Any, place: int) -> NDArray[np.uint32]:
            subject.enqueue(0)
            return found.trace

        monkeypatch.setattr(module, "_trace", read)
        return found

    return made


@pytest.mark.toolkit
def test_a_case_is_measured(built: Built, device: Callable[[bool], OnTheEmulator]) -> None:
    """Shares of mma.sync's ceiling, what each variant lacks, ptxas's registers, the trace."""
    device(False)
    found = measure(built, rounds=2, seed=7)
    assert "problem" not in found
    assert found["seed"] == 7
    rows = {row["variant"]: row for row in found["rows"]}
    assert next(iter(rows)) == "all of it"
    assert list(rows)[-1] == "with its clocks read"
    whole = 2 * 512 * 256 * 512 / 1e-3 / (132 * 2730 * 1980e6)
    assert rows["all of it"]["share_percent"] == round(100 * whole, 2)
    assert rows["C not written"]["share_percent"] == pytest.approx(100 * whole / 0.9, abs=0.01)
    assert rows["products only"]["left_out"] == ("copy", "reads", "store")
    assert all(row["registers"] == 168 and row["spilled"] == 0 for row in rows.values())
    assert rows["all of it"]["blocks"] == [[1000.0, 1980.0]] * 2
    trace = found["trace"]
    assert trace["over_plain"]["median"] == 1
    assert trace["slice_of_products"] == round(2 * 256 * 128 * 64 / 2730, 1)
    assert trace["slices"] == 4 * 8 * 8


@pytest.mark.toolkit
def test_other_bits_are_refused(built: Built, device: Callable[[bool], OnTheEmulator]) -> None:
    device(True)
    found = measure(built, rounds=1, seed=7)
    assert "gives 1 other bytes than the plain kernel" in found["problem"]
    assert "rows" not in found


@pytest.mark.toolkit
def test_a_trace_is_of_its_own_launch(built: Built) -> None:
    """What lay in the buffer before is cleared, and what the last launch wrote is read back."""
    gpu = host_gpu()
    _, place = gpu.driver.cuMemAlloc(4 * int(np.prod(built.plan.shape)))
    words = seen(place, built.plan.shape, np.uint32)
    words[...] = 5
    launches: list[int] = []

    def enqueue(at: int) -> None:
        launches.append(at)
        assert len(launches) > 1 or not words.any()
        words[0, 0] = len(launches)

    subject: Any = SimpleNamespace(name="traced", enqueue=enqueue)
    operands: Any = SimpleNamespace(gpu=gpu, sets=[0, 1])
    found = module._trace(operands, built.plan, subject, place)
    assert launches == [0, 1, 0, 1]
    assert found[0, 0].tolist() == [4, 4]
    assert not found[1:].any()
