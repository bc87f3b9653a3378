"""The executors, one file per group of families; importing this package registers them all."""

from mmalab.emulator.execute import (
    arithmetic,
    async_reduction,
    atomic,
    barrier,
    bits,
    bulk,
    cluster,
    compare,
    control,
    convert,
    map_fields,
    matrix_copy,
    memory,
    mma,
    tensor_copy,
    video,
    warp,
    wgmma,
    wgmma_groups,
)
from mmalab.emulator.execute.registry import EXECUTORS, fidelity_of

__all__ = [
    "EXECUTORS", "arithmetic", "async_reduction", "atomic", "barrier", "bits", "bulk", "cluster",
    "compare", "control", "convert", "fidelity_of", "map_fields", "matrix_copy", "memory", "mma",
    "tensor_copy", "video", "warp", "wgmma", "wgmma_groups",
]
