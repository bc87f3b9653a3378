"""The examples in the modules' own documents are run, of packages whose examples need neither a GPU
nor an assembler."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import mmalab

PACKAGES = ("checker", "descriptors", "formats", "isa", "kernels", "layouts", "numerics", "plan",
            "tensormap")
#: All their modules, found without importing any.
MODULES = sorted(
    "mmalab." + ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    for root in map(Path, mmalab.__path__) for package in PACKAGES
    for path in (root / package).rglob("*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    """Every ``>>>`` gives what stands below it."""
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_examples_are_found() -> None:
    """Each package has some."""
    for package in PACKAGES:
        names = [name for name in MODULES if name.split(".")[1] == package]
        finder = doctest.DocTestFinder()
        assert any(test.examples for name in names
                   for test in finder.find(importlib.import_module(name)))
