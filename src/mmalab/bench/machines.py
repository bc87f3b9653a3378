"""Rows over one or several GPUs: one process for each GPU, a fresh one after any failure.

A kernel that faults takes its process's context with it, so every GPU's rows run in a process of
its own that is replaced when a row came back with a problem; the other rows do not notice.
"""

from __future__ import annotations

import multiprocessing
import queue
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from typing import Any

from mmalab.bench.row import Row

__all__ = ["over_gpus"]

Record = dict[str, Any]


def over_gpus(rows: Sequence[Row], gpus: Sequence[int], measure: Callable[[Row, int], Record],
              done: Callable[[Record], object]) -> list[Record]:
    """Every row's record, in the order of the rows.

    Args:
        rows: what to measure.
        gpus: device numbers; rows go to whichever is free.
        measure: a row on a GPU; a function that another process can import.
        done: told each record as soon as it is there, from the thread of its GPU.
    """
    waiting: queue.SimpleQueue[tuple[int, Row]] = queue.SimpleQueue()
    for item in enumerate(rows):
        waiting.put(item)
    found: dict[int, Record] = {}

    def serve(gpu: int) -> None:
        for at, record in _served(gpu, waiting, measure):
            found[at] = record
            done(record)

    with ThreadPoolExecutor(max_workers=len(gpus)) as threads:
        for finished in [threads.submit(serve, gpu) for gpu in gpus]:
            finished.result()
    return [found[at] for at in range(len(rows))]


def _served(gpu: int, waiting: queue.SimpleQueue[tuple[int, Row]],
            measure: Callable[[Row, int], Record]) -> Iterable[tuple[int, Record]]:
    """The rows that one GPU takes, one after the other."""
    process = _fresh()
    try:
        while True:
            try:
                at, row = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                record = process.submit(measure, row, gpu).result()
            except BrokenProcessPool as died:
                record = _failed(row, gpu, f"the process on GPU {gpu} died: {died}")
            except Exception as failed:  # noqa: BLE001  (the other rows are worth measuring)
                record = _failed(row, gpu, f"{type(failed).__name__}: {failed}")
            if "problem" in record:
                process.shutdown(wait=False, cancel_futures=True)
                process = _fresh()
            yield at, record
    finally:
        process.shutdown(wait=False, cancel_futures=True)


def _failed(row: Row, gpu: int, problem: str) -> Record:
    return {"row": asdict(row), "gpu": gpu, "problem": problem}


def _fresh() -> ProcessPoolExecutor:
    # Spawned, not forked: a CUDA context does not survive a fork.
    return ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn"))
