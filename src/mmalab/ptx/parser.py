"""PTX text to :class:`~mmalab.ptx.nodes.Module`: the header, functions and what lies between.

    >>> module = parse('''.version 8.0
    ... .target sm_90a
    ... .visible .entry k(.param .u64 p) .maxntid 128 { ret; }''')
    >>> module.entries[0].attributes, module.entries[0].body[0].opcode
    ((('.maxntid', '128'),), 'ret')

The parser judges form, never opcodes or targets: any well-formed instruction is accepted, whether
or not a chip has it. What is not well formed, a missing semicolon included, is a
:class:`~mmalab.errors.SourceError` with the line and a caret. No text is skipped, and time and
depth are bounded on any input.
"""

from __future__ import annotations

import gc
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mmalab.errors import UsageError
from mmalab.ptx.declarations import LINKAGE, SPACES, attribute, parameters, variables
from mmalab.ptx.directives import directive
from mmalab.ptx.expressions import integer
from mmalab.ptx.lexer import Cursor, nearest
from mmalab.ptx.nodes import Directive, Function, Module, Parameter, Statement, Variable
from mmalab.ptx.operands import Scope
from mmalab.ptx.statements import Body, Spans

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Spans", "parse", "parse_with_spans"]

_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})(?![\w.])", re.ASCII)
_MODULE_DIRECTIVES = (".file", ".section", ".pragma", ".alias")

#: Performance directives of a function, and how many integers each takes at most.
_ATTRIBUTES = {
    ".maxntid": 3, ".reqntid": 3, ".minnctapersm": 1, ".maxnctapersm": 1, ".maxnreg": 1,
    ".reqnctapercluster": 3, ".maxclusterrank": 1, ".explicitcluster": 0, ".blocksareclusters": 0,
    ".noreturn": 0, ".abi_preserve": 1, ".abi_preserve_control": 1, ".pragma": 0,
}


def parse(text: str, file: str = "<ptx>") -> Module:
    """Parse a whole PTX file. `file` names it in messages.

    ``str(module)`` is `text`, byte for byte. Raises SourceError, with line and caret, for text that
    is not well formed.
    """
    if not isinstance(text, str):
        raise UsageError(f"parse takes PTX text, not {type(text).__name__}",
                         legal="parse(Path('k.ptx').read_text())", where="mmalab.ptx.parse")
    with _collector_at_rest():
        return _Parser(text, file, None).module()


def parse_with_spans(text: str, file: str = "<ptx>", *, fast: bool = True) -> tuple[Module, Spans]:
    """Parse, and tell where each function, statement, variable and directive is written.

    With `fast` False every statement goes through the grammar; the nodes are the same.
    """
    spans = Spans()
    with _collector_at_rest():
        return _Parser(text, file, spans, fast=fast).module(), spans


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Hold the cyclic garbage collector: nodes are many, live on and form no cycles.

    Otherwise it walks all of them again and again, a third of the time of a long file.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


