"""A request that is at work before its reply is asked for."""

from __future__ import annotations

import queue
from collections.abc import Callable
from threading import Thread

from odek.cancel import POLL_S, CancelToken, current_token, use_token
from odek.errors import Cancelled
from odek.model.types import Reply, Usage

OnText = Callable[[str], None]
_ENDS_WITHIN_S = 2.0  # a cancel ends every wait of a request within a fraction of a second


class RequestAhead:
    """One attempt of a request, in a thread of its own; what comes of it is kept until it is asked for."""

    def __init__(self, body: bytes, attempt: Callable[[OnText], Reply]) -> None:
        """Begin; `body` is what is sent, `attempt` sends it and returns the reply, or raises."""
        self.body = body
        self.usage: Usage | None = None
        """of its reply, or nothing when it failed; None as long as that is not known"""
        self._attempt = attempt
        self._token = CancelToken()
        self._arrived: queue.SimpleQueue[str | Reply | Exception] = queue.SimpleQueue()
        self._thread = Thread(target=self._work, name="request", daemon=True)
        self._thread.start()

    def reply(self, on_text: OnText) -> Reply:
        """Return the reply, its text to `on_text` as it arrives. Raises what the attempt has raised, or a cancel."""
        token = current_token()
        while True:
            token.raise_if_cancelled()
            try:
                piece = self._arrived.get(timeout=POLL_S)
            except queue.Empty:
                continue
            if isinstance(piece, str):
                on_text(piece)
            elif isinstance(piece, Exception):
                raise piece
            else:
                return piece

    def close(self) -> None:
        """Cut the request off, if it is still at work."""
        self._token.cancel()
        self._thread.join(_ENDS_WITHIN_S)  # an interpreter must not end while a thread may import

    def _work(self) -> None:
        with use_token(self._token):
            try:
                reply = self._attempt(self._arrived.put)
                self.usage = reply.usage
                self._arrived.put(reply)
            except Cancelled:  # by `close`
                pass
            except Exception as error:  # raised again in the thread that asks for the reply, if one does
                self.usage = Usage()
                self._arrived.put(error)
