"""``mmalab numerics QUESTION``: what a tensor core's sums keep, in a chip's own arithmetic."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mmalab.cli.output import Json, print_json, say, table
from mmalab.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["numerics"]

_WHERE = "mmalab numerics --help"

numerics = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)
_Unit = Annotated[str, typer.Option(help="CHIP.CLASS.A[.B].ACC, as sm_90.wgmma.e4m3.f32")]

#: Roundings of a conversion, and who rounds so.
_ROUNDINGS = {"rn": "nearest, ties to even", "rna": "nearest, ties away (cvt.rna)",
              "rz": "towards zero (cvt.rz; TF32 operands)"}


@numerics.callback()
def _questions() -> None:
    """What a tensor core's sums keep, in a chip's own arithmetic. Each question has --help and
    --json."""


@numerics.command()
def units(
    pattern: Annotated[str, typer.Argument(help="part of a name")] = "",
    *,
    json: Json = False,
) -> None:
    """Which arithmetic units are known, how many products each fuses to how many bits, and how
    that is known."""
    from mmalab.numerics import units as known

    found = known(pattern)
    if json:
        print_json([{"name": row.name, **asdict(row)} for row in found])
        raise typer.Exit(0 if found else 1)
    rows = [(row.name, row.algorithm, row.block(row.k), row.k, row.fraction or "-", row.confidence)
            for row in found]
    if rows:
        say(table(rows, ("unit", "algorithm", "fused", "K", "fraction bits", "known")))
    else:
        say(f"no unit has {pattern!r} in its name; mmalab numerics units lists all")
        raise typer.Exit(1)


@numerics.command()
def probe(*, unit: _Unit, json: Json = False) -> None:
    """How many bits an accumulator has: the largest power of two that a product of 1 x 1
    survives beside."""
    from mmalab.numerics import probe as ask
    from mmalab.numerics import unit as find
    from mmalab.numerics import units as known

    found, row = ask(unit), find(unit)
    beside = [other for other in known(f"{row.chip}.") if other.name != row.name
              and (other.chip, other.a, other.b, other.acc) == (row.chip, row.a, row.b, row.acc)
              and other.scale == row.scale]
    if json:
        print_json({**asdict(found), "source": row.source, "confidence": row.confidence,
                    "beside": {other.name: ask(other).bits for other in beside}})
        return
    say(f"{found.unit}: {found.bits} bits, 2^{found.exponent} + 1 is exact",
        f"  lost     {found.lost}", f"  known by {row.source} ({row.confidence})",
        *(f"  beside   {other.name}, another unit of that chip: {ask(other).bits} bits"
          for other in beside))


@numerics.command()
def error(
    *,
    unit: _Unit,
    k: Annotated[int, typer.Option(help="products in a sum")] = 4096,
    promote: Annotated[int | None, typer.Option(
        help="add partial sums of so many products in FP32")] = None,
    outputs: Annotated[int, typer.Option(help="rows and columns of the product")] = 128,
    low: Annotated[float, typer.Option(help="least operand")] = -1.0,
    high: Annotated[float, typer.Option(help="largest operand, not reached")] = 1.0,
    seed: Annotated[int, typer.Option(help="of the operands")] = 0,
    json: Json = False,
) -> None:
    """Relative RMS error of a product of uniform numbers: from the sums, and in all."""
    from mmalab.numerics.error import chain_error

    if k < 1 or outputs < 1:
        raise UsageError(f"--k {k} --outputs {outputs}", "is no product", legal="from 1",
                         where=_WHERE)
    found, plain = (chain_error(unit, k, promote_every=every, outputs=outputs, low=low, high=high,
                                seed=seed) for every in (promote, None))
    if json:
        print_json({**asdict(found), "unpromoted": asdict(plain)} if promote else found)
        return
    promoted = f", promoted every {promote}" if promote else ""
    say(f"{found.unit}, K = {found.k}{promoted}, {found.outputs} outputs:",
        f"  from the sums  {found.from_sums:.3e}   relative RMS to the product of the rounded "
        "operands",
        f"  total          {found.total:.3e}   to the product of the operands before rounding",
        f"  backward       {found.backward:.3e}   largest |error| / (|A| |B|)",
        f"  bias           {found.bias:+.3e}   mean of |D| - |S| in units of rms(S)",
        *([f"  not promoted   {plain.from_sums:.3e}   from the sums; bias {plain.bias:+.3e}"]
          if promote else []))


@numerics.command()
def dot(
    a: Annotated[Path, typer.Argument(help=".npy, (batch, K)")],
    b: Annotated[Path, typer.Argument(help=".npy, (batch, K)")],
    c: Annotated[Path | None, typer.Argument(help=".npy, (batch,); zero without it")] = None,
    *,
    unit: _Unit,
    out: Annotated[Path | None, typer.Option(help="write the raw results here (.npy)")] = None,
    json: Json = False,
) -> None:
    """Dot products bit for bit. Unsigned arrays are raw words, others are values."""
    import numpy as np

    from mmalab import formats
    from mmalab.numerics import dot as multiply
    from mmalab.numerics import unit as find

    row = find(unit)
    left, right = _load(a), _load(b)
    raw = left.dtype.kind == "u" and row.a not in ("u8", "u4")
    words = multiply(left, right, None if c is None else _load(c), unit=row, raw=raw)
    words = words if raw else words.view(formats.get(row.acc).dtype)
    if out is not None:
        np.save(out, words)
    values = formats.decode(words, row.acc)
    digits = words.dtype.itemsize * 2
    if json:
        print_json({"unit": row.name, "values": values, "words": words})
    else:
        say(*(f"{value:.9g}  0x{int(word):0{digits}x}"
              for value, word in zip(values, words, strict=True)))


@numerics.command()
def convert(
    value: Annotated[float, typer.Argument(help="a number")],
    *,
    to: Annotated[str, typer.Option(help="element type: tf32, bf16, e4m3 ...")],
    json: Json = False,
) -> None:
    """What a number becomes in a type, under every rounding: TF32 operands are truncated."""
    import numpy as np

    from mmalab import formats

    found = []
    for mode, words in _ROUNDINGS.items():
        made = formats.encode(np.array([value]), to, mode)
        found.append((words, float(formats.decode(made, to)[0]), int(made.reshape(-1)[0])))
    digits = max(2, formats.get(to).bits // 4)
    if json:
        print_json([{"rounding": mode, "value": number, "word": word}
                    for mode, (_, number, word) in zip(_ROUNDINGS, found, strict=True)])
    else:
        say(table([(words, f"{number:.9g}", f"0x{word:0{digits}x}")
                   for words, number, word in found], (f"{value:.9g} to {to}", "value", "word")))


@numerics.command()
def plateau(
    value: Annotated[float, typer.Argument(help="what is added again and again")],
    *,
    dtype: Annotated[str, typer.Option(help="type of the sum: f16, bf16 ...")] = "f16",
    json: Json = False,
) -> None:
    """Where a running sum stops growing: the plateau tells how it is rounded."""
    from mmalab.numerics.plateau import plateau as ask

    found = {mode: ask(value, dtype, mode) for mode in ("rn", "rz")}
    if json:
        print_json({mode: asdict(row) for mode, row in found.items()})
    else:
        say(table([(words, f"{found[mode].total:g}", found[mode].additions)
                   for mode, words in (("rn", "nearest"), ("rz", "towards zero"))],
                  (f"a {dtype} sum of {found['rn'].value:.9g}, rounded", "stays at", "additions")))


@numerics.command()
def identify(
    a: Annotated[Path, typer.Argument(help=".npy of raw words, (batch, K)")],
    b: Annotated[Path, typer.Argument(help=".npy of raw words, (batch, K)")],
    d: Annotated[Path, typer.Argument(help=".npy of raw words, (batch,): what the chip gave")],
    *,
    types: Annotated[str | None, typer.Option(
        help="PTX types of A, B and D, as e4m3,e4m3,f32; all that the arrays may hold without it")]
        = None,
    c: Annotated[Path | None, typer.Option(help=".npy of raw words; zero without it")] = None,
    json: Json = False,
) -> None:
    """Which units explain recorded dot products. Exit 1 when none explains all of them."""
    import numpy as np

    from mmalab.numerics import identify as search

    left, right, given = (_load(path) for path in (a, b, d))
    start = np.zeros_like(given) if c is None else _load(c)
    found: dict[str, float] = {}
    for words in _candidates(types, left, right, given):
        found |= search(*(_raw(each) for each in (left, right, start, given)), a_type=words[0],
                        b_type=words[1], acc=words[2])
    found = dict(sorted(found.items(), key=lambda item: -item[1]))
    if json:
        print_json(found)
    elif found:
        # without types there are hundreds; those that reproduce nothing are of other types
        shown = found if types else {
            name: share for name, share in found.items() if share} or found
        say(table([(name, f"{100 * share:.2f} %") for name, share in shown.items()],
                  ("unit", "reproduced")))
    else:
        say(f"no unit multiplies {types or 'arrays of these widths'}")
    if max(found.values(), default=0.0) < 1:
        raise typer.Exit(1)


def _candidates(types: str | None, *arrays: NDArray[Any]) -> list[tuple[str, ...]]:
    """The types of A, B and D that are asked about, or those whose words the arrays may be."""
    from mmalab import formats

    if types is not None:
        words = tuple(types.split(","))
        if len(words) != len(arrays):
            raise UsageError(f"--types {types}", "names three types", legal="e4m3,e4m3,f32",
                             where=_WHERE)
        return [tuple(formats.get(word).name for word in words)]
    from mmalab.numerics import units

    known = dict.fromkeys((row.a, row.b, row.acc) for row in units() if not row.scale)
    return [each for each in known
            if all(_may_hold(array, name) for array, name in zip(arrays, each, strict=True))]


def _may_hold(array: NDArray[Any], name: str) -> bool:
    """Whether an array may be words of a type: of its width, none larger; floats are what they
    are."""
    from mmalab import formats

    fmt = formats.get(name)
    if array.dtype.kind in "fi":
        return bool(array.dtype == formats.dtype_of(fmt))
    words = _raw(array)
    return words.dtype == fmt.dtype and int(words.max(initial=0)) < 1 << fmt.bits


def _raw(array: NDArray[Any]) -> NDArray[Any]:
    return array.view(f"u{array.dtype.itemsize}")


def _load(path: Path) -> NDArray[Any]:
    """An array from a file; what is none is wrong use."""
    import numpy as np

    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (OSError, ValueError) as failed:
        raise UsageError(str(path), f"cannot be read as .npy: {failed}",
                         legal="a file of numpy.save", where=_WHERE) from None
