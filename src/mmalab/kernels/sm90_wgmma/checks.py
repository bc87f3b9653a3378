"""Whether there is such a kernel: what sizes, types and choices ask of each other.

Each check refuses with what was given, the rule, and the nearest that would do; the order is from
what nothing mends to what another choice mends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmalab import isa
from mmalab.errors import UsageError
from mmalab.kernels.sm90_wgmma.plan import (
    EXPERT_ROWS,
    INSTRUCTION_REGISTERS,
    MOST_REGISTERS,
    SLICE,
    WORKING_REGISTERS,
)

if TYPE_CHECKING:
    from mmalab.kernels.sm90_wgmma.problem import Problem

__all__ = ["check", "check_sizes"]

_WHERE = "mmalab.kernels.sm90_wgmma"
#: Coordinates of a tensor map are 32-bit and signed.
_MOST = (1 << 31) - 1


def check_sizes(**sizes: int) -> None:
    """Refuse what is no size.

    Raises:
        UsageError: naming it.
    """
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= _MOST:
            raise UsageError(f"{name}={size!r}", "is no size of a matrix", legal=f"1 to {_MOST}",
                             where=_WHERE)


def check(p: Problem) -> None:
    """Refuse a problem that no kernel computes.

    Raises:
        UsageError: with the nearest that one does.
    """
    check_sizes(m=p.m, n=p.n, k=p.k, batch=p.batch)
    if max(p.lines) > _MOST:
        raise UsageError(f"{max(p.lines)} rows in all", "coordinates have 31 bits",
                         legal=f"up to {_MOST}", where=_WHERE)
    p.recipe.check_out(p.out)
    p.recipe.form(p.plan.tile[1])
    _check_panels(p)
    _check_rows(p)
    _check_strides(p)
    _check_store(p)
    _check_promotion(p)
    _check_experts(p)
    _check_registers(p)
    p.plan.check_shared(p.out_bytes)


def _check_panels(p: Problem) -> None:
    """Whether C leaves in whole boxes, which its part of shared memory is counted in."""
    columns = p.plan.tile[1]
    if p.plan.store == "staged" and columns % 16:
        raise UsageError(f"store {p.plan.store!r}, {columns} columns of the tile",
                         "C leaves through shared memory 16 columns at a time",
                         legal=[*(str(n) for n in (columns - 8, columns + 8) if n),
                                "store='direct'"], where=_WHERE)


def _check_rows(p: Problem) -> None:
    """Whether rows can be read that way at all, whatever the rest of the plan."""
    if p.unit == 16:
        return
    if p.unit < 2:
        raise UsageError(f"k={p.k}", "rows of odd bytes cannot be copied by words",
                         legal="an even k", where=_WHERE)
    if p.plan.copy == "tma":
        step = 16 // p.recipe.bytes
        raise UsageError(f"copy 'tma', k={p.k}", f"rows of {p.pitch} bytes are no "
                         "multiples of 16, as a tensor map's strides are",
                         legal=["'shifted'", "'threads'", "'padded'", "'windowed'",
                                f"k={p.k + -p.k % step}"],
                         where="CUDA driver API, cuTensorMapEncodeTiled")


def _check_strides(p: Problem) -> None:
    if p.padded or p.windowed:
        _check_copied(p)
    if p.shifted:
        _check_shifted(p)
    if not p.gathered:
        return
    _check_registers(p)  # what no way out mends, before the way out
    p.plan.check_shared(p.out_bytes)
    if p.batch > 1 and (p.m % 2 or p.n % 2):
        raise UsageError(f"m={p.m}, n={p.n}, batch={p.batch}", "threads that gather "
                         "take every matrix to begin at an even row of all",
                         legal=f"even m and n, or k a multiple of {16 // p.recipe.bytes}",
                         where=_WHERE)
    gathered = f"rows of {p.pitch} bytes are gathered by threads"
    if p.plan.cluster != (1, 1):
        raise UsageError(f"cluster {p.plan.cluster}, k={p.k}", f"{gathered}, for one CTA",
                         legal="cluster (1, 1), or copy 'shifted'", where=_WHERE)
    if p.dealt:
        raise UsageError(f"store {p.plan.store!r} ('permuted' is a plan's default), "
                         f"k={p.k}", f"{gathered}, which deal out no columns",
                         legal="store 'staged' or 'direct', or copy 'shifted'", where=_WHERE)
    # The group's threads copy so many lines at a time, the even ones by up to 16 bytes each.
    columns, together = p.plan.tile[1], 2 * min(16, 2 * p.unit)
    if columns % together:
        raise UsageError(f"{columns} columns of the tile, k={p.k}",
                         f"threads gather {together} lines at a time",
                         legal=[str(n) for n in sorted({
                             max(columns - columns % together, together),
                             columns + -columns % together})], where=_WHERE)


def _check_shifted(p: Problem) -> None:
    plan, phases = p.plan, p.phases
    alone = p.batch == 1 and not p.experts
    if min(p.m, p.n) < phases or (any(p.left_over) and not alone):
        raise UsageError(f"m={p.m}, n={p.n}, k={p.k}", "tensor maps of rows that are "
                         f"to be shifted count {phases} of them at a time",
                         legal=(f"{phases} rows or more" if alone else
                                f"multiples of {phases}") + ", or copy='threads'",
                         where=_WHERE)
    if plan.store == "staged" and p.dealt:
        raise UsageError(f"store {plan.store!r}, out={p.out!r}, k={p.k}", "is none for "
                         "lines that are to be shifted", legal="store 'permuted' or 'direct'",
                         where=_WHERE)
    if plan.store == "permuted" and p.dealt_in > 1:
        raise UsageError(f"store 'permuted', cluster {plan.cluster}, k={p.k}", "each CTA "
                         "copies whole deals of columns that are to be shifted",
                         legal="cluster (1, 2), store 'staged' or 'direct'", where=_WHERE)
    if plan.stages < plan.flight + 2:
        raise UsageError(f"stages={plan.stages}, flight={plan.flight}, k={p.k}", "a line "
                         "ends in the next slice, so that this one and those that products "
                         "under way hold are there with it", legal=f"{plan.flight + 2} stages "
                         "or more", where=_WHERE)
    if p.loaded:
        _check_loaded(p)
    if plan.schedule != "cooperative" or plan.groups == 1:
        raise UsageError(f"copy 'shifted', {plan.groups} groups, {plan.schedule}",
                         "lines are shifted for groups that share tiles",
                         legal="2 or 3 groups, cooperative", where=_WHERE)


def _check_loaded(p: Problem) -> None:
    plan, lines = p.plan, p.phase_lines
    if (plan.tile[0] % (16 * p.phases) or plan.groups != 2 or plan.cluster[1] > p.phases
            or not (64 % lines == 0 or lines % plan.group_rows == 0)):
        raise UsageError(f"left 'registers', tile {plan.tile}, cluster {plan.cluster}, "
                         f"{plan.groups} groups, k={p.k}", f"warps take 16 rows of one of "
                         f"{p.phases} phases", legal="256 rows, 2 groups", where=_WHERE)
    if (p.m % p.phases or plan.store == "staged" or p.promote_every is not None
            or p.batch > 1 or p.experts or plan.stages < 3):
        raise UsageError(f"left 'registers', m={p.m}, store {plan.store!r}, "
                         f"{plan.stages} stages", "rows of C are found by phase, for sums that "
                         "stay in their registers", legal=f"m a multiple of {p.phases}, one "
                         "product, store 'permuted' or 'direct', 3 stages or more",
                         where=_WHERE)


def _check_copied(p: Problem) -> None:
    if p.batch > 1 or p.experts or not p.plan.persistent or p.plan.ctas > 2:
        raise UsageError(f"copy {p.plan.copy!r}, batch {p.batch}, {p.experts} experts, cluster "
                         f"{p.plan.cluster}", "copies one A and one B, by CTAs that must all be "
                         "resident", legal="one product, persistent, clusters of 1 or 2",
                         where=_WHERE)


def _check_store(p: Problem) -> None:
    plan = p.plan
    if p.dealt:
        for name, size in (("n", p.n), ("columns of the tile", plan.tile[1])):
            if size % p.deal:
                raise UsageError(f"{name} {size}", f"store {plan.store!r} of {p.out} deals "
                                 f"out {p.deal} columns at a time", legal="store='direct'",
                                 where=_WHERE)
    if plan.store == "staged":
        step = 16 // p.out_bytes
        if p.n % step:
            raise UsageError(f"n={p.n}", "rows of C in a tensor map are a multiple of 16 "
                             "bytes", legal=f"a multiple of {step}, or store='direct'",
                             where=_WHERE)
    if p.deal // 8 % p.dealt_in:
        raise UsageError(f"{plan.tile[1]} columns in {plan.cluster[0]} parts",
                         f"store {plan.store!r} deals out {p.deal} columns at a time",
                         legal="store='direct' or another cluster", where=_WHERE)


def _check_promotion(p: Problem) -> None:
    if p.scaled and (p.recipe.bytes != 1 or p.k % SLICE
                        or p.plan.tile[1] not in (SLICE, 2 * SLICE)):
        raise UsageError(f"scaled {p.recipe.dtype} products, k={p.k}, "
                         f"tile {p.plan.tile}", "scales belong to 128 values of K and 128 "
                         "columns", legal="an 8-bit float, k a multiple of 128, 128 or 256 "
                         "columns", where=_WHERE)
    if p.promote_every is None:
        return
    if p.recipe.accumulator != "f32":
        raise UsageError(f"promote_every={p.promote_every}", "adds partial sums in FP32",
                         legal="accumulate='f32'", where=_WHERE)
    legal = [size for size in range(p.recipe.k, p.values + 1, p.recipe.k)
             if p.values % size == 0]
    if p.promote_every not in (legal[-1:] if p.scaled else legal):
        raise UsageError(f"promote_every={p.promote_every}", f"in slices of {p.values} "
                         "values", legal=[str(size) for size in legal], where=_WHERE)


def _check_experts(p: Problem) -> None:
    if p.scaled and (p.batch > 1 or p.experts):
        raise UsageError("scaled products in a batch", "have no scales of their own",
                         legal="scaled=False", where=_WHERE)
    if not p.experts:
        return
    check_sizes(experts=p.experts)
    plan = p.plan
    if (p.m % EXPERT_ROWS or p.batch > 1 or plan.tile[0] != EXPERT_ROWS
            or plan.cluster[0] > 1 or p.gathered):
        raise UsageError(f"m={p.m}, tile {plan.tile}, cluster {plan.cluster}, "
                         f"{p.experts} experts", f"each {EXPERT_ROWS} rows have a B of "
                         "their own", legal=f"m a multiple of {EXPERT_ROWS}, tiles of "
                         f"{EXPERT_ROWS} rows, no cluster along M", where=_WHERE)


def _check_registers(p: Problem) -> None:
    most = (p.registers or (0, MOST_REGISTERS))[1] - WORKING_REGISTERS
    if p.accumulators > most:
        raise UsageError(f"tile {p.plan.tile} with {p.accumulators} registers of sums",
                         f"a thread has {most} for them, else they spill",
                         legal="a smaller tile, part or parts", where=_WHERE)
    columns = p.plan.part_columns if p.promote_every else p.plan.tile[1]
    each = 4 if p.recipe.accumulator == "f16" else 2  # columns to a register of sums
    launched = min(isa.limits("sm_90").registers // p.plan.threads // 8 * 8, MOST_REGISTERS)
    if columns // each + INSTRUCTION_REGISTERS > launched:
        raise UsageError(f"{columns} columns of an instruction, {p.plan.groups} groups",
                         f"a block of {p.plan.threads} threads begins with {launched} registers "
                         f"each, of which wgmma takes {INSTRUCTION_REGISTERS} beside its sums",
                         legal=f"up to {(launched - INSTRUCTION_REGISTERS) * each // 8 * 8} "
                         "columns, or fewer groups", where="ptxas, C7602")
