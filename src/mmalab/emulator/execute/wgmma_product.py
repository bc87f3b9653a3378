"""D = A B + D of a warpgroup, when the schedule says: by compiled code where there is some.

Sparse products and bits are done by NumPy. ``numerics="fast"`` changes nothing: the compiled
products are exact, and quicker than float32 ones through NumPy would be.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from mmalab import formats
from mmalab.emulator.async_engine import Task
from mmalab.emulator.execute.mma import unit_of
from mmalab.emulator.execute.wgmma_descriptors import described, family, likely
from mmalab.emulator.execute.wgmma_operands import SharedOperand, from_slots, to_slots
from mmalab.emulator.execute.wgmma_plan import Plan, plan_of
from mmalab.emulator.execute.wgmma_tiles import Batch, TilePlan, tile_plan
from mmalab.emulator.program import Site
from mmalab.emulator.warpgroups import Product
from mmalab.numerics.fragments import metadata_indices, multiply_sparse
from mmalab.numerics.matrix import multiply
from mmalab.numerics.operands import Words

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["count", "start", "tiles_of", "together"]

#: Of mma.sync.m16n8k16.
_FLOPS = 4096


@contextmanager
def together(machine: Machine) -> Iterator[None]:
    """Products inside are collected, and done together at the end."""
    batch = machine.warpgroups.batch = Batch()
    try:
        yield
    finally:
        machine.warpgroups.batch = None
        batch.run()


def start(machine: Machine, product: Product) -> None:
    """All four warps have issued: the product is under way."""
    plan = plan_of(machine, product.part.site)
    count(machine, plan, 1, compiled=tiles_of(machine, product.part.site, plan) is not None)
    engine, queue = machine.engine, machine.warpgroups.queue_of(product.first)
    task = Task(product.first, product.part.site, queue, engine.open_group(queue),
                [partial(_multiply_now, machine, product)])
    engine.commit_group(queue)
    engine.issue_task(task)


def _multiply_now(machine: Machine, product: Product) -> None:
    """D = A B + D, now or with the batch that is being collected."""
    part, first = product.part, product.first
    plan, values = plan_of(machine, part.site), dict(part.operands)
    tiles, batch = tiles_of(machine, part.site, plan), machine.warpgroups.batch
    if tiles is not None:
        _multiply_compiled(machine, product, plan, tiles)
        return
    if batch is not None:
        batch.run()
    fragments = plan.form.fragments
    a = (_fetch(machine, product, plan, "a", values["a"]) if plan.a is None
         else from_slots(machine, first, plan.a, fragments["A"]))
    b = _fetch(machine, product, plan, "b", values["b"])
    a, b = _signed(plan, "a", a), _signed(plan, "b", b)
    if values["scale_d"]:
        d = from_slots(machine, first, plan.d, fragments["D"])
    else:
        d = np.zeros((fragments["D"].rows, fragments["D"].cols),
                     formats.get(fragments["D"].type).dtype)
    to_slots(machine, first, plan.d, fragments["D"], _result(machine, product, plan, a, b, d))


def count(machine: Machine, plan: Plan, products: int, *, compiled: bool) -> None:
    """Work begun, and what it takes out of the run's budget: as much as the mma.sync of the same
    size, 64 times that in NumPy."""
    flops = plan.form.flops * products
    machine.counters["tensor.flops"] += flops
    machine.instructions += flops // _FLOPS * (1 if compiled else 64)


def tiles_of(machine: Machine, site: Site, plan: Plan) -> TilePlan | None:
    """The tables of a site for compiled code, made once; None where NumPy does it."""
    tiles: dict[int, TilePlan | None] = machine.warpgroups.tiles
    if site.index not in tiles:
        tiles[site.index] = tile_plan(machine, plan, unit_of(plan.form, machine.target))
    return tiles[site.index]


def _multiply_compiled(machine: Machine, product: Product, plan: Plan, tiles: TilePlan) -> None:
    values = dict(product.part.operands)
    operands = {side: plan.operand(side, values[side]) for side in "ab" if side in values}
    for side, (operand, base) in operands.items():
        _check_written(machine, product, side, operand, base)
    job = tiles.job(machine, product.first, bool(values["scale_d"]), operands)
    batch: Batch | None = machine.warpgroups.batch
    alone = Batch() if batch is None else batch
    alone.add(product.first, tiles.tile, job)
    if batch is None:
        alone.run()


def _fetch(machine: Machine, product: Product, plan: Plan, side: str, word: int) -> Words:
    operand, base = plan.operand(side, word)
    space = machine.space
    _check_written(machine, product, side, operand, base)
    at = product.first // machine.shape.warps * space.shared_stride + base
    return operand.fetch(space.shared.data, at)


def _check_written(machine: Machine, product: Product, side: str, operand: SharedOperand,
                   base: int) -> None:
    space, site = machine.space, product.part.site
    written = space.shared.written
    if written is None:
        return
    at = product.first // machine.shape.warps * space.shared_stride + base
    missing = operand.unwritten(written, at)
    if missing is not None:
        word = dict(product.part.operands)[side]
        machine.report(
            "uninitialised-read", f"operand {side} of {site.form.key} at shared address"
            f" {base + missing:#x}: never written before ({described(word)})"
            f"{likely(machine, word, operand)}", site=site, row=product.first,
            witness={"address": base + missing, "descriptor": word, "family": family(side, word)})


def _signed(plan: Plan, side: str, words: Words) -> Words:
    if plan.sign(side) == 1:
        return words
    sign = words.dtype.type(1 << formats.get(plan.type(side)).bits - 1)
    return np.asarray(words ^ sign)


def _result(machine: Machine, product: Product, plan: Plan, a: Words, b: Words, d: Words) -> Words:
    unit = unit_of(plan.form, machine.target)
    with np.errstate(all="ignore"):
        sparsity = plan.form.sparsity
        if sparsity is None:
            return multiply(unit, a, b.T, d, k=plan.shape[2])
        # warps that issued something else, which has been told, have no metadata of their own
        lead = product.part.metadata
        registers = np.stack([np.zeros(32, np.uint32) if words is None else words for words in (
            part.metadata if part.metadata is not None else lead
            for _, part in sorted(product.parts.items()))])
        where = metadata_indices(sparsity, a.shape[-1], registers, plan.literals["f"])
        return multiply_sparse(unit, a, b.T, d, where.reshape(a.shape), unit.acc)
