"""What is what in the PTX of a kernel that a ring of stages feeds: roles, waits, products, reads.

Both families (`sm80_mma.gemm` with ``copy="tma"``, `sm90_wgmma.gemm`) write their text in this
order, and say where a role begins by its labels::

    beginning      @%p bra $fill;
    multiplying    for each tile:  wait full; read fragments
                       for each slice:  products, reads, wait full, arrive on empty
                       products; stores of C
                   bra.uni $end;
    filling        $fill: for each tile, for each slice: wait empty; expect bytes; copy
                   $end:  ret;

Who wants to leave something out (:mod:`mmalab.bench.without`) or to read clocks in between
(:mod:`mmalab.bench.trace`) asks :func:`anatomy` for statements by number, and edits those. Barriers
are told apart by their place: full ones come first, then empty ones, then those of groups that take
turns, then those of lines that were moved (`sm90_wgmma.ring`).

    >>> from mmalab.kernels import sm80_mma
    >>> found = anatomy(sm80_mma.gemm(512, 256, 512, copy="tma", sms=2))
    >>> len(found.products), [wait.kind for wait in found.waits]
    (256, ['full', 'full', 'empty'])
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from mmalab.errors import UsageError
from mmalab.ptx import parse
from mmalab.ptx.kernel import Kernel
from mmalab.ptx.nodes import (
    Address,
    Block,
    Function,
    Instruction,
    Label,
    Module,
    Name,
    Register,
    Statement,
    Vector,
)

__all__ = ["Anatomy", "Loop", "Wait", "anatomy", "registers_of"]

_WHERE = "mmalab.bench.anatomy"
_TRY = "mbarrier.try_wait"
_PRODUCTS = ("mma.sync", "wgmma.mma_async")
#: What takes C out of registers or out of shared memory; words of handing over are st.release.
_STORES = ("st.global.", "st.shared.", "stmatrix.")
_SENDS = ".global.shared::cta."
#: What finds the place of a barrier and the parity to wait for.
_ARITHMETIC = ("setp", "xor", "selp", "add", "mul", "mad", "mov")


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait, from its first statement to its last.

    `kind`: ``full`` for a slice, ``pass`` for another stage (others' to read, or only looked into),
    ``empty`` for a stage to fill, ``turn`` for the group ahead, ``take`` for another SM's sums.
    """

    kind: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Loop:
    """Statements from a label to the branch back to it."""

    first: int
    last: int

    def __contains__(self, at: int) -> bool:
        return self.first <= at <= self.last


def anatomy(kernel: Kernel) -> Anatomy:
    """The parts of a kernel.

    Raises:
        UsageError: it is none that a ring feeds.
    """
    module = parse(kernel.ptx)
    entry = next(each for each in module.entries if each.name == kernel.entry)
    body = entry.body or ()
    if any(isinstance(statement, Block) for statement in body):
        raise UsageError(f"kernel {kernel.name}", "has nested blocks", where=_WHERE,
                         legal="what the builder writes: one body")
    marks = {label.name.rpartition("_")[0]: at for at, label in enumerate(body)
             if isinstance(label, Label)}
    if not {"$fill", "$end"} <= set(marks) or "stages" not in kernel.facts:
        raise UsageError(f"kernel {kernel.name}", "has no role that fills and none that multiplies",
                         legal="sm80_mma.gemm(copy='tma'), sm90_wgmma.gemm", where=_WHERE)
    return Anatomy(kernel, module, entry, tuple(body), marks["$fill"], marks["$end"])


def registers_of(operand: object) -> tuple[str, ...]:
    """The names of a register or of a vector's."""
    if isinstance(operand, Register):
        return (operand.name,)
    if isinstance(operand, Vector):
        return tuple(name for item in operand.items for name in registers_of(item))
    return ()


