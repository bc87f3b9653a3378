"""Values that reach an instruction through a register, where the text leaves no doubt of them.

The assembler checks literals and takes any register, so ``tcgen05.alloc`` of 48 columns assembles
as soon as the 48 went through a ``mov``::

    mov.u32 %r1, 48;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], %r1;
    operand 2, %r1, is 48 (line 1), legal are 32, 64, 128, 256, 512

Only a register with one definition in the whole function counts, and that a ``mov`` of a literal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from mmalab.checker.names import registers_of
from mmalab.checker.rule import Fault, message
from mmalab.checker.subject import Body, Site, Subject
from mmalab.isa import OperandSpec
from mmalab.ptx.nodes import Immediate, Register

__all__ = ["register_values"]

#: The scope that declares a register, and its name.
_Key = tuple[int, str]


def register_values(subject: Subject) -> Iterator[Fault]:
    """Registers that hold a constant which the instruction does not take."""
    limited = [opcode for opcode, form in subject.forms.items() if form is not None
               and any(spec.values is not None and spec.role == "read" for spec in form.operands)]
    sites = [site for opcode in limited for site in subject.groups[opcode]]
    for body in {id(site.body): site.body for site in sites}.values():
        known = _constants(body)
        for site in sites:
            if site.body is body:
                yield from _faults(subject, site, known)


def _constants(body: Body) -> dict[_Key, tuple[int, int]]:
    """Registers defined once, by a mov of a literal: (value, line)."""
    written: Counter[_Key] = Counter()
    found: dict[_Key, tuple[int, int]] = {}
    for site in body.sites:
        opcode, operands = site.instruction.opcode, site.instruction.operands
        # All that a call names, and the first operand of a store, count as written: a doubt costs
        # a finding, never a false one.
        named = operands if opcode.startswith("call") else operands[:1]
        written.update({_key(site, name) for operand in named for name in registers_of(operand)})
        if not opcode.startswith("mov.") or len(operands) != 2 or site.instruction.guard:
            continue
        to, value = operands
        if isinstance(to, Register) and isinstance(value, Immediate) and (
                isinstance(value.value, int)):
            found[_key(site, to.name)] = value.value, site.line
    return {key: value for key, value in found.items() if written[key] == 1}


def _key(site: Site, name: str) -> _Key:
    return id(site.scope.owner(name)), name


def _faults(subject: Subject, site: Site, known: dict[_Key, tuple[int, int]]
            ) -> Iterator[Fault]:
    form = subject.forms[site.instruction.opcode]
    specs = form.fit([kind.given.kind for kind in site.kinds]) if form is not None else None
    for position, (spec, operand) in enumerate(
            zip(specs or (), site.instruction.operands, strict=False), 1):
        if spec.values is None or not isinstance(operand, Register):
            continue
        value, line = known.get(_key(site, operand.name), (spec.values[0], 0))
        if value not in spec.values:
            yield Fault(message(
                site.instruction.text.strip(), f"operand {position}, {operand.name}, is {value} "
                f"(line {line}), which the assembler does not look at", _legal(spec)), site.line,
                {"operand": position, "value": value, "defined": line},
                code="tmem-size" if spec.name == "columns" else "")


def _legal(spec: OperandSpec) -> list[str]:
    values = spec.values or ()
    if len(values) <= 8:
        return [str(value) for value in values]
    return [f"{values[0]} to {values[-1]}"]
