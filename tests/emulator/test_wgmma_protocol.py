"""wgmma's protocol: warps in any order, groups, illegal descriptors, and its events."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from emulation import interpret, quantum
from wgmma_cases import PREFIX, Setup, arguments, dense, expected

from mmalab.emulator import events
from mmalab.emulator.native import run_threaded
from mmalab.emulator.run import Run, emulate
from mmalab.errors import LimitExceeded
from mmalab.kernels.one_wgmma import one_wgmma

FORM = PREFIX + "m64n8k16.f32.bf16.bf16"
B_AT = 4096
SETUP = Setup(FORM, dense("K", "none", 0, 64, 16, 16), dense("K", "none", B_AT, 8, 16, 16), 6144)


def setup_args() -> list[Any]:
    """Fresh arguments of one case."""
    return arguments(SETUP, 1, np.random.default_rng(secrets.randbits(32)), "normal")


def emulated(args: Sequence[Any], change: tuple[str, str] | None = None, *,
             sanitize: bool = False, **options: Any) -> Run:
    """The kernel of SETUP, with a piece of its text replaced."""
    kernel = SETUP.kernel(1)
    text = kernel.ptx
    if change is not None:
        assert change[0] in text
        text = text.replace(*change)
    options = {"executor": interpret, **options}
    return emulate(text, args, grid=1, block=128, dynamic_shared=kernel.dynamic_shared,
                   sanitize=sanitize, **options)


def codes(run: Run) -> list[str]:
    """Codes of the findings."""
    return [finding.code for finding in run.findings]


# --- order ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("first", [0, 1, 2, 3])
@pytest.mark.parametrize("size", [1, 64])
def test_warps_in_any_order(first: int, size: int) -> None:
    """One warp runs ahead up to its wait; the others spin before they issue."""
    spin = (f"mov.u32 %t, %tid.x; shr.u32 %t, %t, 5; setp.eq.u32 %q, %t, {first};"
            " @%q bra GO; mov.u32 %t, 0; AGAIN: add.u32 %t, %t, 1; setp.lt.u32 %q, %t, 40;"
            " @%q bra AGAIN; GO: wgmma.fence.sync.aligned;")
    args = setup_args()
    run = emulated(args, ("wgmma.fence.sync.aligned;",
                          "{ .reg .pred %q; .reg .b32 %t; " + spin + "}"), executor=quantum(size))
    assert not run.findings
    assert (args[4] == expected(SETUP, args)).all()


@pytest.mark.parametrize("schedule", ["eager", "lazy", 3])
def test_kernel_without_commit_reads_too_early(schedule: str | int) -> None:
    """A wait covers committed groups only: lazily the product has not happened."""
    args = setup_args()
    emulated(args, ("wgmma.commit_group.sync.aligned;", ""), schedule=schedule)
    done = (args[4] == expected(SETUP, args)).all()
    assert done if schedule == "eager" else not done or schedule == 3


def test_chain_of_products_happens_in_order() -> None:
    """Three products on one accumulator, two groups, any schedule: bit for bit the same."""
    line = next(t.strip() for t in SETUP.kernel(1).ptx.splitlines() if "mma_async" in t)
    chain = f"{line} {line} wgmma.commit_group.sync.aligned; {line}"
    results = []
    args = setup_args()
    for schedule in ("eager", "lazy", *range(8)):
        own = [*args[:4], np.full_like(args[4], 0xFFFFFFFF)]
        assert not emulated(own, (line, chain), schedule=schedule).findings
        results.append(own[4])
    assert all((words == results[0]).all() for words in results)


def test_missing_warp_is_named() -> None:
    """Warp 2 leaves: the others wait for it, and the report says for whom."""
    leave = ("{ .reg .pred %q; .reg .b32 %t; mov.u32 %t, %tid.x; shr.u32 %t, %t, 5;"
             " setp.eq.u32 %q, %t, 2; @%q ret; } wgmma.fence.sync.aligned;")
    run = emulated(setup_args(), ("wgmma.fence.sync.aligned;", leave))
    assert codes(run) == ["divergent-collective", "deadlock"]
    assert run.deadlock is not None
    assert "warps 2 (which have ended)" in run.deadlock["summary"]


def test_warp_that_waits_elsewhere_is_named() -> None:
    """Warp 1 waits for ever at a barrier of two: the report names it."""
    stay = ("{ .reg .pred %q; .reg .b32 %t; mov.u32 %t, %tid.x; shr.u32 %t, %t, 5;"
            " setp.eq.u32 %q, %t, 1; @!%q bra ON; bar.sync 3, 64; ON: }"
            " wgmma.fence.sync.aligned;")
    run = emulated(setup_args(), ("wgmma.fence.sync.aligned;", stay))
    assert codes(run) == ["deadlock"]
    assert run.deadlock is not None
    assert "parts of warps 1 of the warpgroup" in run.deadlock["summary"]


def test_half_a_warpgroup() -> None:
    """A CTA of two warps has no warpgroup."""
    args = setup_args()
    kernel = SETUP.kernel(1)
    run = emulate(kernel.ptx, args, grid=1, block=64, executor=interpret, sanitize=False,
                  dynamic_shared=kernel.dynamic_shared)
    assert codes(run) == ["divergent-collective", "deadlock"]
    assert "four warps" in run.findings[0].message


# --- what the four warps must share ---------------------------------------------------------------

def test_other_descriptor_in_one_warp() -> None:
    """SD08: the operand and both values are named; the first warp's is used."""
    line = next(t.strip() for t in SETUP.kernel(1).ptx.splitlines() if "mma_async" in t)
    b = line.rsplit("%rd", 1)[1].split(",")[0]
    change = ("{ .reg .b64 %w; .reg .b32 %t; mov.u32 %t, %tid.x; shr.u32 %t, %t, 6;"
              " shl.b32 %t, %t, 5; cvt.u64.u32 %w, %t; add.u64 %w, %w, %rd" + b + "; "
              + line.replace(f"%rd{b},", "%w,") + " }")
    args = setup_args()
    run = emulated(args, (line, change))
    assert codes(run) == ["illegal-value"]
    assert "operand b" in run.findings[0].message
    assert (args[4] == expected(SETUP, args)).all()


