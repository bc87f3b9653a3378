"""``mmalab atlas`` on the language: targets, versions, ports, rejections, images, messages."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mmalab.atlas import (
    Answer,
    assembles_for,
    coverage,
    explain_message,
    first_versions,
    least_version,
    matrix,
    messages,
    provoked,
    why,
)
from mmalab.atlas.agreement import record
from mmalab.atlas.provoked import Provoked, numbered
from mmalab.atlas.specimens import chosen
from mmalab.cli.atlas_view import Asked, Grid, View
from mmalab.errors import UsageError
from mmalab.isa.ports import instead, replacements
from mmalab.isa.targets import TARGETS, TargetSet
from mmalab.isa.targets import target as target_row

__all__ = ["VIEWS"]

_WHERE = "mmalab atlas --help"
#: More rows than this are summed up by family.
_MANY = 60


def targets(asked: Asked) -> View:
    """The capability matrix, of forms or of a file."""
    if asked.names_a_file:
        return _of_a_file(asked)
    answers = [answer for toolkit in asked.toolkits
               for answer in matrix(asked.pattern, asked.targets or None, toolkit)]
    if asked.output is not None:
        asked.output.write_text(json.dumps(record(answers), indent=1) + "\n", encoding="utf-8")
    grid = _by_family(answers) if len(answers) > _MANY else _each(answers, asked)
    cells = sum(len(a.targets) + len(a.messages) for a in answers)
    taken = sum(len(a.targets) for a in answers)
    note = (f"{len(answers):,} spellings, {cells:,} verdicts of ptxas "
            f"{', '.join(asked.toolkits)}: {taken:,} accepted, {cells - taken:,} refused")
    reasons = bool(asked.targets) and len(answers) <= _MANY
    return View(_plain_answers(answers, reasons), [grid], [note], nested=False)


def _of_a_file(asked: Asked) -> View:
    found = [assembles_for(asked.file(), asked.targets or None, toolkit)
             for toolkit in asked.toolkits]
    rows = [{"form": asked.words[0], "ptx": f.ptx, "toolkit": f.toolkit, "targets": f.targets,
             "messages": f.messages} for f in found]
    grids = [Grid(("target", "ptxas says"),
                  [(name, f.messages.get(name, "accepted"))
                   for name in TARGETS if name in f.targets or name in f.messages],
                  f"ptxas {f.toolkit}") for f in found]
    return View(rows, grids, [f"ptxas {f.toolkit} takes it for {TargetSet(f.targets)}"
                              for f in found])


def _plain_answers(answers: Sequence[Answer], reasons: bool) -> Iterator[dict[str, Any]]:
    for a in answers:
        row = {"form": a.form, "ptx": a.ptx, "toolkit": a.toolkit, "targets": a.targets,
               "messages": a.messages, "advice": a.advice}
        # Words for a person, who asks about few; finding what is near takes its time.
        yield row | {"reasons": {name: a.reason(name) for name in a.messages}} if reasons else row


def _by_family(answers: Sequence[Answer]) -> Grid:
    counts: Counter[tuple[str, str, str]] = Counter()
    for a in answers:
        counts[a.specimen.family, a.toolkit, str(TargetSet(a.targets))] += 1
    return Grid(("family", "ptxas", "spellings", "targets"),
                [(family, toolkit, n, names) for (family, toolkit, names), n in counts.items()])


def _each(answers: Sequence[Answer], asked: Asked) -> Grid:
    rows = []
    for a in answers:
        refused = next((name for name in asked.targets if name in a.messages), None)
        words = f"{refused}: {a.messages[refused]} ({a.reason(refused)})" if refused else next(
            iter(f"{name}: {text}" for name, text in a.advice.items()), "")
        rows.append((a.form, a.toolkit, str(TargetSet(a.targets)), words))
    return Grid(("form", "ptxas", "targets", "ptxas says"), rows)


def versions(asked: Asked) -> View:
    """First PTX versions."""
    if len(asked.targets) > 1:
        raise UsageError("several targets", "have a first version each", legal="one --target",
                         where=_WHERE)
    target = asked.targets[0] if asked.targets else None
    if asked.names_a_file:
        return _least_version(asked, target)
    found = [row for toolkit in asked.toolkits
             for row in first_versions(asked.pattern, target, toolkit)]
    rows = [{"form": r.form, "ptx": r.ptx, "toolkit": r.toolkit, "version": r.version,
             "last": r.last, "targets": [r.target] if r.version else [],
             "messages": {r.target: r.below} if r.below else {}} for r in found]
    grid = Grid(("form", "ptxas", "target", "first", "last", "one version earlier"),
                [(r.form, r.toolkit, r.target, r.version or "-", r.last or "-", r.below)
                 for r in found])
    return View(rows, [grid])


def _least_version(asked: Asked, target: str | None) -> View:
    found = [least_version(asked.file(), target, toolkit) for toolkit in asked.toolkits]
    rows = [{"form": asked.words[0], "ptx": r.ptx, "toolkit": r.toolkit, "version": r.version,
             "targets": [r.target] if r.version else [],
             "messages": {r.target: r.below} if r.below else {}} for r in found]
    grid = Grid(("file", "ptxas", "target", "least", "one version earlier"),
                [(asked.words[0], r.toolkit, r.target, r.version or "-", r.below) for r in found])
    return View(rows, [grid])


def ports(asked: Asked) -> View:
    """What does the job elsewhere."""
    if not asked.words or not asked.targets:
        raise UsageError("a port", "is of a form to a target",
                         legal="mmalab atlas 'wgmma*' --what ports --target sm_120a", where=_WHERE)
    rows, cells = [], []
    for opcode in dict.fromkeys(s.opcode for s in chosen(asked.pattern)):
        for name in asked.targets:
            on = target_row(name)
            words, others = instead(opcode, on), replacements(opcode, on)
            cells.append((opcode, name, others[0] if others else "-", words))
            if others:
                answer = matrix(others[:1], [name])[0]
                rows.append({"form": opcode, "ptx": answer.ptx, "toolkit": answer.toolkit,
                             "targets": [name], "messages": answer.messages, "instead": others,
                             "words": words})
            else:
                answer = matrix([opcode], [name])[0]
                rows.append({"form": opcode, "ptx": answer.ptx, "toolkit": answer.toolkit,
                             "targets": [], "messages": answer.messages, "instead": [],
                             "words": words})
    return View(rows, [Grid(("form", "on", "write", "in words"), cells)])


def rejection(asked: Asked) -> View:
    """Why a file is rejected."""
    text = asked.file()
    rows, grids, notes, code = [], [], [], 0
    for toolkit in asked.toolkits:
        for target in asked.targets or (None,):
            found = why(text, target, toolkit)
            code |= not found.accepted
            taken = [t.target for t in found.trials if t.accepted]
            rows.append({
                "form": found.text, "ptx": found.trials[0].ptx, "toolkit": found.toolkit,
                "targets": list(dict.fromkeys(taken)),
                "messages": {t.target: t.message for t in reversed(found.trials) if t.message},
                "because": found.because, "reason": found.reason, "instead": found.instead,
                "line": found.line, "target": found.target, "version": found.version,
                "trials": [{"change": t.change, "target": t.target, "version": t.version,
                            "toolkit": t.toolkit, "accepted": t.accepted, "message": t.message}
                           for t in found.trials]})
            grids.append(Grid(
                ("changed", "target", "PTX", "ptxas", "", "says"),
                [(t.change, t.target, t.version, t.toolkit,
                  "accepted" if t.accepted else "refused", t.message) for t in found.trials]))
            at = f" (line {found.line}: {found.text.split()[0]})" if found.text else ""
            notes += [f"{found.because}: {found.reason}{at}",
                      *(f"instead: {word}" for word in found.instead)]
    return View(rows, grids, notes, int(code))


def images(asked: Asked) -> View:
    """Image coverage."""
    if not asked.words:
        raise UsageError("no image", "is asked about",
                         legal="mmalab atlas sm_100a compute_90 --what images --target 10.3",
                         where=_WHERE)
    found = coverage(asked.words, asked.targets or None)
    rows = [{"form": c.image, "ptx": "", "toolkit": "", "targets": [c.device] if c.runs else [],
             "messages": {} if c.runs else {c.device: c.reason}, "instead": c.instead}
            for c in found]
    grid = Grid(("image", "device", "runs", "because", "build also"),
                [(c.image, c.device, "yes" if c.runs else "no", c.reason, ", ".join(c.instead))
                 for c in found])
    bare = [d for d in dict.fromkeys(c.device for c in found)
            if not any(c.runs for c in found if c.device == d)]
    notes = [f"no image for {', '.join(bare)}"] if bare else ["every device has an image"]
    return View(rows, [grid], notes, int(bool(bare)))


def explained(asked: Asked) -> View:
    """Messages: all, the one given, or what a number stands for."""
    if len(asked.words) == 1 and re.fullmatch(r"C\d{4}", asked.words[0]):
        return _numbered(asked.words[0])
    if asked.words:
        row = explain_message(" ".join(asked.words))
        data = [{"form": row.words, "ptx": "", "toolkit": "", "targets": [], "messages": {},
                 "meaning": row.meaning, "cause": row.cause, "remedy": row.remedy}]
        return View(data, notes=(row.words, f"  means:  {row.meaning}", f"  cause:  {row.cause}",
                                 f"  remedy: {row.remedy}"))
    seen = [p for toolkit in asked.toolkits for p in provoked(toolkit)]
    by_row: dict[str, list[Provoked]] = {}
    for p in seen:
        by_row.setdefault(p.message.words, []).append(p)
    rows, cells = [], []
    for row in messages():
        said = by_row.get(row.words, [])
        numbers = dict.fromkeys(f"{p.number} in {p.toolkit}" for p in said if p.number)
        rows.append({
            "form": row.words, "ptx": said[0].ptx if said else "",
            "toolkit": said[0].toolkit if said else "",
            "targets": ["sm_90a"] if said else [],
            "messages": {"sm_90a": said[0].text} if said else {}, "kind": row.kind,
            "meaning": row.meaning, "cause": row.cause, "remedy": row.remedy,
            "numbers": {p.toolkit: p.number for p in said if p.number}})
        cells.append((row.words, ", ".join(numbers), row.meaning, row.cause, row.remedy))
    return View(rows, [Grid(("message", "number", "means", "cause", "remedy"), cells)])


def _numbered(number: str) -> View:
    found = numbered(number)
    rows = [{"form": number, "ptx": p.ptx, "toolkit": p.toolkit, "targets": ["sm_90a"],
             "messages": {"sm_90a": p.text}, "meaning": p.message.meaning,
             "cause": p.message.cause, "remedy": p.message.remedy} for p in found]
    grid = Grid(("ptxas", "says", "means", "cause", "remedy"),
                [(p.toolkit, p.message.words, p.message.meaning, p.message.cause,
                  p.message.remedy) for p in found], number)
    return View(rows, [grid])


VIEWS: dict[str, Callable[[Asked], View]] = {
    "targets": targets, "versions": versions, "ports": ports, "why": rejection, "images": images,
    "messages": explained,
}
