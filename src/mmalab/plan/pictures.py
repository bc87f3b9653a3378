"""Plans as SVG: the ledger of Tensor Memory, its allocator over time, shared memory, occupancy, the
decode curve and the roofline.

Plain text of the SVG language, with nothing outside the file: pages can take it in as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import log10

from mmalab.plan.decode import Fill, Roofline
from mmalab.plan.occupancy import Occupancy
from mmalab.plan.pool import Simulation
from mmalab.plan.smem import SharedLayout
from mmalab.plan.tmem import Ledger

__all__ = ["fill_svg", "ledger_svg", "occupancy_svg", "pool_svg", "roofline_svg", "shared_svg"]

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


def shared_svg(layout: SharedLayout) -> str:
    """Bytes from left to right, a colour for each member, the limit of a CTA as a line."""
    most = max(layout.limit, layout.bytes)
    scale = 760 / most
    hues: dict[str, int] = {}
    parts = [_box(_LEFT, _TOP, layout.limit * scale, 60, "#eee")]
    for member in layout.members:
        name = member.name.partition("[")[0]
        hue = _hue(hues.setdefault(name, len(hues)))
        parts.append(_box(_LEFT + member.offset * scale, _TOP, max(0.5, member.bytes * scale), 60,
                          hue, member.name))
    edge = _LEFT + layout.limit * scale
    ends = f'x1="{edge:g}" y1="{_TOP - 6}" x2="{edge:g}" y2="{_TOP + 66}"'
    parts += [f'<line {ends} stroke="#c31" stroke-width="2"/>',
              _label(edge, _TOP + 82, f"{layout.limit:,}", "middle"), _label(_LEFT, _TOP + 82, "0")]
    title = f"{layout.bytes:,} of {layout.limit:,} bytes of a CTA on {layout.target}"
    return _page(_LEFT + 800, _TOP + 96, title, parts)


def occupancy_svg(found: Occupancy) -> str:
    """A bar for each resource: what the resident CTAs take of it, the binding ones in red."""
    parts = []
    for row, (name, count) in enumerate(found.limits.items()):
        top = _TOP + 26 * row
        colour = "#d66" if name in found.binding else "#7ad"
        parts += [_label(_LEFT + 40, top + 15, name, "end"),
                  _box(_LEFT + 48, top, 400, 20, "#f4f4f4"),
                  _box(_LEFT + 48, top, 400 * found.used[name], 20, colour),
                  _label(_LEFT + 456, top + 15, f"{100 * found.used[name]:.0f} %, {count} CTAs")]
    title = f"{found.target}: {found.ctas} CTAs, {found.warps} of {found.warp_slots} warps"
    return _page(_LEFT + 640, _TOP + 26 * len(found.limits) + 16, title, parts)


def roofline_svg(sweep: Sequence[Roofline]) -> str:
    """Seconds by memory and by arithmetic against rows, both axes logarithmic; the knee marked."""
    width, height = 640, 260
    low, high = log10(sweep[0].rows), log10(sweep[-1].rows)
    seconds = [time for line in sweep for time in (line.memory_seconds, line.math_seconds)]
    bottom, top = log10(min(seconds)), log10(max(seconds))

    def at(rows: float, time: float) -> str:
        x = (log10(rows) - low) / (high - low or 1)
        return f"{_LEFT + x * width:.1f},{_TOP + (top - log10(time)) / (top - bottom) * height:.1f}"

    parts = [_box(_LEFT, _TOP, width, height, "#f4f4f4")]
    for name, colour in (("memory", "#2266aa"), ("math", "#cc3311")):
        times = [getattr(line, f"{name}_seconds") for line in sweep]
        points = " ".join(at(line.rows, time) for line, time in zip(sweep, times, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" '
                     'stroke-width="2"/>')
        x, y = at(sweep[-1].rows, times[-1]).split(",")
        parts.append(_label(float(x) + 4, float(y) + 4, name))
    parts += [_label(float(at(line.rows, seconds[0]).split(",")[0]), _TOP + height + 16,
                     str(line.rows), "middle") for line in sweep]
    for time in (min(seconds), max(seconds)):
        text = f"{1e6 * time:,.0f} us" if time > 1e-5 else f"{1e6 * time:.2g} us"
        parts.append(_label(_LEFT - 4, float(at(sweep[0].rows, time).split(",")[1]) + 4, text,
                            "end"))
    first = sweep[0]
    title = (f"rows x {first.n} x {first.k}, {first.format} weights, {first.math} products on "
             f"{first.chip}: knee at {first.knee:.0f} rows")
    return _page(_LEFT + width + 70, _TOP + height + 30, title, parts)
