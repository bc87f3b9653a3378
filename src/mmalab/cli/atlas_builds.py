"""``mmalab atlas --what builds`` and ``debug``: two texts, or a text without and with ``-g``.

    mmalab atlas wide.ptx narrow.ptx --what builds      registers, spills, opcodes, messages: a diff
    mmalab atlas kernel.ptx --what debug                which findings survive a debug build: few
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mmalab.atlas import build, changes
from mmalab.atlas.differences import Build
from mmalab.cli.atlas_view import Asked, Grid, View
from mmalab.cli.output import read_text
from mmalab.errors import UsageError

__all__ = ["VIEWS"]

_DEBUG = ("-g builds another program: registers, spills and messages of it say nothing about the "
          "release build; for lines alone use -lineinfo, which leaves the program as it is")


def builds(asked: Asked) -> View:
    """Two files with one toolkit."""
    if len(asked.words) != 2:
        raise UsageError(" ".join(asked.words) or "no file", "are not two PTX files",
                         legal="mmalab atlas OLD.ptx NEW.ptx --what builds",
                         where="mmalab atlas --help")
    old, new = (read_text(Path(word)) for word in asked.words)
    names = tuple(Path(word).name for word in asked.words)
    return _compared(asked, names, lambda toolkit, target: (
        build(old, toolkit, target), build(new, toolkit, target)))


def debug(asked: Asked) -> View:
    """One file, without and with -g."""
    text = asked.file()
    return _compared(asked, ("release", "debug"), lambda toolkit, target: (
        build(text, toolkit, target),
        build(text, toolkit, target, opt_level=0, options=("-g",))), (_DEBUG,))


def _compared(asked: Asked, names: tuple[str, ...],
              make: Callable[[str, str | None], tuple[Build, Build]],
              notes: tuple[str, ...] = ()) -> View:
    rows: list[dict[str, Any]] = []
    grids = []
    for toolkit in asked.toolkits:
        for target in asked.targets or (None,):
            before, after = make(toolkit, target)
            found = changes(before, after)
            name = after.target or before.target
            rows.append({
                "form": name, "ptx": after.ptx, "toolkit": toolkit,
                "targets": [name] if after.accepted else [],
                "messages": {} if after.accepted else {name: "; ".join(after.messages)},
                "changes": [{"what": c.what, "old": c.old, "new": c.new} for c in found]})
            grids.append(Grid(("what", *names), [(c.what, c.old, c.new) for c in found],
                              f"{name}, ptxas {toolkit}"))
    return View(rows, grids, notes)


VIEWS: dict[str, Callable[[Asked], View]] = {"builds": builds, "debug": debug}
