r"""Tokens of PTX, and a cursor that walks over them and points at faults.

PTX has six kinds of token: words (``%r1``, ``$L__BB0_1``, ``mov``), dotted words (``.reg``,
``.b32``), numbers, strings, operators, and the end. ``// ...``, ``/* ... */`` and line markers
(``# 12 "x.cu"``) are blank. An opcode is one token only where an instruction may stand, because
``.2d`` and ``.32x32b`` begin with digits: see :meth:`Cursor.opcode`.

    >>> cursor = Cursor("ld.u32 %r1, [%rd2+8];")
    >>> cursor.opcode(), cursor.value
    ('ld.u32', '%r1')

The rules are those of ptxas 13.0 and 13.5, found by trying: ``add .s32`` is ``add.s32`` but
``add. s32`` is not, ``1.`` and ``.5`` are floats, ``1.0f``, ``5u`` and ``018`` are nothing.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, NoReturn

from mmalab.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BLANK", "IDENTIFIER", "OPCODE", "Cursor", "nearest", "squeeze"]

#: A name: a letter and anything, or one of _ $ % and at least one more (``_`` alone is the sink).
IDENTIFIER = r"(?:[A-Za-z][\w$]*+|[_$%][\w$]++)"

#: An instruction's spelling: a head and modifiers, some of them qualified (``.shared::cta``).
OPCODE = r"[A-Za-z_]\w*+(?:\.\w++(?:::\w++)*+)*+"

#: Blank between tokens. All repeats are possessive: no input makes this backtrack.
BLANK = r"(?:[ \t\r\n]++|//[^\n]*+|/\*(?s:.*?)\*/|^\#[ \t]*+(?:line[ \t]++)?\d[^\n]*+)"

_SKIP = re.compile(BLANK + "*+", re.ASCII | re.MULTILINE)
_SQUEEZE = re.compile(BLANK + "++", re.ASCII | re.MULTILINE)
_TOKEN = re.compile(
    rf"{BLANK}*+(?:"
    r"(?P<number>(?:0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]++U?|0[bB][01]++U?"
    r"|(?:\d++\.\d*+|\.\d++)(?:[eE][+-]?\d++)?|\d++[eE][+-]?\d++|0[0-7]*+U?|[1-9]\d*+U?)(?![\w$.]))"
    rf"|(?P<word>{IDENTIFIER}(?:\.[xyzwrgba](?!\w))?|_)"
    r"|(?P<dot>\.[A-Za-z_]\w*+(?:::\w++)*+)"
    r'|(?P<string>"[^"\n]*+")'
    r"|(?P<operator><<|>>|<=|>=|==|!=|&&|\|\||::|[-+*%&|^~!?:<>()\[\]{},;=@]|/(?!\*))"
    r"|(?P<end>\Z))",
    re.ASCII | re.MULTILINE,
)
_BAD_NUMBER = re.compile(r"[\w$.]+", re.ASCII)
_OPCODE = re.compile(OPCODE, re.ASCII)
_LABEL = re.compile(rf"({IDENTIFIER}){BLANK}*+:(?!:)", re.ASCII | re.MULTILINE)
_MODIFIERS = re.compile(r"(?:\.\w++(?:::\w++)*+)++", re.ASCII)

#: Dotted words that begin a statement and are no modifier: behind an instruction they mean that
#: its ";" is missing.
_STATEMENT_WORDS = frozenset((
    ".reg", ".loc", ".pragma", ".section", ".branchtargets", ".callprototype", ".calltargets",
    ".file", ".entry", ".func", ".visible", ".extern",
))


def squeeze(text: str) -> str:
    """`text` with every run of blanks and comments as one space, none at the ends."""
    return _SQUEEZE.sub(" ", text).strip()


def nearest(given: str, legal: Sequence[str]) -> list[str]:
    """Choose the legal spellings closest to `given`; all of them when none is close."""
    return get_close_matches(given, legal, n=3, cutoff=0.6) or sorted(legal)


class Cursor:
    """The current token (`kind`, `value`, `start`, `end`) of a text; `last` ends the one before."""

    __slots__ = ("end", "file", "kind", "last", "start", "text", "value")

    def __init__(self, text: str, start: int = 0, file: str = "<ptx>") -> None:
        self.text = text
        self.file = file
        self.end = self.last = start
        self.advance()

    def seek(self, offset: int) -> None:
        """Make the token at or after `offset` the current one."""
        self.end = self.last = offset
        self.advance()
        self.last = offset

    def advance(self) -> None:
        """Go to the next token. Raises SourceError at text that is none."""
        self.last = self.end
        found = _TOKEN.match(self.text, self.end)
        if found is None:
            skipped = _SKIP.match(self.text, self.end)
            self.start = skipped.end() if skipped else self.end
            self._no_token()
        self.kind = kind = found.lastgroup or ""
        self.start, self.end = found.span(kind)
        self.value = found[kind]

    def _no_token(self) -> NoReturn:
        character = self.text[self.start]
        if character.isdigit() or character == ".":
            bad = _BAD_NUMBER.match(self.text, self.start)
            spelled = bad.group() if bad else character
            self.fail(f"{spelled[:40]} is not a number", self.start, len(spelled), legal=(
                "12", "0x1F", "017", "0b101", "12U", "1.5", "0f3F800000", "0d3FF0000000000000"))
        if self.text.startswith("/*", self.start):
            self.fail("this comment has no end", self.start, 2, legal="*/")
        if character == '"':
            self.fail("this string has no end on its line", self.start, legal='"..."')
        self.fail(f"{character!r} begins nothing in PTX", self.start,
                  legal="ASCII text, without a byte order mark")

    def fail(self, message: str, offset: int | None = None, length: int | None = None, *,
             legal: str | Sequence[str] = ()) -> NoReturn:
        """Raise SourceError at `offset`, or at the current token."""
        if offset is None:
            offset, length = self.start, max(1, len(self.value))
        raise SourceError(message, source=self.text, offset=offset, length=length or 1,
                          file=self.file, legal=legal)

    @property
    def shown(self) -> str:
        """The current token as a message names it."""
        return "the end of the text" if self.kind == "end" else f"'{self.value[:40]}'"

    def at(self, value: str) -> bool:
        """Whether the current token is this operator or dotted word."""
        return self.value == value and self.kind != "string"

    def take(self, value: str) -> bool:
        """Step over the current token if it is `value`."""
        if self.value == value and self.kind != "string":
            self.advance()
            return True
        return False

    def expect(self, value: str, where: str) -> None:
        """Step over `value`, or fail: "expected ')' after the parameters, found ..."."""
        if not self.take(value):
            self.fail(f"expected '{value}' {where}, found {self.shown}", legal=value)

    def semicolon(self, after: str) -> int:
        """Step over ``;`` and give the offset behind it; a fault is shown where it should stand."""
        if not self.at(";"):
            self.fail(f"expected ';' after {after[:60]}, found {self.shown}", self.last, legal=";")
        end = self.end
        self.advance()
        return end

    def identifier(self, what: str) -> str:
        """Take a name."""
        if self.kind != "word" or self.value == "_" or "." in self.value:
            self.fail(f"expected {what}, found {self.shown}")
        name = self.value
        self.advance()
        return name

    def label(self) -> str | None:
        """Take ``name:`` if it stands here; the cursor's `last` is then behind the colon."""
        found = _LABEL.match(self.text, self.start) if self.kind == "word" else None
        if found is None:
            return None
        self.seek(found.end())
        return found.group(1)

    def opcode(self) -> str:
        """Take an opcode with all its modifiers, also those that blanks part from it."""
        found = _OPCODE.match(self.text, self.start)
        if not found or self.kind != "word":
            self.fail(f"expected an instruction, found {self.shown}")
        parts, end = [found.group()], found.end()
        while True:
            skipped = _SKIP.match(self.text, end)
            more = _MODIFIERS.match(self.text, skipped.end()) if skipped else None
            if more is None or more.group() in _STATEMENT_WORDS:
                break
            parts.append(more.group())
            end = more.end()
        self.end = end
        self.advance()
        return "".join(parts)
