"""The builder's side of the generated pages: MkDocs calls these functions while it builds.

`on_config` puts generated sections into the navigation, `on_files` adds the pages,
`on_page_markdown` replaces ``<!-- generated: NAME -->`` comments, and `on_post_page` warns of what
a page would fetch from elsewhere (a warning fails the build). Everything that is written comes from
`generators.contents`, which does not know MkDocs.
"""

from __future__ import annotations

import functools
import logging
import re
from typing import Any

from generators import contents
from generators.offline import fetched
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

__all__ = ["on_config", "on_files", "on_page_markdown", "on_post_page"]

_log = logging.getLogger("mkdocs.hooks.mmalab")
_PART = re.compile(r"<!-- generated: ([\w-]+) -->")


@functools.cache
def _pages() -> dict[str, str]:
    return contents.pages()


@functools.cache
def _part(name: str) -> str:
    return contents.parts()[name]()


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Expand ``isa/*`` in the navigation to the generated pages of that folder."""
    config.nav = [_expanded(entry) for entry in config.nav or []]
    return config


def _expanded(entry: Any) -> Any:
    if isinstance(entry, list):
        return [_expanded(item) for item in entry]
    if not isinstance(entry, dict):
        return entry
    return {title: sorted(path for path in _pages() if path.startswith(below[:-1]))
            if isinstance(below, str) and below.endswith("/*") else _expanded(below)
            for title, below in entry.items()}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to those in the folder."""
    for path, text in _pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Replace the comments that name a generated part.

    Raises:
        KeyError: no part has that name.
    """
    del page
    return _PART.sub(lambda found: _part(found[1]), markdown)


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Warn of what the finished page loads from elsewhere."""
    for address in fetched(output):
        _log.warning("%s loads %s", page.file.src_uri, address)
    return output
