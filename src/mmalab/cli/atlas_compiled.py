"""``mmalab atlas`` on compiled code: opcodes, the allocator, the drain, what changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mmalab import isa
from mmalab.atlas import (
    Allocator,
    Opcode,
    allocator,
    build,
    changes,
    column_counts,
    drain,
    macros,
    matrix_changes,
    opcode_changes,
    opcodes,
)
from mmalab.atlas.lowered import MATRIX_FAMILIES
from mmalab.atlas.macros import NAMES
from mmalab.atlas.specimens import chosen
from mmalab.cli.atlas_view import Asked, Grid, View
from mmalab.isa.targets import TargetSet

__all__ = ["VIEWS"]


def lowered(asked: Asked) -> View:
    """Matrix forms and their SASS."""
    rows, grids = [], []
    for toolkit in asked.toolkits:
        by_form: dict[str, list[Opcode]] = {}
        for row in opcodes(asked.pattern, asked.targets or None, toolkit):
            by_form.setdefault(row.form, []).append(row)
        rows += [_plain_opcode(found) for found in by_form.values()]
        grids.append(Grid(("form", "verdict", "SASS", "and", "targets"),
                          [line for found in by_form.values() for line in _lines(found)],
                          f"ptxas {toolkit}"))
    note = ("verdicts: native, emulated through another opcode, fallback without any, absent; "
            "without --target, one target of each chip")
    return View(rows, grids, (note,))


def _plain_opcode(found: list[Opcode]) -> dict[str, Any]:
    there = [row for row in found if row.verdict != "absent"]
    return {
        "form": found[0].form, "ptx": (there or found)[0].ptx, "toolkit": found[0].toolkit,
        "targets": [row.target for row in there],
        "messages": {row.target: row.why for row in found if row.verdict == "absent"},
        "verdicts": {row.target: row.verdict for row in found},
        "opcodes": {row.target: row.opcodes for row in there},
        "others": {row.target: row.others for row in there},
        "sass": {row.target: row.sass for row in there},
    }


def _lines(found: list[Opcode]) -> list[tuple[object, ...]]:
    """Targets on which a form becomes the same, once."""
    same: dict[tuple[str, str, str], list[str]] = {}
    for row in found:
        words = ", ".join(f"{n} {word}" for word, n in row.opcodes.items())
        most = sorted(row.others.items(), key=lambda pair: -pair[1])[:3]
        others = ", ".join(f"{n} {word}" for word, n in most) if row.verdict != "native" else ""
        same.setdefault((row.verdict, words or "-", others), []).append(row.target)
    return [(found[0].form if at == 0 else "", *key, " ".join(names))
            for at, (key, names) in enumerate(same.items())]


def allocation(asked: Asked) -> View:
    """The instruction sequences."""
    rows, grids = [], []
    for toolkit in asked.toolkits:
        for target in asked.targets or ("sm_100a",):
            found = allocator(toolkit, target=target)
            rows.append(_plain_allocator(found) | {"sequences": found.sequences})
            for part in ("alloc", "relinquish", "dealloc"):
                lines = [(word,) for word in found.sequences[part]]
                grids.append(Grid((f"tcgen05.{part}: {len(lines)} instructions",), lines,
                                  f"ptxas {toolkit}, {target}"))
    return View(rows, grids)


def _plain_allocator(found: Allocator) -> dict[str, Any]:
    return {"form": "umma_probe", "ptx": found.ptx, "toolkit": found.toolkit,
            "targets": [found.target], "messages": {}, "opt_level": found.opt_level,
            "checks": found.checks, "instructions": found.instructions,
            "registers": found.registers, "shared": found.shared, "handlers": found.handlers,
            "references": found.references}


def guardrails(asked: Asked) -> View:
    """Handlers and references by toolkit, level and check; then column counts."""
    toolkits = Asked((), (), asked.given_toolkits or ("all",)).toolkits
    target = asked.targets[0] if asked.targets else "sm_100a"
    found = [allocator(toolkit, level, target=target) for toolkit in toolkits
             for level in range(4)]
    found += [allocator(toolkit, target=target, checks="on") for toolkit in toolkits]
    rows = [_plain_allocator(a) for a in found]
    cells = [(a.toolkit, f"-O{a.opt_level}", a.checks, len(a.handlers), a.references,
              a.instructions, a.registers, ", ".join(a.handlers)) for a in found]
    counts = [c for toolkit in toolkits for c in column_counts(toolkit=toolkit, target=target)]
    rows += [{"form": f"tcgen05.alloc of {c.columns} columns", "ptx": c.ptx, "toolkit": c.toolkit,
              "targets": [] if c.immediate else [target],
              "messages": {target: c.immediate} if c.immediate else {},
              "columns": c.columns, "immediate": c.immediate, "register": c.register}
             for c in counts]
    return View(rows, [
        Grid(("ptxas", "level", "check", "handlers", "references", "instructions", "registers",
              "names"), cells, f"article B's probe on {target}"),
        Grid(("columns", "ptxas", "as an immediate", "through a register"),
             [(c.columns, c.toolkit, c.immediate or "accepted", c.register or "accepted")
              for c in counts], "column counts")])


def draining(asked: Asked) -> View:
    """The drain curve."""
    target = asked.targets[0] if asked.targets else "sm_100a"
    found = [p for toolkit in asked.toolkits
             for p in drain(asked.words or None, toolkit, target=target)]
    rows = [{"form": f"tcgen05.ld.sync.aligned.{p.shape}.x{p.num}.b32", "ptx": p.ptx,
             "toolkit": p.toolkit, "targets": [p.target], "messages": {}, "loaded": p.loaded,
             "registers": p.registers, "overhead": p.overhead, "spills": p.spills,
             "opcodes": p.opcodes, "share": p.share} for p in found]
    grid = Grid(("shape", "count", "values", "registers", "more", "warpgroup's share", "SASS",
                 "ptxas"),
                [(p.shape, f"x{p.num}", p.loaded, p.registers, p.overhead, f"{p.share:.1%}",
                  ", ".join(f"{n} {word}" for word, n in p.opcodes.items()), p.toolkit)
                 for p in found])
    return View(rows, [grid], (f"registers per thread on {target}; every loaded value is stored",))


def differences(asked: Asked) -> View:
    """Two toolkits: of a file's builds, or of the forms that they accept."""
    old, new = asked.pair
    if asked.names_a_file:
        return _of_a_file(asked.file(), asked, old, new)
    found = matrix_changes(old, new, asked.pattern, asked.targets or None)
    rows: list[dict[str, Any]] = [
            {"form": c.form, "ptx": c.ptx, "toolkit": new, "targets": c.gained,
             "messages": dict.fromkeys(c.lost, c.message), "gained": c.gained,
             "lost": c.lost, "message": c.message} for c in found]
    grid = Grid(("form", "gained", "lost", "the one that refuses says"),
                [(c.form, str(TargetSet(c.gained)) if c.gained else "",
                  str(TargetSet(c.lost)) if c.lost else "", c.message) for c in found],
                f"ptxas {old} -> {new}")
    compiled = opcode_changes(old, new, asked.pattern, asked.targets or None) if (
        _has_products(asked)) else ()
    rows += [{"form": c.form, "ptx": c.ptx, "toolkit": new, "targets": [c.target], "messages": {},
              "old": c.old, "new": c.new, "old_others": c.old_others,
              "new_others": c.new_others} for c in compiled]
    became = Grid(("form", "target", old, new, "others", "others now"),
                  [(c.form, c.target, c.old, c.new, c.old_others, c.new_others) for c in compiled],
                  "matrix forms compiled otherwise")
    note = (f"{len(found)} spellings are accepted elsewhere on targets that both know, "
            f"{len(compiled)} matrix forms compiled otherwise")
    return View(rows, [grid, became], (note,))


