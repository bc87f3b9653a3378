"""How a kernel is called: its entry, its parameters, its launch; read from PTX alone.

Nothing here needs to know the instructions, so a kernel that the emulator refuses can be launched.

    >>> signature = read_signature(parse(text), None)             # doctest: +SKIP
    >>> signature.params        # (offset, bytes, type, is an array) of each
    ((0, 8, 'u64', False), (8, 4, 'f32', False))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mmalab.emulator.requests import check_launch, cluster_of, in_ctas, three, whole
from mmalab.emulator.state import LaunchShape
from mmalab.emulator.symbols import alignment, byte_size, place
from mmalab.errors import UsageError
from mmalab.ptx.kernel import Kernel
from mmalab.ptx.nodes import Function, Module

__all__ = ["Extent", "Shape", "Signature", "check_shape", "read_shape", "read_signature"]

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
    max_block: Dim3 | None = None
    max_cluster: int = 0
    explicit_cluster: bool = False
    counts_clusters: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """One launch."""

    grid: Dim3
    block: Dim3
    cluster: Dim3
    dynamic_shared: int
    #: Whether it may begin before the kernel ahead on the stream has ended.
    programmatic: bool = False
    #: Whether the launch names a cluster of one CTA too.
    explicit_cluster: bool = False

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
                     _extent(found, ".reqnctapercluster"), _extent(found, ".maxntid"),
                     int(dict(found.attributes).get(".maxclusterrank", 0)),
                     ".explicitcluster" in dict(found.attributes),
                     ".blocksareclusters" in dict(found.attributes))


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
    return None if said is None else three(directive, [int(x) for x in said.split(",")],
                                            where=_WHERE)


def read_shape(signature: Signature, kernel: Kernel | None, *, grid: Extent | None,
               block: Extent | None, cluster: Extent | None,
               dynamic_shared: int | None) -> Shape:
    """The launch: what is given, else what the Kernel brings, else what the PTX requires.

    Raises:
        UsageError: no block size, sizes that are none.
    """
    block = _first(block, kernel and kernel.block, signature.required_block)
    if block is None:
        raise UsageError("no block size", f"{signature.entry} does not say its own (.reqntid)",
                         legal="block=(x, y, z)", where=_WHERE)
    sizes = {
        "grid": _first(grid, kernel and kernel.grid, 1), "block": block,
        "cluster": cluster_of(signature, cluster, kernel)}
    return Shape(
        **{name: three(name, size, where=_WHERE) for name, size in sizes.items()},
        dynamic_shared=whole("dynamic_shared", _first(
            dynamic_shared, kernel and kernel.dynamic_shared, 0), where=_WHERE),
        programmatic=kernel is not None and kernel.programmatic,
        explicit_cluster=signature.explicit_cluster)


def check_shape(signature: Signature, shape: Shape, chip: str, static_shared: int = 0) -> None:
    """Refuse what the kernel's directives or the chip do not allow, as the emulator does.

    Raises:
        UsageError: with the sizes that are allowed.
    """
    check_launch(signature, LaunchShape(in_ctas(signature, shape.grid), shape.block, shape.cluster,
                                        shape.dynamic_shared), chip, static_shared)


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)
