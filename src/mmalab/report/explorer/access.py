"""Banks of an access for each pitch, padding and swizzle that the page offers.

The tile has rows of 16-byte chunks. It is read by ldmatrix (one chunk of eight rows) and written by
16-byte copies (eight lanes that follow each other); each is one phase of a warp's access, so its
wavefronts are one number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mmalab.layouts import TMA_SWIZZLES, Swizzle
from mmalab.plan.banks import BankAccess, access
from mmalab.report.figures.traffic import passes_of

__all__ = ["CHUNK", "PADS", "PITCHES", "SWIZZLES", "arrangements", "catalogue", "chunk_places"]

CHUNK = 16
PITCHES = (32, 64, 128, 256)
PADS = (0, 16, 32, 64)
SWIZZLES = ("none", "32B", "64B", "128B")
#: Rows drawn: a swizzle's pattern repeats after 8 at most.
_ROWS = 8


def chunk_places(pitch: int, pad: int, swizzle: Swizzle) -> np.ndarray[Any, Any]:
    """Byte address of chunk c of row r, [8, pitch / 16]."""
    plain = np.arange(_ROWS)[:, None] * (pitch + pad) + np.arange(0, pitch, CHUNK)
    return np.asarray(swizzle(plain), np.int64)


def arrangements() -> Iterator[tuple[int, str, int, Swizzle]]:
    """Every (pitch, swizzle's name, padding, swizzle) offered: padded rows have no swizzle."""
    for pitch in PITCHES:
        for pad in PADS:
            yield pitch, "none", pad, TMA_SWIZZLES["none"]
        for name in SWIZZLES[1:]:
            yield pitch, name, 0, TMA_SWIZZLES[name]


def _told(found: BankAccess, what: list[list[int]]) -> dict[str, Any]:
    return {"chunks": what, "groups": list(found.groups), "turns": passes_of(found),
            "passes": found.passes, "ideal": found.ideal}


def _row(pitch: int, name: str, pad: int, swizzle: Swizzle) -> dict[str, Any]:
    places = chunk_places(pitch, pad, swizzle)
    width = places.shape[1]
    reads = [_told(access(places[:, chunk], CHUNK), [[r, chunk] for r in range(_ROWS)])
             for chunk in range(width)]
    writes = [_told(access(places.reshape(-1)[first:first + _ROWS], CHUNK),
                    [[at // width, at % width] for at in range(first, first + _ROWS)])
              for first in range(0, places.size, _ROWS)]
    command = f"mmalab banks --rows {_ROWS} --pitch {pitch}"
    if pad:
        command += f" --pad {pad}"
    if swizzle.bits:
        command += f" --swizzle {swizzle.bits},{swizzle.base},{swizzle.shift}"
    return {"pitch": pitch, "swizzle": name, "pad": pad, "function": str(swizzle),
            "places": places.tolist(), "ldmatrix": reads, "cp.async": writes, "command": command}


def catalogue() -> list[dict[str, Any]]:
    """All of them."""
    return [_row(*each) for each in arrangements()]
