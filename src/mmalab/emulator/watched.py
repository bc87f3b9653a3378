"""Which instructions touch registers that some wgmma of the program names.

Only those registers carry state for the sanitizers: a product in flight may still read A and write
D. Slots are those of the 32-bit file; wgmma names no others.
"""

from __future__ import annotations

from mmalab.emulator.liveness import reads_of, writes_of
from mmalab.emulator.program import Program, Reg, Site, Vec

__all__ = ["Touch", "watched_sites"]

#: (slots read, slots written), both in order.
Touch = tuple[tuple[int, ...], tuple[int, ...]]


def watched_sites(program: Program) -> dict[int, Touch]:
    """Site index -> the watched slots that it reads and writes, of the sites that do."""
    products = [site for site in program.sites if site.form.family == "wgmma.mma_async"]
    named = {slot for site in products for slot in _operands(site)}
    if not named:
        return {}
    found: dict[int, Touch] = {}
    for site in program.sites:
        if site.form.family == "wgmma.mma_async":
            continue
        reads, writes = (
            tuple(sorted(slot for file, slot in slots if file == "r" and slot in named))
            for slots in (reads_of(site), writes_of(site)))
        if reads or writes:
            found[site.index] = reads, writes
    return found


def _operands(site: Site) -> list[int]:
    """The slots of D and of an A in registers."""
    return [item.slot for spec, op in zip(site.form.operands, site.operands, strict=True)
            if spec.name in ("d", "a") and isinstance(op, Vec)
            for item in op.items if isinstance(item, Reg) and item.file == "r"]
