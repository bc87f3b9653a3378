"""One compiled function per instruction form: operands in, results out, for the lanes of a mask.

``i32 primitive(frame, operands, lanes)`` reads its operands from the places in `operands`, computes
on <32 x T> vectors, and stores the results in the lanes given: all of them at once where `lanes` is
-1, blended with the old values elsewhere. It returns what :class:`~mmalab.emulator.native.abi.Said`
lists. The same function serves every site with this form and kinds of operands::

    add.s32 %r3, %r1, 5;        operands: R + 256, R + 0, CONSTANTS + 128
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

from mmalab.emulator.native.abi import OP_BITS, Base, Context, Said
from mmalab.emulator.native.emit import FunctionWriter, Value, const, element, vector
from mmalab.emulator.program import Addr, Guarded, Imm, Op, Reg, Site, Special, Symbol, Vec
from mmalab.emulator.types import width

__all__ = ["V1", "V16", "V32", "V64", "VF32", "VF64", "Generator", "PrimitiveWriter", "is_row",
           "leaves", "signature"]

V1, V16, V32, V64 = vector("i1"), vector("i16"), vector("i32"), vector("i64")
VF32, VF64 = vector("float"), vector("double")

#: Writes the code of one instruction form; False declines (the site is then a stop).
Generator = Callable[["PrimitiveWriter"], bool]
Index = int | tuple[int, int]


def leaves(operands: Sequence[Op]) -> list[tuple[Index, Op]]:
    """The operands one by one, with their positions; the items of vectors as (operand, item)."""
    found: list[tuple[Index, Op]] = []
    for i, op in enumerate(operands):
        if isinstance(op, Vec):
            found += [((i, j), item) for j, item in enumerate(op.items)]
        else:
            found.append((i, op))
    return found


def is_row(op: Op) -> bool:
    """Whether a vector's registers lie behind each other in their file."""
    if not isinstance(op, Vec):
        return isinstance(op, Reg)
    slots = [item.slot for item in op.items if isinstance(item, Reg)]
    return slots == list(range(slots[0], slots[0] + len(op.items))) if slots else False


def signature(site: Site, literals: AbstractSet[Index]) -> tuple[object, ...]:
    """What a primitive depends on: the form, kinds of operands, and the literals it looked at."""
    kinds: list[object] = [site.form.key]
    if site.form.family == "mma.sync":
        kinds.append(tuple(is_row(op) for op in site.operands))
    for index, op in leaves(site.operands):
        if isinstance(op, (Imm, Symbol)) and index in literals:
            kinds.append(("literal", op.word))
        elif isinstance(op, Addr):
            kinds.append(("address", op.base.bits) if op.base else ("variable", op.space))
        elif isinstance(op, Symbol):
            kinds.append(("symbol", op.space))
        elif isinstance(op, Reg):
            kinds.append((op.file, op.bits))
        elif isinstance(op, Guarded):
            kinds.append(("guarded", op.negated))
        else:
            kinds.append(type(op).__name__)
    return tuple(kinds)


