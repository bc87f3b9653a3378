"""Shared-memory descriptors: encode, decode, and everything that makes a word none."""

from __future__ import annotations

import numpy as np
import pytest

from mmalab.descriptors import TCGEN05, WGMMA, SmemFormat, smem_format
from mmalab.errors import UsageError

FORMATS = pytest.mark.parametrize("form", [WGMMA, TCGEN05], ids=lambda form: form.name)


def test_the_word_of_a_common_tile() -> None:
    """Case B02: bf16 K-major 128B: CUTLASS's constant."""
    word = WGMMA.encode(start=0x400, sbo=1024, swizzle="128B")
    assert word == 0x40 | 1 << 16 | 64 << 32 | 1 << 62
    one = WGMMA.decode(word)
    assert (one.start, one.lbo, one.sbo, one.swizzle) == (0x400, 16, 1024, "128B")


def test_blackwell_has_the_same_bits_and_a_version() -> None:
    """128B is code 1 of two bits there, code 2 of three here."""
    for swizzle in ("none", "32B", "64B", "128B"):
        hopper = WGMMA.encode(start=0x400, sbo=1024, swizzle=swizzle)
        assert TCGEN05.encode(start=0x400, sbo=1024, swizzle=swizzle) == hopper | 1 << 46


@FORMATS
def test_round_trip(form: SmemFormat) -> None:
    """Every field at random, and back."""
    rng = np.random.default_rng()
    for _ in range(300):
        swizzle = str(rng.choice(list(form.swizzles.values())))
        values = {name: int(rng.integers(0, 1 << 14)) * 16 for name in ("start", "lbo", "sbo")}
        base = int(rng.integers(0, 8)) if swizzle != "none" else 0
        word = form.encode(**values, swizzle=swizzle, base_offset=base)
        one = form.decode(word)
        assert {name: getattr(one, name) for name in values} == values
        assert (one.swizzle, one.base_offset) == (swizzle, base)
        assert form.encode(**{n: v for n, v in one.as_dict().items()
                              if n in {f.name for f in form.fields}}) == word


@FORMATS
def test_each_reserved_bit_is_told(form: SmemFormat) -> None:
    """A bit that belongs to no field: the message names it and the word without it."""
    word = form.encode(start=0x400, sbo=1024, swizzle="128B")
    reserved = [bit for bit in range(64) if form.reserved >> bit & 1]
    assert set(reserved) >= {14, 15, 30, 31}
    for bit in reserved:
        (problem,) = form.problems(word | 1 << bit)
        assert str(bit) in problem.rule
        assert int(problem.legal[0], 16) == word


def test_a_hopper_descriptor_on_blackwell() -> None:
    """SD01: version 0, and the hint."""
    word = WGMMA.encode(start=0x400, sbo=1024, swizzle="128B")
    with pytest.raises(UsageError, match=r"version = 0.*Hopper"):
        TCGEN05.decode(word)


@pytest.mark.parametrize("code", [3, 5, 7])
def test_swizzle_codes_that_do_not_exist(code: int) -> None:
    """SD01: three of the eight codes; the legal ones are listed."""
    word = TCGEN05.encode(start=0x400) & ~(7 << 61) | code << 61
    (problem,) = TCGEN05.problems(word)
    assert "swizzle code" in str(problem)
    assert "2 (128B)" in problem.legal


def test_base_offset_needs_a_swizzle() -> None:
    """Without a pattern there is no phase."""
    assert "base_offset" in str(WGMMA.problems(1 << 49)[0])
    assert WGMMA.problems(1 << 49 | 1 << 62) == []


@pytest.mark.parametrize(("values", "words"), [
    ({"start": 0x408}, "0x400"),  # SD02
    ({"start": 0x40000}, "0 to"),  # SD05
    ({"sbo": 0x40000}, "0 to"),
    ({"lbo": -16}, "0 to"),
    ({"swizzle": "256B"}, "128B"),
    ({"stride": 1}, "lbo"),
    ({"base_offset": 8}, "0 to 7"),
])
def test_values_that_fit_no_field(values: dict[str, int], words: str) -> None:
    """What was given, the rule, and what is legal."""
    with pytest.raises(UsageError) as caught:
        WGMMA.encode(**values)
    assert words in str(caught.value)
    assert caught.value.legal


def test_words_beyond_64_bits() -> None:
    """Negative and wide numbers are no words."""
    assert WGMMA.problems(-1)
    assert WGMMA.problems(1 << 64)


def test_which_target_has_which() -> None:
    """sm_90 Hopper's, the data-centre Blackwells' the other, nobody else any."""
    assert smem_format("sm_90a") is WGMMA
    assert smem_format("sm_100a") is smem_format("sm_103f") is TCGEN05
    with pytest.raises(UsageError, match="sm_90a"):
        smem_format("sm_120a")


def test_start_inside_the_pattern_is_remarked() -> None:
    """SD03: the remark names the base offset that would fit, and the neighbours."""
    (remark,) = WGMMA.remarks(WGMMA.encode(start=0x480, sbo=1024, swizzle="128B"))
    assert "base_offset 1" in remark
    assert "0x400" in remark
    assert "0x800" in remark
    # a step through K stays in the row
    assert WGMMA.remarks(WGMMA.encode(start=0x420, sbo=1024, swizzle="128B")) == []
