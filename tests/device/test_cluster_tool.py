"""tools/gpu_cluster.py without a GPU: the exchanges do what a few lines of NumPy say, every form of
st.async and red.async is among them, and a difference is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pretend import INFO, tool

import mmalab
from mmalab import isa
from mmalab.kernels.one_exchange import COPIED
from mmalab.tensormap import TensorMap
from mmalab.toolchain import assemble

TOOL = tool("gpu_cluster")
BY_NAME = {str(setup): setup for setup in TOOL.setups()}
TX = "mbarrier::complete_tx::bytes"


def ran(name: str) -> tuple[Any, list[Any], list[Any]]:
    """The setup, its arguments before, and after the emulator."""
    setup = BY_NAME[name]
    args = TOOL.arguments(setup, np.random.default_rng(11))
    before = [value.copy() if isinstance(value, np.ndarray) else value for value in args]
    assert mmalab.emulate(setup.kernel(), args).verdict == "clean"
    return setup, before, args


def sent(setup: Any, routes: NDArray[np.uint32]) -> list[tuple[int, int, int, int]]:
    """(CTA, thread, the other CTA, the place there) of every thread."""
    ctas, threads = routes.shape[:2]
    return [(cta, t, cta // setup.ctas * setup.ctas + int(routes[cta, t, 0]),
             int(routes[cta, t, 1])) for cta in range(ctas) for t in range(threads)]


def reduced(image: NDArray[np.uint8], at: tuple[int, int], word: NDArray[Any],
            how: Callable[[Any, Any], Any]) -> None:
    """image[at] = how(image[at], word), in the word's type."""
    cta, place = at
    part = image[cta, place : place + word.nbytes]
    with np.errstate(over="ignore"):
        part[:] = np.asarray([how(part.view(word.dtype)[0], word[0])], word.dtype).view(np.uint8)


STORES = [f"st.async st.async.{TX}.b32 in 16x1x1", f"st.async st.async.{TX}.v4.f32 in 8x1x1",
          f"st.async st.async.shared::cluster.{TX}.v2.b64 in 2x1x1",
          f"st.async st.async.shared::cluster.{TX}.v4.b32 in 2x2x4",
          "remote st.shared::cluster.v2.b32 in 16x1x1", "remote st.release.cluster.b64 in 8x1x1"]


@pytest.mark.parametrize("name", STORES)
def test_stores_arrive(name: str) -> None:
    """Words of a thread, at its place in the other CTA, and nothing else."""
    setup, (image, routes, words, *_), args = ran(name)
    size = TOOL.sent(setup.opcode)
    for cta, t, other, place in sent(setup, routes):
        image[other, place : place + size] = words[cta, t].view(np.uint8)[:size]
    np.testing.assert_array_equal(args[3], image)
    if "async" in name:
        assert (args[5] == 1).all()


REDUCTIONS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    f"red.async red.async.relaxed.cluster.{TX}.add.u64 in 16x1x1": ("u8", lambda x, y: x + y),
    f"red.async red.async.relaxed.cluster.shared::cluster.{TX}.max.s32 in 8x1x1": ("i4", max),
    f"red.async red.async.relaxed.cluster.{TX}.inc.u32 in 2x1x1":
        ("u4", lambda x, y: 0 if x >= y else x + 1),
    f"red.async red.async.relaxed.cluster.{TX}.xor.b32 in 16x1x1 crowded":
        ("u4", lambda x, y: x ^ y),
    "remote red.shared::cluster.add.u32 in 16x1x1": ("u4", lambda x, y: x + y),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_add_up(name: str) -> None:
    setup, (image, routes, words, *_), args = ran(name)
    kind, how = REDUCTIONS[name]
    for cta, t, other, place in sent(setup, routes):
        reduced(image, (other, place), words[cta, t].view(kind)[:1], how)
    np.testing.assert_array_equal(args[3], image)


def test_loads_and_atomics_receive() -> None:
    """What lay there before."""
    for name, size in (("remote ld.shared::cluster.v4.b32 in 4x4x1", 16),
                       ("remote atom.shared::cluster.add.u32 in 16x1x1", 4)):
        setup, (image, routes, *_), args = ran(name)
        for cta, t, other, place in sent(setup, routes):
            assert (args[4][cta, t].view(np.uint8)[:size]
                    == image[other, place : place + size]).all()


