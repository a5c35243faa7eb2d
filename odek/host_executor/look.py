"""Looks at the folders of this machine for the classifier, when a command is judged."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tarfile

SMALL = 1 << 20  # bytes of a file that is looked into
MAX_NAMES = 20_000  # names of one folder
MAX_MEMBERS = 10_000  # files of one archive


class HostLook:
    """See odek.danger.paths.Look. What cannot be seen counts as missing: the command would see no more."""

    def real(self, path: str) -> str:
        """Return where the absolute `path` leads; what does not exist lies where its folder leads."""
        return os.path.realpath(path)

    def kind(self, path: str) -> str:
        """Return "file", "folder", "link", "other", or "" for nothing."""
        try:
            return _kind(os.lstat(path).st_mode)
        except OSError:
            return ""

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names in a folder."""
        return tuple(name for name, _ in self.entries(folder))

    def entries(self, folder: str) -> tuple[tuple[str, str], ...]:
        """Return the names in a folder with their kinds."""
        found: list[tuple[str, str]] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    kind = (
                        "link"
                        if entry.is_symlink()
                        else "folder"
                        if entry.is_dir(follow_symlinks=False)
                        else "file"
                        if entry.is_file(follow_symlinks=False)
                        else "other"
                    )
                    found.append((entry.name, kind))
                    if len(found) > MAX_NAMES:
                        break
        except OSError:
            pass
        return tuple(sorted(found))

    def text(self, path: str) -> str | None:
        """Return the bytes of a small regular file as Latin-1; None when it cannot be read, or is not small."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                content = file.read(SMALL + 1)
        except OSError:
            return None
        finally:
            os.close(descriptor)
        return content.decode("latin-1") if len(content) <= SMALL else None

    def members(self, path: str) -> tuple[str, ...] | None:
        """Return the names in an archive; None when they cannot be seen, or one of them is a link."""
        import tarfile  # only when a command unpacks something
        import zipfile

        try:
            if zipfile.is_zipfile(path):
                with zipfile.ZipFile(path) as packed:
                    entries = packed.infolist()[: MAX_MEMBERS + 1]
                links = any(stat.S_ISLNK(entry.external_attr >> 16) for entry in entries)
                names = tuple(entry.filename for entry in entries)
            else:
                names, links = _tar_members(tarfile.open(path))  # noqa: SIM115 - closed by what reads it
        except (OSError, tarfile.TarError, zipfile.BadZipFile, EOFError, ValueError, NotImplementedError):
            return None
        return None if links or len(names) > MAX_MEMBERS else names


def _tar_members(packed: tarfile.TarFile) -> tuple[tuple[str, ...], bool]:
    names: list[str] = []
    links = False
    with packed:
        for member in packed:
            names.append(member.name)
            links = links or not (member.isreg() or member.isdir())
            if len(names) > MAX_MEMBERS:
                break
    return tuple(names), links


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "link"
    return "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"
