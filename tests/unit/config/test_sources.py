"""Reading and parsing a configuration file."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.homes import operator_home
from support.privileges import may_become_others

from odek.config.sources import LIMIT_BYTES, parse_config, read_operator_config, read_project_config
from odek.errors import ConfigError
from odek.strict_json import kind_of, quoted

SHOWN = "./odek.json"
GOOD = b'{"dangerous": {"denylist": ["git push"]}, "sandbox_network": "none"}'
GOOD_VALUE = {"dangerous": {"denylist": ["git push"]}, "sandbox_network": "none"}


@pytest.mark.parametrize(
    "data",
    [GOOD, b"\xef\xbb\xbf" + GOOD, GOOD.replace(b", ", b",\r\n"), b"\r\n\t " + GOOD + b"\r\n"],
    ids=["plain", "byte order mark", "CRLF", "blanks around"],
)
def test_parses_what_editors_write(data: bytes) -> None:
    """B37, R-13: a byte order mark and CRLF are accepted."""
    assert parse_config(data, shown=SHOWN) == GOOD_VALUE


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (GOOD.decode().encode("utf-16"), "it is not UTF-8 but looks like UTF-16"),
        (GOOD.decode().encode("utf-16-be"), "it is not UTF-8 but looks like UTF-16"),
        (b'{"a": 1,\n "b": "\xe9"}', "line 2 is not UTF-8"),
        (b"", "the file is empty"),
        (b"\xef\xbb\xbf \r\n", "the file is empty"),
        (b'{\n  // comment\n  "a": 1}', "line 2, column 3: JSON has no comments"),
        (b'{"a": 1} /* b */', "line 1, column 10: JSON has no comments"),
        (b'{"a": # b\n1}', "line 1, column 7: JSON has no comments"),
        (b'{"a": 1,\n}', "line 1, column 8: a comma with nothing after it"),
        (b'{"a": [1,\n  2 ,\n ]}', "line 2, column 5: a comma with nothing after it"),
        (b'{"a": {"b": 1, }, "c": 2}', "line 1, column 14: a comma with nothing after it"),
        (b'{"a": [1, 2', "line 1, column 12: the file ends too early"),
        (b'{"a":\n', "line 2, column 1: the file ends too early"),
        (b"null", "the top level is null, not an object"),
        (b"[]", "the top level is a list, not an object"),
        (b'"x"', "the top level is a string, not an object"),
        (b"true", "the top level is a boolean, not an object"),
        (b"7", "the top level is a number, not an object"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": -Infinity}', "-Infinity is not JSON"),
        (b'{"a": 1e999}', "the number 1e999 is too large"),
        (b'{"a": -1e999}', "the number -1e999 is too large"),
        (b'{"a": ' + b"9" * 5000 + b"}", "the number 99999999999999999999999… is too large"),
        (b'{"a": ' + b"9" * 20 + b"}", "the number 99999999999999999999 is too large"),
        (b"[" * 100_000, "it is nested too deeply"),
        (b'{"a":' * 100_000, "it is nested too deeply"),
        (b'{"a": 1, "b": 2, "a": 3}', 'the key "a" is in one object twice'),
        (
            b'{"sandbox_network": "none", "sandbox\\u005fnetwork": "bridge"}',
            'the key "sandbox_network" is in one object twice',
        ),
        (b'{"mcp_servers": {"x": {}, "x": {}}}', 'the key "x" is in one object twice'),
        (b'{"dangerous": {}, "dangerous": {}}', 'the key "dangerous" is in one object twice'),
        (b'{"\\u001b[2J": 1, "\\u001b[2J": 1}', 'the key "\\u001b[2J" is in one object twice'),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_refuses_what_is_not_strict_json(data: bytes, message: str) -> None:
    """B37, B38, R-13: fatal, with the file and the place or the key; never an empty configuration."""
    with pytest.raises(ConfigError) as caught:
        parse_config(data, shown=SHOWN)
    assert caught.value.message == f"cannot read ./odek.json: {message}"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"{'a': 1}", "line 1, column 2: "),
        (b'{"a": 1 "b": 2}', "line 1, column 9: "),
        (b'{"a": "\t"}', "line 1, column 8: "),
    ],
    ids=["single quotes", "missing comma", "raw tab in a string"],
)
def test_names_the_place_of_any_other_mistake(data: bytes, place: str) -> None:
    """B37"""
    with pytest.raises(ConfigError) as caught:
        parse_config(data, shown=SHOWN)
    assert caught.value.message.startswith(f"cannot read ./odek.json: {place}")


def test_integer_of_64_bits_is_kept_exactly() -> None:
    assert parse_config(b'{"a": 9223372036854775807, "b": 0.5}', shown=SHOWN) == {"a": 9223372036854775807, "b": 0.5}


def test_reads_a_regular_file(tmp_path: Path) -> None:
    (tmp_path / "odek.json").write_bytes(GOOD)
    assert read_project_config(str(tmp_path), "odek.json", shown=SHOWN) == GOOD


def test_missing_file_is_none(tmp_path: Path) -> None:
    assert read_project_config(str(tmp_path), "odek.json", shown=SHOWN) is None


def test_file_at_the_limit_is_read_and_one_byte_more_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "odek.json"
    path.write_bytes(b" " * LIMIT_BYTES)
    assert read_project_config(str(path.parent), path.name, shown=SHOWN) == b" " * LIMIT_BYTES
    path.write_bytes(b" " * (LIMIT_BYTES + 1))
    with pytest.raises(ConfigError) as caught:
        read_project_config(str(path.parent), path.name, shown=SHOWN)
    assert caught.value.message == "cannot read ./odek.json: larger than 5 MiB"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("fifo", "not a regular file"),
        ("directory", "not a regular file"),
        ("socket", "not a regular file"),
        ("link to a fifo", "not a regular file"),
        ("broken link", "no such file or directory"),
        ("link to itself", "too many levels of symbolic links"),
        ("below a file", "not a directory"),
    ],
)
def test_refuses_what_is_no_regular_file(kind: str, message: str, tmp_path: Path) -> None:
    """B37: a FIFO does not hang, a device is not opened, a broken link is not a missing file."""
    path = tmp_path / "odek.json"
    with socket.socket(socket.AF_UNIX) as listener:
        _make(kind, path, listener)
        if kind == "below a file":
            path = path / "odek.json"
        with pytest.raises(ConfigError) as caught:
            read_project_config(str(path.parent), path.name, shown=SHOWN)
    assert caught.value.message == f"cannot read ./odek.json: {message}"
    assert caught.value.hint == "make ./odek.json a readable file, or remove it"


def _make(kind: str, path: Path, listener: socket.socket) -> None:
    links = {
        "link to a fifo": "fifo",
        "broken link": "nowhere",
        "link to itself": "odek.json",
    }
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "socket":
        listener.bind(str(path))
    elif kind == "below a file":
        path.write_bytes(b"{}")
    else:
        os.mkfifo(path.with_name("fifo"))
        path.symlink_to(links[kind])


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A folder of a user to whom permissions mean something, while the test runs as that user."""
    with tempfile.TemporaryDirectory() as folder:
        root = may_become_others()
        if root:
            os.chown(folder, 65534, 65534)
            os.seteuid(65534)
        try:
            yield Path(folder)
        finally:
            if root:
                os.seteuid(0)