def _has_products(asked: Asked) -> bool:
    return any(isa.find(s.opcode).family in MATRIX_FAMILIES
               for s in chosen(asked.pattern)) if asked.pattern else True


def _of_a_file(text: str, asked: Asked, old: str, new: str) -> View:
    rows, grids = [], []
    for target in asked.targets or (None,):
        before, after = build(text, old, target), build(text, new, target)
        found = changes(before, after)
        name = after.target or before.target
        messages: Mapping[str, str] = {} if after.accepted else {name: "; ".join(after.messages)}
        rows.append({"form": name, "ptx": after.ptx, "toolkit": new,
                     "targets": [name] if after.accepted else [], "messages": messages,
                     "against": old,
                     "changes": [{"what": c.what, "old": c.old, "new": c.new} for c in found]})
        grids.append(Grid(("what", old, new), [(c.what, c.old, c.new) for c in found], name))
    return View(rows, grids)


def defined(asked: Asked) -> View:
    """Preprocessor macros by target."""
    toolkit = asked.given_toolkits[0] if asked.given_toolkits else None
    found = macros(asked.targets or ("sm_120", "sm_120f", "sm_120a"), toolkit)
    rows = [{"form": "macros", "ptx": "", "toolkit": m.compiler, "targets": [m.target],
             "messages": {}, "defined": m.defined, "source": m.source} for m in found]
    grid = Grid(("target", *NAMES, "compiler"),
                [(m.target, *(m.defined.get(name, "-") for name in NAMES), m.compiler)
                 for m in found])
    return View(rows, [grid])


VIEWS: dict[str, Callable[[Asked], View]] = {
    "opcodes": lowered, "allocator": allocation, "guardrails": guardrails, "drain": draining,
    "diff": differences, "macros": defined,
}
