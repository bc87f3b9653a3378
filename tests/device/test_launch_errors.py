"""What a launch says when the driver refuses it, when the kernel faults and when it hangs; by a
driver of our own making, on any machine."""

from __future__ import annotations

import importlib
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_driver import fake_gpu

import mmalab
from mmalab.device.signature import Shape
from mmalab.errors import ToolError, UsageError

LAUNCH = importlib.import_module("mmalab.device.launch")  # mmalab.device.launch is its function
HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
#: Waits for an arrival that nobody makes.
STUCK = HEAD + """
.visible .entry stuck(.param .u64 x) {
  .reg .pred %p; .shared .align 8 .b64 bar;
  mbarrier.init.shared.b64 [bar], 1;
W: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0; @!%p bra W;
  ret;
}
"""
#: Thread t writes word t.
WRITES = HEAD + """
.visible .entry writes(.param .u64 x) {
  .reg .b32 %r<2>; .reg .b64 %rd<4>;
  ld.param.u64 %rd0, [x]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 4;
  add.s64 %rd2, %rd0, %rd1; st.global.u32 [%rd2], %r0; ret;
}
"""


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the one GPU of the machine: an H200 whose driver answers as told."""
    return partial(fake_gpu, monkeypatch)


def test_a_launch_that_works(device: Any) -> None:
    """Nothing is wrong: a time, and memory given back."""
    gpu = device()
    done = mmalab.launch(WRITES, [np.zeros(32, np.uint32)], block=32)
    assert (done.device, done.milliseconds) == ("NVIDIA H200", 1.5)
    assert gpu.driver.made[-1] == "cuMemFree"


def test_a_kernel_that_hangs_is_explained(device: Any) -> None:
    """Kernel, launch and the emulator's deadlock; no call that would wait for the kernel; the next
    launch of the process says why it cannot be."""
    gpu = device(query=600)
    with pytest.raises(ToolError) as hung:
        mmalab.launch(STUCK, [np.zeros(32, np.uint32)], block=1, patience=0.01)
    lines = str(hung.value).splitlines()
    assert lines[0] == ("kernel stuck on NVIDIA H200 (sm_90): did not return within 0.01 s in a "
                        "launch with grid (1, 1, 1), block (1, 1, 1), 0 bytes of dynamic shared "
                        "memory")
    assert "a fresh process" in lines[1]
    found = next(line for line in lines if "the emulator finds in the same launch" in line)
    assert "error[deadlock]" in found
    assert "mbarrier" in "\n".join(lines)
    assert "cuMemFree" not in gpu.driver.made
    with pytest.raises(ToolError, match="nothing more: kernel stuck has not returned") as next_one:
        mmalab.launch(WRITES, [np.zeros(32, np.uint32)], block=32)
    assert "legal: a fresh process" in str(next_one.value)


def test_a_kernel_that_faults_is_explained(device: Any) -> None:
    """The driver's word, the launch, the emulator's finding; then nothing more is launched."""
    device(query=700)
    with pytest.raises(ToolError) as failed:
        mmalab.launch(WRITES, [np.zeros(8, np.uint32)], block=32)
    text = str(failed.value)
    assert text.startswith("kernel writes on NVIDIA H200 (sm_90): CUDA_ERROR_ILLEGAL_ADDRESS in a "
                           "launch with grid (1, 1, 1), block (32, 1, 1)")
    assert "error[out-of-bounds] CTA (0,0,0), warp 0, lane 8" in text
    with pytest.raises(ToolError, match="kernel writes ended with CUDA_ERROR_ILLEGAL_ADDRESS"):
        mmalab.launch(WRITES, [np.zeros(32, np.uint32)], block=32)


def test_a_launch_that_the_driver_refuses_is_not_the_end(device: Any) -> None:
    """The process may try another."""
    gpu = device(start=701)
    with pytest.raises(ToolError, match="CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES") as refused:
        mmalab.launch(WRITES, [np.zeros(32, np.uint32)], block=32)
    assert "legal: another launch" in str(refused.value)
    assert "finds nothing wrong" in str(refused.value)
    assert gpu.lost == ""


ILLEGAL = {
    "threads": ({"block": 2048}, "2048 threads", "1 to 1024 threads"),
    "no grid": ({"block": 32, "grid": 0}, "grid 0: one to three positive sizes", "(x, y, z)"),
    "grid": ({"block": 32, "grid": (1, 70000)}, "more than a launch can have", "65535"),
    "cluster": ({"block": 32, "grid": 17, "cluster": 17}, "17 CTAs: more than sm_90 has",
                "1 to 16"),
    "parts": ({"block": 32, "grid": 5, "cluster": 4}, "not a multiple of the cluster (4, 1, 1)",
              "(8, 1, 1)"),
    "shared": ({"block": 32, "dynamic_shared": 232449}, "more than sm_90 has for a CTA",
               "0 to 232448"),
    "static and dynamic": ({"block": 32, "dynamic_shared": 232448}, "232512 bytes",
                           "232448 bytes"),
    "less": ({"block": 32, "dynamic_shared": -1}, "dynamic_shared -1: too small", "0 or more"),
    "no patience": ({"block": 32, "patience": 0}, "patience 0: is no number of seconds",
                    "more than 0"),
    "patient": ({"block": 32, "patience": "long"}, "is no number of seconds", "more than 0"),
    "a word": ({"block": "all"}, "one to three positive sizes", "(x, y, z)"),
}


@pytest.mark.parametrize(("given", "rule", "legal"), ILLEGAL.values(), ids=ILLEGAL)
def test_illegal_launches_never_reach_the_driver(device: Any, given: dict[str, Any], rule: str,
                                                 legal: str) -> None:
    """Refused with the rule, the value and what would do, as the emulator does."""
    gpu = device()
    with pytest.raises(UsageError) as refused:
        mmalab.launch(WRITES, [np.zeros(32, np.uint32)], **given)
    assert rule in str(refused.value)
    assert legal in str(refused.value).partition("legal:")[2]
    assert gpu.driver.made == []


@pytest.mark.parametrize(("directive", "given", "rule"), [
    (".maxntid 64", {"block": 128}, "more than the kernel and the chip allow"),
    (".reqnctapercluster 2", {"block": 32, "grid": 2, "cluster": 1}, "requires its"),
    (".maxclusterrank 2", {"block": 32, "grid": 4, "cluster": 4}, "more than the .maxclusterrank"),
])
def test_a_kernels_own_limits(device: Any, directive: str, given: dict[str, Any], rule: str,
                              ) -> None:
    """What the directives say holds on the device and in the emulator."""
    device()
    text = WRITES.replace(".param .u64 x) {", f".param .u64 x) {directive} {{")
    for run in (mmalab.launch, mmalab.emulate):
        with pytest.raises(UsageError, match=rule):
            run(text, [np.zeros(128, np.uint32)], **given)


def test_registers_that_no_sm_has() -> None:
    """Too many for a CTA of that size: how many there may be."""
    shape = Shape((1, 1, 1), (1024, 1, 1), (1, 1, 1), 0)
    compiled = SimpleNamespace(registers=128, shared=0, barriers=0)
    with pytest.raises(UsageError, match="128 registers x 1024 threads") as refused:
        LAUNCH.check_fits(compiled, shape, "sm_90")
    assert "legal: 64 registers per thread" in str(refused.value)
    LAUNCH.check_fits(SimpleNamespace(registers=64, shared=0, barriers=0), shape, "sm_90")


def test_clusters_that_not_every_chip_has_are_asked_for(device: Any) -> None:
    """More than 8 CTAs need the kernel's attribute, 8 do not."""
    gpu = device()
    for size, wanted in ((8, []), (16, [(14, 1, 1, 0)])):
        mmalab.launch(WRITES, [np.zeros(32, np.uint32)], block=32, grid=16, cluster=size)
        assert gpu.driver.attributes == wanted
