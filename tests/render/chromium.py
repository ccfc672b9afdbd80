"""A headless Chromium over its debugging pipe: what a page logs, what it asks the network for, what is laid out.

Two file descriptors, 3 to write and 4 to read, and JSON messages that end in a zero byte: no driver to install.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
_FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions", "--disable-sync",
    "--disable-background-networking", "--remote-debugging-pipe",
]  # fmt: skip


class Page:
    """One page: `events` are the messages that Chromium sent by itself."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back, self._rest, self._id = to, back, b"", 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._id += 1
        message = {"id": self._id, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._id:
            self.events.append(answer)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def open(self, url: str) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Network", "Page"):
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def value(self, expression: str) -> Any:
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def screen(self, width: int, *, dark: bool) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def complaints(self) -> list[Any]:
        wrong = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event["params"] for event in self.events if event.get("method") in wrong]

    def requests(self) -> list[str]:
        asked = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in asked]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            read = os.read(self._back, 1 << 16)
            assert read, "Chromium went away"
            self._rest += read
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)


@contextmanager
def page(url: str, profile: str) -> Iterator[Page]:
    """Open a URL; Chromium is ended after a minute, whatever it waits for."""
    assert BROWSER is not None
    to_read, to = os.pipe()
    back, back_write = os.pipe()
    shift = f'exec {BROWSER} {" ".join(_FLAGS)} --user-data-dir="{profile}" 3<&{to_read} 4>&{back_write}'
    with subprocess.Popen(
        ["bash", "-c", shift], pass_fds=(to_read, back_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as browser:
        os.close(to_read)
        os.close(back_write)
        limit = threading.Timer(60, browser.kill)
        limit.start()
        try:
            found = Page(to, back)
            found.open(url)
            yield found
        finally:
            limit.cancel()
            browser.kill()
            os.close(to)
            os.close(back)
