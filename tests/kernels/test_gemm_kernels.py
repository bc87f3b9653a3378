"""The pipelined product: right bits for every choice, nothing for the sanitizer to find."""

from __future__ import annotations

import secrets
from dataclasses import replace

import numpy as np
import pytest
from products import arguments, differing, emulated

import mmalab
from mmalab.emulator.interpret import Interpreter
from mmalab.emulator.run import emulate
from mmalab.kernels import ladder
from mmalab.kernels.sm80_mma import gemm
from mmalab.layouts.banks import wavefronts

CHOICES = {
    "swizzled": {},
    "two stages": {"stages": 2},
    "padded": {"layout": "padded"},
    "plain": {"layout": "plain", "stages": 2},
    "four stages": {"stages": 4},
    "64 x 64": {"warp_tile": (64, 64)},
    "f16": {"dtype": "f16"},
    "f16 accumulation": {"dtype": "f16", "accumulate": "f16"},
    "tf32": {"dtype": "tf32"},
    "s8": {"dtype": "s8"},
    "e4m3": {"dtype": "e4m3"},
    "e4m3, f16 accumulation": {"dtype": "e4m3", "accumulate": "f16", "warp_tile": (64, 64)},
    "promoted inside a slice": {"dtype": "e4m3", "promote_every": 32},
    "promoted by slices": {"dtype": "e4m3", "promote_every": 64},
    "promoted across slices": {"dtype": "e4m3", "promote_every": 128, "stages": 2},
    "promoted bf16": {"promote_every": 48 * 2, "stages": 2},
}


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
@pytest.mark.parametrize(("m", "n", "k"), [(136, 72, 200), (8, 8, 8)])
def test_result_is_the_reference_bit_for_bit(choice, m, n, k):
    """Every choice, with edges in M, N and K, writes the reference's bits and is clean."""
    run = emulated(gemm(m, n, k, **choice), "sm_90")
    assert run.findings == []
    assert set(run.fidelity.values()) == {"exact"}


LARGE = {
    "carried": ({"tile": (256, 128)}, (264, 136, 200)),
    "no loop": ({"tile": (128, 256), "stages": 4}, (8, 8, 8)),
    "128 bytes": ({"tile": (128, 256), "span": 128}, (136, 264, 456)),
    "half an SM": ({"tile": (128, 128), "stages": 2}, (72, 136, 264)),
    "64 x 32": ({"tile": (128, 128), "warp_tile": (64, 32)}, (72, 136, 264)),
    "f16 accumulation": ({"tile": (256, 128), "dtype": "f16", "accumulate": "f16"}, (264, 24, 104)),
    "tf32, padded": ({"tile": (256, 128), "dtype": "tf32", "layout": "padded"}, (40, 136, 104)),
    "s8, rows of 8 mod 16 bytes": ({"tile": (256, 128), "dtype": "s8"}, (40, 136, 264)),
    "copies of 8 bytes, columns as they are": (
        {"tile": (128, 128), "dtype": "s8", "span": 128}, (40, 136, 264)),
    "promoted": ({"tile": (256, 128), "dtype": "e4m3", "promote_every": 64}, (40, 24, 200)),
    "TMA": ({"copy": "tma"}, (264, 24, 200)),
    "TMA, one step": ({"copy": "tma", "tile": (128, 256)}, (8, 8, 8)),
    "TMA, tile after tile": ({"copy": "tma", "tile": (128, 128), "span": 64, "sms": 1, "band": 128},
                            (264, 144, 104)),
    "TMA, half an SM, s8": ({"copy": "tma", "tile": (128, 128), "span": 64, "dtype": "s8"},
                            (136, 24, 208)),
    "TMA, tf32": ({"copy": "tma", "dtype": "tf32"}, (40, 24, 104)),
    "TMA, f16 accumulation": ({"copy": "tma", "dtype": "f16", "accumulate": "f16"}, (40, 48, 104)),
    "TMA, rows stored under a whole slice": ({"copy": "tma", "drain": 4}, (264, 136, 192)),
    "TMA, rows stored as they come": ({"copy": "tma", "drain": 1, "tile": (128, 256)},
                                      (72, 264, 136)),
    "TMA, even waves": ({"copy": "tma", "tile": (128, 128), "waves": "even", "sms": 1},
                        (264, 120, 192)),
    "TMA, even waves, two whole tiles": ({"copy": "tma", "tile": (128, 128), "span": 64,
                                          "waves": "even", "sms": 2, "drain": 4}, (136, 520, 96)),
    "TMA, even waves, f16": ({"copy": "tma", "dtype": "f16", "accumulate": "f16", "waves": "even",
                              "sms": 2}, (520, 40, 192)),
    "TMA, even waves that are whole": ({"copy": "tma", "waves": "even", "sms": 1}, (264, 24, 136)),
    "TMA, e4m3": ({"copy": "tma", "dtype": "e4m3", "tile": (128, 256)}, (40, 48, 304)),
}


