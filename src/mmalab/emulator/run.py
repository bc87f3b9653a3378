"""Run a kernel: text, module or Kernel value in, results in place, a Run with what was seen.

    >>> import numpy as np
    >>> text = '''.version 8.0
    ... .target sm_80
    ... .address_size 64
    ... .visible .entry twice(.param .u64 x) {
    ...   .reg .b32 %r<3>; .reg .b64 %rd<3>;
    ...   ld.param.u64 %rd0, [x];
    ...   mov.u32 %r0, %tid.x;
    ...   mul.wide.u32 %rd1, %r0, 4;
    ...   add.s64 %rd2, %rd0, %rd1;
    ...   ld.global.u32 %r1, [%rd2];
    ...   shl.b32 %r2, %r1, 1;
    ...   st.global.u32 [%rd2], %r2;
    ...   ret;
    ... }'''
    >>> x = np.arange(4, dtype=np.uint32)
    >>> run = emulate(text, [x], block=4)
    >>> x.tolist(), run.verdict, run.counters["instructions"]
    ([0, 2, 4, 6], 'clean', 8)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from mmalab.emulator.arguments import bind
from mmalab.emulator.events import Listener
from mmalab.emulator.execute import fidelity_of
from mmalab.emulator.interpret import Interpreter
from mmalab.emulator.lower import lower
from mmalab.emulator.machine import Machine
from mmalab.emulator.memory import AddressSpace
from mmalab.emulator.program import Program
from mmalab.emulator.requests import (
    Extent,
    arguments,
    check_image,
    check_kernel,
    check_names,
    check_shape,
    cluster_of,
    in_ctas,
    schedule_of,
    three,
    whole,
)
from mmalab.emulator.state import LaunchShape
from mmalab.errors import LimitExceeded, UsageError
from mmalab.findings import Finding
from mmalab.findings import verdict as verdict_of
from mmalab.isa.form import Form
from mmalab.ptx import parse
from mmalab.ptx.kernel import Kernel
from mmalab.ptx.nodes import Module

__all__ = ["Run", "emulate"]

#: Makes a listener for one run: an object with ``on(event)`` and ``findings() -> list[Finding]``.
ListenerFactory = Callable[[Program, LaunchShape], Listener]
_COUNTERS = ("instructions", "shared.wavefronts", "shared.wavefronts.ideal", "global.bytes.read",
             "global.bytes.written", "tensor.flops", "tmem.columns.peak", "barrier.waits")
_MATRIX = frozenset({"mma.sync", "mma.sp", "wmma.mma"})


@dataclass(frozen=True, slots=True)
class Run:
    """What one run did: findings, counters, how exact each instruction form was."""

    findings: list[Finding]
    counters: dict[str, int]
    fidelity: dict[str, str]
    deadlock: dict[str, Any] | None = None
    program: Program | None = field(default=None, repr=False)

    @property
    def verdict(self) -> Literal["clean", "findings"]:
        """``findings`` when any finding is an error."""
        return verdict_of(self.findings)

    def as_dict(self) -> dict[str, Any]:
        """The run as JSON-able data, in the shape of the command line's ``--json``."""
        return {"verdict": self.verdict, "findings": [f.as_dict() for f in self.findings],
                "counters": self.counters, "fidelity": self.fidelity, "deadlock": self.deadlock}


