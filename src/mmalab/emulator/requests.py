"""What a caller may ask of a run: sizes, budgets and names, checked before anything starts.

Whatever is not understood is refused with what would be: a target that does not exist would choose
no arithmetic, a cluster of 1000 CTAs would show what no chip does.

    >>> three("block", (128, 2))
    (128, 2, 1)
    >>> three("grid", 2.5)
    Traceback (most recent call last):
      ...
    mmalab.errors.UsageError: grid 2.5: one to three positive sizes
      legal: (x, y, z)
      see:   mmalab.emulate
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any, Protocol

import numpy as np

from mmalab.emulator.program import SHARED_START, Program
from mmalab.emulator.state import LaunchShape
from mmalab.errors import UsageError
from mmalab.isa.targets import limits, runs_on
from mmalab.isa.targets import target as target_row
from mmalab.ptx.kernel import Kernel
from mmalab.ptx.nodes import Module

__all__ = ["Demands", "Extent", "arguments", "check_image", "check_kernel", "check_launch",
           "check_names", "check_shape", "cluster_of", "in_ctas", "schedule_of", "three", "whole"]

Extent = int | Sequence[int]

_WHERE = "mmalab.emulate"
_LIMITS = "CUDA programming guide, technical specifications"
_MAX_THREADS = 1024
_LANES = 32
#: Registers are given to warps in steps.
_STEP = 8
_MAX_BLOCK = (1024, 1024, 64)
_MAX_GRID = (2**31 - 1, 65535, 65535)


def whole(name: str, value: Any, *, least: int = 0, where: str = _WHERE) -> int:
    """`value` as a Python int.

    Raises:
        UsageError: not an integer, or below `least`.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise UsageError(f"{name} {value!r}", "is not an integer", legal=f"an integer from {least}",
                         where=where) from None
    if number < least:
        raise UsageError(f"{name} {number}", "too small", legal=f"{least} or more", where=where)
    return number


def three(name: str, extent: Any, *, where: str = _WHERE) -> tuple[int, int, int]:
    """One to three sizes as (x, y, z).

    Raises:
        UsageError: anything else.
    """
    try:
        sizes = [operator.index(extent)] if np.ndim(extent) == 0 else [
            operator.index(size) for size in extent]
    except (TypeError, ValueError):
        sizes = []
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise UsageError(f"{name} {extent}", "one to three positive sizes", legal="(x, y, z)",
                         where=where)
    x, y, z = [*sizes, 1, 1, 1][:3]
    return x, y, z


def arguments(args: Any) -> list[Any]:
    """The kernel's arguments as a list.

    Raises:
        UsageError: not a sequence.
    """
    if isinstance(args, np.ndarray) or not isinstance(args, Sequence):
        raise UsageError(f"args of type {type(args).__name__}", "is not a list of arguments",
                         legal="[array, 5, 1.5]", where=_WHERE)
    return list(args)


def check_kernel(kernel: Any) -> None:
    """Something that can be run.

    Raises:
        UsageError: neither text, nor a module, nor a kernel.
    """
    if not isinstance(kernel, (str, Module, Kernel)):
        raise UsageError(f"a kernel of type {type(kernel).__name__}", "cannot be run",
                         legal="PTX text, a parsed module, a Kernel", where=_WHERE)


def check_names(target: Any, numerics: Any, entry: Any = None) -> None:
    """The target and the numerics are known, and the entry is a name.

    Raises:
        UsageError: they are not.
    """
    if target is not None:
        if not isinstance(target, str):
            raise UsageError(f"target {target!r}", "is not a name", legal="sm_90", where=_WHERE)
        target_row(target)
    if not isinstance(entry, (str, type(None))):
        raise UsageError(f"entry {entry!r}", "is not a name", legal="the name of a .entry",
                         where=_WHERE)
    if not isinstance(numerics, str) or numerics not in ("exact", "fast"):
        raise UsageError(f"numerics {numerics!r}", "is not known", legal="exact, fast",
                         where=_WHERE)


def check_image(code: str, chip: str) -> None:
    """Code for one target runs on the chip of another.

    Raises:
        UsageError: it does not.
    """
    if not runs_on(code, chip):
        raise UsageError(f"code for {code}", f"does not run on {chip}",
                         legal=f".target {target_row(chip)}", where="PTX ISA, .target")


def schedule_of(schedule: Any) -> str | int:
    """``eager``, ``lazy`` or a seed; digits are a seed too.

    Raises:
        UsageError: anything else.
    """
    if isinstance(schedule, str) and (schedule in ("eager", "lazy") or schedule.isdecimal()):
        return int(schedule) if schedule.isdecimal() else schedule
    if isinstance(schedule, (int, np.integer)) and not isinstance(schedule, bool) and schedule >= 0:
        return int(schedule)
    raise UsageError(f"schedule {schedule!r}", "not a schedule",
                     legal="eager, lazy, or a seed of 0 or more", where=_WHERE)


class Demands(Protocol):
    """What a kernel's directives ask of its launches; a lowered program and a signature have it."""

    @property
    def entry(self) -> str:
        """The kernel's name."""

    @property
    def required_block(self) -> tuple[int, int, int] | None:
        """``.reqntid``."""

    @property
    def max_block(self) -> tuple[int, int, int] | None:
        """``.maxntid``."""

    @property
    def required_cluster(self) -> tuple[int, int, int] | None:
        """``.reqnctapercluster``."""

    @property
    def max_cluster(self) -> int:
        """``.maxclusterrank``; 0 where nothing is said."""

    @property
    def explicit_cluster(self) -> bool:
        """Whether there is ``.explicitcluster``."""

    @property
    def counts_clusters(self) -> bool:
        """Whether there is ``.blocksareclusters``."""