def test_descriptor_that_differs_between_lanes() -> None:
    """A descriptor is one value for the whole warp."""
    line = next(t.strip() for t in SETUP.kernel(1).ptx.splitlines() if "mma_async" in t)
    b = line.rsplit("%rd", 1)[1].split(",")[0]
    change = ("{ .reg .b64 %w; .reg .b32 %t; mov.u32 %t, %laneid; shr.u32 %t, %t, 4;"
              " cvt.u64.u32 %w, %t; add.u64 %w, %w, %rd" + b + "; "
              + line.replace(f"%rd{b},", "%w,") + " }")
    run = emulated(setup_args(), (line, change))
    assert codes(run) == ["illegal-value"]
    assert "differs between lanes" in run.findings[0].message


def test_other_instruction_in_one_warp() -> None:
    """One warp's product stands at another line."""
    line = next(t.strip() for t in SETUP.kernel(1).ptx.splitlines() if "mma_async" in t)
    change = ("{ .reg .pred %q; .reg .b32 %t; mov.u32 %t, %tid.x; shr.u32 %t, %t, 5;"
              f" setp.eq.u32 %q, %t, 3; @%q bra OTHER;\n {line}\n bra.uni BOTH; OTHER:\n {line}\n"
              " BOTH: }")
    run = emulated(setup_args(), (line, change))
    assert codes(run) == ["divergent-collective"]


@pytest.mark.parametrize("first", ["sparse", "dense"])
def test_sparse_and_dense_in_one_warpgroup(first: str) -> None:
    """Told as a divergent collective; what the first warp says is done."""
    line = next(t.strip() for t in SETUP.kernel(1).ptx.splitlines() if "mma_async" in t)
    sparse = line.replace("mma_async.", "mma_async.sp.").replace("k16", "k32").replace(
        ", %p", ", %t, 0, %p")
    own, other = (sparse, line) if first == "sparse" else (line, sparse)
    change = ("{ .reg .pred %q; .reg .b32 %t; mov.u32 %t, %tid.x;"
              " setp.lt.u32 %q, %t, 64; mov.u32 %t, 0x44444444; @%q bra OTHER;\n"
              f" {other}\n bra.uni BOTH; OTHER:\n {own}\n BOTH: }}")
    assert "divergent-collective" in codes(emulated(setup_args(), (line, change)))


def test_guard_that_differs_between_lanes() -> None:
    """``.aligned``: half of a warp is not enough."""
    line = next(t.strip() for t in SETUP.kernel(1).ptx.splitlines() if "mma_async" in t)
    change = ("{ .reg .pred %q; .reg .b32 %t; mov.u32 %t, %laneid; setp.lt.u32 %q, %t, 16; @%q "
              + line + " }")
    assert "divergent-collective" in codes(emulated(setup_args(), (line, change)))


# --- descriptors ----------------------------------------------------------------------------------

