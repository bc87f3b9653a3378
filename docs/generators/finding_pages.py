"""The page of finding codes: the one table of them, with a broken kernel and its clean twin."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from generators import litmus
from generators.markdown import fence, indented, prose
from mmalab.findings import CODES

__all__ = ["groups", "pages"]

ROOT = Path(__file__).resolve().parents[2]
#: Headings that are PTX's names, or hold one.
_NAMES = {"tcgen05", "mbarrier", "Tensor Memory"}
_GROUP = re.compile(r"^    # (.+)$|^    \"([\w-]+)\":", re.MULTILINE)

_HEAD = """# Finding codes

What `check` and `run` can report: `mmalab.findings.CODES`, which `mmalab check --codes` prints. A
finding has a code, a severity, a message, a place and a witness
([how to read one](how-to/read-a-finding.md)).

The examples are kernels of the tests: each breaks one rule, most stand beside a clean twin. They
were run when this page was built. A line that begins with `-` is in the broken kernel alone, one
that begins with `+` in the clean one; line numbers are those of the file. A code without an example
has none in those sets yet."""

#: What is right although it looks like a fault, by the code under which a reader looks for it.
_REMARKS = {
    "mbarrier-init-order": """No finding: `mbarrier.init` without a fence before a copy of the same
CTA. The PTX ISA says of `cp.async.bulk`, `cp.async.bulk.tensor` and `tcgen05.commit` that they
access their mbarrier operand through the generic proxy, so that what orders the threads orders the
copy: the same thread's program order, or `bar.sync` for the others. `fence.proxy.async` after it
does no harm and is customary. Other CTAs of the cluster, and copies that signal their mbarriers,
need the initialisation at cluster scope: `fence.mbarrier_init.release.cluster` before a cluster
barrier (which may be relaxed then), or a releasing cluster barrier.""",
    "missing-grid-wait": """Told by `check`. One launch cannot show what the kernel ahead on the
stream writes, so nothing is proved: a kernel that a Kernel value launches programmatically and that
never waits, and writes that a path reaches before `griddepcontrol.wait`, are warnings; reads ahead
of the wait are a note, since weights may be read ahead, and so is a kernel that lets its dependents
go and does not wait itself. Where a thread may know of another's wait (a barrier behind it, an
mbarrier's phase, an acquire) nothing is said.""",
    "descriptor-mismatch": """A warning, because the hardware reads such an operand as it is told:
8 rows of A may be meant for all 64. Where N is 8, nothing reads the stride between groups of 8
rows. Operands are also compared with the box that a tensor copy wrote: K and rows go along
different dimensions of it, and the next product of a sum goes on along K, by as much in A as in B.
A tile that strides, steps and major consistently take for its transpose is a legal product of the
other matrix: only the numbers tell.""",
}


@functools.cache
def groups() -> dict[str, list[str]]:
    """The headings in the source of the table of codes, and the codes under each."""
    text = (ROOT / "src/mmalab/findings.py").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    for heading, code in _GROUP.findall(text[text.index("CODES: dict"):]):
        if heading:
            found[re.sub(r" \(.*\)", "", heading)] = []
        else:
            found[list(found)[-1]].append(code)
    return found


def pages() -> dict[str, str]:
    """findings.md."""
    parts = [_HEAD]
    for heading, codes in groups().items():
        parts.append(f"## {heading if heading in _NAMES else heading.capitalize()}")
        for code in codes:
            parts += [f"### {code}", f"{CODES[code][0].upper()}{CODES[code][1:]}.",
                      *([_REMARKS[code].replace("\n", " ")] if code in _REMARKS else []),
                      *_example(code)]
    return {"findings.md": "\n\n".join(parts) + "\n"}


def _example(code: str) -> Iterator[str]:
    shown = litmus.example(code)
    if shown is None:
        return
    where = f"`{shown.file}`: {shown.reason}." if shown.file else ""
    parts = (where, "Reported:", fence(shown.reported, wrap=True), _texts(shown))
    body = "\n\n".join(filter(None, parts))
    yield f'??? example "{prose(shown.reason)}"\n\n{indented(body)}'


def _texts(shown: litmus.Example) -> str:
    if not shown.twin:
        return f"The text:\n\n{fence(shown.text.lstrip(), 'ptx')}"
    head = len(shown.text) - len(shown.text.lstrip("\n"))  # comments, which twins need not share
    twin = "\n" * head + shown.twin.lstrip("\n")
    changed = difflib.unified_diff(shown.text.splitlines(), twin.splitlines(), n=2, lineterm="")
    lines = [line.rstrip() for line in changed if not line.startswith(("---", "+++"))]
    return f"Against its clean twin:\n\n{fence(chr(10).join(lines), 'diff')}"
