"""What the benchmarks of emulation share: the best of several runs, first runs, table and record.

    rows = Rows("emulation speed", "bench/emulate.py", size=1024)
    rows.add("bf16 mma.sync, exact", lambda: emulate(...))
    rows.finish(path)

A row has wall and processor seconds of its best run, each by itself: another process beside it
lengthens the first more than the second. The ratio is that to NumPy's own float32 product of the
same size in the same process, which carries from machine to machine better than seconds do.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Rows", "best", "options"]

_PRODUCT = "numpy float32 product"


def options(description: str | None) -> argparse.Namespace:
    """--size and --json."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def best(run: Callable[[], object], times: int = 5) -> tuple[float, float]:
    """The shortest wall and processor times of several runs, in seconds."""
    wall = processor = float("inf")
    for _ in range(times):
        start, used = time.perf_counter(), time.process_time()
        run()
        wall = min(wall, time.perf_counter() - start)
        processor = min(processor, time.process_time() - used)
    return wall, processor


class Rows:
    """The rows of one benchmark."""

    def __init__(self, what: str, script: str, *, size: int) -> None:
        self._what, self._script, self._size = what, script, size
        self._wall: dict[str, float] = {}
        self._processor: dict[str, float] = {}
        x = np.random.default_rng().normal(size=(size, size)).astype(np.float32)
        self.add(_PRODUCT, lambda: x @ x)

    def add(self, name: str, run: Callable[[], object], times: int = 5) -> None:
        """Another row: the best of so many runs."""
        self._wall[name], self._processor[name] = best(run, times)

    def add_first_runs(self, name: str, program: str) -> None:
        """A kernel's first run in a new process: with an empty cache, then with a full one.

        `program` prints its wall and processor seconds, imports not counted.
        """
        with tempfile.TemporaryDirectory() as cache:
            for tail, times in (("empty cache", 1), ("from cache", 3)):
                found = [_process(program, cache) for _ in range(times)]
                key = f"{name}, {tail}"
                self._wall[key], self._processor[key] = map(min, zip(*found, strict=True))

    def finish(self, path: Path | None) -> None:
        """Print the table, and write the record to `path`."""
        for name, seconds in self._wall.items():
            print(f"{name:36s} {seconds:8.3f} s {self._processor[name]:8.3f} s of processors"
                  f"   {seconds / self._wall[_PRODUCT]:7.1f} x NumPy's product")
        if path is not None:
            path.write_text(json.dumps(self._record(), indent=1) + "\n")

    def _record(self) -> dict[str, Any]:
        return {"what": self._what, "command": f"python {self._script} --size {self._size}",
                "size": self._size, "processors": len(os.sched_getaffinity(0)),
                "load": os.getloadavg()[0], "machine": platform.processor() or platform.machine(),
                "seconds": self._wall, "processor_seconds": self._processor,
                "date": datetime.now(UTC).date().isoformat()}


def _process(program: str, cache: str) -> tuple[float, float]:
    environment = {**os.environ, "MMALAB_CACHE": cache}
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=True,
                          capture_output=True, text=True)
    wall, processor = map(float, done.stdout.split())
    return wall, processor
