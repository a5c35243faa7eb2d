"""What a release says of itself: versions, the note with its version, sums."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import odek
from odek.update.release import UpdateError, file_address, parse_note, parse_sums, parse_version

IN_ORDER = (
    *("0.9", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta", "1.0.0-rc1", "1.0.0-rc2", "1.0.0rc10", "1.0.0", "1.0.1"),
    *("1.2.3", "1.2.10", "1.10.0", "2"),
)
HASH = "ab" * 32


def test_versions_are_ordered_as_semantic_versioning_has_it() -> None:
    """R-347: 1.10 is newer than 1.9, and a release newer than what came before it."""
    versions = [parse_version(text) for text in IN_ORDER]
    assert None not in versions
    assert sorted(versions, reverse=True) == versions[::-1]  # type: ignore[type-var]
    assert [one.text for one in versions if one and one.is_prerelease] == [*IN_ORDER[1:7]]
    assert parse_version("v1.2") == parse_version("1.2.0") == parse_version("1.2.0+build.5")


@pytest.mark.parametrize(
    "text",
    [
        *("", "v", "latest", "../1", "1.2/3", "1..2", "1.2.", "-1", "1 2", "1.2.3\n", "1.2.3-", "١.٢"),
        *("1" * 11, "1.2.3-" + "a" * 60, "1.2.3?x", "1.2.3#x", "1.2.3\0"),
    ],
)
def test_what_is_not_a_version_is_none(text: str) -> None:
    """R-345: it becomes a part of an address."""
    assert parse_version(text) is None


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"[]", b"{}", b'{"version": 1}', b'{"version": "../../x"}', b'{"version": null}', b"\xff\xfe"),
        *(b'{"version": "1", "version": "2"}', b"[" * 10_000, b"<html>404</html>", b'"1.2.3"'),
    ],
)
def test_a_note_that_names_no_version_is_refused(data: bytes) -> None:
    """R-345: bad JSON of a hostile server."""
    with pytest.raises(UpdateError, match=r"release\.json is damaged"):
        parse_note(data)


def test_nothing_but_its_command_knows_of_releases() -> None:
    """R-341: no request for one leaves by any other way; the installer's address is read nowhere else either."""
    package = Path(odek.__file__).parent
    named = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"odek\.update\b|ODEK_INSTALL_BASE_URL|built\.json", path.read_text())
    }
    assert {name for name in named if not name.startswith("update/")} == {"cli/commands/update.py"}


def test_a_note_may_say_more_later() -> None:
    found = parse_note(b'{"version": "1.2.3", "more": [1]}')
    assert (found.text, file_address("https://x/r", found.text, "odek")) == (
        "1.2.3",
        "https://x/r/download/v1.2.3/odek",
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "does not name odek"),
        (f"{HASH}  not-odek\n{HASH}  odek.sig\n{HASH}  ./odek\n{HASH}  /usr/bin/odek\n", "does not name odek"),
        (f"{HASH}  odek odek\n", "does not name odek"),
        (f"# {HASH}  odek\n", "does not name odek"),
        ("<html>odek</html>\n", "does not name odek"),
        ("abc  odek\n", "no hash for odek"),
        (f"{'z' * 64}  odek\n", "no hash for odek"),
        (f"{HASH}  odek\n{'cd' * 32}  odek\n", "names odek twice"),
    ],
)
def test_sums_that_do_not_say_it_are_refused(text: str, reason: str) -> None:
    """R-342: as the installer refuses them (tests/install)."""
    with pytest.raises(UpdateError, match=reason):
        parse_sums(text.encode(), "odek")


@pytest.mark.parametrize(
    "text", [f"{HASH}  odek\n", f"{HASH} *odek", f"{HASH.upper()}  odek\r\n", f"\n{HASH}  odek\n{HASH}  odek\n"]
)
def test_other_ways_to_write_the_sums(text: str) -> None:
    assert parse_sums(text.encode() + b"\n\xff\xfe junk", "odek") == HASH