@pytest.mark.parametrize(("choice", "sizes"), LARGE.values(), ids=LARGE)
def test_large_tiles_give_the_reference_bit_for_bit(choice, sizes):
    """Blocks that fill an SM, edges and loops and all: right bits, nothing to find."""
    kernel = gemm(*sizes, **choice)
    run = emulated(kernel, "sm_90")
    found = [*run.findings, *mmalab.check(kernel)]
    # Hopper multiplies FP8 in mma.sync as F16, and is told so.
    told = {"emulated-instruction"} if choice.get("dtype") == "e4m3" else set()
    assert {f.code for f in found} <= told
    assert set(run.fidelity.values()) == {"exact"}


@pytest.mark.parametrize("choice", [
    {"stages": 4}, {"copy": "tma", "span": 64},
], ids=str)
@pytest.mark.parametrize("schedule", ["lazy", 7])
def test_no_schedule_of_the_copies_changes_large_tiles(choice, schedule):
    """Copies that finish as late as they may, or at any time, leave the result as it is."""
    kernel = gemm(136, 64, 328, tile=(128, 128), **choice)
    assert emulated(kernel, "sm_90", schedule=schedule).findings == []


@pytest.mark.parametrize("schedule", ["eager", "lazy", 7, 8])
def test_no_schedule_changes_tiles_that_blocks_share(schedule):
    """Sums handed over from block to block: each waits for what it goes on with."""
    kernel = gemm(136, 352, 320, tile=(128, 128), copy="tma", waves="even", sms=2)
    assert kernel.facts["waves"] == "even"
    run = emulated(kernel, "sm_90", schedule=schedule)
    assert run.findings == []


