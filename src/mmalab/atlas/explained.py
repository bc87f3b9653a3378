"""ptxas's messages explained."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Message", "explain_message", "messages"]


@dataclass(frozen=True, slots=True)
class Message:
    """One kind of message: `code` ("C7510", "" for most), a pattern of its words, what it means,
    what brings it about, and what to do."""

    code: str
    pattern: str
    meaning: str
    cause: str
    remedy: str


def messages() -> tuple[Message, ...]:
    """Every message that the atlas explains."""
    raise NotImplementedError


def explain_message(text: str) -> Message:
    """The explanation of a message, or of its code alone.

    Raises:
        UsageError: the atlas does not know it.
    """
    raise NotImplementedError
