"""M: is this kernel using the instruction that one thinks?"""

from __future__ import annotations

import pytest

from mmalab import atlas
from mmalab.cli.expected import missing
from mmalab.errors import UsageError

_INT4 = "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32"
_XOR = "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc"


@pytest.mark.toolkit
def test_m01_int4_and_binary() -> None:
    """M01: int4 "vanished with RTX 40": native there, emulated from sm_90 on; binary likewise."""
    found = {(row.form, row.target): row.verdict for row in atlas.opcodes(
        [_INT4, _XOR], ["sm_80", "sm_89", "sm_90a", "sm_120a"])}
    assert [found[_INT4, f"sm_{name}"] for name in ("80", "89", "90a", "120a")] == [
        "native", "native", "emulated", "emulated"]
    assert [found[_XOR, f"sm_{name}"] for name in ("80", "89")] == ["native", "native"]
    assert found[_XOR, "sm_120a"] == "emulated"


def test_m03_expected_opcodes() -> None:
    """M03: "at least n of X", as something that a build can fail by."""
    held = {"QMMA.SF.16832.F32.E4M3.E4M3.UE8M0": 2, "HMMA.16816.F32.BF16": 3, "MOV": 9}
    assert missing(["QMMA", "QMMA.SF:2", "HMMA.16816:3", "MOV:9"], held) == []
    lines = missing(["QMMA:3", "OMMA", "HMMA.1688", "QMM"], held)
    assert [line.split(";")[0] for line in lines] == [
        "expected 3 QMMA, found 2", "expected 1 OMMA, found 0", "expected 1 HMMA.1688, found 0",
        "expected 1 QMM, found 0"]
    assert lines[0].endswith("2 QMMA.SF.16832.F32.E4M3.E4M3.UE8M0, 3 HMMA.16816.F32.BF16")


@pytest.mark.parametrize("word", ["", ":2", "QMMA:", "QMMA:many"])
def test_m03_wrong_use(word: str) -> None:
    with pytest.raises(UsageError):
        missing([word], {})


@pytest.mark.toolkit
def test_m03_asm_and_sass(ask) -> None:
    """Exit 1 and the opcodes that are there; from a text and from a cubin."""
    assert ask("asm", "c08_product.ptx", "--expect", "HGMMA:2", "-o", "product.cubin").code == 0
    assert ask("sass", "product.cubin", "--expect", "HGMMA:2", "--summary").code == 0
    said = ask("sass", "product.cubin", "--expect", "HGMMA:3", "--summary", "--json")
    assert said.code == 1
    assert said.json["missing"] == [
        "expected 3 HGMMA, found 2; matrix instructions: 2 HGMMA.64x8x16.F32.BF16"]
