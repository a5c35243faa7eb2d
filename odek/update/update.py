"""One update, from the address of the releases to the file in its place."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass

from odek import strict_json
from odek.errors import ExecutableMissing
from odek.packaged import read_packaged
from odek.process import Completed
from odek.text import truncate, visible
from odek.update.download import SMALL_BYTES, Fetch, parse_address
from odek.update.release import NOTE, SUMS, UpdateError, Version, file_address, parse_note, parse_sums, parse_version
from odek.update.replace import Replacement

LARGEST_BYTES = 64 << 20
ADDRESS_VARIABLE = "ODEK_INSTALL_BASE_URL"
"""the name that scripts/install.sh has for it"""
_BUILT = "built.json"
_LIMIT_BYTES = 1 << 16

Run = Callable[[tuple[str, ...]], Completed]
"""runs a program to its end. Raises OdekError"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What the build has written into this file (build/artifact.py)."""

    file: str = ""
    """its name in a release; "" of a checkout"""
    releases: str = ""
    """where releases are; "" where this one was not built for a release"""


def read_built(read: Callable[[str, str], bytes] = read_packaged) -> Built:
    """Return what this odek says of itself."""
    try:
        said = strict_json.parse(read("odek", _BUILT))
    except (OSError, strict_json.JsonError):
        return Built()
    assert isinstance(said, dict)
    return Built(file=str(said["file"]), releases=str(said["releases"]))


def choose_base(flag: str, variable: str, built: Built) -> str:
    """Return where releases are, without a slash at its end. Raises UpdateError."""
    base = (flag or variable or built.releases).rstrip("/")
    if not base:
        raise UpdateError(
            "it is not known where releases are: this odek was not built for one",
            hint=f"name the address: --base-url URL, or {ADDRESS_VARIABLE}",
        )
    parse_address(base)
    if "?" in base or "#" in base:
        raise UpdateError(f'"{truncate(visible(base), 200)}" is more than an address of a folder')
    return base


def find_newest(base: str, fetch: Fetch) -> Version:
    """Return the version of the newest release. Raises UpdateError."""
    return parse_note(_small(file_address(base, "", NOTE), fetch))


def is_wanted(newest: Version, current: Version) -> bool:
    """Return whether `newest` is an update, unasked: newer, and not a prerelease."""
    return newest > current and not newest.is_prerelease


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What is to be put where."""

    base: str
    version: str
    name: str
    """of the file in the release"""
    target: str

    @property
    def address(self) -> str:
        return file_address(self.base, self.version, self.name)


def carry_out(update: Update, fetch: Fetch, run: Run, on_progress: Callable[[int, int | None], None]) -> bool:
    """Download, compare the hash, try the new file, put it in place; return whether it was another one than before.

    The new file is run only when its hash is that of SHA256SUMS. Raises OdekError; then the old one is as it was.
    """
    expected = parse_sums(_small(file_address(update.base, update.version, SUMS), fetch), update.name)
    if _hash_of(update.target) == expected:
        return False
    with Replacement(update.target) as new:
        seen = _download(update, new, fetch, on_progress)
        if seen != expected:
            raise UpdateError(
                f"{update.name} is not what it should be: SHA-256 {seen} instead of {expected}",
                hint="nothing was replaced; try again, or get it another way",
            )
        _try_out(update, new.path, run)
        new.commit()
    return True


def _hash_of(path: str) -> str:
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    except OSError as error:
        raise UpdateError(f"{visible(path)} cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def _download(update: Update, new: Replacement, fetch: Fetch, on_progress: Callable[[int, int | None], None]) -> str:
    """Write the file of the release and return its SHA-256."""
    digest, count = hashlib.sha256(), 0
    descriptor = new.open_new()

    def take(chunk: bytes, announced: int | None) -> None:
        nonlocal count
        new.write(descriptor, chunk)
        digest.update(chunk)
        count += len(chunk)
        on_progress(count, announced)

    try:
        fetch(update.address, LARGEST_BYTES, take)
    finally:
        os.close(descriptor)
    return digest.hexdigest()


def _try_out(update: Update, path: str, run: Run) -> None:
    """Let the new file say its version. Raises UpdateError unless it runs and is the one that was asked for."""
    try:
        done = run((path, "version"))
    except ExecutableMissing as error:  # a file system that is noexec
        raise _does_not_run(update, error.message) from error
    said = done.stdout.text.strip()
    if done.code != 0 or done.timed_out:
        reason = next(iter(done.stderr.text.strip().splitlines()), "") or f"it ended with {done.code}"
        raise _does_not_run(update, reason)
    if parse_version(said.removeprefix("odek ")) != parse_version(update.version) or not said.startswith("odek "):
        raise UpdateError(
            f'the file of release {update.version} says "{truncate(visible(said), 60)}" of itself',
            hint="nothing was replaced: the server mixes up its releases, or hands out an old one",
        )


def _does_not_run(update: Update, reason: str) -> UpdateError:
    return UpdateError(
        f"odek {update.version} does not run here: {truncate(visible(reason), 200)}",
        hint="nothing was replaced; install.sh may find another kind of file, or another place, where it does",
    )


def _small(address: str, fetch: Fetch) -> bytes:
    found = bytearray()
    fetch(address, min(_LIMIT_BYTES, SMALL_BYTES), lambda chunk, _: found.extend(chunk))
    return bytes(found)