@pytest.mark.parametrize("closed", ["file", "folder"])
def test_refuses_what_may_not_be_read(closed: str, unprivileged: Path) -> None:
    """B37: mode 000 is an error, not a missing file."""
    folder = unprivileged / "folder"
    folder.mkdir()
    path = folder / "odek.json"
    path.write_bytes(GOOD)
    (path if closed == "file" else folder).chmod(0)
    with pytest.raises(ConfigError) as caught:
        read_project_config(str(path.parent), path.name, shown=SHOWN)
    folder.chmod(0o700)
    assert caught.value.message == "cannot read ./odek.json: permission denied"


@pytest.mark.parametrize(
    "target",
    [
        "../outside.json",
        "/etc/hostname",
        "/dev/zero",
        "/dev/tty",
        "/proc/1/root/x",
        "sub/../../outside.json",
        "out/outside.json",
    ],
)
def test_project_file_is_not_followed_out_of_the_project(target: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "sub").mkdir(parents=True)
    (project / "out").symlink_to("..")
    (tmp_path / "outside.json").write_bytes(GOOD)
    (project / "odek.json").symlink_to(target)
    with pytest.raises(ConfigError) as caught:
        read_project_config(str(project), "odek.json", shown=SHOWN)
    assert caught.value.message == "cannot use ./odek.json: it is a link that leaves the project directory"


def test_neighbour_with_the_same_beginning_is_outside(tmp_path: Path) -> None:
    for name in ("project", "project-2"):
        (tmp_path / name).mkdir()
    (tmp_path / "project-2" / "odek.json").write_bytes(GOOD)
    (tmp_path / "project" / "odek.json").symlink_to("../project-2/odek.json")
    with pytest.raises(ConfigError):
        read_project_config(str(tmp_path / "project"), "odek.json", shown=SHOWN)


def test_link_inside_the_project_is_followed(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "o.json").write_bytes(GOOD)
    (tmp_path / "odek.json").symlink_to("conf/o.json")
    assert read_project_config(str(tmp_path), "odek.json", shown=SHOWN) == GOOD


def test_operators_file_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles/odek.json").write_bytes(GOOD)
    (tmp_path / "dotfiles/odek.json").chmod(0o644)
    (tmp_path / ".odek").mkdir()
    (tmp_path / ".odek/config.json").symlink_to("../dotfiles/odek.json")
    assert read_operator_config(operator_home(tmp_path), shown="~/.odek/config.json") == GOOD


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "null"),
        (True, "a boolean"),
        (1, "a number"),
        (1.5, "a number"),
        ("", "a string"),
        ([], "a list"),
        ({}, "an object"),
    ],
)
def test_kind_of_says_what_json_calls_it(value: object, kind: str) -> None:
    assert kind_of(value) == kind


def test_quoted_is_short_and_harmless() -> None:
    assert quoted("\x1b[2J\u202e" + "x" * 100) == '"\\u001b[2J\\u202e' + "x" * 48 + "…"
