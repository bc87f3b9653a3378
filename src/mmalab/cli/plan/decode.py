"""``mmalab plan decode``: rows filled against rows reserved, and the roofline's knee."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mmalab.cli.output import Json, table
from mmalab.cli.plan.answer import answer, record
from mmalab.cli.plan.sizes import counts
from mmalab.errors import UsageError
from mmalab.plan import decode as model
from mmalab.plan import pictures

__all__ = ["decode"]


def decode(
    *,
    rows: Annotated[int, typer.Option(help="sequences of the batch")] = 8,
    n: Annotated[int | None, typer.Option(help="outputs: the weights are n x k")] = None,
    k: Annotated[int | None, typer.Option(help="inputs")] = None,
    weights: Annotated[str, typer.Option(help="format of the weights")] = "bf16",
    against: Annotated[str | None, typer.Option(
        help="another format of the weights: the rows from which it is faster")] = None,
    speculative: Annotated[int, typer.Option(help="tokens of each sequence in one step")] = 1,
    experts: Annotated[str | None, typer.Option(help="tokens of each expert: 3,0,17")] = None,
    target: Annotated[str, typer.Option(help="sm_100a ...")] = "sm_100a",
    on: Annotated[str | None, typer.Option(help="a product instead of the target's usual one")]
        = None,
    curve: Annotated[bool, typer.Option("--curve", help="filled share of batches 1 to 256")]
        = False,
    svg: Annotated[Path | None, typer.Option(help="draw the curve into this file")] = None,
    roofline: Annotated[Path | None, typer.Option(
        help="draw seconds by memory and by math into this file")] = None,
    json: Json = False,
) -> None:
    """Plan one decode step: what each instruction class reserves, what the memory allows."""
    found = model.decode(rows, target=target, n=n, k=k, weights=weights, speculative=speculative,
                         on=on)
    groups = [model.grouped(counts("--experts", experts), unit=unit, arrangement=how)
              for unit, how in model.units_of(target)] if experts else []
    if svg:
        svg.write_text(pictures.fill_svg(found.curve, mark=rows * speculative), encoding="utf-8")
    if roofline:
        if not found.sweep:
            raise UsageError("--roofline", "needs the weights' size", legal="--n 4096 --k 4096",
                             where="mmalab plan decode --help")
        roofline.write_text(pictures.roofline_svg(found.sweep), encoding="utf-8")
    lines = [found.table()]
    more: dict[str, Any] = {}
    if found.roofline is not None:
        one = found.roofline
        lines.append(f"a loop over one such product touches {100 * one.l2_share:.0f} % of L2: "
                     + ("warm, unless buffers rotate or L2 is flushed" if one.l2_share <= 1
                        else "cold by its size"))
        more["l2_share"] = one.l2_share
    if against:
        more["crossover"] = _against(found, weights, against, lines)
    if groups:
        cells = [(g.unit, g.arrangement, g.reserved, f"{100 * g.filled:.0f} %", g.worst_case,
                  f"{100 * g.filled_worst_case:.0f} %") for g in groups]
        lines += ["", table(cells, ("experts by", "tokens", "reserved", "filled", "worst case",
                                    "filled"))]
    if curve:
        steps = [1, 2, 4, 8, 16, 32, 48, 64, 65, 96, 128, 129, 192, 256]
        shown = [found.curve[step - 1] for step in steps]
        lines += ["", table([(f.rows, f.reserved, f"{100 * f.filled:.1f} %") for f in shown],
                            ("batch", "reserved", "filled"))]
    experts_data = [record(g, "filled", "filled_worst_case") for g in groups]
    answer("\n".join(lines), {**found.as_dict(), **more, "experts": experts_data}, model, json=json)


def _against(found: model.Decode, weights: str, other: str, lines: list[str]) -> int | None:
    """From how many rows on the other format's products take less time; None: never."""
    one = found.roofline
    if one is None:
        raise UsageError("--against", "needs the weights' size", legal="--n 4096 --k 4096",
                         where="mmalab plan decode --help")
    rival = model.roofline(one.rows, one.n, one.k, other, on=one.chip)
    rows = model.crossover(one.n, one.k, (weights, one.math), (other, rival.math), on=one.chip)
    pair = f"{other} weights ({rival.math} products) against {weights} ({one.math} products)"
    lines.append(f"{pair}: " + (f"faster from {rows} rows on" if rows else "never faster"))
    return rows