@pytest.mark.parametrize("attempt", range(4))
def test_random_waves(attempt):
    """Tiles, slices and SMs drawn afresh: every slice is somebody's, in order of k."""
    seed = secrets.randbits(32)
    print(f"seed {seed}, attempt {attempt}")
    rng = np.random.default_rng(seed)
    m, n = (int(each * rng.integers(1, 65 * 8 // each)) for each in (8, 32))
    k = int(64 * rng.integers(1, 12))
    kernel = gemm(m, n, k, tile=(128, 128), copy="tma", waves="even",
                  sms=int(rng.integers(1, 5)), drain=int(rng.integers(1, 5)))
    print(kernel.name, kernel.facts["waves"])
    emulated(kernel, "sm_90", sanitize=False)


def test_words_of_shared_tiles_are_zero_again():
    """One set of words serves launch after launch."""
    kernel = gemm(264, 128, 192, tile=(128, 128), copy="tma", waves="even", sms=1)
    args = arguments(kernel)
    values = list(kernel.values(args))
    words = values[-1]
    assert words.shape == (2 * 4,)
    for _ in range(2):
        mmalab.emulate(replace(kernel, prepare=None, validate=None), values, target="sm_90a")
        assert not words.any()
        assert differing(kernel, args, "sm_90") == 0
        args[2][...] = np.nan


def test_blocks_that_share_tiles_need_not_be_there_together():
    """A chip that others use as well runs block after block: each waits for the ones before."""
    kernel = gemm(136, 320, 128, tile=(128, 128), copy="tma", waves="even", sms=2)
    assert kernel.facts["waves"] == "even"
    assert kernel.grid[0] > 2
    args = arguments(kernel)
    emulate(kernel, args, target="sm_90a", sanitize=False, executor=lambda machine, most:
            Interpreter(machine, max_steps=most, resident=1).run())
    assert differing(kernel, args, "sm_90") == 0


def test_large_tiles_read_shared_memory_without_conflicts():
    """Dealt columns cost neither cp.async nor ldmatrix a pass."""
    kernel = gemm(256, 128, 64, tile=(256, 128))
    run = emulated(kernel, "sm_80")
    loads, copies = (run.counters[f"instructions.{name}"] for name in ("ldmatrix", "cp.async"))
    assert loads == 8 * 2 * 2 * 8  # warps, slices, k-steps, ldmatrix.x4 of a k-step
    assert run.counters["shared.wavefronts.ldmatrix"] == 4 * loads
    assert run.counters["shared.wavefronts.cp.async"] == 4 * copies


@pytest.mark.parametrize("choice", [{}, {"dtype": "tf32"}, {"dtype": "e4m3", "promote_every": 64}])
@pytest.mark.parametrize("target", ["sm_89", "sm_90"])
def test_random_bit_patterns_give_the_reference(choice, target):
    """NaN, Inf, subnormals and zeros of both signs come out as the chip's arithmetic has them."""
    emulated(gemm(64, 40, 72, **choice), target, mix="bits", sanitize=False)


@pytest.mark.parametrize("attempt", range(3))
def test_random_sizes_and_choices(attempt):
    """Sizes, type, layout and stages drawn afresh give the reference's bits."""
    seed = secrets.randbits(32)
    print(f"seed {seed}, attempt {attempt}")
    rng = np.random.default_rng(seed)
    m, n, k = (int(8 * rng.integers(1, top)) for top in (34, 34, 50))
    dtype = str(rng.choice(["bf16", "tf32", "e4m3", "s8"]))
    layout = str(rng.choice(["swizzled", "padded", "plain"]))
    emulated(gemm(m, n, k, dtype, layout, int(rng.integers(2, 5))), "sm_90", sanitize=False)


@pytest.mark.parametrize("schedule", ["lazy", 7])
def test_no_schedule_of_the_copies_changes_the_result(schedule):
    """Copies that finish as late as they may, or at any time, leave the result as it is."""
    run = emulated(gemm(24, 136, 328), "sm_90", schedule=schedule)
    assert run.findings == []


def test_a_loop_and_its_unrolled_ends_agree():
    """Slices in the loop, before and behind it give one result for K around whole rounds."""
    for slices in range(1, 13):
        emulated(gemm(16, 16, 32 * slices, stages=3), "sm_90", sanitize=False)


def test_promotion_changes_the_result_on_ada():
    """FP8 sums promoted every 64 values are nearer to the exact product than one chain."""
    plain, promoted = (gemm(16, 16, 1024, "e4m3", promote_every=p) for p in (None, 64))
    args = arguments(plain)
    exact = args[0].astype(np.float64) @ args[1].astype(np.float64).T
    errors = []
    for kernel in (plain, promoted):
        mmalab.emulate(kernel, args, target="sm_89", sanitize=False)
        errors.append(float(np.sqrt(np.mean((args[2] - exact) ** 2))))
    assert errors[1] < errors[0] / 3


def test_every_rung_gives_its_reference():
    """The kernels of the ladder are right, by name, at one small size with edges."""
    for name, factory in ladder("sm80_mma").items():
        print(name)
        emulated(factory(48, 32, 80), "sm_90", sanitize=False)


def test_raw_words_are_taken_as_they_are():
    """uint16 words in place of bf16 arrays give the same bits."""
    kernel = gemm(16, 16, 32)
    args = arguments(kernel)
    mmalab.emulate(kernel, args, sanitize=False)
    raw = [args[0].view(np.uint16), args[1].view(np.uint16), np.zeros((16, 16), np.uint32)]
    mmalab.emulate(kernel, raw, sanitize=False)
    assert np.array_equal(raw[2], args[2].view(np.uint32))
    assert differing(kernel, raw, "sm_80") == 0


@pytest.mark.parametrize(("layout", "each"), [("plain", 16), ("padded", 4), ("swizzled", 4)])
def test_counted_wavefronts_are_those_of_the_layout(layout, each):
    """The emulator counts for ldmatrix what the kernel's own layout predicts: 16, 4 and 4."""
    kernel = gemm(128, 128, 64, layout=layout)
    run = emulated(kernel, "sm_80")
    loads = run.counters["instructions.ldmatrix"]
    assert loads == 8 * 2 * 12  # warps, slices, ldmatrix.x4 of a slice
    assert run.counters["shared.wavefronts.ldmatrix"] == each * loads


@pytest.mark.parametrize("layout", ["padded", "swizzled"])
def test_copies_into_the_layout(layout):
    """cp.async writes the swizzled tile without conflicts; padding costs it a second pass."""
    kernel = gemm(128, 128, 64, layout=layout)
    run = emulated(kernel, "sm_80")
    copies = run.counters["instructions.cp.async"]
    assert copies == 8 * 2 * 4
    lanes = np.arange(32)
    pitch = 64 if layout == "swizzled" else 80
    passes, _ = wavefronts(lanes // 4 * pitch + lanes % 4 * 16, 16)
    assert run.counters["shared.wavefronts.cp.async"] == int(passes) * copies
