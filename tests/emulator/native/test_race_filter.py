"""The fast path never calls clean what the exact model finds; litmus verdicts hold there too."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from emulation import kernel_text
from litmus_kernels import KERNELS, check_verdict, launch

from mmalab.emulator.run import emulate as run_machine
from mmalab.sanitizer.quick import _Watch
from mmalab.sanitizer.quick import emulate as quick
from mmalab.sanitizer.run import emulate as exact

WORDS = 64


@pytest.mark.parametrize("name", KERNELS)
def test_litmus_verdicts_of_the_fast_path(name):
    """mmalab.emulate reports what the exact model alone reports, code for code."""
    check_verdict(name, launch(quick, name)[0].findings)


# --- random kernels ------------------------------------------------------------------------------


_PLACES = (
    "mad.lo.u32 %r20, %r0, 4, %r10;",                          # the thread's own word
    "xor.b32 %r21, %r0, 1; mad.lo.u32 %r20, %r21, 4, %r10;",   # a neighbour lane's
    "xor.b32 %r21, %r0, 32; mad.lo.u32 %r20, %r21, 4, %r10;",  # a neighbour warp's
    "and.b32 %r21, %r0, 31; mad.lo.u32 %r20, %r21, 4, %r10;",  # shared by the warps
    "mov.u32 %r20, %r10;",                                     # one for all
)
_GLOBAL = ("mov.u64 %rd2, %rd1;", "xor.b64 %rd2, %rd1, 4;", "xor.b64 %rd2, %rd1, 128;")
_STEPS = {
    "ld.shared.u32 %r22, [%r20+{}];": 0.2, "st.shared.u32 [%r20+{}], %r0;": 0.2,
    "st.shared.u8 [%r20+{}], %r0;": 0.05, "ld.shared.v2.u32 {{%r22, %r23}}, [%r20+0];": 0.02,
    "cp.async.ca.shared.global [%r20+{}], [%rd2], 4;": 0.14,
    "st.global.u32 [%rd2], %r0;": 0.03, "ld.global.u32 %r22, [%rd2];": 0.03,
    "bar.sync 0;": 0.14, "bar.warp.sync 0xffffffff;": 0.05, "cp.async.commit_group;": 0.07,
    "cp.async.wait_all;": 0.03, "cp.async.wait_group 0;": 0.02, "cp.async.wait_group 1;": 0.02,
}


def _random_kernel(rng):
    """Accesses, copies, groups and barriers in random order, most of them in good order."""
    lines = []
    if rng.random() < 0.8:
        lines.append("mad.lo.u32 %r20, %r0, 4, %r10; st.shared.u32 [%r20], %r0;"
                     " st.shared.u32 [%r20+512], %r0; bar.sync 0;")
    care = rng.choice([0.0, 0.5, 0.95])
    chances = np.array(list(_STEPS.values())) / sum(_STEPS.values())
    for _ in range(int(rng.integers(2, 10))):
        statement = str(rng.choice(list(_STEPS), p=chances))
        guard = ""
        if "[" in statement:
            lines.append(_PLACES[rng.choice(5, p=[0.5, 0.1, 0.2, 0.1, 0.1])])
            lines.append(_GLOBAL[rng.choice(3, p=[0.8, 0.1, 0.1])])
            guard = rng.choice(["", "@%p1 ", "@%p2 ", "@!%p1 "], p=[0.6, 0.15, 0.15, 0.1])
        offset = 4 * int(rng.integers(0, 4)) if rng.random() < 0.2 else 0
        lines.append(guard + statement.format(offset))
        if "[" in statement and rng.random() < care:
            lines.append("cp.async.wait_all; bar.sync 0;" if "cp" in statement else "bar.sync 0;")
    head = """
    mov.u32 %r0, %tid.x; mov.u32 %r10, box; mul.wide.u32 %rd0, %r0, 4; add.s64 %rd1, %rd40, %rd0;
    setp.lt.u32 %p1, %r0, 32; and.b32 %r1, %r0, 1; setp.eq.u32 %p2, %r1, 0;
"""
    return kernel_text(head + "\n".join(lines) + "\nret;", 1,
                       module=".shared .align 16 .b8 box[2048];\n")


def _serious(run):
    return {f.code for f in run.findings if f.severity in ("error", "warning")}


def _filter_alone(text, warps):
    """The suspects of the first pass, and whether it doubts at all."""
    watch = _Watch()
    first = run_machine(text, [np.zeros(WORDS * 4, np.uint32)], block=32 * warps, sanitize=False,
                        executor=watch)
    return watch.doubts or bool(first.findings)


@pytest.mark.parametrize("batch", range(6))
def test_what_the_exact_model_finds_is_never_called_clean(batch):
    """Random kernels of two to four warps: where the model has a finding, the filter has doubts."""
    seed = int(np.random.default_rng().integers(2**32))
    print("seed", seed, "batch", batch)
    rng = np.random.default_rng(seed)
    found = doubted = 0
    for _ in range(25):
        warps = int(rng.integers(2, 5))
        text = _random_kernel(rng)
        truth = _serious(exact(text, [np.zeros(WORDS * 4, np.uint32)], block=32 * warps))
        doubts = _filter_alone(text, warps)
        found += bool(truth)
        doubted += doubts
        assert doubts or not truth, f"{truth} in\n{text}"
        if truth:
            run = quick(text, [np.zeros(WORDS * 4, np.uint32)], block=32 * warps)
            assert _serious(run) == truth
    print(f"{found} of 25 have findings, {doubted} were doubted")
    assert found < doubted + 1


@pytest.mark.parametrize(("instructions", "ctas"), [
    (499_999, None), (700_000, None), (1_200_000, [0]), (50_000_000, [0]),
])
def test_a_closer_look_that_takes_in_all_ctas_is_the_whole_run(instructions, ctas):
    """Two suspect CTAs of two: both under the exact model are no part of the run, but all of it."""
    watch = _Watch(suspects=[0, 1], ctas=2)
    first = SimpleNamespace(counters={"instructions": instructions})
    assert watch.closer_look(first) == ctas
