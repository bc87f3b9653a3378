"""SASS operands by register file, from texts that nvdisasm prints for sm_75 to sm_121a."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmalab.toolchain.operands import (
    Constant,
    Immediate,
    Label,
    Memory,
    Other,
    Register,
    SpecialRegister,
    read_operand,
    split_operands,
)


@pytest.mark.parametrize(("text", "file", "index", "flags"), [
    ("R36.reuse", "R", 36, {"reuse": True}),
    ("RZ", "R", None, {}),
    ("-RZ", "R", None, {"negated": True}),
    ("UR14", "UR", 14, {}),
    ("URZ", "UR", None, {}),
    ("!UPT", "UP", None, {"inverted": True}),
    ("~URZ", "UR", None, {"inverted": True}),
    ("P3", "P", 3, {}),
    ("B0", "B", 0, {}),
    ("SB0", "SB", 0, {}),
    ("gsb0", "SB", 0, {}),
    ("|R2|", "R", 2, {"absolute": True}),
    ("-|R2|", "R", 2, {"negated": True, "absolute": True}),
    ("R10.reuse.H0_H0", "R", 10, {"reuse": True, "view": ("H0_H0",)}),
    ("R4.COL", "R", 4, {"view": ("COL",)}),
])
def test_registers(text: str, file: str, index: int | None, flags: dict[str, object]) -> None:
    """File, number, sign, negation, absolute value, reuse and view are each a field."""
    found = read_operand(text, {})
    assert found == Register(file, index, text=text, **flags)
    assert str(found) == text


@pytest.mark.parametrize(("text", "expected"), [
    ("[R2]", Memory("generic", Register("R", 2, text="R2"), text="[R2]")),
    ("[R7.X4]", Memory("generic", Register("R", 7, view=("X4",), text="R7.X4"), scale=4,
                       text="[R7.X4]")),
    ("[R2.64+-0x100]", Memory("generic", Register("R", 2, view=("64",), text="R2.64"),
                              offset=-0x100, text="[R2.64+-0x100]")),
    ("[R0+UR8+0x800]", Memory("generic", Register("R", 0, text="R0"),
                              Register("UR", 8, text="UR8"), 0x800, text="[R0+UR8+0x800]")),
    ("[0x2000]", Memory("generic", offset=0x2000, text="[0x2000]")),
    ("desc[UR4][R2.64+0x10]", Memory(
        "global", Register("R", 2, view=("64",), text="R2.64"), offset=0x10,
        descriptor=Register("UR", 4, text="UR4"), text="desc[UR4][R2.64+0x10]")),
    ("desc[UR12]", Memory("desc", uniform=Register("UR", 12, text="UR12"), text="desc[UR12]")),
    ("tmem[UR4+0x38]", Memory("tmem", uniform=Register("UR", 4, text="UR4"), offset=0x38,
                              text="tmem[UR4+0x38]")),
    ("gdesc[UR6].A_REUSE.A_KEEP", Memory(
        "gdesc", uniform=Register("UR", 6, text="UR6"), view=("A_REUSE", "A_KEEP"),
        text="gdesc[UR6].A_REUSE.A_KEEP")),
])
def test_memory(text: str, expected: Memory) -> None:
    """Address parts, descriptors and Tensor Memory are told apart."""
    assert read_operand(text, {}) == expected


def test_constants() -> None:
    """Constant banks: by number, through a register, and bindless."""
    assert read_operand("c[0x0][0x37c]", {}) == Constant(0, 0x37c, text="c[0x0][0x37c]")
    through = read_operand("c[0x3][UR4+0x8]", {})
    assert isinstance(through, Constant)
    assert (through.bank, through.offset, through.base) == (3, 8, Register("UR", 4, text="UR4"))
    bindless = read_operand("-cx[UR4][0x10]", {})
    assert isinstance(bindless, Constant)
    assert (bindless.bank, bindless.bindless, bindless.negated) == (
        None, Register("UR", 4, text="UR4"), True)


@pytest.mark.parametrize(("text", "value"), [
    ("0x3f800000", 0x3F800000), ("-0x1", -1), ("0", 0), ("2.384185791015625e-07", 2.0**-22),
    ("-0.0", 0.0), ("+INF", float("inf")), ("-INF", float("-inf"))])
def test_immediates(text: str, value: float) -> None:
    """Numbers in every spelling have their value."""
    found = read_operand(text, {})
    assert isinstance(found, Immediate)
    assert found.value == value


def test_labels_and_special_registers() -> None:
    """A label has the address of its place in the section, or None outside it."""
    assert read_operand("`(.L_x_4)", {".L_x_4": 0x1d0}) == Label(".L_x_4", 0x1D0, "`(.L_x_4)")
    assert read_operand("`(elsewhere)", {}) == Label("elsewhere", None, "`(elsewhere)")
    assert read_operand("SR_TID.X", {}) == SpecialRegister("TID.X", "SR_TID.X")


def test_unknown_text_is_kept() -> None:
    """What the reader does not know stays as it is and is never guessed."""
    assert read_operand("{5,4,3,2,1,0}", {}) == Other("{5,4,3,2,1,0}")
    assert read_operand("UPR", {}) == Other("UPR")


def test_split() -> None:
    """Commas inside brackets do not part operands; a blank does (RET's target)."""
    assert split_operands(" R2, {5,4,3}, c[0x0][0x4]") == ["R2", "{5,4,3}", "c[0x0][0x4]"]
    assert split_operands(" R2 `(f)") == ["R2", "`(f)"]
    assert split_operands("") == []


@given(st.text(alphabet="RUPZTc[]0123456789x.-|!~+`()ade{}g", max_size=14).filter(str.strip))
def test_any_text_is_read(text: str) -> None:
    """No text makes the reader fail, and every record prints as its text."""
    for word in split_operands(text):
        assert str(read_operand(word, {})) == word
