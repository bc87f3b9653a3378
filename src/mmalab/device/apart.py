"""Many launches in a few processes, where a fault costs one launch and not the others.

A kernel that faults takes its process's context with it. So each process works through a range of
the tasks and sends back each result as it comes; when one says that the context is lost, the
process ends and a fresh one goes on behind it::

    results = each(partial(run_on_gpu, seed), 100, workers=4, lost=faulted)
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import TypeVar

from mmalab.errors import ToolError

__all__ = ["each"]

T = TypeVar("T")


def each(task: Callable[[int], T], count: int, *, workers: int,
         lost: Callable[[T], bool]) -> list[T]:
    """``[task(0), ..., task(count - 1)]``, computed in processes of their own.

    Args:
        task: a function that another process can import, of the number of a task.
        count: how many tasks.
        workers: how many processes at a time; each takes a range of the numbers.
        lost: whether a result says that its process can do nothing more.

    Raises:
        ToolError: a process died without a word.
    """
    context = multiprocessing.get_context("spawn")  # a CUDA context does not survive a fork
    found: dict[int, T] = {}

    def part(first: int, last: int) -> None:
        while first < last:
            mine, its = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(task, first, last, lost, its))
            process.start()
            its.close()
            begun = first
            try:
                while True:
                    number, found_here = mine.recv()
                    found[number], first = found_here, number + 1
            except EOFError:
                process.join()
            if first == begun or process.exitcode:
                raise ToolError(f"the process of task {first}", f"ended with {process.exitcode}",
                                where="mmalab.device.apart")

    step = -(-count // workers)
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda at: part(at, min(at + step, count)), range(0, count, step)))
    return [found[number] for number in range(count)]


def _work(task: Callable[[int], T], first: int, last: int, lost: Callable[[T], bool],
          pipe: Connection) -> None:
    """Do tasks in order until all are done or the process can do no more."""
    for number in range(first, last):
        got = task(number)
        pipe.send((number, got))
        if lost(got):
            break
    pipe.close()
