"""What the classifier asks of the folders themselves, where they can be looked at."""

from __future__ import annotations

from typing import Protocol


class Look(Protocol):
    """Looks at the folders of the host when a command is judged. Nothing raises: what cannot be seen is not there."""

    def real(self, path: str) -> str:
        """Return where the absolute `path` leads, links followed."""
        ...

    def kind(self, path: str) -> str:
        """Return "file", "folder", "link", "other", or "" for nothing."""
        ...

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names in a folder."""
        ...

    def entries(self, folder: str) -> tuple[tuple[str, str], ...]:
        """Return the names in a folder with their kinds."""
        ...

    def text(self, path: str) -> str | None:
        """Return the text of a small file; None when it cannot be read, or is not small."""
        ...

    def members(self, path: str) -> tuple[str, ...] | None:
        """Return the names in an archive; None when they cannot be seen, or one of them is a link."""
        ...
