"""Spellings without a state space: generic addresses, and variables that bring their own space."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulation import interpret, kernel_text

from mmalab.emulator.run import Run, emulate
from mmalab.errors import UsageError

MODULE = (".shared .align 16 .b8 tile[256];\n.shared .align 8 .b64 bar;\n"
          ".global .align 4 .u32 seven = 7;\n")
EXECUTORS = pytest.mark.parametrize("executor", [None, interpret], ids=["native", "interpreted"])


def run(body: str, args: list[Any], *, executor: Any, **options: Any) -> Run:
    """A run of a body on sm_90a, by compiled code or by the interpreter."""
    text = kernel_text(body, len(args), target="sm_90a", module=MODULE)
    chosen = {} if executor is None else {"executor": executor}
    return emulate(text, args, max_steps=20_000, **chosen, **options)


@EXECUTORS
def test_variables_bring_their_space(executor: Any) -> None:
    """ptxas makes LDS, LDG and LDL of ld without a space, by the variable that is named."""
    out = np.zeros(64, np.uint32)
    body = """
    .local .align 4 .b8 own[16];
    mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; mov.u32 %r2, 5;
    @!%p1 st.u32 [tile+4], %r2;
    st.u32 [own+8], %r1;
    bar.sync 0;
    ld.u32 %r3, [tile+4]; ld.u32 %r4, [seven]; ld.u32 %r5, [own+8];
    mad.lo.u32 %r6, %r3, %r4, %r5;
    bar.sync 0;
    atom.add.u32 %r7, [tile+4], 1;
    bar.sync 0;
    ld.u32 %r8, [tile+4]; add.u32 %r6, %r6, %r8;
    mul.wide.u32 %rd1, %r1, 4; add.s64 %rd1, %rd40, %rd1; st.global.u32 [%rd1], %r6; ret;
"""
    done = run(body, [out], block=64, executor=executor)
    assert done.findings == [], [str(f) for f in done.findings]
    assert out.tolist() == [5 * 7 + t + 5 + 64 for t in range(64)]


@EXECUTORS
def test_barriers_and_matrices_by_name(executor: Any) -> None:
    """mbarrier, ldmatrix and stmatrix without .shared, on variables."""
    out = np.zeros(32, np.uint32)
    body = """
    mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; mov.u32 %r2, 0x10001;
    @!%p1 mbarrier.init.b64 [bar], 32;
    shl.b32 %r3, %r1, 4; cvt.u64.u32 %rd1, %r3; mov.u64 %rd2, tile; cvta.shared.u64 %rd2, %rd2;
    add.s64 %rd1, %rd2, %rd1; and.b64 %rd1, %rd1, -129;
    bar.sync 0;
    stmatrix.sync.aligned.m8n8.x1.b16 [%rd1], {%r2};
    mbarrier.arrive.b64 %rd3, [bar];
W:  mbarrier.test_wait.b64 %p2, [bar], %rd3; @!%p2 bra W;
    ldmatrix.sync.aligned.m8n8.x1.b16 {%r4}, [%rd1];
    mul.wide.u32 %rd4, %r1, 4; add.s64 %rd4, %rd40, %rd4; st.global.u32 [%rd4], %r4; ret;
"""
    done = run(body, [out], block=32, executor=executor)
    assert done.findings == [], [str(f) for f in done.findings]
    assert set(out.tolist()) == {0x10001}


TO_THE_PEER = """
    mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; setp.ne.u32 %p1, %r1, 0;
    mul.wide.u32 %rd9, %r1, 4; mov.u64 %rd1, tile; cvta.shared.u64 %rd1, %rd1;
    mov.u32 %r3, 100; st.shared.u32 [tile], %r3;
    @!%p1 mbarrier.init.b64 [bar], 1;
    @!%p1 mbarrier.arrive.expect_tx.b64 _, [bar], 4;
    barrier.cluster.arrive; barrier.cluster.wait;
    xor.b32 %r4, %r2, 1; mov.u64 %rd2, bar; cvta.shared.u64 %rd2, %rd2;
    mapa.u64 %rd3, %rd1, %r4; mapa.u64 %rd4, %rd2, %r4; add.u32 %r5, %r2, 7;
    @!%p1 {instruction} [%rd3], %r5, [%rd4];
