"""Every spelling of the mbarrier instructions runs, at home and across the cluster, and counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulation import run_kernel

from mmalab.isa.lookup import find, forms

MODULE = ".shared .align 8 .b64 bar[4];\n"
KEYS = sorted(key for key in forms() if key.startswith("mbarrier.") and "inval" not in key)
#: A thread of each of two CTAs; %r91 is the own object, %r72 the peer's, both with 9 arrivals.
KERNEL = """
    mov.u32 %r91, bar; mov.u32 %r93, %cluster_ctarank; xor.b32 %r70, %r93, 1;
    mapa.shared::cluster.u32 %r72, %r91, %r70; mov.u32 %r5, 1; mov.u32 %r6, 2;
    cvt.u64.u32 %rd5, %r91; cvta.shared.u64 %rd5, %rd5;
    mbarrier.init.shared::cta.b64 [%r91], 9;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mbarrier.arrive.shared::cta.b64 %rd1, [%r91];
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    {instruction};
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    ld.shared.u64 %rd3, [%r91];
    shl.b32 %r8, %r93, 3; cvt.u64.u32 %rd4, %r8; add.s64 %rd4, %rd40, %rd4;
    st.global.u64 [%rd4], %rd3;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    ret;
"""


def instruction(key: str, *, counted: bool) -> str:
    """The instruction with operands of the form's kinds."""
    form = find(key)
    remote = "shared::cluster" in key
    texts = []
    for spec in form.operands:
        if spec.optional and not counted:
            continue
        if spec.role == "address":
            texts.append("[%r72]" if remote else "[%r91]" if "shared" in key else "[%rd5]")
        elif spec.role == "sink":
            texts.append("_")
        elif spec.role == "write":
            texts.append({"pred": "%p1", "u32": "%r9"}.get(spec.type, "%rd2"))
        else:
            texts.append({"state": "%rd1", "parity": "%r5"}.get(spec.name, "%r6"))
    return f"{key} {', '.join(texts)}"


def words(key: str, *, counted: bool) -> Any:
    """The two objects after it, decoded: (pending, tx, expected)."""
    out = np.zeros(2, np.uint64)
    text = instruction(key, counted=counted)
    # what .parity 1 waits for has completed; the rest must not wait
    done = run_kernel(KERNEL.format(instruction=text), [out],
                      block=1, grid=2, cluster=2, target="sm_100a", module=MODULE, max_steps=5000)
    assert done.findings == [], [str(f) for f in done.findings]
    found = []
    for word in out.tolist():
        tx = word >> 22 & (1 << 21) - 1
        found.append((word >> 43 & (1 << 20) - 1, tx - (tx >> 20 << 21), word >> 1 & (1 << 20) - 1))
    return found


@pytest.mark.parametrize(("key", "counted"), [
    (key, counted) for key in KEYS for counted in (False, True)
    if not counted or any(spec.optional for spec in find(key).operands)])
def test_every_spelling(key: str, counted: bool) -> None:
    """Pending arrivals, bytes and expected arrivals of both objects are as the spelling says."""
    pending, tx, expected = 8, 0, 9
    parts = key.split(".")
    named = counted or "noComplete" in parts
    if parts[1] == "init":
        pending, expected = 2, 2
    elif parts[1].startswith("arrive"):
        count = 2 if named and "expect_tx" not in parts else 1
        pending -= count
        tx = 2 if "expect_tx" in parts else 0
        expected -= count if parts[1] == "arrive_drop" else 0
    elif parts[1] in ("expect_tx", "complete_tx"):
        tx = 2 if parts[1] == "expect_tx" else -2
    assert words(key, counted=counted) == [(pending, tx, expected)] * 2


@pytest.mark.parametrize(("parity", "told"), [(1, []), (-1, ["note"]), (3, ["warning"])])
@pytest.mark.parametrize("op", ["test_wait", "try_wait"])
def test_the_lowest_bit_is_the_parity(op: str, parity: int, told: list[str]) -> None:
    """Other odd numbers pass where 1 does, which PTX leaves open: -1 is a truth value."""
    out = np.zeros(1, np.uint32)
    body = f"""
    mov.u32 %r1, bar; mov.b32 %r2, {parity}; mbarrier.init.shared::cta.b64 [%r1], 1;
    mbarrier.{op}.parity.shared::cta.b64 %p1, [%r1], %r2;
    selp.u32 %r3, 1, 0, %p1; st.global.u32 [%rd40], %r3; ret;
"""
    done = run_kernel(body, [out], block=1, target="sm_90a", module=MODULE)
    assert out.tolist() == [1]
    assert [f.severity for f in done.findings] == told
    assert done.verdict == "clean"
