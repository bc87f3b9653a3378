"""Tensor maps on the command line: ``--arg tma:...`` and ``descriptor tensormap``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from mmalab.cli.arguments import read_argument, read_arguments
from mmalab.cli.main import app
from mmalab.errors import UsageError
from mmalab.tensormap import TensorMap

LOAD = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .align 64 .b8 map[128]) .reqntid 32, 1, 1
{ .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<6>;
  .shared .align 1024 .b8 smem[1024]; .shared .align 8 .b64 bar;
  mov.b64 %rd0, map; cvta.param.u64 %rd0, %rd0; mov.u32 %r0, smem; mov.u32 %r1, bar;
  mov.u32 %r2, %tid.x; setp.ne.u32 %p0, %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, 2;
  @%p0 bra A;
  mbarrier.init.shared::cta.b64 [%r1], 1;
A: bar.sync 0; @%p0 bra W;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 128;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
      [%r0], [%rd0, {%r3, %r4}], [%r1];
W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra W;
  shl.b32 %r5, %r2, 2; add.u32 %r6, %r0, %r5; ld.shared.u32 %r7, [%r6];
  ld.param.u64 %rd1, [out]; cvt.u64.u32 %rd2, %r5; add.s64 %rd1, %rd1, %rd2;
  st.global.u32 [%rd1], %r7; ret; }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "A.npy", np.arange(16 * 16, dtype=np.uint32).reshape(16, 16))
    (tmp_path / "k.ptx").write_text(LOAD)
    return tmp_path


def run(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def test_a_map_over_a_file(folder: Path) -> None:
    """The box at (0, 2) comes out."""
    done = run("run", str(folder / "k.ptx"), "--arg", f"out:32:u32:{folder / 'D.npy'}",
               "--arg", "tma:in:A.npy:box=16,2:swizzle=none", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["verdict"] == "clean"
    np.testing.assert_array_equal(np.load(folder / "D.npy"), np.arange(32, 64))


def test_maps_over_other_parameters_and_over_outputs(folder: Path) -> None:
    """``tma:N`` shares the buffer; ``tma:out`` writes its own after the run."""
    specs = ["tma:1:box=8,4:dims=16,8:strides=64:dtype=f32", "inout:A.npy:B.npy",
             f"tma:out:4,16:bf16:{folder / 'O.npy'}:box=16,2:swizzle=32B"]
    made, buffer, out = read_arguments(specs, folder)
    assert isinstance(made.value, TensorMap)
    assert made.value.array is buffer.value
    assert (made.value.dims, made.value.strides, made.value.dtype) == ((16, 8), (64,), "f32")
    assert isinstance(out.value, TensorMap)
    assert (out.value.dtype, out.value.dims, out.value.box) == ("bf16", (16, 4), (16, 2))
    out.save()
    assert (np.load(folder / "O.npy") == 0xFFFF).all()


def test_im2col_maps_have_corners(folder: Path) -> None:
    """Channels or pixels make the map one for im2col."""
    np.save(folder / "N.npy", np.zeros((2, 8, 8, 16), np.float16))
    made = read_argument("tma:in:N.npy:lower=-1,-1:upper=1,1:channels=16:pixels=32", folder).value
    assert made.im2col_box.pixels == 32
    assert made.im2col_box.lower == (-1, -1)


@pytest.mark.parametrize(("spec", "words"), [
    ("tma:in:A.npy", "needs box"), ("tma:in:A.npy:box=16,x", "no whole number"),
    ("tma:in:A.npy:box=16,300", "not a box size"), ("tma:in:A.npy:bax=3", "no field"),
    ("tma:in:A.npy:box=16,2:swizzle=256B", "is not known"), ("tma:5:box=16,2", "no buffer"),
    ("tma:out:4:box=4", "no tensor map"), ("tma:x:box=4", "no buffer"),
    ("tma:0:nonsense:box=4", "no field"), ("tma:in:A.npy:box=16,2:dtype=f8", "no element type"),
])
def test_wrong_maps_are_refused(folder: Path, spec: str, words: str) -> None:
    """Each with its rule."""
    with pytest.raises(UsageError, match=words):
        read_arguments([f"inout:A.npy:{folder / 'B.npy'}", spec], folder)


def test_descriptor_encodes_and_decodes() -> None:
    """What --encode prints is read back, field by field; the chip's 64 bytes are enough."""
    made = run("descriptor", "tensormap", "--encode", "dtype=bf16", "dims=4096,512",
               "strides=8192", "box=64,128", "swizzle=128B", "fill=nan", "address=0x7f0000001000",
               "--json")
    assert made.exit_code == 0, made.output
    text = json.loads(made.output)["hex"]
    for given in (text, text[:128], "0x" + text):
        back = run("descriptor", "tensormap", given, "--json")
        assert back.exit_code == 0, back.output
        fields = {field["name"]: field["value"] for field in json.loads(back.output)["fields"]}
        assert fields["global_address"] == 0x7F0000001000
        assert (fields["global_dim.0"], fields["box_dim.1"], fields["fill_mode"]) == (4096, 128, 1)
        assert not any(name.startswith("lower") for name in fields)
    shown = run("descriptor", "tensormap", text)
    assert "swizzle: 128B" in shown.output
    assert "bytes that a copy counts: 16384" in shown.output


def test_descriptor_of_an_im2col_map() -> None:
    """Corners instead of boxes."""
    made = run("descriptor", "tensormap", "--encode", "dtype=f16", "dims=64,20,10,4",
               "strides=128,2560,25600", "lower=-1,-2", "upper=1,2", "channels=32", "pixels=64")
    assert made.exit_code == 0, made.output
    assert "lower.rank4.1" in made.output
    assert "box_dim" not in made.output


@pytest.mark.parametrize(("values", "words"), [
    (["00"], "128 bytes"), (["xyz"], "128 bytes"), (["--encode", "dtype=bf16"], "needs dims"),
    (["--encode", "dtype=bf16", "dims=64", "box=3"], "multiple of 16"),
    (["--encode", "dtype=bf16", "dims=64", "box=64", "address=8"], "16-byte aligned"),
    (["--encode", "dims"], "no KEY=VALUE"),
])
def test_wrong_descriptors_are_refused(values: list[str], words: str) -> None:
    """Exit 2, and the rule."""
    done = run("descriptor", "tensormap", *values)
    assert done.exit_code == 2
    assert words in done.output + done.stderr


def test_bytes_with_faults_are_explained() -> None:
    """Exit 1: the fields, what is wrong, and bits that nobody knows."""
    good = json.loads(run("descriptor", "tensormap", "--encode", "dtype=u32", "dims=64,64",
                          "strides=256", "box=32,8", "--json").output)["hex"]
    data = bytearray.fromhex(good)
    data[0x37], data[0x0B] = 2, 0x80
    done = run("descriptor", "tensormap", data.hex())
    assert done.exit_code == 1
    assert "12 inner bytes are no multiple of 16" in done.output
    assert "no field is known" in done.output
