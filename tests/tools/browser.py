"""A headless Chromium, driven over a pipe: no driver and no library is needed."""

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
]


def chromium() -> str | None:
    """The path of a Chromium or Chrome that is installed."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next(filter(None, map(shutil.which, names)), None)


class Page:
    """One page of a browser of its own.

    Args:
        file: what to open.
        width, height: of the window, in pixels.
        profile: an empty directory.
    """

    def __init__(self, file: Path, width: int, height: int, profile: Path) -> None:
        (theirs_in, self._out), (self._in, theirs_out) = os.pipe(), os.pipe()

        def as_they_expect() -> None:  # they read from 3 and write to 4
            first, second = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self._number, self._rest = 0, b""
        self._process = subprocess.Popen(
            [chromium() or "chromium", *FLAGS, f"--user-data-dir={profile}"],
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=as_they_expect,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._session = None
        made = self.ask("Target.createTarget", url="about:blank")
        found = self.ask(
            "Target.attachToTarget", targetId=made["targetId"], flatten=True
        )
        self._session = found["sessionId"]
        self.ask("Runtime.enable")
        self.ask("Page.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1}
        self.ask("Emulation.setDeviceMetricsOverride", mobile=width < 600, **size)
        self.events: list[dict[str, Any]] = []
        self.ask("Page.navigate", url=file.resolve().as_uri())
        while not any(e["method"] == "Page.loadEventFired" for e in self.events):
            self._read()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends one command and waits for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            found = self._read()
            if found.get("id") == self._number:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']}")
                return dict(found["result"])

    def _read(self) -> dict[str, Any]:
        """The next message; events are kept."""
        while b"\0" not in self._rest:
            piece = os.read(self._in, 1 << 16)
            if not piece:
                raise RuntimeError("the browser has ended")
            self._rest += piece
        text, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        if "method" in found and hasattr(self, "events"):
            self.events.append(found)
        return found

    def value(self, expression: str) -> Any:
        """The value of a line of JavaScript."""
        how = {"expression": expression, "returnByValue": True}
        found = self.ask("Runtime.evaluate", **how)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"])
        return found["result"].get("value")

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """Moves, presses, releases or turns the wheel."""
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def screenshot(self, file: Path) -> None:
        """Writes what is to be seen."""
        shot = self.ask("Page.captureScreenshot", format="png")
        file.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        """Ends the browser."""
        os.close(self._out)
        os.close(self._in)
        self._process.terminate()
        self._process.wait(timeout=20)