@dataclass(frozen=True)
class Anatomy:
    """A kernel's statements, and which of them are what, by number; `fill` and `end` are where the
    role that fills begins and ends."""

    kernel: Kernel
    module: Module
    entry: Function
    body: tuple[Statement, ...]
    fill: int
    end: int

    # --- roles ------------------------------------------------------------------------------------

    @cached_property
    def begin(self) -> int:
        """Where the role that multiplies begins: behind the branch to the other."""
        label = self.label(self.fill)
        return 1 + next(at for at, one in self.instructions(range(self.fill))
                        if one.parts[0] == "bra" and one.operands == (Name(label),))

    @property
    def multiplying(self) -> range:
        """Its statements, the branch at its end left out."""
        return range(self.begin, self.fill - 1)

    @property
    def filling(self) -> range:
        """The statements of the other."""
        return range(self.fill + 1, self.end)

    @property
    def multiplying_warps(self) -> int:
        """Warps that multiply: all but those of the last warpgroup."""
        return self.kernel.block[0] // 32 - 4

    # --- statements -------------------------------------------------------------------------------

    def instructions(self, among: range | None = None) -> Iterator[tuple[int, Instruction]]:
        """The instructions of a stretch, with their numbers."""
        for at in range(len(self.body)) if among is None else among:
            statement = self.body[at]
            if isinstance(statement, Instruction):
                yield at, statement

    def instruction(self, at: int) -> Instruction:
        """Statement number `at`, which is one."""
        found = self.body[at]
        if not isinstance(found, Instruction):
            raise UsageError(f"line {found.line}: {type(found).__name__}", "is no instruction",
                             legal="a number of an instruction", where=_WHERE)
        return found

    def label(self, at: int) -> str:
        """The name of the label that is statement `at`; empty if that is none."""
        found = self.body[at]
        return found.name if isinstance(found, Label) else ""

    def numbers(self, opcodes: tuple[str, ...], among: range) -> list[int]:
        """The instructions of a stretch whose opcode begins so."""
        return [at for at, one in self.instructions(among) if one.opcode.startswith(opcodes)]

    @cached_property
    def products(self) -> list[int]:
        """The products."""
        return self.numbers(_PRODUCTS, self.multiplying)

    @property
    def by_warps(self) -> bool:
        """Whether warps multiply (mma.sync) and not warpgroups."""
        return self.instruction(self.products[0]).parts[0] == "mma"

    @cached_property
    def stores(self) -> list[int]:
        """What takes C out of the registers of those who multiply, to memory of either kind."""
        return self.numbers(_STORES, self.multiplying)

    @cached_property
    def sends(self) -> list[int]:
        """What starts TMA's stores of C."""
        return [at for at in self.numbers(("cp.async.bulk.tensor.",), self.multiplying)
                if _SENDS in self.instruction(at).opcode]

    @cached_property
    def loops(self) -> list[Loop]:
        """Loops that hold products, inner ones first."""
        places = {self.label(at): at for at in self.multiplying}
        found = []
        for at, one in self.instructions(self.multiplying):
            target = one.operands[0] if one.parts[0] == "bra" else None
            to = places.get(target.name, at) if isinstance(target, Name) else at
            if to < at and any(to <= product < at for product in self.products):
                found.append(Loop(to, at))
        return sorted(found, key=lambda loop: loop.last - loop.first)

    def slices_around(self, at: int) -> Loop | None:
        """The innermost loop over slices around a statement: one that stores nothing of C."""
        return next((loop for loop in self.loops if at in loop and not any(
            store in loop for store in (*self.stores, *self.sends))), None)

    @cached_property
    def behind_slices(self) -> int:
        """The first statement behind the last loop over slices, or behind the first product."""
        ends = [loop.last for loop in map(self.slices_around, self.products) if loop is not None]
        return max(ends, default=self.products[0]) + 1

    # --- waits ------------------------------------------------------------------------------------

    @cached_property
    def waits(self) -> list[Wait]:
        """All waits of both roles, in the order of the text."""
        found = [self._wait(at) for at in self.numbers((_TRY,), range(len(self.body)))
                 if self._tries_again(at)]
        found += [self._taking(at) for at in self.numbers(("ld.acquire.gpu.",), self.multiplying)]
        found.sort(key=lambda wait: wait.first)
        return [replace(wait, kind="pass") if at and self._looks_ahead(found[at - 1], wait)
                else wait for at, wait in enumerate(found)]

    def _looks_ahead(self, before: Wait, wait: Wait) -> bool:
        """Whether a wait is for the stage behind the one that was waited for just before."""
        between = self.body[before.last + 1 : wait.first]
        return before.kind == wait.kind == "full" and wait.last < self.fill and all(
            isinstance(one, Instruction) and one.parts[0] in _ARITHMETIC for one in between)

    def _tries_again(self, at: int) -> bool:
        """Whether a try_wait is the wait's own and not a question that is asked before."""
        return bool(self.label(at - 1)) and self._goes(at + 2) == self.label(at - 1)

    def _goes(self, at: int) -> str:
        """Where the branch at `at` goes."""
        one = self.body[at]
        if isinstance(one, Instruction) and one.parts[0] == "bra" and isinstance(
                one.operands[0], Name):
            return one.operands[0].name
        return ""

    def _wait(self, at: int) -> Wait:
        """try_wait, the branch out and the branch back; a question before it may go around it."""
        first, last = at - 1, at + 3
        around = self._goes(first - 1)
        if around and around == self.label(last + 1):
            first, last = first - 1, last + 1
        return Wait(self.barrier_of(at), first, last)

    def _taking(self, at: int) -> Wait:
        """A word that is loaded until somebody has set it."""
        return Wait("take", at - 1, next(
            behind for behind, _ in self.instructions(range(at, self.fill))
            if self._goes(behind) == self.label(at - 1)))

    def barrier_of(self, at: int) -> str:
        """What a try_wait or an arrival is about, by the offset in its address."""
        one = self.instruction(at)
        address = next(each for each in one.operands if isinstance(each, Address))
        stages = int(self.kernel.facts["stages"])
        if address.offset == 16 * stages and self.kernel.facts.get("schedule") == "pingpong":
            return "turn"
        if at > self.fill:
            return "empty" if address.offset == 8 * stages else "full"
        return "full" if self._before_products(at) else "pass"

    def _before_products(self, at: int) -> bool:
        """Whether a wait of those who multiply is one for a slice: products of it follow."""
        if self.by_warps:
            return at < max(self.behind_slices, self.products[0])
        return at < self.products[-1]

    @cached_property
    def tile_end(self) -> int:
        """The statement with which the last product of a tile is issued (mma.sync) or done."""
        last = self.products[-1]
        loop = self.slices_around(last)
        if self.by_warps and loop is None:
            return last
        anchor = last if loop is None else self._done(loop)
        stores = [at for at in (*self.stores, *self.sends) if at > anchor]
        waits = self.numbers(("wgmma.wait_group",), range(anchor, min(stores, default=self.fill)))
        return waits[-1] if waits else anchor

    def _done(self, loop: Loop) -> int:
        """The label behind a loop."""
        return loop.last + 1 if self.label(loop.last + 1) else loop.last

    # --- fragments --------------------------------------------------------------------------------

    def vectors(self, which: int) -> list[tuple[str, ...]]:
        """The vectors of registers that products take as A (1) or B (2), as they first appear."""
        found = dict.fromkeys(registers_of(self.instruction(at).operands[which])
                              for at in self.products
                              if isinstance(self.instruction(at).operands[which], Vector))
        return list(found)

    def writes(self, names: set[str]) -> list[int]:
        """Those who multiply write one of these registers here, products apart."""
        products = set(self.products)
        return [at for at, one in self.instructions(self.multiplying)
                if at not in products and one.operands
                and not names.isdisjoint(registers_of(one.operands[0]))
                and not _only_reads(one)]


def _only_reads(one: Instruction) -> bool:
    return one.parts[0] in ("st", "stmatrix", "bra", "red")

