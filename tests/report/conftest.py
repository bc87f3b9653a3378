"""The report is built once for all of these tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmalab import report
from mmalab.report import Report


@pytest.fixture(scope="session")
def made() -> Report:
    pytest.importorskip("jinja2", reason="jinja2 is not installed: pip install 'mmalab[report]'")
    return report.build()


@pytest.fixture(scope="session")
def page(made: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.write(tmp_path_factory.mktemp("report"))
