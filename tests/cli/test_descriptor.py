"""``mmalab descriptor``: words of real kernels explained, fields made into words, faults named."""

from __future__ import annotations

from typing import Any

import pytest


def fields(answer: Any) -> dict[str, Any]:
    """Values by field name."""
    return {field["name"]: field["value"] for field in answer.json["fields"]}


def test_common_word(mmalab) -> None:
    """Case B02: what SBO 64 and code 1 mean."""
    found = fields(mmalab("descriptor", "smem", "0x4000004000010040", "--json"))
    assert found == {"start": 0x400, "lbo": 16, "sbo": 1024, "base_offset": 0, "swizzle": "128B"}
    assert "bits 9:7" in mmalab("descriptor", "smem", "0x4000004000010040").out


def test_encode_is_the_inverse(mmalab) -> None:
    """Offsets as the field holds them, or in bytes."""
    words = ["start=0x400", "lbo=1", "sbo=64", "swizzle=128B"]
    assert mmalab("descriptor", "smem", "--encode", *words, "--target", "sm_90a",
                  "--json").json["word"] == 0x4000004000010040
    words = ["start=0x400", "lbo=16B", "sbo=1024B", "swizzle=128B"]
    assert mmalab("descriptor", "smem", "--encode", *words, "--target", "sm_100a",
                  "--json").json["hex"] == "0x4000404000010040"


def test_steps_through_k(mmalab) -> None:
    """Case B02: each step of K adds 2 to the address field."""
    found = mmalab("descriptor", "smem", "--encode", "start=0x400", "swizzle=128B", "--tile",
                   "64,64", "--json").json
    assert found["word"] == 0x4000004000010040
    assert [step["word"] - found["word"] for step in found["steps"]] == [0, 2, 4, 6]
    assert [step["k"] for step in found["steps"]] == [0, 16, 32, 48]


@pytest.mark.parametrize(("swizzle", "major", "lbo", "sbo"), [
    ("none", "K", 128, 2048), ("32B", "K", 2048, 256), ("64B", "K", 16, 512),
    ("128B", "K", 16, 1024), ("none", "MN", 1024, 128), ("32B", "MN", 256, 1024),
    ("64B", "MN", 512, 1024), ("128B", "MN", 1024, 1024)])
def test_offsets_of_a_tile(mmalab, swizzle: str, major: str, lbo: int, sbo: int) -> None:
    """64 x 128 bf16, several rows deep. LBO is 1 unit where no instruction reads it: all but a
    sparse B take 32 bytes of K, which one row of any swizzle holds; that takes 64."""
    found = fields(mmalab("descriptor", "smem", "--encode", f"swizzle={swizzle}", "--tile",
                          "64,128", "--major", major, "--json"))
    assert (found["lbo"], found["sbo"]) == (lbo, sbo)


@pytest.mark.parametrize(("n", "fits"), [
    (24, ["none"]), (40, ["none"]), (64, ["none", "32B", "64B", "128B"])])
def test_tile_that_fits_no_swizzle(mmalab, n: int, fits: list[str]) -> None:
    """Case B08: atoms of MN-major bf16 are 16, 32, 64 wide."""
    found = mmalab("descriptor", "smem", "--encode", "swizzle=64B", "--tile", f"{n},16", "--major",
                   "MN", "--json").json
    assert found["fitting_swizzles"] == fits
    assert bool(found["remarks"]) == (fits == ["none"])


@pytest.mark.parametrize(("target", "dtype", "says"), [
    ("sm_90a", "e4m3", "wgmma reads 16-bit types so"), ("sm_90a", "s8", "or a 16-bit type"),
    ("sm_90a", "tf32", "--major K"), ("sm_100a", "tf32", "swizzle=128B_ATOM_32B"),
    ("sm_100a", "e2m1", "K-major only"), ("sm_90a", "bf16", ""), ("sm_100a", "e4m3", "")])
def test_operands_that_no_instruction_reads(mmalab, target: str, dtype: str, says: str) -> None:
    """MN-major tiles of a type whose products have no transpose are refused, with what would do."""
    answer = mmalab("descriptor", "smem", "--encode", "swizzle=128B", "--tile", "64,64", "--dtype",
                    dtype, "--major", "MN", "--target", target)
    assert answer.code == (2 if says else 0)
    assert says in answer.out + answer.err


@pytest.mark.parametrize(("target", "dtype", "says"), [
    ("sm_90a", "e2m1", "wgmma multiplies no such type"), ("sm_90a", "f64", "legal: f16, bf16"),
    ("sm_100a", "e3m2", "each lies in a byte"), ("sm_100a", "b1", "tcgen05 multiplies no such")])
