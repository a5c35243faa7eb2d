"""A small driver for headless Chromium over its DevTools protocol, on a pair of pipes: one JSON message, one NUL."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless=new --remote-debugging-pipe --no-first-run --no-default-browser-check --disable-gpu "
    "--disable-dev-shm-usage --disable-extensions --disable-background-networking --disable-component-update "
    "--disable-sync --hide-scrollbars --force-color-profile=srgb --font-render-hinting=none "
    "--no-proxy-server --js-flags=--expose-gc"
).split()
_ANSWER_S = 60


class DevToolsError(Exception):
    """The browser refused a command, a script threw, or what was waited for did not come."""


def find_chromium() -> str | None:
    """Return the path of an installed Chromium."""
    return next((path for name in CHROMIUM if (path := shutil.which(name))), None)


class Browser:
    """A running Chromium with a profile of its own; `close` ends it and removes the profile."""

    def __init__(self, binary: str) -> None:
        self._profile = tempfile.mkdtemp(prefix="odek-chromium-")
        for_child, self._out = os.pipe()
        self._in, from_child = os.pipe()
        flags = [*_FLAGS, f"--user-data-dir={self._profile}"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")
        high = (os.dup(for_child), os.dup(from_child))  # so that none of them is 3 or 4 itself when they are moved
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),
            (os.POSIX_SPAWN_DUP2, max(high[0], for_child), 3),
            (os.POSIX_SPAWN_DUP2, max(high[1], from_child), 4),
        ]
        environment = {**os.environ, "HOME": self._profile, "XDG_CONFIG_HOME": self._profile}
        self.pid = os.posix_spawn(binary, [binary, *flags], environment, file_actions=actions, setpgroup=0)
        for descriptor in (*high, for_child, from_child):
            os.close(descriptor)
        self._changed = threading.Condition()
        self._answers: dict[int, dict[str, Any]] = {}
        self._pages: dict[str, Page] = {}
        self._number = 0
        self._gone = False
        threading.Thread(target=self._read, daemon=True).start()

    def send(self, method: str, session: str | None = None, /, **parameters: Any) -> dict[str, Any]:
        """Return what `method` answers. Raises DevToolsError."""
        with self._changed:
            self._number += 1
            number = self._number
            message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
            if session:
                message["sessionId"] = session
            os.write(self._out, json.dumps(message).encode() + b"\0")
            if not self._changed.wait_for(lambda: number in self._answers or self._gone, timeout=_ANSWER_S):
                raise DevToolsError(f"{method}: no answer")
            answer = self._answers.pop(number, {"error": {"message": "the browser is gone"}})
        if "error" in answer:
            raise DevToolsError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def new_page(self, url: str = "about:blank", *, width: int = 1280, height: int = 800, dark: bool = False) -> Page:
        """Return a tab of a browser context of its own, so with its own cookies and storage."""
        context = self.send("Target.createBrowserContext")["browserContextId"]
        return self.new_tab(url, context=context, width=width, height=height, dark=dark)

    def new_tab(
        self, url: str = "about:blank", *, context: str, width: int = 1280, height: int = 800, dark: bool = False
    ) -> Page:
        """Return another tab of a context: it shares cookies and storage with the others."""
        target = self.send("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, target, context)
        self._pages[session] = page
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.send(f"{domain}.enable")
        page.emulate(width=width, height=height, dark=dark)
        if url != "about:blank":
            page.open(url)
        return page

    def close(self) -> None:
        """End the browser and remove its profile."""
        with contextlib.suppress(DevToolsError, OSError):
            self.send("Browser.close")
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                break
            time.sleep(0.02)
        else:
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        with contextlib.suppress(OSError):
            os.close(self._out)
        shutil.rmtree(self._profile, ignore_errors=True)

    def _read(self) -> None:
        rest = b""
        with contextlib.suppress(OSError):
            while piece := os.read(self._in, 1 << 20):
                *messages, rest = (rest + piece).split(b"\0")
                for message in messages:
                    self._take(json.loads(message))
        with self._changed:
            self._gone = True
            self._changed.notify_all()
        os.close(self._in)

    def _take(self, message: dict[str, Any]) -> None:
        with self._changed:
            if "id" in message:
                self._answers[message["id"]] = message
            elif page := self._pages.get(message.get("sessionId", "")):
                page.events.append((message["method"], message["params"]))
            self._changed.notify_all()


class Page:
    """One tab."""

    def __init__(self, browser: Browser, session: str, target: str, context: str) -> None:
        self.browser = browser
        self.session = session
        self.target = target
        self.context = context
        self.events: list[tuple[str, dict[str, Any]]] = []

    def send(self, method: str, /, **parameters: Any) -> dict[str, Any]:
        """Return what `method` answers."""
        return self.browser.send(method, self.session, **parameters)

    def emulate(self, *, width: int, height: int, dark: bool = False) -> None:
        """Set the size of the window and the theme that it asks for."""
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.send("Emulation.setEmulatedMedia", features=features)

    def open(self, url: str) -> None:
        """Go to `url` and wait until it has loaded."""
        seen = len(self.events)
        answer = self.send("Page.navigate", url=url)
        if answer.get("errorText"):
            raise DevToolsError(f"{url}: {answer['errorText']}")
        if "loaderId" in answer:
            self._wait(
                lambda: any(method == "Page.loadEventFired" for method, _ in self.events[seen:]), f"{url} to load"
            )

    def reload(self) -> None:
        """Load the page again and wait until it has loaded."""
        seen = len(self.events)
        self.send("Page.reload")
        self._wait(lambda: any(method == "Page.loadEventFired" for method, _ in self.events[seen:]), "a reload")

    def evaluate(self, script: str, *, timeout_s: float = 30) -> Any:
        """Return the value of an expression, of its promise if it is one. Raises DevToolsError for what it throws."""
        answer = self.send(
            "Runtime.evaluate",
            expression=script,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
            timeout=round(timeout_s * 1000),
        )
        if details := answer.get("exceptionDetails"):
            raise DevToolsError(f"{details.get('exception', {}).get('description', details['text'])} in {script[:200]}")
        return answer["result"].get("value")

    def wait_for(self, condition: str, *, timeout_s: float = 20) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + timeout_s
        while not self.evaluate(f"Boolean({condition})"):
            if time.monotonic() > deadline:
                shown = self.evaluate("document.body?.innerText.slice(0, 1500)")
                raise DevToolsError(f"not true within {timeout_s} s: {condition}\nthe page shows: {shown}")
            time.sleep(0.03)

    def text(self, selector: str = "body") -> str:
        """Return what an element shows as text."""
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def click(self, selector: str, *, count: int = 1) -> None:
        """Click with the mouse on the middle of an element, as a person would; `count` 2 is a double click."""
        box = self.evaluate(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)});"
            " one.scrollIntoView({block: 'nearest'}); const {x, y, width, height} = one.getBoundingClientRect();"
            " return {x: x + width / 2, y: y + height / 2}; })()"
        )
        for press in range(1, count + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self.send(
                    "Input.dispatchMouseEvent", type=kind, x=box["x"], y=box["y"], button="left", clickCount=press
                )

    def type(self, text: str) -> None:
        """Put text in where the focus is."""
        self.send("Input.insertText", text=text)

    def key(self, name: str, *, modifiers: int = 0, code: int = 0, text: str = "") -> None:
        """Press a key; modifiers: 1 Alt, 2 Ctrl, 8 Shift."""
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, " ": 32, "ArrowDown": 40, "ArrowUp": 38, "ArrowRight": 39}
        codes |= {"Backspace": 8}
        parameters: dict[str, Any] = {
            "key": name,
            "modifiers": modifiers,
            "windowsVirtualKeyCode": code or codes.get(name) or ord(name[0].upper()),
        }
        text = text or ("\r" if name == "Enter" else name if len(name) == 1 and not modifiers & 3 else "")
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **parameters)
        self.send("Input.dispatchKeyEvent", type="keyUp", **parameters)

    def screenshot(self, path: Path) -> bytes:
        """Write what the window shows to `path` as PNG, and return it."""
        data = base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])
        path.write_bytes(data)
        return data

    def problems(self) -> list[str]:
        """Return errors of the console, exceptions and violations of the content policy so far."""
        return list(self._problems())

    def requested(self) -> list[str]:
        """Return the addresses of all requests so far."""
        return [event["request"]["url"] for method, event in self.events if method == "Network.requestWillBeSent"]

    def _problems(self) -> Iterator[str]:
        for method, event in list(self.events):
            if method == "Runtime.exceptionThrown":
                details = event["exceptionDetails"]
                yield str(details.get("exception", {}).get("description", details["text"]))
            elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "assert"):
                yield " ".join(str(one.get("value", one.get("description"))) for one in event["args"])
            elif method == "Log.entryAdded" and event["entry"]["level"] == "error":
                yield f"{event['entry']['text']} {event['entry'].get('url', '')}"

    def close(self) -> None:
        """Close the tab."""
        self.browser.send("Target.closeTarget", targetId=self.target)

    def _wait(self, condition: Any, what: str) -> None:
        with self.browser._changed:
            if not self.browser._changed.wait_for(condition, timeout=_ANSWER_S):
                raise DevToolsError(f"waited in vain for {what}")
