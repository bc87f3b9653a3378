"""Contents of the arrays that a run may write, to put them back before the next run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from mmalab.emulator.arguments import memory_of

__all__ = ["Saved"]


class Saved:
    """Copies of the arrays among the arguments, those behind tensor maps too."""

    def __init__(self, args: Sequence[Any]) -> None:
        found = [(number, array) for number, value in enumerate(args)
                 for array in memory_of(value)]
        #: Each array once, and the number of the first argument that brings it.
        self.arrays: list[NDArray[Any]] = []
        self.numbers: list[int] = []
        for number, array in found:
            if all(array is not known for known in self.arrays):
                self.arrays.append(array)
                self.numbers.append(number)
        self.copies = [array.copy() for array in self.arrays]

    def restore(self) -> None:
        """Put the contents back."""
        for array, copy in zip(self.arrays, self.copies, strict=True):
            array[...] = copy
