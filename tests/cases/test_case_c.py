"""C: pipelines that hang or race; each faulty kernel has a clean twin.

A fault counts as found when the finding names its cause, and its repair is what the twin does.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.pipelines import TWINS

import mmalab
from mmalab import atlas

_SCHEDULES: list[str | int] = ["eager", "lazy", 1]
_LITMUS = Path(__file__).parent.parent / "litmus" / "kernels"


def _arguments(name: str) -> list[Any]:
    rng = np.random.default_rng()
    if name.startswith("c02"):
        tile = rng.integers(0, 1 << 16, (16, 64), np.uint16)
        return [mmalab.TensorMap.tiled(tile, box=(64, 16)), np.full(32, 0xFFFFFFFF, np.uint32)]
    if name.startswith("c04"):
        return [rng.integers(0, 1 << 32, 1536, np.uint32), np.full(64, 0xFFFFFFFF, np.uint32)]
    if name.startswith("c05"):
        return [np.full(64, 0xFFFFFFFF, np.uint64)]
    return [np.ones((128, 4), np.float32)] if name.startswith("c08") else []


def _run(name: str, schedule: str | int = "eager") -> tuple[Any, list[Any]]:
    given = _arguments(name)
    return mmalab.emulate(TWINS[name](), given, schedule=schedule), given


@cache
def _messages(name: str) -> dict[str, str]:
    """The findings of a kernel by code: all their words together."""
    found: dict[str, str] = {}
    for one in _run(name)[0].findings:
        if one.severity != "note":
            found[one.code] = f"{found.get(one.code, '')}{one.message}\n"
    return found


@pytest.mark.parametrize("schedule", _SCHEDULES)
@pytest.mark.parametrize("name", [
    "c01_ring", "c01_ring_two_tiles", "c01_leader", "c02_announced", "c04_copies",
    "c04_wait_for_all", "c05_reused", "c05_reused_as_barrier", "c08_product"])
def test_the_twins_are_clean(name: str, schedule: str | int) -> None:
    """No finding under any schedule."""
    assert [str(one) for one in _run(name, schedule)[0].findings] == []


# --- C01 ------------------------------------------------------------------------------------------

def test_c01_parity() -> None:
    """C01: which wait can never complete, in which step, and why?"""
    fresh = _messages("c01_ring_first_parity")["deadlock"]
    assert "nobody has arrived on any mbarrier" in fresh
    assert "first wait uses parity 1, which a fresh mbarrier passes" in fresh
    again = _messages("c01_ring_restarted")["deadlock"]
    assert "arrived 5 times so far, waits for phase 1" in again
    assert "has not waited for phase 0" in again
    assert "from tile to tile" in again
    stuck = _messages("c01_ring_no_flip")
    assert "slept through phase 0" in stuck["deadlock"]
    assert "a parity that flips each time round" in stuck["deadlock"]


@pytest.mark.parametrize("schedule", _SCHEDULES)
def test_c01_a_leader_that_arrives_before_its_warps(schedule: str | int) -> None:
    """C01: one warp arrives for four, and the producer laps those that still wait."""
    found = [one for one in _run("c01_leader_alone", schedule)[0].findings
             if one.code == "mbarrier-phase"]
    assert found
    assert "may still be waiting for phase" in found[0].message
    assert "synchronise them" in found[0].message


# --- C02 ------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("name", "announced"), [("c02_announced_half", 1024),
                                                 ("c02_announced_twice", 4096)])
def test_c02_announced_bytes(name: str, announced: int) -> None:
    """C02: too few and too many bytes; the finding says how many come."""
    found = _messages(name)
    assert "2048" in found["tx-mismatch"]
    assert f"promised {announced} bytes" in found["deadlock"]
    assert "announce 2048 bytes" in found["deadlock"]


@pytest.mark.parametrize(("name", "codes"), [("c02_announced", set()),
                                             ("c02_announced_half", {"tx-mismatch", "deadlock"})])
def test_c02_a_box_over_the_edge_counts_whole(name: str, codes: set[str]) -> None:
    """C02: of a box that reaches over the edge all bytes are announced: the rest comes as zeros."""
    tile = np.random.default_rng().integers(1, 1 << 16, (8, 64), np.uint16)
    out = np.full(32, 0xFFFFFFFF, np.uint32)
    run = mmalab.emulate(TWINS[name](), [mmalab.TensorMap.tiled(tile, box=(64, 16)), out])
    assert {one.code for one in run.findings} == codes
    if not codes:
        np.testing.assert_array_equal(out, [*tile.view(np.uint32)[:, ::16].reshape(-1), *[0] * 16])


# --- C04 ------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("name", "repair"), [
    ("c04_wait_too_loose", "cp.async.wait_group 1 instead of 2"),
    ("c04_commit_late", "the cp.async.commit_group behind the wait in line"),
    ("c04_no_tail", "1 more cp.async.commit_group (empty ones count) before it"),
])
def test_c04_groups(name: str, repair: str) -> None:
    """C04: with S stages the steady wait is S - 2; commits come first, also empty ones at the end.

    Three stages: 2 pending groups are one too many, 0 are right and wait longer."""
    assert repair in _messages(name)["missing-cp-async-wait"]


@pytest.mark.parametrize("name", ["c04_copies", "c04_wait_for_all"])
def test_c04_the_right_sums(name: str) -> None:
    run, (source, out) = _run(name, "lazy")
    assert run.findings == []
    words = source.reshape(6, 64, 4)[:, :, 0].sum(axis=0, dtype=np.uint32)
    np.testing.assert_array_equal(out, words[np.arange(64) ^ 32])


# --- C05 ------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("name", "words"), [
    ("c05_not_invalidated", ("overwrites the live mbarrier", "mbarrier.inval first")),
    ("c05_barrier_over_barrier", ("is still live", "mbarrier.inval first")),
    ("c05_too_early", ("no order between the use of the mbarrier", "wait, then bar.sync")),
])
def test_c05_memory_of_a_barrier(name: str, words: tuple[str, ...]) -> None:
    """C05: data or another barrier over a live one, and inval while others still wait."""
    said = _messages(name)["mbarrier-lifetime"]
    assert all(word in said for word in words)


# --- C07 ------------------------------------------------------------------------------------------

#: The collection's nine faults: (kernel, codes of which one is right, its clean twin).
_NINE: dict[str, tuple[str, tuple[str, ...], str]] = {
    "wrong parity": ("mbar_ring_producer_parity", ("deadlock",), "mbar_ring"),
    "late wait": ("cpasync_barrier_before_wait", ("missing-barrier",), "cpasync_wait"),
    "missing wait": ("bulk_load_no_wait", ("missing-mbarrier-wait",), "bulk_load"),
    "missing proxy fence": ("bulk_store_no_fence", ("missing-proxy-fence",),
                            "bulk_store_two_stage"),
    "bytes differ": ("bulk_load_expect_less", ("tx-mismatch",), "bulk_load"),
    "missing wgmma wait": ("c08_no_wait", ("missing-wgmma-wait",), "c08_product"),
    "early release": ("mbar_ring_early_release", ("missing-barrier",), "mbar_ring"),
    "missing commit": ("cpasync_no_commit", ("missing-cp-async-wait",), "cpasync_wait"),
    "two kinds of barrier": ("cluster_mixed_barriers", ("missing-barrier", "cluster-lifetime",
                                                        "missing-mbarrier-wait", "deadlock"),
                             "cluster_mixed_barriers_right"),
}


@pytest.mark.parametrize("fault", _NINE)
def test_c07_nine_seeded_faults(ask, fault: str) -> None:
    """C07: which faults does the detector find, and is it silent about the right kernels?

    (tests/mutants has fifty more in one pipeline, tests/litmus two hundred small kernels.)"""
    faulty, codes, clean = _NINE[fault]
    found = ask("run", *_command(faulty), "--json")
    assert found.code == 1
    assert {one["code"] for one in found.json["findings"]} & set(codes), found.json["findings"]
    right = ask("run", *_command(clean), "--json")
    assert (right.code, right.json["verdict"]) == (0, "clean"), right.json["findings"]


def _command(name: str) -> list[str]:
    """The words of ``mmalab run`` for a kernel of ours or of the litmus set."""
    if name in TWINS:
        return [f"{name}.ptx", "--arg", "out:512:f32:sums.npy"]
    from litmus.litmus_kernels import KERNELS

    row = KERNELS[name]
    words = [str(_LITMUS / f"{name}.ptx"), "--grid", ",".join(map(str, row["grid"])), "--block",
             ",".join(map(str, row["block"])), "--shared", str(row["shared"])]
    if row.get("cluster"):
        words += ["--cluster", ",".join(map(str, row["cluster"]))]
    for given in row["args"]:
        words += ["--arg", given.replace("in:", f"in:{_LITMUS.parent}/", 1) if given.startswith(
            "in:") else given.replace(":in:", f":in:{_LITMUS.parent}/")]
    return words


# --- C08 ------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("name", "code", "words"), [
    ("c08_no_fence", "missing-wgmma-fence", "wgmma.fence.sync.aligned before line"),
    ("c08_no_wait", "missing-wgmma-wait", "wgmma.wait_group 0 before"),
    ("c08_no_commit", "missing-wgmma-wait", "wgmma.commit_group before the wait in line"),
    ("c08_overwritten", "missing-wgmma-wait", "writes shared bytes"),
])
def test_c08_fences_and_waits(name: str, code: str, words: str) -> None:
    """C08: is the code wrong, slow, or both? All four are wrong; ptxas tells of two at most."""
    assert words in _messages(name)[code]


@pytest.mark.toolkit
def test_c08_the_assembler_is_silent_about_shared_memory() -> None:
    """C08: C7517 for the wait; nothing for the commit, nor for operands that are overwritten."""
    said = {name: atlas.build(TWINS[name]()).messages for name in (
        "c08_no_wait", "c08_no_commit", "c08_overwritten", "c08_product")}
    assert any("wgmma.wait_group is injected" in word for word in said.pop("c08_no_wait"))
    assert not any(said.values())


# --- C10, C11 -------------------------------------------------------------------------------------

@pytest.mark.parametrize(("fields", "rule", "legal"), [
    (["dims=511,64", "box=64,64"], "1022 is not a multiple of 16 bytes", "rows of 512 bf16"),
    (["dims=512,64", "box=128,64"], "256 bytes, more than the swizzle's 128", "64 elements"),
    (["dims=512,512", "box=64,257"], "257 is not a box size", "1 to 256"),
    (["dims=512,512", "box=60,64"], "120 inner bytes are no multiple of 16", "8 elements"),
    (["dims=512,64", "box=64,64", "address=0"], "is the null pointer", "a multiple of 16"),
    (["dims=512,64", "box=64,64", "address=8"], "not 16-byte aligned", "a multiple of 16"),
    (["dims=512,64", "box=64,64", "strides=1099511627776"], "below 2^40", "1099511627760"),
])
def test_c10_limits_of_a_tensor_map(ask, fields: list[str], rule: str, legal: str) -> None:
    """C10: "invalid value" and fifteen numbers. Which limit, and the nearest that keeps it?"""
    said = ask("descriptor", "tensormap", "--encode", "dtype=bf16", "swizzle=128B", *fields)
    assert said.code == 2
    assert rule in said.text
    assert legal in said.text


def test_c10_a_right_map(ask) -> None:
    said = ask("descriptor", "tensormap", "--encode", "dtype=bf16", "swizzle=128B", "dims=512,64",
               "box=64,64", "address=4096")
    assert said.code == 0
    assert "bytes that a copy counts: 8192" in said.text


@pytest.mark.parametrize(("inner", "past"), [(466, 14), (465, 15), (464, 0), (15, 1), (1, 15)])
def test_c11_past_a_ragged_row(ask, inner: int, past: int) -> None:
    """C11: bytes behind a row of int8 that a tensor store touches."""
    said = ask("descriptor", "tensormap", "--encode", "dtype=u8", f"dims={inner},64",
               "strides=512", "box=128,64")
    assert (f"{past} past the row" in said.text) == bool(past)
