"""Is what is timed also right: poisoned outputs, FP64 samples, the unit's own bits.

Before a subject is timed, every C is filled with what no result is, the subject runs once on every
set, and then: no word of the poison is left; sampled rows and columns agree with the product in
FP64 of the operands read back from the device; and where the kernel knows its unit, these samples
equal the unit's arithmetic bit for bit.

How far from FP64 is allowed comes from the arithmetic: half a unit in the last place of the output
type, and for the sums four times what the unit shows on an H200 at K = 4096, growing with K.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.bench.arena import Arena
from mmalab.bench.problem import Problem, poison
from mmalab.bench.scales import BLOCK, PLAIN, scaled_product
from mmalab.bench.subject import KernelSubject, Subject
from mmalab.errors import ToolError
from mmalab.kernels.arguments import words_of

__all__ = ["Check", "compare", "limit_of_sums", "verify"]

#: Sampled rows and columns of C.
_SAMPLES = 48
#: Relative RMS of the sums: 4 times the recorded ones.
_SUMS = {("bf16", "f32"): 1.6e-5, ("f16", "f32"): 2e-5, ("tf32", "f32"): 4e-5,
         ("e4m3", "f32"): 4.8e-3, ("e5m2", "f32"): 4.8e-3, ("f16", "f16"): 1e-2,
         ("e4m3", "f16"): 1e-2, ("e5m2", "f16"): 1e-2}
#: Half a unit in the last place, relative.
_ROUNDING = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24, "s32": 0.0,
             "e4m3": 2.0**-4, "e5m2": 2.0**-3}
#: Of the errors of single elements, in multiples of the RMS that is allowed.
_TAIL = 8
#: Seconds after which a launch is given up.
_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Check:
    """What was found; `problem` is empty when the subject may be timed."""

    subject: str
    relative_rms: float
    limit: float
    samples: int
    unwritten: int
    #: Whether the samples equal the unit's arithmetic; None where no reference is known.
    bits_equal: bool | None
    problem: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def limit_of_sums(problem: Problem) -> float:
    """The relative RMS error that the sums of a problem may have."""
    if problem.accumulate == "s32":
        return 0.0
    return _SUMS[problem.dtype, problem.accumulate] * max(1.0, problem.k / 4096)


def compare(problem: Problem, got: NDArray[Any], exact: NDArray[np.float64]) -> tuple[
        float, float, str]:
    """Relative RMS of the error, its limit, and what is wrong ("" for nothing)."""
    sums, rounding = limit_of_sums(problem), _ROUNDING[problem.out]
    limit = float(np.hypot(sums, rounding))
    size = float(np.sqrt(np.mean(exact**2))) or 1.0
    error = np.abs(got - exact)
    rms = float(np.sqrt(np.mean(error**2))) / size
    if not np.isfinite(error).all():
        return rms, limit, f"{int((~np.isfinite(error)).sum())} sampled results are not numbers"
    over = error > rounding * np.abs(exact) + _TAIL * sums * size
    if over.any():
        row, column = (int(x) for x in np.argwhere(over)[0])
        return rms, limit, (f"{int(over.sum())} of {over.size} samples are wrong, the first is "
                            f"{got[row, column]!r} for {exact[row, column]!r}")
    return rms, limit, "" if rms <= limit else f"relative RMS {rms:.2e} is over {limit:.2e}"


def verify(arena: Arena, subject: Subject, seed: int) -> Check:
    """Run a subject once over every set of poisoned outputs and look at the first and the last.

    Raises:
        DriverError: it faults.
    """
    problem, rng = arena.problem, np.random.default_rng(seed)
    arena.poison()
    for at in range(len(arena.sets)):
        subject.enqueue(at)
    arena.gpu.wait(subject.name, patience=_PATIENCE_S)
    found = [_look(arena, subject, problem, at, rng) for at in {0, len(arena.sets) - 1}]
    return next((each for each in found if each.problem), found[0])


def _look(arena: Arena, subject: Subject, problem: Problem, at: int,
          rng: np.random.Generator) -> Check:
    rows = _some(rng, problem.m)
    columns = _some(rng, problem.n)
    a, b = arena.rows("a", at, rows), arena.rows("b", at, columns)
    whole = arena.result(at)
    unwritten = int((words_of(whole) == poison(problem.out)[0]).sum())
    got = whole[np.ix_(rows, columns)]
    scales = _scales(arena, subject, at, rows, columns)
    wide = a.astype(np.float64), b.astype(np.float64)
    exact = scaled_product(*wide, *scales) if scales else wide[0] @ wide[1].T
    rms, limit, problem_ = compare(problem, got.astype(np.float64), exact)
    equal = _bits(subject, a, b, scales, got)
    if unwritten:
        problem_ = f"{unwritten} of {whole.size} outputs were never written"
    elif not problem_ and equal is False:
        problem_ = "the samples differ from the arithmetic of the kernel's unit"
    return Check(subject.name, rms, limit, got.size, unwritten, equal, problem_)


def _some(rng: np.random.Generator, size: int) -> list[int]:
    """The first, the last, and random ones between."""
    return sorted({0, size - 1, *map(int, rng.integers(0, size, min(size, _SAMPLES - 2)))})


def _scales(arena: Arena, subject: Subject, at: int, rows: list[int],
            columns: list[int]) -> tuple[NDArray[np.float32], ...]:
    """The scales of the rows and of the columns, each its own; none where the subject has none."""
    if not arena.problem.scaled or subject.facts.get("scales") == PLAIN:
        return ()
    of_a, of_b = arena.scales[at]
    return of_a[rows], of_b[np.array(columns) // BLOCK]


def _bits(subject: Subject, a: NDArray[Any], b: NDArray[Any],
          scales: Sequence[NDArray[np.float32]], got: NDArray[Any]) -> bool | None:
    """Compare bits where the subject is a kernel with a reference."""
    if not isinstance(subject, KernelSubject) or subject.kernel.reference is None:
        return None
    chip = str(subject.facts["target"]).rstrip("af")
    (want,) = subject.kernel.reference([a, b, *scales, np.empty_like(got)], chip)
    want = np.asarray(want)
    if want.shape != got.shape or want.dtype.itemsize != got.dtype.itemsize:
        raise ToolError(f"the reference of {subject.name}", f"gives {want.dtype}{want.shape} for "
                        f"samples {got.dtype}{got.shape}", where="mmalab.bench.verify")
    return bool((words_of(want) == words_of(np.ascontiguousarray(got))).all())
