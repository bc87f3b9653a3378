"""Tensor maps as the command line spells them: fields in KEY=VALUE, and 128 bytes in hexadecimal.

    tma:0:box=64,128:swizzle=128B              a map over the buffer of parameter 0
    tma:in:A.npy:box=64,128:dtype=bf16         over a file's array, which is no parameter itself
    tma:out:256,128:f32:D.npy:box=32,64        over a buffer that is written to a file after the run

Sizes are innermost first, in elements; strides in bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from mmalab.errors import UsageError

if TYPE_CHECKING:
    from mmalab.tensormap import TensorMap

__all__ = ["KEYS", "describe", "make_map", "over", "split"]

_WHERE = "mmalab run --arg tma:..."
_LISTS = ("box", "dims", "strides", "element_strides", "lower", "upper")
_NUMBERS = ("offset", "channels", "pixels")
#: Fields of a map by name.
KEYS = (*_LISTS, *_NUMBERS, "dtype", "swizzle", "interleave", "l2_promotion", "fill", "wide")


#: Words before the fields: ``tma:in:A.npy``, ``tma:out:256,128:f32:D.npy``; else a number.
_HEADS = {"in": 2, "out": 4}


def split(text: str) -> tuple[list[str], dict[str, str]]:
    """``in:A.npy:box=64,128`` to the words that say over what, and the fields.

    Raises:
        UsageError: a word behind them that is no field, or a field that is given twice.
    """
    words = text.split(":")
    head = _HEADS.get(words[0], 1)
    options: dict[str, str] = {}
    for item in words[head:]:
        name, equals, value = item.partition("=")
        if not equals or name not in KEYS:
            raise UsageError(f"{item!r} in tma:{text}", "is no field of a tensor map",
                             legal=[f"{key}=..." for key in KEYS], where=_WHERE)
        if name in options:
            raise UsageError(f"{item!r} in tma:{text}", f"{name} is given twice",
                             legal=f"{name}={options[name]} or {item}", where=_WHERE)
        options[name] = value
    return words[:head], options


def over(array: Any, given: Mapping[str, str], *, dtype: str | None = None) -> TensorMap:
    """The map over an array with these fields.

    Raises:
        UsageError: a value that is no number, a field that is missing, a limit that is not kept.
    """
    from mmalab.tensormap import TensorMap

    fields = _values(given)
    if dtype is not None:
        fields.setdefault("dtype", dtype)
    if "channels" in fields or "pixels" in fields:
        _need(fields, "lower", "upper", "channels", "pixels")
        return TensorMap.im2col(array, fields.pop("lower"), fields.pop("upper"), **fields)
    _need(fields, "box")
    return TensorMap.tiled(array, fields.pop("box"), **fields)


def make_map(given: Mapping[str, str]) -> tuple[TensorMap, int]:
    """A map without an array, and its address: what ``descriptor tensormap --encode`` makes.

    Without strides the rows follow each other.

    Raises:
        UsageError: as :func:`over`, and for an address that is not aligned.
    """
    from mmalab.tensormap import Im2col, TensorMap
    from mmalab.tensormap.rules import check_address, check_map

    text = dict(given)
    named = "address" in text
    address = _integer("address", text.pop("address", "0"))
    if named and not address:
        raise UsageError("address=0", "is the null pointer", legal="a multiple of 16",
                         where="CUDA driver API, cuTensorMapEncodeTiled")
    fields = _values(text)
    _need(fields, "dtype", "dims")
    corner = None
    if "channels" in fields or "pixels" in fields:
        _need(fields, "lower", "upper", "channels", "pixels")
        corner = Im2col(fields.pop("lower"), fields.pop("upper"), fields.pop("channels"),
                        fields.pop("pixels"), fields.pop("wide", ""))
        fields["box"] = (corner.channels, corner.pixels)
    _need(fields, "box")
    fields.setdefault("element_strides", (1,) * len(fields["dims"]))
    fields.setdefault("strides", _without_gaps(fields["dtype"], fields["dims"]))
    made = TensorMap(array=None, im2col_box=corner, **fields)
    check_map(made)
    check_address(made, address + made.offset)
    return made, address


def _without_gaps(dtype: str, dims: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a tensor whose rows follow each other."""
    from mmalab.tensormap.elements import element

    row = element(dtype).global_bytes(dims[0]) if dims else 0
    return tuple(row * prod(dims[1:at]) for at in range(1, len(dims)))


