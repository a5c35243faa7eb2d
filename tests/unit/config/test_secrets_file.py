"""~/.odek/secrets.env."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fakes.homes import operator_home
from support.privileges import may_become_others

from odek.config.sources import SecretFile, parse_secrets, read_secrets
from odek.errors import ConfigError

WARNING = "~/.odek/secrets.env: line {} is ignored: it is not NAME=VALUE"


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("K=v", {"K": "v"}),
        ("  K = v  ", {"K": "v"}),
        ("export K=v", {"K": "v"}),
        ("export\tK=v", {"K": "v"}),
        ('K="v w"', {"K": "v w"}),
        ("K='v'", {"K": "v"}),
        ("K=\"v'", {"K": "\"v'"}),
        ('K="', {"K": '"'}),
        ('K=""', {"K": ""}),
        ("K=a=b", {"K": "a=b"}),
        ("K=$HOME", {"K": "$HOME"}),
        ("K=", {"K": ""}),
        ("K=a\u2028b", {"K": "a\u2028b"}),
        ("", {}),
        ("# K=v", {}),
        ("K=v\r", {"K": "v"}),
    ],
)
def test_parses_a_line(line: str, values: dict[str, str]) -> None:
    """F-6: quotes and `export` are not part of the value."""
    assert parse_secrets(line.encode()) == SecretFile(values=values)


@pytest.mark.parametrize("line", ["no equals sign", "=v", "1K=v", "K-1=v", "exportK v", "K\0=v", "K=v\0", "Ä=v"])
def test_warns_of_other_lines_without_their_content(line: str) -> None:
    assert parse_secrets(f"A=1\n{line}\nB=2".encode()) == SecretFile(
        values={"A": "1", "B": "2"}, warnings=(WARNING.format(2),)
    )


def test_first_of_two_lines_counts() -> None:
    assert parse_secrets(b"\xef\xbb\xbfK=1\r\nK=2\r\n") == SecretFile(
        values={"K": "1"}, warnings=("~/.odek/secrets.env: line 2 is ignored: K is set before",)
    )


def test_refuses_text_that_is_not_utf8() -> None:
    with pytest.raises(ConfigError, match=r"cannot read ~/\.odek/secrets\.env: it is not UTF-8"):
        parse_secrets(b"K=\xff")


def test_reads_a_private_file(tmp_path: Path) -> None:
    _written(tmp_path, 0o600)
    assert read_secrets(operator_home(tmp_path)) == SecretFile(values={"K": "v"})


def test_missing_file_holds_nothing(tmp_path: Path) -> None:
    assert read_secrets(operator_home(tmp_path)) == SecretFile(values={})


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o777])
def test_refuses_a_file_that_others_may_use(mode: int, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_secrets(operator_home(_written(tmp_path, mode).parent.parent))
    assert caught.value.message == f"cannot use ~/.odek/secrets.env: its mode {mode:04o} lets others at it"
    assert caught.value.hint == "chmod 600 ~/.odek/secrets.env"


def test_refuses_a_file_of_another_user(tmp_path: Path) -> None:
    if not may_become_others():
        pytest.skip("only root can give a file away")
    os.chown(_written(tmp_path, 0o600), 12345, 12345)
    with pytest.raises(ConfigError, match="it belongs to uid 12345"):
        read_secrets(operator_home(tmp_path))


def test_refuses_a_link(tmp_path: Path) -> None:
    path = _written(tmp_path, 0o600)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="it is a link"):
        read_secrets(operator_home(tmp_path))


@pytest.mark.parametrize("kind", ["fifo", "directory", "too large"])
def test_refuses_what_is_no_readable_file(kind: str, tmp_path: Path) -> None:
    path = _written(tmp_path, 0o600)
    if kind != "too large":
        path.unlink()
    if kind == "fifo":
        os.mkfifo(path, 0o600)
    elif kind == "directory":
        path.mkdir(0o700)
    else:
        path.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(ConfigError, match=r"cannot read ~/\.odek/secrets\.env: "):
        read_secrets(operator_home(tmp_path))


def _written(folder: Path, mode: int) -> Path:
    path = folder / ".odek" / "secrets.env"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text("K=v\n", encoding="utf-8")
    path.chmod(mode)
    return path
