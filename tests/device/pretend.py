"""The tools that need a GPU, on the emulator in its place: what they write and what they notice."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import mmalab

__all__ = ["pretend", "tool"]

ROOT = Path(__file__).resolve().parents[2]
#: What the device says of itself.
INFO = {"gpu": 0, "name": "pretended", "capability": "9.0", "driver": "0.0", "problems": {}}


def tool(name: str) -> ModuleType:
    """``tools/NAME.py``, a module of its own."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def pretend(patch: pytest.MonkeyPatch, module: ModuleType,
            after: Callable[[Any, list[Any]], object] = lambda kernel, args: None) -> None:
    """`module` finds a device that computes as the emulator does; then `after` may spoil it."""
    def launch(kernel: Any, args: list[Any], **given: Any) -> Any:
        mmalab.emulate(kernel, args, sanitize=False)
        after(kernel, args)
        return SimpleNamespace(compiler="ptxas 0.0", target="sm_90a", device="pretended")

    patch.setattr(mmalab, "launch", launch)
    patch.setattr(mmalab.device, "info", lambda gpu=0: INFO)
    if hasattr(module, "each"):
        patch.setattr(module, "each", lambda task, count, **_: [task(at) for at in range(count)])
