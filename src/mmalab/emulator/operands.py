"""Operands of one instruction, from PTX nodes to slots, words and addresses."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import combinations

from mmalab.emulator.memory import LOCAL_TAG, SHARED_TAG, TAG_SHIFT
from mmalab.emulator.program import (
    Addr,
    Guarded,
    Imm,
    Op,
    Reg,
    Special,
    Symbol,
    Target,
    Unused,
    Vec,
)
from mmalab.emulator.scope import Scope, Slots
from mmalab.emulator.specials import SPECIAL_NAMES
from mmalab.emulator.symbols import immediate_word
from mmalab.emulator.types import width
from mmalab.errors import UsageError
from mmalab.isa.form import Form, OperandSpec
from mmalab.isa.lookup import find
from mmalab.isa.operand_text import Kind
from mmalab.ptx.nodes import (
    Address,
    Immediate,
    Instruction,
    Name,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Vector,
)

__all__ = ["Resolver"]


class Resolver:
    """Looks names up and turns operands into program operands."""

    def __init__(self, slots: Slots, functions: dict[str, int]) -> None:
        self._slots, self._functions = slots, functions
        self._line = 0

    def _fail(self, given: str, rule: str, *, legal: str = "") -> UsageError:
        where = f"line {self._line} of the PTX text"
        return UsageError(given, rule, legal=legal or (), where=where)

    # --- instructions -------------------------------------------------------------------------

    def guard(self, node: Instruction, scope: Scope) -> tuple[int, bool] | None:
        """(slot, negated) of ``@%p``."""
        self._line = node.line
        if node.guard is None:
            return None
        reg = self.register(node.guard.register, scope)
        if reg.file != "p":
            raise self._fail(f"guard {node.guard.register}", "not a predicate")
        return reg.slot, node.guard.negated

    def spelled(self, node: Instruction, scope: Scope) -> str:
        """The opcode, with ``.param`` made ``.local`` where it means a function's parameters."""
        parts = node.opcode.split(".")
        if parts[0] not in ("ld", "st") or not {"param", "param::func"} & set(parts):
            return node.opcode
        address = next((op for op in node.operands if isinstance(op, Address)), None)
        local = "param::func" in parts or parts[0] == "st"
        if address is not None and isinstance(address.base, Name):
            found = scope.variable(address.base.name)
            local = found is not None and found.space == "local"
        if not local:
            return node.opcode
        return ".".join("local" if p in ("param", "param::func") else p for p in parts)

    def chosen(self, form: Form, node: Instruction) -> Form:
        """The form with the one of its operand lists that the instruction has."""
        if not form.others:
            return form
        specs = form.fit([_kind(op) for op in node.operands])
        if specs is None:
            self._line = node.line
            raise self._fail(f"{node.opcode} with {len(node.operands)} operands", "wrong count")
        return _with_operands(form.key, specs)

    def operands(self, form: Form, node: Instruction, scope: Scope) -> tuple[Op, ...]:
        """All operands, aligned with ``form.operands``; Unused where an optional one is missing
        in the middle."""
        self._line = node.line
        specs = self._aligned(form, node)
        nodes = iter(node.operands)
        found = tuple(Unused() if spec is None else self._operand(next(nodes), spec, scope)
                      for spec in specs)
        return found if "space" in form.modifiers else tuple(map(_generic, found))

    def _aligned(self, form: Form, node: Instruction) -> list[OperandSpec | None]:
        """The specs that the operands stand for, None for optional ones that are missing."""
        specs, missing = form.operands, len(form.operands) - len(node.operands)
        optional = [i for i, spec in enumerate(specs) if spec.optional]
        if missing < 0 or missing > len(optional):
            raise self._fail(f"{node.opcode} with {len(node.operands)} operands", "wrong count",
                             legal=f"{len(specs) - len(optional)} to {len(specs)}")
        for dropped in combinations(reversed(optional), missing):
            kept = [s for i, s in enumerate(specs) if i not in dropped]
            if all(self._fits(op, s) for op, s in zip(node.operands, kept, strict=True)):
                break
        else:
            dropped = tuple(reversed(optional))[:missing]
        found: list[OperandSpec | None] = [None if i in dropped else s for i, s in enumerate(specs)]
        while found and found[-1] is None:
            found.pop()
        return found

    def _fits(self, op: Operand, spec: OperandSpec) -> bool:
        if spec.role == "address":
            return isinstance(op, Address)
        if spec.type == "pred":
            return isinstance(op, (Register, Negated, Pair, Sink, Immediate))
        return not isinstance(op, (Address, Negated))

    # --- operands -----------------------------------------------------------------------------

    def _operand(self, op: Operand, spec: OperandSpec, scope: Scope) -> Op:
        if spec.role == "label":
            return self._target(op, scope)
        if isinstance(op, Pair):
            if not spec.pair:
                raise self._fail(f"operand {spec.name}", "takes no second destination")
            first = self.value(op.first, spec.type, scope)
            return Vec((first, self.value(op.second, spec.pair, scope)))
        if isinstance(op, Vector):
            return Vec(tuple(self.value(item, spec.type, scope) for item in op.items))
        if isinstance(op, Address):
            return self._address(op, scope)
        found = self.value(op, spec.type or "b32", scope)
        if spec.role == "immediate":
            self._check_literal(found, spec)
        return found

    def _check_literal(self, op: Op, spec: OperandSpec) -> None:
        """Literals outside the legal values are refused: executors rely on them."""
        if not isinstance(op, Imm):
            raise self._fail(f"operand {spec.name}", "must be a literal")
        signed = op.word - (op.word >> 31 << 32)  # literals are held as words of 32 bits
        if spec.values is not None and op.word not in spec.values and signed not in spec.values:
            legal = ([str(v) for v in spec.values] if len(spec.values) <= 8
                     else [f"{min(spec.values)} to {max(spec.values)}"])
            raise self._fail(f"{spec.name} = {op.word}", "not a legal literal",
                             legal=", ".join(legal))

    def value(self, op: Operand, type_: str, scope: Scope) -> Op:
        """A register, literal, symbol, negated predicate or sink."""
        if isinstance(op, Register):
            return self._register_or_special(op.name, scope)
        if isinstance(op, Immediate):
            return Imm(immediate_word(op, type_))
        if isinstance(op, Sink):
            return Unused()
        if isinstance(op, Negated):
            reg = self.register(op.operand.name, scope)
            if op.sign != "!" or reg.file != "p":
                raise self._fail(f"{op.sign}{op.operand.name}", "only predicates are negated",
                                 legal="!%p")
            return Guarded(reg, negated=True)
        if isinstance(op, Name):
            return self._symbol(op, scope)
        if isinstance(op, Address):
            return self._address(op, scope)
        raise self._fail(f"operand {op}", "no value")

    def _symbol(self, op: Name, scope: Scope) -> Symbol:
        found = scope.variable(op.name)
        if found is not None:
            return Symbol(found.address + op.offset, op.name, found.space)
        if op.name in self._functions:
            return Symbol(self._functions[op.name], op.name)
        raise self._fail(op.name, "not declared")

    def _register_or_special(self, name: str, scope: Scope) -> Op:
        base, _, component = name.partition(".")
        found = scope.register(base)
        if found is None:
            if name in SPECIAL_NAMES:
                return Special(name)
            raise self._fail(f"register {name}", "not declared")
        family = found[1]
        if component in _COMPONENTS and not family.vector:
            raise self._fail(name, f"{base} is declared as a scalar here"
                             + (", which hides the special register" if name in SPECIAL_NAMES
                                else ""), legal=f"another name for {base}, or {base} itself")
        if family.vector and not component:
            names = [f"{base}.{c}" for c in "xyzw"[: int(family.vector[1:])]]
            return Vec(tuple(self._slots.of(found[0], n, family.type) for n in names))
        return self._slots.of(found[0], name, family.type)

    def register(self, name: str, scope: Scope) -> Reg:
        """The slot of a register that must be an ordinary one."""
        op = self._register_or_special(name, scope)
        if not isinstance(op, Reg):
            raise self._fail(name, "not an ordinary register")
        return op

    def at(self, space: str, address: int) -> Addr:
        """A fixed address in a state space."""
        return Addr(None, address, space=space)

    def _address(self, op: Address, scope: Scope) -> Addr:
        coordinates = tuple(self.value(c, "s32", scope) for c in op.coordinates)
        if isinstance(op.base, Register):
            base = self.register(op.base.name, scope)
            if width("b64") < base.bits or base.file == "p":
                raise self._fail(f"[{op.base.name}]", "not a register that holds an address")
            return Addr(base, op.offset, coordinates)
        if isinstance(op.base, Name):
            symbol = self._symbol(op.base, scope)
            return Addr(None, symbol.word + op.offset, coordinates, symbol.space)
        return Addr(None, op.offset, coordinates)

    # --- labels -------------------------------------------------------------------------------

    def _target(self, op: Operand, scope: Scope) -> Target:
        if not isinstance(op, Name):
            raise self._fail(f"target {op}", "not a label")
        names = scope.table(op.name) or [op.name]
        labels = []
        for name in names:
            label = scope.label(name)
            if label is None:
                raise self._fail(f"label {name}", "not declared in this function")
            labels.append(label)
        return Target(tuple(labels))


def _generic(op: Op) -> Op:
    """The same place as an instruction that names no space has to spell it.

    ``ld.u32 %r, [tile]`` with a shared tile is what the assembler makes an LDS of: the space is the
    variable's.
    """
    tag = _TAGS.get(op.space) if isinstance(op, Addr) and op.base is None else None
    if tag is None or not isinstance(op, Addr):
        return op
    return replace(op, offset=op.offset + (tag << TAG_SHIFT))


_COMPONENTS = frozenset("xyzwrgba")
_TAGS = {"shared": SHARED_TAG, "local": LOCAL_TAG}


@lru_cache(maxsize=1024)
def _with_operands(key: str, specs: tuple[OperandSpec, ...]) -> Form:
    return replace(find(key), operands=specs, others=())


def _kind(op: Operand) -> Kind:
    for node, kind in _KINDS:
        if isinstance(op, node):
            return kind
    return "register"


_KINDS: tuple[tuple[type, Kind], ...] = (
    (Vector, "vector"), (Address, "address"), (Immediate, "immediate"), (Pair, "pair"),
    (Sink, "sink"), (Negated, "negated"),
)
