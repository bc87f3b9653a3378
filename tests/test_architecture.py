"""The rules that no single file shows: layers, sizes, names, weight of imports, stray words."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mmalab

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "mmalab"
MODULES = sorted(SOURCE.rglob("*.py"))

#: A module imports from lower rows and from its own package.
ROWS = {
    "errors": -1,  # everything raises them
    "findings": 0, "bits": 0,
    "formats": 1, "layouts": 1,
    "isa": 2,
    "ptx": 3, "numerics": 3, "descriptors": 3, "tensormap": 3,
    "checker": 4, "plan": 4, "emulator": 4, "toolchain": 4,
    "sanitizer": 5, "device": 5, "atlas": 5,
    "kernels": 6,
    "claims": 7,
    "bench": 7,
    "report": 8,
    "cli": 9, "__main__": 10,
}
#: Imports inside functions: whole packages whose start-up is what a user waits for, and optional
#: third-party modules by the file that may look for them.
LATE_PACKAGES = {"cli"}
LATE_MODULES = {
    "device": {"cuda", "pynvml"},
    "report": {"jinja2"},
    "numerics": {"llvmlite"},  # loading LLVM takes longer than most answers
}
#: Packages that `import mmalab` must not load.
HEAVY = ("numpy", "llvmlite", "rich", "typer", "mmalab.isa", "mmalab.emulator", "mmalab.numerics",
         "mmalab.toolchain")

FUNCTION_LINES, LONG_FUNCTION, LONG_SHARE = 80, 60, 0.02
FILE_LINES, TABLE_LINES, P95_LINES = 600, 800, 400
VAGUE_NAMES = {"utils", "util", "common", "core", "manager", "misc", "helpers", "base"}

PUBLIC = {
    "mmalab": ["Finding", "Kernel", "TensorMap", "__version__", "assemble", "atlas", "bits",
               "check", "device", "emulate", "emulator", "errors", "findings", "formats", "isa",
               "kernels", "launch", "layouts", "numerics", "plan", "ptx", "toolchain"],
    "mmalab.errors": ["LimitExceeded", "MmalabError", "SourceError", "ToolError", "UnknownForm",
                      "UnsupportedInstruction", "UsageError"],
    "mmalab.toolchain": ["AssemblyError", "Control", "Cubin", "Diagnostic", "Function",
                         "Instruction", "Loop", "Lowering", "Predicate", "ResourceTable",
                         "Resources", "Sass", "Tool", "assemble", "compile_cuda", "disassemble",
                         "find", "load_cubin", "lowerings", "read_sass", "retarget_text",
                         "supported_ptx", "supported_targets", "tools"],
}


def name_of(path: Path) -> str:
    """The dotted name below mmalab: ``toolchain.sass``; empty for the package itself."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def row_of(name: str) -> int | None:
    return ROWS.get(name.partition(".")[0])


@functools.lru_cache(maxsize=1024)
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every absolute import of a tree: what, and the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module, node.lineno
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno


def test_every_package_has_a_row() -> None:
    """A new package must be given its place in the layers."""
    found = {name_of(path).split(".")[0] for path in MODULES} - {""}
    assert found <= set(ROWS)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_layers(path: Path) -> None:
    """Imports point down or stay in the package."""
    own = name_of(path)
    if not own:
        return
    wrong = []
    for name, line in imports(tree_of(path)):
        if not name.startswith("mmalab."):
            continue
        package = name.split(".")[1]
        if package not in ROWS or package == own.split(".")[0]:
            continue
        if ROWS[package] >= (row_of(own) or 0):
            wrong.append(f"{own}:{line} imports {name}")
    assert wrong == []


def test_ptx_does_not_know_the_instruction_set() -> None:
    """The parser is opcode-agnostic: which instructions exist is not its business."""
    wrong = [f"{name_of(path)}:{line}" for path in MODULES if name_of(path).startswith("ptx")
             for name, line in imports(tree_of(path)) if name.startswith("mmalab.isa")]
    assert wrong == []


def test_no_cycles() -> None:
    """Modules import each other in one direction only (imports for type checkers left out)."""
    names = {f"mmalab.{name_of(path)}".rstrip("."): path for path in MODULES}
    graph = {name: _edges(path, set(names)) - {name} for name, path in names.items()}
    assert _cycle(graph) == []


def _edges(path: Path, modules: set[str]) -> set[str]:
    """The modules that a module needs when it is imported."""
    tree = tree_of(path)
    typing_only = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.If)
                   and ast.unparse(node.test).endswith("TYPE_CHECKING")
                   for inner in ast.walk(node)}
    found: set[str] = set()
    for node in tree.body:
        if id(node) in typing_only or not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        named = {name for name, _ in imports(node)} & modules
        if isinstance(node, ast.ImportFrom) and len(named) == 1 + len(node.names):
            named.discard(node.module or "")  # `from package import module` takes the module alone
        found |= named
    return found


