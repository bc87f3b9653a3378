"""Dependent launches: who touches global memory before the kernel ahead has ended.

A kernel launched programmatically may begin while the kernel ahead on its stream still runs;
``griddepcontrol.wait`` waits for its end and for its writes. One launch alone cannot show what the
kernel ahead writes, but the text shows which accesses nothing holds back::

    mov.u32 %r1, %tid.x;
    st.global.u32 [%rd1], %r1;     the kernel ahead may still read or write these bytes: a warning
    griddepcontrol.wait;
    ld.global.u32 %r2, [%rd2];     behind the wait

==========================================  ======================================================
the kernel                                  what is told
==========================================  ======================================================
is launched as a dependent (the Kernel      every access: a warning
says so) and has no wait
has a wait                                  writes that a path reaches without it: a warning;
                                            reads: a note, weights may be read ahead
lets dependents go, and has no wait         a note: right for the first kernel of a chain, and for
                                            one that is launched as ever
==========================================  ======================================================

A thread need not wait itself: behind a barrier that comes after some thread's wait, behind an
mbarrier's phase and behind an acquire others may have waited for it. Functions that wait count as a
wait where they are called; what they access is not followed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from mmalab.checker.rule import Fault, message
from mmalab.checker.subject import Body, Site, Subject
from mmalab.findings import Severity
from mmalab.ptx.nodes import Call, Label, Name

__all__ = ["held_back"]

_WAIT, _GO = "griddepcontrol.wait", "griddepcontrol.launch_dependents"
_BARRIERS = ("bar.", "barrier.")
_ENDS = ("ret", "exit", "trap")
_LOADS = frozenset(("ld", "ldu", "wmma.load", "multimem.ld_reduce"))
_STORES = frozenset(("st", "atom", "red", "wmma.store", "multimem.st", "multimem.red"))
_COPIES = frozenset(("cp.async", "cp.async.bulk", "cp.async.bulk.tensor", "cp.reduce.async.bulk",
                     "cp.reduce.async.bulk.tensor"))


def held_back(subject: Subject) -> Iterator[Fault]:
    """Accesses to global memory that no griddepcontrol.wait holds back."""
    if not (subject.dependent or _WAIT in subject.groups or _GO in subject.groups):
        return
    for body in subject.bodies:
        if body.function.kind == "entry" and not any(
                site.instruction.opcode.startswith("brx") for site in body.sites):
            yield from _Flow(subject, body).faults()


class _Flow:
    """One entry's instructions by number, and where control may go from each."""

    def __init__(self, subject: Subject, body: Body) -> None:
        self._subject = subject
        self._body = body
        self._stream = body.stream
        self._labels = {(item.name, item.line): at for at, item in enumerate(self._stream)
                        if isinstance(item, Label)}
        waiting = {other.function.name for other in subject.bodies
                   if any(site.instruction.opcode == _WAIT for site in other.sites)}
        self._waits = [at for at, item in enumerate(self._stream)
                       if isinstance(item, Site) and _waits(item, waiting)]

    def faults(self) -> Iterator[Fault]:
        """The table of the module, row by row."""
        reads, writes = self._accesses(self._reached([0], self._blocked()))
        if self._waits:
            line = self._line(self._waits[0])
            yield from self._told(
                writes, "warning", f"writes global memory and may come before the griddepcontrol."
                f"wait in line {line}: the kernel ahead may still read or write it",
                "griddepcontrol.wait before it, or a barrier between")
            yield from self._told(
                reads, "note", f"reads global memory and may come before the griddepcontrol.wait "
                f"in line {line}: right only for what the kernel ahead does not write", "")
        elif self._subject.dependent:
            yield from self._told(
                sorted(reads + writes, key=lambda site: site.line), "warning",
                f"accesses global memory, {self._body.function.name} is launched so that it may "
                "begin before the kernel ahead has ended, and nothing waits for that kernel",
                f"{_WAIT} before it")
        elif _GO in self._subject.groups:
            yield from self._told(
                sorted(reads + writes, key=lambda site: site.line), "note",
                "accesses global memory, and nothing waits for the kernel ahead, although this one "
                "lets its dependents go: right where it is not launched as a dependent itself",
                f"{_WAIT} before it")

    @staticmethod
    def _told(sites: list[Site], severity: Severity, rule: str, repair: str) -> Iterator[Fault]:
        if sites:
            yield Fault(message(sites[0].instruction.text.strip(), rule, instead=repair),
                        sites[0].line, {"lines": sorted({site.line for site in sites})},
                        severity=severity)

    def _line(self, at: int) -> int:
        item = self._stream[at]
        return item.line

    def _accesses(self, reached: Collection[int]) -> tuple[list[Site], list[Site]]:
        """The reads and writes of global memory among some instructions."""
        reads, writes = list[Site](), list[Site]()
        for at in sorted(reached):
            item = self._stream[at]
            form = self._subject.forms[item.instruction.opcode] if isinstance(item, Site) else None
            if form is None or not isinstance(item, Site):
                continue
            if form.modifiers.get("space", "").startswith("global"):
                if form.family in _LOADS:
                    reads.append(item)
                elif form.family in _STORES | _COPIES:
                    writes.append(item)
            elif form.family in _COPIES and form.modifiers.get("source", "").startswith("global"):
                reads.append(item)
        return reads, writes

    def _blocked(self) -> set[int]:
        """Waits, and what may tell a thread that another has waited."""
        if not self._waits:
            return set()
        behind = self._reached([at + 1 for at in self._waits], set())
        return {*self._waits, *(
            at for at, item in enumerate(self._stream)
            if isinstance(item, Site) and self._tells(item, at in behind))}

    def _tells(self, site: Site, behind: bool) -> bool:
        form = self._subject.forms[site.instruction.opcode]
        if form is None:
            return False
        if form.family.startswith(_BARRIERS):
            return behind and "arrive" not in form.key.split(".")
        return form.family in ("mbarrier.test_wait", "mbarrier.try_wait") or (
            form.family in ("ld", "atom") and "acq" in form.modifiers.get("sem", ""))

    def _reached(self, starts: list[int], blocked: set[int]) -> set[int]:
        """Instructions that control may reach from some, but not through `blocked` ones."""
        found, waiting = set[int](), list(starts)
        while waiting:
            at = waiting.pop()
            if at in found or at in blocked or at >= len(self._stream):
                continue
            found.add(at)
            waiting += self._next(at)
        return found

    def _next(self, at: int) -> list[int]:
        item = self._stream[at]
        if isinstance(item, Label):
            return [at + 1]
        head = item.instruction.opcode.split(".")[0]
        goes_on = [at + 1] if item.instruction.guard is not None or (
            head not in (*_ENDS, "bra")) else []
        return [*goes_on, *(self._target(item) if head == "bra" else [])]

    def _target(self, site: Site) -> list[int]:
        """Where a branch goes: the label that its scope means."""
        found = []
        for operand in site.instruction.operands:
            symbol = site.scope.find(operand.name) if isinstance(operand, Name) else None
            if symbol is not None and isinstance(operand, Name):
                at = self._labels.get((operand.name, symbol.line))
                found += [at] if at is not None else []
        return found


def _waits(site: Site, waiting: set[str]) -> bool:
    """Whether it waits, itself or by calling a function that does."""
    if site.instruction.opcode == _WAIT:
        return True
    return any(isinstance(operand, Call) and isinstance(operand.target, Name)
               and operand.target.name in waiting for operand in site.instruction.operands)