W:  mbarrier.try_wait.parity.acquire.cluster.b64 %p2, [bar], 0; @!%p2 bra W;
    ld.shared.u32 %r6, [tile]; cvt.u64.u32 %rd5, %r2; shl.b64 %rd5, %rd5, 2;
    add.s64 %rd5, %rd40, %rd5; st.global.u32 [%rd5], %r6;
    barrier.cluster.arrive; barrier.cluster.wait; ret;
"""


@EXECUTORS
@pytest.mark.parametrize(("instruction", "want"), [
    ("st.async.mbarrier::complete_tx::bytes.u32", [8, 7]),
    ("red.async.relaxed.cluster.mbarrier::complete_tx::bytes.add.u32", [108, 107])])
def test_asynchronous_stores_by_generic_address(executor: Any, instruction: str, want: list[int],
                                                ) -> None:
    """mapa.u64 gives generic addresses in the peer; both operands of the spelling take them."""
    out = np.zeros(2, np.uint32)
    done = run(TO_THE_PEER.format(instruction=instruction), [out], block=32, grid=2, cluster=2,
               executor=executor)
    assert done.findings == [], [str(f) for f in done.findings]
    assert out.tolist() == want


@pytest.mark.parametrize(("instruction", "words"), [
    ("st.async.mbarrier::complete_tx::bytes.u32", "st.async in a cluster of one CTA: is undefined"),
    ("red.async.relaxed.cluster.mbarrier::complete_tx::bytes.add.u32",
     "red.async into the CTA that executes it: is undefined")])
def test_no_peer_is_told(instruction: str, words: str) -> None:
    """Both are for other CTAs of a cluster; what they do without one is a warning."""
    out = np.zeros(1, np.uint32)
    text = TO_THE_PEER.format(instruction=instruction).replace("xor.b32 %r4, %r2, 1",
                                                              "mov.u32 %r4, %r2")
    done = run(text, [out], block=32, executor=None)
    assert [f.severity for f in done.findings] == ["warning"]
    assert words in done.findings[0].message
    assert out.tolist() == [7 if instruction.startswith("st") else 107]


@EXECUTORS
def test_sixteen_bytes_at_once(executor: Any) -> None:
    """st.async with a 128-bit register (PTX 9.2) stores and counts 16 bytes."""
    out = np.zeros(4, np.uint64)
    text = """
    .reg .b128 %wide; mov.u64 %rd6, 0x123456789abcdef; mov.u64 %rd7, 5; mov.u32 %r1, %tid.x;
    mov.b128 %wide, {%rd6, %rd7}; mov.u32 %r2, %cluster_ctarank; setp.ne.u32 %p1, %r1, 0;
    @!%p1 mbarrier.init.b64 [bar], 1;
    @!%p1 mbarrier.arrive.expect_tx.b64 _, [bar], 16;
    barrier.cluster.arrive; barrier.cluster.wait;
    xor.b32 %r4, %r2, 1; mov.u32 %r5, tile; mov.u32 %r6, bar;
    mapa.shared::cluster.u32 %r5, %r5, %r4; mapa.shared::cluster.u32 %r6, %r6, %r4;
    @!%p1 st.async.shared::cluster.mbarrier::complete_tx::bytes.b128 [%r5], %wide, [%r6];
W:  mbarrier.try_wait.parity.acquire.cluster.b64 %p2, [bar], 0; @!%p2 bra W;
    ld.shared.v2.u64 {%rd10, %rd11}, [tile]; mul.wide.u32 %rd5, %r2, 16;
    add.s64 %rd5, %rd40, %rd5; st.global.v2.u64 [%rd5], {%rd10, %rd11};
    barrier.cluster.arrive; barrier.cluster.wait; ret;
