"""The executors, one file per group of families; importing this package registers them all."""

from mmalab.emulator.execute import (
    arithmetic,
    atomic,
    barrier,
    bits,
    cluster,
    compare,
    control,
    convert,
    matrix_copy,
    memory,
    mma,
    video,
    warp,
    wgmma,
)
from mmalab.emulator.execute.registry import EXECUTORS, fidelity_of

__all__ = [
    "EXECUTORS", "arithmetic", "atomic", "barrier", "bits", "cluster", "compare", "control",
    "convert", "fidelity_of", "matrix_copy", "memory", "mma", "video", "warp",
    "wgmma",
]
