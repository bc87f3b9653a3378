"""What changed between two toolkits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["Build", "Change", "MatrixChange", "build", "changes", "matrix_changes"]


@dataclass(frozen=True, slots=True)
class Build:
    """One text assembled by one toolkit, as numbers: opcodes, instructions, registers, messages."""

    toolkit: str
    target: str
    accepted: bool
    instructions: int
    registers: int
    shared: int
    stack: int
    spills: int
    barriers: int
    opcodes: Mapping[str, int]
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference of two builds."""

    what: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class MatrixChange:
    """A form that toolkits judge differently: targets gained and lost (both know them)."""

    form: str
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    message: str


def build(text: str, toolkit: str | None = None, target: str | None = None, *,
          opt_level: int = 3, options: tuple[str, ...] = ()) -> Build:
    """Assemble and count."""
    raise NotImplementedError


def changes(old: Build, new: Build) -> tuple[Change, ...]:
    """What differs between two builds (two toolkits, two options, two texts)."""
    raise NotImplementedError


def matrix_changes(old: str, new: str, forms: str | Iterable[str] | None = None,
                   targets: Iterable[str] | None = None) -> tuple[MatrixChange, ...]:
    """Forms whose targets differ between two toolkits, each with the newest PTX that it reads."""
    raise NotImplementedError
