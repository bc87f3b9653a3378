"""Whether the instruction exists: on this chip, in this PTX version, and in hardware.

All of it is decided by the opcode, so each distinct opcode is asked once and reported once, at its
first line, with the other lines as witness::

    line 12: wgmma.fence.sync.aligned: wgmma.fence needs sm_90a, sm_100a is not among them
      instead: tcgen05.mma, with its accumulators in Tensor Memory
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache

from mmalab.checker.hints import instead
from mmalab.checker.rule import Fault, message
from mmalab.checker.subject import Site, Subject
from mmalab.isa import Target, Verdict, execution, legal

__all__ = ["emulated", "exists", "needs_target", "needs_version", "one_cta_group", "slower"]


def _where(sites: list[Site]) -> tuple[int, dict[str, list[int]]]:
    lines = sorted({site.line for site in sites})
    return lines[0], {"lines": lines}


@lru_cache(maxsize=4096)
def _verdict(opcode: str, target: Target | None, version: tuple[int, int]) -> Verdict:
    return legal(opcode, target.name if target else None, version)


def _refused(subject: Subject, *rules: str) -> Iterator[tuple[str, list[Site], Verdict]]:
    on, version = subject.target, subject.version
    if on is not None:
        version = max(version, on.ptx)  # where the target is too new for it, the header is at fault
    for opcode, sites in subject.groups.items():
        verdict = _verdict(opcode, on, version)
        if not verdict.legal and verdict.rule in rules:
            yield opcode, sites, verdict


def exists(subject: Subject) -> Iterable[Fault]:
    """Opcodes that the ISA does not have; one note per family that the table does not hold."""
    unheld: defaultdict[str, list[Site]] = defaultdict(list)
    for opcode, sites, verdict in _refused(subject, "opcode", "not-in-table"):
        if verdict.known:
            # The verdict's words begin with the opcode.
            yield Fault(message(opcode, verdict.reason.removeprefix(f"{opcode}: "),
                                verdict.nearest), *_where(sites))
        else:
            unheld[verdict.reason] += sites
    for reason, sites in unheld.items():
        yield Fault(f"{reason}: nothing of it is checked", *_where(sites), severity="note")


def needs_target(subject: Subject) -> Iterable[Fault]:
    """Opcodes that the target lacks, with what to write instead."""
    on = subject.target
    for opcode, sites, verdict in _refused(subject, "target"):
        line, witness = _where(sites)
        hint = instead(opcode, on) if on is not None else ""
        yield Fault(message(opcode, verdict.reason, verdict.nearest, hint), line, witness)


def needs_version(subject: Subject) -> Iterable[Fault]:
    """Opcodes that ask for a newer ``.version`` than the module's (or are gone in it)."""
    for opcode, sites, verdict in _refused(subject, "ptx-version"):
        line, witness = _where(sites)
        yield Fault(message(opcode, verdict.reason, verdict.nearest), line, witness)


def one_cta_group(subject: Subject) -> Iterable[Fault]:
    """Functions that use tcgen05 for one CTA and for a pair of them."""
    met: defaultdict[int, dict[str, Site]] = defaultdict(dict)
    for opcode, sites in subject.groups.items():
        form = subject.forms[opcode]
        group = form.modifiers.get("cta_group") if form is not None else None
        if group is not None and opcode.startswith("tcgen05."):
            for site in sites:
                met[id(site.body)].setdefault(group, site)
    for groups in met.values():
        if len(groups) > 1:
            first, second = sorted(groups.values(), key=lambda site: site.line)[:2]
            yield Fault(message(
                second.instruction.text.strip(), "another .cta_group than in line "
                f"{first.line}: a function has one", [first.instruction.opcode]), second.line,
                {"lines": [first.line, second.line]})


def emulated(subject: Subject) -> Iterable[Fault]:
    """Matrix instructions that the chip builds from others."""
    for opcode, sites in subject.groups.items():
        form = subject.forms[opcode]
        if form is None or form.shape is None or subject.target is None:
            continue
        runs = execution(form, subject.target)
        if runs is not None and not runs.native:
            line, witness = _where(sites)
            yield Fault(message(
                opcode, f"{subject.target} has no such unit: the assembler builds it from "
                f"{runs.unit} ({runs.evidence}), with the speed and the rounding of those",
                instead=instead(opcode, subject.target, emulated=True)), line, witness)


def slower(subject: Subject) -> Iterable[Fault]:
    """Sparse products with unordered metadata, which later chips run slower."""
    for opcode, sites in subject.groups.items():
        if opcode.startswith("mma.sp.sync."):
            line, witness = _where(sites)
            better = opcode.replace("mma.sp.", "mma.sp::ordered_metadata.", 1)
            yield Fault(message(
                opcode, "unordered sparsity metadata may have reduced performance on later "
                "targets", instead=f"{better} (PTX 8.5; the metadata must be in order)"),
                line, witness)
