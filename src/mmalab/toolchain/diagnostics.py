"""What ptxas says, as data.

One message is one :class:`Diagnostic`; what ``-v`` reports of each function is one
:class:`Resources`::

    ptxas k.ptx, line 7; error   : Arguments mismatch for instruction 'add'
        Diagnostic("error", "Arguments mismatch for instruction 'add'", line=7)
    ptxas info    : Used 22 registers, used 1 barriers, 8320 bytes smem, 360 bytes cmem[0]
        Resources(registers=22, barriers=1, shared=8320, constant={0: 360}, ...)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mmalab.errors import ToolError, UsageError

__all__ = ["AssemblyError", "Diagnostic", "ResourceTable", "Resources", "read_diagnostics",
           "read_resources", "read_usage"]

Severity = Literal["fatal", "error", "warning", "advisory", "info"]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message of the assembler; `line` counts from 1 in the PTX text, None if it names none."""

    severity: Severity
    message: str
    line: int | None = None

    def __str__(self) -> str:
        at = f"line {self.line}: " if self.line is not None else ""
        return f"{self.severity}: {at}{self.message}"


class AssemblyError(ToolError):
    """PTX that ptxas refuses; `diagnostics` holds its messages with their lines."""

    def __init__(self, given: str, rule: str, *, diagnostics: Sequence[Diagnostic],
                 command: Sequence[str], output: str, legal: str | Sequence[str] = ()) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(given, rule, command=command, output=output, legal=legal)


@dataclass(frozen=True, slots=True)
class Resources:
    """What one function needs on the chip; sizes in bytes.

    `shared` is static shared memory, `constant` bytes by bank, `barriers` named barriers, spills
    are static counts of bytes stored to and loaded from local memory.
    """

    function: str
    registers: int = 0
    shared: int = 0
    constant: Mapping[int, int] = field(default_factory=dict)
    spill_stores: int = 0
    spill_loads: int = 0
    stack: int = 0
    barriers: int = 0
    entry: bool = True


class ResourceTable(Mapping[str, Resources]):
    """Resources by function name; with one kernel, its fields are read directly.

        cubin.resources.registers == cubin.resources["gemm"].registers
    """

    def __init__(self, rows: Sequence[Resources]) -> None:
        self._rows = {row.function: row for row in rows}

    def __getitem__(self, function: str) -> Resources:
        try:
            return self._rows[function]
        except KeyError:
            raise UsageError(f"function {function!r}", "is not in this cubin",
                             legal=list(self._rows), where="mmalab.toolchain") from None

    def __contains__(self, function: object) -> bool:
        return function in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"ResourceTable({list(self._rows.values())!r})"

    @property
    def only(self) -> Resources:
        """The row of the one kernel.

        Raises:
            UsageError: there are several kernels, or none.
        """
        entries = [row for row in self._rows.values() if row.entry]
        if len(entries) != 1:
            raise UsageError(f"resources of a cubin with {len(entries)} kernels",
                             "name the kernel: resources[name]",
                             legal=[row.function for row in entries], where="mmalab.toolchain")
        return entries[0]

    @property
    def registers(self) -> int:
        """Registers per thread of the one kernel."""
        return self.only.registers

    @property
    def shared(self) -> int:
        """Bytes of static shared memory of the one kernel."""
        return self.only.shared

    @property
    def constant(self) -> Mapping[int, int]:
        """Bytes of constant memory by bank of the one kernel."""
        return self.only.constant

    @property
    def spill_stores(self) -> int:
        """Bytes of spill stores of the one kernel."""
        return self.only.spill_stores

    @property
    def spill_loads(self) -> int:
        """Bytes of spill loads of the one kernel."""
        return self.only.spill_loads

    @property
    def spills(self) -> int:
        """Bytes of spill stores and loads together of the one kernel."""
        return self.only.spill_stores + self.only.spill_loads

    @property
    def stack(self) -> int:
        """Bytes of stack frame of the one kernel."""
        return self.only.stack

    @property
    def barriers(self) -> int:
        """Named barriers of the one kernel."""
        return self.only.barriers


_MESSAGE = re.compile(
    r"^ptxas\s+(?:(?P<file>[^,;\n]+),\s*line\s+(?P<line>\d+);\s*)?"
    r"(?P<severity>fatal|error|warning|info)\s*:\s?(?P<message>.*)$")
_COMPILING = re.compile(r"Compiling entry function '(.+?)' for '")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_FRAME = re.compile(
    r"^\s+(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill load")
_ADVICE = re.compile(r"^\(C\d+\)|Potential Performance Loss|(?i:advisory)")
#: Lines of -v that are not advice: they become Resources.
_ACCOUNT = re.compile(
    r"^(Used \d|Compiling |Function properties|Compile time|\d+ bytes|Overriding)")


def read_diagnostics(output: str) -> tuple[Diagnostic, ...]:
    """Messages of one ptxas run, in order; the accounts of ``-v`` left out."""
    found = []
    for line in output.splitlines():
        match = _MESSAGE.match(line)
        if match is None or match["message"].startswith("Ptx assembly aborted"):
            continue
        severity, message = match["severity"], match["message"].strip()
        if severity == "info":
            if _ACCOUNT.match(message):
                continue
            severity = "advisory" if _ADVICE.search(message) else "info"
        found.append(Diagnostic(severity, message,  # type: ignore[arg-type]
                                int(match["line"]) if match["line"] else None))
    return tuple(found)


def read_resources(output: str) -> ResourceTable:
    """The accounts of ``ptxas -v``, one row per function, kernels first met first."""
    rows: dict[str, dict[str, object]] = {}
    name = ""
    for line in output.splitlines():
        if found := _COMPILING.search(line):
            name = found[1]
            rows.setdefault(name, {"entry": True})
        elif found := _PROPERTIES.search(line):
            name = found[1]
            rows.setdefault(name, {"entry": False})
        elif found := _FRAME.match(line):
            stack, stores, loads = map(int, found.groups())
            rows.setdefault(name, {}).update(stack=stack, spill_stores=stores, spill_loads=loads)
        elif "Used " in line and " registers" in line:
            # ptxas prints this line for the kernel, after the functions that it calls.
            rows.setdefault(name, {}).update(_used(line))
    return ResourceTable([Resources(function, **row) for function, row in rows.items()])  # type: ignore[arg-type]


def read_usage(output: str, entries: Collection[str]) -> ResourceTable:
    """The account of ``cuobjdump -res-usage``; `entries` are the kernels among its functions."""
    rows = []
    for name, words in re.findall(r"Function (\S+):\n\s+(.*)", output):
        sizes = {key: int(size) for key, size in re.findall(r"(\S+?):(\d+)", words)}
        banks = {int(key[9:-1]): size for key, size in sizes.items()
                 if key.startswith("CONSTANT[")}
        rows.append(Resources(name, registers=sizes.get("REG", 0), shared=sizes.get("SHARED", 0),
                              constant=banks, stack=sizes.get("STACK", 0), entry=name in entries))
    return ResourceTable(rows)


def _used(line: str) -> dict[str, object]:
    def number(pattern: str) -> int:
        found = re.search(pattern, line)
        return int(found[1]) if found else 0

    banks = {int(bank): int(size) for size, bank in re.findall(r"(\d+) bytes cmem\[(\d+)\]", line)}
    return {"registers": number(r"Used (\d+) registers"),
            "barriers": number(r"used (\d+) barriers"),
            "shared": number(r"(\d+)(?:\+\d+)? bytes smem"), "constant": banks}
