"""Lets the tests of this folder import `duel`, the emulator tests' helpers and the litmus set."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "litmus"))
