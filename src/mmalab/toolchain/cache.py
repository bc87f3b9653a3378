"""Results of external tools, kept by content.

The key is a digest of everything that the result depends on (text, options, the tool itself), so
an entry is never stale. Entries are written to a side file and renamed, so a reader sees a whole
entry or none; each carries the digest of its own bytes, so a damaged one is rebuilt. A cache that
cannot be written is no error: the work is done again.

The folder is ``MMALAB_CACHE``, else ``XDG_CACHE_HOME/mmalab``, else ``~/.cache/mmalab``, else (a
read-only home) a private folder among the temporary files. ``MMALAB_CACHE=`` (empty) keeps nothing.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

__all__ = ["cache_folder", "digest", "load", "store"]

#: Changes when the meaning of an entry does.
_SCHEMA = "mmalab toolchain 1"
_HEAD = 32


def digest(*parts: str | bytes) -> str:
    """Name the content. Parts carry their lengths, so ``"ab", "c"`` is not ``"a", "bc"``."""
    state = hashlib.sha256(_SCHEMA.encode())
    for part in parts:
        raw = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        state.update(len(raw).to_bytes(8, "little"))
        state.update(raw)
    return state.hexdigest()


def cache_folder() -> Path | None:
    """The folder for entries, made if need be; None where nothing is to be kept."""
    named = os.environ.get("MMALAB_CACHE")
    if named is not None:
        return _usable(Path(named).expanduser()) if named else None
    home = os.environ.get("XDG_CACHE_HOME")
    with suppress(RuntimeError):  # no home directory at all
        base = Path(home) if home else Path.home() / ".cache"
        if (found := _usable(base / "mmalab")) is not None:
            return found
    return _private(Path(tempfile.gettempdir()) / f"mmalab-cache-{os.getuid()}")


def load(key: str) -> bytes | None:
    """The entry under `key`; None if there is none, or it is damaged (it is then removed)."""
    folder = cache_folder()
    if folder is None:
        return None
    path = _path(folder, key)
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    head, content = raw[:_HEAD], raw[_HEAD:]
    if hashlib.sha256(content).digest() != head:
        with suppress(OSError):
            path.unlink()
        return None
    return content


def store(key: str, content: bytes) -> None:
    """Keep `content` under `key`, if the folder can be written."""
    folder = cache_folder()
    if folder is None:
        return
    path = _path(folder, key)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, side = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            Path(side).replace(path)
        except OSError:
            Path(side).unlink(missing_ok=True)
            raise


def _path(folder: Path, key: str) -> Path:
    return folder / "toolchain" / key[:2] / key[2:]


def _usable(folder: Path) -> Path | None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None


def _private(folder: Path) -> Path | None:
    """Others can write among the temporary files: only a folder that is ours alone will do."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        state = folder.lstat()
    except OSError:
        return None
    ours = state.st_uid == os.getuid() and not state.st_mode & 0o022 and not folder.is_symlink()
    return folder if ours else None
