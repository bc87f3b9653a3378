"""Run every claim again and write down its verdict, so that a later run can see what moved.

    PYTHONPATH=src python tools/claims_verdicts.py            # needs the toolchain extra

writes `src/mmalab/claims/verdicts.json` and the table of corrections in the README beside it. What
moved against the record is printed first; look at each before committing.
"""

from __future__ import annotations

import datetime as dt
import json

from mmalab.claims import counts, report, rerun
from mmalab.claims.assembled import releases
from mmalab.claims.statements import VERDICTS
from mmalab.toolchain import find

README = VERDICTS.parent / "README.md"
BEGIN, END = "<!-- corrections: begin -->", "<!-- corrections: end -->"


def main() -> None:
    """Run the command."""
    found = rerun()
    for result in found:
        if result.moved or result.before is None:
            print(f"{result.id}: {result.before} -> {result.verdict}")
    record = {
        "what": "verdicts of the articles' claims; `mmalab claims` compares with them",
        "command": "python tools/claims_verdicts.py",
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "ptxas": [str(find("ptxas", release)) for release in releases()],
        "nvdisasm": str(find("nvdisasm")),
        "counts": counts(found),
        "verdicts": {result.id: result.verdict.value for result in found},
    }
    VERDICTS.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    table = f"{BEGIN}\n{report.corrections(found)}{END}"
    README.write_text(before + table + after, encoding="utf-8")
    print(record["counts"])


if __name__ == "__main__":
    main()
