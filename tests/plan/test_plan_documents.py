"""The examples in the planners' own documents are run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import mmalab.plan

MODULES = [f"mmalab.plan.{info.name}" for info in pkgutil.iter_modules(mmalab.plan.__path__)]


@pytest.mark.parametrize("name", [*MODULES, "mmalab.isa.tensor_memory"])
def test_examples(name: str) -> None:
    """Every ``>>>`` gives what stands below it."""
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0
