"""Where the answer of a task goes besides stdout, and what form it has: --output and --output-schema (R-292, R-293)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from odek import safefile
from odek.app.isolation import CommandProfile
from odek.cli.parser import CommandParser
from odek.errors import OdekError, UsageError
from odek.host import Host, project_root
from odek.text import truncate, visible

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def add_output_flags(parser: CommandParser) -> None:
    """Give `parser` the flags about the answer."""
    parser.add_argument(
        "--output", metavar="FILE", default=None, help="write the answer to FILE as well, whole or not at all"
    )
    parser.add_argument(
        "--output-schema", metavar="FILE", default=None, help="the answer has to be JSON that fits this JSON Schema"
    )


def with_answer_format(profile: CommandProfile, path: str | None, host: Host) -> CommandProfile:
    """Return `profile` with the form that --output-schema asks for. Raises UsageError."""
    if path is None:
        return profile
    from odek.app.answer_format import read_answer_format  # few runs have a schema

    return replace(profile, answer=read_answer_format(path, host.cwd))


class Output:
    """What becomes of the answer."""

    answer: str | None = None
    """None as long as there is none"""


class _OutputFile:
    """A file that gets the answer in one step, in a folder that is held open from the beginning."""

    def __init__(self, folder: int, name: str, shown: str) -> None:
        self._folder = folder
        self._name = name
        self._shown = shown

    def write(self, answer: str) -> None:
        """Put `answer`, and not a byte more, in place of what the file holds. Raises OdekError; then that stays."""
        temporary = f".odek-{os.urandom(8).hex()}"
        try:
            descriptor = os.open(temporary, _NEW_FILE, 0o666, dir_fd=self._folder)
            try:
                with open(descriptor, "wb") as file:
                    file.write(answer.encode("utf-8", "backslashreplace"))
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=self._folder)
                raise
        except OSError as error:
            raise OdekError(
                f'the answer cannot be written to "{self._shown}": {str(error.strerror).lower()}',
                hint="it stands on stdout; name another file with --output",
            ) from error


@contextmanager
def open_output(path: str | None, host: Host) -> Iterator[Output]:
    """Write the answer that the block has found to the file of --output, if the flag was given.

    Raises UsageError, before anything is paid for, for a link, a folder, and a place where nothing can be written. In
    the project no link is followed: what the checkout holds must not say which file of the operator is overwritten.
    """
    output = Output()
    if path is None:
        yield output
        return
    shown = visible(truncate(path, 200))
    whole = os.path.normpath(os.path.join(host.cwd, path))
    above, name = os.path.split(whole)
    if not path or not name or path.endswith("/"):
        raise UsageError(f'--output "{shown}" does not name a file', hint="such as --output answer.md")
    try:
        folder = safefile.open_chosen_folder(above, project_root(host))
    except OSError as error:
        raise _unusable(shown, "its folder cannot be opened", error) from error
    try:
        _require_file(name, folder, shown)
        try:
            yield output
        finally:
            if output.answer is not None:
                _OutputFile(folder, name, shown).write(output.answer)
    finally:
        os.close(folder)


def _require_file(name: str, folder: int, shown: str) -> None:
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    except OSError as error:
        raise _unusable(shown, "it cannot be looked at", error) from error
    if not stat.S_ISREG(mode):
        kind = "a link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise UsageError(f'--output "{shown}" is {kind}', hint="name a file, or one that is not there yet")
    if not os.access(".", os.W_OK | os.X_OK, dir_fd=folder):
        raise UsageError(f'--output "{shown}": nothing can be written in its folder', hint="name another place")


def _unusable(shown: str, what: str, error: OSError) -> UsageError:
    reason = visible(str(error.strerror)).lower()
    return UsageError(f'--output "{shown}": {what}: {reason}', hint="make the folder first, or name another place")
