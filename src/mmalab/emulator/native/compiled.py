"""From a program to machine code: which sites have code, the module's text, LLVM, the cache.

The divergent twin is compiled only when a warp first diverges: most kernels never do, and it is
half of the compile time. Object files are cached on disk under the hash of their text, so a second
process compiles nothing.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.native.emit import FunctionWriter
from mmalab.emulator.native.filter import functions as filter_functions
from mmalab.emulator.native.generate import GENERATORS, KNOWN, special
from mmalab.emulator.native.regions import (
    Region,
    cut,
    is_branch,
    is_cta_barrier,
    is_exit,
    live_after,
)
from mmalab.emulator.native.runtime import runtime
from mmalab.emulator.native.schedule import run_cta
from mmalab.emulator.native.scope import Scope
from mmalab.emulator.native.step import SiteWriter, StepWriter
from mmalab.emulator.program import Guarded, Imm, Op, Program, Site, Special, Symbol, Vec
from mmalab.numerics.native import Handle, load

__all__ = ["Compiled"]


def _operands(ops: Iterable[Op]) -> Iterable[Op]:
    for op in ops:
        if isinstance(op, Vec):
            yield from _operands(op.items)
        else:
            yield op


def _signature(op: Op) -> object:
    """What a generator's decision may depend on: the kind of operand, and literals."""
    if isinstance(op, (Imm, Symbol)):
        return ("literal", op.word)
    if isinstance(op, Special):
        return op.name
    if isinstance(op, Vec):
        return tuple(_signature(item) for item in op.items)
    if isinstance(op, Guarded):
        return ("guarded", op.negated)
    return (type(op).__name__, getattr(op, "file", ""), getattr(op, "bits", 0))


class _Probe:
    """Finds the sites that have code, by letting the generators write into the bin."""

    def __init__(self, program: Program, options: AbstractSet[str]) -> None:
        self.program, self.options = program, options
        self._known: dict[object, bool] = {}

    def stops(self, *, masked: bool) -> frozenset[int]:
        """Sites without code in this cut."""
        return frozenset(s.index for s in self.program.sites if not self._has_code(s, masked))

    def _has_code(self, site: Site, masked: bool) -> bool:
        if is_branch(site):
            return True
        if is_exit(site):
            return site.guard is None
        if is_cta_barrier(site):
            return not masked
        if site.form.family not in GENERATORS or any(
            isinstance(op, Special) and op.name not in KNOWN for op in _operands(site.operands)
        ):
            return False
        key = (site.form.key, tuple(_signature(op) for op in site.operands),
               site.guard is None, masked)
        if key not in self._known:
            self._known[key] = self._try(site, masked=masked)
        return self._known[key]

    def _try(self, site: Site, *, masked: bool) -> bool:
        step = StepWriter(self.program, (), frozenset(), {}, GENERATORS, special, masked=masked,
                          options=self.options)
        scope = Scope(step.frame, step.mask(), special)
        writer = SiteWriter(step, scope, site, scope.active(site.guard))
        return GENERATORS[site.form.family](writer)


class Compiled:
    """A program's machine code. `run_cta(context address) -> reason`."""

    def __init__(self, program: Program, *, numerics: str = "exact",
                 options: AbstractSet[str] = frozenset()) -> None:
        self.program = program
        self.options = frozenset(options) | {f"numerics:{numerics}"}
        self._lock = threading.Lock()
        self._probe = _Probe(program, self.options)
        #: Sites that the NumPy executors run even for full warps.
        self.stops = self._probe.stops(masked=False)
        self.full = cut(program, self.stops)
        self.masked: tuple[Region, ...] | None = None
        self._handles: list[object] = []
        self.run_cta = self._compile()

    @property
    def regions(self) -> int:
        """Length of the run counters: full regions first, then masked ones."""
        return len(self.full) + len(self.program.sites) + 1

    def compile_masked(self) -> None:
        """Compile the divergent twin too."""
        with self._lock:
            if self.masked is None:
                self.masked = cut(self.program, self._probe.stops(masked=True))
                self.run_cta = self._compile()

    def _compile(self) -> Callable[[int], int]:
        watched = "filter" in self.options
        full = self._step(self.full, self.stops, masked=False)
        texts = [full.text()]
        helpers, functions = dict(full.helpers), [full.f]
        if self.masked is not None:
            stops = self._probe.stops(masked=True)
            masked = self._step(self.masked, stops, masked=True)
            texts.append(masked.text())
            helpers.update(masked.helpers)
            functions.append(masked.f)
        scheduler = run_cta(masked=self.masked is not None, watched=watched)
        functions.append(scheduler)
        texts.append(scheduler.text())
        library = _library()
        defined = {f.name for f in functions} | set(helpers)
        declared = _declarations(functions, defined)
        text = "\n".join([self._coarse(), *helpers.values(), *texts, *declared.values()])
        externals = {name: library.address(name) for name in declared if name in _LIBRARY}
        handle = load(text, {"run_cta": (ctypes.c_int32, ctypes.c_void_p)}, externals)
        self._handles.append(handle)
        found: Callable[[int], int] = handle["run_cta"]
        return found

    def _step(self, regions: tuple[Region, ...], stops: AbstractSet[int], *,
              masked: bool) -> StepWriter:
        return StepWriter(self.program, regions, stops, live_after(self.program, regions),
                          GENERATORS, special, masked=masked, options=self.options,
                          first_counter=len(self.full) if masked else 0)

    def _coarse(self) -> str:
        """A byte per site: whether full code can start there."""
        starts = {region.start for region in self.full}
        count = len(self.program.sites) + 1
        bytes_ = ", ".join(f"i8 {int(i in starts)}" for i in range(count))
        return f"@coarse = internal constant [{count} x i8] [{bytes_}]"

    # --- counters

    def _counted(self) -> list[tuple[int, Region]]:
        numbered = list(enumerate(self.full))
        masked = self.masked or ()
        return numbered + [(len(self.full) + r.number, r) for r in masked]

    def site_runs(self, runs: NDArray[np.int64]) -> NDArray[np.int64]:
        """[sites] executions, from [threads, regions] run counters."""
        total = np.zeros(len(self.program.sites), np.int64)
        per_region = runs.sum(axis=0)
        for counter, region in self._counted():
            if region.start not in self._stops_of(counter):
                total[region.start : region.stop] += per_region[counter]
        return total

    def _stops_of(self, counter: int) -> AbstractSet[int]:
        return self.stops if counter < len(self.full) else self._probe.stops(masked=True)

    def instructions(self, runs: NDArray[np.int64]) -> int:
        """Warp instructions that compiled code has executed."""
        return int(self.site_runs(runs).sum())


def _declarations(functions: Iterable[FunctionWriter],
                  defined: AbstractSet[str]) -> dict[str, str]:
    wanted: dict[str, str] = {}
    for function in functions:
        wanted.update(function.calls)
    return {name: text for name, text in sorted(wanted.items()) if name not in defined}


_LIBRARY = {f.name: f for f in (*runtime(), *filter_functions())}


@lru_cache(maxsize=1)
def _library() -> Handle:
    """The functions that every kernel shares, compiled once for all of them."""
    functions = _LIBRARY.values()
    declared = _declarations(functions, set(_LIBRARY))
    text = "\n".join([*(f.text() for f in functions), *declared.values()])
    return load(text, dict.fromkeys(_LIBRARY, (None,)))