@pytest.mark.parametrize(("bits", "words"), [
    (1 << 14, "bits 14 are reserved"), (1 << 47, "bits 47 are reserved"),
    (3 << 49, "base_offset = 3"),
])
def test_illegal_descriptor(bits: int, words: str) -> None:
    """SD01: the field is named, and the run goes on with the others."""
    args = setup_args()
    args[1][:, 1] |= np.uint64(bits)
    run = emulated(args)
    assert codes(run) == ["illegal-value"]
    assert "descriptor b" in run.findings[0].message
    assert words in run.findings[0].message
    assert run.findings[0].severity == "error"


def test_start_inside_the_pattern_is_a_warning() -> None:
    """SD03: legal for rows of a larger tile, usually a mistake."""
    args = setup_args()
    args[1][:, 1] = dense("K", "128B", B_AT + 128, 8, 16, 16).word
    run = emulated(args)
    assert [(f.code, f.severity) for f in run.findings] == [("illegal-value", "warning")]
    assert "base_offset" in run.findings[0].message


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("field", [
    0x3F80, 0x3FFF << 16, 0x3FFF << 32, (1 << 46) - 0x80,
], ids=["start", "lbo", "sbo", "all"])
def test_operand_outside_the_cta_is_fatal(side: int, field: int) -> None:
    """SD05: no byte beyond the CTA's shared memory is read, whatever the descriptor."""
    setup = Setup(PREFIX + "m64n16k16.f32.bf16.bf16", SETUP.a,
                  dense("K", "none", B_AT, 16, 16, 16), SETUP.image)
    args = arguments(setup, 1, np.random.default_rng(), "normal")
    args[1][:, side] |= np.uint64(field & 0x3FFF3FFF3FFF)
    kernel = setup.kernel(1)
    run = emulate(kernel.ptx, args, grid=1, block=128, executor=interpret, sanitize=False,
                  dynamic_shared=kernel.dynamic_shared)
    assert codes(run) == ["out-of-bounds"]
    assert "descriptor" in run.findings[0].message
    assert (args[4] == 0xFFFFFFFF).all()


def test_unwritten_operand_is_told() -> None:
    """Sanitized: bytes of B that nobody filled."""
    args = setup_args()
    args[1][:, 1] += np.uint64(dense("K", "none", 8192, 8, 16, 16).word) - args[1][:, 1]
    kernel = SETUP.kernel(1)
    run = emulate(kernel.ptx, args, grid=1, block=128, executor=interpret,
                  dynamic_shared=kernel.dynamic_shared + 8192)
    assert codes(run) == ["uninitialised-read"]
    assert "operand b" in run.findings[0].message


def test_undefined_metadata() -> None:
    """The nibble, its lane and the legal ones; lanes that are not selected do not matter."""
    sparse = FORM.replace("mma_async.", "mma_async.sp.").replace("k16", "k32")
    setup = Setup(sparse, SETUP.a, dense("K", "64B", B_AT, 8, 32, 16), 6144, {"selector": 1})
    for lane, found in ((2, ["sparse-metadata"]), (1, [])):
        args = arguments(setup, 1, np.random.default_rng(), "normal")
        args[5][0, 32 + lane] = 0xEEEEE0EE
        run = emulate(setup.kernel(1), args, executor=interpret, sanitize=False)
        assert codes(run) == found
        if found:
            assert "bits 11:8" in run.findings[0].message
            assert run.findings[0].where.warp == 1


# --- events ---------------------------------------------------------------------------------------

