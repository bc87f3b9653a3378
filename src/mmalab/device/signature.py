"""How a kernel is called: its entry, its parameters, its launch; read from PTX alone.

Nothing here needs to know the instructions, so a kernel that the emulator refuses can be launched.

    >>> signature = read_signature(parse(text), None)             # doctest: +SKIP
    >>> signature.params        # (offset, bytes, type, is an array) of each
    ((0, 8, 'u64', False), (8, 4, 'f32', False))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mmalab.emulator.symbols import alignment, byte_size, place
from mmalab.errors import UsageError
from mmalab.ptx.kernel import Kernel
from mmalab.ptx.nodes import Function, Module

__all__ = ["Extent", "Shape", "Signature", "read_shape", "read_signature"]

Extent = int | Sequence[int]
Dim3 = tuple[int, int, int]
_WHERE = "mmalab.launch"


@dataclass(frozen=True, slots=True)
class Signature:
    """What :func:`mmalab.emulator.arguments.bind` wants to know of a kernel."""

    entry: str
    params: tuple[tuple[int, int, str, bool], ...]
    param_bytes: int
    required_block: Dim3 | None = None
    required_cluster: Dim3 | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """One launch."""

    grid: Dim3
    block: Dim3
    cluster: Dim3
    dynamic_shared: int
    #: Whether it may begin before the kernel ahead on the stream has ended.
    programmatic: bool = False

    def __str__(self) -> str:
        cluster = f" in clusters of {self.cluster}" if self.cluster != (1, 1, 1) else ""
        return (f"grid {self.grid}{cluster}, block {self.block}, "
                f"{self.dynamic_shared} bytes of dynamic shared memory")


def read_signature(module: Module, entry: str | None) -> Signature:
    """The signature of `entry`, or of the module's only kernel.

    Raises:
        UsageError: no such kernel, or several and no name.
    """
    found = _entry(module, entry)
    offsets, size = place((byte_size(p), alignment(p)) for p in found.parameters)
    params = tuple((offset, byte_size(p), p.type, bool(p.dims))
                   for p, offset in zip(found.parameters, offsets, strict=True))
    return Signature(found.name, params, size, _extent(found, ".reqntid"),
                     _extent(found, ".reqnctapercluster"))


def _entry(module: Module, name: str | None) -> Function:
    entries = {entry.name: entry for entry in module.entries}
    if name is None and len(entries) == 1:
        return next(iter(entries.values()))
    if name not in entries:
        given = "entry=None" if name is None else f"entry {name!r}"
        raise UsageError(given, f"{module.file} has {len(entries)} kernels", legal=list(entries),
                         where=_WHERE)
    return entries[name]


def _extent(entry: Function, directive: str) -> Dim3 | None:
    said = dict(entry.attributes).get(directive)
    return None if said is None else _three(directive, [int(x) for x in said.split(",")])


def _three(name: str, extent: Extent) -> Dim3:
    sizes = [extent] if isinstance(extent, int) else [int(e) for e in extent]
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise UsageError(f"{name} {extent}", "one to three positive sizes", legal="(x, y, z)",
                         where=_WHERE)
    x, y, z = [*sizes, 1, 1, 1][:3]
    return x, y, z


def read_shape(signature: Signature, kernel: Kernel | None, *, grid: Extent | None,
               block: Extent | None, cluster: Extent | None,
               dynamic_shared: int | None) -> Shape:
    """The launch: what is given, else what the Kernel brings, else what the PTX requires.

    Raises:
        UsageError: no block size, sizes that are none, a grid that clusters do not divide.
    """
    block = block or (kernel.block if kernel else signature.required_block)
    if block is None:
        raise UsageError("no block size", f"{signature.entry} does not say its own (.reqntid)",
                         legal="block=(x, y, z)", where=_WHERE)
    cluster = cluster or (kernel.cluster if kernel else signature.required_cluster) or 1
    if dynamic_shared is None:
        dynamic_shared = kernel.dynamic_shared if kernel else 0
    shape = Shape(_three("grid", grid or (kernel.grid if kernel else 1)), _three("block", block),
                  _three("cluster", cluster), dynamic_shared,
                  programmatic=kernel is not None and kernel.programmatic)
    if signature.required_block not in (None, shape.block):
        raise UsageError(f"block {shape.block}", f"{signature.entry} requires another (.reqntid)",
                         legal=str(signature.required_block), where=_WHERE)
    if any(g % c for g, c in zip(shape.grid, shape.cluster, strict=True)):
        raise UsageError(f"grid {shape.grid}", f"not a multiple of the cluster {shape.cluster}",
                         where=_WHERE)
    return shape
