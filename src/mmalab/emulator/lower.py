"""From parsed PTX to a Program: functions inlined, names resolved, every instruction its form.

A called function becomes a copy of its body with its own registers, labels and parameters;
``ret`` becomes a branch behind the copy. Parameters of functions lie in local memory, at the place
that the caller filled::

    st.param.b32 [param0+0], %r1;            st.local.b32 [16], r0
    call (retval0), twice, (param0);    ->   (twice's body: ld.local.b32 r2, [16] ...)
    ld.param.b32 %r2, [retval0+0];           ld.local.b32 r1, [20]

Recursive functions and calls through registers: see :mod:`mmalab.emulator.calls`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

from mmalab.emulator.calls import Calls, Frame
from mmalab.emulator.flow import basic_blocks, undefined_registers
from mmalab.emulator.kinds import check_operands
from mmalab.emulator.memory import FIRST_BUFFER_TAG, TAG_SHIFT
from mmalab.emulator.operands import Resolver
from mmalab.emulator.program import SHARED_START, Op, Program, Site, Target
from mmalab.emulator.refusals import refusal
from mmalab.emulator.register_pool import launch_registers
from mmalab.emulator.scope import Reach, Scope, Slots, VariableAt, reachable
from mmalab.emulator.symbols import (
    FUNCTION_TAG,
    alignment,
    byte_size,
    initial_bytes,
    place,
)
from mmalab.errors import LimitExceeded, UnknownForm, UsageError
from mmalab.isa.form import Form
from mmalab.isa.lookup import find, in_later_issue
from mmalab.ptx.nodes import (
    Block,
    Directive,
    Function,
    Instruction,
    Label,
    Module,
    Parameter,
    RegisterDeclaration,
    Statement,
    Variable,
)

__all__ = ["entry_named", "lower"]

_WHERE = "mmalab.emulate"
_MAX_SITES = 1 << 18
#: Bytes of global and constant variables.
_MAX_BYTES = 1 << 30
#: Bytes of kernel parameters that a launch can carry.
_MAX_PARAMETERS = 32764


#: Programs by module text and entry: lowering is pure.
_PROGRAMS: OrderedDict[tuple[str, str], Program] = OrderedDict()
_KEPT = 64


def lower(module: Module, entry: str | None = None) -> Program:
    """The program of one entry of a module (its only one if no name is given).

    Raises:
        UsageError: no such entry, an undeclared name.
        UnknownForm: an instruction that PTX does not have.
        UnsupportedInstruction: one that PTX has and the emulator does not execute.
    """
    function = entry_named(module, entry)
    key = (module.text, function.name)
    program = _PROGRAMS.get(key) if module.text else None
    if program is None:
        program = Lowering(module, function).program()
        if module.text:
            _PROGRAMS[key] = program
            if len(_PROGRAMS) > _KEPT:
                _PROGRAMS.popitem(last=False)
    return program


def entry_named(module: Module, name: str | None) -> Function:
    """The kernel called `name`, or the only one."""
    entries = {f.name: f for f in module.entries}
    if len(entries) < len(module.entries):
        raise UsageError("two kernels of one name", "a module defines a name once",
                         legal=sorted(entries), where=_WHERE)
    if name is None and len(entries) == 1:
        return next(iter(entries.values()))
    if name is None or name not in entries:
        raise UsageError(f"entry {name}" if name else "no entry named",
                         "the module has no such kernel" if name else
                         f"the module has {len(entries)} kernels", legal=sorted(entries),
                         where=_WHERE)
    return entries[name]


class Lowering:
    """The state of one lowering."""

    def __init__(self, module: Module, entry: Function) -> None:
        self.module, self.entry = module, entry
        self.sites: list[Site] = []
        self.labels: dict[int, int] = {}
        self.slots = Slots()
        self.local_end = 0
        self.reach: Reach = reachable(module, entry)
        self.top = Scope(None)
        names = dict.fromkeys(f.name for f in module.functions)
        self.functions = {name: (FUNCTION_TAG << TAG_SHIFT) + 16 * (index + 1)
                          for index, name in enumerate(names)}
        self._place_globals()
        self._place_shared()
        self.resolver = Resolver(self.slots, self.functions)
        self.calls = Calls(self)

    # --- variables ----------------------------------------------------------------------------

    def _place_globals(self) -> None:
        chosen = [v for v in self.module.variables if v.space in ("global", "const")]
        defined = [v for v in chosen if v.linkage != "extern"]
        total = sum(map(byte_size, defined))
        if total > _MAX_BYTES:
            raise LimitExceeded(f"{total} bytes of module variables",
                                f"the emulator has room for {_MAX_BYTES}",
                                legal="arrays as arguments", where=_WHERE)
        for index, variable in enumerate(defined):
            if variable.name in self.top.variables:
                raise UsageError(f"variable {variable.name}", "is declared twice",
                                 legal="a name of its own",
                                 where=f"line {variable.line} of the PTX text")
            base = (FIRST_BUFFER_TAG + index) << TAG_SHIFT
            self.top.variables[variable.name] = VariableAt(variable.space, base)
        self._defined = defined

    def _address_of(self, name: str) -> int:
        found = self.top.variables.get(name)
        if found is not None:
            return found.address
        if name in self.functions:
            return self.functions[name]
        raise UsageError(f"{name} in an initialiser", "no such variable or function",
                         legal=[*self.top.variables, *self.functions] or "a number",
                         where="PTX ISA, Initializers")

    def _globals(self) -> tuple[tuple[str, str, int, int, bytes], ...]:
        return tuple(
            (v.name, v.space, self.top.variables[v.name].address, byte_size(v),
             initial_bytes(v, self._address_of))
            for v in self._defined)

    def _place_shared(self) -> None:
        """Static shared variables one behind the other, dynamic shared memory behind them."""
        own = [v for v in self.module.variables
               if v.space == "shared" and v.name in self.reach.names]
        self.shared_in: dict[tuple[str, str], int] = {}
        inside = [(f.name, v) for f in self.reach.functions for v in _variables(f.body or ())
                  if v.space == "shared"]
        listed = [("", v) for v in own] + inside
        static = [(f, v) for f, v in listed if not _is_dynamic(v)]
        offsets, self.static_end = place(
            ((byte_size(v), alignment(v)) for _, v in static), SHARED_START)
        dynamic = [(f, v) for f, v in listed if _is_dynamic(v)]
        align = max([16, *(alignment(v) for _, v in dynamic)])
        self.dynamic_offset = -(-self.static_end // align) * align
        at = {(f, v.name): o for (f, v), o in zip(static, offsets, strict=True)}
        at |= {(f, v.name): self.dynamic_offset for f, v in dynamic}
        self.shared_in = at
        #: (name, first byte, bytes) of the static ones, in order of their places.
        self.shared_variables = tuple(
            (v.name, o, byte_size(v)) for (_, v), o in zip(static, offsets, strict=True))
        for variable in own:
            self.top.variables[variable.name] = VariableAt("shared", at["", variable.name])

    def local(self, thing: Variable | Parameter) -> int:
        (offset,), self.local_end = place([(byte_size(thing), alignment(thing))], self.local_end)
        return offset

    # --- the whole ----------------------------------------------------------------------------

    def program(self) -> Program:
        """Lower the entry."""
        entry = self.entry
        scope = Scope(self.top)
        offsets, size = place((byte_size(p), alignment(p)) for p in entry.parameters)
        if size > _MAX_PARAMETERS:
            raise UsageError(f"{size} bytes of parameters of {entry.name}",
                             "more than a kernel can have", legal=f"0 to {_MAX_PARAMETERS}",
                             where="PTX ISA, Kernel Function Parameters")
        for parameter, offset in zip(entry.parameters, offsets, strict=True):
            scope.variables[parameter.name] = VariableAt("param", offset)
        end = self.new_label()
        self.statements(entry.body or (), scope, Frame(entry, end, (entry.name,)))
        self.labels[end] = len(self.sites)
        self.emit("exit", (), line=entry.line, text="exit; // the end of the text")
        self.calls.lower_procedures()
        sites = tuple(self._patched(site) for site in self.sites)
        blocks = basic_blocks(sites)
        params = tuple((o, byte_size(p), p.type, bool(p.dims))
                       for p, o in zip(entry.parameters, offsets, strict=True))
        return Program(
            entry=entry.name, target=self.module.target, sites=sites, blocks=blocks,
            slots=self.slots.counts(), params=params, param_bytes=size,
            static_shared=self.static_end - SHARED_START, dynamic_offset=self.dynamic_offset,
            local_bytes=self.local_end, globals=self._globals(),
            maybe_undefined=undefined_registers(sites, blocks, self.slots.names),
            required_block=_extent(entry, ".reqntid"), max_block=_extent(entry, ".maxntid"),
            required_cluster=_extent(entry, ".reqnctapercluster"),
            max_cluster=int(dict(entry.attributes).get(".maxclusterrank", 0)),
            explicit_cluster=".explicitcluster" in dict(entry.attributes),
            counts_clusters=".blocksareclusters" in dict(entry.attributes),
            shared_variables=self.shared_variables,
            launch_registers=launch_registers(entry, self.module.target))

    def _patched(self, site: Site) -> Site:
        operands = tuple(
            Target(tuple(self.labels[label] for label in op.sites)) if isinstance(op, Target)
            else op for op in self.calls.filled(site))
        return replace(site, operands=operands)

    def new_label(self) -> int:
        label = len(self.labels)
        self.labels[label] = -1
        return label

    # --- statements ---------------------------------------------------------------------------

    def statements(self, statements: Sequence[Statement], scope: Scope, frame: Frame) -> None:
        for statement in statements:
            if isinstance(statement, Label):
                if statement.name in scope.labels:
                    raise UsageError(f"label {statement.name}", "is declared twice",
                                     legal="a name of its own in each block",
                                     where=f"line {statement.line} of the PTX text")
                scope.labels[statement.name] = self.new_label()
            elif isinstance(statement, Directive) and statement.name == ".branchtargets":
                names = [name.strip() for name in statement.arguments.split(",")]
                scope.tables[statement.label] = names
        for statement in statements:
            self._statement(statement, scope, frame)

    def _statement(self, statement: Statement, scope: Scope, frame: Frame) -> None:
        if isinstance(statement, Instruction):
            self._instruction(statement, scope, frame)
        elif isinstance(statement, Label):
            self.labels[scope.labels[statement.name]] = len(self.sites)
        elif isinstance(statement, RegisterDeclaration):
            for name, count in statement.names:
                scope.declare(name, statement.type, count, statement.vector)
        elif isinstance(statement, Variable):
            self._variable(statement, scope, frame)
        elif isinstance(statement, Block):
            self.statements(statement.statements, Scope(scope), frame)

    def _variable(self, variable: Variable, scope: Scope, frame: Frame) -> None:
        if variable.space == "shared":
            at = self.shared_in[frame.function.name, variable.name]
            scope.variables[variable.name] = VariableAt("shared", at)
        elif variable.space in ("local", "param"):
            scope.variables[variable.name] = VariableAt("local", self.local(variable))
        else:
            raise UsageError(f".{variable.space} variable {variable.name} in a function",
                             "only shared, local and param variables are declared there",
                             legal=f"the same .{variable.space} variable before the function",
                             where=f"line {variable.line} of the PTX text")

    def _instruction(self, node: Instruction, scope: Scope, frame: Frame) -> None:
        head = node.opcode.partition(".")[0]
        guard = self.resolver.guard(node, scope)
        if head == "call":
            self.calls.call(node, scope, frame, guard)
        elif head == "ret" and frame.function is self.entry:
            self.emit("exit", (), line=node.line, text=node.text, guard=guard)
        elif head == "ret":
            self.emit("bra", (Target((frame.end,)),), line=node.line, text=node.text, guard=guard)
        else:
            opcode = self.resolver.spelled(node, scope)
            form = self.resolver.chosen(form_of(opcode, node.line), node)
            operands = self.resolver.operands(form, node, scope)
            self.append(form, operands, node.line, node.text, guard)

    def emit(self, opcode: str, operands: tuple[Op, ...], *, line: int, text: str,
              guard: tuple[int, bool] | None = None) -> None:
        self.append(find(opcode), operands, line, text, guard)

    def append(self, form: Form, operands: tuple[Op, ...], line: int, text: str,
                guard: tuple[int, bool] | None) -> None:
        if len(self.sites) >= _MAX_SITES:
            raise LimitExceeded(f"{_MAX_SITES} instructions after inlining",
                                "the kernel is too large to lower", where=_WHERE)
        check_operands(form, operands, line)
        self.sites.append(Site(len(self.sites), line, form, operands, guard, text))


#: Whole families without executors, as their opcodes begin: refused before anything runs.
_NOT_EXECUTED = ("tcgen05.", "multimem.", "mov.v2.", "mov.v4.")


def form_of(opcode: str, line: int) -> Form:
    """The form of an opcode; errors say which line it is in."""
    where = f"line {line} of the PTX text"
    try:
        form = find(opcode)
    except UnknownForm as error:
        if in_later_issue(opcode):
            raise refusal(opcode, where) from None
        raise UnknownForm(error.given, error.rule, legal=error.legal, where=where) from None
    if opcode.startswith(_NOT_EXECUTED):
        raise refusal(opcode, where)
    return form


def _is_dynamic(variable: Variable) -> bool:
    return variable.linkage == "extern" or 0 in variable.dims


def _variables(statements: Sequence[Statement]) -> list[Variable]:
    found: list[Variable] = []
    for statement in statements:
        if isinstance(statement, Variable):
            found.append(statement)
        elif isinstance(statement, Block):
            found.extend(_variables(statement.statements))
    return found


def _extent(entry: Function, attribute: str) -> tuple[int, int, int] | None:
    for name, value in entry.attributes:
        if name == attribute:
            sizes = [int(part) for part in value.split(",")]
            x, y, z = [*sizes, 1, 1, 1][:3]
            return x, y, z
    return None


def _move_type(type_: str) -> str:
    return "u16" if type_ in ("b8", "u8", "s8") else type_

