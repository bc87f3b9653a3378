"""CUDA C++ through whatever compiler is installed."""

from __future__ import annotations

import pytest

from mmalab.errors import ToolError, UsageError
from mmalab.toolchain import assemble, compile_cuda, cuda, tools

SOURCE = ('extern "C" __global__ void scale(float* x, float f)\n'
          "{ x[threadIdx.x] = x[threadIdx.x] * f + 1.0f; }\n")


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any compiler the error names both ways to get one."""
    monkeypatch.setattr(cuda, "tools", lambda name: ())
    with pytest.raises(ToolError, match="nvidia-cuda-nvrtc"):
        compile_cuda(SOURCE, "sm_90a")


def test_wrong_use() -> None:
    """Unknown targets and outputs are refused before a compiler runs."""
    with pytest.raises(UsageError):
        compile_cuda(SOURCE, "sm_9")
    with pytest.raises(UsageError, match="ptx, cubin"):
        compile_cuda(SOURCE, "sm_90", output="sass")


def compilers() -> list[str]:
    """Those that work here: nvcc also needs a host compiler, which it names when it is missing."""
    found = []
    for name in ("nvrtc", "nvcc"):
        if tools(name):
            try:
                compile_cuda('extern "C" __global__ void k() {}', "sm_80", compiler=name)
            except ToolError:
                continue
            found.append(name)
    return found


@pytest.mark.toolkit
def test_ptx_and_cubin() -> None:
    """Every compiler that works here makes PTX that assembles, and a cubin."""
    for name in compilers():
        made = compile_cuda(SOURCE, "sm_80", compiler=name)
        assert ".entry scale" in made.text
        assert "FFMA" in assemble(made.text, "sm_90a").sass.histogram()
        image = compile_cuda(SOURCE, "sm_80", compiler=name, output="cubin")
        assert image.bytes[:4] == b"\x7fELF"


@pytest.mark.toolkit
def test_refusal() -> None:
    """What the compiler says of wrong source is in the error."""
    for name in compilers():
        with pytest.raises(ToolError, match="refuses the source") as caught:
            compile_cuda("__global__ void k() { undeclared = 1; }", "sm_80", compiler=name)
        assert "undeclared" in caught.value.output
