"""How a launch is read from PTX: parameters, shape, and the target that fits the device."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from mmalab.device.driver import DriverError
from mmalab.device.faults import explanation, fault
from mmalab.device.gpu import Gpu
from mmalab.device.launch import code_target
from mmalab.device.signature import check_shape, read_shape, read_signature
from mmalab.emulator import lower
from mmalab.errors import UsageError
from mmalab.kernels.sm80_mma import gemm
from mmalab.kernels.sm90_wgmma import skinny
from mmalab.ptx import parse

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
MIXED = HEAD + """
.visible .entry mixed(.param .u64 x, .param .f32 scale, .param .align 64 .b8 map[128],
                      .param .u16 last) .reqntid 64, 2
{ ret; }
"""
BEYOND = HEAD + """
.visible .entry beyond(.param .u64 x) {
  .reg .b32 %r<2>; .reg .b64 %rd<4>;
  ld.param.u64 %rd0, [x];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %rd1, %r0, 4;
  add.s64 %rd2, %rd0, %rd1;
  st.global.u32 [%rd2], %r0;
  ret;
}
"""


def test_parameters_lie_where_the_emulator_puts_them():
    """Offsets and sizes with alignment and arrays equal those of the lowered program."""
    signature, program = read_signature(parse(MIXED), None), lower(parse(MIXED))
    assert signature.params == program.params
    assert signature.param_bytes == program.param_bytes
    assert [offset for offset, *_ in signature.params] == [0, 8, 64, 192]


def test_a_kernel_of_unknown_instructions_has_a_signature():
    """What the emulator refuses can still be launched: only the entry's head is read."""
    text = MIXED.replace("{ ret; }", "{ brand.new.instruction %r1; ret; }")
    assert read_signature(parse(text), "mixed").required_block == (64, 2, 1)


def test_shape_comes_from_the_call_the_kernel_or_the_text():
    """What is given wins over the Kernel, which wins over .reqntid."""
    signature = read_signature(parse(MIXED), None)
    none = {"grid": None, "block": None, "cluster": None, "dynamic_shared": None}
    assert read_shape(signature, None, **none).block == (64, 2, 1)
    kernel = gemm(256, 136, 32)
    own = read_shape(read_signature(parse(kernel.ptx), None), kernel, **none)
    assert (own.grid, own.block, own.dynamic_shared) == (kernel.grid, kernel.block, 49152)
    given = read_shape(signature, None, **{**none, "grid": (4, 2), "cluster": 2,
                                           "dynamic_shared": 16})
    assert str(given) == ("grid (4, 2, 1) in clusters of (2, 1, 1), block (64, 2, 1), "
                          "16 bytes of dynamic shared memory")


def test_attributes_of_a_launch():
    """Clusters, and kernels that may begin before the one ahead has ended, are told the driver."""
    driver = SimpleNamespace(
        CUlaunchConfig=SimpleNamespace,
        CUlaunchAttribute=lambda: SimpleNamespace(value=SimpleNamespace(
            clusterDim=SimpleNamespace())),
        CUlaunchAttributeID=SimpleNamespace(
            CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION=4,
            CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION=6))
    gpu = object.__new__(Gpu)
    gpu.driver, gpu.stream = driver, SimpleNamespace(handle=0)
    none = {"grid": None, "block": None, "cluster": None, "dynamic_shared": None}

    def attributes(kernel):
        config = gpu._config(read_shape(read_signature(parse(kernel.ptx), None), kernel, **none))
        return {each.id: each.value for each in getattr(config, "attrs", [])}

    assert attributes(skinny(1, 64, 256, overlap="none")) == {}
    both = attributes(skinny(1, 64, 256, split=2, overlap="launch"))
    assert (both[4].clusterDim.x, both[4].clusterDim.y, both[4].clusterDim.z) == (2, 1, 1)
    assert both[6].programmaticStreamSerializationAllowed == 1
    assert set(both) == {4, 6}
    text = BEYOND.replace("u64 x)", "u64 x) .explicitcluster")
    [one] = gpu._config(read_shape(read_signature(parse(text), None), None,
                                   **{**none, "block": 32, "cluster": 1})).attrs
    assert (one.id, one.value.clusterDim.x) == (4, 1)


def test_a_cluster_of_one_that_the_kernel_asks_for_is_told_too():
    """.explicitcluster wants the attribute also where the cluster is one CTA, and wants a word."""
    text = BEYOND.replace("u64 x)", "u64 x) .explicitcluster")
    signature = read_signature(parse(text), None)
    sizes = {"grid": None, "block": 32, "dynamic_shared": None}
    assert read_shape(signature, None, cluster=1, **sizes).explicit_cluster
    with pytest.raises(UsageError, match="no cluster size"):
        read_shape(signature, None, cluster=None, **sizes)


