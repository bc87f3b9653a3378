"""Tensor maps at a launch: the driver's bytes are used, and held against ours."""

from __future__ import annotations

import ctypes
import enum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mmalab
from mmalab.device import gpu as gpu_module
from mmalab.device import tensor_maps
from mmalab.device.driver import DriverError
from mmalab.device.faults import _copies
from mmalab.device.gpu import Buffers
from mmalab.device.tensor_maps import at_address
from mmalab.errors import ToolError, UsageError
from mmalab.tensormap import MAP_BYTES, TensorMap

ADDRESS = 0x7F00_0000_1000


class Mode(enum.IntEnum):
    """Stands for each of the driver's enumerations."""

    ZERO, ONE, TWO, THREE, FOUR, FIVE, SIX, SEVEN, EIGHT, NINE = range(10)


class FakeDriver:
    """Encodes as TensorMap does, then lets `change` at the bytes; keeps what it was asked."""

    CUtensorMapDataType = CUtensorMapInterleave = CUtensorMapSwizzle = Mode
    CUtensorMapL2promotion = CUtensorMapFloatOOBfill = Mode
    cuuint64_t = cuuint32_t = int

    def __init__(self, made: TensorMap, change: Any = None) -> None:
        self.made, self.change, self.asked = made, change, ()

    def _encoded(self, name: str, *given: Any) -> tuple[int, Any]:
        self.asked = (name, *given)
        data = bytearray(self.made.encode(given[2] - self.made.offset))
        if self.change is not None:
            self.change(data)
        memory = ctypes.create_string_buffer(bytes(data), MAP_BYTES)
        return 0, SimpleNamespace(getPtr=lambda: ctypes.addressof(memory), memory=memory)

    def cuTensorMapEncodeTiled(self, *given: Any) -> tuple[int, Any]:  # noqa: N802
        """The driver's function of this name."""
        return self._encoded("tiled", *given)

    def cuTensorMapEncodeIm2col(self, *given: Any) -> tuple[int, Any]:  # noqa: N802
        """The driver's function of this name."""
        return self._encoded("im2col", *given)


def tiled(**more: Any) -> TensorMap:
    return TensorMap.tiled(np.zeros((256, 128), np.float16), box=(64, 32), **more)


def test_the_driver_is_asked_for_the_same_map() -> None:
    made = tiled(swizzle="128B", l2_promotion="256B", offset=64 * 256, dims=(128, 64))
    driver = FakeDriver(made)
    assert at_address(driver, made, ADDRESS) == made.encode(ADDRESS)
    assert driver.asked == ("tiled", 6, 2, ADDRESS + 64 * 256, [128, 64], [256], [64, 32], [1, 1],
                            0, 3, 3, 0)


def test_im2col_maps_have_their_own_call() -> None:
    made = TensorMap.im2col(np.zeros((2, 9, 16, 64), np.float16), (-1, -1), (0, 1), channels=32,
                            pixels=24, swizzle="64B")
    driver = FakeDriver(made)
    assert len(at_address(driver, made, ADDRESS)) == MAP_BYTES
    assert driver.asked[0] == "im2col"
    assert driver.asked[6:10] == ([-1, -1], [0, 1], 32, 24)


def test_other_bytes_are_an_error() -> None:
    """A difference in what the chip reads is told byte by byte; the driver's notes may differ."""
    made = tiled()

    def flip(data: bytearray) -> None:
        data[0x0A] ^= 4

    with pytest.raises(ToolError, match="encodes byte 0xa as 0x04, mmalab as 0x00"):
        at_address(FakeDriver(made, flip), made, ADDRESS)

    def note(data: bytearray) -> None:
        data[0x50] = 1

    assert at_address(FakeDriver(made, note), made, ADDRESS)[0x50] == 1


def test_what_the_driver_refuses_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise DriverError("cuTensorMapEncodeTiled", "CUDA_ERROR_INVALID_VALUE", "invalid")

    monkeypatch.setattr(tensor_maps, "call", refuse)
    made = tiled(swizzle="128B_ATOM_32B")
    with pytest.raises(UsageError, match="refuses it for this device"):
        at_address(FakeDriver(made), made, ADDRESS)


