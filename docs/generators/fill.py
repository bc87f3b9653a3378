"""Write the outputs of the examples into the pages: for authors, before they read the difference.

    PYTHONPATH=docs python -m generators.fill              # all pages
    PYTHONPATH=docs python -m generators.fill docs/start.md

Every command whose output is not as shown gets what came out; outputs with ``...`` that still fit
are left alone.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from generators.examples import matches, steps

__all__ = ["filled"]


def filled(markdown: str, folder: Path) -> str:
    """The page with the outputs of today."""
    for step in steps(markdown, folder):
        if matches(step.shown, step.got):
            continue
        if step.what == "python":
            markdown = markdown.replace(f'title="prints"\n{step.shown}```',
                                        f'title="prints"\n{step.got}```', 1)
            continue
        before, found, after = _split(markdown, step.what)
        if found:
            markdown = f"{before}{found}{step.got}{after.removeprefix(step.shown)}"
    return markdown


def _split(markdown: str, command: str) -> tuple[str, str, str]:
    """The page before a command, the command as written (perhaps on several lines), the rest."""
    flat = markdown.replace("\\\n", "\x00\x00")
    start = flat.replace("\x00\x00", "").find(f"$ {command}\n")
    if start < 0:
        return markdown, "", ""
    place, seen = 0, 0
    while seen < start:
        if flat[place] != "\x00":
            seen += 1
        place += 1
    end = flat.index("\n", place) + 1
    return markdown[:place], markdown[place:end], markdown[end:]


def main() -> None:
    """Fill the pages named on the command line, all of them when none is."""
    docs = Path(__file__).resolve().parents[1]
    for name in sys.argv[1:] or sorted(map(str, docs.rglob("*.md"))):
        page = Path(name)
        with tempfile.TemporaryDirectory() as folder:
            page.write_text(filled(page.read_text(encoding="utf-8"), Path(folder)),
                            encoding="utf-8")


if __name__ == "__main__":
    main()
