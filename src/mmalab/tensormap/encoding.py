"""The 128 bytes of a tensor map: one table of bit fields, read for encoding, decoding, replacing.

The map is one little-endian number of 1024 bits; each row of :data:`TABLE` says where a field lies,
piece by piece with the low bits first, and how its value is stored::

    global stride 0:  value >> 4, the low 32 bits at 127:96, the high 4 bits at 227:224

What `tensormap.replace` touches was read from machine code (`assembled`), the rest from what the
driver encodes (`measured`, ``records/h200/tensormaps.json``); it is the first 64 bytes that the
chip reads, and what the driver notes behind them is written here too. Only the modes of
``.im2col::w`` lie in bits of our own choice (`inferred`). Bits that no row names are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mmalab.bits import Field
from mmalab.errors import UsageError
from mmalab.isa import Evidence
from mmalab.tensormap.elements import ELEMENTS, SWIZZLES, swizzle
from mmalab.tensormap.rules import FILLS, INTERLEAVES, L2_PROMOTIONS

if TYPE_CHECKING:
    from mmalab.tensormap.tensor_map import TensorMap

__all__ = ["MAP_BYTES", "TABLE", "Place", "decode", "encode", "read", "words", "write"]

MAP_BYTES = 128
_WHERE = "mmalab.tensormap.encoding"


@dataclass(frozen=True, slots=True)
class Place:
    """Where one value lies: `pieces` low bits first, stored as ``(value - less) >> shift``."""

    name: str
    pieces: tuple[Field, ...]
    less: int = 0
    shift: int = 0
    signed: bool = False
    evidence: Evidence = Evidence.ASSEMBLED

    @property
    def width(self) -> int:
        """Bits that are stored."""
        return sum(piece.width for piece in self.pieces)

    def get(self, word: int) -> int:
        """The value in a map of 1024 bits."""
        value, at = 0, 0
        for piece in self.pieces:
            value |= piece.decode(word) << at
            at += piece.width
        if self.signed and value >> at - 1:
            value -= 1 << at
        return (value << self.shift) + self.less

    def put(self, word: int, value: int) -> int:
        """The map with this value; bits beyond the field's width are dropped, as the chip does."""
        stored = value - self.less >> self.shift
        for piece in self.pieces:
            word = word & ~piece.mask | (stored & (1 << piece.width) - 1) << piece.lo
            stored >>= piece.width
        return word


def _at(name: str, lo: int, width: int, **how: Any) -> Place:
    return Place(name, (Field(lo + width - 1, lo, name),), **how)


_SEEN = {"evidence": Evidence.MEASURED}
_FLAGS = 64
#: The corners of the pixel box: bits of one offset by rank; the upper ones start 16 bits later.
_CORNERS, _CORNER_BITS = 0x38 * 8, {3: 16, 4: 8, 5: 5}

TABLE: dict[str, Place] = {place.name: place for place in (
    _at("global_address", 0, 64),
    _at("im2col", _FLAGS, 1, **_SEEN),
    # 0 plain im2col, 1 im2col::w, 2 im2col::w::128
    _at("wide", _FLAGS + 1, 2, evidence=Evidence.INFERRED),
    _at("rank", _FLAGS + 4, 3, less=1),
    _at("elemtype", _FLAGS + 7, 4),
    _at("interleave_layout", _FLAGS + 11, 2),
    # 0 to 3 in two bits, and a bit of its own for 96 bytes
    Place("swizzle_mode", (Field(_FLAGS + 14, _FLAGS + 13, "swizzle_mode"),
                           Field(_FLAGS + 22, _FLAGS + 22, "swizzle_mode"))),
    _at("fill_mode", _FLAGS + 15, 1),
    _at("tf32", _FLAGS + 16, 1),
    _at("swizzle_atomicity", _FLAGS + 19, 2),
    # set by nobody that is known; replacing the address clears it
    _at("address_flag", _FLAGS + 21, 1),
    _at("l2_promotion", _FLAGS + 17, 2, **_SEEN),
    *(Place(f"global_stride.{i}", (
        Field(0x0C * 8 + 32 * i + 31, 0x0C * 8 + 32 * i, f"global_stride.{i}"),
        Field(0x1C * 8 + 4 * i + 3, 0x1C * 8 + 4 * i, f"global_stride.{i}")), shift=4)
      for i in range(4)),
    *(_at(f"global_dim.{i}", 0x20 * 8 + 32 * i, 32, less=1) for i in range(5)),
    *(_at(f"element_stride.{i}", 0x34 * 8 + 3 * i, 3, less=1) for i in range(5)),
    *(_at(f"box_dim.{i}", 0x37 * 8 + 8 * i, 8, less=1) for i in range(5)),
    _at("channels", 0x37 * 8, 8, less=1, **_SEEN),
    _at("pixels", 0x3C * 8, 10, less=1, **_SEEN),
    *(_at(f"{corner}.rank{rank}.{i}", _CORNERS + start + bits * i, bits, signed=True, **_SEEN)
      for rank, bits in _CORNER_BITS.items() for corner, start in (("lower", 0), ("upper", 16))
      for i in range(rank - 2)),
    # what the driver keeps for itself
    _at("box_bytes", 0x40 * 8, 64, **_SEEN),
    _at("shared_alignment", 0x48 * 8, 64, **_SEEN),
)}

_MODES = ("", "w", "w128")


