"""The body of an answer as the server meant it: compression undone, size bounded (B43 d)."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from odek.model.errors import ModelProtocolError
from odek.text import clip, visible

_PIECE_BYTES = 1 << 16
_ZLIB_WINDOW = zlib.MAX_WBITS
_GZIP_WINDOW = zlib.MAX_WBITS | 16
_RAW_WINDOW = -zlib.MAX_WBITS
_DEFLATE_METHOD = 8


class BodyDecoder:
    """Undoes a Content-Encoding piece by piece, never more than `limit_bytes` in all."""

    def __init__(self, encoding: str, *, limit_bytes: int) -> None:
        """Raises ModelProtocolError for an encoding other than gzip, deflate and identity."""
        self._encoding = encoding.strip().lower().removeprefix("x-")
        if self._encoding not in ("", "identity", "gzip", "deflate"):
            shown = clip(visible(encoding), 40)
            raise ModelProtocolError(f'the model\'s server sent its answer in the encoding "{shown}", unasked')
        self._left = limit_bytes
        self._limit_bytes = limit_bytes
        self._inflater = zlib.decompressobj(_GZIP_WINDOW) if self._encoding == "gzip" else None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield what `chunk` decodes to. Raises ModelProtocolError."""
        if self._encoding in ("", "identity"):
            yield self._counted(chunk)
            return
        if self._inflater is None and chunk:
            self._inflater = zlib.decompressobj(_deflate_window(chunk))
        while self._inflater is not None and not self._inflater.eof:
            try:
                piece = self._inflater.decompress(chunk, _PIECE_BYTES)
            except zlib.error as error:
                raise ModelProtocolError(f"the model's server sent broken {self._encoding} data") from error
            yield self._counted(piece)
            chunk = self._inflater.unconsumed_tail
            if not chunk and len(piece) < _PIECE_BYTES:  # a full piece may have left more behind
                return

    def _counted(self, piece: bytes) -> bytes:
        self._left -= len(piece)
        if self._left < 0:
            raise ModelProtocolError(f"the model's answer is larger than {self._limit_bytes >> 20} MiB")
        return piece


def _deflate_window(start: bytes) -> int:
    """Return the window for "deflate", which servers understand with and without zlib's header."""
    return _ZLIB_WINDOW if start[0] & 0x0F == _DEFLATE_METHOD else _RAW_WINDOW
