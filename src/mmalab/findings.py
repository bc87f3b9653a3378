"""What a check or a run reports about a kernel: a code, a severity, a place, a witness.

A finding is data, not an exception: the run goes on where it can, and the caller decides. The codes
are words (``missing-barrier``, ``out-of-bounds``); :data:`CODES` is the one table of them, each
with what it means, and nothing may report a code that is not in it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

__all__ = ["CODES", "Finding", "Severity", "Where", "summary", "verdict"]

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a run: CTA coordinates, warp in the CTA, lane, and the line of the PTX text."""

    cta: tuple[int, int, int] | None = None
    warp: int | None = None
    lane: int | None = None
    line: int | None = None

    def __str__(self) -> str:
        parts = []
        if self.cta is not None:
            parts.append(f"CTA ({','.join(map(str, self.cta))})")
        if self.warp is not None:
            parts.append(f"warp {self.warp}")
        if self.lane is not None:
            parts.append(f"lane {self.lane}")
        if self.line is not None:
            parts.append(f"line {self.line}")
        return ", ".join(parts) or "the whole run"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault, or one suspicion, with where it is and what shows it."""

    code: str
    severity: Severity
    message: str
    where: Where = field(default_factory=Where)
    witness: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise KeyError(f"finding code {self.code!r} is not in mmalab.findings.CODES")

    def __str__(self) -> str:
        return f"{self.severity}[{self.code}] {self.where}: {self.message}"

    def as_dict(self) -> dict[str, Any]:
        """The finding as plain JSON-able data, in the shape of the command line's output."""
        return asdict(self)


def verdict(findings: list[Finding], *, strict: bool = False) -> Literal["clean", "findings"]:
    """``findings`` when any finding is an error (or, with `strict`, a warning)."""
    bad = {"error", "warning"} if strict else {"error"}
    return "findings" if any(f.severity in bad for f in findings) else "clean"


def summary(findings: list[Finding], *, strict: bool = False) -> str:
    """The verdict with counts: ``clean``, ``clean (no errors, 1 warning)``."""
    judged = verdict(findings, strict=strict)
    if not findings:
        return judged
    counts = {severity: sum(f.severity == severity for f in findings)
              for severity in ("error", "warning", "note")}
    return f"{judged} (" + ", ".join(
        f"{count or 'no'} {severity}{'' if count == 1 else 's'}"
        for severity, count in counts.items() if count or severity == "error") + ")"


