"""Every exception that mmalab raises, in one tree.

    MmalabError                       given, rule, what would be legal, where it is written
    ├── SourceError                   PTX text that is not well formed: one line with a caret
    ├── UsageError                    wrong shape, dtype, stride, target, option (exit code 2)
    │   └── UnknownForm               not an instruction of the ISA
    ├── UnsupportedInstruction        the ISA has it, this emulator does not run it (exit code 2)
    ├── LimitExceeded                 a step, instruction or memory budget ran out
    └── ToolError                     ptxas, nvdisasm, the driver: the command and what it said

A message has four parts, each optional but the first, always in this order::

    tcgen05.alloc: 48 columns is not a power of two
      legal: 32, 64, 128, 256, 512
      see:   PTX ISA, tcgen05.alloc

Findings about a kernel that *runs* (a race, a misaligned access) are not exceptions: see
:mod:`mmalab.findings`.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "LimitExceeded",
    "MmalabError",
    "SourceError",
    "ToolError",
    "UnknownForm",
    "UnsupportedInstruction",
    "UsageError",
]


#: Characters of a line that are shown with its fault, and how many of them before it.
_SHOWN, _BEFORE = 200, 120


class MmalabError(Exception):
    """Base of all errors. `given` and `rule` make the first line, `legal` and `where` follow."""

    def __init__(
        self,
        given: str,
        rule: str = "",
        *,
        legal: str | Sequence[str] = (),
        where: str = "",
    ) -> None:
        self.given = given
        self.rule = rule
        self.legal = [legal] if isinstance(legal, str) else [str(item) for item in legal]
        self.where = where
        super().__init__(self._text())

    def _text(self) -> str:
        lines = [f"{self.given}: {self.rule}" if self.rule else self.given]
        if self.legal:
            lines.append("  legal: " + ", ".join(self.legal))
        if self.where:
            lines.append("  see:   " + self.where)
        return "\n".join(lines)


class SourceError(MmalabError):
    """PTX text that is not well formed, shown as its line with a caret under the fault."""

    def __init__(
        self,
        message: str,
        *,
        source: str,
        offset: int,
        length: int = 1,
        file: str = "<ptx>",
        legal: str | Sequence[str] = (),
        where: str = "",
    ) -> None:
        self.message = message
        self.file = file
        self.offset = offset
        self.line = source.count("\n", 0, offset) + 1
        start = source.rfind("\n", 0, offset) + 1
        self.column = offset - start + 1
        end = source.find("\n", offset)
        self.source_line = source[start : len(source) if end < 0 else end]
        self.length = max(1, min(length, len(self.source_line) - self.column + 1))
        super().__init__(message, legal=legal, where=where)

    def _text(self) -> str:
        first = max(0, self.column - 1 - _BEFORE)
        shown = self.source_line[first : first + _SHOWN]
        # What is no text (a binary file) moves no cursor. A tab keeps its width in the caret line,
        # so the caret stands under the right character.
        shown = "".join(ch if ch.isprintable() or ch == "\t" else "\N{REPLACEMENT CHARACTER}"
                        for ch in shown)
        pad = "".join("\t" if ch == "\t" else " " for ch in shown[: self.column - 1 - first])
        carets = "^" * min(self.length, len(shown) - len(pad) or 1)
        head = f"{self.file}:{self.line}:{self.column}: {super()._text()}"
        return f"{head}\n{shown}\n{pad}{carets}"


class UsageError(MmalabError):
    """The caller gave something that no kernel, format, layout or target allows."""


class UnknownForm(UsageError):
    """Not an instruction of the PTX ISA (or of its parts that the table holds)."""


class UnsupportedInstruction(MmalabError):
    """An instruction that this emulator refuses, by its full name."""


class LimitExceeded(MmalabError):
    """A run used up its step, instruction or memory budget."""


class ToolError(MmalabError):
    """An external tool failed. `command` and `output` hold what ran and what it said."""

    def __init__(self, given: str, rule: str = "", *, command: Sequence[str] = (), output: str = "",
                 legal: str | Sequence[str] = (), where: str = "") -> None:
        self.command = list(command)
        self.output = output
        super().__init__(given, rule, legal=legal, where=where)

    def _text(self) -> str:
        text = super()._text()
        if self.output:
            text += "\n" + "\n".join("  | " + line for line in self.output.strip().splitlines())
        return text
