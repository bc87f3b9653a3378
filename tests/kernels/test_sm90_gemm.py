"""The wgmma product: right bits for every choice, nothing for the sanitizer to find."""

from __future__ import annotations

import secrets

import numpy as np
import pytest
from hopper import found_in, multiplied
from products import arguments, differing

import mmalab
from mmalab.kernels import ladder
from mmalab.kernels.sm90_wgmma import Plan, gemm

_TURNS = {"schedule": "pingpong"}
#: (m, n, k, arguments of gemm).
CHOICES = {
    "cluster along M": (200, 128, 136, {"plan": Plan((128, 64), 2, (2, 1), sms=2)}),
    "cluster along N, staged": (200, 136, 136, {
        "plan": Plan((128, 64), 2, (1, 2), sms=2, store="staged")}),
    "ping-pong": (300, 192, 136, {"plan": Plan((128, 96), 3, sms=1, **_TURNS)}),
    "ping-pong, one slice": (256, 256, 64, {"plan": Plan((64, 64), 2, sms=4, **_TURNS)}),
    "ping-pong in clusters": (300, 192, 136, {
        "plan": Plan((128, 96), 3, (2, 1), sms=2, store="staged", **_TURNS)}),
    "ping-pong, panel by panel": (300, 328, 136, {
        "plan": Plan((128, 192), 2, (2, 1), sms=2, store="staged", panels=1, **_TURNS)}),
    "two panels of three": (200, 136, 72, {"plan": Plan((128, 96), 2, store="staged", panels=2)}),
    "words panel by panel": (300, 192, 136, {
        "plan": Plan((128, 96), 3, sms=1, store="staged", panels=1, **_TURNS), "out": "f32"}),
    "words, staged": (200, 96, 144, {"plan": Plan((128, 96), 2, store="staged"), "dtype": "s8"}),
    "words, staged, to two": (600, 96, 264, {
        "plan": Plan((128, 64), 3, (2, 1), sms=2, store="staged"), "out": "f32"}),
    "words, staged, two panels of eight": (260, 512, 72, {
        "plan": Plan((128, 256), 3, sms=1, store="staged", panels=2), "dtype": "tf32"}),
    "words, staged, three groups": (500, 96, 264, {
        "plan": Plan((192, 64), 3, groups=3, sms=1, store="staged"), "out": "f32"}),
    "staged, two blocks": (520, 432, 72, {
        "plan": Plan((256, 208), 3, (1, 2), sms=2, store="staged", panels=3)}),
    "staged, promoted": (260, 96, 400, {
        "plan": Plan((128, 64), 3, sms=1, store="staged"), "dtype": "e4m3", "out": "bf16",
        "promote_every": 128}),
    "any columns": (131, 133, 72, {"plan": Plan((128, 64), 2, store="direct")}),
    "any columns, f32": (131, 133, 72, {"plan": Plan((128, 64), 2, store="direct"),
                                        "out": "f32"}),
    "dealt by sixteens": (130, 144, 136, {"plan": Plan((128, 48), 2)}),
    "dealt by sixteens to two": (300, 144, 136, {"plan": Plan((128, 48), 2, (2, 1), sms=2)}),
    "dealt to two": (300, 192, 136, {"plan": Plan((128, 96), 2, (2, 1), sms=2)}),
    "dealt to four, a pair each": (530, 128, 72, {"plan": Plan((128, 64), 2, (4, 1), sms=4)}),
    "three groups": (200, 64, 72, {"plan": Plan((192, 64), 2, groups=3)}),
    "one group": (70, 64, 72, {"plan": Plan((64, 64), 2, groups=1)}),
    "f16 as f32": (130, 64, 80, {"plan": Plan((128, 64), 2), "dtype": "f16", "out": "f32"}),
    "f16 sums": (130, 64, 80, {"plan": Plan((128, 64), 2, store="staged"), "dtype": "f16",
                               "accumulate": "f16"}),
    "tf32": (130, 64, 44, {"plan": Plan((128, 64), 2), "dtype": "tf32"}),
    "e5m2": (130, 64, 144, {"plan": Plan((128, 64), 2), "dtype": "e5m2", "out": "f16"}),
    "s8": (130, 64, 144, {"plan": Plan((128, 64), 2), "dtype": "s8"}),
    "promoted": (130, 64, 272, {"plan": Plan((128, 64), 2), "dtype": "e4m3", "out": "bf16",
                                "promote_every": 128}),
    "promoted, two sets": (130, 64, 272, {
        "plan": Plan((128, 64), 2, part=32, parts=2), "dtype": "e4m3", "promote_every": 64}),
    "block scales": (130, 160, 256, {
        "plan": Plan((128, 128), 2, part=64, parts=2), "dtype": "e4m3", "out": "bf16",
        "scaled": True}),
}


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_result_is_the_reference_bit_for_bit(choice):
    """Every choice, with edges in M, N and K, writes the reference's bits and is clean."""
    m, n, k, given = choice
    run = multiplied(gemm(m, n, k, **given))
    assert run.findings == []
    assert set(run.fidelity.values()) == {"exact"}


@pytest.mark.parametrize(("k", "dtype"), [(100, "bf16"), (98, "bf16"), (97, "bf16"), (76, "e4m3"),
                                          (78, "s8"), (35, "tf32")])
def test_rows_of_any_alignment(k, dtype):
    """Rows that begin at 8, 4 or 2 bytes are gathered; edges and the end of K are zeros."""
    kernel = gemm(70, 67, k, dtype, plan=Plan((128, 64), 4, store="direct"))
    assert kernel.facts["copy"] == "threads"
    assert multiplied(kernel).findings == []


