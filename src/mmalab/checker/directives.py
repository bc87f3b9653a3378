"""Performance directives of an entry: within the chip's limits, and not against each other.

``.reqntid 1024`` with ``.maxnreg 128`` asks for 131072 registers of the 65536 that a CTA can have:
the assembler takes it, no launch will succeed.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from mmalab.checker.rule import Fault, message
from mmalab.checker.subject import Body, Subject
from mmalab.isa import Limits, Target, entry_registers, legal, limits, parse_targets
from mmalab.isa.entry_registers import FIXED_BY

__all__ = ["consistent", "launchable", "performance_targets", "registers_known"]

#: Directives: (targets, first PTX version).
_NEEDS: dict[str, tuple[str, tuple[int, int]]] = {
    ".reqnctapercluster": ("sm_90+", (7, 8)),
    ".explicitcluster": ("sm_90+", (7, 8)),
    ".maxclusterrank": ("sm_90+", (7, 8)),
    ".blocksareclusters": ("sm_90+", (9, 0)),
}
#: Directives that exclude each other, or need another.
_EXCLUSIVE = ((".maxntid", ".reqntid"), (".maxclusterrank", ".reqnctapercluster"))
_TOGETHER = ((".blocksareclusters", (".reqntid", ".reqnctapercluster")),)


def _values(body: Body) -> dict[str, tuple[int, ...]]:
    """Directive -> its numbers."""
    return {name: tuple(int(v) for v in text.split(",") if v.strip().lstrip("-").isdigit())
            for name, text in body.function.attributes if name != ".pragma"}


def _entries(subject: Subject) -> Iterator[tuple[Body, str, dict[str, tuple[int, ...]]]]:
    for body in subject.bodies:
        if body.function.attributes:
            yield body, f"{body.function.kind} {body.function.name}", _values(body)


def performance_targets(subject: Subject) -> Iterator[Fault]:
    """Cluster directives before clusters."""
    on = subject.target
    for body, named, values in _entries(subject):
        for directive in values:
            need, first = _NEEDS.get(directive, ("any", (1, 0)))
            if on is not None and on.name not in parse_targets(need):
                yield Fault(message(f"{directive} of {named}", f"needs {parse_targets(need)}, "
                                    f"{on} is not among them"), body.function.line)
            elif subject.version < first:
                have, want = (".".join(map(str, v)) for v in (subject.version, first))
                yield Fault(message(f"{directive} of {named}", f"needs PTX {want}, the version is "
                                    f"{have}", [f".version {want} or newer"]),
                            body.function.line, code="ptx-version")


def consistent(subject: Subject) -> Iterator[Fault]:
    """Directives that exclude or need each other, stand where none may, or are not positive."""
    for body, named, values in _entries(subject):
        line = body.function.line
        for one, other in _EXCLUSIVE:
            if one in values and other in values:
                yield Fault(message(named, f"has both {one} and {other}", [f"one of {one}, {other}"]
                                    ), line)
        for one, others in _TOGETHER:
            if one in values and not set(others) <= set(values):
                yield Fault(message(named, f"{one} asks for {' and '.join(others)}"), line)
        for directive in (".maxntid", ".reqntid", ".reqnctapercluster"):
            if any(value < 1 for value in values.get(directive, ())):
                yield Fault(message(f"{directive} of {named}", "is not positive",
                                    ["1 and more"]), line)
        yield from _placed(body, named, values)


def _placed(body: Body, named: str, values: dict[str, tuple[int, ...]]) -> Iterator[Fault]:
    line, entry = body.function.line, body.function.kind == "entry"
    only = {".noreturn", ".abi_preserve", ".abi_preserve_control"}
    for directive in values:
        if directive == ".maxnctapersm":
            yield Fault(message(f"{directive} of {named}", "was removed after PTX 2.0",
                                [".minnctapersm"]), line)
        elif entry == (directive in only) and directive != ".attribute":
            place = "a .func, not an .entry" if entry else "an .entry, not a .func"
            yield Fault(message(f"{directive} of {named}", f"belongs to {place}"), line)


def launchable(subject: Subject) -> Iterator[Fault]:
    """Shapes and registers that no launch can have, or that the assembler ignores."""
    if subject.target is None:
        return
    chip = limits(subject.target)
    for body, named, values in _entries(subject):
        for fault in _shapes(named, values, subject.target, chip):
            yield Fault(fault, body.function.line)
        for fault in _registers(named, values, chip):
            yield Fault(fault, body.function.line)


def registers_known(subject: Subject) -> Iterator[Fault]:
    """setmaxnreg where the assembler does not know the registers at entry: it leaves it out."""
    if subject.target is None:
        return
    for body in subject.bodies:
        moved = [site for site in body.sites
                 if site.instruction.opcode.startswith("setmaxnreg.")
                 and legal(site.instruction.opcode, subject.target.name)]
        if body.function.kind == "entry" and moved and not entry_registers(
                _values(body), subject.target):
            yield Fault(message(
                f"setmaxnreg in entry {body.function.name}", "is ignored (C7508), unless "
                "-maxrregcount is given: the registers at entry are not known", FIXED_BY),
                moved[0].line)


def _shapes(named: str, values: dict[str, tuple[int, ...]], on: Target,
            chip: Limits) -> Iterator[str]:
    for directive in (".maxntid", ".reqntid"):
        threads = prod(values.get(directive, (1,)))
        if threads > chip.threads_per_cta:
            yield message(f"{directive} of {named}", f"has {threads} threads",
                          [f"up to {chip.threads_per_cta}"])
    ctas = prod(values.get(".reqnctapercluster", (1,)))
    if chip.cluster and ctas > chip.cluster:
        yield message(f".reqnctapercluster of {named}", f"has {ctas} CTAs, {on} has clusters of "
                      f"{chip.cluster} at most", [f"up to {chip.cluster_portable} portably"])
    elif chip.cluster and ctas > chip.cluster_portable:
        yield message(f".reqnctapercluster of {named}", f"has {ctas} CTAs: the launch needs the "
                      "attribute for non-portable cluster sizes",
                      [f"up to {chip.cluster_portable} portably"])


def _registers(named: str, values: dict[str, tuple[int, ...]], chip: Limits) -> Iterator[str]:
    least = prod(values.get(".minnctapersm", (0,)))
    threads = prod(values.get(".reqntid", values.get(".maxntid", (0,))))
    each = prod(values.get(".maxnreg", (0,)))
    if least and not threads:
        yield message(f".minnctapersm of {named}", "is ignored without .maxntid or .reqntid")
    elif least and (least > chip.ctas or least * threads > chip.threads):
        yield message(f".minnctapersm of {named}", f"{least} CTAs of {threads} threads are more "
                      f"than an SM holds: it is ignored",
                      [f"up to {min(chip.ctas, chip.threads // max(1, threads))}"])
    if each > chip.registers_per_thread:
        yield message(f".maxnreg of {named}", f"{each} is over the limit: it is ignored",
                      [f"up to {chip.registers_per_thread}"])
    elif each and ".reqntid" in values and each * threads > chip.registers_per_cta:
        yield message(f".maxnreg of {named}", f"{each} registers for each of {threads} threads are "
                      f"{each * threads}, more than the {chip.registers_per_cta} of a CTA",
                      [f"up to {chip.registers_per_cta // threads}"])
