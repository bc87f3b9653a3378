"""Tensor copies of random maps, against the element model: loads, stores, reductions, schedules."""

from __future__ import annotations

from math import prod
from typing import Any

import element_model as model
import numpy as np
import pytest
from numpy.typing import NDArray

from mmalab.emulator import emulate
from mmalab.kernels.one_tensor_copy import WORDS, one_tensor_copy
from mmalab.tensormap import ELEMENTS, TensorMap

IMAGE = 8192
LOAD = "cp.async.bulk.tensor.{}d.shared::cluster.global.{}.mbarrier::complete_tx::bytes"
STORE = "cp.async.bulk.tensor.{}d.global.shared::cta.{}.bulk_group"
TYPES = tuple(model.SIZES)
SPANS = {"none": 256, "32B": 32, "64B": 64, "128B": 128}


class Maps:
    """Random maps over random bytes."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def tensor(self, rank: int, size: int) -> tuple[list[int], list[int], int]:
        dims = [int(self.rng.integers(1, 30 if axis < 2 else 6)) for axis in range(rank)]
        pitch, strides = dims[0] * size, []
        for extent in dims[1:]:
            pitch = -(-pitch // 16) * 16 + 16 * int(self.rng.integers(3))
            strides.append(pitch)
            pitch *= extent
        return dims, strides, -(-pitch // 16) * 16

    def tiled(self, kind: str, rank: int, **options: Any) -> TensorMap:
        size = ELEMENTS[kind].bits // 8
        dims, strides, total = self.tensor(rank, size)
        swizzle = options.pop("swizzle", None) or str(self.rng.choice([*SPANS]))
        while True:
            inner = 16 * int(self.rng.integers(1, SPANS[swizzle] // 16 + 1)) // size
            box = [inner, *(int(self.rng.integers(1, 12 if a < 1 else 4))
                            for a in range(rank - 1))]
            if inner <= 256 and prod(box[1:]) * max(inner * size, SPANS[swizzle] % 256) <= 4096:
                break
        steps = [int(self.rng.choice([1, 1, 2, 3])) for _ in range(rank)]
        array = self.rng.integers(0, 256, total, dtype=np.uint8)
        return TensorMap.tiled(array, box, dims=dims, strides=strides, dtype=kind,
                               element_strides=steps, swizzle=swizzle, **options)

    def im2col(self, kind: str, rank: int, *, store: bool = False) -> TensorMap:
        size = ELEMENTS[kind].bits // 8
        dims, strides, total = self.tensor(rank, size)
        reach = {3: 20, 4: 8, 5: 3}[rank]
        count = rank - 2
        while True:
            lower, upper = self.rng.integers(-reach, reach, (2, count)).tolist()
            if store:
                lower, upper = [0] * count, [0] * count
            if all(dims[a + 1] + upper[a] - lower[a] >= 1 for a in range(count)):
                break
        swizzle = str(self.rng.choice([*SPANS]))
        channels = 16 * int(self.rng.integers(1, min(SPANS[swizzle], 128) // 16 + 1)) // size
        steps = [1, *(int(self.rng.choice([1, 2, 3])) for _ in range(count)), 1]
        array = self.rng.integers(0, 256, total, dtype=np.uint8)
        return TensorMap.im2col(array, lower, upper, channels=channels,
                                pixels=int(self.rng.integers(1, 32)), dims=dims, strides=strides,
                                dtype=kind, element_strides=steps, swizzle=swizzle)

    def where(self, made: TensorMap, *, store: bool = False) -> list[int]:
        """Coordinates across the edges of the tensor."""
        unit = 16 // model.SIZES[made.dtype]
        corner = made.im2col_box
        if corner is not None:
            inner = [int(self.rng.integers(low, made.dims[a + 1] + high))
                     for a, (low, high) in enumerate(zip(corner.lower, corner.upper, strict=True))]
            first = int(self.rng.integers(0 if store else -2, made.dims[0] // unit + 1)) * unit
            return [first, *inner, int(self.rng.integers(0, made.dims[-1]))]
        found = [int(self.rng.integers(0 if store else -n, d + 1))
                 for n, d in zip(made.box, made.dims, strict=True)]
        return [found[0] // unit * unit, *found[1:]]


def run(made: TensorMap, opcode: str, where: list[int], at: int, image: NDArray[np.uint8], *,
        offsets: tuple[int, ...] = (), schedule: str | int = "eager",
        ) -> tuple[NDArray[np.uint8], int]:
    """Shared memory after one copy, and the flag of its completion."""
    words = np.zeros((1, WORDS), np.int32)
    words[0, : len(where)] = where
    words[0, 5 : 5 + len(offsets)] = offsets
    words[0, 8:] = at, made.box_bytes
    out, done = np.full((1, IMAGE), 0xCB, np.uint8), np.zeros(1, np.uint32)
    result = emulate(one_tensor_copy(opcode, cases=1, image=IMAGE),
                     [made, image[None], words, out, done], schedule=schedule)
    assert result.findings == []
    return out[0], int(done[0])


def image_of(maps: Maps) -> NDArray[np.uint8]:
    return maps.rng.integers(0, 256, IMAGE, dtype=np.uint8)


@pytest.fixture
def maps() -> Maps:
    seed = int(np.random.default_rng().integers(2**32))
    print("seed", seed)
    return Maps(seed)


@pytest.mark.parametrize("rank", range(1, 6))
@pytest.mark.parametrize("fill", ["zero", "nan"])
def test_tiled_loads(maps: Maps, rank: int, fill: str) -> None:
    """Shared memory is the model's, what lies around the box untouched, and the bytes count."""
    for kind in maps.rng.permutation(TYPES)[:5]:
        filled = fill if ELEMENTS[str(kind)].floating else "zero"
        made = maps.tiled(str(kind), rank, fill=filled)
        where, at = maps.where(made), 128 * int(maps.rng.integers(0, 24))
        image = image_of(maps)
        want = image.copy()
        model.load(made, made.array, want, where, at)
        schedule = str(maps.rng.choice(["eager", "lazy"]))
        got, done = run(made, LOAD.format(rank, "tile"), where, at, image, schedule=schedule)
        assert done == 1
        np.testing.assert_array_equal(got, want, str((made, where, at)))


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_im2col_loads(maps: Maps, rank: int) -> None:
    """Columns of pixels, with offsets and traversal strides."""
    for kind in ("u8", "f16", "f32", "f64"):
        made = maps.im2col(kind, rank)
        where, at = maps.where(made), 128 * int(maps.rng.integers(0, 24))
        offsets = tuple(int(n) for n in maps.rng.integers(0, 4, rank - 2))
        image = image_of(maps)
        want = image.copy()
        model.load(made, made.array, want, where, at, offsets)
        got, done = run(made, LOAD.format(rank, "im2col"), where, at, image, offsets=offsets)
        assert done == 1
        np.testing.assert_array_equal(got, want, str((made, where, at, offsets)))


