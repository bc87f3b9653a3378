"""The same kernel with something left out: what it then gains is what that costs.

Each part that can be left out is an edit of the kernel's PTX, statement by statement (see
:mod:`mmalab.bench.anatomy`), and several can be left out together::

    store       C stays in registers: its stores are there, under a predicate that is false, of
                which ptxas does not know that it is; so nothing that leads to them goes
    send        C is laid out in shared memory, and TMA does not store it
    reads       fragments are read once a tile: the others become names of the first ones
    copy        nothing is filled, waited for or given back
    bytes       barriers and the role that fills stay, but nothing is copied
    products    every fourth product is left, so that each fragment is still somebody's operand

What comes out is wrong, on purpose. That it ends is what counts: whoever would signal and whoever
would wait are left out together.

    >>> from mmalab.kernels import sm80_mma
    >>> kernel = sm80_mma.gemm(512, 256, 512, copy="tma", sms=2)
    >>> kernel.ptx.count("ldmatrix"), without(kernel, "reads").ptx.count("ldmatrix")
    (64, 8)
    >>> [variant.name for variant in variants(kernel)][:3]
    ['all of it', 'C not written', 'fragments once']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from mmalab.bench.anatomy import Anatomy, anatomy, registers_of
from mmalab.errors import UsageError
from mmalab.ptx.edit import Editor
from mmalab.ptx.kernel import Kernel
from mmalab.ptx.nodes import Guard, Immediate, Instruction, Register, Vector

__all__ = ["PARTS", "Variant", "possible", "variants", "without"]

_WHERE = "mmalab.bench.without"
#: The block's third index, which is 0, and ptxas does not know it; what is never true of it; that
#: together with another predicate.
_INDEX, _NEVER, _BOTH = "%without_z", "%without_never", "%without_both"
#: Of so many products one is left.
_EVERY = 4
_EXPECT = "mbarrier.arrive.expect_tx."
_ARRIVE = "mbarrier.arrive."
_TRY, _BRING = "mbarrier.try_wait.", "cp.async.bulk.tensor."
#: From here on numbers that the index is not.
_UNTRUE = 1000


@dataclass(frozen=True, slots=True)
class Variant:
    """A kernel under a name of its own; `left_out` are the parts that it lacks."""

    name: str
    left_out: tuple[str, ...]
    kernel: Kernel


#: Name and parts of each variant, in the order in which they are told.
_VARIANTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("all of it", ()),
    ("C not written", ("store",)),
    ("C not sent", ("send",)),
    ("fragments once", ("reads",)),
    ("no bytes", ("bytes",)),
    ("nothing copied", ("copy",)),
    ("no copies, fragments once", ("copy", "reads")),
    ("no copies, C not written", ("copy", "store")),
    ("products only", ("copy", "reads", "store")),
    ("1/4 of the products", ("products",)),
    ("1/4, nothing copied", ("products", "copy")),
)


def variants(kernel: Kernel) -> list[Variant]:
    """The kernel as it is, and every variant that leaves out what it has; where it has no
    fragments, "products only" lacks the rest.

    Raises:
        UsageError: the kernel is none that a ring feeds.
    """
    there = possible(kernel)
    found: dict[tuple[str, ...], Variant] = {}
    for name, parts in _VARIANTS:
        wanted = tuple(part for part in parts if part in there)
        if wanted == parts or (name == "products only" and "reads" not in there):
            found[wanted] = Variant(name, wanted, without(kernel, *wanted))
    return list(found.values())


def possible(kernel: Kernel) -> set[str]:
    """The parts that a kernel has and can be left out.

    Raises:
        UsageError: it is none that a ring feeds.
    """
    found = anatomy(kernel)
    there = {"copy"}
    if found.stores:
        there.add("store")
    if found.sends:
        there.add("send")
    if found.vectors(1) or found.vectors(2):
        there.add("reads")
    if found.numbers((_EXPECT,), found.filling):
        there.add("bytes")
    if len(_kept(found)) < len(found.products):
        there.add("products")
    return there


def without(kernel: Kernel, *parts: str) -> Kernel:
    """The kernel with these parts left out.

    Raises:
        UsageError: a part that is not known, or that it has not.
    """
    for part in parts:
        if part not in PARTS:
            raise UsageError(f"without {part!r}", "is no part of a kernel", legal=list(PARTS),
                             where=_WHERE)
        if part not in (there := possible(kernel)):
            raise UsageError(f"kernel {kernel.name} without {part!r}", "has nothing of it",
                             legal=sorted(there), where=_WHERE)
    made = kernel
    for part in (each for each in PARTS if each in parts):
        found = anatomy(made)
        editor = Editor(found.module)
        PARTS[part](found, editor)
        made = replace(made, ptx=editor.text())
    name = "_".join((kernel.name, "without", *parts)) if parts else kernel.name
    return replace(made, name=name, reference=None if parts else kernel.reference)


# --- what ptxas does not know ---------------------------------------------------------------------

def _index(found: Anatomy, editor: Editor, *more: str) -> None:
    """Read the block's third index as the kernel begins, and what `more` is said of it there.

    Whoever compares it takes a number that nobody else has taken: what is known behind a branch
    would tell ptxas the other comparison.
    """
    first = found.body[next(at for at, _ in found.instructions())]
    lines = (f".reg .b32 {_INDEX};", f"mov.u32 {_INDEX}, %ctaid.z;")
    known = any(registers_of(one.operands[0]) == (_INDEX,)
                for _, one in found.instructions() if one.operands)
    # the first instruction is the reading itself where it is read already
    if known and more:
        editor.insert_after(first, *more)
    elif not known:
        editor.insert_before(first, *lines, *more)


# --- what leaves C --------------------------------------------------------------------------------

def _store(found: Anatomy, editor: Editor) -> None:
    """Stores that are never done, and that ptxas cannot leave out with all that leads to them."""
    _index(found, editor, f".reg .pred {_NEVER}, {_BOTH};",
           f"setp.eq.u32 {_NEVER}, {_INDEX}, {_UNTRUE};")
    for at in found.stores:
        one = found.instruction(at)
        guard = _NEVER
        if one.guard is not None:
            guard, own = _BOTH, one.guard.register
            if one.guard.negated:
                editor.insert_before(one, f"not.pred {_BOTH}, {own};")
                own = _BOTH
            editor.insert_before(one, f"and.pred {_BOTH}, {own}, {_NEVER};")
        editor.replace(one, replace(one, guard=Guard(guard), text=""))
    _send(found, editor)


def _send(found: Anatomy, editor: Editor) -> None:
    for at in found.sends:
        editor.remove(found.body[at])


# --- what brings A and B --------------------------------------------------------------------------

def _copy(found: Anatomy, editor: Editor) -> None:
    """The role that fills ends as it begins; whoever multiplies waits for nobody, tells nobody."""
    registers = found.numbers(("setmaxnreg.",), found.filling)
    behind = found.body[registers[0] if registers else found.fill]
    editor.insert_after(behind, f"bra.uni {found.label(found.end)};")
    _index(found, editor)
    for at, one in found.instructions(found.multiplying):
        if not one.opcode.startswith((_ARRIVE, _TRY)) or found.barrier_of(at) == "turn":
            continue
        if one.opcode.startswith(_ARRIVE):
            editor.remove(one)
        else:
            # Known as true, ptxas would leave out the loop, and unroll the one around it.
            editor.replace(one, Instruction("setp.ne.u32", (
                one.operands[0], Register(_INDEX), Immediate(_UNTRUE + at, str(_UNTRUE + at))),
                one.guard))


def _bytes(found: Anatomy, editor: Editor) -> None:
    """Full barriers that wait for an arrival alone, and nothing that is copied."""
    for at, one in found.instructions(found.filling):
        if one.opcode.startswith(_EXPECT):
            plain = one.opcode.replace(_EXPECT, _ARRIVE)
            editor.replace(one, replace(one, opcode=plain, operands=one.operands[:2], text=""))
        elif one.opcode.startswith(_BRING):
            editor.remove(found.body[at])


# --- what feeds the products ----------------------------------------------------------------------

def _reads(found: Anatomy, editor: Editor) -> None:
    """Fragments of the first k-steps, those before the loop over slices, are everybody's."""
    loop = found.slices_around(found.products[0])
    limit = min(found.products[0], found.products[0] if loop is None else loop.first)
    names = {name for which in (1, 2) for vector in found.vectors(which) for name in vector}
    writes = found.writes(names)
    early = {name for at in writes if at < limit
             for name in registers_of(found.instruction(at).operands[0])}
    renamed: dict[tuple[str, ...], tuple[str, ...]] = {}
    for which in (1, 2):
        vectors = found.vectors(which)
        first = [vector for vector in vectors if early.issuperset(vector)]
        others = [vector for vector in vectors if vector not in first]
        if others and not first:
            raise UsageError(f"kernel {found.kernel.name}", "reads no fragment before its slices",
                             legal="a kernel that carries fragments", where=_WHERE)
        renamed |= {other: first[at % len(first)] for at, other in enumerate(others)}
    for at in writes:
        if at >= limit:
            editor.remove(found.body[at])
    for at in found.products:
        one = found.instruction(at)
        operands = tuple(
            Vector(tuple(Register(name) for name in renamed.get(registers_of(each), ()))) if
            which in (1, 2) and registers_of(each) in renamed else each
            for which, each in enumerate(one.operands))
        if operands != one.operands:
            editor.replace(one, replace(one, operands=operands, text=""))


