r"""Edits that leave all other text as it is, byte for byte.

    >>> module = parse(text)
    >>> first = next(module.entries[0].instructions())
    >>> module = replace(module, first, 'mov.u32 %r1, 7;')      # or a node
    >>> module = retarget(module, "sm_100a", version=(8, 8))

Each gives a new Module, parsed from the new text, so lines and texts of its nodes are right. Many
edits at once go through an :class:`Editor`, which parses once. :func:`print_module` is for trees
changed by other means (``dataclasses.replace``): statements that are still in the tree unchanged
keep their text and the blanks and comments around them, the others are spelled by the printer.

Edits are kept as (start, end, new text) against the original text and applied together, so their
order does not matter, and no edit can disturb what another one wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from mmalab.errors import UsageError
from mmalab.ptx.lexer import Cursor
from mmalab.ptx.nodes import Block, Function, Label, Module, Statement
from mmalab.ptx.parser import parse, parse_with_spans
from mmalab.ptx.printer import function_header, function_text, module_text, statement_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mmalab.ptx.statements import Spans

__all__ = ["Editor", "insert_after", "insert_before", "print_module", "remove", "replace",
           "retarget"]

_WHERE = "mmalab.ptx.Editor"
#: What may be inserted: a statement, or its text.
New: TypeAlias = Statement | str
#: What a module's text is made of and an edit may name.
Node: TypeAlias = Statement | Function


def replace(module: Module, old: Node, *new: New) -> Module:
    """Put `new` in place of the statement `old` of `module` (the object itself, not an equal)."""
    editor = Editor(module)
    editor.replace(old, *new)
    return editor.module()


def insert_before(module: Module, anchor: Node, *new: New) -> Module:
    """Put `new` on lines of their own before `anchor`."""
    editor = Editor(module)
    editor.insert_before(anchor, *new)
    return editor.module()


def insert_after(module: Module, anchor: Node, *new: New) -> Module:
    """Put `new` on lines of their own behind `anchor`."""
    editor = Editor(module)
    editor.insert_after(anchor, *new)
    return editor.module()


def remove(module: Module, old: Node) -> Module:
    """Take `old` out, with its line when nothing else stands on it."""
    return replace(module, old)


def retarget(module: Module, target: str | None = None, *, version: tuple[int, int] | None = None,
             options: Sequence[str] | None = None) -> Module:
    """Change ``.target``, its options or ``.version``; what is not given stays."""
    editor = Editor(module)
    editor.retarget(target, version=version, options=options)
    return editor.module()


def print_module(module: Module) -> str:
    """Give the text of a module whose tree may have been changed.

    Unchanged, that is ``str(module)``. A module without text is spelled canonically.
    """
    if not module.text:
        return module_text(module)
    original, spans = parse_with_spans(module.text, module.file)
    edits = _Edits(module.text)
    _Differ(edits, spans).modules(original, module)
    return edits.text()


class _Edits:
    """Replacements against one text; of several insertions at one place the first comes first."""

    def __init__(self, text: str) -> None:
        self.original = text
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self._found: list[tuple[int, int, str]] = []

    def put(self, start: int, end: int, text: str) -> None:
        self._found.append((start, end, text))

    def gap(self, start: int) -> str:
        """What parts a new statement from the one at `start`: a line end and the same indent.

        Where something else stands before `start` on its line, it is a space.
        """
        line = self.original.rfind("\n", 0, start) + 1
        before = self.original[line:start]
        return " " if before.strip(" \t") else self.newline + before

    def spelled(self, new: Sequence[New], gap: str) -> list[str]:
        indent = gap.strip("\r\n")
        return [(item if isinstance(item, str) else statement_text(item, indent).replace(
            "\n", self.newline)) for item in new]

    def replace(self, start: int, end: int, new: Sequence[New]) -> None:
        gap = self.gap(start)
        if new:
            self.put(start, end, gap.join(self.spelled(new, gap)))
        else:
            self.put(*self._whole_line(start, end), "")

    def _whole_line(self, start: int, end: int) -> tuple[int, int]:
        """Widen to the whole line if nothing else stands on it."""
        text = self.original
        line = text.rfind("\n", 0, start) + 1
        stop = text.find("\n", end)
        stop = len(text) if stop < 0 else stop + 1
        if text[line:start].strip() or text[end:stop].strip():
            return start, end
        return line, stop

    def before(self, start: int, new: Sequence[New]) -> None:
        gap = self.gap(start)
        spelled = self.spelled(new, gap)
        if gap == " ":
            self.put(start, start, "".join(text + gap for text in spelled))
        else:
            line = self.original.rfind("\n", 0, start) + 1
            indent = self.original[line:start]
            self.put(line, line, "".join(indent + text + self.newline for text in spelled))

    def after(self, end: int, gap: str, new: Sequence[New]) -> None:
        """Insert behind `end`, and, on a new line, behind a comment that follows on its line."""
        stop = self.original.find("\n", end)
        stop = len(self.original) if stop < 0 else stop
        rest = self.original[end:stop].strip()
        if gap != " " and (rest == "" or rest.startswith("//")):
            end = stop - self.original.endswith("\r", end, stop)
        self.put(end, end, "".join(gap + text for text in self.spelled(new, gap)))

    def text(self) -> str:
        parts: list[str] = []
        position = 0
        for start, end, new in sorted(self._found, key=lambda edit: (edit[0], edit[1])):
            if start < position:
                raise UsageError("two edits change the same text",
                                 self.original[start : start + 60].splitlines()[0],
                                 legal="one edit of each statement", where=_WHERE)
            parts += (self.original[position:start], new)
            position = end
        return "".join((*parts, self.original[position:]))


class Editor:
    """Collects edits of one module. Statements are named by the node objects of that module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._edits = _Edits(module.text)
        original, spans = parse_with_spans(module.text, module.file)
        if original != module:
            raise UsageError("this module's tree was changed, so its text is not what it says",
                             legal="parse(print_module(module))", where=_WHERE)
        self._places: dict[int, tuple[int, int]] = {}
        #: Nodes that one statement made, by its place: ``.shared .b32 a, b;``
        self._together: dict[tuple[int, int], list[Node]] = {}
        for mine, theirs in zip(_nodes(module), _nodes(original), strict=True):
            place = spans.nodes[id(theirs)]
            self._places[id(mine)] = place
            self._together.setdefault(place, []).append(mine)

    def _place(self, node: Node) -> tuple[int, int]:
        try:
            return self._places[id(node)]
        except KeyError:
            raise UsageError(f"line {node.line}: this node is not one of the module's own",
                             legal="a node reached from the module", where=_WHERE) from None

    def replace(self, old: Node, *new: New) -> None:
        """Put `new` in place of `old`, first on its place, more on lines behind it."""
        start, end = place = self._place(old)
        # Its siblings of the same statement have no text of their own: spell them out.
        siblings = self._together[place]
        if len(siblings) == 1 or isinstance(old, Function):
            self._edits.replace(start, end, new)
            return
        spelled: list[New] = []
        for node in siblings:
            if node is old:
                spelled += new
            elif not isinstance(node, Function):
                spelled.append(node)
        self._edits.replace(start, end, spelled)

    def remove(self, old: Node) -> None:
        """Take `old` out, with its line when nothing else stands on it."""
        self.replace(old)

    def insert_before(self, anchor: Node, *new: New) -> None:
        """Put `new` on lines of their own before `anchor`."""
        self._edits.before(self._place(anchor)[0], new)

    def insert_after(self, anchor: Node, *new: New) -> None:
        """Put `new` on lines of their own behind `anchor`."""
        start, end = self._place(anchor)
        self._edits.after(end, self._edits.gap(start), new)

    def retarget(self, target: str | None = None, *, version: tuple[int, int] | None = None,
                 options: Sequence[str] | None = None) -> None:
        """Change ``.target``, its options or ``.version``; what is not given stays."""
        module = self._module
        _retarget(self._edits, module, version or module.version, (
            target or module.target,
            *(module.target_options if options is None else options)))

    def text(self) -> str:
        """Give the edited text."""
        return self._edits.text()

    def module(self) -> Module:
        """Parse the edited text; SourceError if an edit broke it."""
        return parse(self.text(), self._module.file)


