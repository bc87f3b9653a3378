"""The instruction descriptor of tcgen05.mma: fields by kind, round trips, every refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mmalab.descriptors import instruction
from mmalab.errors import UsageError
from mmalab.isa.tensor_memory import KINDS, legal_sizes

GOOD = {
    "f16": {"a": "bf16", "b": "bf16", "d": "f32"}, "tf32": {"d": "f32"},
    "f8f6f4": {"a": "e2m3", "b": "e5m2", "d": "f16"}, "i8": {"a": "s8", "b": "u8", "d": "s32"},
    "mxf8f6f4": {"a": "e4m3", "b": "e3m2"}, "mxf4": {}, "mxf4nvf4": {"scale": "ue4m3"},
}


def test_known_words() -> None:
    """CUTLASS's bits: bf16 x bf16 -> f32, 128 x 256; e4m3 64 x 8; mxf8f6f4 256 wide."""
    assert instruction.encode("f16", a="bf16", b="bf16", d="f32", m=128, n=256) == (
        1 << 4 | 1 << 7 | 1 << 10 | 32 << 17 | 8 << 24)
    assert instruction.encode("f8f6f4", a="e4m3", b="e5m2", d="f32", m=64, n=8) == (
        1 << 4 | 1 << 10 | 1 << 17 | 4 << 24)
    assert instruction.encode("mxf8f6f4", m=128, n=256) == 32 << 17 | 1 << 23 | 1 << 27


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip_of_every_legal_shape(kind: str) -> None:
    """Each M and N of the kind, for one and two CTAs, has a word without problems."""
    for group in (1, 2):
        ms, ns = legal_sizes(kind, cta_group=group)
        for m in ms:
            for n in ns:
                word = instruction.encode(kind, **GOOD[kind], m=m, n=n)
                assert instruction.problems(kind, word, cta_group=group, sparse=False) == []
                values = instruction.decode(kind, word).values
                assert {"m": m, "n": n, **GOOD[kind]}.items() <= values.items()


@pytest.mark.parametrize("kind", KINDS)
def test_fields_do_not_overlap(kind: str) -> None:
    """Every bit is one field's or reserved; reserved ones are told one by one."""
    layout = instruction.instr_format(kind)
    masks = [field.mask for field in layout.fields]
    assert sum(masks) == int(np.bitwise_or.reduce(np.array(masks, np.int64)))
    ms, ns = legal_sizes(kind)
    word = instruction.encode(kind, **GOOD[kind], m=ms[0], n=ns[0])
    for bit in range(32):
        if layout.reserved >> bit & 1:
            (problem,) = instruction.problems(kind, word | 1 << bit)
            assert str(bit) in problem.rule
            assert int(problem.legal[0], 16) == word


@pytest.mark.parametrize(("kind", "values", "words"), [
    ("f16", {"a": "f16", "b": "bf16", "d": "f32", "m": 128, "n": 64}, "equal types"),
    ("f16", {"a": "bf16", "b": "bf16", "d": "f16", "m": 128, "n": 64}, "D f16 of bf16"),
    ("f16", {"m": 128, "n": 64, "saturate": 1}, "saturate"),
    ("f16", {"m": 128, "n": 64, "sparsity_selector": 1}, "sparsity_selector"),
    ("i8", {"m": 128, "n": 64, "negate_a": 1}, "negate_a"),
    ("i8", {"m": 128, "n": 40}, "N = 40"), ("tf32", {"m": 32, "n": 64}, "M = 32"),
    ("f8f6f4", {"m": 128, "n": 0}, "N = 0"), ("mxf4", {"m": 256, "n": 64}, "M = 256"),
])
def test_words_that_no_product_takes(kind: str, values: dict[str, Any], words: str) -> None:
    """Types and shapes that the kind has not; each message names what is legal."""
    found = instruction.problems(kind, instruction.encode(kind, **values))
    assert len(found) == 1
    assert words in str(found[0])
    assert found[0].legal


def test_sparsity_must_be_as_spelled() -> None:
    """TM19: the bit and .sp."""
    word = instruction.encode("f16", m=128, n=64, sparsity=1)
    assert instruction.problems("f16", word, sparse=True) == []
    assert "without .sp" in str(instruction.problems("f16", word, sparse=False)[0])


def test_type_codes_that_do_not_exist() -> None:
    """Code 2 of the narrow types is none."""
    word = instruction.encode("f8f6f4", m=128, n=64) | 2 << 7
    assert instruction.decode("f8f6f4", word).values["a"] == "code 2"
    (problem,) = instruction.problems("f8f6f4", word)
    assert "5 (e2m1)" in problem.legal


@pytest.mark.parametrize(("kind", "values"), [
    ("f5", {}), ("f16", {"m": 100}), ("f16", {"n": 12}), ("f16", {"a": "e4m3"}),
    ("mxf4", {"transpose_a": 1}), ("mxf4", {"d": "f32"}), ("f16", {"m": 16 * 32}),
    ("f16", {"negate_a": 2}),
])
def test_values_that_fit_no_field(kind: str, values: dict[str, Any]) -> None:
    """Refused with what is legal."""
    with pytest.raises(UsageError) as caught:
        instruction.encode(kind, **values)
    assert caught.value.legal