def test_gathered_slices_beyond_the_ring():
    """More slices than stages, and more tiles than one: nobody waits for a stage untold."""
    kernel = gemm(70, 35, 357, plan=Plan((64, 32), 4, groups=1, store="direct", sms=1))
    assert multiplied(kernel).findings == []


@pytest.mark.parametrize("schedule", ["lazy", 7])
@pytest.mark.parametrize("given", [
    {"plan": Plan((128, 64), 2, (2, 1), sms=2)},
    {"plan": Plan((128, 64), 2, sms=1, store="staged")},
    {"plan": Plan((128, 64), 2, sms=1, **_TURNS)},
    {"plan": Plan((128, 64), 3, (2, 1), sms=2, store="staged", panels=1), "out": "f32"},
])
def test_no_schedule_of_the_copies_changes_the_result(schedule, given):
    """Copies and products that finish as late as they may, or at any time, change nothing."""
    run = multiplied(gemm(260, 64, 200, **given), schedule=schedule)
    assert run.findings == []


def test_words_are_laid_out_without_conflicts():
    """Eight lanes that store 16 bytes of two rows together meet in no bank."""
    run = multiplied(gemm(128, 64, 72, out="f32", plan=Plan((128, 64), 2, sms=1, store="staged")))
    stores = run.counters["instructions.st"]
    assert stores == 8 * 2 * 2 * 2  # warps, panels, halves, chunks
    assert run.counters["shared.wavefronts.st"] == 4 * stores


@pytest.mark.parametrize(("old", "new", "found"), [
    (r"    @%p\d+ cp\.async\.bulk\.wait_group\.read 0;\n", "", "missing-bulk-wait"),
    (r"    fence\.proxy\.async\.shared::cta;\n", "", "missing-proxy-fence"),
    (r"    @%p\d+ cp\.async\.bulk\.wait_group 0;\n", "", "missing-bulk-wait"),
])
def test_what_stages_words_is_needed(old, new, found):
    """Without any one wait or fence between C, TMA and the next tile the sanitizer names it."""
    kernel = gemm(300, 96, 648, out="f32", plan=Plan((128, 64), 3, store="staged", sms=1))
    assert found_in(kernel, old, new) == {found}


@pytest.mark.parametrize("given", [
    {"n": 96, "k": 72, "plan": Plan((128, 64), 2, sms=2)},
    {"n": 96, "k": 72, "plan": Plan((128, 64), 2, sms=2, store="staged")},
    {"n": 96, "k": 72, "plan": Plan((128, 64), 3, sms=2, store="staged"), "out": "f32"},
    {"n": 34, "k": 36, "plan": Plan((128, 64), 2, store="direct", flight=0)},
])
def test_batches(given):
    """Matrices behind each other: a tile's rows past its own are not stored, by any way out."""
    assert multiplied(gemm(130, batch=3, **given)).findings == []


def test_experts():
    """Each 128 rows of A are multiplied by the B that the array names."""
    kernel = gemm(384, 96, 72, experts=3, plan=Plan((128, 64), 2, sms=2))
    args = arguments(kernel)
    args[2][:] = [2, 0, 2]
    run = mmalab.emulate(kernel, args, target="sm_90a")
    assert run.findings == []
    assert differing(kernel, args, "sm_90") == 0


def test_random_bit_patterns_give_the_reference():
    """NaN, Inf, subnormals and zeros of both signs come out as the chip's arithmetic has them."""
    for dtype in ("bf16", "e4m3"):
        multiplied(gemm(66, 32, 144, dtype, out="bf16", plan=Plan((128, 32), 2)), mix="bits",
                   sanitize=False)


def test_random_sizes_and_plans():
    """Sizes, type, tile, cluster and store drawn afresh give the reference's bits."""
    rng = np.random.default_rng(seed := secrets.randbits(32))
    print(f"seed {seed}")
    for _ in range(2):
        m, n, k = (int(x) for x in rng.integers(1, 300, 3))
        dtype = str(rng.choice(["bf16", "e4m3", "s8"]))
        k += k % 2 if dtype != "bf16" else 0
        aligned = k * (2 if dtype == "bf16" else 1) % 16 == 0
        cluster = (2, 1) if aligned and rng.integers(2) else (1, 1)
        plan = Plan((128, 64), int(rng.integers(2, 5)), cluster, store="direct", sms=2)
        print(m, n, k, dtype, plan)
        multiplied(gemm(m, n, k, dtype, plan=plan), sanitize=False)


def test_promotion_brings_the_sums_nearer():
    """FP8 sums promoted every 128 values are nearer to the exact product than one chain."""
    plan = Plan((128, 32), 2)
    kernels = [gemm(64, 32, 2048, "e4m3", plan=plan, promote_every=every)
               for every in (None, 128)]
    args = arguments(kernels[0])
    exact = args[0].astype(np.float64) @ args[1].astype(np.float64).T
    errors = []
    for kernel in kernels:
        mmalab.emulate(kernel, args, target="sm_90a", sanitize=False)
        errors.append(float(np.sqrt(np.mean((args[2] - exact) ** 2))))
    assert errors[1] < errors[0] / 3


@pytest.mark.parametrize("name", [name for name in ladder("sm90_wgmma") if "_e4m3" not in name])
def test_rungs_give_their_reference(name):
    """The rungs are right, by name, at one small size with edges."""
    multiplied(ladder("sm90_wgmma")[name](130, 144, 144), sanitize=False)
