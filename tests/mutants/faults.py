"""One fault at a time in the pipeline of `hopper_pipeline`, and what should be said about it.

`codes`: at least one of them must be among the findings; the first is the one that names the cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mutants.hopper_pipeline import Fault

__all__ = ["MUTANTS", "Mutant"]


class Mutant(NamedTuple):
    """A fault, in words, and the codes that may name it."""

    what: str
    fault: Fault
    codes: tuple[str, ...]


def _without(what: str, step: str, *codes: str) -> Mutant:
    return Mutant(what, Fault(without=frozenset({step})), codes)


def _with(what: str, values: Mapping[str, Any], *codes: str) -> Mutant:
    return Mutant(what, Fault(values=values), codes)


MUTANTS: dict[str, Mutant] = {
    # --- the life of the barriers -----------------------------------------------------------------
    "init_no_fence": _without(
        "no fence.mbarrier_init before the relaxed cluster barrier", "init.fence",
        "mbarrier-init-order"),
    "init_no_cluster_barrier": _without(
        "only bar.sync after the barriers' initialisation", "start.cluster",
        "mbarrier-init-order", "cluster-lifetime"),
    "full_count_too_high": _with(
        "full barriers expect two arrivals, one comes", {"full.count": 2}, "deadlock"),
    "empty_count_too_high": _with(
        "empty barriers expect five arrivals, four come", {"empty.count": 5}, "deadlock"),
    "empty_count_too_low": _with(
        "empty barriers expect two arrivals, four come: a stage is free when half have left it",
        {"empty.count": 2}, "mbarrier-count", "mbarrier-phase", "missing-wgmma-wait",
        "missing-mbarrier-wait"),
    # --- the producer -----------------------------------------------------------------------------
    "producer_parity": _with(
        "the producer's first wait has parity 0", {"empty.first_parity": 0}, "deadlock"),
    "producer_no_empty_wait": _without(
        "the producer fills stages without waiting for them", "empty.wait",
        "missing-mbarrier-wait", "missing-wgmma-wait", "mbarrier-phase", "tx-mismatch"),
    "producer_one_empty_wait_missing": _without(
        "one of the producer's waits is missing", "empty.wait.5",
        "missing-mbarrier-wait", "missing-wgmma-wait", "mbarrier-phase"),
    "producer_wait_not_looped": _without(
        "one of the producer's waits does not look at its result", "empty.wait.4.loop",
        "mbarrier-wait-unchecked", "missing-mbarrier-wait", "missing-wgmma-wait"),
    "expect_too_few": _with(
        "only A's bytes are announced", {"expect.bytes": 128 * 128}, "tx-mismatch"),
    "expect_too_many": _with(
        "too many bytes are announced", {"expect.bytes": 128 * 128 + 64 * 128 + 16},
        "tx-mismatch", "deadlock"),
    "expect_half_of_multicast": _with(
        "of the multicast operand only the own half is announced",
        {"expect.bytes": 128 * 128 + 32 * 128}, "tx-mismatch"),
    "expect_one_wrong": _with(
        "one announcement lacks 128 bytes", {"expect.bytes.6": 128 * 128 + 63 * 128},
        "tx-mismatch"),
    "no_expect": _without(
        "a plain arrive in place of arrive.expect_tx", "expect", "tx-mismatch"),
    "all_lanes_produce": _without(
        "all lanes of the producer's warp announce and copy", "producer.elect",
        "mbarrier-count", "tx-mismatch", "mbarrier-phase", "async-overlap"),
    "multicast_own_only": _with(
        "the multicast goes to CTA 0 only", {"multicast.mask": 1}, "deadlock", "tx-mismatch"),
    "multicast_outside": _with(
        "the multicast names a CTA that the cluster does not have", {"multicast.mask": 7},
        "out-of-bounds", "cluster-lifetime", "illegal-value"),
    "stages_overlap": _with(
        "the second stage of A begins inside the first", {"stage.bytes": 8192},
        "missing-wgmma-wait", "async-overlap", "missing-mbarrier-wait"),
    "destination_misaligned": _with(
        "A's destination is not a multiple of 128", {"a.offset": 64}, "misaligned-access"),
    # --- the consumers ----------------------------------------------------------------------------
    "no_full_wait": _without(
        "the consumers do not wait for their operands", "full.wait", "missing-mbarrier-wait"),
    "one_full_wait_missing": _without(
        "one of the consumers' waits is missing", "full.wait.3",
        "missing-mbarrier-wait", "mbarrier-phase"),
    "full_wait_not_looped": _without(
        "one of the consumers' waits does not look at its result", "full.wait.2.loop",
        "mbarrier-wait-unchecked", "missing-mbarrier-wait"),
    "full_parity_never_flips": _with(
        "the consumers' parity stays 0", {"full.parity": 0},
        "missing-mbarrier-wait", "mbarrier-phase"),
    "full_wrong_stage": _with(
        "the consumers always wait for stage 0", {"full.stage": 0},
        "missing-mbarrier-wait", "mbarrier-phase", "deadlock"),
    "no_wgmma_fence": _without(
        "no wgmma.fence after the sums were touched", "wgmma.fence", "missing-wgmma-fence"),
    "second_fence_missing": _without(
        "no wgmma.fence in the second tile", "wgmma.fence.4", "missing-wgmma-fence"),
    "sums_touched": _without(
        "a sum is scaled between two products", "touch",
        "missing-wgmma-wait", "missing-wgmma-fence"),
    "no_commit": _without(
        "the products are never committed", "commit", "missing-wgmma-wait"),
    "last_commit_missing": _without(
        "the last products are not committed", "commit.7", "missing-wgmma-wait"),
    "last_wait_too_loose": _with(
        "the sums are read with one group pending", {"last.wait.newest": 1},
        "missing-wgmma-wait"),
    "release_before_done": _with(
        "a stage is released while its products may still read it", {"release.wait.newest": 2},
        "missing-wgmma-wait"),
    "release_missing": _without(
        "a stage is not released once", "release.2", "deadlock"),
    "release_own_only": _with(
        "stages are released in CTA 0 only", {"release.ranks": 1}, "deadlock"),
    "release_cta_scope": _with(
        "the release names .cta scope although the waiter is in the other CTA",
        {"release.semantics": ".release.cta"}, "scope-too-narrow", "missing-barrier"),
    "release_relaxed": _with(
        "the release is relaxed", {"release.semantics": ".relaxed.cluster"},
        "missing-release", "missing-barrier", "missing-wgmma-wait"),
    "three_warps_multiply": _without(
        "one warp of the warpgroup leaves out the products", "wgmma.whole",
        "divergent-collective", "deadlock"),
    "registers_beyond_the_pool": _with(
        "the consumers ask for 240 + 240 registers where 40 + 232 + 232 fill the pool",
        {"consumer.registers": 240}, "deadlock"),
    # --- the epilogue -----------------------------------------------------------------------------
    "store_no_proxy_fence": _without(
        "no proxy fence between stmatrix and the TMA store", "store.fence",
        "missing-proxy-fence"),
    "store_fence_too_early": _without(
        "the proxy fence stands before the writes", "store.fence.late", "missing-proxy-fence"),
    "store_fence_wrong_space": _with(
        "the proxy fence is for global memory", {"store.fence.space": ".global"},
        "missing-proxy-fence"),
    "store_no_barrier": _without(
        "no barrier between the warps' writes and the store", "store.barrier",
        "missing-barrier"),
    "store_barrier_of_two_warps": _with(
        "the epilogue's barrier counts 64 threads", {"store.barrier.threads": 64},
        "missing-barrier", "barrier-overrun", "barrier-count", "barrier-shared-id"),
    "store_barrier_of_too_many": _with(
        "the epilogue's barrier counts 160 threads", {"store.barrier.threads": 160},
        "deadlock", "barrier-count"),
    "barriers_shared": _with(
        "both warpgroups use barrier 1", {"barrier.id": 1}, "barrier-shared-id", "barrier-overrun"),
    "reuse_no_wait": _without(
        "the output tile is overwritten while the store may read it", "reuse.wait",
        "missing-bulk-wait"),
    "reuse_wrong_thread": _with(
        "another thread than the one that stored waits", {"reuse.wait.thread": 32},
        "missing-bulk-wait"),
    "reuse_no_barrier": _without(
        "nobody is told that the output tile is free", "reuse.barrier",
        "missing-bulk-wait", "missing-barrier"),
    "store_no_commit": _without(
        "the stores are not committed", "store.commit", "missing-bulk-wait"),
    "exit_no_wait": _without(
        "the CTA ends while its last store may read", "exit.wait", "missing-bulk-wait"),
    "exit_no_cluster_barrier": _without(
        "a CTA may end while its peer still reaches into it", "exit.cluster",
        "cluster-lifetime"),
    "stmatrix_misaligned": _with(
        "stmatrix rows are not multiples of 16", {"stmatrix.offset": 8}, "misaligned-access"),
}
