"""The 64-bit shared-memory descriptors of wgmma and tcgen05: one row of bit fields for each.

Addresses and offsets are held in units of 16 bytes; here they are bytes. A K-major bf16 tile whose
rows of 64 elements fill the 128-byte swizzle, at 0x400, 8-row groups 1024 bytes apart::

    63:62 swizzle 1 (128B) | 51:49 base offset 0 | 45:32 SBO 64 | 29:16 LBO 1 | 13:0 start 0x40
    = 0x4000004000010040

tcgen05 has the same word, with a version in bits 48:46 (always 1) and a swizzle code of three bits
from 61, whose upper two are Hopper's. So a Hopper descriptor is recognised by its version 0.

Source: PTX ISA, "Matrix Descriptor Format" (wgmma) and "Shared memory descriptor" (tcgen05);
CUTLASS, cute/arch/mma_sm90_desc.hpp and mma_sm100_desc.hpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

from mmalab.bits import Field
from mmalab.errors import UsageError

__all__ = ["TCGEN05", "WGMMA", "SmemDescriptor", "SmemFormat", "smem_format"]

#: Bytes after which a swizzle's pattern repeats: where a tile has to begin for base offset 0.
PATTERN_BYTES = {"none": 16, "32B": 256, "64B": 512, "128B": 1024, "128B_ATOM_32B": 1024}

_START = Field(13, 0, "start", "start address, in 16 bytes")
_LBO = Field(29, 16, "lbo", "leading-dimension byte offset, in 16 bytes")
_SBO = Field(45, 32, "sbo", "stride-dimension byte offset, in 16 bytes")
_BASE = Field(51, 49, "base_offset", "bits 9:7 of the address where the swizzle pattern starts")
#: Fields that count 16 bytes.
_IN_16_BYTES = ("start", "lbo", "sbo")


@dataclass(frozen=True, slots=True)
class SmemDescriptor:
    """A decoded descriptor: `start`, `lbo`, `sbo` in bytes, the swizzle by its name.

    `absolute` (tcgen05): `lbo` is an address, not an offset.
    """

    start: int
    lbo: int = 16
    sbo: int = 0
    swizzle: str = "none"
    base_offset: int = 0
    absolute: int = 0
    lut_half: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True)
class SmemFormat:
    """One generation's descriptor: its fields, its swizzle codes, bits that never change."""

    name: str
    fields: tuple[Field, ...]
    swizzles: Mapping[int, str]
    fixed: tuple[tuple[Field, int], ...]
    where: str

    @property
    def reserved(self) -> int:
        """The bits that belong to no field."""
        known = [*self.fields, *(field for field, _ in self.fixed)]
        return ((1 << 64) - 1) & ~sum(field.mask for field in known)

    def raw(self, word: int) -> dict[str, int]:
        """What each field holds, as it stands in the word."""
        found = {field.name: field.decode(word) for field in self.fields}
        return found | {field.name: field.decode(word) for field, _ in self.fixed}

    def decode(self, word: int) -> SmemDescriptor:
        """The descriptor that a word spells.

        Raises:
            UsageError: the word is none; :meth:`problems` says everything that is wrong.
        """
        for problem in self.problems(word):
            raise problem
        return self.read(word)

    def read(self, word: int) -> SmemDescriptor:
        """The fields of a word that may have other :meth:`problems` than an unknown swizzle."""
        held = {field.name: field.decode(word) for field in self.fields}
        values: dict[str, Any] = {name: held[name] * (16 if name in _IN_16_BYTES else 1)
                                  for name in held if name != "swizzle"}
        return SmemDescriptor(**values, swizzle=self.swizzles[held["swizzle"]])

    def encode(self, **values: Any) -> int:
        """The word of named fields: `start`, `lbo`, `sbo` in bytes, `swizzle` by name; what is left
        out is 0 (`lbo` one unit, by convention where nobody reads it).

        Raises:
            UsageError: an unknown field or swizzle, an offset that is no multiple of 16 or has
                more bits than its field.
        """
        known = {field.name: field for field in self.fields}
        word = sum(field.encode(value) for field, value in self.fixed)
        for name, value in {"lbo": 16, "swizzle": "none", **values}.items():
            if name not in known:
                raise UsageError(f"{name} = {value}", f"a {self.name} descriptor has no such field",
                                 legal=list(known), where=self.where)
            word |= known[name].encode(self._held(known[name], value))
        return word

    def _held(self, field: Field, value: Any) -> int:
        """The bits of a value given in bytes or by name."""
        if field.name == "swizzle":
            return self._code(value)
        if field.name not in _IN_16_BYTES:
            return int(value)
        number, most = int(value), ((1 << field.width) - 1) * 16
        if number % 16:
            low = number // 16 * 16
            raise UsageError(f"{field.name} = {number:#x}", "no multiple of 16: its low four bits"
                             " would be lost", legal=[hex(low), hex(low + 16)], where=self.where)
        if not 0 <= number <= most:
            raise UsageError(f"{field.name} = {number:#x}",
                             f"{field.width} bits count 16 bytes each", legal=f"0 to {most:#x}",
                             where=self.where)
        return number // 16

    def _code(self, name: str) -> int:
        for code, known in self.swizzles.items():
            if str(name) == known:
                return code
        raise UsageError(f"swizzle {name}", f"{self.name} descriptors have no such swizzle",
                         legal=list(self.swizzles.values()), where=self.where)

    def problems(self, word: int) -> list[UsageError]:
        """Everything for which the word is no descriptor: bits that must have another value, an
        unknown swizzle, a base offset without a swizzle."""
        if not 0 <= word < 1 << 64:
            return [UsageError(f"descriptor {word:#x}", "has more than 64 bits",
                               legal="0 to 0xffffffffffffffff", where=self.where)]
        found = [self._wrong(field, have, must) for field, must in self.fixed
                 if (have := field.decode(word)) != must]
        if stray := word & self.reserved:
            bits = ", ".join(str(bit) for bit in range(64) if stray >> bit & 1)
            found.append(UsageError(
                f"descriptor {word:#018x}", f"bits {bits} are reserved and not zero",
                legal=f"{word & ~self.reserved:#018x}", where=self.where))
        held = self.raw(word)
        if held["swizzle"] not in self.swizzles:
            legal = [f"{code} ({name})" for code, name in self.swizzles.items()]
            found.append(UsageError(f"swizzle code {held['swizzle']}", "stands for no swizzle",
                                    legal=legal, where=self.where))
        elif held["swizzle"] == 0 and held["base_offset"]:
            found.append(UsageError(
                f"base_offset = {held['base_offset']}", "nothing is swizzled that it could correct",
                legal="0, or a swizzle", where=self.where))
        return found

    def nearest(self, word: int) -> int:
        """The word with its reserved bits cleared and its fixed fields set."""
        word &= ~self.reserved & (1 << 64) - 1
        for field, value in self.fixed:
            word = word & ~field.mask | field.encode(value)
        swizzle = next(field for field in self.fields if field.name == "swizzle")
        return word & ~_BASE.mask if swizzle.decode(word) == 0 else word

    def _wrong(self, field: Field, have: int, must: int) -> UsageError:
        hint = " (a Hopper descriptor?)" if field.name == "version" and have == 0 else ""
        return UsageError(f"{field.name} = {have}", f"bits {field.hi}:{field.lo} are always"
                          f" {must}{hint}", legal=str(must), where=self.where)

    def remarks(self, word: int) -> list[str]:
        """What is legal and often a mistake."""
        if self.problems(word):
            return []
        one = self.read(word)
        pattern = PATTERN_BYTES[one.swizzle]
        phase = one.start % pattern >> 7
        if phase and one.base_offset == 0:
            low = one.start // pattern * pattern
            return [(
                f"start {one.start:#x} is no multiple of {pattern} and base_offset is 0: right"
                f" only for rows of a tile that begins at a multiple of {pattern}; a tile that"
                f" begins here needs base_offset {phase}, or to begin at {low:#x} or"
                f" {low + pattern:#x}")]
        return []


