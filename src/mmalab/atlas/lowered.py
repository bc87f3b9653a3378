"""What each matrix form becomes in SASS, per target and toolkit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["Opcode", "opcodes"]


@dataclass(frozen=True, slots=True)
class Opcode:
    """One form on one target: `opcodes` counts matrix mnemonics (``UTCOMMA.4X``), `others` all
    other opcodes of its PTX line; `sass` is the text of the matrix instructions. `verdict` is
    absent where ptxas refuses, and `why` then its message."""

    form: str
    target: str
    toolkit: str
    verdict: Literal["native", "emulated", "fallback", "removed", "absent"]
    why: str
    opcodes: Mapping[str, int]
    others: Mapping[str, int]
    sass: tuple[str, ...]
    ptx: str


def opcodes(
    forms: str | Iterable[str] | None = None,
    targets: Iterable[str] | None = None,
    toolkit: str | None = None,
) -> tuple[Opcode, ...]:
    """Assemble and read back matrix forms; None: every kind, type and shape class once."""
    raise NotImplementedError
