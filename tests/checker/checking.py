"""Small modules to check: one kernel around a few lines, with registers of every type at hand.

``%b32_0`` to ``%b32_8`` are .b32, ``%pred_0`` ... predicates, and so on; ``smem`` (open size) and
``tile`` (256 bytes, 16-aligned) are shared, ``gmem`` global, ``cmem`` constant.
"""

from __future__ import annotations

from mmalab.checker import check
from mmalab.checker.types import REGISTER_TYPES
from mmalab.findings import Finding

REGISTERS = " ".join(f".reg .{t} %{t}_<9>;" for t in REGISTER_TYPES)
SPACES = """.extern .shared .align 1024 .b8 smem[];
.shared .align 16 .b8 tile[256];
.global .align 16 .b8 gmem[256];
.const .align 16 .b8 cmem[256];
"""


def header(target: str = "sm_90a", version: str = "9.5") -> str:
    return f".version {version}\n.target {target}\n.address_size 64\n"


def kernel(body: str, target: str = "sm_90a", version: str = "9.5", *, attributes: str = "",
           before: str = "", registers: bool = True) -> str:
    """A module with one entry ``k(p0, pst)`` around `body`, which begins in line 12."""
    return (f"{header(target, version)}{SPACES}{before.strip()}\n"
            f".visible .entry k(.param .u64 p0, .param .align 16 .b8 pst[64]) {attributes}\n"
            f"{{\n{REGISTERS if registers else ''}\n{body}\nret;\n}}\n")


#: The line of the first line of a body.
FIRST = 12


def found(body: str, *args: str, **more: str) -> list[Finding]:
    """The findings in a kernel around `body`."""
    return check(kernel(body, *args, **more))  # type: ignore[arg-type]


def codes(findings: list[Finding]) -> list[str]:
    return [finding.code for finding in findings]


def errors(text: str) -> list[Finding]:
    return [finding for finding in check(text) if finding.severity == "error"]
