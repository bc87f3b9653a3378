"""Run every claim again and write down its verdict, so that a later run can see what moved.

    PYTHONPATH=src python tools/claims_verdicts.py            # needs the toolchain extra

writes `src/mmalab/claims/verdicts.json`, the table of corrections in the README beside it, and the
answers themselves in `records/claims.json`, which the report shows. What moved against the record
is printed first; look at each before committing.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

from mmalab.claims import counts, report, rerun
from mmalab.claims.assembled import releases
from mmalab.claims.statements import VERDICTS
from mmalab.cli.output import plain
from mmalab.toolchain import find

ANSWERS = Path(__file__).resolve().parent.parent / "records" / "claims.json"
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
    write_answers(record, [plain(result.as_dict()) for result in found])
    before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    table = f"{BEGIN}\n{report.corrections(found)}{END}"
    README.write_text(before + table + after, encoding="utf-8")
    print(record["counts"])


def write_answers(record: dict[str, Any], answers: list[dict[str, Any]]) -> None:
    """The answers as they are, a line for each claim, under the head of the verdicts' record."""
    head = {name: value for name, value in record.items() if name != "verdicts"}
    head["what"] = "the articles' claims: their value, ours, verdict, evidence, command"
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in answers)
    start = json.dumps(head, indent=1)[:-2]
    ANSWERS.write_text(f'{start},\n "claims": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
