"""The claims of the two articles: every verdict, and the corrections.

Both are records of the last run of everything (`tools/claims_verdicts.py`, which writes
`claims/verdicts.json` and the table in `claims/README.md`); building the site runs no assembler.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from generators.markdown import code, prose, table
from mmalab.claims.statements import ARTICLES, VERDICTS, recorded, statements

__all__ = ["corrections", "counts", "meanings", "pages"]

README = VERDICTS.with_name("README.md")
_BEGIN, _END = "<!-- corrections: begin -->", "<!-- corrections: end -->"


def _record() -> dict[str, Any]:
    held: dict[str, Any] = json.loads(Path(VERDICTS).read_text(encoding="utf-8"))
    return held


def corrections() -> str:
    """The tables between the marks of the README of the claims, one heading an article."""
    text = README.read_text(encoding="utf-8")
    return text[text.index(_BEGIN) + len(_BEGIN):text.index(_END)].strip()


def meanings() -> str:
    """What the verdicts mean: the first table of the README of the claims."""
    lines = README.read_text(encoding="utf-8").splitlines()
    first = lines.index("| verdict | when |")
    last = next(at for at in range(first, len(lines)) if not lines[at].startswith("|"))
    return "\n".join(lines[first:last])


def counts() -> str:
    """How many claims have each verdict, on what the record says it was run with."""
    held = _record()
    rows = [(verdict, str(count)) for verdict, count in held["counts"].items()]
    said = (f"On record, {held['date']}: ptxas {', '.join(held['ptxas'])}, nvdisasm "
            f"{held['nvdisasm']} (`src/mmalab/claims/verdicts.json`, `{held['command']}`).")
    return f"{said}\n\n{table(('verdict', 'claims'), rows)}"


def pages() -> dict[str, str]:
    """The list of all claims."""
    parts = ["# All claims", ("In our words, with the verdict on record. `mmalab claims ID` runs "
             "one again and shows both values, each comparison and how it is known; the verdicts "
             "are explained under [claims](claims.md)."), counts()]
    for article, title in ARTICLES.items():
        rows = [(code(name), prose(claim.at), prose(claim.says), str(recorded().get(name, "")))
                for name, claim in statements().items() if claim.article == article]
        parts += [f"## Article {article}: {title}",
                  table(("claim", "where", "the article says", "verdict"), rows)]
    return {"all-claims.md": "\n\n".join(parts) + "\n"}
