"""Folders below ~/.odek whose files come and go: uploads, and the file that leads a browser here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from odek.state import StateFolder


class PrivateFolder(StateFolder):
    """What a StateFolder can do, and names and removal."""

    def names(self) -> tuple[str, ...]:
        """Return the names of all that is in it; none when it is missing. Raises OSError and StateFileError."""
        with suppress(FileNotFoundError), self._opened() as folder:
            return tuple(sorted(os.listdir(folder)))
        return ()

    def age_s(self, name: str, now_s: float) -> float:
        """Return how long ago `name` was written. Raises OSError and StateFileError."""
        with self._opened() as folder:
            return now_s - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime

    def remove(self, name: str) -> None:
        """Remove the file `name`. Raises OSError and StateFileError."""
        with self._opened() as folder:
            os.unlink(name, dir_fd=folder)

    def remove_folder(self, name: str) -> None:
        """Remove the empty folder `name`. Raises OSError and StateFileError."""
        with self._opened() as folder:
            os.rmdir(name, dir_fd=folder)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        folder = self._open_folder(make=False)
        if folder is None:
            raise FileNotFoundError(self.path(""))
        try:
            yield folder
        finally:
            os.close(folder)
