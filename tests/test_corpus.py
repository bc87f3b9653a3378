"""The emulator runs PTX that other compilers wrote: nvcc, NVRTC and Triton.

`corpus/manifest.json` has one row per kernel and PTX file; inputs are fresh at every run, and a
failure names the seed: `MMALAB_CORPUS_SEED=... pytest tests/test_corpus.py -k ID` repeats it.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus import inputs, references, rounding

import mmalab
from mmalab import isa, ptx
from mmalab.errors import MmalabError

#: Rows that cannot be right yet, by the beginnings of their ids, and why. The marks are strict: a
#: row that comes right fails here until its line is gone, so the list cannot rot.
PENDING = {
    "matmul_whole_f16_tcgen05-": "tcgen05 is not executed yet",
    "matmul_descriptors-sm_100a-": "tcgen05 is not executed yet",
}
#: Opcode families that the instruction table lacks yet; as strict as the list above.
PENDING_FAMILIES: tuple[str, ...] = ()

ROWS = inputs.rows()
FILES = sorted((inputs.CORPUS / "ptx").glob("*.ptx"))
SEED = int(os.environ.get("MMALAB_CORPUS_SEED", secrets.randbelow(1 << 32)))


def marked(row: dict[str, Any]) -> Any:
    """The row as a test parameter, expected to fail while it is pending."""
    reasons = [why for start, why in PENDING.items() if row["id"].startswith(start)]
    marks = [pytest.mark.xfail(reason=reasons[0], strict=True)] if reasons else []
    return pytest.param(row, id=row["id"], marks=marks)


@cache
def module(path: Path) -> Any:
    """The parsed file, once for all its kernels."""
    return ptx.parse(path.read_text())


def opcodes(path: Path) -> Iterator[str]:
    """Every opcode of the file, once."""
    seen: dict[str, None] = {}
    for function in module(path).functions:
        seen.update(dict.fromkeys(i.opcode for i in function.instructions()))
    return iter(seen)


def refused(path: Path) -> dict[str, str]:
    """Opcodes that the instruction table does not know, with its words."""
    unknown = {}
    for opcode in opcodes(path):
        try:
            isa.find(opcode)
        except MmalabError as error:
            unknown[opcode] = str(error).splitlines()[0]
    return unknown


def test_manifest_and_files_belong_together() -> None:
    """Every PTX file has a row, every row its file, source and reference; ids are unique."""
    assert {row["ptx"] for row in ROWS.values()} == {path.name for path in FILES}
    for row in ROWS.values():
        assert (inputs.CORPUS / row["source"]).exists(), row["id"]
        assert callable(references.find(row["reference"])), row["id"]
        assert set(row["compare"]) <= {a["name"] for a in row["args"] if a["role"] != "in"}


def test_files_are_small_and_name_no_machine() -> None:
    """No file is larger than 150 KB, all of them than 2.5 MB, and none holds a path."""
    sizes = [path.stat().st_size for path in FILES]
    assert max(sizes) <= 150_000
    assert sum(sizes) <= 2_500_000
    for path in FILES:
        trace = re.search(r'(?:^|["\s])/\w+/|^\s*\.(?:file|loc)\b', path.read_text(), re.MULTILINE)
        assert trace is None, f"{path.name}: {trace}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_parse_keeps_every_byte(path: Path) -> None:
    """A module that other compilers wrote parses, and prints back byte for byte."""
    assert str(module(path)) == path.read_text()


def test_every_opcode_has_a_form(capsys: pytest.CaptureFixture[str]) -> None:
    """The instruction table knows every opcode of the corpus but those of the pending families;
    the list met is printed."""
    met = {opcode for path in FILES for opcode in opcodes(path)}
    unknown: dict[str, str] = {}
    for path in FILES:
        unknown |= refused(path)
    with capsys.disabled():
        print(f"\ncorpus: {len(met)} opcodes met, {len(unknown)} refused")
        for opcode, reason in sorted(unknown.items()):
            print(f"  {opcode}: {reason}")
    families = {f for f in PENDING_FAMILIES for opcode in unknown if opcode.startswith(f)}
    assert not [o for o in unknown if not o.startswith(PENDING_FAMILIES)]
    assert families == set(PENDING_FAMILIES), "a family has arrived: take it off the list"


def launchable(argument: inputs.Argument) -> Any:
    """The value as `emulate` takes it: raw words, or a tensor map over them."""
    spec = argument.tensor_map
    if spec is None:
        return argument.words
    return mmalab.TensorMap.tiled(argument.value, box=tuple(spec["box"]), swizzle=spec["swizzle"])


@pytest.mark.parametrize("row", [marked(row) for row in ROWS.values()])
def test_emulated_result_is_the_references(row: dict[str, Any]) -> None:
    """The emulated kernel gives what the NumPy reference gives, and no finding: they are clean."""
    arguments = inputs.build(row, SEED)
    want = references.expected(row, arguments)
    run = mmalab.emulate(
        module(inputs.CORPUS / "ptx" / row["ptx"]), [launchable(a) for a in arguments],
        entry=row["entry"], grid=tuple(row["grid"]), block=tuple(row["block"]),
        cluster=tuple(row["cluster"]), dynamic_shared=row["dynamic_shared"], target=row["target"])
    faults = inputs.compare(row, arguments, want)
    assert not faults, f"seed {SEED}: {faults}"
    errors = [f for f in run.findings if f.severity == "error"]
    assert not errors, f"seed {SEED}: {errors}"


# --- the references themselves, against what others published or computed exactly -----------------

def test_reference_of_sha256_agrees_with_hashlib() -> None:
    """One padded block through the reference gives the digest of the standard library."""
    message = b"abc"
    block = message + b"\x80" + bytes(52) + (8 * len(message)).to_bytes(8, "big")
    words = np.frombuffer(block, np.uint8).reshape(1, 64)
    digest = references.find("sha256_block")({"messages": words})["digests"]
    assert digest.astype(">u4").tobytes() == hashlib.sha256(message).digest()


def test_reference_of_philox_gives_the_published_words() -> None:
    """Counter 0 and key 0 give the known answer of the Random123 distribution."""
    words = references.find("random_words")({"seed": 0})["out"][0].view(np.uint32)
    assert [f"{w:08x}" for w in words] == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]


def test_rounding_agrees_with_rationals() -> None:
    """`fma` rounds float32 as exact rationals do, on random words and near cancellation."""
    rng = np.random.default_rng(SEED)
    scales = np.exp2(rng.integers(-70, 60, (2, 2000)))
    a, b = (rng.normal(0, 1, (2, 2000)) * scales).astype(np.float32)
    c = np.where(rng.random(2000) < 0.5, -(a * b), rng.normal(0, 1, 2000)).astype(np.float32)
    got = rounding.fma(a, b, c, np.float32)
    for x, y, z, result in zip(a.tolist(), b.tolist(), c.tolist(), got.tolist(), strict=True):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        assert result == (rounding.round_f32(exact, "rn") if exact else 0.0), f"seed {SEED}"
