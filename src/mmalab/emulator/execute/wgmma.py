"""wgmma: each warp issues its part, the product happens when the schedule says.

Descriptors, scale-d and metadata are read when a warp issues; shared memory and registers when the
product is done, so that a kernel that touches them too early computes something else under some
schedule. The four warps of a warpgroup must issue the same thing.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mmalab import formats
from mmalab.descriptors import WGMMA
from mmalab.emulator.async_engine import Task
from mmalab.emulator.events import Span, Wgmma, WgmmaCommit, WgmmaFence, WgmmaWait
from mmalab.emulator.execute.mma import unit_of
from mmalab.emulator.execute.registry import executes
from mmalab.emulator.execute.wgmma_operands import SharedOperand, from_slots, to_slots
from mmalab.emulator.execute.wgmma_plan import Plan, plan_of
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.program import Imm, Site
from mmalab.emulator.state import pack
from mmalab.emulator.warpgroups import WARPS, Part, Product
from mmalab.numerics.fragments import metadata_indices, multiply_sparse
from mmalab.numerics.matrix import multiply
from mmalab.numerics.operands import Words

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__: list[str] = []


# --- issue ----------------------------------------------------------------------------------------

@executes("wgmma.mma_async")
def _issue(lanes: Lanes) -> None:
    plan, machine = plan_of(lanes.machine, lanes.site), lanes.machine
    named: dict[str, NDArray[Any]] = {
        name: lanes.read(plan.index[name]) for name in ("a", "b", "e")
        if name in plan.index and not (name == "a" and plan.a is not None)}
    named["scale_d"] = lanes.predicate(plan.index["scale_d"])
    _check_defined(lanes, plan, named["scale_d"])
    for position, row in enumerate(lanes.rows.tolist()):
        if machine.stopped or not lanes.mask[position].any():
            continue
        operands = tuple((name, _uniform(lanes, position, name, words[position]))
                         for name, words in named.items() if name != "e")
        metadata = named["e"][position] if "e" in named else None
        _issue_part(lanes, position, row, plan, Part(lanes.site, operands, metadata))


def _issue_part(lanes: Lanes, position: int, row: int, plan: Plan, part: Part) -> None:
    machine = lanes.machine
    found = _operands(machine, row, plan, part)
    if found is None:
        return
    product = machine.warpgroups.issue(row, part)
    if machine.observed:
        cta, warp = machine.state.where(row)
        machine.emit(Wgmma(
            cta, warp, lanes.site.index, int(pack(lanes.mask[position])), product.index,
            _spans(cta, found), () if plan.a is None else tuple(plan.a.tolist()),
            tuple(plan.d.tolist()), bool(dict(part.operands)["scale_d"]), plan.form.key))
    _check_warpgroup(machine, row, product, part)
    _check_metadata(machine, row, plan, part)
    if len(product.parts) < WARPS:
        return
    engine, queue = machine.engine, machine.warpgroups.queue_of(row)
    task = Task(row, part.site, queue, engine.open_group(queue),
                [partial(_multiply, machine, product)])
    engine.commit_group(queue)
    engine.issue_task(task)


def _check_defined(lanes: Lanes, plan: Plan, scale_d: NDArray[np.bool_]) -> None:
    """Registers that nobody wrote: read ones are told, D counts as written from here on."""
    defined = lanes.state.defined
    if plan.a is not None and any(("r", slot) in defined for slot in plan.a.tolist()):
        lanes.read_all(plan.index["a"])
    if not any(("r", slot) in defined for slot in plan.d.tolist()):
        return
    if (scale_d & lanes.mask).any():
        lanes.subset(lanes.mask & scale_d).read_all(plan.index["d"])
    for slot in plan.d.tolist():
        if ("r", slot) in defined:
            defined["r", slot][lanes.rows] |= pack(lanes.mask)


def _uniform(lanes: Lanes, position: int, name: str, words: NDArray[Any]) -> int:
    """The value that all lanes of a warp must give."""
    mask = lanes.mask[position]
    lane = int(mask.argmax())
    other = mask & (words != words[lane])
    if other.any():
        at = int(other.argmax())
        lanes.machine.report(
            "illegal-value", f"operand {name} of {lanes.site.form.key} differs between lanes:"
            f" {int(words[lane]):#x} in lane {lane}, {int(words[at]):#x} in lane {at}",
            site=lanes.site, row=int(lanes.rows[position]), lane=at)
    return int(words[lane])


def _check_warpgroup(machine: Machine, row: int, product: Product, part: Part) -> None:
    """The part must be what the other warps of the warpgroup issued."""
    warps = machine.shape.warps
    if product.first % warps + WARPS > warps:
        machine.report(
            "divergent-collective", f"{part.site.form.key} needs the four warps of a warpgroup; the"
            f" CTA has {warps} warps, {warps % WARPS} in the last warpgroup",
            site=part.site, row=row)
    lead = product.part
    if lead is part:
        return
    first = product.first % warps + next(iter(product.parts))
    if lead.site.index != part.site.index:
        machine.report(
            "divergent-collective", f"wgmma {product.index} of the warpgroup is"
            f" {part.site.text.strip()} here and line {lead.site.line} in warp {first}",
            site=part.site, row=row, witness={"line": lead.site.line, "warp": first})
        return
    for (name, mine), (_, theirs) in zip(part.operands, lead.operands, strict=True):
        if mine != theirs:
            machine.report(
                "illegal-value", f"operand {name} of {part.site.form.key} is {mine:#x} here and"
                f" {theirs:#x} in warp {first} of the warpgroup", site=part.site, row=row,
                witness={"operand": name, "here": mine, "warp": first, "there": theirs})


def _check_metadata(machine: Machine, row: int, plan: Plan, part: Part) -> None:
    """Selections that the hardware does not define, in the lanes whose metadata counts."""
    sparsity = plan.form.sparsity
    if sparsity is None or part.metadata is None:
        return
    count, selector = sparsity.contributors, plan.literals["f"]
    lanes = np.nonzero(np.arange(32) % 4 // count == selector)[0]
    nibbles = part.metadata[lanes, None] >> (4 * np.arange(8, dtype=np.uint32)) & np.uint32(15)
    wrong = np.argwhere(~np.isin(nibbles, sparsity.patterns))
    if len(wrong):
        lane, nibble = int(lanes[wrong[0, 0]]), int(nibbles[tuple(wrong[0])])
        machine.report(
            "sparse-metadata", f"{nibble:#06b} in bits {4 * wrong[0, 1] + 3}:{4 * wrong[0, 1]} of"
            f" the metadata of lane {lane} selects nothing that {plan.form.key} defines; legal: "
            + ", ".join(f"{pattern:#06b}" for pattern in sparsity.patterns),
            site=part.site, row=row, lane=lane,
            witness={"metadata": int(part.metadata[lane]), "nibble": nibble})


# --- descriptors ----------------------------------------------------------------------------------

#: Side -> (operand, the shared address that it is relative to).
_Found = dict[str, tuple[SharedOperand, int]]


def _operands(machine: Machine, row: int, plan: Plan, part: Part) -> _Found | None:
    """The operands in shared memory; None after a report that ended the run."""
    values, found = dict(part.operands), _Found()
    for side in "ab":
        if side not in values:
            continue
        word = values[side]
        _judge(machine, row, part.site, side, word)
        operand, base = found[side] = plan.operand(side, word)
        low, high = (base + end for end in operand.extent)
        space = machine.space
        if low < space.shared_start or high > space.shared_bytes:
            machine.report(
                "out-of-bounds", f"operand {side} of {plan.form.key} reaches from shared address"
                f" {low:#x} to {high:#x} (descriptor {word:#018x}); the CTA has"
                f" {space.shared_start:#x} to {space.shared_bytes:#x}", site=part.site, row=row,
                fatal=True, witness={"operand": side, "descriptor": word, "first": low,
                                     "behind": high})
            return None
    return found


@lru_cache(maxsize=4096)
def _verdict(word: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return (tuple(str(problem).partition("\n  see:")[0] for problem in WGMMA.problems(word)),
            tuple(WGMMA.remarks(word)))


def _judge(machine: Machine, row: int, site: Site, side: str, word: int) -> None:
    """Report what is wrong with a descriptor; its fields are used as they are."""
    errors, remarks = _verdict(word)
    for text in errors:
        machine.report("illegal-value", f"descriptor {side} of {site.form.key}: {text}", site=site,
                       row=row, witness={"operand": side, "descriptor": word})
    if not errors:
        for text in remarks:
            machine.report("illegal-value", f"descriptor {side} of {site.form.key}: {text}",
                           site=site, row=row, severity="warning",
                           witness={"operand": side, "descriptor": word})


def _spans(owner: int, found: _Found) -> tuple[Span, ...]:
    return tuple(operand.span(owner, base) for operand, base in found.values())


# --- the product ----------------------------------------------------------------------------------

def _multiply(machine: Machine, product: Product) -> None:
    """D = A B + D, now."""
    part, first = product.part, product.first
    plan, values = plan_of(machine, part.site), dict(part.operands)
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
    machine.counters["tensor.flops"] += plan.form.flops


def _fetch(machine: Machine, product: Product, plan: Plan, side: str, word: int) -> Words:
    operand, base = plan.operand(side, word)
    space = machine.space
    at = product.first // machine.shape.warps * space.shared_stride + base
    written = space.shared.written
    if written is not None:
        missing = operand.unwritten(written, at)
        if missing is not None:
            machine.report(
                "uninitialised-read", f"operand {side} of {plan.form.key} at shared address"
                f" {base + missing:#x}: never written before", site=product.part.site,
                row=product.first, witness={"address": base + missing, "descriptor": word})
    return operand.fetch(space.shared.data, at)


def _signed(plan: Plan, side: str, words: Words) -> Words:
    if plan.sign(side) == 1:
        return words
    sign = words.dtype.type(1 << formats.get(plan.type(side)).bits - 1)
    return np.asarray(words ^ sign)


def _result(machine: Machine, product: Product, plan: Plan, a: Words, b: Words, d: Words) -> Words:
    unit = unit_of(plan.form, machine.target)
    with np.errstate(all="ignore"):
        sparsity = plan.form.sparsity
        if sparsity is None and machine.numerics == "fast" and unit.algorithm == "tfs":
            return _fast(plan, a, b, d)
        if sparsity is None:
            return multiply(unit, a, b.T, d, k=plan.shape[2])
        registers = np.stack([part.metadata for _, part in sorted(product.parts.items())
                              if part.metadata is not None])
        where = metadata_indices(sparsity, a.shape[-1], registers, plan.literals["f"])
        return multiply_sparse(unit, a, b.T, d, where.reshape(a.shape), unit.acc)


def _fast(plan: Plan, a: Words, b: Words, d: Words) -> Words:
    """Float32 products and sums."""
    left, right, start = (words.view(_FLOATS.get(type_) or formats.dtype_of(type_))
                          for words, type_ in ((a, plan.type("a")), (b, plan.type("b")),
                                               (d, plan.form.fragments["D"].type)))
    total = left.astype(np.float32) @ right.astype(np.float32).T + start.astype(np.float32)
    return np.asarray(total.astype(start.dtype).view(d.dtype))


#: TF32 is kept in 32 bits.
_FLOATS: dict[str, Any] = {"tf32": np.float32}


# --- groups ---------------------------------------------------------------------------------------

@executes("wgmma.fence")
def _fence(lanes: Lanes) -> None:
    _tell(lanes, WgmmaFence)


@executes("wgmma.commit_group")
def _commit(lanes: Lanes) -> None:
    for position, row in enumerate(lanes.rows.tolist()):
        if lanes.mask[position].any():
            lanes.machine.warpgroups.commit(row)
    _tell(lanes, WgmmaCommit)


def _tell(lanes: Lanes, event: type[WgmmaFence | WgmmaCommit]) -> None:
    if not lanes.machine.observed:
        return
    for position, row in enumerate(lanes.rows.tolist()):
        if lanes.mask[position].any():
            cta, warp = lanes.machine.state.where(row)
            lanes.machine.emit(event(cta, warp, lanes.site.index, int(pack(lanes.mask[position]))))


@executes("wgmma.wait_group")
def _wait(lanes: Lanes) -> None:
    """Warps that come before others have issued what they wait for stand here until then."""
    machine, count = lanes.machine, lanes.operands[0]
    newest = count.word if isinstance(count, Imm) else 0
    for position, row in enumerate(lanes.rows.tolist()):
        active = lanes.mask[position]
        if not active.any():
            continue
        if machine.warpgroups.wait(row, newest):
            if machine.observed:
                cta, warp = machine.state.where(row)
                machine.emit(WgmmaWait(cta, warp, lanes.site.index, int(pack(active)), newest))
            continue
        machine.state.pc[row][active] = lanes.site.index
        machine.counts[lanes.site.index] -= 1  # it has not been executed yet
        machine.park(row, active, {"site": lanes.site, "explain": machine.warpgroups.explain})
        _check_siblings(machine, row, lanes.site)


def _check_siblings(machine: Machine, row: int, site: Site) -> None:
    lacks = machine.warpgroups.explain(row)
    if lacks["ended_warps"]:
        ended = ", ".join(map(str, lacks["ended_warps"]))
        machine.report(
            "divergent-collective", f"the warpgroup's products wait for warps {ended}, which have"
            " ended without issuing their part", site=site, row=row, witness=lacks)
