"""Finding tools: side by side, by version, and words for what is missing."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from mmalab.errors import ToolError, UsageError
from mmalab.toolchain import locate


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A machine with no wheels and no toolkits but those that the test installs."""
    monkeypatch.setattr(locate, "_roots", lambda: iter([(tmp_path / "home", "CUDA_HOME")]))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    locate.forget()
    yield tmp_path
    locate.forget()


def install(folder: Path, name: str, version: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release x, V{version}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_newest_is_default(machine: Path) -> None:
    """Of several versions the newest is found, wherever it lies."""
    install(machine / "home" / "bin", "ptxas", "12.9.86")
    newest = install(machine / "path", "ptxas", "13.10.2")
    assert locate.find("ptxas").path == newest
    assert locate.find("ptxas").version == (13, 10, 2)
    assert [tool.toolkit for tool in locate.tools("ptxas")] == ["13.10", "12.9"]


def test_toolkit_selects_a_release(machine: Path) -> None:
    """"12.9", "12", "12.x" and "12.9.86" name the same tool; "12.1" does not mean 12.10."""
    install(machine / "home" / "bin", "ptxas", "12.10.1")
    for asked in ("12", "12.x", "12.10", "12.10.x", "12.10.1"):
        assert str(locate.find("ptxas", asked)) == "12.10.1"
    with pytest.raises(ToolError) as caught:
        locate.find("ptxas", "12.1")
    assert str(caught.value) == ("ptxas of toolkit 12.1: is not installed\n"
                                 "  legal: 12.10\n  see:   mmalab doctor")


def test_missing_tool_says_what_to_install(machine: Path) -> None:
    """A missing tool is a ToolError with the command that installs it."""
    with pytest.raises(ToolError, match=r"pip install 'mmalab\[toolchain\]'"):
        locate.find("nvdisasm")
    assert locate.tools("nvdisasm") == ()


def test_unknown_tool_is_named(machine: Path) -> None:
    """A name that is no tool is the caller's mistake, with the legal names."""
    with pytest.raises(UsageError, match="ptxas, nvdisasm"):
        locate.find("ptxass")


def test_broken_tool_is_passed_over(machine: Path) -> None:
    """A program that does not say its version is not offered."""
    path = install(machine / "home" / "bin", "ptxas", "12.9.86")
    path.write_text("#!/bin/sh\nexit 1\n")
    assert locate.tools("ptxas") == ()


def test_same_file_twice_is_one_tool(machine: Path) -> None:
    """A link on PATH to a tool already found adds nothing."""
    path = install(machine / "home" / "bin", "ptxas", "12.9.86")
    (machine / "path").mkdir()
    (machine / "path" / "ptxas").symlink_to(path)
    assert len(locate.tools("ptxas")) == 1


def test_identity_follows_the_file(machine: Path) -> None:
    """A tool replaced by another build of the same version has another cache key."""
    path = install(machine / "home" / "bin", "ptxas", "12.9.86")
    before = locate.find("ptxas").identity
    path.write_text(path.read_text() + "# another build\n")
    assert locate.find("ptxas").identity != before


@pytest.mark.toolkit
def test_both_pinned_assemblers_are_found() -> None:
    """The toolchain extra brings 12.9 and 13.5, and each knows its chips and its PTX version."""
    old, new = locate.find("ptxas", "12.9"), locate.find("ptxas", "13.5")
    assert locate.supported_ptx(old) == (8, 8)
    assert locate.supported_ptx(new) == (9, 5)
    assert {"sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"} <= set(locate.supported_targets(old))
    assert "sm_107a" in locate.supported_targets(new)
    assert "sm_107a" not in locate.supported_targets(old)
