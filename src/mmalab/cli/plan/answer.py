"""How every question of ``mmalab plan`` answers: text or JSON, with its formula and its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import ModuleType
from typing import Any

import typer

from mmalab.cli.output import print_json, say

__all__ = ["answer", "record"]


def record(value: Any, *properties: str) -> dict[str, Any]:
    """A record as a mapping, with the properties that are not stored in it."""
    names = [field.name for field in fields(value)]
    return {name: getattr(value, name) for name in (*names, *properties)}


def answer(text: str, data: Any, model: ModuleType, *, json: bool, fits: bool = True) -> None:
    """Print one answer; ends with exit code 1 when it does not fit.

    A JSON object gets the fields ``formula`` and ``source``; a JSON list is printed as it is.
    """
    if not json:
        say(text, f"formula  {model.FORMULA}", f"source   {model.SOURCE}")
    elif isinstance(data, Mapping):
        print_json({**data, "formula": model.FORMULA, "source": model.SOURCE})
    else:
        print_json(data)
    if not fits:
        raise typer.Exit(1)
