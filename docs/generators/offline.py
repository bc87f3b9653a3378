"""The site needs no network: what a page would fetch from elsewhere."""

from __future__ import annotations

import re

__all__ = ["fetched"]

#: Elements that load what they name; a link to elsewhere is followed by a person, not by the page.
_LOADS = re.compile(
    r"<(?:script|img|link|iframe|source)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]+)")


def fetched(html: str) -> list[str]:
    """Addresses outside the site that the page loads by itself."""
    return _LOADS.findall(html)