class _Parser:
    """One text being read."""

    def __init__(self, text: str, file: str, spans: Spans | None, *, fast: bool = True) -> None:
        self.cursor = Cursor(text, 0, file)
        self.body = Body(self.cursor, spans, fast=fast)
        self.scope = Scope()
        self.variables: list[Variable] = []
        self.functions: list[Function] = []
        self.directives: list[Directive] = []

    def module(self) -> Module:
        cursor = self.cursor
        version = self._version()
        target, options = self._target()
        address_size = self._address_size()
        while cursor.kind != "end":
            self._item()
        return Module(version, target, address_size, tuple(self.variables), tuple(self.functions),
                      options, tuple(self.directives), cursor.text, cursor.file)

    # --- header -----------------------------------------------------------------------------------

    def _version(self) -> tuple[int, int]:
        cursor = self.cursor
        if not cursor.at(".version"):
            cursor.fail(f"a PTX file begins with .version, found {cursor.shown}",
                        legal=".version 8.0")
        cursor.advance()
        found = _VERSION.match(cursor.text, cursor.start)
        if found is None:
            cursor.fail(f"expected a version, found {cursor.shown}", legal=".version 8.0")
        cursor.seek(found.end())
        return int(found.group(1)), int(found.group(2))

    def _target(self) -> tuple[str, tuple[str, ...]]:
        cursor = self.cursor
        if not cursor.at(".target"):
            cursor.fail(f".target follows .version, found {cursor.shown}", legal=".target sm_80")
        cursor.advance()
        names = [cursor.identifier("a target")]
        while cursor.take(","):
            names.append(cursor.identifier("a target or an option of it"))
        return names[0], tuple(names[1:])

    def _address_size(self) -> int:
        cursor = self.cursor
        if not cursor.take(".address_size"):
            return 32
        size = cursor.value
        if size not in ("32", "64"):
            cursor.fail(f"expected an address size, found {cursor.shown}", legal=("32", "64"))
        cursor.advance()
        return int(size)

    # --- what a module holds ----------------------------------------------------------------------

    def _item(self) -> None:
        cursor = self.cursor
        start, line = cursor.start, self.body.line(cursor.start)
        linkage = ""
        if cursor.value in LINKAGE:
            linkage = cursor.value[1:]
            cursor.advance()
        if cursor.at(".entry") or cursor.at(".func"):
            self._function(linkage, start, line)
        elif cursor.value in SPACES:
            found = variables(cursor, self.scope, linkage, line)
            end = cursor.semicolon("a variable")
            self.variables.extend(found)
            for variable in found:
                self.body.note(variable, start, end)
        elif cursor.value in _MODULE_DIRECTIVES and not linkage:
            node, end = directive(cursor, "", line)
            self.directives.append(node)
            self.body.note(node, start, end)
        else:
            self._unknown(linkage)

    def _unknown(self, linkage: str) -> None:
        cursor = self.cursor
        if cursor.kind == "dot":
            legal = (".entry", ".func", *SPACES, *(() if linkage else _MODULE_DIRECTIVES))
            rule = f"cannot follow .{linkage}" if linkage else "is no directive of a module"
            cursor.fail(f"{cursor.value} {rule}", legal=nearest(cursor.value, legal))
        cursor.fail(f"expected a function, a variable or a directive, found {cursor.shown}")

    def _function(self, linkage: str, start: int, line: int) -> None:
        cursor = self.cursor
        kind = cursor.value[1:]
        cursor.advance()
        scope = Scope(self.scope)
        attributes: list[tuple[str, str]] = []
        while cursor.at(".attribute"):
            attributes.append((".attribute", attribute(cursor)))
        results: tuple[Parameter, ...] = ()
        if kind == "func" and cursor.at("("):
            results = parameters(cursor, scope)
        name = cursor.identifier("the name of a function")
        given = parameters(cursor, scope) if cursor.at("(") else ()
        while cursor.kind == "dot":
            attributes.append(self._attribute())
        body: tuple[Statement, ...] | None = None
        inside = cursor.end
        if cursor.at(";"):
            end = cursor.semicolon("a declaration")
        elif cursor.take("{"):
            body = self.body.statements(scope)
            end = cursor.last
        else:
            cursor.fail(f"expected the body of {name}, found {cursor.shown}", legal=("{", ";"))
        function = Function(name, kind, given, results, body, linkage, tuple(attributes), line)
        self.functions.append(function)
        self.body.note(function, start, end)
        if body is not None:
            self.body.note_body(function, inside, end - 1)

    def _attribute(self) -> tuple[str, str]:
        cursor = self.cursor
        name = cursor.value
        if name not in _ATTRIBUTES:
            cursor.fail(f"{name} is no directive of a function",
                        legal=nearest(name, tuple(_ATTRIBUTES)))
        if name == ".pragma":
            return name, directive(cursor, "", 0)[0].arguments
        cursor.advance()
        most = _ATTRIBUTES[name]
        values = [integer(cursor, f"an argument of {name}")] if most else []
        while 0 < len(values) < most and cursor.take(","):
            values.append(integer(cursor, f"an argument of {name}"))
        return name, ", ".join(map(str, values))