def test_types_that_no_instruction_multiplies(mmalab, target: str, dtype: str, says: str) -> None:
    """A descriptor of them would be one of nothing."""
    answer = mmalab("descriptor", "smem", "--encode", "swizzle=128B", "--tile", "64,64", "--dtype",
                    dtype, "--target", target)
    assert answer.code == 2
    assert says in answer.err


@pytest.mark.parametrize(("tile", "dtype", "says"), [
    ("64,63", "bf16", "reads 1 beyond it"), ("64,64", "e2m1", "each element lies in a byte")])
def test_remarks_about_a_tile(mmalab, tile: str, dtype: str, says: str) -> None:
    """What is legal and not what one might think."""
    found = mmalab("descriptor", "smem", "--encode", "swizzle=128B", "--tile", tile, "--dtype",
                   dtype, "--target", "sm_100a", "--json").json
    assert any(says in remark for remark in found["remarks"])


def test_a_swizzle_whose_tiles_are_not_known(mmalab) -> None:
    """tf32 MN-major on tcgen05: its fields are encoded, offsets are not made up."""
    words = ["descriptor", "smem", "--encode", "swizzle=128B_ATOM_32B", "--target", "sm_100a"]
    assert mmalab(*words, "lbo=1024B", "sbo=512B").code == 0
    answer = mmalab(*words, "--tile", "64,64", "--dtype", "tf32", "--major", "MN")
    assert answer.code == 2
    assert "its offsets are not worked out here" in answer.err


@pytest.mark.parametrize(("base", "right"), [(0, True), (128, False), (512, False), (1024, True)])
def test_base_alignment(mmalab, base: int, right: bool) -> None:
    """Case B05: a 128B tile begins at a multiple of 1024, or says its phase."""
    answer = mmalab("descriptor", "smem", "--encode", f"start={base}", "sbo=64", "swizzle=128B",
                    "--json")
    assert answer.code == 0
    assert (answer.json["remarks"] == []) == right
    if not right:
        phase = f"base_offset {base >> 7 & 7}"
        assert phase in answer.json["remarks"][0]
        answer = mmalab("descriptor", "smem", "--encode", f"start={base}", "sbo=64",
                        "swizzle=128B", f"base_offset={base >> 7 & 7}", "--json")
        assert answer.json["remarks"] == []


def test_hopper_word_on_blackwell(mmalab) -> None:
    """SD01: what is wrong, and the word with its version."""
    answer = mmalab("descriptor", "smem", "0x4000004000010040", "--target", "sm_100a", "--json")
    assert answer.code == 1
    assert "version" in answer.json["problems"][0]["given"]
    assert answer.json["nearest"] == "0x4000404000010040"
    text = mmalab("descriptor", "smem", "0x4000004000010040", "--target", "sm_100a").out
    assert "Hopper" in text
    assert "nearest: 0x4000404000010040" in text


def test_instruction_descriptor(mmalab) -> None:
    """Types and shape there and back."""
    made = mmalab("descriptor", "instr", "--kind", "f16", "--encode", "a=bf16", "b=bf16", "d=f32",
                  "m=128", "n=256", "--json")
    assert made.code == 0
    found = fields(mmalab("descriptor", "instr", made.json["hex"], "--kind", "f16", "--json"))
    assert (found["a"], found["b"], found["d"], found["m"], found["n"]) == (
        "bf16", "bf16", "f32", 128, 256)


def test_instruction_descriptor_that_no_product_has(mmalab) -> None:
    """N of 12, of the wrong kind, without .sp."""
    answer = mmalab("descriptor", "instr", "0x8400494", "--kind", "mxf4", "--dense", "--json")
    assert answer.code == 1
    given = " ".join(problem["given"] for problem in answer.json["problems"])
    assert "sparsity = 1" in given
    assert "scale = code 0" in given


@pytest.mark.parametrize("words", [
    ["smem"], ["smem", "x"], ["smem", "1", "2"], ["smem", "--encode", "start"],
    ["smem", "--encode", "stride=4"], ["smem", "--encode", "start=0x401"],
    ["smem", "--encode", "swizzle=96B"], ["smem", "0x1ffffffffffffffff"],
    ["smem", "1", "--target", "sm_120a"], ["smem", "0", "--tile", "8"],
    ["instr", "0"], ["instr", "0", "--kind", "f4"], ["instr", "0x100000000", "--kind", "f16"],
    ["instr", "--kind", "i8", "--encode", "a=f16"], ["instr", "--kind", "f16", "--encode", "m=100"],
    ["nothing", "0"]])
def test_wrong_use(mmalab, words: list[str]) -> None:
    """Exit 2, and what would be legal."""
    answer = mmalab("descriptor", *words)
    assert answer.code == 2
    assert "legal" in answer.err or "see" in answer.err
