"""Why a PTX text is rejected: neighbours of it, assembled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mmalab.toolchain import Diagnostic

__all__ = ["Because", "Rejection", "Trial", "why"]

Because = Literal["accepted", "suffix", "version", "suffix and version", "family", "chip",
                  "toolkit", "text"]


@dataclass(frozen=True, slots=True)
class Trial:
    """One neighbour: what was changed, and what ptxas says of it ("" where it accepts)."""

    change: str
    target: str
    version: str
    toolkit: str
    accepted: bool
    message: str


@dataclass(frozen=True, slots=True)
class Rejection:
    """The answer: `because` is the class of the cause, `reason` the words, `instead` what to write.

    `trials` holds every neighbour that was assembled, the text as given first.
    """

    because: Because
    reason: str
    instead: tuple[str, ...]
    target: str
    version: str
    toolkit: str
    diagnostics: tuple[Diagnostic, ...]
    trials: tuple[Trial, ...]


def why(text: str, target: str | None = None, toolkit: str | None = None) -> Rejection:
    """Assemble a module and, where it is refused, its neighbours: suffix, version, chip, toolkit.

    Raises:
        UsageError: the text is no PTX module.
        SourceError: it does not parse.
    """
    raise NotImplementedError