#: Every code that a check or a run can report, with one sentence of meaning.
CODES: dict[str, str] = {
    # races (ordering model, section 9)
    "missing-barrier": "two accesses of one CTA or cluster to the same bytes have no order",
    "data-race": "two accesses to the same global bytes have no order",
    "missing-release": "the writer publishes its data without release semantics",
    "missing-acquire": "the reader uses published data without acquire semantics",
    "scope-too-narrow": "a release or an acquire names a scope that leaves the other thread out",
    "async-overlap": "two asynchronous operations in flight write the same bytes",
    "lane-collision": "lanes of one instruction write different values to one address",
    # asynchronous operations
    "missing-cp-async-wait": "bytes of a cp.async are touched before its group was waited for",
    "missing-bulk-wait": "bytes of a bulk copy are touched before its group was waited for",
    "missing-mbarrier-wait": "bytes of an asynchronous copy are read before its mbarrier phase",
    "missing-wgmma-wait": "registers or bytes of a wgmma in flight are touched",
    "missing-wgmma-fence": "wgmma operands were touched without wgmma.fence",
    "missing-grid-wait": "global memory is accessed before the kernel ahead is known to have ended",
    "async-outlives-cta": "a CTA exits while copies into its shared memory are in flight",
    # proxies
    "missing-proxy-fence": "generic writes are read by the async proxy without fence.proxy.async",
    "missing-tensormap-fence": "a tensor map was modified without fence.proxy.tensormap",
    "swizzle-mismatch": "shared memory is read in another swizzle than a tensor copy wrote it in",
    "descriptor-mismatch": "a matrix descriptor's strides do not fit the operand or its bytes",
    "tensormap-in-use": "a tensor map is modified while a copy still uses it",
    # tcgen05
    "missing-tcgen05-wait": "Tensor Memory data is used before tcgen05.wait",
    "missing-tcgen05-commit": "a tcgen05 operation is not covered by a commit",
    "missing-tcgen05-fence": "relaxed synchronisation without the tcgen05 fence pair",
    "tcgen05-unpipelined": "two tcgen05 operations outside the pipelined pairs",
    "tcgen05-issue": "tcgen05.mma or commit issued by more than one lane",
    "tcgen05-group": "two cta_group values in one kernel",
    # Tensor Memory
    "tmem-quarter": "a warp touches Tensor Memory lanes outside its quarter",
    "tmem-address": "a Tensor Memory address is not uniform or not aligned",
    "tmem-unallocated": "Tensor Memory is used without or beyond its allocation",
    "tmem-uninitialised": "Tensor Memory is read before it was written",
    "tmem-size": "a column count that is not a power of two from 32 to 512",
    "tmem-alloc-order": "a larger allocation after a smaller one",
    "tmem-alloc-after-relinquish": "tcgen05.alloc after relinquish_alloc_permit",
    "tmem-dealloc": "tcgen05.dealloc of something that alloc did not return",
    "tmem-lifetime": "Tensor Memory is freed while it is in use",
    "tmem-leak": "a CTA exits with Tensor Memory allocated",
    "tmem-pair": "a pair-wide operation is missing in one CTA of the pair",
    "tmem-scale-copies": "scale factors are missing in a quarter of Tensor Memory",
    # mbarrier
    "mbarrier-uninitialised": "an mbarrier is used before init or after inval",
    "mbarrier-init-order": "an mbarrier is used by a thread that is not ordered after its init",
    "mbarrier-lifetime": "an mbarrier's bytes are used for something else, or re-initialised",
    "mbarrier-count": "an arrival count is out of range or exceeds what is pending",
    "mbarrier-phase": "a phase is waited for or arrived on out of turn",
    "mbarrier-wait-unchecked": "the result of test_wait or try_wait is never used",
    "tx-mismatch": "bytes announced to an mbarrier differ from the bytes that its copies deliver",
    # barriers, warps, clusters
    "barrier-count": "a barrier's thread count does not fit the barrier or the CTA",
    "barrier-overrun": "a warp arrives twice at a barrier before it completes",
    "barrier-shared-id": "two groups of warps meet on one barrier id",
    "cluster-barrier": "barrier.cluster arrive and wait do not pair up",
    "cluster-lifetime": "shared memory of a CTA that has not started or has exited is accessed",
    "divergent-collective": "lanes of a warp, or warps of a warpgroup, part where all must go",
    "warp-sync-missing": "lanes of a warp exchange data without bar.warp.sync",
    "warp-sync-mask": "a lane mask names a lane that cannot come, or leaves out the executing one",
    # memory
    "misaligned-access": "an address is not a multiple of the access size",
    "out-of-bounds": "an address is outside every buffer of the kernel",
    "uninitialised-read": "memory or a register is read before it was written",
    "read-only-write": "constant or parameter memory is written",
    # values
    "sparse-metadata": "sparse metadata holds an undefined selection",
    "illegal-value": "an operand value met at run time is outside what the instruction allows",
    # timing
    "schedule-dependent": "an output depends on when copies and products in flight happen",
    # progress
    "deadlock": "nothing can run and nothing is pending",
    "trap": "the kernel executed trap",
    # static checks
    "unknown-instruction": "the text is not an instruction of the PTX ISA",
    "target-unsupported": "the instruction does not exist on the module's target",
    "ptx-version": "the instruction needs a newer .version",
    "operand-mismatch": "an operand's kind, type or count does not fit the instruction",
    "undeclared-name": "a register, label or symbol is used but not declared",
    "duplicate-name": "a scope gives a name two meanings",
    "directive-conflict": "directives contradict each other or the chip's limits",
    "memory-limit": "declared shared, constant or parameter memory is over the target's limit",
    "slower-form": "the ISA has a form of the instruction that runs better on later chips",
    "emulated-instruction": "the target has no such hardware: the assembler builds it from others",
}