def cluster_of(kernel: Demands, given: Extent | None, own: Kernel | None) -> Extent:
    """The cluster of a launch: what is given, else the Kernel's, else what the PTX requires.

    ``.explicitcluster`` wants one of them to speak; a Kernel's cluster of one CTA says nothing.

    Raises:
        UsageError: nobody names a cluster although the kernel asks for it.
    """
    named = given if given is not None else own.cluster if own else None
    if (kernel.explicit_cluster and kernel.required_cluster is None
            and (named is None or (given is None and named == (1, 1, 1)))):
        raise UsageError("no cluster size", f"{kernel.entry} has .explicitcluster: a launch names "
                         "its cluster, also one of a single CTA",
                         legal="cluster=(x, y, z), --cluster X,Y,Z; or .reqnctapercluster in the "
                         "PTX", where="PTX ISA, .explicitcluster")
    return named if named is not None else kernel.required_cluster or 1


def in_ctas(kernel: Demands, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    """A launch's grid in CTAs: with ``.blocksareclusters`` it is given in clusters."""
    if not kernel.counts_clusters or kernel.required_cluster is None:
        return grid
    (x, y, z), (one, two, three_) = grid, kernel.required_cluster
    return x * one, y * two, z * three_


def check_shape(program: Program, shape: LaunchShape, target: str) -> None:
    """The launch is one that the kernel and the chip `target` allow.

    Raises:
        UsageError: it is not.
    """
    check_launch(program, shape, target, program.dynamic_offset - SHARED_START)
    _check_registers(program, shape)


def check_launch(kernel: Demands, shape: LaunchShape, target: str, static_shared: int) -> None:
    """The sizes are some that the kernel's directives and the chip `target` allow; its static
    shared memory counts with what the launch adds.

    Raises:
        UsageError: they are not.
    """
    if kernel.required_block and shape.block != kernel.required_block:
        raise UsageError(f"block {shape.block}", f"{kernel.entry} requires its .reqntid",
                         legal=str(kernel.required_block), where="PTX ISA, .reqntid")
    most = _MAX_THREADS
    if kernel.max_block:
        most = min(most, prod(kernel.max_block))
    if shape.threads > most or any(np.greater(shape.block, _MAX_BLOCK)):
        raise UsageError(f"block {shape.block}: {shape.threads} threads",
                         "more than the kernel and the chip allow",
                         legal=f"1 to {most} threads, at most {_MAX_BLOCK}", where=_LIMITS)
    if any(size > limit for size, limit in zip(shape.grid, _MAX_GRID, strict=True)):
        raise UsageError(f"grid {shape.grid}", "more than a launch can have",
                         legal=f"at most {_MAX_GRID}", where=_LIMITS)
    chip = limits(target)
    shared = static_shared + shape.dynamic_shared
    if shared > chip.shared_per_cta:
        raise UsageError(f"{shared} bytes of shared memory ({shape.dynamic_shared} dynamic)",
                         f"more than {target} has for a CTA",
                         legal=f"0 to {chip.shared_per_cta}", where=_LIMITS)
    _check_cluster(kernel, shape, target, chip.cluster)


def _check_registers(program: Program, shape: LaunchShape) -> None:
    """A kernel with setmaxnreg starts with all the registers that its directives fix."""
    each = program.launch_registers
    if not each or all(site.form.family != "setmaxnreg" for site in program.sites):
        return
    file = limits(program.target).registers_per_cta
    if each * shape.warps * _LANES > file:
        fits = file // (shape.warps * _LANES) // _STEP * _STEP
        raise UsageError(f"{each} registers for each of {shape.threads} threads",
                         f"are more than the {file} of an SM, so the kernel cannot start",
                         legal=f".maxnreg up to {fits}", where="PTX ISA, setmaxnreg")


def _check_cluster(kernel: Demands, shape: LaunchShape, target: str, most: int) -> None:
    size = prod(shape.cluster)
    if kernel.required_cluster and shape.cluster != kernel.required_cluster:
        raise UsageError(f"cluster {shape.cluster}",
                         f"{kernel.entry} requires its .reqnctapercluster",
                         legal=str(kernel.required_cluster), where="PTX ISA, .reqnctapercluster")
    if kernel.max_cluster and size > kernel.max_cluster:
        raise UsageError(f"cluster {shape.cluster}: {size} CTAs",
                         f"more than the .maxclusterrank of {kernel.entry}",
                         legal=f"1 to {kernel.max_cluster}", where="PTX ISA, .maxclusterrank")
    if size > max(most, 1):
        raise UsageError(f"cluster {shape.cluster}: {size} CTAs",
                         f"more than {target} has" if most else f"{target} has no clusters",
                         legal=f"1 to {max(most, 1)}", where=_LIMITS)
    if any(g % c for g, c in zip(shape.grid, shape.cluster, strict=True)):
        fits = tuple(-(-g // c) * c for g, c in zip(shape.grid, shape.cluster, strict=True))
        raise UsageError(f"grid {shape.grid}", f"not a multiple of the cluster {shape.cluster}",
                         legal=str(fits), where=_LIMITS)
