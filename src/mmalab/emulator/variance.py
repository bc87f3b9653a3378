"""What may differ between the clusters of a launch: a dataflow over the program, before it runs.

Clusters of a kernel do the same work on other data. Where that is so, one of them tells about the
order in all of them. Two clusters go the same way, thread by thread, and name the same places in
shared memory, if every value that decides about these is made of thread numbers, the rank in the
cluster, parameters and literals alone. What may differ has another source: the CTA's number, a
clock, memory. A site where such a value *counts* is *varying*: to know whether two clusters did the
same there, one has to look while they run::

    mov.u32 %r1, %ctaid.x;                       differs
    setp.ge.u32 %p1, %r1, 64;                    so does this
    @%p1 bra $done;                              varying: %p1 counts
    mad.lo.u32 %r2, %r1, 128, %r0;
    st.global.b32 [%rd1], %r2;                   no: where global memory is touched is not a matter
                                                 of one cluster, and what is stored decides nothing

A wait for an mbarrier succeeds sooner or later. That counts for nothing where all that a kernel
does with a false answer is to ask again (:mod:`mmalab.emulator.asking`).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import lru_cache

from mmalab.emulator.asking import WAITS, asks_again
from mmalab.emulator.liveness import Slot, reads_of, slots_of, writes_of
from mmalab.emulator.program import Addr, Imm, Op, Program, Site, Special, Vec

__all__ = ["Varying", "varying_sites"]

#: Special registers with the same values in every cluster.
_SAME = tuple(f"%{name}" for name in (
    "tid.", "ntid.", "nctaid.", "nclusterid.", "cluster_ctaid.", "cluster_nctaid.",
    "cluster_ctarank", "cluster_nctarank", "is_explicit_cluster", "laneid", "warpid", "nwarpid",
    "lanemask_", "total_smem_size", "dynamic_smem_size", "aggr_smem_size",
    "reserved_smem_offset"))

#: Families that make values of values, and hints: nobody is told of them.
_PLAIN = frozenset({
    "abs", "add", "and", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "cnot", "copysign",
    "cos", "createpolicy.cvt", "createpolicy.fractional", "createpolicy.range", "cvt",
    "cvt.pack", "cvta", "div", "dp2a", "dp4a", "ex2", "fma", "fns", "getctarank", "isspacep",
    "lg2", "lop3", "mad", "mad24", "mapa", "max", "min", "mov", "mov.vec", "mul", "mul24",
    "neg", "not", "or", "popc", "prmt", "rcp", "rem", "rsqrt", "sad", "selp", "set", "setp",
    "shf", "shl", "shr", "sin", "slct", "sqrt", "sub", "szext", "tanh", "testp", "xor",
    "activemask", "addc", "subc", "madc", "nanosleep", "pmevent", "pmevent.mask", "prefetch",
    "prefetchu", "applypriority", "discard", "cp.async.bulk.prefetch",
    "cp.async.bulk.prefetch.tensor",
})

_EVERY = ("*",)
#: Family -> the operands that count, by name; "*" stands for all but results.
_COUNTING: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("bra", "exit", "ret", "trap", "mma.sync", "mma.sp", "wmma.mma", "movmatrix",
                     "cp.async.commit_group", "barrier.cluster.arrive", "barrier.cluster.wait",
                     "wgmma.fence", "wgmma.commit_group", "cp.async.bulk.commit_group"), ()),
    **dict.fromkeys(("bar.sync", "bar.arrive", "fence", "membar", "setmaxnreg", "bar.warp.sync",
                     "wgmma.wait_group", "cp.async.wait_group", "cp.async.wait_all",
                     "cp.async.mbarrier.arrive", "cp.async.bulk.wait_group", "mbarrier.init",
                     "mbarrier.inval", "mbarrier.arrive", "mbarrier.arrive_drop",
                     "mbarrier.expect_tx", "mbarrier.complete_tx", "mbarrier.pending_count",
                     "brx.idx", "st.bulk", *WAITS), _EVERY),
    **dict.fromkeys(("ld", "ldu", "st", "ldmatrix", "stmatrix"), ("a",)),
    **dict.fromkeys(("wmma.load", "wmma.store"), ("a", "stride")),
    **dict.fromkeys(("vote.sync", "match.sync", "redux.sync", "elect.sync"), ("mask",)),
    "shfl.sync": ("b", "c", "mask"), "bar.red": ("a", "n"), "cp.async": ("d", "size", "src"),
    "wgmma.mma_async": ("a", "b", "e", "scale_d"),
    "cp.async.bulk": ("a", "b", "size", "left", "right", "mbar", "ctas", "bytes"),
    "cp.async.bulk.tensor": ("a", "map", "mbar", "ctas"),
}
#: Families whose results differ whatever they are made of: they come out of memory, out of other
#: threads, out of a condition code that is no register.
_FRESH = frozenset({
    "ldmatrix", "wmma.load", "activemask", "addc", "subc", "madc", "mbarrier.arrive",
    "mbarrier.arrive_drop", "mbarrier.pending_count", "bar.red", "wgmma.mma_async",
})
_CONSTANT = ("param", "const")


@dataclass(frozen=True, slots=True)
class Varying:
    """One varying site: whether its guard may differ, and the slots of operands that count."""

    guard: bool
    slots: tuple[Slot, ...]


class _ByIdentity:
    """A program as a key: it holds dicts, so it has no hash of its own."""

    __slots__ = ("program",)

    def __init__(self, program: Program) -> None:
        self.program = program

    def __hash__(self) -> int:
        return id(self.program)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and other.program is self.program


def varying_sites(program: Program) -> dict[int, Varying] | None:
    """The varying sites of a program, by index.

    None where clusters may see each other's timing (atomics, strong accesses, answers of a wait
    that are used otherwise), or where the rules do not know an instruction.
    """
    return _varying_sites(_ByIdentity(program))


@lru_cache(maxsize=32)
def _varying_sites(key: _ByIdentity) -> dict[int, Varying] | None:
    program = key.program
    if not all(map(_is_known, program.sites)) or not all(
            asks_again(program, site) for site in program.sites if site.form.family in WAITS):
        return None
    found: dict[int, Varying] = {}
    for block, into in zip(program.blocks, _flow(program), strict=True):
        differing = set(into)
        for site in program.sites[block.start : block.stop]:
            varying = _varying(site, differing, program.maybe_undefined)
            if varying is not None:
                found[site.index] = varying
            _after(site, differing)
    return found


# --- what is known --------------------------------------------------------------------------------

def _is_known(site: Site) -> bool:
    family, modifiers = site.form.family, site.form.modifiers
    if family in ("ld", "ldu", "st") and modifiers.get("sem", "weak") != "weak":
        return False
    return family in _PLAIN or (family in _COUNTING and not any(
        isinstance(op, Special) and _differs(op, set()) for op in _counting(site)))


# --- the dataflow ---------------------------------------------------------------------------------

def _flow(program: Program) -> list[set[Slot]]:
    """The slots that may differ at the start of each block: forward, to the fixed point."""
    into = [set[Slot]() for _ in program.blocks]
    pending = list(range(len(program.blocks)))
    while pending:
        index = pending.pop()
        block = program.blocks[index]
        differing = set(into[index])
        for site in program.sites[block.start : block.stop]:
            _after(site, differing)
        for following in block.successors:
            if not differing <= into[following]:
                into[following] |= differing
                pending.append(following)
    return into


def _after(site: Site, differing: set[Slot]) -> None:
    """What differs behind a site; a guarded write keeps the old value of some lanes."""
    written = writes_of(site)
    if _makes_different(site, differing):
        differing |= written
    elif site.guard is None:
        differing -= written


def _makes_different(site: Site, differing: set[Slot]) -> bool:
    family = site.form.family
    if site.guard is not None and ("p", site.guard[0]) in differing:
        return True
    if family in WAITS:
        return False  # true, once the loop is left
    if family in _FRESH:
        return True
    if family in ("ld", "ldu") and not site.form.modifiers.get("space", "").startswith(_CONSTANT):
        return True
    return any(_differs(op, differing)
               for spec, op in zip(site.form.operands, site.operands, strict=False)
               if spec.role != "write")


def _differs(op: Op, differing: set[Slot]) -> bool:
    if isinstance(op, Special):
        return not op.name.startswith(_SAME)
    if isinstance(op, Vec):
        return any(_differs(item, differing) for item in op.items)
    return any(slot in differing for slot in slots_of(op))


# --- what counts ----------------------------------------------------------------------------------

def _varying(site: Site, differing: set[Slot], unset: Container[Slot]) -> Varying | None:
    """`unset` are the slots that may be read before they are written: who sets and who reads them
    counts, whatever the value is."""
    guard = site.guard is not None and ("p", site.guard[0]) in differing
    if site.form.family in _PLAIN:
        touched = reads_of(site) | writes_of(site)
        return Varying(True, ()) if guard and any(slot in unset for slot in touched) else None
    slots = [slot for op in _counting(site) for slot in slots_of(op) if slot in differing]
    return Varying(guard, tuple(dict.fromkeys(slots))) if guard or slots else None


def _counting(site: Site) -> list[Op]:
    """The operands whose values decide what a cluster does in its own memory and registers."""
    family, modifiers = site.form.family, site.form.modifiers
    names = _COUNTING[family]
    found: list[Op] = []
    for spec, op in zip(site.form.operands, site.operands, strict=False):
        if spec.role == "write" or (names is not _EVERY and spec.name not in names):
            continue
        if family == "wgmma.mma_async" and isinstance(op, Vec):
            continue  # A in registers is data
        if _is_beyond(family, spec.name, modifiers):
            continue
        # the coordinates behind a map's address are data
        found.append(op if not isinstance(op, Addr) else op.base or Imm(op.offset))
    return found


def _is_beyond(family: str, name: str, modifiers: Mapping[str, str]) -> bool:
    """Whether the operand is an address in global or constant memory."""
    space = modifiers.get("space", "")
    if family == "cp.async.bulk":
        to_global = space == "global"
        return name == ("a" if to_global else "b") and (
            to_global or modifiers.get("source") != "shared::cta")
    return name == "a" and family in ("ld", "ldu", "st", "wmma.load", "wmma.store") and (
        space.startswith(("global", *_CONSTANT)))
