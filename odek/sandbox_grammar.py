"""How values of the sandbox's settings are written: amounts, users, networks, names of variables. Pure.

Docker reads several of them more generously than anyone means them: a limit of 0 is "unlimited", a tiny number of
CPUs enforces nothing, an empty user is the image's root. This is the only grammar: config/ parses a value with it
once, and the result is what the sandbox is made of, so `odek config view` never shows a value that a run refuses.

Every parser raises GrammarError, naming `origin`: the file and key, variable or flag that the text came from.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from odek.errors import ConfigError
from odek.text import truncate, visible

MIN_PIDS_LIMIT = 5  # with fewer the runtime's own threads and the shell do not fit, and no start is verified
ENOUGH_PIDS = 16  # with which every engine has started
MAX_PIDS_LIMIT = 4_194_304  # the kernel's own ceiling for pid_max
MIN_MEMORY_BYTES = 6 << 20  # Docker's own floor
MIN_TMP_BYTES = 1 << 20  # below it there is no room for the checks of a start; 0 is "no limit" to the kernel
MIN_NANO_CPUS = 10_000_000  # Docker's own floor, a hundredth
MAX_ID = 2_147_483_647
CALL_VARIABLE = "ODEK_CALL"
"""marks the processes of one command in the sandbox"""

NetworkMode = Literal["none", "bridge"]

_SIZE = re.compile(r"([1-9][0-9]*(?:\.[0-9]+)?)([bkmgBKMG]?)")
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_CPUS = re.compile(r"[0-9]{1,5}(?:\.[0-9]{1,9})?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_ACCOUNT = re.compile(r"0|[1-9][0-9]{0,9}|[A-Za-z_][A-Za-z0-9_.-]{0,31}")
# Read-only in bash, which ends when one of them is exported; and how odek finds a command's processes.
_KEPT_NAMES = ("UID", "EUID", "PPID", "BASHOPTS", "SHELLOPTS", "BASH_VERSINFO", CALL_VARIABLE)


class GrammarError(ConfigError):
    """A text that the grammar of its setting does not have."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A limit as it was written, which is how it is shown, and how much that is."""

    text: str
    value: int

    def __str__(self) -> str:
        return self.text


class Memory(Amount):
    """A limit of memory; the value is in bytes."""

    __slots__ = ()


class TmpSize(Amount):
    """The size of /tmp; the value is in bytes."""

    __slots__ = ()


class Cpus(Amount):
    """A limit of processor time; the value is in billionths of a CPU, Docker's own unit."""

    __slots__ = ()


def parse_memory(text: str, origin: str) -> Memory:
    """Return the limit that `text` ("512m", "1.5g", "800000000") describes."""
    size = _size(text)
    if size is None:
        raise GrammarError(
            f"{_quoted(text)} is not an amount of memory ({origin})",
            hint='write a number with an optional unit b, k, m or g, for example "512m"',
        )
    if size < MIN_MEMORY_BYTES:
        raise GrammarError(
            f"a memory limit of {_quoted(text)} is below the least that Docker accepts, 6m ({origin})",
            hint="give the sandbox at least 64m for anything real",
        )
    return Memory(text, size)


def parse_tmp_size(text: str, origin: str) -> TmpSize:
    """Return the size of /tmp that `text` ("256m") describes."""
    size = _size(text)
    if size is None or size < MIN_TMP_BYTES:
        raise GrammarError(
            f"{_quoted(text)} is not a size for /tmp ({origin})",
            hint='write at least 1m, a number with an optional unit b, k, m or g, for example "256m" or "2g"',
        )
    return TmpSize(text, size)


def parse_cpus(text: str, origin: str) -> Cpus:
    """Return the limit that `text` ("2", "0.5") describes; at least a hundredth of a CPU."""
    nano = _scaled(text, 10**9) if _CPUS.fullmatch(text) else 0
    if nano < MIN_NANO_CPUS:
        raise GrammarError(
            f"{_quoted(text)} is not a number of CPUs ({origin})",
            hint='write a decimal number of at least 0.01, for example "0.5" or "2"',
        )
    return Cpus(text, nano)


def parse_user(text: str, origin: str) -> str:
    """Return `text` when it is `user` or `user:group`, each a name or a number."""
    parts = text.split(":")
    well_formed = len(parts) <= 2 and all(_ACCOUNT.fullmatch(part) for part in parts)
    if not well_formed or any(part.isdigit() and int(part) > MAX_ID for part in parts):
        raise GrammarError(
            f"{_quoted(text)} is not a user ({origin})",
            hint='write "uid:gid" or a user name of the image, for example "1000:1000"',
        )
    return text


def parse_network_mode(text: str, origin: str) -> NetworkMode:
    """Return "none" or "bridge" (R-50)."""
    if text == "none":
        return "none"
    if text == "bridge":
        return "bridge"
    raise GrammarError(
        f"sandbox network {_quoted(text)} is not allowed ({origin})",
        hint='use "none" or "bridge", or attach a named network with --sandbox-networks NAME',
    )


def parse_variable_name(text: str, origin: str) -> str:
    """Return `text` when every shell can export a variable of that name and none needs it for itself."""
    if not _NAME.fullmatch(text):
        raise GrammarError(
            f"{_quoted(text)} is not a name for an environment variable ({origin})",
            hint="use letters, digits and underscores, and begin with a letter or underscore",
        )
    if text in _KEPT_NAMES:
        raise GrammarError(
            f"{_quoted(text)} cannot be set ({origin})",
            hint="the shell or odek itself uses it; choose another name",
        )
    return text


def _size(text: str) -> int | None:
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    size = _scaled(match.group(1), _UNITS[match.group(2).lower()]) if len(text) < 40 else 1 << 62
    return size if size < 1 << 62 else None


def _scaled(number: str, unit: int) -> int:
    """Return `number` times `unit`, exact, any fraction of one left out."""
    whole, _, fraction = number.partition(".")
    parts: int = 10 ** len(fraction)
    return int(whole) * unit + int(fraction or "0") * unit // parts


def _quoted(text: str) -> str:
    return f'"{visible(truncate(text, 200))}"'