#: Hopper's, of wgmma.
WGMMA = SmemFormat(
    "wgmma", (_START, _LBO, _SBO, _BASE, Field(63, 62, "swizzle", "swizzle mode")),
    MappingProxyType({0: "none", 1: "128B", 2: "64B", 3: "32B"}), (),
    "PTX ISA, Matrix Descriptor Format")

#: Blackwell's, of tcgen05.mma and tcgen05.cp.
TCGEN05 = SmemFormat(
    "tcgen05", (
        _START, _LBO, _SBO, _BASE,
        Field(52, 52, "absolute", "lbo is an address (sm_103: K of 48 bytes)"),
        Field(53, 53, "lut_half", "half of the look-up table (sm_107)"),
        Field(63, 61, "swizzle", "swizzle mode"),
    ),
    MappingProxyType({0: "none", 1: "128B_ATOM_32B", 2: "128B", 4: "64B", 6: "32B"}),
    ((Field(48, 46, "version", "descriptor version"), 1),),
    "PTX ISA, Shared memory descriptor of tcgen05")


def smem_format(target: str) -> SmemFormat:
    """The descriptor of a target's instructions.

    Raises:
        UsageError: the target has no instruction that takes one.
    """
    chip = target.removeprefix("sm_").rstrip("af")
    if chip == "90":
        return WGMMA
    if chip in ("100", "103", "107", "110"):
        return TCGEN05
    raise UsageError(f"target {target}", "no instruction there takes a shared-memory descriptor",
                     legal=["sm_90a", "sm_100a", "sm_103a", "sm_107a", "sm_110a"],
                     where="PTX ISA, wgmma.mma_async and tcgen05.mma")
