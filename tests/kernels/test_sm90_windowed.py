"""Both operands through windows: blocks of rows of any pitch copied just before their products."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hopper import found_in, multiplied, right_and_clean
from products import arguments, differing

import mmalab
from mmalab.bench.row import make_kernel
from mmalab.bench.tables import TABLES
from mmalab.device.launch import check_resident
from mmalab.emulator.interpret import Interpreter
from mmalab.emulator.run import emulate
from mmalab.errors import UsageError
from mmalab.kernels.sm90_wgmma import Plan, gemm
from mmalab.kernels.sm90_wgmma.epilogue import runs_of
from mmalab.kernels.sm90_wgmma.maps import line_of
from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.kernels.sm90_wgmma.recipe import recipe
from mmalab.kernels.sm90_wgmma.windowed import Windowed

SMALL = {"tile": (128, 64), "stages": 3, "copy": "windowed"}
#: Two bands more than A's window holds, and columns that come round in B's.
ROUND = {"tile": (64, 32), "groups": 1, "sms": 2, "band": 64}


def in_place(row: int, k: int) -> bool:
    """Whether a row of 16-bit values is one of half or a quarter that need not be copied."""
    return 2 * row * k % 16 == 0 and k % 2 == 0


def windowed(m: int, n: int, k: int, dtype: str = "bf16", out: str | None = None,
             **plan: Any) -> Any:
    return gemm(m, n, k, dtype, out, plan=Plan(**{**SMALL, **plan}))


def comes_round(k: int = 100) -> Any:
    return windowed(296, 256, k, **ROUND)


@pytest.mark.parametrize(("sizes", "choices"), [
    ((136, 64, 100), {"sms": 1}),                                       # aligned to 8 bytes
    ((136, 384, 98), {"sms": 2, "band": 128}),                          # to 4; six blocks of B
    ((700, 192, 127), {"tile": (128, 96), "sms": 2, "band": 128, "store": "direct"}),  # to 2
    ((264, 170, 100), {"sms": 2, "band": 256, "store": "direct"}),      # edges, a band of one row
    ((135, 61, 57), {"tile": (128, 32), "sms": 1, "store": "direct"}),  # ends within a word
    ((133, 35, 6), {"tile": (128, 32), "sms": 1, "store": "direct"}),   # rows shorter than a word
    ((264, 256, 98), {"tile": (256, 64), "cluster": (1, 2), "sms": 4, "flight": 0}),
    ((264, 128, 100), {"cluster": (2, 1), "sms": 4, "band": 256}),
    ((1030, 352, 99), {"sms": 3, "band": 256, "store": "staged"}),      # five bands
    ((136, 96, 1001), {"sms": 2}),                                      # five spans, three early
    ((264, 256, 514), {"cluster": (1, 2), "sms": 4, "band": 128}),      # three spans, two early
    ((264, 192, 250), {"sms": 2, "band": 128}),                         # two spans
    ((200, 96, 251), {"tile": (64, 48), "sms": 3, "cluster": (1, 1), "store": "direct",
                      "schedule": "pingpong"}),
    ((520, 96, 99), {"tile": (64, 48), "sms": 3, "band": 128, "store": "direct",
                     "schedule": "pingpong"}),
    ((137, 160, 138), {"dtype": "s8", "tile": (128, 32), "sms": 3}),
    ((136, 96, 35), {"dtype": "tf32", "sms": 1}),
])
def test_result_is_the_reference_bit_for_bit(sizes, choices):
    """Every alignment of even rows, windows that come round; nothing for anybody to find."""
    kernel = windowed(*sizes, **choices)
    right_and_clean(kernel, "windowed")
    assert all(kernel.facts["maps"][name].strides[0] % 16 == 0 for name in "ab")


@pytest.mark.parametrize("k", [100, 98, 97, 301])
def test_any_bits_are_copied_as_they_are(k):
    """NaN of any payload, infinities and subnormals, where no sum hides them: the copies
    themselves."""
    kernel = windowed(135, 64, k, sms=1)
    args = arguments(kernel, "bits")
    values = kernel.values(args)
    mmalab.emulate(replace(kernel, prepare=lambda _: values), args, target="sm_90a")
    for operand, window in zip(args[:2], values[-3:-1], strict=True):
        rows = np.asarray(operand).view(np.uint16)
        rows = rows[[row for row in range(len(rows)) if not in_place(row, k)]]
        assert (rows == window.view(np.uint16)[: len(rows), :k]).all()
    assert differing(kernel, args, "sm_90") == 0


@pytest.mark.parametrize("k", [100, 97])
def test_nothing_in_unused_rows_reaches_c(k):
    """Windows that hold NaN from before, in rows behind the operands and columns behind K too."""
    kernel = windowed(135, 61, k, tile=(128, 32), sms=2, store="direct")
    args = arguments(kernel)
    values = kernel.values(args)
    for window in values[-3:-1]:
        window.view(np.uint16)[:] = 0x7FC1
    mmalab.emulate(replace(kernel, prepare=lambda _: values), args, target="sm_90a")
    assert differing(kernel, args, "sm_90") == 0


def test_windows_hold_a_part_of_each_operand():
    """Of 8192 rows two bands; of 8192 columns nine blocks under way and three ahead. Every second
    row is in place."""
    plan = Plan((256, 192), 4, (1, 2), copy="windowed", band=2048)
    kernel = gemm(8192, 8192, 4092, plan=plan)
    assert kernel.facts["window"] == (4096 // 2, 12 * 384 // 2)
    *_, a, b, counters = kernel.prepare([np.zeros((8192, 4092), np.uint16)] * 3)
    assert (a.shape, b.shape) == ((2048, 4096), (2304, 4096))
    assert counters.shape == (2 + 2 * 4 * 22,)


@pytest.mark.parametrize(("rows", "band", "blocks"), [
    (1024, 128, 2),    # eight rows of tiles: two bands of one
    (1024, 384, 6),    # three bands, the last one smaller
    (1024, 512, 8),    # no more than two bands
    (1024, 1024, 8),   # one band
])
def test_two_bands_of_a_are_there(rows, band, blocks):
    """That which is multiplied and the next one; no more than there is."""
    assert windowed(rows, 64, 100, band=band).facts["window"][0] == 128 * blocks // 2


@pytest.mark.parametrize(("k", "held"), [(4092, (1, 2)), (4090, (3, 4)), (4095, (1, 1))])
@pytest.mark.parametrize(("tile", "cluster"), [((256, 192), (1, 2)), ((128, 256), (2, 1)),
                                               ((128, 256), (1, 1))])
def test_rows_that_tma_can_read_are_not_copied(k, held, tile, cluster):
    """Half of all, a quarter; not an eighth. Where they lie they have a stride of all phases."""
    facts = gemm(8192, 8192, k, plan=Plan(tile, 4, cluster, copy="windowed", band=4096)).facts
    taken, of = held
    blocks = 132 // cluster[0] // cluster[1] // (4096 // tile[0] // cluster[0]) + 1 + 3
    rows = 8192, blocks * tile[1] * cluster[1]
    assert facts["window"] == tuple(size * taken // of for size in rows)
    if of > 1:
        assert facts["maps"]["a"].strides == (of * 2 * k,)
        assert facts["maps"]["b"].strides[0] == of * 2 * k


#: Sizes and choices with which no row is read in place, and why.
_ALL_COPIED = [
    ({}, {"store": "staged"}),                        # C's columns have their order
    ({}, {"tile": (256, 64), "groups": 1}),           # rows 64 lines on: of two phases
    ({}, {"tile": (256, 64), "groups": 1, "cluster": (1, 2)}),  # of two phases, then of two parts
    ({"k": 6}, {}),                                       # rows shorter than a word
    ({"n": 80}, {}),                                       # no whole deals of columns
    ({}, {"tile": (128, 48), "store": "permuted"}),
    ({}, {"tile": (128, 40), "store": "direct"}),
    ({"k": 98}, {"tile": (128, 48), "store": "direct"}),
    ({"k": 98}, {"tile": (64, 64), "cluster": (1, 2), "groups": 1}),  # 8 rows of each phase
    ({}, {"tile": (192, 32), "groups": 3, "store": "direct"}),  # a block ends in another phase
    ({"k": 97}, {}),
]


@pytest.mark.parametrize(("sizes", "choices"), _ALL_COPIED)
def test_other_products_copy_all_rows(sizes, choices):
    """Those that have no such order of lines: windows hold all rows, and results are right."""
    kernel = windowed(**{"m": 136, "n": 96, "k": 100, **sizes}, **{"sms": 2, **choices})
    rows = windowed(**{"m": 136, "n": 96, **sizes, "k": 97}, **{"sms": 2, **choices})
    assert kernel.facts["window"] == rows.facts["window"]
    right_and_clean(kernel, "windowed")


def _orders() -> Iterator[Problem]:
    """Every plan of which rows are in place, of both kinds, so far as order is concerned."""
    for k, rows, columns, cluster, groups, schedule, store in product(
            (100, 98), (64, 128, 192, 256), range(8, 257, 8), ((1, 1), (1, 2), (2, 1)), (1, 2, 3),
            ("cooperative", "pingpong"), ("permuted", "direct")):
        with suppress(UsageError):
            problem = Problem(1024, 1024, k, recipe("bf16"), "bf16", Plan(
                (rows, columns), 2, cluster, groups, schedule, store, copy="windowed"))
            if problem.in_place:
                yield problem


def test_threads_find_rows_and_columns_in_every_order():
    """A row of C for each line of A and a column for each of B, once, whatever the plan; a thread's
    rows are as far apart as the epilogue takes them to be, its columns neighbours."""
    checked = 0
    for problem in _orders():
        plan, lines, phases = problem.plan, problem.phase_lines, problem.phases
        part = lines * phases
        rows = [line // part * part + line % lines * phases + line % part // lines
                for line in range(plan.tile[0])]
        assert sorted(rows) == list(range(plan.tile[0]))
        block, eight = problem.rows_apart
        for line, row in enumerate(rows):
            within = line % plan.group_rows
            first = rows[line - within + within % 64 - (within % 16 & 8)]
            assert row - first == within // 64 * block + (eight if within % 16 & 8 else 0)
        columns = [line_of(problem, column) for column in range(plan.tile[1])]
        assert sorted(columns) == list(range(plan.tile[1]))
        apart, runs = runs_of(problem)
        for run, thread in product(runs, range(4)):
            begins = run.first + thread * apart
            assert columns[begins : begins + apart] == [8 * at + 2 * thread + b
                                                        for at, b in run.found]
        checked += 1
    assert checked > 500


@pytest.mark.parametrize("k", [100, 98])
@pytest.mark.parametrize(("sizes", "choices"), [
    ((264, 416), {"tile": (256, 192), "cluster": (1, 2), "stages": 4, "sms": 4}),
    ((264, 544), {"tile": (128, 256), "cluster": (2, 1), "stages": 4, "sms": 4, "band": 256}),
    ((261, 203), {"tile": (256, 96), "cluster": (1, 2), "sms": 4, "store": "direct"}),
    ((262, 197), {"cluster": (2, 1), "sms": 2, "store": "direct"}),
    ((523, 96), {"tile": (256, 64), "sms": 2, "band": 256}),           # groups of one phase, or two
    ((136, 96), {"tile": (128, 64), "cluster": (1, 2), "groups": 1, "sms": 2}),   # of one part
    ((200, 160), {"tile": (64, 32), "sms": 2, "schedule": "pingpong", "band": 64}),
    ((130, 96), {"sms": 2, "out": "f32"}),
    ((3, 1), {"sms": 1, "store": "direct"}),                           # fewer rows than phases
])
def test_rows_in_place_and_others_are_multiplied(k, sizes, choices):
    """Real tiles, parts of clusters, tails, groups and warps of one phase or more."""
    kernel = windowed(*sizes, k, **choices)
    held = windowed(*sizes, 97, **choices).facts["window"]
    phases = {100: 2, 98: 4}[k]
    assert kernel.facts["window"] == tuple(rows - rows // phases for rows in held)
    right_and_clean(kernel, "windowed")


@pytest.mark.parametrize(("dtype", "k", "more"), [
    ("s8", 136, {}), ("s8", 132, {}), ("tf32", 38, {}), ("tf32", 37, {}), ("f16", 100, {}),
    ("e4m3", 200, {"promote_every": 128}), ("e5m2", 204, {"out": "f16"}),
])
def test_rows_of_other_types_are_in_place(dtype, k, more):
    """8 bytes or 4 that rows are aligned to, of every type."""
    kernel = gemm(136, 96, k, dtype, plan=Plan(**{**SMALL, "tile": (128, 32), "sms": 2}), **more)
    assert "a_others" in kernel.facts["maps"]
    right_and_clean(kernel, "windowed")


@pytest.mark.parametrize(("down", "band"), [(2, 1), (5, 1), (5, 2), (6, 4), (4, 2), (7, 3)])
@pytest.mark.parametrize("columns", [1, 3, 6])
def test_no_window_is_so_small_that_all_wait(down, band, columns):
    """Bands of every kind, the last one whole or not, over windows that columns fill or do not."""
    kernel = windowed(64 * down, 32 * columns, 20, tile=(64, 32), groups=1, sms=2, band=64 * band)
    assert multiplied(kernel, sanitize=False).findings == []


def test_what_the_window_holds_is_not_copied_again():
    """Bands turn round: of the eight blocks of B each but the first has five from the one before.
    A is copied once. Of both every second row."""
    kernel = comes_round()
    assert kernel.facts["tiles"] == (5, 8)
    assert kernel.facts["window"] == (2 * 64 // 2, 5 * 32 // 2)
    written = multiplied(kernel, sanitize=False).counters["global.bytes.written"]
    line, block = 208, 32 // 2 * 208  # bytes of a copy of 200 bytes
    assert (written - 296 * 256 * 2 - 296 // 2 * line) // block == 8 + 4 * (8 - 5)


@pytest.mark.parametrize("k", [124, 126, 127])
@pytest.mark.parametrize("schedule", ["eager", 5, 11])
def test_no_schedule_changes_the_result(k, schedule):
    """Copies, TMA and products may each be as late or as early as they can."""
    kernel = windowed(520, 256, k, cluster=(1, 2), sms=4, band=128, store="direct")
    assert multiplied(kernel, schedule=schedule).findings == []


def test_nor_do_copies_that_are_as_late_as_they_can():
    """While they are, all others poll, which takes long: of fewer tiles, in two bands."""
    kernel = windowed(392, 128, 126, cluster=(1, 2), sms=4, band=128, store="direct")
    assert kernel.facts["tiles"] == (4, 2)
    assert multiplied(kernel, schedule="lazy").findings == []


def test_lanes_that_poll_do_not_keep_copies_from_being_done():
    """Copies as late as they can be, while others poll: the NumPy interpreter sees no deadlock."""
    kernel = windowed(136, 128, 100, sms=2, band=128)
    args = arguments(kernel)
    run = emulate(kernel, args, target="sm_90a", sanitize=False, schedule="lazy",
                  executor=lambda machine, most: Interpreter(machine, max_steps=most).run())
    assert run.findings == []
    assert differing(kernel, args, "sm_90") == 0


def test_waiting_for_others_costs_the_emulator_little():
    """Flags that many CTAs poll: warps that wait do not run on while others need Python."""
    kernel = windowed(520, 512, 100, cluster=(2, 1), sms=4, band=256)
    run = mmalab.emulate(kernel, arguments(kernel), target="sm_90a", sanitize=False)
    assert run.counters["instructions"] < 3e6


def test_counters_are_zero_again():
    """One set serves launch after launch, over the same windows."""
    kernel = comes_round()
    args = arguments(kernel)
    values = kernel.values(args)
    again = replace(kernel, prepare=lambda _: values)
    for _ in range(2):
        args[-1].view(np.uint8)[:] = 0xFF
        mmalab.emulate(again, args, target="sm_90a", sanitize=False)
        assert differing(kernel, args, "sm_90") == 0
        assert not values[-1].any()


_RACE = {"data-race"}


@pytest.mark.parametrize(("old", "new", "codes"), [
    # TMA reads what threads of other CTAs have written
    (r"    fence\.proxy\.async\.global;\n", "", {"missing-proxy-fence"}),
    (r"ld\.acquire\.gpu", "ld.relaxed.gpu", {"missing-acquire"}),
    (r"red\.release\.gpu", "red.relaxed.gpu", {"missing-release"}),
    # who fills does not wait for the copies; who copies not for those that multiply
    (r"    @%p\d+ bra \$counting_\d+;\n(    fence)", r"\1", _RACE),
    (r"    @%p\d+ bra \$counting_\d+;\n(\$skip)", r"\1", _RACE),
    # one lane has waited for its warp; one counts for its warp, or for the CTA at first
    (r"(\$skip_\d+:\n)    bar\.warp\.sync -1;\n(    div)", r"\1\2", {"warp-sync-missing"}),
    (r"(fence\.proxy\.async\.global;\n)    bar\.warp\.sync -1;\n", r"\1",
     {"warp-sync-missing"}),
    (r"(fence\.proxy\.async\.global;\n)    bar\.sync 0;\n", r"\1", _RACE),
    (r"    @%p\d+ red\.release\.gpu[^\n]*\n", "", {"deadlock"}),
])
def test_every_part_of_the_handing_over_is_needed(old, new, codes):
    """Without a fence, an acquire, a release, a wait or a count the sanitizer says so."""
    assert codes <= found_in(comes_round(), old, new)


def test_warps_with_few_registers_leave_nothing_for_later():
    """Whether who fills waits again within a tile: with 24 registers one span is under way."""
    late = re.compile(r"setp\.eq\.and\.u32")
    few = windowed(256, 208, 512 + 2, tile=(256, 208), sms=1)
    many = windowed(256, 192, 512 + 2, tile=(256, 192), sms=1)
    assert (few.facts["registers"][0], many.facts["registers"][0]) == (24, 40)
    assert late.search(few.ptx) is None
    assert late.search(many.ptx) is not None


@pytest.mark.parametrize("before", [
    r"selp\.b32 [^\n]*\n",                                                  # the tile's first slice
    r"setp\.eq\.and\.u32 %p\d+, %r\d+, 192, [^@]*@!%p\d+ bra \$skip_\d+;\n",  # its fourth
])
def test_each_half_of_the_first_lines_is_waited_for(before):
    """Three slices are in the first span of a row, which is there before anybody multiplies."""
    kernel = comes_round(300)
    assert kernel.facts["slices"] == 5
    waits = rf"({before}\$counting_\d+:\n)(?:    [^\n]*\n){{3}}"
    assert "data-race" in found_in(kernel, waits, r"\1")


@pytest.mark.parametrize("k", [100, 98, 97])
@pytest.mark.parametrize("rows", [-64, 64])
def test_rows_of_a_have_one_time(k, rows, monkeypatch):
    """A row of tiles copied later than its band needs it, or before the band is done whose place
    it takes: nothing but the order of the copies keeps them apart."""
    due = Windowed._due

    def moved(self: Any, step: Any) -> Any:
        b, right = self.b, due(self, step)
        if rows < 0:
            return b.sub("u32", right, -rows)
        return b.min("u32", b.add("u32", right, rows), self.problem.m)

    monkeypatch.setattr(Windowed, "_due", moved)
    kernel = comes_round(k)
    run = mmalab.emulate(kernel, arguments(kernel), target="sm_90a")
    assert "data-race" in {finding.code for finding in run.findings}


def test_ctas_that_wait_for_each_other_must_all_be_there():
    """A chip with fewer SMs than CTAs is refused, for it would never end."""
    kernel = windowed(136, 512, 100, sms=8)
    assert kernel.facts["meets"]
    check_resident(kernel, 8)
    with pytest.raises(UsageError, match="wait for each other, one an SM, and the device has 7"):
        check_resident(kernel, 7)


#: A row's title in the table of rows that are no multiples of 16 bytes.
_WINDOWS = [row for row in TABLES["unaligned"] if "through windows" in row.title]


#: Other large tiles, the second with 24 registers for the warps that copy.
_OTHERS = ({"tile": (128, 256), "stages": 4, "cluster": (2, 1), "copy": "windowed"},
           {"tile": (256, 208), "stages": 3, "cluster": (1, 2), "copy": "windowed", "band": 2816})


@pytest.mark.toolkit
@pytest.mark.parametrize(("row", "given"), [
    pytest.param(row, given, id=f"{row.k}-{at}")
    for row in _WINDOWS for at, given in enumerate((*row.arguments, *_OTHERS))])
def test_large_tiles_assemble_without_advice(row, given):
    """The warps that copy have 24 or 40 registers; nothing is spilled, no product serialised."""
    kernel = make_kernel(row.kernel, row.m, row.n, row.k, given)
    assert kernel.facts["copy"] == "windowed"
    cubin = mmalab.assemble(kernel)
    assert cubin.diagnostics == ()
    assert cubin.resources.spills == 0


def test_the_table_has_windows():
    """Rows aligned to 8, 4 and 2 bytes; no candidate is another one, and none holds all of A."""
    assert [row.k for row in _WINDOWS] == [4092, 4090, 4095]
    for row in _WINDOWS:
        made = [make_kernel(row.kernel, row.m, row.n, row.k, given) for given in row.arguments]
        assert len({kernel.ptx for kernel in made}) == len(made)
        assert max(kernel.facts["window"][0] for kernel in made) <= 3 * row.m // 4


def test_aligned_rows_need_no_windows():
    """They are read where they lie."""
    assert windowed(136, 64, 64).facts["copy"] == "tma"


@pytest.mark.parametrize(("make", "words"), [
    (lambda: windowed(128, 64, 36, persistent=False), "must all be resident"),
    (lambda: windowed(128, 64, 36, cluster=(4, 1)), "copy 'windowed'.*\n?.*copies one A and one B"),
    (lambda: gemm(128, 64, 36, batch=2, plan=Plan(**SMALL)), "copies one A and one B"),
    (lambda: windowed(136, 64, 75, dtype="s8"), "rows of odd bytes"),
])
def test_what_cannot_be_windowed(make, words):
    """Plans and sizes that have no windows, and what has."""
    with pytest.raises(UsageError, match=words):
        make()
