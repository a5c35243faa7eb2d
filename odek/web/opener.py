"""`--open`: leads the system's browser to the URL without its token in an argument (R-125).

Arguments are public on this machine. So the browser gets the name of a file that only the operator can read, and
that leads to the URL; it is removed at the first login, or after a minute.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from odek import process
from odek.errors import ExecutableMissing, StateFileError
from odek.host import Host, trusted_path, which
from odek.secret_names import is_secret_name
from odek.web.private_folder import PrivateFolder

FOLDER = "serve"
WAIT_S = 60.0
_PROGRAMS = ("open",) if sys.platform == "darwin" else ("xdg-open", "wslview", "x-www-browser")
_SUFFIX = ".html"


class Opener:
    """A browser that was sent for."""

    def __init__(
        self,
        host: Host,
        *,
        random_hex: Callable[[int], str],
        clock: Callable[[], float],
        note: Callable[[str], None],
        start: Callable[..., None] = process.start_detached,
        wait_s: float = WAIT_S,
    ) -> None:
        """`clock` is in seconds since the epoch; `note` shows a line to the operator, in any thread."""
        self._host = host
        self._folder = PrivateFolder(host.operator_home, parts=(FOLDER,))
        self._name = f"{random_hex(16)}{_SUFFIX}"
        self._clock = clock
        self._note = note
        self._start = start
        self._timer = threading.Timer(wait_s, self._give_up)
        self._timer.daemon = True

    def open(self, url: str) -> None:
        """Start the browser; that it cannot be had is a note."""
        program = next(filter(None, (which(name, self._host) for name in _PROGRAMS)), None)
        if program is None:
            self._note(f"no browser was opened: there is no {' and no '.join(_PROGRAMS)} on PATH")
            return
        env = {name: value for name, value in self._host.env.items() if not is_secret_name(name)}
        try:
            self._remove_old()
            self._folder.write(self._name, render_redirect(url))
            self._timer.start()
            self._start((program, self._folder.path(self._name)), env={**env, "PATH": trusted_path(self._host)})
        except (StateFileError, ExecutableMissing, OSError) as error:
            self.done()
            self._note(f"no browser was opened: {error}")

    def done(self) -> None:
        """Take the file away: a browser has come, or the server ends."""
        self._timer.cancel()
        with suppress(StateFileError, OSError):
            self._folder.remove(self._name)

    def _give_up(self) -> None:
        self.done()
        self._note("no browser has come within a minute; open the URL yourself")

    def _remove_old(self) -> None:
        """Remove what servers that were killed have left; their tokens are worth nothing any more."""
        for name in self._folder.names():
            with suppress(OSError):
                if name.endswith(_SUFFIX) and self._folder.age_s(name, self._clock()) >= WAIT_S:
                    self._folder.remove(name)


def render_redirect(url: str) -> bytes:
    """Return the page that leads to `url`, which has no characters that HTML would read otherwise. Pure."""
    assert not set("\"'<>&") & set(url)
    return (
        '<!doctype html>\n<meta charset="utf-8">\n<meta name="referrer" content="no-referrer">\n<title>odek</title>\n'
        f'<meta http-equiv="refresh" content="0; url={url}">\n<p><a href="{url}">Continue to odek</a></p>\n'
    ).encode()
