"""fence.{release,acquire}.sync_restrict: for shared memory, not for global memory."""

from __future__ import annotations

import numpy as np
import pytest
from mutants.hopper_snippets import run

RELEASE = "fence.release.sync_restrict::shared::cta.cluster;\n"
ACQUIRE = "fence.acquire.sync_restrict::shared::cluster.cluster;\n"
MEET = "barrier.cluster.arrive.relaxed; barrier.cluster.wait;\n"
END = "barrier.cluster.arrive; barrier.cluster.wait;\n"
SHARED = ("@%e st.shared.b32 [%s], 7;\n", "ld.shared::cluster.b32 %r5, [%r4];\n")
GLOBAL = ("@%e st.global.b32 [%g0], 7;\n", "ld.global.b32 %r5, [%g0];\n")
#: CTA 0 writes, CTA 1 reads; %r4 is CTA 0's shared memory.
HEAD = ("barrier.cluster.arrive; barrier.cluster.wait; mapa.shared::cluster.u32 %r4, %s, 0;\n"
        "setp.eq.u32 %p1, %k, 0; setp.eq.and.u32 %e, %t, 0, %p1; @!%p1 bra READ;\n")


def found(memory: tuple[str, str], release: str) -> list[str]:
    """Codes where CTA 0 writes, fences, and meets CTA 1, which reads."""
    write, read = memory
    body = HEAD + write + release + MEET + "bra DONE;\nREAD:\n" + MEET + read + "DONE:\n" + END
    result = run(body, [np.zeros(4, np.uint32)], block=32, grid=2, cluster=2)
    return [f.code for f in result.findings]


@pytest.mark.parametrize(("memory", "release", "codes"), [
    (SHARED, RELEASE, []),
    (GLOBAL, RELEASE, ["missing-release"]),
    (SHARED, "fence.release.cluster;\n", []),
    (GLOBAL, "fence.release.cluster;\n", []),
    (SHARED, "", ["missing-release"]),
    (GLOBAL, "", ["missing-release"]),
])
def test_a_release_for_shared_memory(memory, release, codes):
    """The relaxed arrival publishes what the fence covers."""
    assert found(memory, release) == codes


@pytest.mark.parametrize(("memory", "acquire", "codes"), [
    (SHARED, ACQUIRE, []),
    (GLOBAL, ACQUIRE, ["missing-acquire"]),
    (GLOBAL, "fence.acquire.cluster;\n", []),
    (SHARED, "", ["missing-acquire"]),
])
def test_an_acquire_for_shared_memory(memory, acquire, codes):
    """A flag in CTA 0's shared memory is read relaxed, then the fence."""
    write, read = memory
    flag = "st.release.cluster.shared::cta.b32 [%s+64], 1;\n"
    spin = ("AGAIN: ld.relaxed.cluster.shared::cluster.b32 %r6, [%r4+64];"
            " setp.eq.u32 %p2, %r6, 0; @%p2 bra AGAIN;\n")
    start = "@%e st.shared.b32 [%s+64], 0;\n".replace("%e", "%el")
    body = (start + HEAD + "@!%e bra DONE;\n" + write + flag + "bra DONE;\nREAD:\n" + spin
            + acquire + read + "DONE:\n" + END)
    result = run(body, [np.zeros(4, np.uint32)], block=32, grid=2, cluster=2)
    assert [f.code for f in result.findings] == codes, [str(f) for f in result.findings]
