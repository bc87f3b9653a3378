"""NumPy references of the corpus kernels, found by the name that the manifest gives.

Each takes the arguments by name, as they are before the launch, and returns the expected arrays of
the outputs by name. They are written from what the source says, not from how it says it, and use
nothing of the package under test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from corpus import (
    references_chips,
    references_cuda,
    references_numba,
    references_programs,
    references_triton,
)
from corpus.inputs import Argument
from numpy.typing import NDArray

__all__ = ["expected", "find"]

Reference = Callable[[dict[str, Any]], dict[str, NDArray[Any]]]
_MODULES = (references_cuda, references_chips, references_programs, references_triton,
            references_numba)


def find(name: str) -> Reference:
    """The reference called `name`."""
    for module in _MODULES:
        if name in module.__all__:
            function: Reference = getattr(module, name)
            return function
    raise KeyError(f"no reference is called {name!r}")


def expected(row: dict[str, Any], arguments: list[Argument]) -> dict[str, NDArray[Any]]:
    """The outputs that `row`'s launch must produce from `arguments` (which stay untouched)."""
    values = {a.name: a.value.copy() if isinstance(a.value, np.ndarray) else a.value
              for a in arguments}
    # Infinities, NaNs and overflows are part of the inputs, not accidents.
    with np.errstate(all="ignore"):
        return find(row["reference"])(values | {"row": row})
