"""What an H200 wrote, replayed: the emulator's words have the same SHA-256, case by case.

``vectors/h200`` holds digests (and some words) of what the chip made of inputs that a seed gives
again. Every kernel and every form is here; sizes that take the emulator seconds are left to
``tools/gpu_equality.py compare``, which has made the record from the same vectors.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
from pretend import ROOT, tool

import mmalab
from mmalab import isa
from mmalab.kernels import ladder

VECTORS = ROOT / "vectors" / "h200"
#: Multiplications of a product of this test: less than a second of the emulator's.
MOST = 24_000_000
PARTS = 8
#: Rungs that are newer than the vectors, and how the names of other such products begin.
LATER: frozenset[str] = frozenset()
NEW: tuple[str, ...] = ()


PRODUCTS, FORMS = tool("gpu_equality"), tool("gpu_wgmma")


@cache
def products() -> Any:
    return PRODUCTS.Vectors.load(VECTORS / "products.npz")


@cache
def forms(name: str = "wgmma.npz") -> dict[str, Any]:
    with np.load(VECTORS / name) as file:
        return {name: file[name] for name in file.files}


# --- products -------------------------------------------------------------------------------------

CASES: dict[str, list[Any]] = {}
for _case in PRODUCTS.cases():
    if not _case.name.startswith(NEW) and _case.name.split(" ")[0] not in LATER:
        CASES.setdefault(_case.name, []).append(_case)


def small(name: str) -> bool:
    """The textbook kernel and FP32 on CUDA cores are slow; their smallest is small enough."""
    made = CASES[name][0].make()
    most = 10_000_000 if name.startswith(("textbook", "ffma")) else MOST
    return made.facts.get("flops", 0) // 2 <= most


@pytest.mark.parametrize("name", [name for name in CASES if small(name)])
def test_products_of_the_chip(name: str) -> None:
    """Every mix of inputs: not one word differs."""
    told = [products().replay(case) for case in CASES[name]]
    assert [row.get("problem") for row in told] == [None] * len(told)
    assert [row["mismatches"] for row in told] == [0] * len(told), told
    assert {tuple(row["fidelity"]) for row in told} <= {("exact",), ()}


def test_every_rung_is_among_the_products() -> None:
    names = {name.split(" ")[0] for name in CASES if small(name)}
    for generation in ("sm80_mma", "sm90_wgmma"):
        assert set(ladder(generation)) <= names | LATER
    rows = [(row["name"], row["mix"]) for row in products().index]
    assert rows == [(case.name, case.mix) for cases in CASES.values() for case in cases]


def test_what_is_newer_than_the_vectors_is_named_no_longer_than_that() -> None:
    known = {row["name"] for row in products().index}
    made = {case.name for case in PRODUCTS.cases()}
    for new in NEW:
        assert any(name.startswith(new) for name in made)
        assert not any(name.startswith(new) for name in known)


def test_a_wrong_word_is_found() -> None:
    """Other inputs, or another sum, have another digest."""
    case = next(case for case in CASES["few rows, M=4 bf16 split 2"] if case.mix == "normal")
    held = products()
    at = [(row["name"], row["mix"]) for row in held.index].index((case.name, case.mix))
    digests, samples = held.digests.copy(), held.samples.copy()
    digests[at, 0] ^= 1
    samples[at, 7] ^= 1
    changed = PRODUCTS.Vectors(held.facts, held.index, digests, samples)
    found = changed.replay(case)
    assert found["mismatches"] == 1
    assert found["first"][0]["sample"] == 7
    other = PRODUCTS.Vectors({**held.facts, "seed": 1}, held.index, digests, samples)
    assert "not the inputs" in other.replay(case)["problem"]


def test_the_record_is_of_these_vectors() -> None:
    record = json.loads((ROOT / "records/h200/equality.json").read_text(encoding="utf-8"))
    held = products()
    assert record["seed"] == held.facts["seed"]
    assert record["device"] == held.facts["device"]
    assert record["mismatches"] == 0
    assert record["not_compared"] == []
    assert [(row["case"], row["mix"]) for row in record["cases"]] == [
        (row["name"], row["mix"]) for row in held.index]


# --- forms of wgmma -------------------------------------------------------------------------------

#: Vectors of wgmma, and of how many of their kernels one is replayed; all of the largest set take
#: minutes: tools/gpu_wgmma.py --compare.
SETS = {path.name: 16 if "every" in path.name else 1 for path in sorted(VECTORS.glob("wgmma*.npz"))}


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", SETS)
def test_wgmma_of_the_chip(name: str, part: int) -> None:
    """Each form on four mixes; probes, which the ISA does not define, are not compared."""
    held = forms(name)
    index, facts = (json.loads(str(held[key])) for key in ("index", "facts"))
    setups, seed = FORMS._wanted(every=facts.get("every", False), only=""), facts["seed"]
    assert [row["kernel"] for row in index] == [str(setup) for setup in setups]
    wrong = []
    for at in range(part, len(setups), PARTS * SETS[name]):
        setup = setups[at]
        if setup.probe:
            continue
        args = FORMS._arguments(setup, np.random.default_rng([seed, at]))
        assert FORMS.inputs_digest(args) == index[at]["inputs"]
        mmalab.emulate(setup.kernel(), args, sanitize=False)
        if (FORMS.digests(args[4]) != held["digests"][at]).any():
            wrong.append(str(setup))
        if str(at) in held:
            np.testing.assert_array_equal(args[4], held[str(at)], str(setup))
    assert wrong == []


def test_every_form_is_among_the_vectors() -> None:
    """All types, dense and sparse; the narrow ones word by word."""
    held = forms()
    index = json.loads(str(held["index"]))
    seen = {row["kernel"].split(" ")[1].partition("m64n")[0] + row["kernel"].split(" ")[1]
            .partition("k")[2] for row in index}
    keys = [key.removeprefix("wgmma.mma_async.") for key in isa.forms("wgmma.mma_async")
            if isa.find(key).family == "wgmma.mma_async"]
    assert {key.partition("m64n")[0] + key.partition("k")[2] for key in keys} <= seen
    assert sum(name.isdigit() for name in held) > 80