def _products(found: Anatomy, editor: Editor) -> None:
    kept = _kept(found)
    for at in found.products:
        if at not in kept:
            editor.remove(found.body[at])


def _kept(found: Anatomy) -> set[int]:
    """One product of four. By mma.sync: of each A and each B, those on some diagonals of the
    warp's fragments. By wgmma: of each group that is committed, the first k-step of each sum."""
    kept: set[int] = set()
    if found.by_warps:
        rows: dict[tuple[str, ...], int] = {}
        columns: dict[tuple[str, ...], int] = {}
        for at in found.products:
            _, a, b, *_ = found.instruction(at).operands
            row = rows.setdefault(registers_of(a), len(rows))
            column = columns.setdefault(registers_of(b), len(columns))
            if (row - column) % _EVERY == 0:
                kept.add(at)
        return kept
    products, seen = set(found.products), Counter[tuple[str, ...]]()
    for at, one in found.instructions(found.multiplying):
        if one.opcode.startswith("wgmma.commit_group"):
            seen.clear()
        if at in products:
            sums = registers_of(one.operands[0])
            if seen[sums] % _EVERY == 0:
                kept.add(at)
            seen[sums] += 1
    return kept


#: What leaves out each part, in the order in which it is done.
PARTS: Mapping[str, Callable[[Anatomy, Editor], None]] = MappingProxyType({
    "store": _store, "send": _send, "copy": _copy, "bytes": _bytes, "reads": _reads,
    "products": _products})