class Recorder:
    """Keeps the events of a run."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def on(self, event: events.Event) -> None:
        """Keep it."""
        self.events.append(event)


def recorded(setup: Setup) -> tuple[list[Any], list[Any]]:
    """Events of a run, and its arguments."""
    recorder = Recorder()
    args = arguments(setup, 1, np.random.default_rng(), "normal")
    emulate(setup.kernel(1), args, executor=interpret, listeners=[lambda *_: recorder])
    return recorder.events, args


def test_events_of_a_product() -> None:
    """A part, a fence, a commit and a wait for each warp; the bytes of A and B, D's registers."""
    setup = Setup(FORM, dense("K", "128B", 0, 64, 16, 16), dense("K", "64B", 8192, 8, 16, 16),
                  12288)
    found, _ = recorded(setup)
    for kind in (events.Wgmma, events.WgmmaFence, events.WgmmaCommit, events.WgmmaWait):
        assert [e.warp for e in found if isinstance(e, kind)] == [0, 1, 2, 3], kind
    part = next(e for e in found if isinstance(e, events.Wgmma))
    a, b = part.reads
    assert (a.swizzle, b.swizzle) == ("128B", "64B")
    for span, rows, pitch in ((a, 64, 128), (b, 8, 64)):
        touched = {byte // 16 for start in span.starts.tolist()
                   for byte in range(start, start + span.size)}
        first = min(touched) // 64 * 64
        assert len(touched) == 2 * rows
        for row in range(rows):
            chunks = range(first + row * pitch // 16, first + (row + 1) * pitch // 16)
            assert len(touched & set(chunks)) == 2
    assert part.a == ()
    assert len(part.d) == 4
    assert part.shape == FORM


def test_events_of_registers_that_a_product_names() -> None:
    """Loads of D and A write watched slots, the stores at the end read D's; nothing else does."""
    setup = Setup(FORM, None, dense("K", "64B", B_AT, 8, 16, 16), 6144)
    found, _ = recorded(setup)
    part = next(e for e in found if isinstance(e, events.Wgmma))
    touched = [e for e in found if isinstance(e, events.Registers)]
    writes = {slot for e in touched for slot in e.writes}
    reads = {slot for e in touched for slot in e.reads}
    assert writes == {*part.a, *part.d}
    assert reads == set(part.d)
    last = max(i for i, e in enumerate(found) if isinstance(e, events.WgmmaWait))
    assert all(found.index(e) > last for e in touched if e.reads)


def test_reads_d_is_the_predicate() -> None:
    """scale-d false: D is only written."""
    recorder = Recorder()
    args = setup_args()
    args[2][:] = 0
    emulate(SETUP.kernel(1), args, executor=interpret, listeners=[lambda *_: recorder])
    parts = [e for e in recorder.events if isinstance(e, events.Wgmma)]
    assert [part.reads_d for part in parts] == [False] * 4
    assert (args[4] == expected(SETUP, args)).all()


def test_the_kernel_of_one_product_refuses_unknown_forms() -> None:
    """The nearest form is named."""
    with pytest.raises(Exception, match="nearest"):
        one_wgmma(FORM.replace("n8", "n9"), cases=1, image=2048)


# --- hostile kernels ------------------------------------------------------------------------------

@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_endless_products_end_at_the_budget(schedule: str, *, sparse: bool) -> None:
    """A loop of products that nobody waits for uses up the budget soon, and no memory to speak of.

    A product counts as the mma.sync that it stands for.
    """
    key = PREFIX.replace("mma_async.", "mma_async.sp.") if sparse else PREFIX
    setup = Setup(key + f"m64n256k{32 if sparse else 16}.f32.bf16.bf16", SETUP.a,
                  dense("K", "128B", B_AT, 256, 16, 16), 65536)
    kernel = setup.kernel(1)
    line = next(t.strip() for t in kernel.ptx.splitlines() if "mma_async" in t)
    text = kernel.ptx.replace(line, f"AGAIN: {line} wgmma.commit_group.sync.aligned; bra AGAIN;")
    args = arguments(setup, 1, np.random.default_rng(), "normal")
    with pytest.raises(LimitExceeded):
        emulate(text, args, grid=1, block=128, dynamic_shared=kernel.dynamic_shared,
                sanitize=False, schedule=schedule, executor=run_threaded, max_steps=1 << 16)


def test_ever_new_descriptors_are_not_kept() -> None:
    """A loop that gives every product another stride: right results, and bounded tables."""
    kernel = SETUP.kernel(1)
    line = next(t.strip() for t in kernel.ptx.splitlines() if "mma_async" in t)
    b = "%rd" + line.rsplit("%rd", 1)[1].split(",")[0]
    loop = ("{ .reg .pred %q; .reg .b32 %t; .reg .b64 %w; mov.u32 %t, 600; mov.u64 %w, " + b
            + "; AGAIN: add.u64 %w, %w, 0x100000000; " + line.replace(f"{b},", "%w,")
            + " sub.u32 %t, %t, 1; setp.ne.u32 %q, %t, 0; @%q bra AGAIN; }")
    sizes: list[int] = []

    def run(machine: Any, steps: int | None) -> None:
        run_threaded(machine, steps)
        sizes.extend(len(plan._kept) for plan in machine.warpgroups.tiles.values())

    args = setup_args()
    found = emulated(args, (line, loop), executor=run)
    assert not found.findings
    assert 0 < max(sizes) < 300
    total = args[3]
    for _ in range(600):
        total = expected(SETUP, [*args[:3], total, args[4]])
    assert (args[4] == total).all()
