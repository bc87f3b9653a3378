"""What a wgmma must keep to when it is issued: equal operands, legal descriptors and metadata."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mmalab.descriptors import WGMMA
from mmalab.emulator.execute.wgmma_descriptors import described, likely
from mmalab.emulator.execute.wgmma_operands import SharedOperand
from mmalab.emulator.execute.wgmma_plan import Plan
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.program import Site
from mmalab.emulator.state import pack
from mmalab.emulator.warpgroups import WARPS, Part, Product

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["bounds_kept", "check_defined", "check_metadata", "check_warpgroup", "judge", "uniform"]


def check_defined(lanes: Lanes, plan: Plan, scale_d: NDArray[np.bool_]) -> None:
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


def uniform(lanes: Lanes, position: int, name: str, words: NDArray[Any]) -> int:
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


def check_warpgroup(machine: Machine, row: int, product: Product, part: Part) -> None:
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


def check_metadata(machine: Machine, row: int, plan: Plan, part: Part) -> None:
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


def bounds_kept(machine: Machine, row: int, site: Site, side: str, word: int,
                operand: SharedOperand, base: int) -> bool:
    """Whether an operand lies in the CTA's shared memory; the run ends where it does not."""
    low, high = (base + end for end in operand.extent)
    space = machine.space
    if low >= space.shared_start and high <= space.shared_bytes:
        return True
    machine.report(
        "out-of-bounds", f"operand {side} of {site.form.key} reaches from shared address"
        f" {low:#x} to {high:#x}; the CTA has {space.shared_start:#x} to {space.shared_bytes:#x}"
        f" ({described(word)}){likely(machine, word, operand)}", site=site, row=row, fatal=True,
        witness={"operand": side, "descriptor": word, "first": low, "behind": high})
    return False


@lru_cache(maxsize=4096)
def _verdict(word: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return (tuple(str(problem).partition("\n  see:")[0] for problem in WGMMA.problems(word)),
            tuple(WGMMA.remarks(word)))


def judge(machine: Machine, row: int, site: Site, side: str, word: int) -> None:
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
