"""Compiled execution: one primitive per instruction form, walked by a compiled interpreter."""

from __future__ import annotations

from collections import OrderedDict

from mmalab.emulator.machine import Machine
from mmalab.emulator.native.driver import ThreadedScheduler
from mmalab.emulator.native.threaded import ThreadedCode
from mmalab.emulator.program import Program

__all__ = ["ThreadedCode", "ThreadedScheduler", "code_for", "run_threaded"]


_KEPT = 32
#: Programs are kept by identity (lowering returns the same object for the same module).
_codes: OrderedDict[tuple[int, frozenset[str], frozenset[int]], ThreadedCode] = OrderedDict()


def _code(program: Program, options: frozenset[str], stops: frozenset[int]) -> ThreadedCode:
    key = (id(program), options, stops)
    found = _codes.pop(key, None)
    if found is None or found.program is not program:
        found = ThreadedCode(program, options, stops)
    _codes[key] = found
    while len(_codes) > _KEPT:
        _codes.popitem(last=False)
    return found


def code_for(machine: Machine, *, watched: bool = False, owners: bool = False,
             stops: frozenset[int] = frozenset()) -> ThreadedCode:
    """The machine's program as threaded code.

    `watched`: with the race filter's calls in it; `owners`: with those for global memory alone.
    `stops` are sites that Python executes although there is code for them.
    """
    options = {f"numerics:{machine.numerics}", f"target:{machine.target}"}
    if machine.schedule != "eager":
        options.add("deferred")
    if machine.shape.cluster != (1, 1, 1):
        options.add("cluster")
    if watched:
        options.add("filter")
    if owners:
        options.add("owners")
    return _code(machine.program, frozenset(options), stops)


def run_threaded(machine: Machine, max_steps: int | None = None) -> None:
    """Run the machine to its end; the executor of :func:`mmalab.emulator.run.emulate`."""
    ThreadedScheduler(machine, code_for(machine), max_steps=max_steps).run()
