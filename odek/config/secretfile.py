"""~/.odek/secrets.env: variables that odek itself looks at, and nobody else.

One NAME=VALUE a line; blank lines and lines that start with # are passed over; an `export ` in
front and one pair of quotes around the value are taken off; nothing is interpolated. A name that
already has a value in the environment keeps it. The variables serve the settings (ODEK_…, the API
keys, ${VAR} in the operator's file); no child process gets them.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass

from odek import safefile
from odek.errors import ConfigError
from odek.operator_home import NoHome, OperatorHome, open_home

NAME = "secrets.env"
SHOWN = f"~/.odek/{NAME}"
LIMIT_BYTES = 1 << 20
_LINE = re.compile(r"(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=(?P<value>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretFile:
    """What the file holds."""

    values: Mapping[str, str]
    warnings: tuple[str, ...] = ()


def read_secrets(where: OperatorHome) -> SecretFile:
    """Return the variables in the operator's file; none when it does not exist.

    Raises ConfigError when it is a link, belongs to another user, or others may read it: a file
    that cannot be trusted may have lost the very switch that the operator counts on. StateFileError when
    the folder is not the operator's.
    """
    try:
        folder = open_home(where, make=False)
    except NoHome:
        if where.is_named:
            raise
        return SecretFile(values={})
    if folder is None:
        return SecretFile(values={})
    try:
        _check_status(os.stat(NAME, dir_fd=folder, follow_symlinks=False), where.uid)
        return parse_secrets(safefile.read_regular(NAME, dir_fd=folder, limit_bytes=LIMIT_BYTES))
    except FileNotFoundError:
        return SecretFile(values={})
    except OSError as error:
        reason = f"larger than {LIMIT_BYTES >> 20} MiB" if isinstance(error, safefile.TooLarge) else str(error.strerror)
        raise ConfigError(
            f"cannot read {SHOWN}: {reason.lower()}", hint=f"make {SHOWN} a readable file, or remove it"
        ) from error
    finally:
        os.close(folder)


def parse_secrets(data: bytes) -> SecretFile:
    """Return the variables in `data`, and a warning for each line that says nothing, by number only."""
    try:
        lines = data.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read {SHOWN}: it is not UTF-8", hint="save it as UTF-8") from error
    values: dict[str, str] = {}
    warnings = []
    for number, raw in enumerate(lines, start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None or "\0" in line:
            warnings.append(f"{SHOWN}: line {number} is ignored: it is not NAME=VALUE")
        elif match["name"] in values:
            warnings.append(f"{SHOWN}: line {number} is ignored: {match['name']} is set before")
        else:
            values[match["name"]] = _unquoted(match["value"].strip())
    return SecretFile(values=values, warnings=tuple(warnings))


def _check_status(status: os.stat_result, uid: int) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise ConfigError(f"cannot use {SHOWN}: it is a link", hint=f"replace {SHOWN} by a regular file")
    if status.st_uid != uid:
        raise ConfigError(f"cannot use {SHOWN}: it belongs to uid {status.st_uid}", hint=f"chown {uid} {SHOWN}")
    if stat.S_ISREG(status.st_mode) and status.st_mode & 0o077:
        raise ConfigError(
            f"cannot use {SHOWN}: its mode {stat.S_IMODE(status.st_mode):04o} lets others at it",
            hint=f"chmod 600 {SHOWN}",
        )


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] in "\"'" and value[-1] == value[0]:
        return value[1:-1]
    return value
