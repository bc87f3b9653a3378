"""The map of the code, from the imports that the source really has.

`tests/test_architecture.py` holds the row of each package and fails when an import points up; this
file reads the same rows and draws the imports, so the drawing cannot say anything else.
"""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from pathlib import Path
from xml.sax.saxutils import escape

from generators.markdown import first_sentence, table

__all__ = ["SOURCE", "drawing", "edges", "packages", "reduced", "rows"]

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "mmalab"
#: Modules of the package that are entry points, not layers.
_ENTRIES = {"__init__", "__main__"}


@functools.cache
def rows() -> dict[str, int]:
    """Package -> row, as the architecture test enforces it; only packages that exist."""
    tree = ast.parse((ROOT / "tests/test_architecture.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ROWS":
            found: dict[str, int] = ast.literal_eval(node.value)
            return {name: row for name, row in found.items()
                    if name not in _ENTRIES and (modules(name))}
    raise LookupError("tests/test_architecture.py has no table ROWS")


@functools.cache
def modules(package: str) -> tuple[Path, ...]:
    """The files of a package, or the one file of a module."""
    single = SOURCE / f"{package}.py"
    return (single,) if single.exists() else tuple(sorted((SOURCE / package).rglob("*.py")))


@functools.cache
def edges() -> dict[str, frozenset[str]]:
    """Package -> the packages that its files import."""
    return {package: frozenset(_imported(package)) for package in rows()}


def _imported(package: str) -> set[str]:
    found = set()
    for path in modules(package):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            parts = [name.split(".") for name in names if name.startswith("mmalab.")]
            found |= {part[1] for part in parts}
    return (found & set(rows())) - {package}


def reduced() -> dict[str, frozenset[str]]:
    """The imports without those that follow from others: A -> C is left out where A -> B -> C."""
    below: dict[str, set[str]] = {}
    for package in sorted(rows(), key=lambda name: rows()[name]):
        below[package] = set(edges()[package])
        for other in edges()[package]:
            below[package] |= below.get(other, set())
    return {
        package: frozenset(one for one in direct
                           if not any(one in below[other] for other in direct - {one}))
        for package, direct in edges().items()
    }


def docstring(package: str) -> str:
    """The docstring of a package or module, without importing it."""
    single = SOURCE / f"{package}.py"
    path = single if single.exists() else SOURCE / package / "__init__.py"
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def packages() -> str:
    """A table: package, what it is, how large, what it imports."""
    ordered = sorted(rows(), key=lambda name: (-rows()[name], name))
    lines = []
    for package in ordered:
        files = modules(package)
        count = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
        link = f"[`{package}`](api/{package}.md)"
        imported = sorted(edges()[package], key=lambda name: (-rows()[name], name))
        lines.append((str(rows()[package]), link, first_sentence(docstring(package)),
                      f"{len(files)} files, {count:,} lines", ", ".join(imported) or "nothing"))
    return table(("row", "package", "what it is", "size", "imports"), lines)


# --- the drawing ----------------------------------------------------------------------------------

_BOX_WIDTH, _BOX_HEIGHT, _GAP, _BAND = 104, 30, 18, 74


def drawing() -> str:
    """The layers as an SVG, upper rows first, arrows as in :func:`reduced`."""
    bands: defaultdict[int, list[str]] = defaultdict(list)
    for package, row in rows().items():
        bands[row].append(package)
    widest = max(map(len, bands.values()))
    width = widest * (_BOX_WIDTH + _GAP) + 60
    places: dict[str, tuple[float, float]] = {}
    for at, row in enumerate(sorted(bands, reverse=True)):
        names = sorted(bands[row])
        left = 40 + (width - 60 - len(names) * (_BOX_WIDTH + _GAP)) / 2
        for place, name in enumerate(names):
            places[name] = (left + place * (_BOX_WIDTH + _GAP), 10 + at * _BAND)
    lines = [_arrow(places[one], places[other])
             for one, others in sorted(reduced().items()) for other in sorted(others)]
    boxes = [_box(name, *place) for name, place in places.items()]
    labels = [f'<text x="14" y="{10 + at * _BAND + 20}" class="row">{row}</text>'
              for at, row in enumerate(sorted(bands, reverse=True))]
    height = len(bands) * _BAND
    return "\n".join((
        (f'<svg class="layers" viewBox="0 0 {width} {height}" role="img" '
        'aria-label="The packages by layer, with their imports" '
        'xmlns="http://www.w3.org/2000/svg">'),
        *lines, *boxes, *labels, "</svg>"))


def _box(name: str, x: float, y: float) -> str:
    return (f'<a href="api/{name}.html"><rect x="{x}" y="{y}" width="{_BOX_WIDTH}" '
            f'height="{_BOX_HEIGHT}" rx="4"/><text x="{x + _BOX_WIDTH / 2}" '
            f'y="{y + 20}">{escape(name)}</text></a>')


def _arrow(upper: tuple[float, float], lower: tuple[float, float]) -> str:
    x1, y1 = upper[0] + _BOX_WIDTH / 2, upper[1] + _BOX_HEIGHT
    x2, y2 = lower[0] + _BOX_WIDTH / 2, lower[1]
    bend = (y2 - y1) / 2
    return (f'<path d="M{x1},{y1} C{x1},{y1 + bend} {x2},{y2 - bend} {x2},{y2}"/>')
