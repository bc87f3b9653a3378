"""Instructions of a warpgroup, or of a warp, in a CTA that has none, or a broken one.

``wgmma`` and ``setmaxnreg`` are executed by four warps together: 128 threads, the first of them
number 0, 128, 256 and so on. Two things are certain from the text alone::

    .entry k() .reqntid 64 { ... wgmma.fence.sync.aligned; ... }      there is no warpgroup at all
    .entry k() .reqntid 192 { wgmma.fence.sync.aligned; ... }         warps 4 and 5 come here too

``.maxntid 64`` says the same as ``.reqntid 64``; more threads than 128 it only allows. In a CTA
whose last warpgroup is broken the others may multiply, so there the rule speaks only of what every
thread executes: nothing before it branches forwards or ends the thread. What setmaxnreg does with
fewer warps no document says: a warning, where wgmma is an error. A matrix of mma.sync, ldmatrix and
their kin lies in the 32 lanes of a warp, and a block of 48 threads has a warp of 16: a warning too.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from mmalab.checker.rule import Fault, message
from mmalab.checker.subject import Body, Site, Subject
from mmalab.findings import Severity
from mmalab.isa import Form
from mmalab.ptx.nodes import Call, Label, Name

__all__ = ["GROUP", "of_warpgroup", "whole_warpgroups"]

#: Threads of a warpgroup.
GROUP = 128
_WARP = 32
_NAMES = {_WARP: "warp", GROUP: "warpgroup"}
#: What spreads a matrix over the lanes of a warp.
_MATRICES = ("mma.", "wmma.", "ldmatrix", "stmatrix", "movmatrix")
_ENDS = ("ret", "exit", "trap", "brx")


def of_warpgroup(form: Form | None) -> bool:
    """Whether the instruction is for the four warps of a warpgroup."""
    return form is not None and (
        form.family.startswith("wgmma.") or form.family == "setmaxnreg")


def whole_warpgroups(subject: Subject) -> Iterator[Fault]:
    """Instructions of warps and warpgroups that the directives leave no whole one to execute."""
    units = {_unit(form) for form in subject.forms.values()} - {0}
    for body in subject.bodies:
        if body.function.kind != "entry":
            continue
        directive, threads = _threads(body)
        for unit in sorted(units) if directive else ():
            if threads < unit:
                yield from _without(subject, body, directive, threads, unit)
            elif directive == ".reqntid" and threads % unit:
                yield from _broken(subject, body, threads, unit)


def _unit(form: Form | None) -> int:
    """How many threads carry the instruction out together; 0: any."""
    if of_warpgroup(form):
        return GROUP
    return _WARP if form is not None and form.family.startswith(_MATRICES) else 0


def _threads(body: Body) -> tuple[str, int]:
    """The directive that bounds the threads of a CTA, and how many it says."""
    said = dict(body.function.attributes)
    for directive in (".reqntid", ".maxntid"):
        if directive in said:
            return directive, prod(int(one) for one in said[directive].split(","))
    return "", 0


def _without(subject: Subject, entry: Body, directive: str, threads: int,
             unit: int) -> Iterator[Fault]:
    """The first such instruction of the entry, or of a function that it calls."""
    sites = [site for body in _reached(subject, entry) for site in body.sites
             if _unit(subject.forms[site.instruction.opcode]) == unit]
    if sites:
        first = min(sites, key=lambda site: (_severity(site) != "error", site.line))
        yield Fault(message(
            first.instruction.text.strip(), f"is for the {unit} threads of a {_NAMES[unit]}, and "
            f"{directive} gives the CTAs of {entry.function.name} {threads}",
            [f"{directive} {unit} and more"]), first.line,
            {"threads": threads, "lines": sorted(site.line for site in sites)},
            severity=_severity(first))


def _severity(site: Site) -> Severity:
    return "error" if site.instruction.opcode.startswith("wgmma") else "warning"


def _broken(subject: Subject, body: Body, threads: int, unit: int) -> Iterator[Fault]:
    for site in _executed_by_all(body):
        if _unit(subject.forms[site.instruction.opcode]) == unit:
            legal = [f".reqntid {-(-threads // unit) * unit}"]
            if threads > unit:
                legal.insert(0, f".reqntid {threads // unit * unit}")
            name = _NAMES[unit]
            yield Fault(message(
                site.instruction.text.strip(), f"is for whole {name}s, every thread of "
                f"{body.function.name} executes it, and {threads % unit} of its {threads} are no "
                f"{name}", legal, f"a branch that only whole {name}s take"), site.line,
                {"threads": threads}, severity=_severity(site))
            return


def _executed_by_all(body: Body) -> Iterator[Site]:
    """Instructions from the top until some thread may have gone another way for good.

    Branches backwards are loops: who leaves them goes on below.
    """
    behind: set[str] = set()
    for item in body.stream:
        if isinstance(item, Label):
            behind.add(item.name)
            continue
        head = item.instruction.opcode.split(".")[0]
        targets = {op.name for op in item.instruction.operands if isinstance(op, Name)}
        if head in _ENDS or (head == "bra" and not targets <= behind):
            return
        if item.instruction.guard is None:
            yield item


def _reached(subject: Subject, entry: Body) -> list[Body]:
    """The entry and the functions that it calls by name, and theirs."""
    bodies = {body.function.name: body for body in subject.bodies}
    found, waiting = {entry.function.name: entry}, [entry]
    while waiting:
        for site in waiting.pop().sites:
            for operand in site.instruction.operands:
                if isinstance(operand, Call) and isinstance(operand.target, Name):
                    name = operand.target.name
                    if name in bodies and name not in found:
                        found[name] = bodies[name]
                        waiting.append(bodies[name])
    return list(found.values())
