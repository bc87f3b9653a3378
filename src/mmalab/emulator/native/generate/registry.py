"""The table of code generators, by instruction family."""

from __future__ import annotations

from collections.abc import Callable

from mmalab.emulator.native.primitive import Generator

__all__ = ["GENERATORS", "generates"]

GENERATORS: dict[str, Generator] = {}


def generates(*families: str) -> Callable[[Generator], Generator]:
    """Register a generator for instruction families."""

    def register(generator: Generator) -> Generator:
        for family in families:
            if family in GENERATORS:
                raise KeyError(f"two generators for {family}")
            GENERATORS[family] = generator
        return generator

    return register
