"""The frame that all fragment functions share: registers in, registers out.

A function decodes A and B into scratch memory, walks over groups of four rows and keeps D in
scratch until the end, because D may overlap any operand. Accumulators of a row lie in one quad of
lanes: even columns in one register, odd ones in the next (FP16: side by side in one word)::

    row g of D, columns 0..7:  register 0, lanes 4g..4g+3 = columns 0 2 4 6
                               register 1, lanes 4g..4g+3 = columns 1 3 5 7
"""

from __future__ import annotations

from mmalab.isa.form import Fragment
from mmalab.numerics.fragment_places import COLUMNS, LANES, Places
from mmalab.numerics.ir import Emitter, bare, vector
from mmalab.numerics.unit import Unit

__all__ = ["Writer"]


class Writer:
    """One function; subclasses say how operands are decoded and a group of rows is computed."""

    #: LLVM type of accumulators in registers, and of an element in the arithmetic.
    register, element = "i32", "float"

    def __init__(self, name: str, unit: Unit, places: Places, k: int) -> None:
        self.name, self.unit, self.places, self.k = name, unit, places, k
        self.out = Emitter()
        self.half = unit.acc == "f16"
        self.columns = vector(COLUMNS, self.element)

    def text(self) -> str:
        """The module text: the function and what it needs."""
        out, places = self.out, self.places
        registers = places.d.registers
        out.do(f"%dd = alloca [{registers * LANES} x {self.register}], align 64")
        self.decode()
        rows = len(places.group)
        with out.loop(places.groups) as loop:
            lane = out.value(f"mul i64 {loop.index}, {places.group_lanes}")
            c = [self.load_c("%c", row, lane) for row in range(rows)]
            for row, d in enumerate(self.compute(lane, c)):
                self.store_d(row, lane, d)
        with out.loop(registers * 4) as loop:
            at = out.value(f"mul i64 {loop.index}, 8")
            kind = vector(8, self.register)
            piece = out.load(kind, out.at("%dd", at, self.register), 8)
            out.store(kind, piece, out.at("%d", at, self.register))
        head = f"define void @{self.name}(ptr %d, ptr %a, ptr %b, ptr %c) noinline {{"
        return "\n".join([head, "entry:", *out.lines, "  ret void", "}", *self.extra()])

    def extra(self) -> list[str]:
        """Further definitions."""
        return []

    def decode(self) -> None:
        """Bring A and B into scratch memory."""
        raise NotImplementedError

    def compute(self, lane: str, c: list[str]) -> list[str]:
        """A group of rows; `lane` is the group's first lane (an i64)."""
        raise NotImplementedError

    # --- accumulators: even and odd columns lie in neighbouring registers (FP16: in one) ---------

    def load_c(self, pointer: str, row: int, lane: str) -> str:
        """A row of 8 accumulators."""
        out, places = self.out, self.places
        if self.half:
            at = out.at(out.at(pointer, places.d_offset(row, 0), "i32"), lane, "i32")
            words = out.load(vector(4, "i32"), at)
            real = out.cast("bitcast", vector(4, "i32"), words, vector(8, "half"))
            return out.cast("fpext", vector(8, "half"), real, self.columns)
        kind = vector(4, self.element)
        pair = []
        for odd in (0, 1):
            at = out.at(pointer, places.d_offset(row, odd), self.register)
            pair.append(out.load(kind, out.at(at, lane, self.register)))
        return out.shuffle(kind, pair[0], pair[1], [0, 4, 1, 5, 2, 6, 3, 7])

    def store_d(self, row: int, lane: str, d: str) -> None:
        """The inverse of `load_c`, into the scratch copy of D."""
        out, places = self.out, self.places
        if self.half:
            real = out.cast("fptrunc", self.columns, d, vector(8, "half"))
            words = out.cast("bitcast", vector(8, "half"), real, vector(4, "i32"))
            at = out.at(out.at("%dd", places.d_offset(row, 0), "i32"), lane, "i32")
            out.store(vector(4, "i32"), words, at)
            return
        kind = vector(4, self.element)
        for odd in (0, 1):
            part = out.shuffle(self.columns, d, d, [odd, 2 + odd, 4 + odd, 6 + odd])
            at = out.at("%dd", places.d_offset(row, odd), self.register)
            out.store(kind, part, out.at(at, lane, self.register))

    # --- operands ---------------------------------------------------------------------------------

    def transpose_b(self, word: str) -> None:
        """%bt[k word][8 columns] from the registers of B; k words are (register, lane of quad)."""
        out, registers = self.out, self.places.b.registers
        out.do(f"%bt = alloca [{registers * LANES} x {word}], align 64")
        wide = vector(LANES, word)
        with out.loop(registers) as loop:
            at = out.value(f"mul i64 {loop.index}, {LANES}")
            row = out.load(wide, out.at("%b", at, word))
            for quad in range(4):
                part = out.shuffle(wide, row, row, [quad + 4 * n for n in range(COLUMNS)])
                target = out.at(out.at("%bt", at, word), quad * COLUMNS, word)
                out.store(vector(COLUMNS, word), part, target, 8)

    def element_words(self, words: str, slot: int, fragment: Fragment) -> str:
        """Element `slot` of each of 8 register words, zero-extended in its lane."""
        out, kind = self.out, vector(8, "i32")
        down = slot * fragment.bits + fragment.element_lsb
        if down:
            words = out.binary("lshr", kind, words, bare(8, "i32", down))
        if fragment.bits == 32:
            return words
        width = fragment.bits - fragment.element_lsb
        return out.binary("and", kind, words, bare(8, "i32", (1 << width) - 1))
