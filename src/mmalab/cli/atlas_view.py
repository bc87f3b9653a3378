"""What the questions of ``mmalab atlas`` are asked with, and how their answers look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from mmalab.atlas.releases import release, releases
from mmalab.cli.output import read_text
from mmalab.errors import UsageError

__all__ = ["Asked", "Grid", "View", "show"]


@dataclass(frozen=True, slots=True)
class Asked:
    """Words, targets and toolkits of a command line."""

    words: tuple[str, ...]
    targets: tuple[str, ...]
    given_toolkits: tuple[str, ...]
    output: Path | None = None

    @property
    def pattern(self) -> str | None:
        """The words as a pattern of forms."""
        return " ".join(self.words) or None

    @property
    def toolkits(self) -> tuple[str, ...]:
        """Releases asked for; the newest where none is named, every one for ``all``.

        Raises:
            ToolError: one is not installed.
        """
        if self.given_toolkits == ("all",):
            return tuple(tool.toolkit for tool in releases())
        return tuple(release(name).toolkit for name in self.given_toolkits or (None,))

    @property
    def pair(self) -> tuple[str, str]:
        """An old and a new release: the two named, or the oldest and the newest installed.

        Raises:
            UsageError: not two.
        """
        found = self.toolkits if len(self.given_toolkits) == 2 else tuple(
            tool.toolkit for tool in reversed(releases()))
        if len(found) < 2 or (self.given_toolkits and len(self.given_toolkits) != 2):
            raise UsageError("a difference", "is between two toolkits",
                             legal=[tool.toolkit for tool in releases()],
                             where="--toolkit 12.9 --toolkit 13.5")
        return found[0], found[-1]

    @property
    def names_a_file(self) -> bool:
        """Whether the one word is a file, where a pattern could stand as well."""
        return len(self.words) == 1 and Path(self.words[0]).is_file()

    def file(self) -> str:
        """The text of the one file named.

        Raises:
            UsageError: there is not exactly one, or it cannot be read.
        """
        if len(self.words) != 1:
            raise UsageError(" ".join(self.words) or "no file", "is not one PTX file",
                             legal="mmalab atlas --what why FILE.ptx", where="mmalab atlas --help")
        return read_text(Path(self.words[0]))


@dataclass(frozen=True, slots=True)
class Grid:
    """One table."""

    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """An answer: `rows` for JSON, `grids` and `notes` for people, the exit code.

    `nested` rows hold records, which JSON must first be told as plain data.
    """

    rows: Iterable[dict[str, Any]]
    grids: Sequence[Grid] = ()
    notes: Sequence[str] = ()
    code: int = 0
    nested: bool = field(default=True)


def show(view: View, to: TextIO) -> None:
    """Print tables, then notes; as wide as the terminal, and as wide as needed into a pipe."""
    from rich.console import Console

    console = Console(file=to, width=None if to.isatty() else 10_000, highlight=False)
    with console.capture() as captured:
        _draw(view, console)
    to.writelines(f"{line.rstrip()}\n" for line in captured.get().rstrip("\n").split("\n"))


def _draw(view: View, console: Any) -> None:
    from rich.table import Table
    from rich.text import Text

    for grid in view.grids:
        table = Table(*grid.head, title=grid.title or None, title_justify="left", box=None,
                      pad_edge=False, header_style="bold", title_style="bold")
        for row in grid.rows:
            table.add_row(*(Text(str(cell)) for cell in row))
        console.print(table)
        console.print()
    for note in view.notes:
        console.print(Text(note))
