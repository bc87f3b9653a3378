"""The dotted lines that are no declarations: each is read to its own end and kept as text.

``.loc``, ``.file`` and ``.section`` have no semicolon, so their grammar decides where they end; the
others end at one. The text is kept, blanks squeezed, in :class:`~mmalab.ptx.nodes.Directive`::

    .loc 1 12 5, function_name $L__info_string0, inlined_at 1 40 3
    .file 1 "kernel.cu", 1700000000, 4242
    .section .debug_str { $L__info_string0: .b8 95,90,0 }
    .pragma "nounroll";
    prototype: .callprototype (.param .b32 _) _ (.param .b64 _);
"""

from __future__ import annotations

import re

from mmalab.ptx.lexer import Cursor, squeeze
from mmalab.ptx.nodes import Directive

__all__ = ["LABELLED", "directive"]

#: Directives that a label must name.
LABELLED = (".branchtargets", ".callprototype", ".calltargets")

# One pass over a section's block; every repeat is possessive.
_BLOCK = re.compile(r'\{(?:[^{}"/]++|"[^"\n]*+"|//[^\n]*+|/\*(?s:.*?)\*/|/)*+\}')
_SECTION_NAME = re.compile(r"\.[\w.$]++|[A-Za-z_$][\w.$]*+", re.ASCII)


def directive(cursor: Cursor, label: str, line: int) -> tuple[Directive, int]:
    """Read the directive at the cursor; give it and the offset behind it."""
    name = cursor.value
    cursor.advance()
    if name == ".section":
        return _section(cursor, line)
    start = cursor.start
    if name == ".loc":
        _location(cursor)
    elif name == ".file":
        _file(cursor)
    else:
        _BODIES[name](cursor)
    text = squeeze(cursor.text[start : cursor.last])
    end = cursor.last if name in (".loc", ".file") else cursor.semicolon(name)
    return Directive(name, text, label, line), end


def _integers(cursor: Cursor, count: int, where: str) -> None:
    for _ in range(count):
        if cursor.kind != "number" or not cursor.value.isdigit():
            cursor.fail(f"expected a number in {where}, found {cursor.shown}")
        cursor.advance()


def _word(cursor: Cursor, word: str) -> None:
    if cursor.kind != "word" or cursor.value != word:
        cursor.fail(f"expected {word} in .loc, found {cursor.shown}", legal=word)
    cursor.advance()


def _location(cursor: Cursor) -> None:
    _integers(cursor, 3, ".loc")
    if not cursor.take(","):
        return
    _word(cursor, "function_name")
    cursor.identifier("a label of .debug_str")
    if cursor.take("+"):
        _integers(cursor, 1, ".loc")
    cursor.expect(",", "after function_name")
    _word(cursor, "inlined_at")
    _integers(cursor, 3, ".loc")


def _file(cursor: Cursor) -> None:
    _integers(cursor, 1, ".file")
    _string(cursor)
    if cursor.take(","):
        _integers(cursor, 1, ".file")
        cursor.expect(",", "between time stamp and size in .file")
        _integers(cursor, 1, ".file")


def _string(cursor: Cursor) -> None:
    if cursor.kind != "string":
        cursor.fail(f"expected a string, found {cursor.shown}", legal='"..."')
    cursor.advance()


def _section(cursor: Cursor, line: int) -> tuple[Directive, int]:
    name = _SECTION_NAME.match(cursor.text, cursor.start)
    if name is None:
        cursor.fail(f"expected the name of a section, found {cursor.shown}")
    cursor.seek(name.end())
    if not cursor.at("{"):
        cursor.fail(f"expected '{{' after the name of a section, found {cursor.shown}", legal="{")
    block = _BLOCK.match(cursor.text, cursor.start)
    if block is None:
        cursor.fail("this section has no end", legal="}")
    text = cursor.text[name.start() : block.end()]
    cursor.seek(block.end())
    return Directive(".section", text, "", line), block.end()


def _strings(cursor: Cursor) -> None:
    _string(cursor)
    while cursor.take(","):
        _string(cursor)


def _names(cursor: Cursor) -> None:
    """Read ``A, B, C<3>``."""
    while True:
        cursor.identifier("a label")
        if cursor.take("<"):
            _integers(cursor, 1, "a list of labels")
            cursor.expect(">", "after a count of labels")
        if not cursor.take(","):
            return


def _alias(cursor: Cursor) -> None:
    cursor.identifier("a function")
    cursor.expect(",", "between the two names of .alias")
    cursor.identifier("a function")


def _prototype(cursor: Cursor) -> None:
    """Read ``(.param .b32 _) _ (.param .b64 _) .noreturn``."""
    if cursor.at("("):
        _parentheses(cursor)
    if cursor.kind != "word":
        cursor.fail(f"expected '_' in .callprototype, found {cursor.shown}", legal="_")
    cursor.advance()
    if cursor.at("("):
        _parentheses(cursor)
    while cursor.kind == "dot":
        cursor.advance()
        if cursor.kind == "number":
            cursor.advance()


def _parentheses(cursor: Cursor) -> None:
    cursor.expect("(", "before parameters")
    while not cursor.at(")"):
        if cursor.kind == "end" or cursor.value in (";", "{", "}", "("):
            cursor.fail(f"expected ')' after parameters, found {cursor.shown}", legal=")")
        cursor.advance()
    cursor.advance()


_BODIES = {
    ".pragma": _strings, ".alias": _alias, ".callprototype": _prototype,
    ".branchtargets": _names, ".calltargets": _names,
}
