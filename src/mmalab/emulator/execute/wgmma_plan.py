"""What a wgmma site says that does not change from run to run: slots, literals, shape, types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.execute.wgmma_operands import SharedOperand, shared_operand
from mmalab.emulator.program import Imm, Op, Reg, Site, Vec
from mmalab.errors import UnsupportedInstruction
from mmalab.isa.form import Form

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["Plan", "plan_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """One site. `index` is the place of each operand by name, `d` and `a` are slots."""

    form: Form
    shape: tuple[int, int, int]
    index: dict[str, int]
    d: NDArray[np.int64]
    #: None where A is in shared memory.
    a: NDArray[np.int64] | None
    literals: dict[str, int]
    #: The slots of A and of D as events name them.
    named_a: tuple[int, ...] = ()
    named_d: tuple[int, ...] = ()

    @property
    def stored(self) -> int:
        """Columns of A that are stored: half of K when A is sparse."""
        return self.shape[2] // 2 if self.form.sparsity else self.shape[2]

    def type(self, side: str) -> str:
        """The type of A or B."""
        return self.form.modifiers[f"{side}type"]

    def sign(self, side: str) -> int:
        """The factor of A or B, 1 or -1."""
        return self.literals.get(f"i{side}", 1)

    def operand(self, side: str, word: int) -> tuple[SharedOperand, int]:
        """The operand behind the descriptor `word`, and what its addresses are relative to."""
        major = "MN" if self.literals.get(f"t{side}") else "K"
        m, n, k = self.shape
        if side == "b":
            return shared_operand(word, n, k, self.type("b"), major)
        return shared_operand(word, m, self.stored, self.type("a"), major)


def plan_of(machine: Machine, site: Site) -> Plan:
    """The plan of a site, made once a window."""
    found: Plan | None = machine.warpgroups.plans.get(site.index)
    if found is None:
        found = machine.warpgroups.plans[site.index] = _plan(site)
    return found


def _plan(site: Site) -> Plan:
    form = site.form
    if form.shape is None:
        raise UnsupportedInstruction(form.key, "a product without a shape")
    index = {spec.name: at for at, spec in enumerate(form.operands)}
    literals = {spec.name: op.word - (op.word >> 31 << 32)
                for spec, op in zip(form.operands, site.operands, strict=True)
                if isinstance(op, Imm)}
    a = site.operands[index["a"]]
    d_slots = _slots(site, site.operands[index["d"]])
    a_slots = _slots(site, a) if isinstance(a, Vec) else None
    return Plan(form, form.shape, index, d_slots, a_slots, literals,
                () if a_slots is None else tuple(a_slots.tolist()), tuple(d_slots.tolist()))


def _slots(site: Site, op: Op) -> NDArray[np.int64]:
    items: Any = op.items if isinstance(op, Vec) else (op,)
    if not all(isinstance(item, Reg) and item.file == "r" for item in items):
        raise UnsupportedInstruction(site.form.key, "matrix operands are 32-bit registers here",
                                     where=f"line {site.line} of the PTX text")
    return np.array([item.slot for item in items], np.int64)
