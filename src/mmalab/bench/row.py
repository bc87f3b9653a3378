"""A row of a table: one product, kernels of ours that compute it, a baseline; plain data.

    >>> row = Row("bf16 8192^3", 8192, 8192, 8192, "sm90_wgmma.gemm",
    ...           ({"dtype": "bf16", "out": "bf16"},))
    >>> row.expected_seconds(pairs_burst=6, pairs_sustained=2) > 10
    True
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mmalab.errors import UsageError
from mmalab.ptx.kernel import Kernel

__all__ = ["Row", "make_kernel"]

_WHERE = "mmalab.bench.Row"
#: Seconds of a row beside its blocks: operands and code, the check of one contestant, the choice
#: among those of one side, and how many algorithms a library offers.
_SETUP_S, _CHECK_S, _SELECT_S, _OFFERED = 3.0, 0.35, 4.0, 8


@dataclass(frozen=True, slots=True)
class Row:
    """One row. `kernel` is ``family.factory`` under mmalab.kernels, called with ``m, n, k`` and
    one of `arguments` (what the factory does not name is a field of its ``Plan``); several
    arguments are candidates, of which the fastest is kept."""

    title: str
    m: int
    n: int
    k: int
    kernel: str
    arguments: tuple[Mapping[str, Any], ...] = ({},)
    #: "cublasLt", another kernel as ``family.factory``, or "none".
    baseline: str = "cublasLt"
    #: Arguments of a baseline that is a kernel of ours.
    baseline_arguments: Mapping[str, Any] | None = None
    #: What the product must be where the kernel cannot say (the output type of cublasLt).
    out: str = ""

    def expected_seconds(self, *, pairs_burst: int, pairs_sustained: int) -> float:
        """About how long the row takes."""
        sides = [len(self.arguments), *([_OFFERED] if self.baseline == "cublasLt" else
                                        [1] if self.baseline != "none" else [])]
        chosen = sum(_CHECK_S * count + _SELECT_S * (count > 1) for count in sides)
        burst, sustained = 2 * 0.31 * pairs_burst, 2 * 1.65 * pairs_sustained
        return _SETUP_S + chosen + burst + sustained + 0.8 * bool(pairs_sustained)

    def at(self, m: int, n: int, k: int) -> Row:
        """The same row at another size."""
        return replace(self, m=m, n=n, k=k, title=f"{m}x{n}x{k}")


def make_kernel(name: str, m: int, n: int, k: int, arguments: Mapping[str, Any]) -> Kernel:
    """The kernel that ``family.factory`` under mmalab.kernels makes.

    Raises:
        UsageError: no such family or factory, or arguments that it refuses.
    """
    family, _, factory = name.partition(".")
    try:
        module = importlib.import_module(f"mmalab.kernels.{family}")
        make = getattr(module, factory or "gemm")
    except (ImportError, AttributeError):
        raise UsageError(f"kernel {name!r}", "is no factory of mmalab.kernels",
                         legal="family.factory, as sm80_mma.gemm", where=_WHERE) from None
    try:
        made = make(m, n, k, **_planned(module, make, arguments))
    except TypeError as failed:
        raise UsageError(f"{name} {dict(arguments)}", str(failed),
                         legal=f"what {name} takes", where=_WHERE) from None
    if not isinstance(made, Kernel):
        raise UsageError(f"{name}", f"makes a {type(made).__name__}, no Kernel",
                         legal="family.factory, as sm80_mma.gemm", where=_WHERE)
    return made


def _planned(module: Any, make: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that the factory does not name are fields of its family's Plan."""
    named = inspect.signature(make).parameters
    own = {key: value for key, value in arguments.items() if key in named}
    fields = {key: value for key, value in arguments.items() if key not in named}
    if fields and "plan" in named:
        own["plan"] = module.Plan(**fields)
        return own
    return own | fields
