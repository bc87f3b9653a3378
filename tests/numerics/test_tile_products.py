"""Products on scattered operands: the words of the reference, wherever the elements lie."""

from __future__ import annotations

import numpy as np
import pytest
from adversarial import MIXES, fresh, words
from numpy.typing import NDArray

from mmalab import formats
from mmalab.numerics import unit
from mmalab.numerics.reference import multiply
from mmalab.numerics.tile import Tile, has_tile
from mmalab.numerics.tile_ir import CHUNK, JOB, M, Word, scratch_bytes
from mmalab.numerics.unit import Unit

UNITS = ["sm_90.wgmma.bf16.f32", "sm_90.wgmma.f16.f16", "sm_90.wgmma.tf32.f32",
         "sm_90.wgmma.e4m3.e5m2.f32", "sm_90.wgmma.e5m2.e4m3.f16", "sm_90.wgmma.s8.u8.s32",
         "sm_90.wgmma.u8.s32.satfinite", "sm_90.wgmma.s8.s32.satfinite"]


class Scattered:
    """A matrix whose pieces of `size` bytes lie in any order in a buffer."""

    def __init__(self, matrix: NDArray[np.unsignedinteger], size: int,
                 rng: np.random.Generator) -> None:
        self.shape, self.dtype = matrix.shape, matrix.dtype
        pieces = np.ascontiguousarray(matrix).view(np.uint8).reshape(-1, size)
        self.order = rng.permutation(len(pieces))
        self.buffer = np.zeros(pieces.shape, np.uint8)
        self.buffer[self.order] = pieces
        self.table = (self.order * size).astype(np.uint32)

    def matrix(self) -> NDArray[np.unsignedinteger]:
        """What the pieces hold now."""
        return self.buffer[self.order].reshape(-1).view(self.dtype).reshape(self.shape)


def setup(row: Unit, n: int, mix: str, tile: Tile, rng: np.random.Generator,
          ) -> tuple[Scattered, Scattered, Scattered, NDArray[np.int64]]:
    """A, B, D and the job that multiplies them."""
    k = row.k
    a = words(row.a, (M, k), mix, rng)
    b = words(row.b, (n, k), mix, rng).T
    padded = np.concatenate((b, np.repeat(b[:, :1], tile.columns - n, axis=1)), axis=1)
    d = words(row.acc, (M, n), mix, rng)
    left, right, total = (Scattered(x, size, rng) for x, size in (
        (a, a.itemsize), (padded, b.itemsize), (d, CHUNK)))
    job = np.zeros(JOB, np.int64)
    for place, one in ((Word.A, left), (Word.B, right), (Word.D, total)):
        job[place], job[place + 1] = one.buffer.ctypes.data, one.table.ctypes.data
    job[Word.CHUNKS] = n * d.itemsize // CHUNK
    job[Word.ACCUMULATE] = 1
    return left, right, total, job


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize(("n", "mix"), [
    *((24, mix) for mix in MIXES), (8, "bits"), (96, "ladder"), (256, "specials")])
def test_scattered_products_are_the_reference(name: str, n: int, mix: str) -> None:
    """Every element of A and B, every 16 bytes of D at a place of its own; chains of jobs."""
    rng, row = fresh(), unit(name)
    tile = Tile(row, row.k, n)
    left, right, total, job = setup(row, n, mix, tile, rng)
    want = total.matrix()
    a, b = left.matrix(), right.matrix()[:, :n]
    sign_a, sign_b = (x.dtype.type(1 << formats.get(t).bits - 1)
                      for x, t in ((a, row.a), (b, row.b)))
    with np.errstate(all="ignore"):
        want = multiply(row, a, b, want, k=row.k)
        want = multiply(row, a ^ sign_a, b, want, k=row.k)
        jobs = np.stack([job, job, job])
        jobs[1, Word.A_FLIP] = int(sign_a)
        tile.run(jobs)
        want = multiply(row, a, b, want, k=row.k)
        assert (total.matrix() == want).all()
        last = job[None].copy()
        last[0, Word.ACCUMULATE], last[0, Word.B_FLIP] = 0, int(sign_b)
        tile.run(last)
        anew = multiply(row, a, b ^ sign_b, np.zeros_like(want), k=row.k)
    assert (total.matrix() == anew).all()


def test_which_units_have_one() -> None:
    """Bits do not."""
    assert all(has_tile(unit(name)) for name in UNITS)
    assert not has_tile(unit("sm_90.wgmma.b1.and.s32"))


def test_scratch_is_whole_lines() -> None:
    """Each part begins at a multiple of 64 bytes."""
    assert scratch_bytes(unit(UNITS[0]), 16, 48) % 64 == 0
