"""The command line in-process."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from mmalab.cli.main import app


class Answer:
    """What one command printed, and its exit code."""

    def __init__(self, words: tuple[str, ...]) -> None:
        result = CliRunner().invoke(app, list(words), prog_name="mmalab")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        self.code, self.out, self.err = result.exit_code, result.stdout, result.stderr

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def mmalab() -> Callable[..., Answer]:
    """Call a verb: ``mmalab("legal", "add.f32").code``."""
    return lambda *words: Answer(tuple(map(str, words)))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MMALAB_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
