"""Write the table of the wgmma ladder into its README, from the kernels' own facts.

    PYTHONPATH=src python tools/wgmma_table.py

A test compares the README with what this would write.
"""

from __future__ import annotations

from pathlib import Path

from mmalab.kernels import ladder
from mmalab.kernels.ladder import WHAT

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "src/mmalab/kernels/sm90_wgmma/README.md"
BEGIN, END = "<!-- ladder: begin -->", "<!-- ladder: end -->"
#: Sizes of the product that the rungs are made for.
SIZE = 8192
_HEAD = ("rung", "what changes", "tile", "stages", "cluster", "shared bytes", "registers",
         "instruction")


def table() -> str:
    """The rungs, one a line."""
    rows = [_HEAD, ("---",) * len(_HEAD)]
    for name, factory in ladder("sm90_wgmma").items():
        facts = factory(SIZE, SIZE, SIZE).facts
        give, take = facts["registers"]
        instruction = facts["instruction"].partition("aligned.")[2]
        rows.append((
            f"`{name}`", WHAT[name], " x ".join(str(size) for size in facts["tile"]),
            str(facts["stages"]), "{} x {}".format(*facts["cluster"]),
            f"{facts['shared_bytes']:,}", f"{give} / {take}", f"`{instruction}`"))
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def updated(text: str) -> str:
    """The README with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    README.write_text(updated(README.read_text()))
