"""What each matrix form becomes in SASS, per target and toolkit.

One module holds a kernel for each form: operands are loaded, the instruction runs, its result is
stored, so that nothing can be left out or known beforehand. The line information leads from the PTX
instruction to its SASS, and :mod:`mmalab.toolchain.lowering` judges::

    >>> row, = opcodes(["mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"], ["sm_100a"])
    >>> row.verdict, dict(row.opcodes)                                        # doctest: +SKIP
    ('emulated', {'HMMA.16816.F32': 2})

Absent means that ptxas refuses the form, and says why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import Literal

from mmalab import isa
from mmalab.atlas.judging import judge_all
from mmalab.atlas.releases import known_targets, newest_ptx, release, written
from mmalab.atlas.specimens import Specimen, chosen, specimens_of
from mmalab.errors import UsageError
from mmalab.isa.index import all_rows
from mmalab.isa.lookup import spellings
from mmalab.isa.targets import TARGETS
from mmalab.toolchain import assemble, cache, lowerings
from mmalab.toolchain.locate import Tool

__all__ = ["MATRIX_FAMILIES", "Opcode", "matrix_forms", "one_of_each_chip", "opcodes",
           "running"]

#: Families that multiply matrices.
MATRIX_FAMILIES = ("mma.sync", "mma.sp", "wmma.mma", "wgmma.mma_async", "tcgen05.mma")


@dataclass(frozen=True, slots=True)
class Opcode:
    """One form on one target: `opcodes` counts matrix mnemonics (``UTCOMMA.4X``), `others` all
    other opcodes of its PTX line, `sass` is the text of its matrix instructions. `verdict` is
    absent where ptxas refuses, and `why` then its message."""

    form: str
    target: str
    toolkit: str
    verdict: Literal["native", "emulated", "fallback", "removed", "absent"]
    why: str
    opcodes: Mapping[str, int]
    others: Mapping[str, int]
    sass: tuple[str, ...]
    ptx: str = field(repr=False)


@lru_cache(maxsize=1)
def matrix_forms() -> tuple[str, ...]:
    """Every kind, type and shape of the matrix families once.

    Left out are what changes no opcode's name: buffers of operands (``.collector``), tables of
    ``.decompress``, and all widths of wgmma but the first of its types.
    """
    found = []
    for row in all_rows():
        if row.family == "wgmma.mma_async":
            # Types by types by each way to write them, at the first shape.
            found += [".".join((row.head, *words)) for elements in row.variants
                      for words in product(*(e.words[:1] if e.name == "shape" else e.words
                                             for e in elements if not e.optional))]
        elif row.family in MATRIX_FAMILIES:
            found += [key for key in spellings(row)
                      if "collector" not in key and "decompress" not in key]
    return tuple(dict.fromkeys(found))


def opcodes(
    forms: str | Iterable[str] | None = None,
    targets: Iterable[str] | None = None,
    toolkit: str | None = None,
) -> tuple[Opcode, ...]:
    """Assemble and read back matrix forms.

    Args:
        forms: a pattern or opcodes; None for :func:`matrix_forms`.
        targets: names; None for one of each chip, the one that has most.
        toolkit: release; None for the newest.

    Returns:
        A row for each form and target, form by form.

    Raises:
        UsageError: a form that multiplies no matrices, or no such target.
        ToolError: the release is not installed or does not know the target; nvdisasm is missing.
    """
    ptxas = release(toolkit)
    names = known_targets(ptxas, targets) if targets is not None else one_of_each_chip(ptxas)
    specimens = [specimens_of(key)[0] for key in _wanted(forms)]
    version = written(newest_ptx(ptxas))
    judged = judge_all(ptxas, specimens, [(name, version) for name in names])
    rows: dict[tuple[str, str], Opcode] = {}
    for name in names:
        taken = []
        for specimen, judgement in zip(specimens, judged[name, version], strict=True):
            if judgement.errors:
                rows[specimen.name, name] = Opcode(
                    specimen.name, name, ptxas.toolkit, "absent", "; ".join(judgement.errors), {},
                    {}, (), specimen.module(name, version))
            else:
                taken.append(specimen)
        for row in _read_back(ptxas, taken, name, version):
            rows[row.form, name] = row
    return tuple(rows[specimen.name, name] for specimen in specimens for name in names)


def one_of_each_chip(ptxas: Tool) -> tuple[str, ...]:
    """The target of each chip that has most: the one with a suffix where there is one."""
    chips = {TARGETS[name].number: name for name in known_targets(ptxas)}  # the suffix a is last
    return tuple(chips.values())


def _wanted(forms: str | Iterable[str] | None) -> tuple[str, ...]:
    """The opcodes asked for; of a pattern's forms those that multiply matrices."""
    if forms is None:
        return matrix_forms()
    keys = tuple(dict.fromkeys(s.opcode for s in chosen(forms)))
    matrix = tuple(key for key in keys if isa.find(key).family in MATRIX_FAMILIES)
    if not matrix or (not isinstance(forms, str) and len(matrix) < len(keys)):
        raise UsageError(next(key for key in keys if key not in matrix), "multiplies no matrices",
                         legal=MATRIX_FAMILIES, where="mmalab atlas --help")
    return matrix


