"""The kinds of descriptors that ``mmalab descriptor`` knows, each from words to one plain record.

A reader takes the positional values and the options and returns ``what``, ``word``, ``hex``,
``fields`` (name, value, bits, meaning), ``problems`` (given, rule, legal, where), and where there
are any ``nearest``, ``remarks`` and further ``lines`` of text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from mmalab.cli.numbers import numbers
from mmalab.cli.tensor_maps import describe, make_map
from mmalab.errors import UsageError

if TYPE_CHECKING:
    from mmalab.bits import Field

__all__ = ["KINDS", "Options", "Reader"]

_WHERE = "mmalab descriptor --help"
#: Rows, columns and K of a tile: a MiB of bytes is more than any shared memory.
_MOST = 1 << 20


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says besides the values."""

    encode: bool
    target: str
    kind: str
    sparse: bool | None
    cta_group: int
    tile: str
    dtype: str
    major: str


Reader: TypeAlias = Callable[[list[str], Options], dict[str, Any]]


# --- words and fields -----------------------------------------------------------------------------

def _word(values: list[str]) -> int:
    if len(values) != 1:
        raise UsageError(f"{len(values)} words", "one word is decoded at a time",
                         legal="0x4000004000010040, or --encode KEY=VALUE ...", where=_WHERE)
    return _integer("the word", values[0])


