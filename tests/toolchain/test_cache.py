"""The cache: whole entries or none, and no cache is no failure."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmalab.toolchain import cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MMALAB_CACHE", str(tmp_path / "entries"))
    return tmp_path / "entries"


def test_entry_comes_back(folder: Path) -> None:
    """What was stored is loaded, byte for byte, and nothing else lies in the folder."""
    content = bytes(range(256)) * 9
    cache.store(cache.digest("a"), content)
    assert cache.load(cache.digest("a")) == content
    assert len([path for path in folder.rglob("*") if path.is_file()]) == 1


def test_missing_entry_is_none(folder: Path) -> None:
    """A key never stored has no entry."""
    assert cache.load(cache.digest("never")) is None


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_damaged_entry_is_dropped(folder: Path, damage: str) -> None:
    """A cut, changed or empty entry is not returned, and is removed so that it is rebuilt."""
    key = cache.digest("x")
    cache.store(key, b"content of some length")
    (path,) = (p for p in folder.rglob("*") if p.is_file())
    raw = path.read_bytes()
    flipped = raw[:-1] + bytes([raw[-1] ^ 1])
    path.write_bytes({"cut": raw[:-3], "flip": flipped, "empty": b""}[damage])
    assert cache.load(key) is None
    assert not path.exists()


def test_read_only_home_falls_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the home folder cannot be written, entries go to a private temporary folder."""
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    home.mkdir()
    temporary.mkdir()
    (home / ".cache").write_text("a file where a folder should be")
    monkeypatch.delenv("MMALAB_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(cache.tempfile, "gettempdir", lambda: str(temporary))
    found = cache.cache_folder()
    assert found is not None
    assert found.parent == temporary
    assert found.stat().st_mode & 0o077 == 0
    cache.store(cache.digest("y"), b"kept")
    assert cache.load(cache.digest("y")) == b"kept"


def test_temporary_folder_of_another_is_not_used(tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """A link planted at the fallback's name is refused: cubins must not come from strangers."""
    (tmp_path / "elsewhere").mkdir()
    planted = tmp_path / f"mmalab-cache-{os.getuid()}"
    planted.symlink_to(tmp_path / "elsewhere")
    assert cache._private(planted) is None


def test_no_cache_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty MMALAB_CACHE keeps nothing and fails nothing."""
    monkeypatch.setenv("MMALAB_CACHE", "")
    cache.store(cache.digest("z"), b"lost")
    assert cache.load(cache.digest("z")) is None


@given(st.lists(st.text(max_size=4), max_size=4), st.lists(st.text(max_size=4), max_size=4))
def test_different_parts_different_keys(one: list[str], other: list[str]) -> None:
    """Two lists of parts share a key only if they are equal, however the text is cut."""
    assert (cache.digest(*one) == cache.digest(*other)) == (one == other)
