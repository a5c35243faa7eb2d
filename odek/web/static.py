"""The page's files, as they are packaged: served to anyone who names this server, for they hold nothing (R-128)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import partial

from odek.packaged import read_packaged
from odek.web.errors import Refused
from odek.web.request import Head
from odek.web.response import Response

FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/render.js": ("render.js", "text/javascript; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
"""path → file, type"""
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_POLICY = ("Content-Security-Policy", CONTENT_SECURITY_POLICY)
# One that another program left on this origin asks for its script again now and then, and takes what it gets (P-6).
_SELF_REMOVING_WORKER = b"""\
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil((async () => {
  await self.registration.unregister();
  for (const page of await self.clients.matchAll({ type: "window" })) page.navigate(page.url);
})()));
"""


class PageFiles:
    """The files of the page, each read when it is asked for the first time."""

    def __init__(self, read: Callable[[str], bytes] | None = None) -> None:
        """`read` returns a file by its path in this package. Raises OSError when it is not there."""
        self._read_file = read or partial(read_packaged, "odek.web")
        self._known: dict[str, tuple[bytes, str]] = {}

    def answer(self, path: str, head: Head) -> Response:
        """Return the file at `path`, one of FILES, or that the client has it already. Raises Refused."""
        name, content_type = FILES[path]
        data, tag = self._known.get(name) or self._load(name)
        headers = (("ETag", tag), _POLICY)
        given = [each.strip().removeprefix("W/") for each in head.get("if-none-match").split(",")]
        if tag in given or given == ["*"]:
            return Response(status=304, headers=headers, cache="no-cache")
        return Response(body=data, content_type=content_type, headers=headers, cache="no-cache")

    def _load(self, name: str) -> tuple[bytes, str]:
        try:
            data = self._read_file(os.path.join("page", name))
        except OSError as error:
            raise Refused(404, "not_found", "there is no such file") from error
        self._known[name] = data, f'"{hashlib.sha256(data).hexdigest()[:32]}"'
        return self._known[name]


def self_removing_worker() -> Response:
    """Return the script of a service worker that unregisters itself."""
    return Response(body=_SELF_REMOVING_WORKER, content_type="text/javascript; charset=utf-8", headers=(_POLICY,))
