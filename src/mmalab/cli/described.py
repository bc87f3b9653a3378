"""What a kernel of ours is made of, in words and as data, without running it.

    >>> from mmalab.kernels import sm90_wgmma
    >>> in_short(sm90_wgmma.gemm(4096, 4096, 4092))
    '256x192, 4 stages, cluster 1x2, store permuted, copy shifted, A from registers'
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mmalab import isa
from mmalab.cli.output import table

__all__ = ["described", "in_lines", "in_short", "notice"]

#: Operations a second that emulation does, with the sanitizer and without: a third of what was seen
#: on two quiet cores (512^3 to 2048^3). It tells seconds from minutes.
_RATES: Mapping[str, tuple[float, float]] = MappingProxyType({
    "mma": (3e9, 1e10), "tma": (1e9, 2e9), "moved": (5e7, 2e9)})
#: Seconds that any run takes.
_START = 0.5
#: Seconds from which one is told beforehand.
_LONG = 15
#: Facts in the order of a plan, and how each is said; what a kernel has not is left out.
_SAID: tuple[tuple[str, str], ...] = (
    ("stages", "{} stages"), ("warp_tile", "warps of {}"), ("cluster", "cluster {}"),
    ("split", "K split by {}"), ("schedule", "{}"), ("layout", "{}"), ("store", "store {}"),
    ("copy", "copy {}"), ("left", "A from {}"), ("waves", "{} waves"),
    ("overlap", "overlap {}"), ("promote_every", "promoted every {}"))
#: What goes without saying; of `mma` also that threads copy.
_USUAL = ((1, 1), 1, "cooperative", "shared", "whole", "none", None)
#: How A and B come into shared memory, by a fact's word.
_COPIES: Mapping[str, str] = MappingProxyType({
    "tma": "TMA",
    "shifted": "TMA of boxes that overlap, whose lines three warps move to their places",
    "windowed": "TMA, through windows of copies that three warps write, but for rows that it can "
                "read where they lie",
    "threads": "threads gather",
    "padded": "TMA of copies with wider rows, which the kernel makes first"})


def _spelled(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def in_short(kernel: Any) -> str:
    """The choices that a kernel is made of, in one line."""
    facts = kernel.facts
    said = [_spelled(facts["tile"][:2])]
    usual = (*_USUAL, "threads" if facts["unit"].startswith("mma.") else "tma")
    said += [words.format(_spelled(facts[key])) for key, words in _SAID
             if facts.get(key) not in usual]
    return ", ".join(said)


def emulation_seconds(kernel: Any) -> tuple[float, float]:
    """About how long a run on the CPU takes, with the sanitizer and without."""
    facts = kernel.facts
    way = ("mma" if facts["unit"].startswith("mma.") else
           "tma" if facts.get("copy") == "tma" else "moved")
    checked, plain = (_START + facts["flops"] / rate for rate in _RATES[way])
    return checked, plain


def notice(kernel: Any, *, sanitize: bool) -> str:
    """What to say before a run that takes long, else nothing."""
    checked, plain = emulation_seconds(kernel)
    if (checked if sanitize else plain) < _LONG:
        return ""
    if not sanitize:
        return f"emulating, about {_about(plain)}"
    return (f"emulating with the sanitizer, about {_about(checked)}; --no-sanitize takes "
            f"{_about(plain)}, --dry-run says what the kernel is made of")


def described(kernel: Any) -> dict[str, Any]:
    """Name, launch and facts of a kernel as data."""
    checked, plain = emulation_seconds(kernel)
    ctas = kernel.grid[0] * kernel.grid[1] * kernel.grid[2]
    return {
        "kernel": kernel.name, "target": kernel.target, "grid": kernel.grid,
        "block": kernel.block, "cluster": kernel.cluster, "ctas": ctas,
        "dynamic_shared": kernel.dynamic_shared, "plan": in_short(kernel),
        "params": [{"name": param.name, "role": param.role, "dtype": param.dtype,
                    "shape": param.shape} for param in kernel.params],
        "facts": dict(kernel.facts),
        "emulation_seconds": {"sanitized": checked, "plain": plain},
    }


def in_lines(found: Mapping[str, Any]) -> list[str]:
    """The same for people."""
    facts, seconds = found["facts"], found["emulation_seconds"]
    grid, block, cluster = (_spelled(found[key]) for key in ("grid", "block", "cluster"))
    launch = (f"grid {grid}, block {block}, cluster {cluster}, "
              f"{found['dynamic_shared']:,} bytes of shared memory")
    operands = "; ".join(f"{param['name']} {param['dtype']} {_spelled(param['shape'])}"
                         for param in found["params"])
    checked, plain = (_about(seconds[way]) for way in ("sanitized", "plain"))
    rows = [("plan", found["plan"]), ("instruction", facts["instruction"]), ("launch", launch),
            *_copy(found), *_of_facts(facts), ("operands", operands),
            ("emulation", f"about {checked}, {plain} with --no-sanitize (two cores)")]
    return [found["kernel"], table(rows, indent="  ")]


def _copy(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How rows are read, and why: only a wgmma kernel has the choice."""
    facts, param = found["facts"], found["params"][0]
    if facts["unit"].startswith("mma."):
        return []
    pitch = param["shape"][-1] * isa.type_bits(param["dtype"]) // 8
    copy = facts.get("copy", "tma")
    said = (f"{_COPIES[copy]}: rows of {pitch:,} bytes are "
            f"{'a multiple' if pitch % 16 == 0 else 'no multiple'} of 16")
    if copy == "tma" and param["shape"][-1] % facts["tile"][2]:
        said += ", zeros behind K in the last slice"
    return [("copy", said)]


def _of_facts(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Rows that only some kernels have."""
    rows = []
    if facts.get("registers"):
        fill, multiply = facts["registers"]
        said = f"{fill} of a thread that fills, {multiply} of one that multiplies (setmaxnreg)"
        rows.append(("registers", said))
    if "slice_clocks" in facts:
        clocks = facts["slice_clocks"]
        said = (f"{clocks['products']:.0f} of products for a slice of K, shared memory is busy for "
                f"{clocks['shared']:.0f}")
        rows.append(("clocks", said))
    if "tiles" in facts:
        rows.append(("tiles", f"{_spelled(facts['tiles'])} of C, {facts['slices']} slices of K"))
    return rows


def _about(seconds: float) -> str:
    """Seconds, minutes or hours, to one digit or two."""
    for size, name in ((3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{float(f'{seconds / size:.1g}'):,.0f} {name}"
    return f"{seconds:.0f} s" if seconds >= 1 else "1 s"
