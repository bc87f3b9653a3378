"""PTX in, cubin out: ptxas with its words read.

    >>> cubin = assemble(text, target="sm_100a")                  # doctest: +SKIP
    >>> cubin.resources.registers, cubin.resources.spills
    (22, 0)
    >>> [i.mnemonic for i in cubin.sass if i.matrix]
    ['UTCHMMA']

When another target than the module's own is asked for, ``.target`` is rewritten, and ``.version``
raised if the target did not exist in it; nothing else of the text is touched, so the lines of
ptxas's messages are the lines of the text. Results are cached by content.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from mmalab.errors import ToolError, UsageError
from mmalab.isa.targets import TARGETS
from mmalab.isa.targets import target as target_row
from mmalab.ptx.kernel import Kernel
from mmalab.ptx.nodes import Module
from mmalab.toolchain import cache
from mmalab.toolchain.diagnostics import (
    AssemblyError,
    Diagnostic,
    ResourceTable,
    read_diagnostics,
    read_resources,
    read_usage,
)
from mmalab.toolchain.invoke import Outcome, invoke, workspace
from mmalab.toolchain.locate import Tool, find, supported_targets
from mmalab.toolchain.sass import Sass, read_sass

__all__ = ["Cubin", "assemble", "disassemble", "load_cubin", "retarget_text"]

_WHERE = "mmalab.assemble"
#: Seconds before a tool is stopped. The longest real kernels take ptxas tens of seconds.
TIMEOUT = 120.0


@dataclass(frozen=True)
class Cubin:
    """A binary for one chip, and what the assembler said about it.

    `ptx` is the text that was assembled (after retargeting), None for a cubin read from a file.
    """

    bytes: bytes = field(repr=False)
    target: str
    toolkit: str
    resources: ResourceTable
    diagnostics: tuple[Diagnostic, ...] = ()
    ptx: str | None = field(default=None, repr=False)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Warnings and performance advisories of the assembler."""
        return tuple(d for d in self.diagnostics if d.severity in ("warning", "advisory"))

    @cached_property
    def sass(self) -> Sass:
        """The code as objects; nvdisasm runs on first use.

        Raises:
            ToolError: nvdisasm is not installed or does not know the chip.
        """
        return disassemble(self.bytes)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the binary to a file and give its path."""
        place = Path(path)
        place.write_bytes(self.bytes)
        return place

    def __len__(self) -> int:
        return len(self.bytes)


def assemble(
    source: str | Module | Kernel,
    target: str | None = None,
    toolkit: str | None = None,
    maxrregcount: int | None = None,
    opt_level: int = 3,
    *,
    line_info: bool = True,
    options: tuple[str, ...] = (),
    timeout: float = TIMEOUT,
) -> Cubin:
    """Assemble PTX for one chip.

    Args:
        source: PTX text, a parsed module, or a kernel.
        target: ``sm_90a`` ...; None is the module's own.
        toolkit: release of ptxas, ``"12.9"``; None is the newest installed.
        maxrregcount: upper bound of registers per thread.
        opt_level: 0 to 3.
        line_info: keep the PTX line of every instruction (:attr:`Instruction.ptx_line`); it does
            not change the code.
        options: further ptxas options, passed as they are.
        timeout: seconds.

    Raises:
        UsageError: an unknown target, or an option out of range.
        AssemblyError: ptxas refuses the text; its messages are in ``diagnostics``.
        ToolError: ptxas is not installed, does not know the target, or takes too long.
    """
    if not isinstance(source, (str, Module, Kernel)):
        raise UsageError(f"a source of type {type(source).__name__}", "is no PTX",
                         legal="PTX text, a parsed module, a Kernel", where=_WHERE)
    if type(opt_level) is not int or opt_level not in range(4):
        raise UsageError(f"opt_level {opt_level!r}", "is not a level of ptxas", legal="0, 1, 2, 3",
                         where=_WHERE)
    if maxrregcount is not None and not (
            isinstance(maxrregcount, int) and 16 <= maxrregcount <= 255):
        raise UsageError(f"maxrregcount {maxrregcount!r}", "is out of range", legal="16 to 255",
                         where=_WHERE)
    text = source.ptx if isinstance(source, Kernel) else str(source)
    text, wanted = retarget_text(text, target)
    ptxas = find("ptxas", toolkit)
    if wanted not in supported_targets(ptxas):
        raise ToolError(f"ptxas {ptxas}", f"does not assemble for {wanted}",
                        legal=supported_targets(ptxas), where="mmalab doctor")
    arguments = [f"-arch={wanted}", f"-O{opt_level}", "-v", *options]
    if line_info:
        arguments.append("-lineinfo")
    if maxrregcount is not None:
        arguments.append(f"-maxrregcount={maxrregcount}")
    image, output = _ptxas(ptxas, arguments, text, timeout)
    return Cubin(image, wanted, ptxas.toolkit, read_resources(output), read_diagnostics(output),
                 text)


def _ptxas(ptxas: Tool, arguments: list[str], text: str, timeout: float) -> tuple[bytes, str]:
    key = cache.digest("ptxas", ptxas.identity, *arguments, text)
    if (kept := cache.load(key)) is not None:
        head, _, image = kept.partition(b"\n")
        return image, str(json.loads(head))
    with workspace() as folder:
        # A fixed name inside a folder of its own: the messages, and the cubin, name it.
        (folder / "kernel.ptx").write_text(text, encoding="utf-8",
                                             errors="surrogateescape", newline="")
        command = [str(ptxas.path), *arguments, "kernel.ptx", "-o", "kernel.cubin"]
        outcome = invoke(command, timeout=timeout, folder=folder)
        product = folder / "kernel.cubin"
        if outcome.code or not product.exists():
            raise _refusal(ptxas, outcome)
        image = product.read_bytes()
    cache.store(key, json.dumps(outcome.output).encode() + b"\n" + image)
    return image, outcome.output


def _refusal(ptxas: Tool, outcome: Outcome) -> ToolError:
    diagnostics = read_diagnostics(outcome.output)
    wrong = [d for d in diagnostics if d.severity in ("error", "fatal")]
    said = "\n".join(_told(wrong)) or outcome.output
    if not wrong:
        return ToolError(f"ptxas {ptxas}", f"ended with code {outcome.code}",
                         command=outcome.command, output=said)
    return AssemblyError(f"ptxas {ptxas}", "refuses the text", diagnostics=diagnostics,
                         command=outcome.command, output=said)


def _told(wrong: list[Diagnostic]) -> list[str]:
    """Each message once, with the lines that it is about; the most that a screen shows."""
    by_message: dict[tuple[str, str], list[Diagnostic]] = {}
    for each in wrong:
        by_message.setdefault((each.severity, each.message), []).append(each)
    told = []
    for same in list(by_message.values())[:_MOST_MESSAGES]:
        more = [f"{line}" for line in dict.fromkeys(one.line for one in same)][1:]
        also = f" (also line {', '.join(more[:3])}{' ...' * (len(more) > 3)})" if more else ""
        told.append(f"{same[0]}{also}")
    if rest := len(by_message) - len(told):
        told.append(f"and {rest} more messages")
    return told


#: Messages of a refused text that are printed; `diagnostics` has all.
_MOST_MESSAGES = 12
_SPACE = r"(?:\s|//[^\n]*\n|/\*.*?\*/)"
_HEADER = re.compile(
    rf"{_SPACE}*\.version\s+(?P<version>\d+\.\d+){_SPACE}+\.target\s+(?P<target>\w+)", re.DOTALL)


def retarget_text(text: str, target: str | None) -> tuple[str, str]:
    """The text for `target`, and the target's name; None keeps the module's own.

    Raises:
        UsageError: no such target, or the text does not begin with ``.version`` and ``.target``.
    """
    found = _HEADER.match(text)
    if found is None:
        raise UsageError("PTX text", "does not begin with .version and .target",
                         legal=".version 8.6 / .target sm_100a / .address_size 64",
                         where="PTX ISA, PTX module directives")
    # Targets that this table does not list (a newer chip) are left for ptxas to judge.
    if target is None or (isinstance(target, str) and target == found["target"]):
        return text, found["target"]
    row = target_row(target)
    needed = TARGETS[row.name].ptx
    version = found["version"]
    if tuple(map(int, version.split("."))) < needed:
        version = f"{needed[0]}.{needed[1]}"
    return "".join((text[: found.start("version")], version,
                    text[found.end("version"): found.start("target")], row.name,
                    text[found.end("target"):])), row.name


def disassemble(image: bytes, *, timeout: float = TIMEOUT) -> Sass:
    """Read a cubin's code with the newest nvdisasm.

    Raises:
        ToolError: nvdisasm is not installed, or cannot read the image.
    """
    nvdisasm = find("nvdisasm")
    key = cache.digest("nvdisasm", nvdisasm.identity, image)
    kept = cache.load(key)
    if kept is not None:
        return read_sass(kept.decode())
    with workspace() as folder:
        (folder / "kernel.cubin").write_bytes(image)
        command = [str(nvdisasm.path), "-c", "-hex", "-gp", "kernel.cubin"]
        outcome = invoke(command, timeout=timeout, folder=folder)
        if outcome.code:
            raise ToolError(f"nvdisasm {nvdisasm}", "cannot read the cubin",
                            legal="a whole file that ptxas, nvcc -cubin or Cubin.save wrote",
                            command=outcome.command, output=outcome.output)
    sass = read_sass(outcome.output)
    cache.store(key, outcome.output.encode())
    return sass


def load_cubin(path: str | os.PathLike[str]) -> Cubin:
    """A cubin from a file; `resources` as cuobjdump reads them (spills are not in the file).

    Shared memory includes what the driver reserves, 1 KiB per block from sm_90 on.

    Raises:
        UsageError: the file cannot be read, or is not an ELF image.
        ToolError: nvdisasm or cuobjdump is not installed, or cannot read the image.
    """
    place = Path(path)
    try:
        image = place.read_bytes()
    except OSError as failed:
        raise UsageError(str(place), f"cannot be read: {failed.strerror}",
                         legal="a file that ptxas, nvcc -cubin or Cubin.save wrote",
                         where=_WHERE) from None
    if image[:4] != b"\x7fELF":
        raise UsageError(str(place), "is not a cubin (an ELF image)",
                         legal="a file that ptxas, nvcc -cubin or Cubin.save wrote", where=_WHERE)
    sass = disassemble(image)
    with workspace() as folder:
        (folder / "kernel.cubin").write_bytes(image)
        command = [str(find("cuobjdump").path), "-res-usage", "kernel.cubin"]
        usage = invoke(command, timeout=TIMEOUT, folder=folder).output
    entries = {function.name for function in sass.entries}
    cubin = Cubin(image, sass.target, "", read_usage(usage, entries))
    cubin.__dict__["sass"] = sass  # fills the cached property: nvdisasm has just run
    return cubin