def _integer(name: str, text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise UsageError(f"{name} = {text}", "is no integer", legal="64 or 0x40",
                         where=_WHERE) from None


def _pairs(values: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not text:
            raise UsageError(f"--encode {value}", "is no KEY=VALUE", legal="start=0x400",
                             where=_WHERE)
        if name in found:
            raise UsageError(f"--encode {value}", f"{name} is given twice",
                             legal=f"{name}={found[name]} or {value}", where=_WHERE)
        found[name] = text
    return found


def _record(what: str, word: int, fields: Iterable[Field], values: Mapping[str, Any],
            problems: Iterable[UsageError], digits: int) -> dict[str, Any]:
    return {
        "what": what, "word": word, "hex": f"{word:#0{digits + 2}x}",
        "fields": [{"name": field.name, "value": values[field.name],
                    "bits": f"{field.hi}:{field.lo} = {field.decode(word)}",
                    "meaning": field.meaning}
                   for field in sorted(fields, key=lambda one: -one.hi)],
        "problems": [{"given": one.given, "rule": one.rule, "legal": one.legal,
                      "where": one.where} for one in problems],
    }


# --- shared memory --------------------------------------------------------------------------------

def _smem(values: list[str], options: Options) -> dict[str, Any]:
    from mmalab.descriptors import smem_format

    layout = smem_format(options.target or "sm_90a")
    word = _smem_word(values, options) if options.encode else _word(values)
    problems = layout.problems(word)
    if not 0 <= word < 1 << 64:
        raise problems[0]
    held = layout.raw(word)
    shown: dict[str, Any] = dict(held)
    for name in ("start", "lbo", "sbo"):
        shown[name] = 16 * held[name]
    shown["swizzle"] = layout.swizzles.get(held["swizzle"], f"code {held['swizzle']}")
    fields = [*layout.fields, *(field for field, _ in layout.fixed)]
    found = _record(f"shared-memory descriptor of {layout.name}, offsets in bytes", word, fields,
                    shown, problems, 16)
    found["nearest"] = f"{layout.nearest(word):#018x}" if problems else ""
    found["remarks"] = layout.remarks(word)
    if options.tile and not problems:
        _tile(found, layout.name, word, options)
    return found


def _smem_word(values: list[str], options: Options) -> int:
    from mmalab.descriptors import check_major, packed, smem_format

    given: dict[str, Any] = _pairs(values)
    for name, text in given.items():
        if name != "swizzle":
            # start is an address; offsets are what the field holds, or bytes where a B says so
            as_bytes = text.removesuffix("B") if name in ("lbo", "sbo") else text
            scale = 16 if name in ("lbo", "sbo") and as_bytes == text else 1
            given[name] = scale * _integer(name, as_bytes)
    layout = smem_format(options.target or "sm_90a")
    if options.tile:
        mn, k, bits = _sized(options, layout.name)
        swizzle = given.get("swizzle", "none")
        check_major(layout.name, options.dtype, bits, options.major, swizzle)
        # an instruction reads at most 64 bytes of K: where a row holds them, LBO is 1 by convention
        depth = k if swizzle == "none" else min(k, 512 // bits)
        tile = packed(options.major, swizzle, mn, depth, bits)
        given = {"lbo": tile.lbo, "sbo": tile.sbo} | given
    return layout.encode(**given)


def _named(swizzles: list[str]) -> str:
    """Modes in words: one of them is called none."""
    return ", ".join(swizzles) if swizzles[1:] else "no mode that swizzles (swizzle=none does)"


def _sized(options: Options, unit: str) -> tuple[int, int, int]:
    """Rows (or columns), K and bits of an element of the tile, of a type that `unit` multiplies."""
    from mmalab import formats
    from mmalab.descriptors import check_dtype

    mn, k = numbers("--tile", options.tile, 2)
    if not 1 <= mn <= _MOST or not 1 <= k <= _MOST:
        raise UsageError(f"--tile {options.tile}", "is no tile", legal=f"1,1 to {_MOST},{_MOST}",
                         where=_WHERE)
    check_dtype(unit, formats.get(options.dtype).name)
    return mn, k, formats.get(options.dtype).bits


def _tile(found: dict[str, Any], name: str, word: int, options: Options) -> None:
    """The words of all steps through K, and which swizzles the tile fills."""
    from mmalab.descriptors import fitting_swizzles, k_steps, smem_format

    mn, k, bits = _sized(options, name)
    one = smem_format(options.target or "sm_90a").decode(word)
    steps = k_steps(one, mn, k, bits, options.major)
    found["steps"] = [{"k": at * 256 // bits, "bytes": step, "word": word + step // 16,
                       "hex": f"{word + step // 16:#018x}"} for at, step in enumerate(steps)]
    found["fitting_swizzles"] = fitting_swizzles(mn, bits, options.major)
    kind = f"{options.dtype} (or any {bits}-bit type)"
    if rest := k % (256 // bits):
        found["remarks"].append(f"K = {k} is no multiple of the {256 // bits} that an instruction"
                                f" takes: the last one reads {256 // bits - rest} beyond it")
    if bits == 4:
        found["remarks"].append("packed, as kinds mxf4 and mxf4nvf4 read it; for f8f6f4 and"
                                " mxf8f6f4 each element lies in a byte: --dtype e4m3")
    found["lines"] = [
        f"tile {mn} x {k} {kind}, {options.major}-major, for {name}:",
        *(f"  k {step['k']:>4}  {step['hex']}  start + {step['bytes']}"
          for step in found["steps"]),
        f"  swizzles whose atoms it fills: {_named(found['fitting_swizzles'])}"]
    if one.swizzle not in found["fitting_swizzles"]:
        found["remarks"].append(f"{mn} is no multiple of the {one.swizzle} atom: a producer that"
                                " writes whole atoms needs more room than the tile")


# --- instructions ---------------------------------------------------------------------------------

def _instr(values: list[str], options: Options) -> dict[str, Any]:
    from mmalab.descriptors import instruction
    from mmalab.isa.tensor_memory import KINDS as KINDS_OF_MMA

    if not options.kind:
        raise UsageError("descriptor instr", "its fields depend on the kind of tcgen05.mma",
                         legal=[f"--kind {name}" for name in KINDS_OF_MMA], where=_WHERE)
    if options.encode:
        names = {"a", "b", "d", "scale"}
        word = instruction.encode(options.kind, **{
            name: text if name in names else _integer(name, text)
            for name, text in _pairs(values).items()})
    else:
        word = _word(values)
    layout = instruction.instr_format(options.kind)
    one = instruction.decode(options.kind, word)
    problems = instruction.problems(options.kind, word, cta_group=options.cta_group,
                                    sparse=options.sparse)
    found = _record(f"instruction descriptor of kind::{options.kind}", word, layout.fields,
                    one.values, problems, 8)
    found["nearest"] = (f"{word & ~layout.reserved:#010x}" if word & layout.reserved else "")
    return found


# --- tensor maps ----------------------------------------------------------------------------------

#: Bytes of a tensor map, and those that the chip reads.
_MAP_BYTES, _READ_BYTES = 128, 64


def _tensormap(values: list[str], options: Options) -> dict[str, Any]:
    if options.encode:
        made, address = make_map(_pairs(values))
        return describe(made.encode(address))
    text = "".join(values).removeprefix("0x")
    try:
        data = bytes.fromhex(text)
    except ValueError:
        data = b""
    if len(data) not in (_MAP_BYTES, _READ_BYTES):
        raise UsageError(f"{len(text)} hexadecimal digits", "a tensor map has 128 bytes, of which"
                         " the chip reads 64", legal="256 or 128 digits, in memory order, or"
                         " --encode KEY=VALUE ...", where=_WHERE)
    return describe(data.ljust(_MAP_BYTES, b"\0"))


#: By what stands behind ``mmalab descriptor``.
KINDS: dict[str, Reader] = {"smem": _smem, "instr": _instr, "tensormap": _tensormap}
