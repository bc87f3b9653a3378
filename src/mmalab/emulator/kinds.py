"""Whether an instruction's operands are of the kinds that its executors rely on.

Compiled code reads and writes whole vectors of a register's declared size; 32 predicates are one
mask of 4 bytes. So nothing may reach it that lowering has not checked, whoever wrote the site::

    add.u32 %r1, %p1, 2;      operand a: %p1: is a predicate, not a number
    mov.u32 5, %r1;           operand d: must be a register: it is written

Types beyond that (``.f32`` in a ``.u32`` register) harm nobody here and are the checker's business.
"""

from __future__ import annotations

from mmalab.emulator.program import Addr, Guarded, Imm, Op, Reg, Special, Symbol, Unused, Vec
from mmalab.emulator.types import width
from mmalab.errors import UsageError
from mmalab.isa.form import Form, OperandSpec

__all__ = ["check_operands"]


def check_operands(form: Form, operands: tuple[Op, ...], line: int) -> None:
    """Check the operands of one site.

    Raises:
        UsageError: a predicate for a number or the reverse, something that cannot be written, a
            register too narrow for its type, a wrong number of registers in ``{...}``.
    """
    if form.key == "call":  # the emulator's own: frames of any registers
        return
    where = f"line {line} of the PTX text"
    for spec, op in zip(form.operands, operands, strict=False):
        if spec.role in ("label", "symbol", "call", "immediate") or isinstance(op, (Addr, Unused)):
            continue
        if spec.role == "address":
            raise UsageError(f"{form.key}, operand {spec.name}", "must be an [address]",
                             legal="[%rd1], [%rd1+16], [variable]", where=where)
        try:
            _check(spec, op)
        except UsageError as error:
            raise UsageError(f"{form.key}, operand {spec.name}{error.given}", error.rule,
                             legal=error.legal, where=where) from None


def _check(spec: OperandSpec, op: Op) -> None:
    if not isinstance(op, Vec):
        _count(spec, 1)
        _kind(spec, op, spec.type)
    elif spec.pair and len(op.items) == 2 and not spec.vector:
        _kind(spec, op.items[0], spec.type)
        _kind(spec, op.items[1], spec.pair)
    else:
        _count(spec, len(op.items))
        for item in op.items:
            _kind(spec, item, spec.type, part=spec.packs)


def _count(spec: OperandSpec, have: int) -> None:
    legal = (1, 2, 4) if spec.packs else (max(spec.count, 1),)
    if have not in legal:
        raise UsageError(f" with {have} registers", "wrong count",
                         legal=" or ".join(map(str, legal)))


def _kind(spec: OperandSpec, op: Op, type_: str, *, part: bool = False) -> None:
    """One register; as `part` of a packed operand it may have fewer bits than the whole."""
    if spec.role in ("write", "update") and isinstance(op, (Imm, Special, Symbol, Guarded)):
        raise UsageError("", "must be a register: it is written", legal="a register")
    types = {type_, spec.alternative} - {""}
    reg = op.reg if isinstance(op, Guarded) else op
    if not types or not isinstance(reg, (Reg, Special, Symbol)):
        return
    words = [width(t) for t in types - {"pred"}]
    if isinstance(reg, Reg) and reg.file == "p":
        if "pred" not in types:
            raise UsageError(f": {reg.name}", "is a predicate, not a number",
                             legal=_registers(words))
    elif not words:
        raise UsageError(f": {reg.name}", "is not a predicate", legal="a .pred register")
    elif isinstance(reg, Reg) and not part and reg.bits < min(words):
        raise UsageError(f": {reg.name} of {reg.bits} bits", f"is too narrow for .{type_}",
                         legal=_registers(words))


def _registers(words: list[int]) -> str:
    return f"a register of {min(words)} bits or more"
