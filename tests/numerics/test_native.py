"""The compiler engine and its cache of object files."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

from mmalab.errors import ToolError
from mmalab.numerics import native

I32 = ctypes.c_int32


def _text(number):
    return f"define i32 @f(i32 %x) {{\n  %y = add i32 %x, {number}\n  ret i32 %y\n}}"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of our own."""
    monkeypatch.setenv("MMALAB_CACHE", str(tmp_path))
    return tmp_path / "objects"


def _objects(folder):
    return sorted(folder.glob("*.o"))


def test_text_becomes_a_callable_once(cache):
    """The same text is compiled once, loaded once, and gives its function and address."""
    before = native.compile_count()
    code = native.load(_text(41001), {"f": (I32, I32)})
    assert code["f"](1) == 41002
    assert native.load(_text(41001), {"f": (I32, I32)}) is code
    assert native.compile_count() == before + 1
    assert len(_objects(cache)) == 1
    assert ctypes.CFUNCTYPE(I32, I32)(code.address("f"))(2) == 41003


def test_a_second_process_compiles_nothing(cache):
    """Another process with the same cache finds the object and runs it."""
    program = (f"import ctypes; from mmalab.numerics import native\n"
               f"i32 = ctypes.c_int32\n"
               f"f = native.load({_text(41010)!r}, {{'f': (i32, i32)}})['f']\n"
               f"print(f(5), native.compile_count())")
    runs = [subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                           check=True, env=os.environ | {"MMALAB_CACHE": str(cache.parent)}).stdout
            for _ in range(2)]
    assert [run.split() for run in runs] == [["41015", "1"], ["41015", "0"]]


@pytest.mark.parametrize("damage", [lambda b: b[:-40], lambda b: b"",
                                    lambda b: b[:50] + bytes([b[50] ^ 1]) + b[51:]])
def test_a_damaged_object_is_rebuilt(cache, damage):
    """A cut, empty or altered entry is noticed and replaced by a sound one."""
    sound = native.object_code(_text(41020))
    (path,) = _objects(cache)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    before = native.compile_count()
    assert native.object_code(_text(41020)) == sound
    assert native.compile_count() == before + 1
    assert path.read_bytes() == whole


def test_an_unusable_cache_is_done_without(tmp_path, monkeypatch):
    """Where no file can be written the code still runs."""
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("MMALAB_CACHE", str(blocked))
    assert native.load(_text(41030), {"f": (I32, I32)})["f"](0) == 41030


def test_other_features_are_other_objects(cache):
    """The processor is part of the key, so AVX2 code never serves as AVX-512 code."""
    native.object_code(_text(41040), cpu="haswell")
    native.object_code(_text(41040), cpu="skylake-avx512")
    assert len(_objects(cache)) == 2


def test_host_functions_are_bound_by_name(cache):
    """A declared function gets its address at load; the object does not hold it."""
    text = ("declare i32 @host(i32)\ndefine i32 @f(i32 %x) {\n  %y = call i32 @host(i32 %x)\n"
            "  ret i32 %y\n}")
    for factor in (3, 7):
        host = ctypes.CFUNCTYPE(I32, I32)(lambda x, factor=factor: x * factor)
        address = ctypes.cast(host, ctypes.c_void_p).value
        assert native.load(text, {"f": (I32, I32)}, {"host": address})["f"](2) == 2 * factor
    assert len(_objects(cache)) == 1


def test_missing_functions_are_named(cache):
    """Code that calls what nobody gave is refused before LLVM ends the process."""
    text = "declare void @nowhere()\ndefine void @f() {\n  call void @nowhere()\n  ret void\n}"
    with pytest.raises(ToolError, match=r"^generated code calls nowhere: no address was given"):
        native.load(text, {"f": (None,)})


def test_wrong_text_shows_what_llvm_said(cache):
    """A type error in the text is a ToolError with LLVM's own words."""
    with pytest.raises(ToolError, match="refused generated code") as error:
        native.load("define i32 @f() {\n  ret i64 0\n}", {"f": (I32,)})
    assert "doesn't match function result type" in str(error.value)