def _values(given: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, text in given.items():
        if name not in KEYS:
            raise UsageError(f"{name}={text}", "is no field of a tensor map", legal=list(KEYS),
                             where=_WHERE)
        if name in _LISTS:
            found[name] = tuple(_integer(name, part) for part in text.split(",")) if text else ()
        else:
            found[name] = _integer(name, text) if name in _NUMBERS else text
    return found


def _integer(name: str, text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise UsageError(f"{name}={text}", f"{text!r} is no whole number", legal=f"{name}=64",
                         where=_WHERE) from None


def _need(fields: Mapping[str, Any], *names: str) -> None:
    missing = [name for name in names if name not in fields]
    if missing:
        raise UsageError(f"a tensor map with {', '.join(fields) or 'no fields'}",
                         f"needs {', '.join(missing)}",
                         legal=[f"{name}=..." for name in missing], where=_WHERE)


# --- the 128 bytes --------------------------------------------------------------------------------

def describe(data: bytes) -> dict[str, Any]:
    """All fields of the bytes, and what is wrong with them, in the record of the verb."""
    from mmalab.tensormap import TensorMap
    from mmalab.tensormap.encoding import TABLE, read, words

    values, word = read(data), words(data)
    problems: list[UsageError] = []
    lines: list[str] = []
    ragged = 0
    try:
        made = TensorMap.decode(data)
    except UsageError as error:
        problems.append(error)
    else:
        lines = [f"  {name}: {value}" for name, value in _words(made)]
        ragged = -made.element.global_bytes(made.dims[0]) % 16
    fields = [{"name": name, "value": values[name], "bits": _bits(place.pieces),
               "meaning": f"{place.evidence.value}"}
              for name, place in TABLE.items() if values[name] != place.less
              and _belongs(name, values)]
    for place in TABLE.values():
        for piece in place.pieces:
            word &= ~piece.mask
    remarks = [f"bits that no field is known for: {word:#x}"] if word else []
    if ragged:
        remarks.append(f"a row ends {16 - ragged} bytes into its last 16: a tensor store of it "
                       f"writes whole 16 bytes, {ragged} past the row (as an H200 does)")
    return {
        "what": "tensor map, 128 bytes in memory order", "word": int.from_bytes(data, "little"),
        "remarks": remarks,
        "hex": data.hex(), "fields": fields,
        "problems": [{"given": one.given, "rule": one.rule, "legal": one.legal,
                      "where": one.where} for one in problems], "lines": lines}


def _belongs(name: str, values: Mapping[str, int]) -> bool:
    """Whether a field means anything in a map of this mode and rank: some share bits."""
    corner, _, rest = name.partition(".rank")
    if corner in ("lower", "upper"):
        return bool(values["im2col"]) and rest[0] == str(3 if values["wide"] else values["rank"])
    if name in ("channels", "pixels", "wide"):
        return bool(values["im2col"])
    return not (values["im2col"] and name.startswith("box_dim."))


def _words(made: TensorMap) -> Iterable[tuple[str, Any]]:
    names = ("dtype", "dims", "strides", "box", "element_strides", "swizzle", "interleave",
             "l2_promotion", "fill")
    yield "address", hex(made.offset)
    for name in names:
        yield name, getattr(made, name)
    if made.im2col_box is not None:
        yield "im2col", made.im2col_box
    yield "bytes that a copy counts", made.box_bytes
    yield "aligned at best to", f"{made.swizzle_mode.repeat} bytes of shared memory"


def _bits(pieces: Iterable[Any]) -> str:
    return " and ".join(f"{piece.hi}:{piece.lo}" for piece in reversed(list(pieces)))
