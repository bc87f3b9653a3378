"""asm, sass, doctor."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmalab.cli import doctor as doctor_verb

FP8 = """.version 8.6
.target sm_89
.address_size 64
.visible .entry k(.param .u64 p)
{
    .reg .b64 %d<2>; .reg .b32 %r<8>; .reg .f32 %f<4>;
    ld.param.u64 %d0, [p];
    ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%d0];
    ld.global.v2.b32 {%r4, %r5}, [%d0+16];
    ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%d0+32];
    mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f0, %f1, %f2, %f3},
        {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};
    st.global.v4.f32 [%d0], {%f0, %f1, %f2, %f3};
    ret;
}
"""


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "k.ptx"
    path.write_text(FP8)
    return path


@pytest.mark.toolkit
def test_asm_one_chip(mmalab, kernel: Path) -> None:
    """One chip: resources, opcodes, and what the product became."""
    found = mmalab("asm", kernel, "--target", "sm_90a", "--json").json
    assert found["target"] == "sm_90a"
    assert found["resources"]["k"]["spill_stores"] == 0
    assert found["functions"][0]["matrix"] == {"HMMA.16816.F32": 2}
    assert [(row["line"], row["verdict"]) for row in found["lowering"]] == [(11, "emulated")]
    assert "emulated: mma.sync" in mmalab("asm", kernel, "--target", "sm_90a").out


@pytest.mark.toolkit
def test_asm_by_chip(mmalab, kernel: Path) -> None:
    """Several chips: a row each; one that refuses the text has its reason, and the exit is 1."""
    words = ["asm", kernel, *(w for t in ("sm_80", "sm_89", "sm_90a") for w in ("--target", t))]
    answer = mmalab(*words)
    assert answer.code == 1
    assert [line.split()[0] for line in answer.out.splitlines()] == [
        "target", "sm_80", "sm_89", "sm_90a"]
    refused, native, emulated = mmalab(*words, "--json").json
    assert "ptxas" in refused["error"]
    assert native["lowering"][0]["verdict"] == "native"
    assert emulated["lowering"][0]["verdict"] == "emulated"


@pytest.mark.toolkit
def test_asm_refused(mmalab, kernel: Path) -> None:
    """One chip that refuses: the assembler's words with their line, exit 2."""
    answer = mmalab("asm", kernel, "--target", "sm_80")
    assert answer.code == 2
    assert "line 11" in answer.err


@pytest.mark.toolkit
@pytest.mark.parametrize(("instruction", "target", "other"), [
    ("wgmma.fence.sync.aligned;", "sm_90", "sm_90a"),
    ("setmaxnreg.inc.sync.aligned.u32 232;", "sm_90", "sm_90a"),
    ("setmaxnreg.inc.sync.aligned.u32 232;", "sm_100", "sm_100f"),
])
def test_asm_names_the_suffix(mmalab, tmp_path: Path, instruction: str, target: str,
                              other: str) -> None:
    """What only a suffix of the same chip has is refused with that suffix; other errors are not."""
    path = tmp_path / "k.ptx"
    text = (".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n"
            ".reqntid 128, 1, 1\n{\n    %s\n    ret;\n}\n")
    path.write_text(text % instruction)
    answer = mmalab("asm", path, "--target", target)
    assert answer.code == 2
    assert f"{other} has the instructions that {target} lacks" in answer.err
    assert f"legal: --target {other}" in answer.err
    path.write_text(text % "wgmma.commit.sync.aligned;")
    assert "lacks" not in mmalab("asm", path, "--target", target).err


@pytest.mark.toolkit
def test_sass_of_a_file(mmalab, kernel: Path, tmp_path: Path) -> None:
    """A saved cubin lists its instructions, and in JSON each has its operands by file."""
    cubin = tmp_path / "k.cubin"
    assert mmalab("asm", kernel, "-o", cubin).code == 0
    assert "QMMA.16832.F32.E4M3.E4M3" in mmalab("sass", cubin).out
    found = mmalab("sass", cubin, "--json").json
    product = next(i for i in found["functions"][0]["listing"] if i["opcode"] == "QMMA")
    assert product["flops"] == 8192
    assert [operand["file"] for operand in product["operands"]] == ["R"] * 4
    assert mmalab("sass", cubin, "--function", "nope").code == 2
    assert mmalab("sass", kernel).code == 2


def test_cuda_needs_a_target(mmalab, tmp_path: Path) -> None:
    """CUDA C++ without --target is wrong use."""
    (tmp_path / "k.cu").write_text("")
    assert mmalab("asm", tmp_path / "k.cu").code == 2


def test_doctor(mmalab) -> None:
    """doctor answers every probe and exits 0."""
    answer = mmalab("doctor", "--json")
    assert answer.code == 0
    assert {"python", "packages", "cpu", "tools", "gpu", "cache"} <= set(answer.json)
    assert answer.json["packages"]["numpy"]["version"]
    assert mmalab("doctor").code == 0


def test_doctor_says_what_fails(mmalab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe that breaks is reported with its reason, and the exit is still 0."""
    def broken() -> None:
        raise OSError("the driver is asleep")

    monkeypatch.setattr(doctor_verb, "_gpu", broken)
    monkeypatch.setattr(doctor_verb, "_tools", broken)
    answer = mmalab("doctor")
    assert answer.code == 0
    assert "GPU: OSError: the driver is asleep" in answer.out
