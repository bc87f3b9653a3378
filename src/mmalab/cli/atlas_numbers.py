"""``mmalab atlas --what registers``: ceilings, accumulators, setmaxnreg and its arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mmalab.atlas import accumulators, budget, ceiling, provoked, setmaxnreg
from mmalab.atlas.registers import BOUNDS
from mmalab.cli.atlas_view import Asked, Grid, View
from mmalab.errors import UsageError

__all__ = ["VIEWS"]


def registers(asked: Asked) -> View:
    """Everything about registers; with numbers, one split's budget."""
    if asked.words:
        return _split(asked)
    rows: list[dict[str, Any]] = []
    ceilings = [c for toolkit in asked.toolkits for c in ceiling(toolkit=toolkit)]
    rows += [{"form": f"-maxrregcount={c.asked}", "ptx": c.ptx, "toolkit": c.toolkit,
              "targets": [] if c.message else ["sm_100a"],
              "messages": {"sm_100a": c.message} if c.message else {}} for c in ceilings]
    kept = [(name, toolkit, setmaxnreg(bounds=bounds, toolkit=toolkit))
            for toolkit in asked.toolkits for name, bounds in BOUNDS.items()]
    kept += [("-g", toolkit, setmaxnreg(debug=True, toolkit=toolkit))
             for toolkit in asked.toolkits]
    rows += [{"form": f"setmaxnreg with {name}", "ptx": k.ptx, "toolkit": k.toolkit,
              "targets": ["sm_90a"] if k.in_force else [],
              "messages": {"sm_90a": k.message} if k.message else {}, "opcodes": k.opcodes}
             for name, _, k in kept]
    spilt = [p for toolkit in asked.toolkits for p in provoked(toolkit, "two m64n256 accumulators")]
    rows += [{"form": p.case, "ptx": p.ptx, "toolkit": p.toolkit, "targets": ["sm_90a"],
              "messages": {"sm_90a": f"({p.number}) {p.text}"}, "registers": p.registers,
              "spills": p.spills, "stack": p.stack} for p in spilt]
    tiles = accumulators()
    return View(rows, [
        Grid(("-maxrregcount", "ptxas", "says"),
             [(c.asked, c.toolkit, c.message or "accepted") for c in ceilings]),
        Grid(("accumulator", "registers a thread", "of", "fits", "lives in"),
             [(a.tile, a.registers, a.ceiling, "yes" if a.fits else "no", a.lives_in)
              for a in tiles], "FP32 accumulators over a warpgroup (derived)"),
        Grid(("setmaxnreg with", "ptxas", "kept", "says"),
             [(name, toolkit, "yes" if k.in_force else "no", k.message)
              for name, toolkit, k in kept]),
        Grid(("kernel", "ptxas", "registers", "bytes spilt", "stack", "says"),
             [(p.case, p.toolkit, p.registers, p.spills, p.stack, f"({p.number}) {p.text}")
              for p in spilt])])


def _split(asked: Asked) -> View:
    """``24 240 240``, or with the registers at launch in front: ``168: 24 232 232``."""
    words = " ".join(asked.words).replace(",", " ")
    first, colon, rest = words.partition(":")
    try:
        launch = int(first) if colon else None
        counts = [int(word) for word in (rest if colon else words).split()]
    except ValueError:
        raise UsageError(words, "are no numbers of registers",
                         legal="24 240 240, or 168: 24 232 232",
                         where="mmalab atlas --help") from None
    target = asked.targets[0] if asked.targets else "sm_90a"
    found = budget(counts, launch=launch, target=target)
    row = {"form": f"setmaxnreg {' '.join(map(str, counts))}", "ptx": "", "toolkit": "",
           "targets": [target] if found.possible else [],
           "messages": {} if found.possible else {target: found.reason},
           "asked": found.asked, "launch": found.launch, "at_launch": found.at_launch,
           "limit": found.limit, "pool": found.pool, "rise": found.rise,
           "possible": found.possible}
    launched = f"{len(counts)} warpgroups, {found.launch} registers a thread at launch"
    lines = (f"{launched}: {found.at_launch:,} of {found.limit:,}",
             f"after setmaxnreg {' '.join(map(str, counts))}: {found.asked:,}",
             ("possible: " if found.possible else "impossible: ") + found.reason)
    return View([row], notes=lines, code=int(not found.possible))


VIEWS: dict[str, Callable[[Asked], View]] = {"registers": registers}
