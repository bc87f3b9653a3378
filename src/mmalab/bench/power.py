"""Power, clock and throttle reasons while work runs, sampled from NVML by a thread.

NVML's energy counter moves in steps of some 20 to 100 ms, so the power of a block is the slope
between the first and the last step seen inside it, not the difference of two readings at its ends::

    >>> slope([(0.0, 5.0), (0.02, 5.0), (0.10, 61.0), (0.15, 61.0), (0.20, 131.0)])
    700.0

Every reading is of the whole board. NVML's clock is recorded as well; on an H200 it lies above what
the SMs count themselves (see :mod:`mmalab.bench.clock`).
"""

from __future__ import annotations

import importlib
import itertools
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mmalab.errors import ToolError

__all__ = ["Meter", "Reading", "board", "slope"]

_INTERVAL_S = 0.004
#: NVML field of the power at this moment (plain nvmlDeviceGetPowerUsage is a mean of one second).
_POWER_INSTANT = 186
#: Throttle reasons by bit.
_REASONS = {0x1: "idle", 0x2: "application clocks", 0x4: "software power cap", 0x8: "slowdown",
            0x10: "sync boost", 0x20: "software thermal", 0x40: "hardware thermal",
            0x80: "power brake", 0x100: "display clocks"}


@dataclass(frozen=True, slots=True)
class Reading:
    """What was sampled during one block; None where NVML does not say."""

    watts: float | None = None
    #: Mean of the power samples, the cross-check of `watts`.
    sampled_watts: float | None = None
    nvml_mhz: float | None = None
    reasons: tuple[str, ...] = ()
    samples: int = 0


@dataclass
class _Samples:
    energy: list[tuple[float, float]] = field(default_factory=list)
    power: list[float] = field(default_factory=list)
    clock: list[float] = field(default_factory=list)
    reasons: int = 0


def slope(points: Sequence[tuple[float, float]]) -> float | None:
    """Watts from (seconds, joules): between the first and the last change; None without two."""
    changes = [late for early, late in itertools.pairwise(points) if late[1] != early[1]]
    if len(changes) < 2:
        return None
    (t0, e0), (t1, e1) = changes[0], changes[-1]
    return round((e1 - e0) / (t1 - t0), 6)


class Meter:
    """Samples between :meth:`start` and :meth:`stop`; without NVML the readings are empty.

    `problem` says why, in one line, when something could not be read.
    """

    def __init__(self, bus: str) -> None:
        self.problem = ""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._samples = _Samples()
        try:
            self._nvml, self._handle = _open(bus)
        except ToolError as failed:
            self.problem = str(failed).splitlines()[0]
            self._nvml = None

    def start(self) -> None:
        """Begin to sample."""
        self._samples = _Samples()
        if self._nvml is None:
            return
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> Reading:
        """End, and what was read since :meth:`start`."""
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None
        seen = self._samples
        return Reading(
            slope(seen.energy), statistics.fmean(seen.power) if seen.power else None,
            statistics.fmean(seen.clock) if seen.clock else None,
            tuple(name for bit, name in _REASONS.items() if seen.reasons & bit),
            len(seen.energy))

    def _run(self) -> None:
        nvml, handle, seen = self._nvml, self._handle, self._samples
        readers: tuple[Callable[[], Any], ...] = (
            lambda: seen.energy.append((time.monotonic(), nvml.nvmlDeviceGetTotalEnergyConsumption(
                handle) / 1000)),
            lambda: seen.power.append(_instant_power(nvml, handle)),
            lambda: seen.clock.append(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            lambda: setattr(seen, "reasons", seen.reasons
                            | nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)),
        )
        while not self._stop.is_set():
            for read in readers:
                try:
                    read()
                except nvml.NVMLError as failed:
                    self.problem = self.problem or str(failed)
            self._stop.wait(_INTERVAL_S)


def _instant_power(nvml: Any, handle: Any) -> float:
    (value,) = nvml.nvmlDeviceGetFieldValues(handle, [_POWER_INSTANT])
    if value.nvmlReturn:
        return float(nvml.nvmlDeviceGetPowerUsage(handle)) / 1000
    return float(value.value.uiVal) / 1000


def _open(bus: str) -> tuple[Any, Any]:
    """NVML and its handle of the device at PCI address `bus`.

    Raises:
        ToolError: NVML is not there, or does not know the device.
    """
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError as failed:
        raise ToolError("nvidia-ml-py", f"cannot be imported: {failed}",
                        legal="pip install 'mmalab[gpu]'", where="mmalab doctor") from None
    try:
        nvml.nvmlInit()
        return nvml, nvml.nvmlDeviceGetHandleByPciBusId(bus)
    except nvml.NVMLError as failed:
        raise ToolError("NVML", f"does not answer for device {bus}: {failed}",
                        where="mmalab doctor") from None


def board(bus: str) -> dict[str, Any]:
    """The board's limits, which a record names: power, clocks, ECC, MIG, temperature."""
    try:
        nvml, handle = _open(bus)
    except ToolError as failed:
        return {"problem": str(failed).splitlines()[0]}
    asked: dict[str, Callable[[], Any]] = {
        "driver": nvml.nvmlSystemGetDriverVersion,
        "power_limit_watts": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
        "max_sm_mhz": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
        "memory_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
        "ecc": lambda: bool(nvml.nvmlDeviceGetEccMode(handle)[0]),
        "mig": lambda: bool(nvml.nvmlDeviceGetMigMode(handle)[0]),
        "celsius": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
    }
    found: dict[str, Any] = {}
    for key, ask in asked.items():
        try:
            found[key] = ask()
        except nvml.NVMLError as failed:
            found[key] = f"not known: {failed}"
    return found