REFUSED = {
    "no block": (BEYOND, {}, [
        "no block size: beyond does not say its own (.reqntid)", "  legal: block=(x, y, z)",
        "  see:   mmalab.launch"]),
    "other block": (MIXED, {"block": 64}, [
        "block (64, 1, 1): mixed requires its .reqntid", "  legal: (64, 2, 1)",
        "  see:   PTX ISA, .reqntid"]),
    "no size": (BEYOND, {"block": (32, 0)}, [
        "block (32, 0): one to three positive sizes", "  legal: (x, y, z)",
        "  see:   mmalab.launch"]),
    "cluster": (MIXED, {"grid": 3, "cluster": 2}, [
        "grid (3, 1, 1): not a multiple of the cluster (2, 1, 1)", "  legal: (4, 1, 1)",
        "  see:   CUDA programming guide, technical specifications"]),
}


@pytest.mark.parametrize(("text", "given", "lines"), REFUSED.values(), ids=REFUSED)
def test_launches_that_cannot_be(text, given, lines):
    """A launch without a block, or against the kernel's own demands, is refused in words."""
    none = {"grid": None, "block": None, "cluster": None, "dynamic_shared": None}
    signature = read_signature(parse(text), None)
    with pytest.raises(UsageError) as refused:
        check_shape(signature, read_shape(signature, None, **{**none, **given}), "sm_90")
    assert str(refused.value).splitlines() == lines


def test_a_missing_entry_names_those_that_exist():
    """Asking for another kernel lists the module's own."""
    with pytest.raises(UsageError) as refused:
        read_signature(parse(MIXED), "mixd")
    assert str(refused.value).splitlines() == [
        "entry 'mixd': <ptx> has 1 kernels", "  legal: mixed", "  see:   mmalab.launch"]


@pytest.mark.parametrize(("own", "chip", "asked", "wanted"), [
    ("sm_80", "sm_90", None, "sm_90"), ("sm_90a", "sm_90", None, "sm_90a"),
    ("sm_89", "sm_90", "sm_90a", "sm_90a"), ("sm_100f", "sm_103", None, "sm_103f"),
    ("sm_80", "sm_89", "sm_80", "sm_80"), ("sm_100a", "sm_100", None, "sm_100a"),
])
def test_code_is_made_for_the_device(own, chip, asked, wanted):
    """Plain code is made for the chip at hand; code with a suffix keeps it."""
    assert code_target(own, chip, asked) == wanted


@pytest.mark.parametrize(("own", "chip", "asked", "first"), [
    ("sm_100a", "sm_90", None, "a kernel for sm_100a: does not run on this device, sm_90"),
    ("sm_90a", "sm_100", None, "a kernel for sm_90a: does not run on this device, sm_100"),
    ("sm_90", "sm_80", None, "a kernel for sm_90: does not run on this device, sm_80"),
    ("sm_80", "sm_90", "sm_80", "machine code for sm_80: does not run on this device, sm_90"),
    ("sm_80", "sm_90", "sm_100", "machine code for sm_100: does not run on this device, sm_90"),
])
def test_code_of_another_chip_is_refused(own, chip, asked, first):
    """A kernel or a target that the device cannot run is refused before anything is assembled."""
    with pytest.raises(UsageError) as refused:
        code_target(own, chip, asked)
    assert str(refused.value).splitlines()[0] == first


def test_a_fault_is_explained_by_the_emulator():
    """The error of a faulting kernel holds launch, driver's words and the emulator's finding."""
    signature = read_signature(parse(BEYOND), None)
    shape = read_shape(signature, None, grid=None, block=32, cluster=None, dynamic_shared=None)
    failed = DriverError("cuStreamQuery", "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal access")
    args = [np.zeros(8, np.uint32)]
    error = fault(failed, "a device (sm_90)", signature, shape, BEYOND, args)
    lines = str(error).splitlines()
    assert lines[:4] == [
        ("kernel beyond on a device (sm_90): CUDA_ERROR_ILLEGAL_ADDRESS in a launch with "
         "grid (1, 1, 1), block (32, 1, 1), 0 bytes of dynamic shared memory"),
        "  legal: a fresh process: after a fault this one can launch nothing more",
        "  see:   CUDA driver API",
        "  | cuStreamQuery: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal access)"]
    found = "error[out-of-bounds] CTA (0,0,0), warp 0, lane 8"
    assert lines[4].startswith(f"  | the emulator finds in the same launch: {found}")
    assert not args[0].any()


def test_a_fault_that_the_emulator_does_not_see_is_said_so():
    """Where the same launch is clean on the CPU, the error claims nothing."""
    signature = read_signature(parse(BEYOND), None)
    shape = read_shape(signature, None, grid=None, block=8, cluster=None, dynamic_shared=None)
    assert explanation(signature, shape, BEYOND, [np.zeros(8, np.uint32)]) == (
        "the emulator runs the same launch and finds nothing wrong")
