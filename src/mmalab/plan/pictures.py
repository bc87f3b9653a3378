"""Plans as SVG: the ledger of Tensor Memory, its allocator over time, the decode curve.

Plain text of the SVG language, with nothing outside the file: pages can take it in as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from mmalab.plan.decode import Fill
from mmalab.plan.pool import Simulation
from mmalab.plan.tmem import Ledger

__all__ = ["fill_svg", "ledger_svg", "pool_svg"]

_LEFT, _TOP, _SCALE = 70, 34, 1.5


def _page(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    label = escape(title)
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
            f'viewBox="0 0 {width:g} {height:g}" font-family="monospace" font-size="12" '
            f'role="img" aria-label="{label}">')
    return "\n".join((
        head,
        f'<rect width="{width:g}" height="{height:g}" fill="white"/>',
        f'<text x="{_LEFT}" y="16">{escape(title)}</text>', *parts, "</svg>", ""))


def _box(x: float, y: float, width: float, height: float, fill: str, label: str = "") -> str:
    box = (f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}" '
           'stroke="#555"/>')
    if not label or width < 7 * len(label):
        return box
    return box + _label(x + width / 2, y + height / 2 + 4, label, "middle")


def _label(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text text-anchor="{anchor}" x="{x:g}" y="{y:g}">{escape(text)}</text>'


def _hue(number: int) -> str:
    return f"hsl({number * 67 % 360},60%,75%)"


def ledger_svg(ledger: Ledger) -> str:
    """Columns from left to right, the two halves of every 32 lanes below each other.

    A ledger that does not fit is drawn with its parts behind each other, past the last column.
    """
    half = 36
    if ledger.packing is None:
        starts, places = 0, []
        for part in ledger.parts:
            places.append((part, starts, 0))
            starts += part.columns
    else:
        places = [(p.part, p.column, p.lane) for p in ledger.packing.placements]
    most = max([ledger.capacity, *(column + part.columns for part, column, _ in places)])
    parts = [_box(_LEFT, _TOP, ledger.capacity * _SCALE, 2 * half, "#eee")]
    bases = ledger.packing.bases if ledger.packing else ()
    for base, size in zip(bases, ledger.allocations, strict=True):
        parts.append(_box(_LEFT + base * _SCALE, _TOP, size * _SCALE, 2 * half, "#ccc"))
        parts.append(_label(_LEFT + (base + size / 2) * _SCALE, _TOP + 2 * half + 30,
                            f"alloc {size}", "middle"))
    for number, (part, column, lane) in enumerate(places):
        top = _TOP + half * (lane // 16)
        parts.append(_box(_LEFT + column * _SCALE, top, part.columns * _SCALE,
                          half if part.half else 2 * half, _hue(number), part.name))
    parts += [_label(_LEFT + at * _SCALE, _TOP + 2 * half + 14, str(at), "middle")
              for at in range(0, ledger.capacity + 1, 64)]
    parts.append(_label(_LEFT - 4, _TOP + half, "lanes", "end"))
    return _page(_LEFT + most * _SCALE + 30, _TOP + 2 * half + 40, ledger.summary(), parts)


def pool_svg(simulation: Simulation) -> str:
    """Columns from top to bottom (SM below SM), ticks from left to right, a colour for each CTA."""
    ticks = max(1, simulation.ticks)
    step, scale = 640 / ticks, 300 / simulation.capacity
    parts = [_box(_LEFT, _TOP, 640, 300, "#f4f4f4")]
    each = simulation.capacity // (1 + max((sm for span in simulation.spans for sm in span.sms),
                                           default=0))
    for span in simulation.spans:
        end = ticks if span.end is None else span.end
        parts += [_box(_LEFT + span.start * step, _TOP + (sm * each + span.column) * scale,
                       max(2, (end - span.start) * step), span.columns * scale, _hue(span.cta),
                       f"CTA {span.cta}") for sm in span.sms]
    parts += [_label(_LEFT - 4, _TOP + at * scale + 4, str(at), "end")
              for at in range(0, simulation.capacity + 1, 128)]
    title = (f"{simulation.ticks} ticks, peak {simulation.peak} columns"
             + (", deadlock" if simulation.deadlock else ""))
    return _page(_LEFT + 670, _TOP + 330, title, parts)


def fill_svg(curve: Sequence[Fill], *, mark: int | None = None) -> str:
    """Filled share of the reserved rows against the batch; `mark` names one batch."""
    width, height = 640, 240
    most = max(fill.rows for fill in curve)

    def at(rows: float, share: float) -> str:
        return f"{_LEFT + rows / most * width:.1f},{_TOP + (1 - share) * height:.1f}"

    line = " ".join(at(fill.rows, fill.filled) for fill in curve)
    parts = [_box(_LEFT, _TOP, width, height, "#f4f4f4"),
             f'<polyline points="{line}" fill="none" stroke="#2266aa" stroke-width="2"/>']
    parts += [_label(_LEFT - 4, _TOP + (1 - share) * height + 4, f"{100 * share:.0f} %", "end")
              for share in (0, 0.25, 0.5, 0.75, 1)]
    parts += [_label(_LEFT + batch / most * width, _TOP + height + 16, str(batch), "middle")
              for batch in range(0, most + 1, max(1, most // 8))]
    for fill in curve:
        if fill.rows == mark:
            x, y = at(fill.rows, fill.filled).split(",")
            parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="#cc3311"/>')
            parts.append(_label(float(x) + 8, float(y), f"{fill.rows} of {fill.reserved} rows"))
    return _page(_LEFT + width + 40, _TOP + height + 30,
                 f"{curve[0].unit}: rows filled of rows reserved, by batch", parts)
