"""One server of `odek serve`: what a login begins."""

from __future__ import annotations

from typing import Any

from odek.cli.serving import _Serving
from odek.demo.recording import TASK
from odek.web.errors import Refused


class _Noted:
    """Stands for the sessions, the opener and the console; the first task is refused."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def create(self, text: str, *_: object) -> None:
        self.calls.append(text)
        if len(self.calls) == 1:
            raise Refused(503, "sandbox", "Docker does not answer")

    def done(self) -> None:
        pass

    def note(self, text: str) -> None:
        self.calls.append(text)


def test_demo_is_begun_once_however_late_the_next_browser_comes() -> None:
    """R-125: a second run would find the project changed, and fail; one that was refused is tried again."""
    noted: Any = _Noted()
    serving = _Serving(config=noted, host=noted, runtime=noted, console=noted, opens=False, is_demo=True)
    on_login = serving._on_login(noted, noted)
    for _ in range(4):
        on_login()
    assert noted.calls == [TASK, "Docker does not answer", TASK]
