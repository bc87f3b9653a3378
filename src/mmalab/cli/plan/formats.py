"""``mmalab plan formats FORMAT``: bits, scales, columns, K, range, chips, error on one's data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from mmalab.cli.numbers import numbers
from mmalab.cli.output import Json, table
from mmalab.cli.plan.answer import answer
from mmalab.errors import UsageError
from mmalab.formats import POLICIES
from mmalab.plan import block_formats as model

__all__ = ["formats"]


def formats(
    name: Annotated[str | None, typer.Argument(help="mxfp8, mxfp6, mxfp4, nvfp4, fp8, bf16 ...; "
                                               "all without it")] = None,
    *,
    rows: Annotated[int, typer.Option(help="rows of the operand")] = 128,
    cols: Annotated[int, typer.Option(help="elements along K")] = 128,
    at: Annotated[str | None, typer.Option(
        help="row,block of a scale factor: its byte in every order of scales")] = None,
    data: Annotated[Path | None, typer.Option(help="an .npy array: the error on it")] = None,
    policy: Annotated[str, typer.Option(help="of E8M0 scales: floor, even, ceil, rceil, rne")]
        = "rceil",
    target: Annotated[list[str] | None, typer.Option(help="a chip; repeat; all without it")] = None,
    json: Json = False,
) -> None:
    """Plan one operand in one number format, or compare all formats."""
    if at is not None:
        _scale(name, rows, cols, at, json=json)
        return
    values = None if data is None else _read(data)
    names = list(model.BLOCK_FORMATS) if name is None else [name]
    plans = [model.format_plan(one, rows=rows, cols=cols, data=values, policy=policy,
                               targets=target or ()) for one in names]
    if name:
        rounded = _policies(name, rows, cols, values, target or ())
        text = table([(one, f"{100 * error.relative_rms:.3g} %", f"{100 * error.saturated:.3g} %")
                      for one, error in rounded.items()],
                     ("rounding of the scales", "relative RMS", "saturated"))
        answer("\n\n".join(filter(None, (plans[0].table(), text if rounded else ""))),
               {**plans[0].as_dict(), "policies": {one: asdict(error)
                                                   for one, error in rounded.items()}},
               model, json=json)
        return
    cells = [(p.format.name, f"{p.bits_per_element:g}", f"{p.bytes:,}", p.scale_columns or "-",
              "/".join(map(str, dict.fromkeys(p.k.values()))), f"{p.largest:g}",
              f"{100 * p.half_ulp:.3g} %",
              "-" if p.error is None else f"{100 * p.error.relative_rms:.3g} %",
              " ".join(row.target for row in p.support if row.how == "native")) for p in plans]
    head = ("format", "bits", "bytes", "columns", "K", "largest", "half ulp", "error", "native on")
    answer(table(cells, head), [plan.as_dict() for plan in plans], model, json=json)


def _policies(name: str, rows: int, cols: int, values: NDArray[np.float64] | None,
              targets: Sequence[str]) -> dict[str, model.DataError]:
    """What each rounding of E8M0 scales does to the data; nothing without either."""
    if values is None or model.block_format(name).scale != "ue8m0":
        return {}
    plans = {policy: model.format_plan(name, rows=rows, cols=cols, data=values, policy=policy,
                                       targets=targets) for policy in POLICIES}
    return {policy: plan.error for policy, plan in plans.items() if plan.error is not None}


def _read(path: Path) -> NDArray[np.float64]:
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as failed:
        raise UsageError(str(path), f"cannot be read: {failed}", legal="an .npy array",
                         where="mmalab plan formats --help") from None
    return np.asarray(found, np.float64)


def _scale(name: str | None, rows: int, cols: int, at: str, *, json: bool) -> None:
    """The byte of one scale factor in each order, and the padded bytes of all."""
    row, block = numbers("--at", at, 2)
    width = model.block_format(name or "").block
    if not width:
        raise UsageError(f"scales of {name}", "are none: the format has no blocks",
                         legal=["mxfp8", "mxfp6", "mxfp4", "nvfp4"],
                         where="mmalab plan formats --help")
    blocks = -(-cols // width)
    found = [(order, model.scale_offset(row, block, blocks, order, rows=rows),
              model.padded_scales(rows, blocks, order)) for order in model.SCALE_ORDERS]
    text = table([(order, place, f"{size:,}") for order, place, size in found],
                 (f"scale ({row}, {block}) of {rows} x {blocks}", "byte", "bytes in all"))
    answer(text, [{"order": order, "byte": place, "bytes": size} for order, place, size in found],
           model, json=json)