def test_a_launch_places_the_maps_array_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A map and a pointer over one array see one buffer; a list of maps lies in a buffer."""
    copied: list[int] = []

    def call(function: Any, *given: Any) -> Any:
        return function(*given)

    def allocate(size: int) -> int:
        copied.append(size)
        return ADDRESS + 0x100000 * len(copied)

    driver = SimpleNamespace(cuMemAlloc=allocate, cuMemcpyHtoD=lambda *_: None,
                             cuMemFree=lambda *_: None)
    monkeypatch.setattr(gpu_module, "call", call)
    monkeypatch.setattr(gpu_module, "at_address", lambda _, made, address: made.encode(address))
    held = Buffers(SimpleNamespace(driver=driver))  # type: ignore[arg-type]
    array = np.zeros((256, 128), np.float16)
    first, second = (TensorMap.tiled(array, box=(64, rows)) for rows in (32, 64))
    address = held.add(array, "argument 0")
    assert held.add_map(first, "argument 1") == first.encode(address)
    assert copied == [array.nbytes]
    assert held.add_maps([first, second], "argument 2") != address
    assert copied == [array.nbytes, 2 * MAP_BYTES]
    with pytest.raises(UsageError, match="has no array"):
        held.add_map(TensorMap.decode(first.encode(address)), "argument 3")


def test_faults_are_explained_on_copies() -> None:
    """The array behind a map is copied too, once for all values that share it."""
    array = np.zeros((64, 64), np.float16)
    first, second = (TensorMap.tiled(array, box=(64, rows)) for rows in (8, 16))
    copies = _copies([first, [first, second], array, 3])
    assert copies[0].array is copies[2]
    assert copies[1][1].array is copies[2]
    assert copies[2] is not array
    assert (copies[1][1].box, copies[3]) == ((64, 16), 3)
    part = np.zeros((64, 128), np.float16)[:, :64]
    one, other = _copies([TensorMap.tiled(part, box=(64, 8)) for _ in range(2)])
    assert one.array is other.array
    assert one.encode(0) == TensorMap.tiled(part, box=(64, 8)).encode(0)


COPY = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry copy(.param .align 64 .b8 map[128], .param .u64 out) .reqntid 32
{
  .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<6>;
  .shared .align 1024 .b8 tile[4096];
  .shared .align 8 .b64 bar;
  mov.u32 %r0, %tid.x;
  setp.ne.u32 %p0, %r0, 0;
  mov.b64 %rd0, map;
  cvta.param.u64 %rd1, %rd0;
  @%p0 bra WAIT;
  mbarrier.init.shared::cta.b64 [bar], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared::cta.b64 %rd2, [bar], 4096;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
    [tile], [%rd1, {0, 32}], [bar];
WAIT:
  bar.sync 0;
AGAIN:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
  @!%p1 bra AGAIN;
  ld.param.u64 %rd3, [out];
  shl.b32 %r1, %r0, 7;
  mov.u32 %r2, tile;
  add.u32 %r2, %r2, %r1;
  cvt.u64.u32 %rd4, %r1;
  add.s64 %rd3, %rd3, %rd4;
  mov.u32 %r3, 0;
NEXT:
  ld.shared.u64 %rd5, [%r2];
  st.global.u64 [%rd3], %rd5;
  add.u32 %r2, %r2, 8;
  add.s64 %rd3, %rd3, 8;
  add.u32 %r3, %r3, 8;
  setp.lt.u32 %p0, %r3, 128;
  @%p0 bra NEXT;
  ret;
}
"""


@pytest.mark.gpu
@pytest.mark.parametrize("swizzle", ["none", "128B"])
def test_gpu_and_emulator_place_the_same_bytes(swizzle: str) -> None:
    """A box copied by the driver's map on the chip, by ours in the emulator."""
    array = np.random.default_rng().integers(0, 2**16, (256, 64)).astype(np.uint16)
    outputs = [np.zeros(4096, np.uint8) for _ in range(2)]
    for run, out in zip((mmalab.launch, mmalab.emulate), outputs, strict=True):
        run(COPY, [TensorMap.tiled(array, box=(64, 32), swizzle=swizzle), out])
    assert outputs[0].any()
    assert np.array_equal(*outputs)
