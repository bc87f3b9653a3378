"""The command line in-process, in a folder that holds the cases' files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mmalab.cli.main import app

_FILES = Path(__file__).parent / "ptx"


class Said:
    """What one command printed, and its exit code."""

    def __init__(self, words: tuple[str, ...]) -> None:
        result = CliRunner().invoke(app, list(words))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        self.code = result.exit_code
        self.text = " ".join((result.stdout + result.stderr).split())
        self._out = result.stdout

    @property
    def json(self) -> Any:
        return json.loads(self._out)


@pytest.fixture(scope="session")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cases")
    for file in _FILES.iterdir():
        shutil.copy(file, place)
    return place


@pytest.fixture
def ask(_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Said]:
    """Give one command, as typed beside the cases' files: ``ask("legal", "add.f32").code``."""
    monkeypatch.chdir(_folder)
    monkeypatch.setenv("MMALAB_CACHE", str(_folder / "cache"))
    return lambda *words: Said(tuple(map(str, words)))
