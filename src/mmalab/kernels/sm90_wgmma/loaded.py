"""A from registers: lines that lean are loaded as they lie, only B's are moved.

wgmma takes A from shared memory, where every line must begin at its place, or from registers, which
a thread loads from wherever its values lie. So the half of the move that A's lines would take (see
`shift`) costs nothing: what wgmma would have read is read by threads instead, a word each, with the
lean of the line added to the address.

All lanes of a load should lean alike, or they meet in banks. A's map therefore counts rows of one
phase first (K, M / phases, phases), so that 16 lines of a warp are rows of one phase, and C's rows
are found accordingly::

    tile 256, 2 phases    line l of the first 128 is row 2 l, line 128 + l is row 2 l + 1

The words of a product are loaded while another is under way, and the next one's are there already::

    product i:   fence;  wgmma;  commit;  wait for product i - 1;  load the words of product i + 2

so that tensor cores never wait for a load. Of 256 x 192 sums that just fits the registers.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmalab.kernels.sm90_wgmma.mainloop import Mainloop
from mmalab.kernels.sm90_wgmma.order import Place
from mmalab.kernels.sm90_wgmma.plan import SLICE
from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.kernels.sm90_wgmma.ring import Barriers
from mmalab.kernels.sm90_wgmma.shift import HALVES, end_mask
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["Loaded"]

#: Bytes of a line in a k-step, and of the halves that a thread has a word of each.
_STEP, _HALF = 32, 16
#: From a thread's first row to its second in shared memory.
_EIGHT = 8 * SLICE
#: Sets of words that take turns (three are live at a time; a slice's products are a multiple of
#: four), and how many products ahead they are loaded.
_SETS, _AHEAD = 4, 2
#: A word as it lies, to prmt.
_WHOLE = 0x3210


@dataclass(frozen=True, slots=True)
class _Block:
    """A thread's rows of an m64 block: its first byte of a line with the lean, and where it lies
    (unswizzled) in a stage."""

    byte: Register
    place: Register


class _Slice:
    """Where a slice lies: its stage, the addresses of it and the next one, B's descriptor."""

    def __init__(self, b: KernelBuilder) -> None:
        self.stage, self.here, self.ahead = b.regs("u32", 3)
        self.right = b.reg("b64")

    def become(self, b: KernelBuilder, other: _Slice) -> None:
        """The same as the other."""
        for own, given in ((self.stage, other.stage), (self.here, other.here),
                           (self.ahead, other.ahead)):
            b.mov("u32", given, out=own)
        b.mov("b64", other.right, out=self.right)


