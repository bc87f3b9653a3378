"""``mmalab atlas --what toolkits``: CUDA releases, PTX versions and targets, each from the others.

    mmalab atlas 12.6 --what toolkits                     a release: its PTX version, its targets
    mmalab atlas 9.1 --what toolkits                      a PTX version: the release that reads it
    mmalab atlas sm_120f --what toolkits --toolkit 12.8   a target: since when, what until then
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mmalab import isa
from mmalab.cli.atlas_view import Asked, Grid, View
from mmalab.errors import UsageError
from mmalab.isa.targets import TARGETS
from mmalab.isa.toolkits import RELEASES, fallback, first_release, known_since, version_of

__all__ = ["VIEWS"]

_DRIVER = ("a driver compiles PTX up to the version of its own CUDA release: a lower .version, or "
           "machine code for the chip, gets past an older one")


def toolkits(asked: Asked) -> View:
    """The table, or what it says about each word."""
    if not asked.words:
        return View([_row(name, [t.name for t in TARGETS.values() if known_since(t.name) == name])
                     for name in RELEASES],
                    [Grid(("CUDA", "PTX", "first to know"), [
                        (name, _dotted(version), " ".join(
                            t.name for t in TARGETS.values() if known_since(t.name) == name))
                        for name, version in RELEASES.items()])], [_DRIVER])
    rows, notes = [], []
    for word in asked.words:
        row, words = _target(word, asked) if word.startswith(("sm_", "compute_")) else _number(word)
        rows.append(row)
        notes += words
    return View(rows, notes=[*notes, _DRIVER])


def _row(form: str, targets: list[str], **more: Any) -> dict[str, Any]:
    return {"form": form, "ptx": "", "toolkit": form, "targets": targets, "messages": {},
            "version": _dotted(RELEASES[form]) if form in RELEASES else "", **more}


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _number(word: str) -> tuple[dict[str, Any], list[str]]:
    """A CUDA release (from 10 on) or a PTX version."""
    major, dot, minor = word.partition(".")
    if not (dot and major.isdigit() and minor.isdigit()):
        raise UsageError(word, "is no CUDA release, PTX version or target",
                         legal="12.6, 8.5 or sm_120f", where="mmalab atlas --what toolkits")
    if int(major) < 10:
        release = first_release((int(major), int(minor)))
        return (_row(release, [], asked=word),
                [f"PTX {word}: CUDA {release} is the first release that reads it"])
    version = version_of(word)
    known = [name for name, row in TARGETS.items() if row.ptx <= version]
    newest = " ".join(known[-4:])
    return (_row(word, known),
            [f"CUDA {word}: reads PTX up to {_dotted(version)}; newest targets {newest}"])


def _target(word: str, asked: Asked) -> tuple[dict[str, Any], list[str]]:
    """Since when a target is known; with --toolkit, what that release has instead and lacks."""
    name = isa.target(word).name
    since = known_since(name)
    first = f"CUDA {since} (PTX {_dotted(isa.target(name).ptx)})"
    notes = [f"{name}: {first} is the first release that knows it"]
    found: dict[str, Any] = {"since": since}
    for release in asked.given_toolkits:
        nearest = fallback(name, release)
        lost = [] if nearest == name else _lost(name, nearest)
        found["nearest"], found["lost"] = nearest, lost
        if nearest == name:
            notes.append(f"CUDA {release} knows {name}")
        else:
            notes.append(f"with CUDA {release}: .target {nearest}, which runs on that chip"
                         + (f"; lost: {', '.join(lost)}" if lost else "; no instruction is lost"))
    return {**_row(since, [name]), "form": name, **found}, notes


def _lost(target: str, nearest: str) -> list[str]:
    """Families that the target has, wholly or in part, and the nearest one has not."""
    forms = map(isa.find, isa.forms())
    return sorted({form.family for form in forms
                   if target in (on := isa.parse_targets(form.targets)) and nearest not in on})


VIEWS: dict[str, Callable[[Asked], View]] = {"toolkits": toolkits}
