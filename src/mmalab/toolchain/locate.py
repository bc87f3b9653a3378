"""Where the NVIDIA tools are: every version on this machine, side by side.

Each tool found is one record. Wheels of this interpreter come first, then ``CUDA_HOME``, ``PATH``
and the usual install folder; the newest version is the default, `toolkit` asks for another::

    >>> find("ptxas").toolkit                                     # doctest: +SKIP
    '13.5'
    >>> find("ptxas", "12.9").origin                              # doctest: +SKIP
    'wheel nvidia-cuda-nvcc-cu12'

The CUDA 12 and the CUDA 13 wheels install into different trees (``nvidia/cuda_nvcc`` and
``nvidia/cu13``), so both can be present. Versions are what the tool says of itself, never what its
folder is called: a wheel of another project may carry a copy of ptxas too, and that counts.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from mmalab.errors import ToolError, UsageError
from mmalab.toolchain.invoke import invoke

__all__ = ["TOOLS", "Tool", "find", "forget", "supported_ptx", "supported_targets", "tools"]

#: The tools, each with the wheel that brings it.
TOOLS: dict[str, str] = {
    "ptxas": "nvidia-cuda-nvcc",
    "nvdisasm": "nvidia-cuda-nvdisasm",
    "cuobjdump": "nvidia-cuda-cuobjdump",
    "nvcc": "nvidia-cuda-nvcc",
    "nvrtc": "nvidia-cuda-nvrtc",
}

#: Folders inside a wheel's tree, or a toolkit's, where programs and libraries lie.
_PROGRAM_FOLDERS = ("bin",)
_LIBRARY_FOLDERS = ("lib", "lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tool:
    """One installed tool: `origin` says in words which wheel or folder it comes from."""

    name: str
    path: Path
    version: Version
    origin: str

    @property
    def toolkit(self) -> str:
        """The toolkit release it belongs to, ``12.9``."""
        return ".".join(map(str, self.version[:2]))

    @property
    def identity(self) -> str:
        """Words that change whenever the file does: part of every cache key."""
        stat = self.path.stat()
        return f"{self.name} {self} {stat.st_size} {stat.st_mtime_ns}"

    def __str__(self) -> str:
        return ".".join(map(str, self.version))


def tools(name: str | None = None) -> tuple[Tool, ...]:
    """Every tool found, newest first; with `name`, only those. Empty when there is none.

    Raises:
        UsageError: `name` is not one of :data:`TOOLS`.
    """
    if name is None:
        return tuple(tool for each in TOOLS for tool in tools(each))
    if name not in TOOLS:
        raise UsageError(f"tool {name!r}", "is not one that mmalab uses", legal=list(TOOLS),
                         where="mmalab.toolchain")
    return _search(name)


def find(name: str, toolkit: str | None = None) -> Tool:
    """The newest tool called `name`, or the newest of the release `toolkit` (``"12.9"``, ``"13"``,
    ``"13.x"``).

    Raises:
        ToolError: it is not installed; the message says what to install.
    """
    found = tools(name)
    if not found:
        raise ToolError(name, "is not installed",
                        legal=f"pip install 'mmalab[toolchain]' (or {TOOLS[name]})",
                        where="mmalab doctor")
    if toolkit is None:
        return found[0]
    release = f"{toolkit}".removesuffix(".x").rstrip(".") + "."
    for tool in found:
        if f"{tool}.".startswith(release):
            return tool
    raise ToolError(f"{name} of toolkit {toolkit}", "is not installed",
                    legal=list(dict.fromkeys(tool.toolkit for tool in found)),
                    where="mmalab doctor")


def forget() -> None:
    """Search again on the next question (a wheel was installed meanwhile)."""
    _search.cache_clear()
    supported_targets.cache_clear()
    supported_ptx.cache_clear()


@lru_cache(maxsize=64)
def supported_targets(ptxas: Tool) -> tuple[str, ...]:
    """The ``sm_`` targets that this ptxas assembles for, oldest first."""
    text = invoke([str(ptxas.path), "--help"], timeout=20).output
    option = text.partition("--gpu-name")[2].partition("\n\n--")[0]
    names = dict.fromkeys(re.findall(r"'(sm_\d+[af]?)'", option))
    return tuple(sorted(names, key=lambda n: (int(re.sub(r"\D", "", n)), "fa".find(n[-1]))))


@lru_cache(maxsize=64)
def supported_ptx(ptxas: Tool) -> tuple[int, int]:
    """The newest PTX version that this ptxas reads."""
    # Older releases have no --list-version, but every one names its limit when it refuses.
    from_refusal = invoke([str(ptxas.path), "--input-as-string", ".version 99.9\n"], timeout=20)
    found = re.search(r"current version is '(\d+)\.(\d+)'", from_refusal.output)
    if found is None:
        raise ToolError(f"ptxas {ptxas}", "does not name the newest PTX version it reads",
                        command=from_refusal.command, output=from_refusal.output)
    return int(found[1]), int(found[2])


@lru_cache(maxsize=16)
def _search(name: str) -> tuple[Tool, ...]:
    found: dict[Path, Tool] = {}
    for path, origin in _candidates(name):
        real = path.resolve()
        if real in found:
            continue
        version = _version(name, path)
        if version:
            found[real] = Tool(name, path, version, origin)
    # A stable sort: of equal versions, the earlier place wins.
    return tuple(sorted(found.values(), key=lambda tool: tool.version, reverse=True))


def _candidates(name: str) -> Iterator[tuple[Path, str]]:
    for root, origin in _roots():
        if name == "nvrtc":
            for folder in _LIBRARY_FOLDERS:
                for path in sorted((root / folder).glob("libnvrtc.so.[0-9]*")):
                    yield path, origin
        else:
            for folder in _PROGRAM_FOLDERS:
                path = root / folder / name
                if path.is_file() and os.access(path, os.X_OK):
                    yield path, origin
    on_path = shutil.which(name) if name != "nvrtc" else None
    if on_path:
        yield Path(on_path), "PATH"


def _roots() -> Iterator[tuple[Path, str]]:
    """Trees with a ``bin`` or ``lib`` of CUDA tools, and what to call each."""
    for package in _namespace("nvidia"):
        for tree in sorted(path for path in package.iterdir() if path.is_dir()):
            yield tree, f"wheel nvidia/{tree.name}"
    for package in _namespace("triton"):
        yield package / "backends" / "nvidia", "wheel triton"
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]), variable
    local = Path("/usr/local")
    for folder in sorted(local.glob("cuda*"), reverse=True):
        yield folder, str(folder)


def _namespace(package: str) -> list[Path]:
    """Folders of a package of this interpreter, without importing it."""
    if package in sys.modules:
        places = getattr(sys.modules[package], "__path__", [])
    else:
        spec = importlib.util.find_spec(package)
        places = (spec.submodule_search_locations or []) if spec else []
    return [path for path in map(Path, places) if path.is_dir()]


def _version(name: str, path: Path) -> Version | None:
    if name == "nvrtc":
        numbers = re.search(r"\.so\.(\d+(?:\.\d+)*)$", path.resolve().name)
        return _library_version(path, numbers[1] if numbers else "")
    try:
        text = invoke([str(path), "--version"], timeout=20).output
    except ToolError:
        return None
    found = re.search(r"\bV(\d+(?:\.\d+)+)", text)
    return tuple(map(int, found[1].split("."))) if found else None


def _library_version(path: Path, suffix: str) -> Version:
    """NVRTC says only its release, and only once loaded; the toolkit's version file says more."""
    builtins = [re.search(r"\.so\.(\d+\.\d+)", other.name)
                for other in path.parent.glob("libnvrtc-builtins.so.*")]
    release = max((found[1] for found in builtins if found), default=suffix)
    return tuple(int(part) for part in release.split(".") if part)
