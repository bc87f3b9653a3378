"""``mmalab plan chips``: the products, every value with its source."""

from __future__ import annotations

from typing import Annotated

import typer

from mmalab.cli.output import Json, print_json, say, table
from mmalab.plan import chips as model

__all__ = ["chips"]


def chips(
    name: Annotated[str | None, typer.Argument(help="a product or a target; all without it")]
        = None,
    *,
    json: Json = False,
) -> None:
    """List products: SMs, clock, memory, L2, rates; one product with the source of each value."""
    found = list(model.CHIPS.values()) if name is None else [model.chip(name)]
    if json:
        rows = [row.as_dict() for row in found]
        print_json(rows[0] if name else rows)
        return
    if name is None:
        say(table([(row.name, f"sm_{10 * row.capability[0] + row.capability[1]}", f"{row.sms:g}",
                    f"{row.clock:g}", f"{row.memory:g}", f"{row.bandwidth:g}", f"{row.l2:g}",
                    row.rate("f16").per_clock) for row in found],
                  ("chip", "target", "SMs", "MHz", "GB", "GB/s", "L2 MB", "f16 per SM and clock")))
        return
    one = found[0]
    named = {"SMs": one.sms, "clock": one.clock, "memory": one.memory, "bandwidth": one.bandwidth,
             "L2": one.l2, "power": one.power}
    figures = [(label, f"{value:g} {value.unit}", value.evidence.value, value.source)
               for label, value in named.items() if value is not None]
    rates = [(f"{row.dtype}.{row.acc}", f"{row.per_clock} per SM and clock", row.evidence.value,
              row.source) for row in one.rates]
    say(one.name, table(figures + _limits(one) + rates), *(f"note: {note}" for note in one.notes))


def _limits(one: model.Chip) -> list[tuple[str, str, str, str]]:
    """What one SM offers, from the table of compute capabilities."""
    row = one.limits
    if row is None:
        return []
    source = "CUDA C++ Programming Guide, compute capabilities"
    named = {"registers": (row.registers, "of 32 bits in an SM"),
             "shared memory": (row.shared_per_sm, f"bytes in an SM, {row.shared_per_cta} a CTA"),
             "warps": (row.warps, f"in an SM, {row.ctas} CTAs"),
             "tensor memory": (row.tmem_columns, "columns of 128 lanes x 32 bits"),
             "cluster": (row.cluster, "CTAs at most")}
    return [(label, f"{value} {what}", row.evidence.value, source)
            for label, (value, what) in named.items() if value]
