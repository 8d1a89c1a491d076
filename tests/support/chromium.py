"""A headless Chromium, spoken to in the DevTools protocol over two pipes: it needs no driver and no library."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any

PATIENCE = 60.0


class Chromium:
    """A browser with one page. `said` is what its console shows, `requests` the URLs that the page asked for."""

    def __init__(self, program: str, folder: Path) -> None:
        self.said: list[str] = []
        self.requests: list[str] = []
        self._ids = itertools.count(1)
        self._buffer = b""
        self._loaded = False
        for_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe")
        # The browser reads descriptor 3 and writes 4, so a shell moves ours there.
        shell = f'exec "$@" 3<&{for_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "bash", program, *options, f"--user-data-dir={folder}", "about:blank"],
            pass_fds=(for_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(for_browser)
        os.close(from_browser)
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(PATIENCE)
        os.close(self._write)
        os.close(self._read)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result; what happens meanwhile is noted."""
        message = {"id": next(self._ids), "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            got = self._next()
            if got.get("id") == message["id"]:
                assert "error" not in got, got
                return dict(got["result"])

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            assert select.select([self._read], [], [], deadline - time.monotonic())[0], "the browser does not answer"
            data = os.read(self._read, 1 << 20)
            assert data, "the browser has ended"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method: str | None, event: dict[str, Any]) -> None:
        match method:
            case "Runtime.consoleAPICalled":
                self.said.append(str([arg.get("value", arg.get("description")) for arg in event["args"]]))
            case "Runtime.exceptionThrown":
                self.said.append(str(event["exceptionDetails"]))
            case "Log.entryAdded":
                self.said.append(event["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(event["request"]["url"])
            case "Page.javascriptDialogOpening":
                self.said.append(f"dialog: {event['message']}")
            case "Page.loadEventFired":
                self._loaded = True

    def open(self, url: str) -> float:
        """Open a page; return the seconds until it was loaded."""
        self._loaded = False
        start = time.monotonic()
        self.call("Page.navigate", url=url)
        while not self._loaded:
            self._next()
        return time.monotonic() - start

    def look(self, width: int, height: int = 900, *, dark: bool = False, phone: bool = False) -> None:
        """Set the size of the window, and the colours that the user prefers."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def ask(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        got = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in got, got
        return got["result"].get("value")

    def click(self, selector: str) -> None:
        """Click on an element as a user does."""
        place = f"document.querySelector({json.dumps(selector)})"
        self.ask(f"{place}.scrollIntoView({{block: 'center'}})")
        box = self.ask(f"(box => [box.x + box.width / 2, box.y + box.height / 2])({place}.getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def type(self, selector: str, text: str) -> None:
        """Write into a field in place of what it holds."""
        self.ask(f"document.querySelector({json.dumps(selector)}).select()")
        self.ask(f"document.querySelector({json.dumps(selector)}).focus()")
        self.call("Input.insertText", text=text)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Write what is seen as a PNG, the whole page or the window."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
