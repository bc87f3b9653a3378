"""Which function executes which instruction family, and how exact it is.

    @executes("add", "sub")
    def _add(lanes: Lanes) -> None: ...

A family may be *approximate* for some forms: its function `why` returns the reason, or "" when the
form is exact. Families that nobody registered are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from mmalab.isa.form import Form

if TYPE_CHECKING:
    from mmalab.emulator.lanes import Lanes

__all__ = ["APPROXIMATE", "EXECUTORS", "Executor", "approximates", "executes", "fidelity_of"]

Executor: TypeAlias = "Callable[[Lanes], None]"

EXECUTORS: dict[str, Executor] = {}
APPROXIMATE: dict[str, Callable[[Form], str]] = {}


def executes(*families: str) -> Callable[[Executor], Executor]:
    """Register the decorated function for `families`."""

    def register(function: Executor) -> Executor:
        for family in families:
            if family in EXECUTORS:
                raise KeyError(f"two executors for {family}")
            EXECUTORS[family] = function
        return function

    return register


def approximates(*families: str) -> Callable[[Callable[[Form], str]], Callable[[Form], str]]:
    """Register the decorated function as the judge of how exact `families` are."""

    def register(why: Callable[[Form], str]) -> Callable[[Form], str]:
        APPROXIMATE.update(dict.fromkeys(families, why))
        return why

    return register


def fidelity_of(form: Form) -> str:
    """``exact``, or ``approximate: reason``."""
    judge = APPROXIMATE.get(form.family)
    reason = judge(form) if judge else ""
    return f"approximate: {reason}" if reason else "exact"