@pytest.mark.parametrize("rank", range(1, 6))
def test_stores(maps: Maps, rank: int) -> None:
    """The tensor is the model's: whole 16 bytes, nothing outside; shared memory stays."""
    for kind in maps.rng.permutation(TYPES)[:4]:
        made = maps.tiled(str(kind), rank)
        if rank >= 3 and maps.rng.random() < 0.4:
            made = maps.im2col(str(kind), rank, store=True)
        word = "tile" if made.im2col_box is None else "im2col_no_offs"
        where, at = maps.where(made, store=True), 128 * int(maps.rng.integers(0, 24))
        image, want = image_of(maps), made.array.copy()
        model.store(made, want, image, where, at)
        got, _ = run(made, STORE.format(rank, word), where, at, image)
        np.testing.assert_array_equal(made.array, want, str((made, where, at)))
        np.testing.assert_array_equal(got, image)


REDUCTIONS = {
    "add": ("u32", "s32", "u64"), "min": ("u32", "s32", "u64", "s64"),
    "max": ("u32", "s32", "u64", "s64"), "inc": ("u32",), "dec": ("u32",),
    "and": ("u32", "u64"), "or": ("s32", "s64"), "xor": ("u32", "u64"),
}


def combined(op: str, kind: str) -> Any:
    """The reduction of one element as Python integers."""
    size, signed = model.SIZES[kind], kind[0] == "s"
    top = 1 << 8 * size

    def of(old: NDArray[np.uint8], new: NDArray[np.uint8]) -> NDArray[np.uint8]:
        x, y = (int.from_bytes(side.tobytes(), "little", signed=signed) for side in (old, new))
        result = {"add": x + y, "min": min(x, y), "max": max(x, y), "and": x & y, "or": x | y,
                  "xor": x ^ y, "inc": 0 if x >= y else x + 1,
                  "dec": y if x == 0 or x > y else x - 1}[op]
        return np.frombuffer((result % top).to_bytes(size, "little"), np.uint8)
    return of


