"""Hopper's kernels on Hopper: the reference's bits for every rung and every way in and out."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mmalab
from mmalab import formats
from mmalab.device import info
from mmalab.kernels import ladder
from mmalab.kernels.arguments import words_of
from mmalab.kernels.sm90_wgmma import Plan, gemm, skinny

pytestmark = pytest.mark.gpu

KERNELS: dict[str, Callable[[], Any]] = {
    **{name: lambda factory=factory: factory(400, 464, 400)
       for name, factory in ladder("sm90_wgmma").items()},
    **{f"{copy}, K = {k}": lambda copy=copy, k=k: gemm(301, 203, k, plan=Plan(
        (128, 64), 4, store="direct", copy=copy)) for copy in ("threads", "shifted")
       for k in (836, 838, 837)},
    **{f"loaded, K = {k}": lambda k=k: gemm(304, 208, k, plan=Plan(
        (256, 96), 4, (1, 2), store="direct", copy="shifted", left="registers"))
       for k in (836, 838, 837)},
    **{f"padded, K = {k}": lambda k=k: gemm(300, 208, k, plan=Plan(
        (128, 208), 4, (2, 1), store="staged", copy="padded")) for k in (836, 838, 837)},
    "words, staged": lambda: gemm(600, 416, 832, out="f32", plan=Plan(
        (128, 256), 3, (2, 1), sms=4, store="staged", panels=2)),
    "any columns": lambda: gemm(301, 203, 832),
    "scaled": lambda: gemm(300, 272, 512, "e4m3", out="bf16", scaled=True),
    "promoted, two sets": lambda: gemm(300, 192, 512, "e4m3", promote_every=64, plan=Plan(
        (128, 192), 5, (2, 1), part=96, parts=2)),
    "batch": lambda: gemm(200, 144, 256, batch=5),
    "one row": lambda: skinny(1, 1000, 2056),
    "64 rows, split": lambda: skinny(64, 1001, 2056, split=4),
    "s8, split": lambda: skinny(33, 1000, 2064, "s8", split=2, depth=2),
}


def _filled(param: Any, rng: np.random.Generator) -> Any:
    """N(0, 1) for inputs, 0xFF bytes for outputs."""
    dtype = formats.dtype_of(param.dtype)
    if param.role == "out":
        return np.full((*param.shape, dtype.itemsize), 0xFF, np.uint8).view(dtype)[..., 0].copy()
    if dtype.kind == "i":
        return rng.integers(-128, 128, param.shape).astype(dtype)
    return rng.standard_normal(param.shape, np.float32).astype(dtype)


@pytest.mark.parametrize("make", KERNELS.values(), ids=KERNELS)
def test_the_gpu_writes_the_references_bits(make):
    """Launched twice, so that what one launch leaves behind does not spoil the next; the emulator
    goes first, where what would hang the GPU ends with an explained deadlock."""
    if info()["capability"] != "9.0":
        pytest.skip(f"wgmma is Hopper's, this is {info()['capability']}")
    kernel = make()
    rng = np.random.default_rng(seed := secrets.randbits(32))
    print(f"seed {seed}")
    args = [np.ascontiguousarray(_filled(param, rng)) for param in kernel.params]
    (want,) = kernel.reference(args, "sm_90")
    rehearsed = [*args[:-1], _filled(kernel.params[-1], rng)]
    run = mmalab.emulate(kernel, rehearsed, sanitize=False)
    assert run.deadlock is None, run.deadlock
    assert np.array_equal(words_of(rehearsed[-1]), words_of(want))
    for _ in range(2):
        args[-1] = _filled(kernel.params[-1], rng)
        mmalab.launch(kernel, args)
        assert np.array_equal(words_of(args[-1]), words_of(want))
