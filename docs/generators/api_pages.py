"""The reference of the packages: which names each page shows, for mkdocstrings to fill.

A page shows a package's docstring and then the names of its ``__all__``, each under the name by
which one imports it, from where it is defined. A module among the names (``plan.tmem``) shows its
own. Nothing is imported here that `import mmalab` in a program would not load.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from generators.layer_map import docstring, rows
from generators.markdown import first_sentence, table

__all__ = ["pages", "public"]

_BARE = ("    options:\n      members: false\n      show_root_heading: false\n"
         "      show_root_toc_entry: false\n")


def pages() -> dict[str, str]:
    """api/index.md and a page for each package or module of the first level."""
    ordered = sorted(rows(), key=lambda name: (rows()[name], name))
    made = {f"api/{package}.md": _page(package) for package in ordered}
    listed = table(("package", "what it is"), [
        (f"[`mmalab.{package}`]({package}.md)", first_sentence(docstring(package)))
        for package in ordered])
    top = [f"`mmalab.{name}`" for name in _all(importlib.import_module("mmalab"))
           if not name.startswith("__")]
    index = (f"# Reference\n\nFrom the docstrings of the source. The names of `mmalab` itself load "
             f"their package on first use: {', '.join(top)}.\n\n{listed}\n")
    return {"api/index.md": index, **made}


def _all(module: ModuleType) -> list[str]:
    return list(getattr(module, "__all__", []))


def public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The names of ``__all__`` with their values, functions and classes before modules."""
    values = [(name, getattr(module, name)) for name in _all(module)]
    yield from (pair for pair in values if not inspect.ismodule(pair[1]))
    yield from (pair for pair in values if inspect.ismodule(pair[1]))


def _page(package: str) -> str:
    module = importlib.import_module(f"mmalab.{package}")
    parts = [f"# mmalab.{package}", f"::: mmalab.{package}\n{_BARE}"]
    for name, value in public(module):
        if inspect.ismodule(value):
            parts.append(_module(f"{package}.{name}", value))
        else:
            parts.append(_member(module, name, value))
    return "\n\n".join(part for part in parts if part) + "\n"


def _module(name: str, module: ModuleType) -> str:
    """A module that a package shows: its docstring, its names."""
    if not module.__name__.startswith("mmalab."):
        return ""
    parts = [f"## {name}", f"::: {module.__name__}\n{_BARE}"]
    parts += [_member(module, member, value, level=3) for member, value in public(module)
              if not inspect.ismodule(value)]
    return "\n\n".join(part for part in parts if part)


def _member(module: ModuleType, name: str, value: Any, level: int = 2) -> str:
    """A function, a class or a constant, found where it is defined."""
    home = getattr(value, "__module__", "")
    own = getattr(value, "__name__", name)
    if not (inspect.isclass(value) or inspect.isfunction(value)) or not home.startswith("mmalab"):
        home, own = module.__name__, name
    return (f'::: {home}.{own}\n    options:\n      heading: "{name}"\n'
            f"      heading_level: {level}\n"
            f'      toc_label: "{name}"\n')
