"""The files that settings come from: the operator's, the project's, and ~/.odek/secrets.env (R-13, B37, B38).

A file that exists but cannot be read as it was meant is an error, never an empty configuration: a policy that
silently is not in force is worse than a run that does not start. Files are opened so that nothing but a regular
file is ever read, and none can make odek wait.

secrets.env holds one NAME=VALUE a line: blank lines and lines that start with # are skipped; an `export ` in front
and one pair of quotes around the value are taken off; nothing is interpolated. A name that already has a value in
the environment keeps it. The variables serve the settings (ODEK_…, the API keys, ${VAR} in the operator's file); no
child process gets them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass

from odek import safefile, strict_json
from odek.errors import ConfigError
from odek.operator_home import NoHome, OperatorHome, open_home, read_config_file
from odek.patterns import pattern
from odek.strict_json import JsonError, kind_of
from odek.text import visible

LIMIT_BYTES = 5 << 20
MAX_DIGITS = 19  # 2**63 has that many
SECRETS_NAME = "secrets.env"
SECRETS_FILE = f"~/.odek/{SECRETS_NAME}"
SECRETS_LIMIT_BYTES = 1 << 20
_JSON_BLANKS = b" \t\r\n"
_LINE = pattern(r"(?s)(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=(?P<value>.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretFile:
    """What secrets.env holds."""

    values: Mapping[str, str]
    warnings: tuple[str, ...] = ()


def read_operator_config(where: OperatorHome, *, shown: str) -> bytes | None:
    """Return the bytes of the operator's file, None when there is none; `shown` is what errors call it.

    Raises StateFileError when it is not the operator's alone, ConfigError when it cannot be read.
    """
    shown = where.named_settings or shown
    try:
        return read_config_file(where, shown=shown, limit_bytes=LIMIT_BYTES)
    except OSError as error:
        raise _unreadable(shown, error, LIMIT_BYTES) from error


def read_project_config(folder: str, name: str, *, shown: str) -> bytes | None:
    """Return the bytes of the file `name` of a project, or None when nothing at all has that name.

    A link may only lead to a file in `folder`: a checked-out link must not make odek read a file outside of the
    project. Raises ConfigError for everything that is not a readable regular file of at most LIMIT_BYTES.
    """
    try:
        os.lstat(os.path.join(folder, name))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(shown, error, LIMIT_BYTES) from error
    try:
        return safefile.read_inside(folder, name, limit_bytes=LIMIT_BYTES)
    except safefile.LeavesFolder as error:
        raise ConfigError(
            f"cannot use {shown}: it is a link that leaves the project directory",
            hint=f"replace {shown} by a regular file",
        ) from error
    except OSError as error:
        raise _unreadable(shown, error, LIMIT_BYTES) from error


def read_secrets(where: OperatorHome) -> SecretFile:
    """Return the variables in the operator's file; none when it does not exist.

    Raises ConfigError when it is a link, belongs to another user, or others may read it: a file that cannot be
    trusted may have lost the very switch that the operator counts on. StateFileError when the folder is not the
    operator's.
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
        _check_secrets_status(os.stat(SECRETS_NAME, dir_fd=folder, follow_symlinks=False), where.uid)
        return parse_secrets(safefile.read_regular(SECRETS_NAME, dir_fd=folder, limit_bytes=SECRETS_LIMIT_BYTES))
    except FileNotFoundError:
        return SecretFile(values={})
    except OSError as error:
        raise _unreadable(SECRETS_FILE, error, SECRETS_LIMIT_BYTES) from error
    finally:
        os.close(folder)


def parse_config(data: bytes, *, shown: str) -> dict[str, object]:
    """Return the JSON object that `data` holds, read strictly (strict_json.py). Raises ConfigError."""
    if not data.removeprefix(b"\xef\xbb\xbf").strip(_JSON_BLANKS):
        raise ConfigError(f"cannot read {shown}: the file is empty", hint="put {} into it, or delete it")
    try:
        document = strict_json.parse(data, max_digits=MAX_DIGITS)
    except JsonError as error:
        raise ConfigError(f"cannot read {shown}: {error}", hint=error.hint or f"correct {shown}") from error
    if not isinstance(document, dict):
        raise ConfigError(
            f"cannot read {shown}: the top level is {kind_of(document)}, not an object", hint="start the file with {"
        )
    return document


def parse_secrets(data: bytes) -> SecretFile:
    """Return the variables in `data`, and a warning for each line that says nothing, by number only."""
    try:
        lines = data.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read {SECRETS_FILE}: it is not UTF-8", hint="save it as UTF-8") from error
    values: dict[str, str] = {}
    warnings = []
    for number, raw in enumerate(lines, start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None or "\0" in line:
            warnings.append(f"{SECRETS_FILE}: line {number} is ignored: it is not NAME=VALUE")
        elif match["name"] in values:
            warnings.append(f"{SECRETS_FILE}: line {number} is ignored: {match['name']} is set before")
        else:
            values[match["name"]] = _unquoted(match["value"].strip())
    return SecretFile(values=values, warnings=tuple(warnings))


def _unreadable(shown: str, error: OSError, limit_bytes: int) -> ConfigError:
    reason = f"larger than {limit_bytes >> 20} MiB" if isinstance(error, safefile.TooLarge) else str(error.strerror)
    return ConfigError(
        f"cannot read {shown}: {visible(reason[:1].lower() + reason[1:])}",
        hint=f"make {shown} a readable file, or remove it",
    )


def _check_secrets_status(status: os.stat_result, uid: int) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise ConfigError(f"cannot use {SECRETS_FILE}: it is a link", hint=f"replace {SECRETS_FILE} by a regular file")
    if status.st_uid != uid:
        raise ConfigError(
            f"cannot use {SECRETS_FILE}: it belongs to uid {status.st_uid}", hint=f"chown {uid} {SECRETS_FILE}"
        )
    if stat.S_ISREG(status.st_mode) and status.st_mode & 0o077:
        raise ConfigError(
            f"cannot use {SECRETS_FILE}: its mode {stat.S_IMODE(status.st_mode):04o} lets others at it",
            hint=f"chmod 600 {SECRETS_FILE}",
        )


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] in "\"'" and value[-1] == value[0]:
        return value[1:-1]
    return value
