"""--arg: every spelling, and what each refuses."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from mmalab.cli.arguments import read_argument, word_type
from mmalab.errors import UsageError


@pytest.mark.parametrize(("name", "dtype"), [
    ("f16", "f2"), ("bf16", "u2"), ("f32", "f4"), ("f64", "f8"), ("tf32", "f4"), ("s8", "i1"),
    ("u8", "u1"), ("s16", "i2"), ("s32", "i4"), ("u32", "u4"), ("s64", "i8"), ("u64", "u8"),
    ("e4m3", "u1"), ("e5m2", "u1"), ("e2m1", "u1"), ("b32", "u4")])
def test_types(name: str, dtype: str) -> None:
    """PTX types are NumPy's where it has them, raw words of the same width otherwise."""
    assert word_type(name) == np.dtype(dtype)


def test_in_is_looked_for_here_then_beside_the_kernel(tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative name means this folder first, the kernel's folder second."""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder, value in ((here, 1), (there, 2)):
        folder.mkdir()
        np.save(folder / "x.npy", np.array([value]))
    np.save(there / "y.npy", np.array([3]))
    monkeypatch.chdir(here)
    assert read_argument("in:x.npy", there).value.tolist() == [1]
    assert read_argument("in:y.npy", there).value.tolist() == [3]
    assert read_argument("in:x.npy", there).output is None


def test_ml_dtypes_files_are_words(tmp_path: Path) -> None:
    """A bf16 or FP8 array saved by NumPy comes back as its words."""
    values = np.array([1.0, -2.0], ml_dtypes.bfloat16)
    np.save(tmp_path / "b.npy", values)
    read = read_argument("in:b.npy", tmp_path).value
    assert read.dtype == np.uint16
    assert read.tobytes() == values.tobytes()


def test_out_is_poisoned_and_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An output starts as all ones and is written under exactly its name."""
    monkeypatch.chdir(tmp_path)
    argument = read_argument("out:2,3:f32:d.out", tmp_path)
    assert argument.value.shape == (2, 3)
    assert np.isnan(argument.value).all()
    argument.value[:] = 7
    argument.save()
    assert np.load("d.out").tolist() == [[7.0] * 3] * 2


def test_inout(tmp_path: Path) -> None:
    """An in-out buffer is read from one file and written to the other; the first stays."""
    np.save(tmp_path / "c.npy", np.arange(3))
    argument = read_argument(f"inout:c.npy:{tmp_path / 'd.npy'}", tmp_path)
    argument.value[:] += 1
    argument.save()
    assert np.load(tmp_path / "c.npy").tolist() == [0, 1, 2]
    assert np.load(tmp_path / "d.npy").tolist() == [1, 2, 3]


@pytest.mark.parametrize(("spec", "raw"), [
    ("s32:-5", b"\xfb\xff\xff\xff"), ("u64:7", b"\x07" + bytes(7)), ("u32:0xff", b"\xff\0\0\0"),
    ("f32:1.5", b"\0\0\xc0\x3f"), ("f16:1.5", b"\0\x3e"), ("bf16:1.5", b"\xc0\x3f"),
    ("e4m3:1.5", b"\x3c"), ("b8:255", b"\xff"), ("f64:1e300", np.float64(1e300).tobytes())])
def test_numbers(spec: str, raw: bytes) -> None:
    """A number has the bytes of its type."""
    assert np.asarray(read_argument(spec, Path()).value).tobytes() == raw


def test_bytes() -> None:
    """bytes:HEX is those bytes."""
    assert read_argument("bytes:00ff10", Path()).value == b"\x00\xff\x10"


@pytest.mark.parametrize("spec", [
    "5", "s32:x", "s32:99999999999", "u8:-1", "f33:1", "out:4:f32", "out:4:f33:x.npy",
    "out:a,4:f32:x.npy", "in:nowhere.npy", "inout:x.npy", "bytes:0", "bytes:xy", "pred:1"])
def test_refusals(spec: str) -> None:
    """What does not follow the grammar is the caller's mistake, named with the spec or file."""
    with pytest.raises(UsageError):
        read_argument(spec, Path())


def test_a_map_alone_names_no_buffer() -> None:
    """tma:N needs the other parameters: tests/cli/test_tensor_map_arguments.py."""
    with pytest.raises(UsageError, match="is no tensor map"):
        read_argument("tma:0:box=64,128:swizzle=128B", Path())


def test_pickles_are_refused(tmp_path: Path) -> None:
    """A .npy file with objects in it is not loaded."""
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(UsageError, match=r"cannot be read as \.npy"):
        read_argument("in:o.npy", tmp_path)
