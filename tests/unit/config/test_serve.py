"""Settings of `odek serve`: where it listens and what it is called."""

from __future__ import annotations

import pytest

from odek.config.options import ProjectRule
from odek.config.serve import ServeSettings, parse_addr, parse_hosts, split_addr
from odek.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("localhost:8080", "127.0.0.1:8080"),
        ("LocalHost:8080", "127.0.0.1:8080"),
        ("[::1]:0", "[::1]:0"),
        ("[0:0:0:0:0:0:0:1]:65535", "[::1]:65535"),
        ("0.0.0.0:80", "0.0.0.0:80"),
        ("127.0.0.1:0080", "127.0.0.1:80"),
    ],
)
def test_address_is_an_ip_address_and_a_port(text: str, parsed: str) -> None:
    """R-121, R-122."""
    assert parse_addr(text, "--addr") == parsed
    assert parse_addr(parsed, "--addr") == parsed


@pytest.mark.parametrize(
    "text",
    [
        "8080", ":8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:+1",
        "127.0.0.1:١", "::1:80", "[::1]", "[fe80::1%eth0]:80", "[127.0.0.1]:80", "example.org:80", "127.1:80",
        "0127.0.0.1:80", "127.0.0.1 :80", "unix:/run/x", "http://127.0.0.1:80", "127.0.0.1:80/",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused(text: str) -> None:
    """R-122: names are not looked up, so what a resolver says never decides where odek listens."""
    with pytest.raises(ConfigError, match="not an address to listen on \\(--addr\\)"):
        parse_addr(text, "--addr")


def test_address_comes_apart() -> None:
    assert split_addr("127.0.0.1:8080") == ("127.0.0.1", 8080)
    assert split_addr("[::1]:0") == ("::1", 0)


def test_names_are_lower_case_and_each_once() -> None:
    """R-121: as a browser writes them into Host."""
    given = ("Odek.Example.org", "odek.example.org", "box:8080", "[FD00::1]:443", "192.168.1.5:80", "[::1]")
    assert parse_hosts(given, "--hosts") == ("odek.example.org", "box:8080", "[fd00::1]:443", "192.168.1.5:80", "[::1]")


@pytest.mark.parametrize(
    "entry",
    [
        "*", "*.example.org", "https://odek.example.org", "odek.example.org/", "odek.example.org.", "a b", "a:b:1",
        "a:", "a:70000", ":80", "-a", "a..b", "ä.example", "[::1", "[x]:1", "user@host", "a:١",
    ],
)  # fmt: skip
def test_what_cannot_stand_in_a_host_header_is_refused(entry: str) -> None:
    """R-128: an entry that no request can equal would only look as if it did something."""
    with pytest.raises(ConfigError, match="cannot be the name of a server"):
        parse_hosts((entry,), "--hosts")


def test_a_project_sets_none_of_them() -> None:
    """R-121: where the server listens, and under which names, is the operator's alone."""
    assert {row.project for row in ServeSettings.rows()} == {ProjectRule.FORBIDDEN}
