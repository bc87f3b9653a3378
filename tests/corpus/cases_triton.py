"""The cases of the Triton sources."""

from __future__ import annotations

from typing import Any

__all__ = ["CASES"]

CASES: list[dict[str, Any]] = []
