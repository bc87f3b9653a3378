"""The 343 claims as data: ``statements.json``, one line each, in our words; and the verdicts on
record, ``verdicts.json``, which say what the same code found when it was last looked at.

    >>> statement("A-014").value
    64
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mmalab.claims.model import Statement, Verdict
from mmalab.errors import UsageError

__all__ = ["ARTICLES", "VERDICTS", "recorded", "statement", "statements"]

#: What the two articles are about.
ARTICLES = {
    "A": "Tensor cores: matrix instructions, swizzling and FP8, measured (on an Ada laptop)",
    "B": "How Blackwell's Tensor Memory works (a toolchain and no GPU)",
}
_HERE = Path(__file__).parent
VERDICTS = _HERE / "verdicts.json"


@lru_cache(maxsize=1)
def statements() -> Mapping[str, Statement]:
    """All claims by id, in the order of the articles."""
    rows: list[dict[str, Any]] = json.loads((_HERE / "statements.json").read_text("utf-8"))
    return MappingProxyType({row["id"]: Statement(**row) for row in rows})


def statement(name: str) -> Statement:
    """The claim of that id, in any case (``b-47`` and ``B47`` are ``B-047``).

    Raises:
        UsageError: there is no such claim; the message names the nearest.
    """
    known = statements()
    found = known.get(_canonical(name))
    if found is None:
        raise UsageError(f"claim {name!r}", "is not one of the articles' claims",
                         legal=_nearest(name), where="mmalab claims")
    return found


def _canonical(name: str) -> str:
    spelled = re.fullmatch(r"([AB])-?([0-9]+)", name.upper())
    return f"{spelled[1]}-{int(spelled[2]):03}" if spelled else name.upper()


def _nearest(name: str) -> list[str]:
    known = statements()
    near = difflib.get_close_matches(_canonical(name), known, n=3, cutoff=0.0)
    last = [max(i for i in known if i.startswith(article)) for article in ARTICLES]
    return [*near, f"A-001 to {last[0]}", f"B-001 to {last[1]}"]


@lru_cache(maxsize=1)
def recorded() -> Mapping[str, Verdict]:
    """The verdict on record of every claim; empty where there is no record."""
    if not VERDICTS.exists():
        return {}
    rows = json.loads(VERDICTS.read_text("utf-8"))["verdicts"]
    return MappingProxyType({name: Verdict(word) for name, word in rows.items()})
