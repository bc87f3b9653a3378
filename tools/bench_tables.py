"""Write the README's tables of measurements from the records, or show what one record says.

    PYTHONPATH=src python tools/bench_tables.py                       # updates README.md
    PYTHONPATH=src python tools/bench_tables.py records/h200/bench/bf16.json

The README's table stands between two comments; tests/bench/test_tables.py holds it to the records.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from mmalab.bench.record import markdown

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "records" / "h200" / "bench"
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"


def rendered(paths: Sequence[Path]) -> str:
    """One table of all records, and under it what they were measured on."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    rows = [row for record in records for row in record["rows"]]
    devices = {(r["device"]["name"], r["device"]["driver"], r["device"]["cuda"]) for r in records}
    days = sorted({record["date"].split()[0] for record in records})
    baselines = [row[regime]["baseline"] for row in rows for regime in ("burst", "sustained")
                 if "baseline" in row.get(regime, {})]
    versions = {side["facts"]["version"] for side in baselines if "version" in side["facts"]}
    where = "; ".join(f"{name}, driver {driver}, CUDA {cuda}" for name, driver, cuda
                      in sorted(devices))
    return (f"{markdown(rows)}\n\nMeasured on {where}; cublasLt "
            f"{', '.join(map(str, sorted(versions)))}; {' and '.join(days)}; records in "
            "`records/h200/bench`, each with the command that remakes it.")


def updated(readme: str, paths: Sequence[Path]) -> str:
    """The README with the table between its comments replaced."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        message = f"README.md has no {BEGIN} ... {END}"
        raise SystemExit(message)
    return f"{before}{BEGIN}\n{rendered(paths)}\n{END}{after}"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("records", nargs="*", type=Path, help="print these instead")
    given = parser.parse_args().records
    if given:
        sys.stdout.write(rendered(given) + "\n")
        return
    readme = ROOT / "README.md"
    readme.write_text(updated(readme.read_text(encoding="utf-8"), sorted(RECORDS.glob("*.json"))),
                      encoding="utf-8")


if __name__ == "__main__":
    main()
