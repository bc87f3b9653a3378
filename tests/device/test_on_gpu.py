"""Launches on a real GPU: the emulator's bits, arguments of every kind, faults in words."""

from __future__ import annotations

import secrets
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import mmalab
from mmalab import formats
from mmalab.device import info
from mmalab.errors import UsageError
from mmalab.kernels import ladder
from mmalab.kernels.arguments import words_of
from mmalab.kernels.sm80_mma import gemm

pytestmark = pytest.mark.gpu

SCALE = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 x, .param .u64 y, .param .f32 factor, .param .align 8 .b8 s[16])
{
  .reg .b32 %r<2>; .reg .f32 %f<8>; .reg .b64 %rd<6>;
  ld.param.u64 %rd0, [x];
  ld.param.u64 %rd1, [y];
  ld.param.f32 %f0, [factor];
  ld.param.f32 %f1, [s+12];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %rd2, %r0, 4;
  add.s64 %rd3, %rd0, %rd2;
  add.s64 %rd4, %rd1, %rd2;
  ld.global.f32 %f2, [%rd3];
  fma.rn.f32 %f3, %f2, %f0, %f1;
  st.global.f32 [%rd4], %f3;
  ret;
}
"""


def chip():
    return "sm_" + info()["capability"].replace(".", "")


#: Blocks that fill an SM, several tiles for each, loops and edges.
LARGE = {
    "carried": {"tile": (256, 128), "stages": 4},
    "carried, 128 bytes": {"tile": (128, 256), "span": 128},
    "fed": {"copy": "tma", "stages": 4, "sms": 2},
    "fed, two blocks an SM": {"copy": "tma", "tile": (128, 128), "sms": 2},
    "fed, 64 bytes": {"copy": "tma", "tile": (128, 256), "span": 64, "stages": 8, "sms": 2},
}
KERNELS = {**{name: lambda factory=factory: factory(144, 80, 96)
              for name, factory in ladder("sm80_mma").items()},
           **{name: lambda choice=choice: gemm(520, 400, 456, **choice)
              for name, choice in LARGE.items()},
           "fed, even waves": lambda: gemm(520, 416, 4096, copy="tma", waves="even", sms=5,
                                           stages=4)}


@pytest.mark.parametrize("make", KERNELS.values(), ids=KERNELS)
def test_the_gpu_writes_the_emulators_bits(make):
    """One kernel value, two machines, the same bits."""
    kernel = make()
    if kernel.target == "sm_90a" and chip() != "sm_90":
        pytest.skip(f"a kernel of Hopper's own instructions, this is {chip()}")
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    types = [formats.dtype_of(p.dtype) for p in kernel.params]
    bytes_ = [rng.integers(0, 256, (*p.shape, t.itemsize), np.uint8)
              for p, t in zip(kernel.params, types, strict=True)]
    *inputs, c = (b.view(t)[..., 0].copy() for b, t in zip(bytes_, types, strict=True))
    outputs = [c.copy(), c.copy()]
    own = "a" if kernel.target.endswith("a") else ""
    # The emulator first: what would hang the GPU ends there with an explained deadlock.
    run = mmalab.emulate(kernel, [*inputs, outputs[1]], target=chip() + own, sanitize=False)
    assert run.deadlock is None, run.deadlock
    mmalab.launch(kernel, [*inputs, outputs[0]])
    assert np.array_equal(words_of(outputs[0]), words_of(outputs[1]))


def test_arguments_of_every_kind():
    """Pointers, numbers and structs arrive; a strided array is written back in place."""
    x, wide = np.arange(32, dtype=np.float32), np.zeros((32, 2), np.float32)
    struct = np.array([0, 0, 0, 0.5], np.float32).tobytes()
    done = mmalab.launch(SCALE, [x, wide[:, 1], 3.0, struct], block=32)
    assert np.array_equal(wide[:, 1], 3 * x + np.float32(0.5))
    assert not wide[:, 0].any()
    assert done.milliseconds > 0


def test_the_same_array_twice_is_one_buffer():
    """In place: the kernel reads and writes one array."""
    x = np.arange(32, dtype=np.float32)
    mmalab.launch(SCALE, [x, x, 2.0, bytes(16)], block=32)
    assert np.array_equal(x, 2 * np.arange(32, dtype=np.float32))


def test_more_shared_memory_than_plain_launches_have():
    """60 KB of dynamic shared memory are asked for, and 400 KB refused with the chip's limit."""
    kernel = gemm(128, 128, 96, layout="padded")
    assert kernel.dynamic_shared > 48 * 1024
    a, b = (np.ones((128, 96), np.float16).view(np.uint16) for _ in range(2))
    c = np.zeros((128, 128), np.float32)
    mmalab.launch(kernel, [a, b, c])
    with pytest.raises(UsageError, match=r"409600 bytes of shared memory \(409600 dynamic\)"
                                         r".*\n.*232448"):
        mmalab.launch(kernel, [a, b, c], dynamic_shared=409600)


def test_a_fault_names_kernel_and_thread():
    """A wild pointer ends in an error with the emulator's finding (in a process of its own)."""
    program = textwrap.dedent(f"""
        import numpy as np, mmalab
        x = np.zeros(32, np.float32)
        try:
            mmalab.launch({SCALE!r}, [1 << 46, x, 1.0, bytes(16)], block=32)
        except mmalab.errors.ToolError as error:
            print(error)
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          timeout=120, check=False)
    assert "kernel scale on " in done.stdout, done.stderr
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in done.stdout
    assert "error[out-of-bounds]" in done.stdout
