"""CUDA C++ in, PTX or cubin out, with whichever compiler is installed.

NVRTC (``pip install nvidia-cuda-nvrtc``) compiles device code alone and needs no host compiler;
nvcc needs a host compiler beside it. NVRTC is taken when both are there. Both run in a process of
their own, so a compiler that hangs or crashes takes nothing with it.

    >>> compile_cuda('extern "C" __global__ void k() {}', "sm_90a").text[:9]   # doctest: +SKIP
    '// Genera'
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mmalab.errors import ToolError, UsageError
from mmalab.isa.targets import target as target_row
from mmalab.toolchain import cache, nvrtc
from mmalab.toolchain.assembler import TIMEOUT
from mmalab.toolchain.invoke import invoke, workspace
from mmalab.toolchain.locate import Tool, find, tools

__all__ = ["Compiled", "compile_cuda"]


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a CUDA compiler made: PTX text or a cubin, and its messages."""

    text: str
    bytes: bytes
    target: str
    compiler: str
    log: str = ""


def compile_cuda(
    source: str,
    target: str,
    *,
    output: Literal["ptx", "cubin"] = "ptx",
    toolkit: str | None = None,
    compiler: Literal["nvrtc", "nvcc"] | None = None,
    options: Sequence[str] = (),
    timeout: float = TIMEOUT,
) -> Compiled:
    """Compile CUDA C++ for one chip.

    Args:
        source: the text of a ``.cu`` file.
        target: ``sm_90a`` ...
        output: ``ptx`` or ``cubin``.
        toolkit: release of the compiler, None for the newest.
        compiler: ``nvrtc`` or ``nvcc``; None takes NVRTC, then nvcc.
        options: further options (``-std=c++17``), passed as they are.
        timeout: seconds.

    Raises:
        UsageError: an unknown target or output.
        ToolError: no compiler is installed, or it refuses the source (its words are in `output`).
    """
    target_row(target)
    if output not in ("ptx", "cubin"):
        raise UsageError(f"output {output!r}", "is not something a compiler makes",
                         legal="ptx, cubin", where="mmalab.toolchain.compile_cuda")
    tool = _compiler(compiler, toolkit)
    key = cache.digest("cuda", tool.identity, output, target, *options, source)
    kept = cache.load(key)
    if kept is None:
        kept = _compile(tool, source, target, output, options, timeout)
        cache.store(key, kept)
    head, _, product = kept.partition(b"\n")
    return Compiled(product.decode() if output == "ptx" else "", product, target,
                    f"{tool.name} {tool}", str(json.loads(head)))


def _compiler(name: str | None, toolkit: str | None) -> Tool:
    if name is not None:
        return find(name, toolkit)
    for candidate in ("nvrtc", "nvcc"):
        if tools(candidate):
            return find(candidate, toolkit)
    raise ToolError("a CUDA C++ compiler", "is not installed",
                    legal="pip install nvidia-cuda-nvrtc, or nvidia-cuda-nvcc with a host compiler")


def _compile(tool: Tool, source: str, target: str, output: str, options: Sequence[str],
             timeout: float) -> bytes:
    with workspace() as folder:
        (folder / "kernel.cu").write_text(source, encoding="utf-8", errors="surrogateescape")
        if tool.name == "nvrtc":
            arch = target if output == "cubin" else target.replace("sm_", "compute_")
            command = [sys.executable, nvrtc.__file__, str(tool.path), output, f"-arch={arch}",
                       *(f"-I{place}" for place in _headers(tool)), *options]
        else:
            command = [str(tool.path), f"-{output}", f"-arch={target}", *options,
                       "kernel.cu", "-o", f"kernel.{output}"]
        outcome = invoke(command, timeout=timeout, folder=folder)
        product = folder / f"kernel.{output}"
        if outcome.code or not product.exists():
            raise ToolError(f"{tool.name} {tool}", "refuses the source", command=outcome.command,
                            output=outcome.output)
        # NVRTC ends the PTX with a NUL, which is not part of the text.
        content = product.read_bytes().rstrip(b"\0") if output == "ptx" else product.read_bytes()
        return json.dumps(outcome.output).encode() + b"\n" + content


def _headers(tool: Tool) -> list[Path]:
    """Include folders of the toolkit that the library belongs to, and of its wheels."""
    tree = tool.path.parent.parent
    places = [tree / "include", tree.parent / "include", tree / "include" / "cccl"]
    if tree.parent.name == "nvidia":
        places += sorted(tree.parent.glob("*/include"))
    return [place for place in dict.fromkeys(places) if (place / "cuda.h").exists()
            or (place / "nv").exists() or (place / "cuda_fp16.h").exists()]
