"""A kernel as a value: PTX text, entry, launch shape, what each argument means, a reference.

The same value goes to :func:`mmalab.emulate` and to :func:`mmalab.launch`, so one test body serves
the CPU and the chip. Kernels are made by :mod:`mmalab.kernels`, or by anyone from PTX text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Kernel", "Param"]

Dim3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Param:
    """One kernel parameter: what it is called, which way data flows, its type and shape.

    `dtype` is a PTX type name (``bf16``, ``f32``, ``u64``); `shape` in elements, row-major, empty
    for scalars.
    """

    name: str
    role: Literal["in", "out", "inout", "scalar", "tensormap"]
    dtype: str
    shape: tuple[int, ...] = ()
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Kernel:
    """Everything needed to run one kernel, except the arguments."""

    name: str
    ptx: str
    entry: str
    grid: Dim3
    block: Dim3
    params: tuple[Param, ...]
    target: str
    cluster: Dim3 = (1, 1, 1)
    dynamic_shared: int = 0
    #: Launched so that it may begin before the kernel ahead on its stream has ended, for which it
    #: waits by griddepcontrol.wait.
    programmatic: bool = False
    #: Given the arguments, the exact expected arrays of the "out" parameters, by numerics unit.
    reference: Callable[[Sequence[Any], str], Sequence[Any]] | None = None
    #: Given the arguments, raises UsageError when they do not fit (shape, dtype, strides).
    validate: Callable[[Sequence[Any]], None] | None = None
    #: From the caller's arguments (`params`) to the values of the entry's parameters, where they
    #: are not the same: tensor maps over the arrays, sizes, workspace.
    prepare: Callable[[Sequence[Any]], Sequence[Any]] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def values(self, args: Sequence[Any]) -> Sequence[Any]:
        """The values of the entry's parameters, from the caller's arguments.

        Raises:
            UsageError: the arguments do not fit.
        """
        if self.validate is not None:
            self.validate(args)
        return args if self.prepare is None else self.prepare(args)

    def __str__(self) -> str:
        return f"{self.name} {self.grid} x {self.block}"
