r"""The body of a function: one regular expression for the ordinary line, a grammar for the rest.

`_LINE` matches the blanks before a statement and then one of

* an instruction on plain operands: ``@%p1 ld.global.v2.f32 {%f1, %f2}, [%rd1+8];``
* a label: ``$L__BB0_2:``
* a source location: ``.loc 1 12 5``

It only *segments*: every operand text then goes through :class:`~mmalab.ptx.operands.Memo`, which
uses the same grammar as the slow path. Whatever does not match, or holds an operand that the
grammar refuses, is read again by the slow path, which knows everything and points at faults. So the
two paths cannot give different nodes, only different speeds, and the tests compare them.

All repeats in `_LINE` are possessive and nothing in it crosses a semicolon, so a failed attempt
costs no more than the statement it stands on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from mmalab.errors import SourceError
from mmalab.ptx.declarations import SPACES, register_declaration, variables
from mmalab.ptx.directives import LABELLED, directive
from mmalab.ptx.lexer import IDENTIFIER, OPCODE, Cursor, nearest
from mmalab.ptx.nodes import Block, Directive, Function, Guard, Instruction, Label, Statement
from mmalab.ptx.operands import Memo, Scope, operands

__all__ = ["MAX_BLOCKS", "Body", "Spans"]

#: Nesting of ``{ ... }`` in a body that is still read.
MAX_BLOCKS = 100

_LINE = re.compile(
    rf"(?:[ \t\r\n]++|//[^\n]*+\n)*+"
    rf"(?:((?:(@!?{IDENTIFIER})[ \t]++)?(?!call[.\s])([A-Za-z_][\w.]*+(?:::[\w.]++)*+)"
    rf"(?:[ \t]++([^;\"/()@=]++))?;)"
    rf"|({IDENTIFIER})[ \t]*+:(?!:)"
    rf"|(\.loc[ \t]++(\d++ \d++ \d++))(?=[ \t\r]*+(?:\n|//)))",
    re.ASCII,
)
_OPCODE = re.compile(OPCODE, re.ASCII)

_BODY_DIRECTIVES = (".loc", ".pragma", *LABELLED)


@dataclass(slots=True)
class _Draft:
    """An instruction while it is made: the same slots as Instruction, without its frozen setters.

    A frozen dataclass is six times slower to make than a plain one. The draft becomes an
    Instruction by assigning its class, which Python allows between equal layouts.
    """

    opcode: str
    operands: object
    guard: Guard | None
    line: int
    text: str


@dataclass(slots=True)
class Spans:
    """Where nodes are written, by the id of the node: (start, end) offsets.

    `bodies` tells, for functions and blocks, the part between the braces.
    """

    nodes: dict[int, tuple[int, int]] = field(default_factory=dict)
    bodies: dict[int, tuple[int, int]] = field(default_factory=dict)


class Body:
    """Reads bodies of one text, and notes in `spans`, when given, where each node is written."""

    def __init__(self, cursor: Cursor, spans: Spans | None, *, fast: bool = True) -> None:
        self.cursor = cursor
        self.text = cursor.text
        self.spans = spans
        self.fast = fast
        self._line = 1
        self._line_offset = 0
        self._guards = _Guards()
        self._opcodes = _Opcodes()
        #: Shared by all scopes in which only names with a leading % are registers.
        self._plain_memo = Memo(Scope())

    def line(self, offset: int) -> int:
        """Count the line of `offset`; offsets must not decrease from call to call."""
        self._line += self.text.count("\n", self._line_offset, offset)
        self._line_offset = offset
        return self._line

    def note(self, node: object, start: int, end: int) -> None:
        """Remember where `node` is written."""
        if self.spans is not None:
            self.spans.nodes[id(node)] = (start, end)

    def note_body(self, node: Block | Function, start: int, end: int) -> None:
        """Remember where the inside of `node` is written."""
        if self.spans is not None:
            self.spans.bodies[id(node)] = (start, end)

    def statements(self, scope: Scope, depth: int = 0) -> tuple[Statement, ...]:
        """Read from behind ``{`` over the ``}`` that closes it; the cursor stands behind."""
        found: list[Statement] = []
        position, memo = self.cursor.last, self._memo(scope)
        if depth > MAX_BLOCKS:
            self.cursor.fail(f"blocks nested deeper than {MAX_BLOCKS}", self.cursor.last - 1)
        while True:
            if self.fast:
                position = self._ordinary(found, position, memo)
            self.cursor.seek(position)
            if self.cursor.take("}"):
                return tuple(found)
            known = len(scope.registers)
            position = self._any(found, scope, depth)
            if len(scope.registers) != known:
                memo = self._memo(scope)

    def _memo(self, scope: Scope) -> Memo:
        return self._plain_memo if scope.only_percent else Memo(scope, self._plain_memo)

    # --- fast path --------------------------------------------------------------------------------

    def _ordinary(self, found: list[Statement], position: int, memo: Memo) -> int:
        """Read statements as long as they are ordinary; give the offset behind the last."""
        text, match, read = self.text, _LINE.match, memo.read
        append, guards, opcodes, spans = found.append, self._guards, self._opcodes, self.spans
        line, counted = self._line, self._line_offset
        while (matched := match(text, position)) is not None:
            written, guard, opcode, listed, label, _, location = matched.groups()
            start = matched.start(matched.lastindex or 0)
            statement: Statement
            if written is not None:
                try:
                    opcode = opcodes[opcode]
                    nodes = () if listed is None else read(listed)
                except SourceError:
                    break
                line += text.count("\n", counted, start)
                draft = _Draft(opcode, nodes, guards[guard] if guard else None, line, written)
                draft.__class__ = Instruction  # type: ignore[assignment]
                statement = draft  # type: ignore[assignment]
            else:
                line += text.count("\n", counted, start)
                statement = (Label(label, line) if label is not None
                             else Directive(".loc", location, "", line))
            append(statement)
            counted, position = start, matched.end()
            if spans is not None:
                spans.nodes[id(statement)] = (start, position)
        self._line, self._line_offset = line, counted
        return position

    # --- slow path --------------------------------------------------------------------------------

    def _any(self, found: list[Statement], scope: Scope, depth: int) -> int:
        """Read any statement at the cursor, or fail; give the offset behind it."""
        cursor = self.cursor
        start, line = cursor.start, self.line(cursor.start)
        if cursor.kind == "dot":
            return self._dotted(found, scope, start, line)
        if cursor.take("{"):
            inside = cursor.last
            block = Block(self.statements(Scope(scope), depth + 1), line)
            statement: Statement = block
            end = cursor.last
            self.note_body(block, inside, end - 1)
        elif cursor.kind == "word" and (name := cursor.label()):
            statement, end = Label(name, line), cursor.last
        elif cursor.kind == "word" or cursor.at("@"):
            statement, end = self._instruction(scope, start, line)
        elif cursor.kind == "end":
            cursor.fail("the text ends inside a body", cursor.last, legal="}")
        else:
            cursor.fail(f"expected a statement, found {cursor.shown}")
        found.append(statement)
        self.note(statement, start, end)
        return end

    def _instruction(self, scope: Scope, start: int, line: int) -> tuple[Instruction, int]:
        cursor = self.cursor
        guard = None
        if cursor.take("@"):
            negated = cursor.take("!")
            if cursor.kind != "word" or cursor.value == "_":
                cursor.fail(f"expected a predicate, found {cursor.shown}")
            guard = Guard(cursor.value, negated)
            cursor.advance()
        opcode = cursor.opcode()
        nodes = operands(cursor, scope, opcode)
        end = cursor.semicolon(opcode)
        return Instruction(opcode, nodes, guard, line, self.text[start:end]), end

    def _dotted(self, found: list[Statement], scope: Scope, start: int, line: int) -> int:
        cursor = self.cursor
        word = cursor.value
        nodes: list[Statement]
        if word == ".reg":
            nodes = [register_declaration(cursor, scope, line)]
            end = cursor.semicolon("a register declaration")
        elif word in SPACES or word == ".extern":
            linkage = "extern" if cursor.take(".extern") else ""
            nodes = [*variables(cursor, scope, linkage, line)]
            end = cursor.semicolon("a variable")
        elif word in _BODY_DIRECTIVES:
            label = ""
            if word in LABELLED:
                label, start, line = self._label_before(found, start)
            node, end = directive(cursor, label, line)
            nodes = [node]
        else:
            legal = (".reg", *SPACES, *_BODY_DIRECTIVES)
            cursor.fail(f"{word} is no directive of a body", legal=nearest(word, legal))
        found.extend(nodes)
        for node_ in nodes:
            self.note(node_, start, end)
        return end

    def _label_before(self, found: list[Statement], start: int) -> tuple[str, int, int]:
        """Take the label that was just read as the name of a directive."""
        label = found.pop() if found else None
        if not isinstance(label, Label):
            self.cursor.fail(f"{self.cursor.value} needs a label before it", legal="name: "
                             f"{self.cursor.value} ...;")
        if self.spans is not None:
            start = self.spans.nodes.pop(id(label))[0]
        return label.name, start, label.line


class _Guards(dict[str, Guard]):
    """Guard text -> node."""

    def __missing__(self, text: str) -> Guard:
        negated = text[1] == "!"
        guard = self[text] = Guard(text[2 if negated else 1 :], negated)
        return guard


class _Opcodes(dict[str, str]):
    """Spellings of opcodes that are well formed, each kept once."""

    def __missing__(self, text: str) -> str:
        if _OPCODE.fullmatch(text) is None:
            raise SourceError("not an opcode", source=text, offset=0)
        self[text] = text
        return text
