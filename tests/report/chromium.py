"""A headless Chromium driven over its debugging pipe: load a page, evaluate, point, photograph.

The protocol is JSON between two pipes, each message ended by a zero byte: no port is opened and no
library is needed. Whatever the page logs, throws or asks the network for is kept.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

__all__ = ["Chromium", "find_chromium"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
          "--disable-background-networking", "--disable-component-update", "--disable-sync",
          "--hide-scrollbars", "--remote-debugging-pipe", "--disable-dev-shm-usage")
_DEADLINE = 60.0


def find_chromium() -> str | None:
    """The browser's path, None where it is not installed."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


def _high(number: int) -> int:
    """The same file at a number from 10 on: the browser's own are 3 and 4."""
    copy = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(number)
    return copy


class Chromium:
    """One browser with one page. `logs` are console errors and exceptions, `requests` addresses."""

    def __init__(self, path: str) -> None:
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self._to = map(_high, os.pipe())
        self._from, from_write = map(_high, os.pipe())
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{to_read} 4>&{from_write}', "bash", path, *_FLAGS,
             f"--user-data-dir={self._folder.name}", "about:blank"],
            pass_fds=(to_read, from_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        self._number, self._rest = 0, b""
        self.logs: list[str] = []
        self.requests: list[str] = []
        self._loaded = False
        self._session = ""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        self._folder.cleanup()

    # --- what a test does -------------------------------------------------------------------------

    def open(self, page: Path, *, width: int = 1280, height: int = 900, dark: bool = False,
             touch: bool = False) -> None:
        """Load a file at a size and in a colour scheme."""
        self.logs.clear()
        self.requests.clear()
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                   deviceScaleFactor=1, mobile=touch)
        self._call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self._loaded = False
        self._call("Page.navigate", url=page.resolve().as_uri())
        self._until(lambda: self._loaded)

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self._call("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def point(self, selector: str, x: float = 0.5, y: float = 0.5, *, click: bool = False) -> None:
        """Move the mouse to a place inside an element (shares of its box), and click there.

        Two frames pass between scrolling there and asking where it is: the first paints the page
        as it then stands.
        """
        at = self.evaluate(
            "(async () => { const e = document.querySelector(" + json.dumps(selector) + ");"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame);"
            "const b = e.getBoundingClientRect();"
            f"return [b.left + {x} * b.width, b.top + {y} * b.height]; }})()")
        where = {"x": at[0], "y": at[1]}
        self._call("Input.dispatchMouseEvent", type="mouseMoved", **where)
        if click:
            for kind in ("mousePressed", "mouseReleased"):
                self._call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1,
                           **where)

    def key(self, name: str) -> None:
        """Press a named key (ArrowRight, Enter ...)."""
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=name, code=name)

    def photograph(self, path: Path, *, whole: bool = False) -> None:
        """Write a PNG of the window, or of the whole page."""
        shot = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    # --- the protocol -----------------------------------------------------------------------------

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        number, answer = self._number, {}
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")

        def came(found: dict[str, Any]) -> None:
            if found.get("id") == number:
                answer.update(found)

        self._until(lambda: bool(answer), came)
        assert "error" not in answer, (method, answer["error"])
        return dict(answer["result"])

    def _until(self, done: Callable[[], bool],
               look: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
        end = time.monotonic() + _DEADLINE
        while not done():
            while b"\0" not in self._rest:
                left = end - time.monotonic()
                assert left > 0, "no answer in time"
                assert select.select([self._from], [], [], left)[0], "no answer in time"
                more = os.read(self._from, 1 << 16)
                assert more, "the browser has gone"
                self._rest += more
            text, _, self._rest = self._rest.partition(b"\0")
            message = json.loads(text)
            self._note(message)
            look(message)

    def _note(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            self.logs.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in {"error", "warning"}:
            self.logs.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in {"error", "warning"}:
            self.logs.append(str(params["entry"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