def emulate(kernel: Kernel | Module | str, args: Sequence[Any], *, entry: str | None = None,
            grid: Extent | None = None, block: Extent | None = None,
            cluster: Extent | None = None, dynamic_shared: int | None = None,
            target: str | None = None, numerics: str = "exact",
            schedule: str | int = "eager", sanitize: bool = True, max_steps: int | None = None,
            listeners: Sequence[ListenerFactory] = (),
            executor: Callable[[Machine, int | None], None] | None = None) -> Run:
    """Execute a kernel on the CPU; arrays among `args` are read and written in place.

    Args:
        kernel: a Kernel value, a parsed module, or PTX text.
        args: one value per parameter: arrays for pointers, numbers and bytes by declared type.
        entry, grid, block, cluster, dynamic_shared: the launch; a Kernel brings its own.
        target: whose tensor-core arithmetic, "sm_90" ...; the module's own target if not given.
        numerics: "exact" or "fast".
        schedule: when asynchronous operations complete: "eager", "lazy", or a seed.
        sanitize: look for uninitialised reads, and feed the `listeners`.
        max_steps: warp instructions after which LimitExceeded is raised.
        listeners: factories of sanitizers.
        executor: runs the machine; the NumPy interpreter if not given.

    Raises:
        UsageError: arguments or launch that do not fit the kernel.
        UnsupportedInstruction: a form that this emulator does not execute, by name.
        LimitExceeded: the step or memory budget ran out.
    """
    args = arguments(args)
    check_kernel(kernel)
    check_names(target, numerics, entry)
    if max_steps is not None:
        max_steps = whole("max_steps", max_steps, least=1)
    if isinstance(kernel, Kernel):
        args = list(kernel.values(args))
    program = _program(kernel, entry)
    own_target = kernel.target if isinstance(kernel, Kernel) else program.target
    check_image(own_target, target or own_target)
    shape = _shape(program, kernel, grid, block, cluster, dynamic_shared, target or own_target)
    space = AddressSpace()
    for name, where, base, _, data in program.globals:
        space.add_bytes(name, np.frombuffer(data, np.uint8).copy(), space=where, base=base)
    space.set_params(bind(program, args, space))
    heard = [make(program, shape) for make in listeners] if sanitize else []
    machine = Machine(program, shape, space, target=target or own_target, numerics=numerics,
                      schedule=schedule_of(schedule), sanitize=sanitize, listeners=heard)
    try:
        if executor is None:
            Interpreter(machine, max_steps=max_steps).run()
        else:
            executor(machine, max_steps)
    except MemoryError as error:
        raise LimitExceeded(f"a launch of {shape.ctas} CTAs of {shape.threads} threads",
                            f"needs more memory than there is: {error}",
                            legal="fewer CTAs", where="mmalab.emulate") from None
    space.flush()
    run = _report(machine, heard)
    machine.release()
    return run


@lru_cache(maxsize=16)
def _parsed(text: str) -> Module:
    return parse(text)


def _program(kernel: Kernel | Module | str, entry: str | None) -> Program:
    if isinstance(kernel, Kernel):
        return lower(_parsed(kernel.ptx), kernel.entry if entry is None else entry)
    return lower(_parsed(kernel) if isinstance(kernel, str) else kernel, entry)


# --- the launch -----------------------------------------------------------------------------------

def _shape(program: Program, kernel: Kernel | Module | str, grid: Extent | None,
           block: Extent | None, cluster: Extent | None,
           dynamic_shared: int | None, target: str) -> LaunchShape:
    own = kernel if isinstance(kernel, Kernel) else None
    if block is None:
        block = own.block if own else program.required_block
    if block is None:
        raise UsageError("no block size", f"{program.entry} does not say its own (.reqntid)",
                         legal="block=(x, y, z); --block X,Y,Z", where="mmalab.emulate")
    shape = LaunchShape(
        in_ctas(program, three("grid", grid if grid is not None else own.grid if own else 1)),
        three("block", block),
        three("cluster", cluster_of(program, cluster, own)),
        whole("dynamic_shared", dynamic_shared if dynamic_shared is not None
              else own.dynamic_shared if own else 0))
    check_shape(program, shape, target)
    return shape


# --- the outcome ----------------------------------------------------------------------------------

def _report(machine: Machine, heard: Sequence[Listener]) -> Run:
    findings = [_with_count(f, machine.times[key]) for key, f in machine.findings.items()]
    for listener in heard:
        found = getattr(listener, "findings", None)
        findings.extend(found() if found else [])
    counters = dict.fromkeys(_COUNTERS, 0) | dict(machine.counters)
    fidelity: dict[str, str] = {}
    for site, count in zip(machine.program.sites, machine.counts.tolist(), strict=True):
        if count:
            counters["instructions"] += count
            name = f"instructions.{site.form.family}"
            counters[name] = counters.get(name, 0) + count
            fidelity[site.form.key] = _fidelity(machine, site.form)
    return Run(findings, counters, fidelity, machine.deadlock, machine.program)


def _fidelity(machine: Machine, form: Form) -> str:
    if machine.numerics == "fast" and form.flops and form.family in _MATRIX:
        return 'approximate: float32 products and sums (numerics="fast")'
    return fidelity_of(form)


def _with_count(finding: Finding, times: int) -> Finding:
    if times == 1:
        return finding
    return replace(finding, witness={**(finding.witness or {}), "times": times})