@pytest.mark.parametrize("shape", ["16x1x1", "2x2x4", "2x1x1"])
def test_multicasts_reach_the_mask(shape: str) -> None:
    """Bytes of global memory in a slot of the sender's, in the CTAs of the mask alone."""
    setup, (image, routes, words, *_), args = ran(f"multicast {TOOL.MULTICAST} in {shape}")
    for cta in range(len(image)):
        first = cta // setup.ctas * setup.ctas
        for rank in range(setup.ctas):
            if routes[cta, 0, 2] >> rank & 1:
                at = int(routes[cta, 0, 1])
                image[first + rank, at : at + COPIED] = words[cta].view(np.uint8).ravel()[:COPIED]
    np.testing.assert_array_equal(args[3], image)
    assert (args[5] == 1).all()


def test_tensor_multicasts_are_swizzled() -> None:
    """Eight rows of 128 bytes: chunk c of row r lies at chunk c ^ r."""
    setup, (made, image, routes, *_), args = ran(f"multicast {TOOL.TENSOR} in 16x1x1")
    assert isinstance(made, TensorMap)
    rows = np.asarray(made.array)
    for cta in range(len(image)):
        first = cta // setup.ctas * setup.ctas
        box = rows[routes[cta, 0, 0] :][:8].reshape(8, 8, 16)
        swizzled = np.stack([box[r, np.arange(8) ^ r] for r in range(8)]).ravel()
        for rank in range(setup.ctas):
            if routes[cta, 0, 2] >> rank & 1:
                at = int(routes[cta, 0, 1])
                image[first + rank, at : at + 1024] = swizzled
    np.testing.assert_array_equal(args[4], image)


def test_every_completing_form_is_there() -> None:
    """st.async and red.async with an mbarrier, generic and named, in clusters of 16 too; b128 is
    newer than the oldest toolkit that may assemble them."""
    ran = {setup.opcode for setup in TOOL.setups() if setup.ctas == 16}
    known = {key for name in ("st.async", "red.async") for key in isa.forms(name) if TX in key}
    assert known - ran == {key for key in known if key.endswith(".b128")}
    assert {setup.ctas for setup in TOOL.setups() if setup.family == "multicast"} == {2, 4, 8, 16}


@pytest.mark.toolkit
def test_all_assemble() -> None:
    """Each opcode once, for Hopper."""
    once = {setup.opcode: setup for setup in TOOL.setups()}
    for setup in list(once.values())[::7]:
        assert assemble(setup.kernel().ptx, "sm_90a").bytes


def on_this_machine(task: Any, count: int, **_: Any) -> list[Any]:
    """``apart.each`` in this process; what the device would do, the emulator does."""
    return [partial(task.func, **{**task.keywords, "on_device": False})(number)
            for number in range(count)]


def spoilt(task: Any, count: int, **given: Any) -> list[Any]:
    """The same, but a bit of what the device wrote is wrong."""
    found = on_this_machine(task, count, **given)
    if task.keywords["on_device"]:
        found[0][0][0][1, 7] ^= 1
    return found


@pytest.mark.parametrize(("how", "code"), [(on_this_machine, 0), (spoilt, 1)])
def test_the_record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: Any, code: int) -> None:
    monkeypatch.setattr(TOOL, "each", how)
    monkeypatch.setattr(mmalab.device, "info", lambda gpu=0: INFO)
    out = tmp_path / "record.json"
    assert TOOL.main(["--only", "bulk cp", "--seed", "5", "--out", str(out)]) == code
    record = json.loads(out.read_text())
    assert record["mismatches"] == code
    assert record["not_compared"] == []
    assert set(record["clusters"]) == {"2", "4", "8", "16"}
    if code:
        assert record["cases"][0]["first"]["where"] == "shared memory"
        assert record["cases"][0]["first"]["at"] == [1, 7]


def test_what_the_device_says_is_kept() -> None:
    setup = TOOL.setups()[0]
    row = TOOL.compare(setup, ([np.zeros(1)], ""), ([], "CUDA_ERROR_X: a fresh process"))
    assert row["device"].startswith("CUDA_ERROR_X")
    assert "mismatches" not in row
    assert TOOL.lost(([], "a fresh process"))