"""
    done = run(text, [out], block=32, grid=2, cluster=2, executor=executor)
    assert done.findings == [], [str(f) for f in done.findings]
    assert out.tolist() == [0x123456789abcdef, 5] * 2


@pytest.mark.parametrize(("a", "mbar"), [("%rd40", "%rd2"), ("%rd1", "%rd40")])
def test_generic_addresses_outside_the_cluster(a: str, mbar: str) -> None:
    """A pointer to global memory is told by the operand that has it."""
    body = f"""
    mov.u64 %rd1, tile; cvta.shared.u64 %rd1, %rd1; mov.u64 %rd2, bar;
    cvta.shared.u64 %rd2, %rd2; mbarrier.init.b64 [bar], 1; mov.u32 %r1, 1;
    st.async.mbarrier::complete_tx::bytes.u32 [{a}], %r1, [{mbar}]; ret;
"""
    done = run(body, [np.zeros(2, np.uint32)], block=1, executor=None)
    (finding,) = [f for f in done.findings if f.code == "illegal-value"]
    assert f"[{'a' if a == '%rd40' else 'mbar'}] at" in finding.message
    assert "the spelling names no space" in finding.message
    assert "mapa.u64" in finding.message


def test_a_register_that_hides_a_special_one() -> None:
    """%tid.x of a declared %tid is no special register: ptxas refuses it, and so do we."""
    with pytest.raises(UsageError, match="hides the special register"):
        run(".reg .b32 %tid; mov.u32 %tid, %tid.x; ret;", [], block=32, executor=interpret)


#: A bulk copy of {size} bytes to tile+{at}, with room behind the tile.
BEHIND = """
    mov.u32 %r1, tile; mov.u32 %r2, bar; mov.u32 %r3, next; ld.shared.u32 %r4, [%r3];
    mbarrier.init.shared::cta.b64 [%r2], 1; fence.proxy.async;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {size};
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes
        [%r1+{at}], [%rd40], {size}, [%r2];
W:  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0; @!%p1 bra W; ret;
"""


@pytest.mark.parametrize(("at", "size", "told"), [
    (0, 256, ""), (128, 128, ""),
    (0, 272, "272 bytes at tile+0: the variable has 256 bytes from there, and the others lie"),
    (240, 32, "32 bytes at tile+240: the variable has 16 bytes"), (256, 64, "")])
def test_a_copy_that_runs_into_the_next_variable(at: int, size: int, told: str) -> None:
    """A box larger than its buffer is told where another variable lies behind it."""
    text = kernel_text(BEHIND.format(at=at, size=size), 1, target="sm_90a", module=(
        ".shared .align 16 .b8 tile[256];\n.shared .align 16 .b8 next[64];\n"
        ".shared .align 8 .b64 bar;\n"))
    done = emulate(text, [np.ones(512, np.uint8)], block=1)
    words = [f.message for f in done.findings if f.code == "out-of-bounds"]
    assert len(words) == bool(told)
    assert told in "".join(words)


@EXECUTORS
def test_whose_shared_memory_an_address_is_in(executor: Any) -> None:
    """Of a peer's shared memory only the cluster's window says yes; getctarank names the peer."""
    out = np.zeros(2, np.uint32)
    body = """
    mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1; mov.u64 %rd1, tile;
    cvta.shared.u64 %rd1, %rd1; mapa.u64 %rd2, %rd1, %r2; getctarank.u64 %r9, %rd2;
    shl.b32 %r9, %r9, 16;
"""
    for bit, (space, address) in enumerate([
            ("shared", "%rd1"), ("shared::cta", "%rd1"), ("shared::cluster", "%rd1"),
            ("shared", "%rd2"), ("shared::cta", "%rd2"), ("shared::cluster", "%rd2"),
            ("shared::cluster", "%rd40"), ("global", "%rd40"), ("global", "%rd2")]):
        body += (f"    isspacep.{space} %p1, {address}; selp.u32 %r3, {1 << bit}, 0, %p1;"
                 " or.b32 %r9, %r9, %r3;\n")
    body += """
    mul.wide.u32 %rd5, %r1, 4; add.s64 %rd5, %rd40, %rd5; st.global.u32 [%rd5], %r9; ret;
"""
    done = run(body, [out], block=1, grid=2, cluster=2, executor=executor)
    assert done.findings == []
    yes = 0b010100111
    assert out.tolist() == [1 << 16 | yes, yes]
