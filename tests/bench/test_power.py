"""Watts from a counter that moves in steps, and what is said where nothing can be read."""

from __future__ import annotations

import numpy as np
import pytest

from mmalab.bench.power import Meter, Reading, slope


def test_slope_ignores_the_ends() -> None:
    """A counter that is updated every 100 ms, read every 4 ms, from any phase: 700 W."""
    for phase in np.linspace(0, 0.1, 17):
        times = np.arange(0, 1.5, 0.004)
        points = [(float(t), 700.0 * np.floor((t + phase) / 0.1) * 0.1) for t in times]
        assert slope(points) == pytest.approx(700, rel=0.01)


def test_too_little_is_nothing() -> None:
    assert slope([]) is None
    assert slope([(0.0, 1.0), (1.0, 1.0)]) is None
    assert slope([(0.0, 1.0), (1.0, 2.0)]) is None


def test_without_nvml_there_are_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", absent)
    meter = Meter("00000000:00:06.0")
    meter.start()
    assert meter.stop() == Reading()
    assert "nvidia-ml-py" in meter.problem