class PrimitiveWriter:
    """What a generator gets. Operands are named by position: 0, 1 ... or (0, 2) in a vector."""

    def __init__(self, site: Site, name: str, *, target: str = "sm_80",
                 options: AbstractSet[str] = frozenset()) -> None:
        self.site, self.target, self.options = site, target, options
        self.f = FunctionWriter("i32", name, ["ptr", "ptr", "i32"], "nounwind")
        self.frame, self.places, self.bits = (self.f.arg(i) for i in range(3))
        #: Functions that the primitive calls and brings along (mma), by name.
        self.helpers: dict[str, str] = {}
        #: Positions of literals that the code depends on.
        self.literals: set[Index] = set()
        #: Compiled for 32 lanes only.
        self.whole = False
        self._order = {index: n for n, (index, _) in enumerate(leaves(site.operands))}
        self._results: list[tuple[Index, Value]] = []

    # --- the instruction

    @property
    def operands(self) -> tuple[Op, ...]:
        """The site's operands; their kinds are fixed, their slots and literals are not."""
        return self.site.operands

    def modifier(self, name: str, default: str = "") -> str:
        """One of the form's modifiers."""
        return self.site.form.modifiers.get(name, default)

    def has(self, *names: str) -> bool:
        """Whether any of the modifiers is there."""
        return any(name in self.site.form.modifiers for name in names)

    def op(self, index: Index) -> Op:
        """An operand by position."""
        if isinstance(index, int):
            return self.site.operands[index]
        parent = self.site.operands[index[0]]
        return parent.items[index[1]] if isinstance(parent, Vec) else parent

    def items(self, index: int) -> list[Index]:
        """Positions of a vector's items, or of the bare operand."""
        op = self.site.operands[index]
        return [(index, j) for j in range(len(op.items))] if isinstance(op, Vec) else [index]

    def literal(self, index: Index) -> int | None:
        """The value of a literal operand that the code then depends on; None for others."""
        op = self.op(index)
        if not isinstance(op, Imm):
            return None
        self.literals.add(index)
        return op.word

    # --- operands

    def word(self, which: Base | Context) -> Value:
        """A word of the frame (Base) or of the context block (Context) as i64."""
        return self.f.load("i64", self._slot(which), 8)

    def pointer(self, which: Base | Context) -> Value:
        """A word of the frame or of the context block as a pointer."""
        return self.f.load("ptr", self._slot(which), 8)

    def _slot(self, which: Base | Context) -> Value:
        if isinstance(which, Base):
            return self.f.offset(self.frame, 8 * which)
        context = self.f.load("ptr", self.f.offset(self.frame, 8 * Base.CONTEXT), 8)
        return self.f.offset(context, 8 * which)

    def at(self, index: Index) -> Value:
        """Pointer to an operand's vector (or mask, for predicates)."""
        f = self.f
        word = f.load("i32", f.offset(self.places, 4 * self._order[index]), 4)
        base = f.cast("zext", f.binary("lshr", word, const("i32", OP_BITS)), "i64")
        pointer = f.load("ptr", f.offset(self.frame, f.binary("shl", base, const("i64", 3))), 8)
        offset = f.binary("and", word, const("i32", (1 << OP_BITS) - 1))
        return f.offset(pointer, f.cast("zext", offset, "i64"))

    def predicate(self, index: Index) -> Value:
        """A predicate operand as a mask (i32), negated where it is written so."""
        op = self.op(index)
        mask = self.f.load("i32", self.at(index), 4)
        if isinstance(op, Imm):
            return self.f.cast(
                "sext", self.f.compare("icmp ne", mask, const("i32", 0)), "i32")
        if isinstance(op, Guarded) and op.negated:
            mask = self.f.binary("xor", mask, const("i32", -1))
        return mask

    def read(self, index: Index, type_: str) -> Value:
        """An operand as a vector of integers as wide as PTX `type_`."""
        bits = width(type_)
        op = self.op(index)
        if bits == 1:
            return self.f.cast("bitcast", self.predicate(index), V1)
        wide = self._is_wide(op, bits)
        pointer = self.at(index)
        if wide and isinstance(op, (Imm, Symbol)):
            pointer = self.f.offset(pointer, 128)  # literals lie there in both widths
        value = self.f.load(V64 if wide else V32, pointer, 64)
        if isinstance(op, Symbol) and op.space == "shared":
            value = self._ranked(value)
        return self.f.resize(value, vector(f"i{bits}"))

    def _ranked(self, value: Value) -> Value:
        """A shared variable's address in the CTA's own part of its cluster's memory."""
        if "cluster" not in self.options:
            return value
        rank = self.word(Context.RANK)
        inner = element(value.type)
        return self.f.binary("add", value, self.f.splat(
            rank if inner == "i64" else self.f.cast("trunc", rank, inner)))

    def _is_wide(self, op: Op, bits: int) -> bool:
        if isinstance(op, Reg):
            return op.file == "q"
        if isinstance(op, Special):
            return False
        return bits == 64

    def read_float(self, index: Index, type_: str) -> Value:
        """An f32 or f64 operand as <32 x float> or <32 x double>."""
        return self.f.cast("bitcast", self.read(index, type_),
                           VF32 if width(type_) == 32 else VF64)

    def address(self, index: int, bits: int) -> Value:
        """[base + offset] of an address operand as <32 x iN>; the offset follows the places."""
        op = self.op(index)
        if not isinstance(op, Addr):
            raise TypeError(f"operand {index} is not an address")
        f, want = self.f, vector(f"i{bits}")
        word = f.load("i64", f.offset(self.places, 4 * (len(self._order) + (len(self._order) & 1)
                                                        + 2 * self._address_number(index))), 4)
        offset = f.splat(f.cast("trunc", word, "i32") if bits == 32 else word)
        if op.base is None:
            return self._ranked(offset) if op.space == "shared" else offset
        base = f.load(V64 if op.base.file == "q" else V32, self.at(index), 64)
        return f.binary("add", f.resize(base, want), offset)

    def _address_number(self, index: int) -> int:
        return sum(isinstance(op, Addr) for op in self.site.operands[:index])

    # --- results

    def write(self, index: Index, value: Value, *, signed: bool = False) -> None:
        """Give an operand its new value, extended to the register's width; stored at the end."""
        op = self.op(index)
        if not isinstance(op, Reg):
            return  # the sink `_`
        inner = element(value.type)
        if inner in ("float", "double"):
            value = self.f.cast("bitcast", value, V32 if inner == "float" else V64)
        if op.file == "p":
            if value.type == V1:
                value = self.f.cast("bitcast", value, "i32")
        else:
            value = self._to_register(value, op, signed=signed)
        self._results.append((index, value))

    def _to_register(self, value: Value, op: Reg, *, signed: bool) -> Value:
        have = int(element(value.type)[1:])
        if have != op.bits and op.bits <= 64:
            value = self.f.resize(value, vector(f"i{op.bits}"), signed=signed)
        return self.f.resize(value, V64 if op.file == "q" else V32)

    def store_results(self) -> None:
        """Write the results collected so far to the registers, in the lanes of the mask."""
        f, results = self.f, self._results
        self._results = []
        if not results:
            return
        targets = [(self.at(index), value) for index, value in results]
        if self.whole:
            self._store_all(targets)
            return
        every, some, done = (f.fresh_label(x) for x in ("every", "some", "stored"))
        f.branch_if(f.compare("icmp eq", self.bits, const("i32", -1)), every, some)
        f.label(every)
        self._store_all(targets)
        f.branch(done)
        f.label(some)
        lanes = None
        for pointer, value in targets:
            if value.type == "i32":
                f.store(self._blend(f.load("i32", pointer, 4), value), pointer, 4)
                continue
            if lanes is None:
                lanes = f.cast("bitcast", self.bits, V1)
            f.store(f.select(lanes, value, f.load(value.type, pointer, 64)), pointer, 64)
        f.branch(done)
        f.label(done)

    def _store_all(self, targets: Sequence[tuple[Value, Value]]) -> None:
        for pointer, value in targets:
            self.f.store(value, pointer, 4 if value.type == "i32" else 64)

    def _blend(self, old: Value, new: Value) -> Value:
        f = self.f
        kept = f.binary("and", old, f.binary("xor", self.bits, const("i32", -1)))
        return f.binary("or", kept, f.binary("and", new, self.bits))

    # --- elsewhere

    def row(self) -> Value:
        """The warp's row, i32."""
        return self.f.cast("trunc", self.word(Base.ROW), "i32")

    def site_number(self) -> Value:
        """The number of the site being executed, i32."""
        return self.f.cast("trunc", self.word(Base.SITE), "i32")

    def warp(self) -> Value:
        """The warp's number in its CTA, i32."""
        first = self.f.cast("trunc", self.word(Context.FIRST_ROW), "i32")
        return self.f.binary("sub", self.row(), first)

    def filter_block(self) -> Value:
        """The race filter's block of the CTA."""
        return self.pointer(Context.FILTER)

    def executor(self) -> None:
        """Execute the site by its NumPy executor and return what it says."""
        f = self.f
        target, user = self.pointer(Context.CALLBACK), self.word(Context.USER)
        code = f.emit("i32", f"call i32 {target.ref}({user}, {self.site_number()}, {self.row()}, "
                             f"{self.bits})")
        f.ret(code)

    def decline_where(self, lanes: Value) -> None:
        """Leave the site to Python where a running lane of `lanes` is set; before any effect."""
        f = self.f
        away, on = f.fresh_label("decline"), f.fresh_label("on")
        some = f.binary("and", f.cast("bitcast", lanes, "i32"), self.bits)
        f.branch_if(f.compare("icmp ne", some, const("i32", 0)), away, on)
        f.label(away)
        f.ret(const("i32", int(Said.DECLINED)))
        f.label(on)

    def finish(self) -> None:
        """Store what is left and return."""
        self.store_results()
        self.f.ret(const("i32", int(Said.DONE)))
