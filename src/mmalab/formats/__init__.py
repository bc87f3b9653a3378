"""Number formats: what a word means, how a number is rounded to one, how words lie in bytes.

``table`` has a record for each format; ``decode``, ``encode`` and ``convert`` read it.
"""

from mmalab.formats.arrays import dtype_of, format_of, from_array, to_array
from mmalab.formats.codec import convert, encode, random_slices
from mmalab.formats.packing import from_containers, pack, to_containers, unpack
from mmalab.formats.parts import Parts, decode, take_apart
from mmalab.formats.rounding import Rounding
from mmalab.formats.scales import POLICIES, e8m0_scale
from mmalab.formats.table import ALIASES, FORMATS, Format, Specials, get

__all__ = [
    "ALIASES",
    "FORMATS",
    "POLICIES",
    "Format",
    "Parts",
    "Rounding",
    "Specials",
    "convert",
    "decode",
    "dtype_of",
    "e8m0_scale",
    "encode",
    "format_of",
    "from_array",
    "from_containers",
    "get",
    "pack",
    "random_slices",
    "take_apart",
    "to_array",
    "to_containers",
    "unpack",
]
