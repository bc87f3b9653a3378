"""Calls: bodies copied to where they are called, or, for functions that recurse, procedures.

A copy has its own registers, labels and parameters; ``ret`` becomes a branch behind the copy. A
call through a register becomes a chain of comparisons with the functions whose address the module
takes. Functions without a body (vprintf, malloc) stay ``call`` sites, which are refused by name
when a lane reaches them.

A function that can call itself is lowered once, behind the kernel, and has one set of registers and
one place in local memory. What an outer invocation keeps there is put on a stack of the machine::

    call.push   save the procedure's registers and local memory      (arguments are stored next)
    call.jump   remember where to go on, jump to the procedure
    call.return jump back
    call.pop    restore; the result lies outside what is restored
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmalab.emulator.program import Imm, Op, Reg, Site, Target, Vec
from mmalab.emulator.scope import Scope, VariableAt
from mmalab.emulator.symbols import alignment, byte_size
from mmalab.errors import LimitExceeded, UsageError
from mmalab.isa.form import Evidence, Form, OperandSpec, Role, Source
from mmalab.ptx.nodes import Call, Function, Instruction, Name, Operand, Parameter, Register

if TYPE_CHECKING:
    from mmalab.emulator.lower import Lowering

__all__ = ["Calls", "Frame"]

Guard = tuple[int, bool] | None


@dataclass(frozen=True, slots=True)
class Frame:
    """One copy of a function that is being lowered."""

    function: Function
    end: int
    stack: tuple[str, ...]


@dataclass(slots=True)
class _Procedure:
    """A recursive function: where it begins, its parameters and results, what it keeps."""

    function: Function
    number: int
    label: int
    scope: Scope
    parameters: list[int]
    results: list[int]
    #: (start, bytes) of local memory: the parameters, and what the body declares.
    memory: list[tuple[int, int]] = field(default_factory=list)
    registers: list[Reg] = field(default_factory=list)


def _form(name: str, *operands: tuple[str, Role]) -> Form:
    specs = tuple(OperandSpec(n, role, "b64", vector=n == "frame") for n, role in operands)
    return Form("call", f"call.{name}", {}, specs, "any", (1, 0),
                Source("PTX ISA", "Control Flow Instructions: call"), Evidence.DOCUMENTED)


#: Calls inside calls that are copied into their callers.
_MAX_DEPTH = 64
_RANGES: tuple[tuple[str, Role], ...] = (
    ("procedure", "immediate"), ("parameters", "immediate"), ("parameter_bytes", "immediate"),
    ("locals", "immediate"), ("local_bytes", "immediate"))
_PUSH = _form("push", ("frame", "read"), *_RANGES)
_POP = _form("pop", ("frame", "write"), *_RANGES)
_JUMP = _form("jump", ("procedure", "label"))
_RETURN = _form("return")


class Calls:
    """Lowers the calls of one entry."""

    def __init__(self, lowering: Lowering) -> None:
        self._low = lowering
        self._procedures: dict[str, _Procedure] = {}
        self._recursive = lowering.reach.recursive

    def call(self, node: Instruction, scope: Scope, frame: Frame, guard: Guard) -> None:
        """One call instruction."""
        low, operand = self._low, node.operands[0]
        if not isinstance(operand, Call):
            raise UsageError(node.text.strip(), "a call without its operands",
                             legal="call (result), function, (arguments);",
                             where="PTX ISA, call")
        behind = low.new_label()
        if guard is not None:
            low.emit("bra", (Target((behind,)),), line=node.line, text=node.text,
                     guard=(guard[0], not guard[1]))
        if isinstance(operand.target, Name):
            function = low.module.function(operand.target.name)
            self._one(function, operand, node, scope, frame)
        else:
            self._by_address(operand, node, scope, frame, behind)
        low.labels[behind] = len(low.sites)

    def _by_address(self, call: Call, node: Instruction, scope: Scope, frame: Frame,
                    behind: int) -> None:
        """Compare with each function whose address is known, and call the one that fits."""
        low = self._low
        target = low.resolver.value(call.target, "b64", scope)
        fits = low.slots.fresh("pred", "function")
        for name in low.reach.addressed:
            function = low.module.function(name)
            if function is None or len(function.parameters) != len(call.arguments):
                continue
            other = low.new_label()
            low.emit("setp.ne.b64", (fits, target, Imm(low.functions[name])), line=node.line,
                     text=node.text)
            low.emit("bra", (Target((other,)),), line=node.line, text=node.text,
                     guard=(fits.slot, False))
            self._one(function, call, node, scope, frame)
            low.emit("bra", (Target((behind,)),), line=node.line, text=node.text)
            low.labels[other] = len(low.sites)
        low.emit("call", (), line=node.line, text=node.text)

    def _one(self, function: Function | None, call: Call, node: Instruction, scope: Scope,
             frame: Frame) -> None:
        if function is None or function.body is None or len(function.parameters) != len(
                call.arguments):
            self._low.emit("call", (), line=node.line, text=node.text)
        elif function.name in self._recursive:
            self._call_procedure(function, call, node, scope)
        else:
            self._inline(function, call, node, scope, frame)

    # --- copies -------------------------------------------------------------------------------

    def _inline(self, function: Function, call: Call, node: Instruction, scope: Scope,
                frame: Frame) -> None:
        low = self._low
        if len(frame.stack) > _MAX_DEPTH:
            raise LimitExceeded(f"{len(frame.stack)} functions that call each other",
                                f"the emulator follows {_MAX_DEPTH}",
                                where=f"line {node.line} of the PTX text")
        inner = Scope(low.top)
        for parameter, argument in zip(function.parameters, call.arguments, strict=True):
            self._pass(parameter, argument, inner, scope, node)
        for result, target in zip(function.results, call.results, strict=False):
            self._bind_result(result, target, inner, scope)
        end = low.new_label()
        low.statements(function.body or (), inner,
                       Frame(function, end, (*frame.stack, function.name)))
        low.labels[end] = len(low.sites)
        for result, target in zip(function.results, call.results, strict=False):
            self._take_result(result, target, inner, scope, node)

    def _pass(self, parameter: Parameter, argument: Operand, inner: Scope, outer: Scope,
              node: Instruction) -> None:
        """Give an argument its parameter's name inside the copy."""
        found = outer.variable(argument.name) if isinstance(argument, Name) else None
        if parameter.space == "param" and found is not None and found.space == "local":
            inner.variables[parameter.name] = found
            return
        if parameter.space == "reg":
            inner.declare(parameter.name, parameter.type, None, "")
        else:
            inner.variables[parameter.name] = VariableAt("local", self._low.local(parameter))
        self._store_argument(parameter, argument, inner, outer, node)

    def _store_argument(self, parameter: Parameter, argument: Operand, inner: Scope,
                        outer: Scope, node: Instruction) -> None:
        """Put a register or literal where the function looks for its parameter."""
        low = self._low
        value = low.resolver.value(argument, parameter.type, outer)
        if parameter.space == "reg":
            target = low.resolver.register(parameter.name, inner)
            low.emit(f"mov.{_move_type(parameter.type)}", (target, value), line=node.line,
                     text=node.text)
        else:
            at = inner.variables[parameter.name].address
            low.emit(f"st.local.{parameter.type}", (low.resolver.at("local", at), value),
                     line=node.line, text=node.text)

    def _bind_result(self, result: Parameter, target: Operand, inner: Scope,
                     outer: Scope) -> None:
        if result.space == "reg":
            inner.declare(result.name, result.type, None, "")
            return
        found = outer.variable(target.name) if isinstance(target, Name) else None
        inner.variables[result.name] = found or VariableAt("local", self._low.local(result))

    def _take_result(self, result: Parameter, target: Operand, inner: Scope, outer: Scope,
                     node: Instruction) -> None:
        """Results in registers, or passed to registers, are copied out."""
        low = self._low
        register = low.resolver.register(result.name, inner) if result.space == "reg" else None
        if isinstance(target, Register):
            home = low.resolver.register(target.name, outer)
            if register is not None:
                low.emit(f"mov.{_move_type(result.type)}", (home, register), line=node.line,
                         text=node.text)
            else:
                at = inner.variables[result.name].address
                low.emit(f"ld.local.{result.type}", (home, low.resolver.at("local", at)),
                         line=node.line, text=node.text)
        elif register is not None and isinstance(target, Name):
            found = outer.variable(target.name)
            if found is not None:
                low.emit(f"st.local.{result.type}",
                         (low.resolver.at("local", found.address), register), line=node.line,
                         text=node.text)

    # --- procedures ---------------------------------------------------------------------------

    def _procedure(self, function: Function) -> _Procedure:
        found = self._procedures.get(function.name)
        if found is None:
            low = self._low
            # Results stay outside the memory that is saved and restored.
            results = [low.local(result) for result in function.results]
            found = _Procedure(function, len(self._procedures), low.new_label(), Scope(low.top), [],
                               results)
            start = low.local_end
            for parameter in function.parameters:
                at = low.local(parameter) if parameter.space != "reg" else 0
                found.parameters.append(at)
                if parameter.space == "reg":
                    found.scope.declare(parameter.name, parameter.type, None, "")
                else:
                    found.scope.variables[parameter.name] = VariableAt("local", at)
            found.memory.append((start, low.local_end - start))
            self._procedures[function.name] = found
        return found

    def _call_procedure(self, function: Function, call: Call, node: Instruction,
                        scope: Scope) -> None:
        low, procedure = self._low, self._procedure(function)
        number = Imm(procedure.number)
        low.append(_PUSH, (number,), node.line, node.text, None)
        for parameter, argument, at in zip(function.parameters, call.arguments,
                                           procedure.parameters, strict=True):
            found = scope.variable(argument.name) if isinstance(argument, Name) else None
            if parameter.space == "param" and found is not None and found.space == "local":
                self._copy(found.address, at, parameter, node)
            else:
                self._store_argument(parameter, argument, procedure.scope, scope, node)
        low.append(_JUMP, (Target((procedure.label,)),), node.line, node.text, None)
        low.append(_POP, (number,), node.line, node.text, None)
        for result, target, at in zip(function.results, call.results, procedure.results,
                                      strict=False):
            if isinstance(target, Register):
                home = low.resolver.register(target.name, scope)
                low.emit(f"ld.local.{result.type}", (home, low.resolver.at("local", at)),
                         line=node.line, text=node.text)
            elif isinstance(target, Name):
                found = scope.variable(target.name)
                if found is not None:
                    self._copy(at, found.address, result, node)

    def _copy(self, source: int, target: int, thing: Parameter, node: Instruction) -> None:
        """Bytes of local memory, in the widest words that their alignment allows."""
        low = self._low
        unit = min(8, alignment(thing))
        word = low.slots.fresh(f"b{max(8 * unit, 16)}", "copy")
        for offset in range(0, byte_size(thing), unit):
            low.emit(f"ld.local.b{8 * unit}", (word, low.resolver.at("local", source + offset)),
                     line=node.line, text=node.text)
            low.emit(f"st.local.b{8 * unit}", (low.resolver.at("local", target + offset), word),
                     line=node.line, text=node.text)

    def lower_procedures(self) -> None:
        """The bodies of the recursive functions that are called, behind the kernel."""
        done: set[str] = set()
        while len(done) < len(self._procedures):
            name = next(n for n in self._procedures if n not in done)
            done.add(name)
            self._lower_procedure(self._procedures[name])

    def _lower_procedure(self, procedure: _Procedure) -> None:
        low, function = self._low, procedure.function
        own = set(low.slots.names)
        for result, at in zip(function.results, procedure.results, strict=True):
            if result.space == "reg":
                procedure.scope.declare(result.name, result.type, None, "")
            else:
                procedure.scope.variables[result.name] = VariableAt("local", at)
        for parameter in function.parameters:
            if parameter.space == "reg":
                register = low.resolver.register(parameter.name, procedure.scope)
                own.discard((register.file, register.slot))
        start = low.local_end
        low.labels[procedure.label] = len(low.sites)
        end = low.new_label()
        low.statements(function.body or (), procedure.scope, Frame(function, end, (function.name,)))
        low.labels[end] = len(low.sites)
        for result, at in zip(function.results, procedure.results, strict=True):
            if result.space == "reg":
                register = low.resolver.register(result.name, procedure.scope)
                low.emit(f"st.local.{result.type}", (low.resolver.at("local", at), register),
                         line=function.line, text="ret;")
        low.append(_RETURN, (), function.line, "ret;", None)
        procedure.registers = [_register(key) for key in low.slots.names if key not in own]
        procedure.memory.append((start, low.local_end - start))

    def filled(self, site: Site) -> tuple[Op, ...]:
        """The operands, those of push and pop with what the procedure turned out to keep."""
        if site.form is not _PUSH and site.form is not _POP:
            return site.operands
        number = site.operands[0]
        procedure = next(p for p in self._procedures.values() if Imm(p.number) == number)
        ranges = tuple(Imm(word) for part in procedure.memory for word in part)
        return (Vec(tuple(procedure.registers)), number, *ranges)


def _register(key: tuple[str, int]) -> Reg:
    file, slot = key
    if file == "p":
        return Reg("p", slot, 1)
    return Reg("r", slot, 32) if file == "r" else Reg("q", slot, 64)


def _move_type(type_: str) -> str:
    return "u16" if type_ in ("b8", "u8", "s8") else type_