def _retarget(edits: _Edits, old: Module, version: tuple[int, int],
              targets: tuple[str, ...]) -> None:
    places = _header(old.text)
    if version != old.version:
        edits.put(*places[0], f"{version[0]}.{version[1]}")
    if targets != (old.target, *old.target_options):
        edits.put(*places[1], ", ".join(targets))


def _header(text: str) -> list[tuple[int, int]]:
    """Find where the version, the targets and the address size (empty if absent) are written."""
    cursor = Cursor(text)
    cursor.advance()
    places = [(cursor.start, cursor.end)]
    cursor.advance()
    cursor.expect(".target", "in a header")
    start = cursor.start
    cursor.advance()
    while cursor.take(","):
        cursor.advance()
    places.append((start, cursor.last))
    if cursor.take(".address_size"):
        return [*places, (cursor.start, cursor.end)]
    return [*places, (cursor.last, cursor.last)]


def _nodes(module: Module) -> Iterator[Node]:
    """Yield all nodes that have a place in the text, in one fixed order."""
    yield from module.variables
    yield from module.directives
    for function in module.functions:
        yield function
        yield from _inside(function.body or ())


def _inside(statements: Sequence[Statement]) -> Iterator[Statement]:
    for statement in statements:
        yield statement
        if isinstance(statement, Block):
            yield from _inside(statement.statements)


# --- changed trees --------------------------------------------------------------------------------