def words(data: bytes) -> int:
    """The 1024-bit number.

    Raises:
        UsageError: not 128 bytes.
    """
    if len(data) != MAP_BYTES:
        raise UsageError(f"{len(data)} bytes", "a tensor map has 128", legal="128",
                         where="CUDA driver API, CUtensorMap")
    return int.from_bytes(data, "little")


def read(data: bytes) -> dict[str, int]:
    """All values of the table by name, whether or not they are legal together."""
    word = words(data)
    return {name: place.get(word) for name, place in TABLE.items()}


def write(data: bytes, values: Mapping[str, int]) -> bytes:
    """The map with these values replaced; all other bits stay.

    Raises:
        UsageError: a name that the table does not have.
    """
    word = words(data)
    for name, value in values.items():
        place = TABLE.get(name)
        if place is None:
            raise UsageError(f"field {name!r}", "is no field of a tensor map", legal=[*TABLE],
                             where=_WHERE)
        word = place.put(word, value)
    return word.to_bytes(MAP_BYTES, "little")


def _numbered(name: str, values: tuple[int, ...]) -> dict[str, int]:
    return {f"{name}.{i}": value for i, value in enumerate(values)}


def encode(made: TensorMap, address: int) -> bytes:
    """The bytes of a map over an array at `address`. Sizes beyond the rank are 1, strides 0."""
    kind, mode = made.element, swizzle(made.swizzle)
    values = {
        "global_address": address + made.offset, "rank": made.rank, "elemtype": kind.code,
        "interleave_layout": INTERLEAVES.index(made.interleave), "swizzle_mode": mode.code,
        "fill_mode": FILLS.index(made.fill), "tf32": int(kind.tf32),
        "swizzle_atomicity": mode.atom, "l2_promotion": L2_PROMOTIONS.index(made.l2_promotion),
        **_numbered("global_stride", made.strides), **_numbered("global_dim", _five(made.dims)),
        **_numbered("element_stride", _five(made.element_strides)),
        "box_bytes": made.noted_bytes, "shared_alignment": mode.repeat,
    }
    corner = made.im2col_box
    if corner is None:
        values |= _numbered("box_dim", _five(made.box))
    else:
        rank = _corner_rank(made.rank, corner.wide)
        values |= {"im2col": 1, "wide": _MODES.index(corner.wide), "channels": corner.channels,
                   "pixels": corner.pixels, **_numbered(f"lower.rank{rank}", corner.lower),
                   **_numbered(f"upper.rank{rank}", corner.upper)}
    return write(bytes(MAP_BYTES), values)


def _corner_rank(rank: int, wide: str) -> int:
    """The rank whose corners a map has: the wide modes have one offset."""
    return 3 if wide else rank


def _five(values: tuple[int, ...]) -> tuple[int, ...]:
    return (*values, 1, 1, 1, 1, 1)[:5]


def decode(data: bytes) -> dict[str, Any]:
    """The fields of :class:`~mmalab.tensormap.TensorMap`, `im2col` as a dict or None.

    Raises:
        UsageError: a code that no map has.
    """
    raw = read(data)
    rank = raw["rank"]
    if rank > 5:
        raise UsageError(f"rank {rank}", "is not a rank of tensor maps", legal="1 to 5",
                         where=_WHERE)
    corner = _corner(raw, rank) if raw["im2col"] else None
    return {
        "dtype": _dtype(raw), "dims": _list(raw, "global_dim", rank),
        "strides": _list(raw, "global_stride", rank - 1),
        "box": (corner["channels"], corner["pixels"]) if corner else _list(raw, "box_dim", rank),
        "element_strides": _list(raw, "element_stride", rank), "swizzle": _swizzle(raw),
        "interleave": _of(INTERLEAVES, "interleave_layout", raw),
        "l2_promotion": _of(L2_PROMOTIONS, "l2_promotion", raw),
        "fill": FILLS[raw["fill_mode"]], "offset": raw["global_address"], "im2col": corner,
    }


def _corner(raw: Mapping[str, int], rank: int) -> dict[str, Any]:
    wide = _of(_MODES, "wide", raw)
    as_rank = _corner_rank(rank, wide)
    count = max(as_rank - 2, 0)
    return {"lower": _list(raw, f"lower.rank{as_rank}", count),
            "upper": _list(raw, f"upper.rank{as_rank}", count),
            "channels": raw["channels"], "pixels": raw["pixels"], "wide": wide}


def _list(raw: Mapping[str, int], name: str, count: int) -> tuple[int, ...]:
    return tuple(raw[f"{name}.{i}"] for i in range(count))


def _of(names: tuple[str, ...], field: str, raw: Mapping[str, int]) -> str:
    if raw[field] >= len(names):
        raise UsageError(f"{field} {raw[field]}", "is no code of it",
                         legal=f"0 to {len(names) - 1}", where=_WHERE)
    return names[raw[field]]


def _dtype(raw: Mapping[str, int]) -> str:
    for name, kind in ELEMENTS.items():
        if (kind.code, int(kind.tf32)) == (raw["elemtype"], raw["tf32"]):
            return name
    raise UsageError(f"element type code {raw['elemtype']}, tf32 flag {raw['tf32']}",
                     "is no element type", legal=[*ELEMENTS], where=_WHERE)


def _swizzle(raw: Mapping[str, int]) -> str:
    for name, mode in SWIZZLES.items():
        if (mode.code, mode.atom) == (raw["swizzle_mode"], raw["swizzle_atomicity"]):
            return name
    raise UsageError(f"swizzle mode {raw['swizzle_mode']} with atomicity"
                     f" {raw['swizzle_atomicity']}", "do not go together",
                     legal=[*SWIZZLES], where=_WHERE)