def _cycle(graph: dict[str, set[str]]) -> list[str]:
    done: set[str] = set()
    for start, edges in graph.items():
        path: list[str] = []
        stack = [(start, iter(sorted(edges)))]
        on_path = {start}
        path.append(start)
        while stack:
            node, rest = stack[-1]
            for to in rest:
                if to in on_path:
                    return [*path[path.index(to):], to]
                if to not in done:
                    stack.append((to, iter(sorted(graph[to]))))
                    on_path.add(to)
                    path.append(to)
                    break
            else:
                done.add(node)
                on_path.discard(node)
                path.pop()
                stack.pop()
    return []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_late_imports(path: Path) -> None:
    """Functions do not import, but for the command line and named optional modules."""
    package = name_of(path).split(".")[0]
    if package in LATE_PACKAGES:
        return
    allowed = LATE_MODULES.get(package, set())
    wrong = [f"{path.name}:{line} {name}" for node in ast.walk(tree_of(path))
             if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
             for name, line in imports(node) if name.split(".")[0] not in allowed]
    assert wrong == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_file_sizes(path: Path) -> None:
    """No file is longer than 600 lines, tables of the ISA 800; no vague name; no star import."""
    limit = TABLE_LINES if name_of(path).startswith("isa.table") else FILE_LINES
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= limit
    assert path.stem not in VAGUE_NAMES
    assert not re.search(r"^from .* import \*", text, re.MULTILINE)


def test_most_files_are_short() -> None:
    """95 of 100 files have at most 400 lines."""
    sizes = sorted(len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES)
    assert sizes[int(0.95 * (len(sizes) - 1))] <= P95_LINES


def test_function_sizes() -> None:
    """No function is over 80 lines, and at most 2 of 100 are over 60."""
    sizes = [(node.end_lineno - node.lineno + 1, f"{name_of(path)}.{node.name}")
             for path in MODULES for node in ast.walk(tree_of(path))
             if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    assert [name for size, name in sizes if size > FUNCTION_LINES] == []
    long = [name for size, name in sizes if size > LONG_FUNCTION]
    assert len(long) <= LONG_SHARE * len(sizes), long
    assert sorted(sizes)[len(sizes) // 2][0] <= 10


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_pinned(module: str) -> None:
    """A name that appears in, or leaves, a public surface is a decision, not an accident."""
    assert sorted(importlib.import_module(module).__all__) == sorted(PUBLIC[module])


def packages() -> list[str]:
    """Every package and module that is imported by its own name (mmalab.__main__ runs)."""
    return ["mmalab", *(info.name for info in pkgutil.iter_modules(mmalab.__path__, "mmalab.")
                        if info.name != "mmalab.__main__")]


@pytest.mark.parametrize("package", packages())
def test_public_names_are_documented(package: str) -> None:
    """Every package has a docstring, and so has every function and class in its ``__all__``."""
    module = importlib.import_module(package)
    assert module.__doc__
    bare = []
    for name in getattr(module, "__all__", []):
        value = getattr(module, name, None)
        if (inspect.isclass(value) or inspect.isfunction(value)) and not inspect.getdoc(value):
            bare.append(name)
    assert bare == []


def test_import_is_light() -> None:
    """``import mmalab`` loads the errors and nothing heavy."""
    code = (f"import sys, mmalab; print([name for name in {HEAVY!r} if name in sys.modules])")
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_names_load_on_first_use() -> None:
    """A public name loads the package that defines it, and unknown names are errors."""
    assert mmalab.errors.MmalabError is not None
    assert set(dir(mmalab)) >= set(mmalab.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = mmalab.nonsense


#: Whose messages a caller completes, with the line of the PTX text; and those that hold a finding,
#: which has all four.
_COMPLETED = {"sanitizer/legality.py": {"legal", "where"}, "emulator/kinds.py": {"where"}}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_refusals_say_what_is_legal_and_where_it_is_written(path: Path) -> None:
    """Each UsageError names all four: what was given, the rule, what would do, who says so."""
    name = path.relative_to(SOURCE).as_posix()
    short = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "UsageError":
            words = {keyword.arg for keyword in node.keywords}
            if missing := {"legal", "where"} - words - _COMPLETED.get(name, set()):
                short.append(f"line {node.lineno}: no {', no '.join(sorted(missing))}")
    assert short == []


#: Folders of a machine, registry hosts, words of a workplace; classes of one letter keep this very
#: line from matching.
STRAY = re.compile(
    r"(?<![\w.])/(wor[k]|roo[t]|farm)/|(?<![\w.])/home/\w+/|/tm[p]/[a-z]+[-_/]|"
    r"pythonhoste[d]|pypi\.or[g]|registry\.npmj[s]|\bsubagent[s]?\b|\bthis sessio[n]\b")


def test_no_stray_words() -> None:
    """No tracked text names a machine's folders, a registry host or a workplace."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: there is no list of tracked files")
    wrong = []
    for name in filter(None, listed.stdout.decode().split("\0")):
        path = ROOT / name
        if not path.is_file() or path.suffix in {".npz", ".npy", ".png", ".cubin"}:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        wrong += [f"{name}:{at}: {line.strip()[:80]}"
                  for at, line in enumerate(text.splitlines(), 1) if STRAY.search(line)]
    assert wrong == []


def test_test_files_have_names_of_their_own() -> None:
    """Two test files of one name would hide each other from pytest."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