class _Differ:
    """Finds what a changed tree changes in the text of the original one."""

    def __init__(self, edits: _Edits, spans: Spans) -> None:
        self.edits = edits
        self.places = spans.nodes
        self.bodies = spans.bodies

    def modules(self, old: Module, new: Module) -> None:
        """Compare everything."""
        _retarget(self.edits, old, new.version, (new.target, *new.target_options))
        size = _header(old.text)[2]
        if new.address_size != old.address_size:
            head = "" if size[0] < size[1] else f"{self.edits.newline}.address_size "
            self.edits.put(*size, f"{head}{new.address_size}")
        self.statements(old.directives, new.directives, size[1])
        self.statements(old.variables, new.variables, size[1])
        self.functions(old.functions, new.functions, size[1])

    def functions(self, old: Sequence[Function], new: Sequence[Function], top: int) -> None:
        """Edit the functions; new ones come behind the one that they follow."""
        position = top
        for outcome in _outcomes(old, new):
            one = outcome.old
            if one is not None:
                start, end = self.places[id(one)]
                if not outcome.here:
                    self.edits.replace(start, end, [])
                elif outcome.here[0] != one:
                    self._function(one, outcome.here[0])
                position = end
            for extra in outcome.behind:
                self.edits.put(position, position, self._lines("\n\n" + function_text(extra)))

    def _function(self, old: Function, new: Function) -> None:
        start, end = self.places[id(old)]
        if old.body is None or new.body is None:
            self.edits.put(start, end, self._lines(function_text(new)))
            return
        inside = self.bodies[id(old)][0]
        if function_header(old) != function_header(new):
            self.edits.put(start, inside - 1, self._lines(function_header(new) + "\n"))
        self.statements(old.body, new.body, inside)

    def _lines(self, text: str) -> str:
        return text.replace("\n", self.edits.newline)

    def statements(self, old: Sequence[Statement], new: Sequence[Statement], top: int) -> None:
        """Edit one list of statements, whose text begins at `top`."""
        position, gap = top, self._gap(old)
        for _, group in groupby(_outcomes(old, new), self._place):
            outcomes = list(group)
            if outcomes[0].old is not None:
                start, position = self._place(outcomes[0])
                gap = self.edits.gap(start) if not isinstance(outcomes[0].old, Label) else gap
            if len(outcomes) > 1:
                self._together(outcomes)
            elif outcomes[0].old is not None:
                self._one(outcomes[0].old, outcomes[0].here)
            if outcomes[-1].behind:
                self.edits.after(position, gap, outcomes[-1].behind)

    def _place(self, outcome: _Outcome[Statement]) -> tuple[int, int]:
        return (-1, -1) if outcome.old is None else self.places[id(outcome.old)]

    def _one(self, old: Statement, here: Sequence[Statement]) -> None:
        if not here:
            self.edits.replace(*self.places[id(old)], [])
        elif isinstance(old, Block) and isinstance(here[0], Block):
            self.statements(old.statements, here[0].statements, self.bodies[id(old)][0])
        elif here[0] != old:
            self.edits.replace(*self.places[id(old)], here)

    def _together(self, outcomes: Sequence[_Outcome[Statement]]) -> None:
        """Edit a declaration of several names: a change of one spells out all."""
        new: list[New] = []
        for outcome in outcomes:
            new += outcome.here
            if outcome is not outcomes[-1]:
                new += outcome.behind
        if new != [outcome.old for outcome in outcomes]:
            self.edits.replace(*self._place(outcomes[0]), new)

    def _gap(self, statements: Sequence[Statement]) -> str:
        for statement in statements:
            if not isinstance(statement, Label):
                return self.edits.gap(self.places[id(statement)][0])
        return self.edits.newline + "    "


_T = TypeVar("_T")


@dataclass(slots=True)
class _Outcome(Generic[_T]):
    """What became of `old` (None: the beginning of the list), and what is new behind it."""

    old: _T | None
    here: list[_T] = field(default_factory=list)
    behind: list[_T] = field(default_factory=list)


def _outcomes(old: Sequence[_T], new: Sequence[_T]) -> list[_Outcome[_T]]:
    """Align two lists: equal nodes stay, in order; what lies between is paired one to one.

    Nodes hold their line, so equal ones are rare and a greedy match is the right one.
    """
    found: list[_Outcome[_T]] = [_Outcome(None)]
    places: dict[_T, int] = {}
    for index, node in enumerate(old):
        places.setdefault(node, index)
    position, waiting = 0, []
    for node in new:
        place = places.get(node, -1)
        if place < position:
            waiting.append(node)
            continue
        _pair(found, old[position:place], waiting)
        found.append(_Outcome(old[place], [node]))
        position, waiting = place + 1, []
    _pair(found, old[position:], waiting)
    return found


def _pair(found: list[_Outcome[_T]], replaced: Sequence[_T], new: list[_T]) -> None:
    for index, node in enumerate(replaced):
        found.append(_Outcome(node, new[index : index + 1]))
    found[-1].behind += new[len(replaced) :]