# --- kernels --------------------------------------------------------------------------------------

_KINDS = {"p": "pred", "b": "b8", "h": "b16", "r": "b32", "q": "b64", "f": "f32", "d": "f64",
          "o": "b128"}
_BYTES = {"h": 2, "r": 4, "q": 8, "f": 4, "d": 8}
_NAMES = re.compile(r"%([pbhrqofd])(\d+)")


def running(specimens: Sequence[Specimen], target: str, version: str
            ) -> tuple[str, dict[int, Specimen]]:
    """A module with a kernel that runs each specimen, and the line of each specimen."""
    lines = [f".version {version}", f".target {target}", ".address_size 64"]
    at: dict[int, Specimen] = {}
    for number, specimen in enumerate(specimens):
        for line in _kernel(f"k{number}", specimen):
            lines.append(line)
            if line.endswith(specimen.text):
                at[len(lines)] = specimen
    return "\n".join(lines) + "\n", at


def _kernel(name: str, specimen: Specimen) -> Iterator[str]:
    """Load, run, store. Operands of one thread's instructions (tcgen05) are parameters, so that
    they are uniform; those of a warp are loaded by each of its threads."""
    used = dict.fromkeys(_NAMES.findall(specimen.text))
    uniform = specimen.opcode.startswith("tcgen05")
    yield f".visible .entry {name}(.param .align 16 .b8 given[2048], .param .u64 out)"
    yield "{"
    yield ".reg .b64 %in; .reg .b64 %to; .reg .b32 %lane; .reg .b64 %offset;"
    for kind in dict.fromkeys(kind for kind, _ in used):
        most = max(int(n) for k, n in used if k == kind)
        yield f".reg .{_KINDS[kind]} %{kind}<{most + 1}>;"
    yield "mov.u32 %lane, %tid.x;"
    yield "mul.wide.u32 %offset, %lane, 4096;"
    yield "ld.param.u64 %in, [given];"
    yield "ld.param.u64 %to, [out];"
    yield "add.s64 %in, %in, %offset;"
    yield "add.s64 %to, %to, %offset;"
    for place, (kind, number) in enumerate(used):
        register = f"%{kind}{number}"
        if kind == "p":
            yield f"setp.ne.b32 {register}, %lane, {number};"
        elif uniform:
            yield f"ld.param.{_KINDS[kind]} {register}, [given+{8 * place + 8}];"
        else:
            yield f"ld.global.{_KINDS[kind]} {register}, [%in+{8 * place}];"
    warpgroup = specimen.opcode.startswith("wgmma")
    # One line with the fence, to which the assembler counts a warpgroup's product.
    yield "wgmma.fence.sync.aligned; " * warpgroup + specimen.text
    if warpgroup:
        yield "wgmma.commit_group.sync.aligned;"
        yield "wgmma.wait_group.sync.aligned 0;"
    if not uniform:
        yield from _stores(specimen)
    yield "ret;"
    yield "}"


def _stores(specimen: Specimen) -> Iterator[str]:
    """The registers of the first operand, D, to memory."""
    place = 0
    for kind, number in _NAMES.findall(specimen.text.partition("}")[0]):
        yield f"st.global.{_KINDS[kind]} [%to+{place}], %{kind}{number};"
        place += max(_BYTES[kind], 4)


# --- reading back ---------------------------------------------------------------------------------


def _read_back(ptxas: Tool, specimens: Sequence[Specimen], target: str, version: str
               ) -> Iterator[Opcode]:
    if not specimens:
        return
    text, at = running(specimens, target, version)
    key = cache.digest("atlas opcodes 2", ptxas.identity, text)
    kept = cache.load(key)
    if kept is None:
        kept = json.dumps(_read(text, ptxas.toolkit)).encode()
        cache.store(key, kept)
    found = {row[0]: row[1:] for row in json.loads(kept)}
    for line, specimen in at.items():
        judged, why, matrix, others, sass = found[line]
        alone, _ = running([specimen], target, version)
        yield Opcode(specimen.name, target, ptxas.toolkit, judged, why, matrix, others,
                     tuple(sass), alone)


def _read(text: str, toolkit: str) -> list[tuple[object, ...]]:
    """(line, verdict, why, matrix opcodes, other opcodes, matrix instructions) of each form."""
    cubin = assemble(text, None, toolkit)
    texts: dict[int, list[str]] = {}
    for instruction in cubin.sass:
        if instruction.matrix and instruction.ptx_line is not None:
            texts.setdefault(instruction.ptx_line, []).append(instruction.text)
    return [(row.line, row.verdict, row.why, dict(row.sass), dict(row.others),
             texts.get(row.line, [])[:4]) for row in lowerings(cubin)]
