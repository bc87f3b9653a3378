"""wgmma: each warp issues its part, the product happens when the schedule says.

Descriptors, scale-d and metadata are read when a warp issues; shared memory and registers when the
product is done, so that a kernel that touches them too early computes something else under some
schedule. The four warps of a warpgroup must issue the same thing.

Counted are ``tensor.flops`` alone: reads of shared memory by a product go through no bank model
here, so ``shared.wavefronts`` has none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.events import Span, Wgmma
from mmalab.emulator.execute.registry import executes
from mmalab.emulator.execute.wgmma_checks import (
    bounds_kept,
    check_defined,
    check_metadata,
    check_warpgroup,
    judge,
    uniform,
)
from mmalab.emulator.execute.wgmma_descriptors import check_overlap
from mmalab.emulator.execute.wgmma_operands import SharedOperand
from mmalab.emulator.execute.wgmma_plan import Plan, plan_of
from mmalab.emulator.execute.wgmma_product import start, tiles_of, together
from mmalab.emulator.execute.wgmma_whole import issue_whole
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.state import any_lane, pack
from mmalab.emulator.warpgroups import WARPS, Part

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
    check_defined(lanes, plan, named["scale_d"])
    tiles = tiles_of(machine, lanes.site, plan)
    if tiles is not None:
        tiles.trim()
    with together(machine):
        whole = issue_whole(lanes, plan, named)
        left = np.nonzero(~whole & any_lane(lanes.mask))[0].tolist()
        if left:
            _issue_parts(lanes, plan, named, left)


def _issue_parts(lanes: Lanes, plan: Plan, named: dict[str, NDArray[Any]],
                 positions: list[int]) -> None:
    """Warp by warp."""
    machine = lanes.machine
    heads = {name: _heads(lanes, words) for name, words in named.items() if name != "e"}
    masks: list[int] = pack(lanes.mask).tolist()
    for position in positions:
        if machine.stopped:
            return
        row = int(lanes.rows[position])
        operands = tuple((name, found[position] if found is not None else uniform(
            lanes, position, name, named[name][position])) for name, found in heads.items())
        metadata = named["e"][position] if "e" in named else None
        _issue_part(machine, row, masks[position], plan, Part(lanes.site, operands, metadata))


def _heads(lanes: Lanes, words: NDArray[Any]) -> list[int] | None:
    """The value of each warp, where all lanes of every warp give one and all take part."""
    if lanes.mask.all() and (words == words[:, :1]).all():
        found: list[int] = [int(word) for word in words[:, 0].tolist()]
        return found
    return None


def _issue_part(machine: Machine, row: int, mask: int, plan: Plan, part: Part) -> None:
    found = _operands(machine, row, plan, part)
    if found is None:
        return
    product = machine.warpgroups.issue(row, part)
    if machine.observed:
        cta, warp = machine.state.where(row)
        machine.emit(Wgmma(
            cta, warp, part.site.index, mask, product.index, _spans(machine, cta, found),
            plan.named_a, plan.named_d, bool(dict(part.operands)["scale_d"]), plan.form.key))
    check_warpgroup(machine, row, product, part)
    check_metadata(machine, row, plan, part)
    if len(product.parts) == WARPS:
        start(machine, product)


#: Side -> (operand, the shared address that it is relative to).
_Found = dict[str, tuple[SharedOperand, int]]


def _operands(machine: Machine, row: int, plan: Plan, part: Part) -> _Found | None:
    """The operands in shared memory; None after a report that ended the run."""
    values, found = dict(part.operands), _Found()
    for side in "ab":
        if side not in values:
            continue
        word, known = values[side], machine.warpgroups.operands
        key = part.site.index, side, word
        if key in known:
            found[side] = known[key]
            continue
        told = machine.times.total()
        judge(machine, row, part.site, side, word)
        operand, base = found[side] = plan.operand(side, word)
        if not bounds_kept(machine, row, part.site, side, word, operand, base):
            return None
        check_overlap(machine, row, part.site, side, word, operand)
        if machine.times.total() == told:
            known[key] = found[side]  # nothing is wrong with it, so nobody looks again
    return found


def _spans(machine: Machine, owner: int, found: _Found) -> tuple[Span, ...]:
    """One object for operands at one place: whoever compares them sees it at once."""
    known, spans = machine.warpgroups.spans, list[Span]()
    for operand, base in found.values():
        key = id(operand), owner, base
        if key not in known:
            known[key] = operand, operand.span(owner, base)  # the id stays the operand's own
        spans.append(known[key][1])
    return tuple(spans)
