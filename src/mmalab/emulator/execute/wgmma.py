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

from mmalab.descriptors import WGMMA
from mmalab.emulator.async_engine import Task
from mmalab.emulator.events import Span, Wgmma
from mmalab.emulator.execute.registry import executes
from mmalab.emulator.execute.wgmma_operands import SharedOperand
from mmalab.emulator.execute.wgmma_plan import Plan, plan_of
from mmalab.emulator.execute.wgmma_product import multiply_now, tiles_of, together
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.program import Site
from mmalab.emulator.state import pack
from mmalab.emulator.warpgroups import WARPS, Part, Product

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
    with together(machine):
        whole = np.zeros(len(lanes.rows), bool)
        if not machine.observed:
            whole = _issue_whole(lanes, plan, named)
        _issue_parts(lanes, plan, named, np.nonzero(~whole & lanes.mask.any(axis=1))[0].tolist())


def _issue_parts(lanes: Lanes, plan: Plan, named: dict[str, NDArray[Any]],
                 positions: list[int]) -> None:
    """Warp by warp."""
    machine = lanes.machine
    for position in positions:
        if machine.stopped:
            return
        row = int(lanes.rows[position])
        operands = tuple((name, _uniform(lanes, position, name, words[position]))
                         for name, words in named.items() if name != "e")
        metadata = named["e"][position] if "e" in named else None
        _issue_part(lanes, position, row, plan, Part(lanes.site, operands, metadata))


def _issue_whole(lanes: Lanes, plan: Plan, named: dict[str, NDArray[Any]]) -> NDArray[np.bool_]:
    """Warpgroups whose four warps stand here with equal operands, all at once; which [rows]."""
    machine, rows = lanes.machine, lanes.rows
    done = np.zeros(len(rows), bool)
    tiles = tiles_of(machine, lanes.site, plan)
    if tiles is None or len(rows) < WARPS:
        return done
    warps, groups = machine.shape.warps, machine.warpgroups
    at = np.nonzero((rows[: 1 - WARPS] % warps % WARPS == 0)
                    & (rows[WARPS - 1 :] - rows[: 1 - WARPS] == WARPS - 1)
                    & (rows[: 1 - WARPS] % warps + WARPS <= warps))[0]
    four = at[:, None] + np.arange(WARPS)
    alike = lanes.mask[four].all(axis=(1, 2))
    alike &= (groups.issued[rows[four]] == groups.issued[rows[at]][:, None]).all(axis=1)
    for words in named.values():
        alike &= (words[four] == words[at, 0][:, None, None]).all(axis=(1, 2))
    at = at[alike]
    values = {name: words[at, 0].tolist() for name, words in named.items()}
    for number, first in enumerate(rows[at].tolist()):
        operands = tuple((name, int(words[number])) for name, words in values.items())
        part = Part(lanes.site, operands)
        if _operands(machine, first, plan, part) is None:
            return np.ones(len(rows), bool)
        product = groups.issue_whole(first, part)
        _start(machine, first, product)
    done[at[:, None] + np.arange(WARPS)] = True
    return done


def _start(machine: Machine, row: int, product: Product) -> None:
    """All four warps have issued: the product is under way."""
    engine, queue = machine.engine, machine.warpgroups.queue_of(row)
    task = Task(row, product.part.site, queue, engine.open_group(queue),
                [partial(multiply_now, machine, product)])
    engine.commit_group(queue)
    engine.issue_task(task)


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
    if len(product.parts) == WARPS:
        _start(machine, row, product)


def _check_defined(lanes: Lanes, plan: Plan, scale_d: NDArray[np.bool_]) -> None:
    """Registers that nobody wrote: read ones are told, D counts as written from here on."""
    defined = lanes.state.defined if lanes.machine.sanitize else {}
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
            f" {part.site.shown} here and line {lead.site.line} in warp {first}",
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
