"""What a release says: its version, which one is newer, and the hash of each of its files. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from odek import strict_json
from odek.errors import OdekError
from odek.patterns import pattern
from odek.text import truncate, visible

SUMS = "SHA256SUMS"
NOTE = "release.json"
"""file of a release that holds its version: build/release.py"""
_NUMBERS = r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,4}"
_VERSION = pattern(
    rf"({_NUMBERS})(?:[.-]?([A-Za-z][0-9A-Za-z.-]{{0,40}})|-([0-9][0-9A-Za-z.-]{{0,40}}))?(?:\+[\w.-]{{1,40}})?"
)
_PART = pattern(r"[0-9]{1,9}|[A-Za-z]+")
_HASH = pattern(r"[0-9a-fA-F]{64}")


class UpdateError(OdekError):
    """Nothing was replaced; the message says why."""

    source = code = "update"


@dataclass(frozen=True, slots=True)
class Version:
    """A version; they compare as semantic versioning has it."""

    _numbers: tuple[int, ...]
    _is_final: bool
    _before: tuple[tuple[int, int, str], ...]
    text: str = field(compare=False)

    @property
    def is_prerelease(self) -> bool:
        return not self._is_final

    def __lt__(self, other: Version) -> bool:
        return self._rank < other._rank

    def __le__(self, other: Version) -> bool:
        return self._rank <= other._rank

    @property
    def _rank(self) -> tuple[object, ...]:
        return self._numbers, self._is_final, self._before


def parse_version(text: str) -> Version | None:
    """Return what `text` means, such as 1.2.3, v1.2.3 or 1.2.3-rc1; None: it is not a version."""
    plain = text.removeprefix("v")
    found = _VERSION.fullmatch(plain)
    if found is None or not plain.isascii():
        return None
    numbers = [int(part) for part in found[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    before = found[2] or found[3] or ""
    parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in _PART.findall(before))
    return Version(tuple(numbers), not before, parts, plain)


def parse_note(data: bytes) -> Version:
    """Return the version of the release whose NOTE is `data`. Raises UpdateError."""
    try:
        content = strict_json.parse(data)
    except strict_json.JsonError as error:
        raise _damaged(NOTE, str(error)) from error
    said = content.get("version") if isinstance(content, dict) else None
    version = parse_version(said) if isinstance(said, str) else None
    if version is None:
        raise _damaged(NOTE, "it names no version")
    return version


def parse_sums(data: bytes, name: str) -> str:
    """Return the SHA-256 for `name` in a SHA256SUMS, which scripts/install.sh reads alike. Raises UpdateError."""
    found = ""
    for line in data.decode("utf-8", errors="replace").splitlines():
        words = line.split()
        if len(words) != 2 or words[1].removeprefix("*") != name:
            continue
        if not _HASH.fullmatch(words[0]):
            raise _damaged(SUMS, f"it holds no hash for {name}")
        if found not in ("", words[0].lower()):
            raise _damaged(SUMS, f"it names {name} twice")
        found = words[0].lower()
    if not found:
        raise UpdateError(f"{SUMS} does not name {visible(name)}", hint="the release has no such file, or is damaged")
    return found


def file_address(base: str, version: str, name: str) -> str:
    """Return where the file `name` of a release is; of the newest one without `version`."""
    return f"{base}/download/v{version}/{name}" if version else f"{base}/latest/download/{name}"


def notes_address(base: str, version: str) -> str:
    """Return where the notes of a release are."""
    return f"{base}/tag/v{version}"


def _damaged(name: str, reason: str) -> UpdateError:
    return UpdateError(f"the release's {name} is damaged: {truncate(visible(reason), 200)}")
