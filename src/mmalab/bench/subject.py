"""Who is timed: something that can put one product of one set of operands onto a stream.

:class:`KernelSubject` is a Kernel of ours. Its arguments are arrays on the host that nobody reads
or writes: they only say shape and type to the kernel's own checks and preparation, and stand for
the device's memory, so that whatever the kernel prepares from them (tensor maps, workspace) is made
once, before the clock runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mmalab import formats
from mmalab.bench.arena import Arena, OperandSet
from mmalab.bench.problem import Problem
from mmalab.bench.scales import BLOCKS
from mmalab.device.launch import load
from mmalab.device.tensor_maps import at_address
from mmalab.errors import ToolError, UsageError
from mmalab.ptx.kernel import Kernel
from mmalab.tensormap import TensorMap

__all__ = ["KernelSubject", "Refused", "Subject", "problem_of"]


class Refused(ToolError):
    """A subject that does not take these operands, and has touched nothing."""


class Subject(Protocol):
    """What can be timed."""

    @property
    def name(self) -> str:
        """What tables call it."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """What it is, as plain data for the record."""

    def enqueue(self, at: int) -> None:
        """Put one product of operand set `at` onto the GPU's stream.

        Raises:
            Refused: it does not take these operands.
            DriverError: the launch is refused.
        """


def problem_of(kernel: Kernel) -> Problem:
    """The product that a kernel of ours computes, from its parameters and facts.

    Raises:
        UsageError: it is no product of ``a``, ``b`` and ``c`` (M x K, N x K, M x N).
    """
    params = {param.name: param for param in kernel.params}
    scaled = {"a_scales", "b_scales"} <= set(params)
    if set(params) - ({"a_scales", "b_scales"} if scaled else set()) != {"a", "b", "c"}:
        raise UsageError(f"kernel {kernel.name}", f"takes {', '.join(params)}, not a, b and c",
                         legal="a kernel whose gemm() is C = A x B^T, with scales of blocks or "
                         "without", where="mmalab.bench")
    a, b, c = (params[name] for name in "abc")
    (m, k), (n, other) = a.shape, b.shape
    if (k, c.shape) != (other, (m, n)):
        raise UsageError(f"kernel {kernel.name}: a {a.shape}, b {b.shape}, c {c.shape}",
                         "is not C = A x B^T", legal="A M x K, B N x K, C M x N",
                         where="mmalab.bench")
    accumulate = str(kernel.facts.get("accumulate") or kernel.facts["unit"].rpartition(".")[2])
    return Problem(m, n, k, a.dtype, b.dtype, accumulate, c.dtype,
                   promote=bool(kernel.facts.get("promote_every")), scaled=scaled)


class KernelSubject:
    """A Kernel over the sets of operands of an arena."""

    def __init__(self, kernel: Kernel, arena: Arena, name: str = "",
                 more: Mapping[str, int] | None = None) -> None:
        """`more`: device addresses of parameters beside the operands, by name."""
        self.kernel, self.name, self._more = kernel, name or kernel.name, dict(more or {})
        self._gpu = arena.gpu
        self._loaded = load(arena.gpu, kernel)
        self._blocks = [self._bind(arena, each) for each in arena.sets]
        self.facts: Mapping[str, Any] = {
            "kind": "mmalab", "kernel": kernel.name,
            "ptx_sha256": hashlib.sha256(kernel.ptx.encode()).hexdigest()[:16],
            "compiler": self._loaded.compiler,
            "target": self._loaded.target, "grid": kernel.grid, "block": kernel.block,
            "cluster": kernel.cluster, "dynamic_shared": kernel.dynamic_shared,
            **{key: kernel.facts[key] for key in ("instruction", "unit", "tile", "stages",
                                                  "promote_every") if key in kernel.facts},
            **({"scales": BLOCKS} if arena.problem.scaled else {})}

    def _bind(self, arena: Arena, each: OperandSet) -> bytes:
        held = _Standing(arena)
        arrays = [held.stand_in(param.shape, param.dtype, self._more[param.name]
                                if param.name in self._more else getattr(each, param.name))
                  for param in self.kernel.params]
        return self._loaded.bind(list(self.kernel.values(arrays)), held)

    def enqueue(self, at: int) -> None:
        """One launch over operand set `at`."""
        self._gpu.enqueue(self._loaded.code, self._loaded.shape, self._blocks[at],
                          self._loaded.offsets)


class _Standing:
    """Host arrays that stand for device memory; arrays that stand for none are copied over."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._known: list[tuple[NDArray[Any], int]] = []

    def stand_in(self, shape: tuple[int, ...], dtype: str, address: int) -> NDArray[Any]:
        """An array that costs no memory as long as nobody touches it."""
        array = np.empty(shape, formats.dtype_of(dtype))
        self._known.append((array, address))
        return array

    def add(self, array: NDArray[Any], name: str) -> int:
        """The device address of an array, of a part of one, or of a copy made now."""
        del name
        at = array.ctypes.data
        for known, address in self._known:
            if 0 <= at - known.ctypes.data < max(known.nbytes, 1):
                return address + at - known.ctypes.data
        address = self._arena.upload(array)
        self._known.append((array, address))
        return address

    def add_map(self, made: TensorMap, name: str) -> bytes:
        """The 128 bytes of a tensor map over the memory that its array stands for."""
        if made.buffer is None:
            raise UsageError(f"{name}: a decoded tensor map", "has no array to stand for memory",
                             legal="mmalab.TensorMap.tiled(array, ...)", where="mmalab.bench")
        return at_address(self._arena.gpu.driver, made, self.add(made.buffer, name))

    def add_maps(self, maps: Sequence[TensorMap], name: str) -> int:
        """The device address of tensor maps one behind the other."""
        encoded = b"".join(self.add_map(made, name) for made in maps)
        return self._arena.upload(np.frombuffer(encoded, np.uint8))
