"""The driver's own tensor maps, replayed: our bytes are its bytes, our refusals hold its refusals.

The record was made by ``tools/gpu_tensormaps.py`` on an H200. One difference is left, and it is the
chip's: types and swizzles that compute capability 9.0 does not have are legal here, and refused
there whatever else is asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mmalab.errors import UsageError
from mmalab.tensormap import Im2col, TensorMap
from mmalab.tensormap.rules import check_address, check_map

RECORD = Path(__file__).resolve().parents[2] / "records" / "h200" / "tensormaps.json"
#: Not on compute capability 9.0: the driver refuses them there whatever else is asked.
ABSENT_TYPES = {"b4x16", "b4x16_p64", "b6x16_p32"}
ABSENT_SWIZZLES = {"128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B"}
MAP_BYTES = 128


@cache
def cases() -> tuple[Mapping[str, Any], ...]:
    """Every request, whole."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    return tuple(record["plain"][case["kind"]] | case for case in record["cases"])


def encoded(case: Mapping[str, Any]) -> bytes:
    """Our bytes of a request, held to every rule of ours."""
    corner = None if case["kind"] == "tiled" else Im2col(
        tuple(case["lower"]), tuple(case["upper"]), case["channels"], case["pixels"])
    made = TensorMap(
        array=None, dtype=case["dtype"], dims=tuple(case["dims"]), strides=tuple(case["strides"]),
        box=tuple(case["box"]) if corner is None else (corner.channels, corner.pixels),
        element_strides=tuple(case["element_strides"]), swizzle=case["swizzle"],
        interleave=case["interleave"], l2_promotion=case["promotion"], fill=case["fill"],
        im2col_box=corner)
    check_map(made)
    check_address(made, case["address"])
    return made.encode(case["address"])


def absent(case: Mapping[str, Any]) -> bool:
    return case["dtype"] in ABSENT_TYPES or case["swizzle"] in ABSENT_SWIZZLES


def test_the_record_is_whole() -> None:
    """Many of both kinds, tiled and im2col, every type and mode that the chip has."""
    valid = [case for case in cases() if "bytes" in case]
    assert len(valid) > 700
    assert len(cases()) - len(valid) > 700
    assert {case["kind"] for case in valid} == {"tiled", "im2col"}
    assert len({case["dtype"] for case in valid}) == 13
    for key, count in (("swizzle", 4), ("interleave", 3), ("promotion", 4), ("fill", 2)):
        assert len({case[key] for case in valid}) == count


def test_our_bytes_are_the_drivers() -> None:
    """All 128 bytes of every request that it encodes."""
    compared = 0
    for case in cases():
        if "bytes" not in case:
            continue
        want = bytes.fromhex(case["bytes"]).ljust(MAP_BYTES, b"\0")
        got = encoded(case)
        assert got == want, _difference(case, got, want)
        compared += 1
    assert compared > 600


def _difference(case: Mapping[str, Any], got: bytes, want: bytes) -> str:
    at = next(i for i in range(MAP_BYTES) if got[i] != want[i])
    return f"byte {at:#x}: ours {got[at]:#04x}, the driver's {want[at]:#04x}, of {dict(case)}"


def test_what_the_driver_refuses_is_refused() -> None:
    """Whatever it refuses for a reason other than the chip, a rule of ours names."""
    missed = []
    for case in cases():
        if "error" not in case or absent(case):
            continue
        with suppress(UsageError):
            encoded(case)
            missed.append(dict(case))
    assert missed == []


def test_the_chip_lacks_them_all() -> None:
    """Types and swizzles of later chips: refused on this one without exception."""
    assert [case for case in cases() if absent(case) and "bytes" in case] == []


def test_what_the_driver_takes_is_taken() -> None:
    """No rule of ours refuses what it encodes, the manual's wish for SWIZZLE_32B included."""
    taken = [case for case in cases() if "bytes" in case]
    for case in taken:
        encoded(case)
    assert any(case["interleave"] == "32B" != case["swizzle"] for case in taken)


@pytest.mark.parametrize("kind", ["tiled", "im2col"])
def test_the_drivers_bytes_decode_to_the_request(kind: str) -> None:
    """Reading a map back gives what was asked for, field by field."""
    for case in cases():
        if case["kind"] != kind or "bytes" not in case:
            continue
        made = TensorMap.decode(bytes.fromhex(case["bytes"]).ljust(MAP_BYTES, b"\0"))
        assert made.offset == case["address"]
        assert (list(made.dims), list(made.strides)) == (case["dims"], case["strides"])
        assert list(made.element_strides) == case["element_strides"]
        names = made.dtype, made.swizzle, made.interleave, made.l2_promotion, made.fill
        assert names == tuple(case[key] for key in (
            "dtype", "swizzle", "interleave", "promotion", "fill"))
        corner = made.im2col_box
        if corner is None:
            assert list(made.box) == case["box"]
        else:
            assert [list(corner.lower), list(corner.upper), corner.channels, corner.pixels] == [
                case[key] for key in ("lower", "upper", "channels", "pixels")]