@pytest.mark.parametrize("op", REDUCTIONS)
def test_integer_reductions(maps: Maps, op: str) -> None:
    """Every operation on every integer type, element by element."""
    for kind in REDUCTIONS[op]:
        rank = int(maps.rng.integers(1, 6))
        made = maps.tiled(kind, rank)
        where, at = maps.where(made, store=True), 128 * int(maps.rng.integers(0, 24))
        image, want = image_of(maps), made.array.copy()
        model.store(made, want, image, where, at, combined(op, kind))
        opcode = STORE.format(rank, f"{op}.tile").replace("cp.async", "cp.reduce.async")
        run(made, opcode, where, at, image)
        np.testing.assert_array_equal(made.array, want, str((made, where, at)))


@pytest.mark.parametrize(("kind", "dtype"), [("f16", np.float16), ("f32", np.float32)])
def test_floating_additions(maps: Maps, kind: str, dtype: Any) -> None:
    """One addition per element, rounded once; f32 flushes subnormals."""
    made = maps.tiled(kind, 2, swizzle="none")
    numbers = maps.rng.normal(0, 1, made.array.size // np.dtype(dtype).itemsize).astype(dtype)
    made.array[: numbers.nbytes] = numbers.view(np.uint8)
    image = image_of(maps)
    near = maps.rng.normal(0, 1, IMAGE // np.dtype(dtype).itemsize).astype(dtype)
    image[:] = near.view(np.uint8)
    want = made.array.copy()

    def add(old: NDArray[np.uint8], new: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return (old.copy().view(dtype) + new.copy().view(dtype)).astype(dtype).view(np.uint8)
    model.store(made, want, image, [0, 0], 0, add)
    run(made, STORE.format(2, "add.tile").replace("cp.async", "cp.reduce.async"), [0, 0], 0, image)
    np.testing.assert_array_equal(made.array, want)


@pytest.mark.parametrize("swizzle", ["128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B"])
def test_atoms_of_later_chips(maps: Maps, swizzle: str) -> None:
    """Larger atoms on Blackwell; Hopper refuses them."""
    array = maps.rng.integers(0, 256, (32, 128), dtype=np.uint8)
    made = TensorMap.tiled(array, (128, 16), swizzle=swizzle)
    image = image_of(maps)
    want = image.copy()
    model.load(made, array.reshape(-1), want, [0, 8], 1024)
    opcode = LOAD.format(2, "tile")
    words = np.zeros((1, WORDS), np.int32)
    words[0, 1], words[0, 8:] = 8, (1024, made.box_bytes)
    for target, codes in (("sm_100a", []), ("sm_90a", ["illegal-value"])):
        out, done = image[None].copy(), np.zeros(1, np.uint32)
        result = emulate(one_tensor_copy(opcode, cases=1, image=IMAGE, target=target),
                         [made, image[None], words, out, done])
        assert [f.code for f in result.findings] == codes
        if not codes:
            np.testing.assert_array_equal(out[0], want)
