"""Waits that do not wait: results that nobody looks at, copies that nobody waits for.

``mbarrier.try_wait`` may come back false at any time. If nothing branches, selects or stores by its
predicate, the kernel has not waited, whatever a lucky run shows. The rule follows values::

    mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;
    selp.u32 %r1, 1, 0, %p1;            no more than this: the wait is unchecked

A register matters if an instruction with an effect reads it (a guard, a store, a branch, a call),
or one whose own result matters. Registers are taken over the whole function, so the rule is silent
wherever a name is used twice: what it reports is certain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from mmalab.checker.names import registers_of
from mmalab.checker.rule import Fault, message
from mmalab.checker.subject import Body, Site, Subject

__all__ = ["checked", "covered"]

_WAITS = ("mbarrier.test_wait", "mbarrier.try_wait")

#: Families without an effect but their result.
_PURE = frozenset((
    "abs", "add", "and", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "cnot", "cvt", "cvta",
    "fma", "fns", "isspacep", "lop3", "mad", "mad24", "max", "min", "mov", "mul", "mul24", "neg",
    "not", "or", "popc", "prmt", "selp", "set", "setp", "shf", "shl", "shr", "slct", "sub",
    "szext", "xor",
))

_Register = tuple[int, str]


def checked(subject: Subject) -> Iterator[Fault]:
    """``test_wait`` and ``try_wait`` whose predicate nothing looks at."""
    waits: defaultdict[int, list[Site]] = defaultdict(list)
    for site in subject.of_family(*_WAITS):
        waits[id(site.body)].append(site)
    for body in subject.bodies:
        if id(body) not in waits:
            continue
        matters = _matters(subject, body)
        for site in waits[id(body)]:
            results = set(_named(site, *site.instruction.operands[:1]))
            if results and not results & matters:
                shown = ", ".join(name for _, name in results)
                yield Fault(message(
                    site.instruction.text.strip(), f"nothing looks at its result {shown}, which "
                    "may be false: the kernel has not waited",
                    instead="branch back to the wait while it is false"), site.line)


def _named(site: Site, *operands: object) -> Iterator[_Register]:
    for operand in operands:
        for name in registers_of(operand):  # type: ignore[arg-type]
            owner = site.scope.owner(name)
            yield id(owner), name


def _matters(subject: Subject, body: Body) -> set[_Register]:
    """Registers whose value reaches an effect."""
    matters: set[_Register] = set()
    feeds: defaultdict[_Register, set[_Register]] = defaultdict(set)
    for site in body.sites:
        instruction = site.instruction
        form = subject.forms[instruction.opcode]
        read: set[_Register] = set()
        if instruction.guard is not None:
            read.add((id(site.scope.owner(instruction.guard.register)),
                      instruction.guard.register))
        if form is not None and form.family in _PURE:
            read |= set(_named(site, *instruction.operands[1:]))
            for result in _named(site, *instruction.operands[:1]):
                feeds[result] |= read
        elif form is not None and form.family in _WAITS:
            # Its own predicate is written; a guard only says whether it runs.
            matters |= read | set(_named(site, *instruction.operands[1:]))
        else:
            matters |= read | set(_named(site, *instruction.operands))
    waiting = list(matters)
    while waiting:
        for source in feeds[waiting.pop()]:
            if source not in matters:
                matters.add(source)
                waiting.append(source)
    return matters


# --- groups without a wait ------------------------------------------------------------------------

#: (opcode prefix, what must be somewhere in the module, code, what to add).
_PAIRS: tuple[tuple[str, tuple[str, ...], str, str], ...] = (
    ("cp.async.ca.", ("cp.async.wait_", "cp.async.mbarrier.arrive"), "missing-cp-async-wait",
     "cp.async.wait_group or wait_all before the bytes are read"),
    ("cp.async.cg.", ("cp.async.wait_", "cp.async.mbarrier.arrive"), "missing-cp-async-wait",
     "cp.async.wait_group or wait_all before the bytes are read"),
    ("wgmma.mma_async.", ("wgmma.wait_group",), "missing-wgmma-wait",
     "wgmma.commit_group and wgmma.wait_group before the accumulators are read"),
    ("tcgen05.ld.", ("tcgen05.wait::ld",), "missing-tcgen05-wait",
     "tcgen05.wait::ld before the registers are read"),
    ("tcgen05.mma.", ("tcgen05.commit",), "missing-tcgen05-commit",
     "tcgen05.commit on an mbarrier, and a wait for its phase"),
)


def covered(subject: Subject) -> Iterator[Fault]:
    """Asynchronous operations in a module that has no instruction to wait for them."""
    if not subject.module.entries:
        return  # a library: its caller may wait
    for prefix, waits, code, repair in _PAIRS:
        starts = [sites for opcode, sites in subject.groups.items() if opcode.startswith(prefix)]
        if starts and not any(opcode.startswith(waits) for opcode in subject.groups):
            lines = sorted(site.line for sites in starts for site in sites)
            yield Fault(message(f"{prefix}*", "is issued, and nothing in the module waits for it",
                                instead=repair), lines[0], {"lines": lines}, code=code)
