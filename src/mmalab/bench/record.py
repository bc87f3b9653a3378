"""Records of measurements as JSON, and the tables that are made from them.

A record holds everything that was seen (each block's time, clock, power and reasons) and what it
was seen on. Nothing in a table is typed by hand: :func:`markdown` reads records.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import mmalab
from mmalab.bench.scales import PLAIN
from mmalab.device import info

__all__ = ["candidates_of", "describe", "markdown", "rows_of", "save"]

_REGIMES = ("burst", "sustained")
#: Pairs below which resampling them says nothing.
_LEAST_PAIRS = 3
#: TFLOP/s below which a product is a matter of bytes, where its shares are not known.
_BYTES_BELOW = 100
_HEAD = ("case", "regime", "ours", "baseline", "ratio (95 %)", "MHz", "share of peak", "J/TFLOP")


def describe(title: str, command: str, rows: Sequence[Mapping[str, Any]],
             gpu: int = 0) -> dict[str, Any]:
    """A record: the rows, and the device, driver, day and command that they belong to."""
    return {
        "what": title, "command": command, "evidence": "measured",
        "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "device": info(gpu), "mmalab": mmalab.__version__, "rows": list(rows),
    }


def save(record: Mapping[str, Any], path: Path) -> None:
    """Write a record; every block on a line of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(_lines(record, 0)) + "\n", encoding="utf-8")


def _lines(value: Any, depth: int) -> Iterator[str]:
    """JSON that opens lists and objects down to where they fit on a line."""
    flat = json.dumps(value)
    if not isinstance(value, (dict, list)) or not value or len(flat) + depth <= 100 or (
            depth > 3 and all(not isinstance(v, (dict, list)) for v in _values(value))):
        yield flat
        return
    items = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    first, last = "{}" if isinstance(value, dict) else "[]"
    yield first
    for at, (key, item) in enumerate(items):
        yield ("," if at else "") + "\n" + " " * (depth + 1)
        if key is not None:
            yield json.dumps(str(key)) + ": "
        yield from _lines(item, depth + 1)
    yield "\n" + " " * depth + last


def _values(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


# --- tables ---------------------------------------------------------------------------------------

def rows_of(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """The cells of a table, one line for each row and regime; rows with a problem say it."""
    cells: list[tuple[str, ...]] = []
    for row in rows:
        title = _title(row)
        if "problem" in row:
            cells.append((title, "not measured", str(row["problem"]).splitlines()[0],
                          *[""] * (len(_HEAD) - 3)))
            continue
        cells += [(title if at == 0 else "", name, *_cells(row[name]))
                  for at, name in enumerate(name for name in _REGIMES if name in row)]
    return cells


def _title(row: Mapping[str, Any]) -> str:
    """The row's title; one that says sizes alone gives way to the product's, with its types."""
    title = str(row["row"]["title"])
    known = row.get("problem_size", {})
    sizes = "x".join(str(known.get(name)) for name in "mnk")
    return str(known["title"]) if title == sizes else title


def _cells(found: Mapping[str, Any]) -> tuple[str, ...]:
    sides = [found[side] for side in ("ours", "baseline") if side in found]
    return (
        _rate(found["ours"]), _rate(found["baseline"]) if "baseline" in found else "",
        _ratio(found.get("ratio")),
        *(" / ".join(show(side) for side in sides) for show in (
            lambda side: _figure(side["mhz"], "{:.0f}"), _shares,
            _energy)))


def _shares(side: Mapping[str, Any]) -> str:
    """Of the chip's peak, and of what the class of instructions can reach where that is less; of
    what memory delivers where the product is a matter of bytes."""
    if _of_bytes(side) and side.get("read_share") is not None:
        return f"{side['read_share']:.1%} of DRAM"
    text = _figure(side["share"], "{:.1%}")
    own = side.get("class_share")
    return text if own is None else f"{text} ({own:.1%} of mma.sync)"


def _energy(side: Mapping[str, Any]) -> str:
    """J/TFLOP, and J/GB where the product is a matter of bytes."""
    if _of_bytes(side) and side.get("joules_per_gb") is not None:
        return f"{side['joules_per_gb']:.3f} J/GB"
    return _figure(side["joules_per_tflop"], "{:.3f}")


def _rate(side: Mapping[str, Any]) -> str:
    """TFLOP/s, and TB/s where the product is a matter of bytes."""
    text = (f"{side['seconds'] * 1e6:.1f} us, {side['bandwidth']:.2f} TB/s" if _of_bytes(side)
            else f"{side['tflops']:.0f} TFLOP/s")
    kernel = side["facts"].get("kind")
    if kernel != "cublasLt":
        return text
    bare = ", without scales" if side["facts"].get("scales") == PLAIN else ""
    return f"{text} (#{side['facts']['rank']}{bare})"


def _of_bytes(side: Mapping[str, Any]) -> bool:
    """Whether the product is nearer to what memory delivers than to what the tensor cores do."""
    read, share = side.get("read_share"), side.get("share")
    if read is None or share is None:
        return bool(side["tflops"] < _BYTES_BELOW)
    return bool(read > share)


def _ratio(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    if found["pairs"] < _LEAST_PAIRS:
        return f"{found['median']:.3f} (n={found['pairs']})"
    equal = ", undecided" if found["low"] <= 1 <= found["high"] else ""
    return (f"{found['median']:.3f} [{found['low']:.3f}, {found['high']:.3f}] "
            f"(n={found['pairs']}{equal})")


def candidates_of(row: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Our candidates of a row, fastest first: name, us in the first look, by regime."""
    rows = sorted(row.get("ours_candidates", ()), key=lambda each: each.get("look_seconds", 1e9))
    return [(str(each["name"]), *(
        f"{each[key] * 1e6:.2f}" if key in each else "-"
        for key in ("look_seconds", *(f"{regime}_seconds" for regime in _REGIMES))),
        str(each.get("problem", "")).partition("\n")[0]) for each in rows]


def _figure(value: float | None, how: str) -> str:
    return "-" if value is None else how.format(value)


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """A Markdown table of the rows; two figures in a cell are ours / the baseline's."""
    lines = [_HEAD, tuple("-" * 3 for _ in _HEAD), *rows_of(rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