class Loaded(Mainloop):
    """One group's products with A from registers."""

    def __init__(self, b: KernelBuilder, problem: Problem, barriers: Barriers, shared: Register,
                 group: Register) -> None:
        super().__init__(b, problem, barriers, shared, group)
        form = problem.recipe.form(problem.plan.tile[1])
        self.tail = tuple(value for value, spec in zip(self.tail, form.operands[4:], strict=True)
                          if spec.name != "ta")
        self.shared = shared
        thread = b.mov("u32", b.tid.x)
        row = b.and_("b32", b.shr("u32", thread, 2), 7)
        self.turned = b.shl("b32", row, 4)
        warp = b.and_("b32", b.shr("u32", thread, 5), 3)
        line = b.mad_lo("u32", group, problem.plan.group_rows, b.mad_lo("u32", warp, 16, row))
        self.quad = b.shl("b32", b.and_("b32", thread, 3), 2)
        self.blocks = [self._block(b.add("u32", line, 64 * block))
                       for block in range(problem.plan.blocks)]
        self.odd: Register | None = None
        if problem.lean % 4:
            self._halves(line)
        self.sets = [b.regs("b32", 4) for _ in range(_SETS)]

    def _block(self, line: Register) -> _Block:
        b = self.b
        byte = b.add("u32", self.quad, b.and_("b32", self._lean(line), -4))
        return _Block(byte, b.mad_lo("u32", line, SLICE, byte))

    def _lean(self, line: Register) -> Register:
        b, problem = self.b, self.problem
        return b.mul_lo("u32", b.div("u32", line, problem.phase_lines), problem.lean)

    def _halves(self, line: Register) -> None:
        """Where words may begin two bytes behind a word: whether the thread's do (in all blocks,
        for these are even numbers of phases apart), and the selector of prmt."""
        b = self.b
        self.odd = b.setp("ne", "u32", b.and_("b32", self._lean(line), 2), 0)
        self.selector = b.selp("b32", HALVES, _WHOLE, self.odd)

    # --- a tile -----------------------------------------------------------------------------------

    def tile(self, place: Place) -> None:
        """All slices of a tile; the sums are complete afterwards."""
        del place
        b, slices = self.b, self.problem.slices
        current, coming = _Slice(b), _Slice(b)
        before = b.mov("u32", 0)
        again = b.setp("ne", "u32", b.mov("u32", 0), 0)
        self._next_slice(coming)
        for product in range(_AHEAD):
            self._load(product, coming, last=slices == 1)
        rest = slices - 2
        if rest > 0:
            with b.loop(rest, dtype="u32", unroll=False) as number:
                b.emit("setp.ne.u32", again, number, 0)
                self._products(current, coming, before, again, last=False, ends=False)
        if slices > 1:
            b.emit("setp.ne.u32", again, b.mov("u32", max(rest, 0)), 0)
            self._products(current, coming, before, again, last=False, ends=True)
        b.emit("setp.ne.u32", again, b.mov("u32", slices - 1), 0)
        self._products(current, coming, before, again, last=True, ends=True)
        b.emit("wgmma.wait_group.sync.aligned", 0)
        self.release(before)
        self.pass_over()

    def _next_slice(self, coming: _Slice) -> None:
        """Wait for the cursor's slice, and note where it and the one behind it lie."""
        b, size = self.b, self.problem.plan.stage_bytes
        self.arrived()
        b.mov("u32", self.cursor.stage, out=coming.stage)
        b.mad_lo("u32", self.cursor.stage, size, self.shared, out=coming.here)
        b.mov("b64", self.operand("b"), out=coming.right)
        self.cursor.advance()
        b.mad_lo("u32", self.cursor.stage, size, self.shared, out=coming.ahead)

    def _products(self, current: _Slice, coming: _Slice, before: Register, again: Register, *,
                  last: bool, ends: bool) -> None:
        """The products of a slice, whose first words are loaded; those of the next one (`ends`: the
        last) are loaded on the way, and the stage of the one before is released."""
        b, blocks = self.b, len(self.blocks)
        current.become(b, coming)
        products = self.problem.steps * blocks
        for product in range(products):
            step, block = divmod(product, blocks)
            below = b.add("u64", current.right, step * _STEP >> 4) if step else current.right
            flag = again if step == 0 else self._flag(again=True)
            b.emit("wgmma.fence.sync.aligned")
            b.emit(self.key, self.sums[block], self.sets[product % _SETS], below, flag, *self.tail)
            b.emit("wgmma.commit_group.sync.aligned")
            b.emit("wgmma.wait_group.sync.aligned", 1)
            if product == 0:
                with b.when(again):
                    self.release(before)
                b.mov("u32", current.stage, out=before)
            following = product + _AHEAD
            if following < products:
                self._load(following, current, last=last)
            elif not last:
                if following == products:
                    self._next_slice(coming)
                self._load(following, coming, last=ends)

    # --- loads ------------------------------------------------------------------------------------

    def _load(self, product: int, at_slice: _Slice, *, last: bool) -> None:
        """A product's words: rows g and g + 8 of the first half, then of the second."""
        b, registers = self.b, self.sets[product % _SETS]
        products = self.problem.steps * len(self.blocks)
        step, number = divmod(product % products, len(self.blocks))
        block = self.blocks[number]
        for half in (0, 1):
            at = step * _STEP + half * _HALF
            first = self._address(block, at, at_slice)
            second = None if self.odd is None else self._address(block, at + 4, at_slice)
            inside = more = None
            if last:  # the word behind the last value may be one that nobody waits for
                byte, left = b.add("u32", self.quad, at), self.problem.last_bytes
                inside = b.setp("lt", "u32", byte, left)
                more = b.setp("lt", "u32", byte, max(left - 2, 0))
            for row in (0, 1):
                self._word(registers[2 * half + row], first, second, row * _EIGHT, inside, more)
            if last:
                self._cut(registers[2 * half : 2 * half + 2], at)

    def _address(self, block: _Block, at: int, at_slice: _Slice) -> Register:
        """The place of byte `at` of the lines, in this slice or the next."""
        b = self.b
        crosses = b.setp("ge", "u32", block.byte, SLICE - at)
        stage = b.selp("b32", b.sub("u32", at_slice.ahead, SLICE), at_slice.here, crosses)
        return b.xor("b32", b.add("u32", b.add("u32", stage, block.place), at), self.turned)

    def _word(self, into: Register, first: Register, second: Register | None,
              offset: int, inside: Register | None, more: Register | None) -> None:
        b = self.b
        if inside is None:
            b.ld("shared.b32", b.at(first, offset), out=into)
        else:
            b.mov("b32", 0, out=into)
            with b.guard(inside):
                b.ld("shared.b32", b.at(first, offset), out=into)
        if second is None or self.odd is None:
            return
        word = b.mov("b32", 0)
        needed = self.odd if more is None else b.and_("pred", self.odd, more)
        with b.guard(needed):
            b.ld("shared.b32", b.at(second, offset), out=word)
        b.prmt("b32", into, word, self.selector, out=into)

    def _cut(self, registers: list[Register], at: int) -> None:
        """Clear what a row's end leaves of a word."""
        b, left = self.b, self.problem.last_bytes
        if left % 4:
            mask = end_mask(b, b.add("u32", self.quad, at), left)
            for register in registers:
                b.and_("b32", register, mask, out=register)
