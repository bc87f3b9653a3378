"""mmalab: a workbench for NVIDIA tensor-core kernels, with or without a GPU.

Write them down to the instruction, see where every element lives, check them against the rules,
run them on the CPU with the chip's own arithmetic, compile them for any chip, read back what the
compiler made.

Layers; a package imports only from lower rows::

    9  cli
    7  claims
    6  kernels
    5  sanitizer            device  atlas
    4  checker  plan  emulator  toolchain
    3  ptx  numerics  descriptors  tensormap
    2  isa                  facts only
    1  formats  layouts
    0  errors  findings  bits

The public names below load their package on first use, so ``import mmalab`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

#: Public functions and classes, by the module that defines them.
_MEMBERS = {
    "Finding": "mmalab.findings",
    "Kernel": "mmalab.ptx.kernel",
    "TensorMap": "mmalab.tensormap",
    "emulate": "mmalab.sanitizer",
    "launch": "mmalab.device",
    "check": "mmalab.checker",
    "assemble": "mmalab.toolchain",
}
_PACKAGES = (
    "errors", "findings", "bits", "formats", "layouts", "isa", "ptx", "numerics", "plan",
    "emulator", "toolchain", "device", "atlas", "kernels",
)

__all__ = [
    "Finding", "Kernel", "TensorMap", "__version__", "assemble", "atlas", "bits", "check", "device",
    "emulate", "emulator", "errors", "findings", "formats", "isa", "kernels", "launch", "layouts",
    "numerics", "plan", "ptx", "toolchain",
]


def __getattr__(name: str) -> Any:
    if name in _MEMBERS:
        value = getattr(importlib.import_module(_MEMBERS[name]), name)
    elif name in _PACKAGES:
        value = importlib.import_module(f"mmalab.{name}")
    else:
        raise AttributeError(f"module 'mmalab' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
