"""Amounts and names that settings and sandbox read alike: memory, CPUs, environment variables. Pure.

Docker reads several of them more generously than anyone means them: 0 is "unlimited", a tiny
number of CPUs enforces nothing. One grammar for both rooms, so that `config view` never shows
what a run refuses.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

MIN_PIDS_LIMIT = 5  # with fewer the runtime's own threads and the shell do not fit, and no start is proved
ENOUGH_PIDS = 16  # with which every engine has started
MAX_PIDS_LIMIT = 4_194_304  # the kernel's own ceiling for pid_max
MIN_MEMORY_BYTES = 6 << 20  # Docker's own floor
MIN_TMP_BYTES = 1 << 20  # below it there is no room for the proof of a start; 0 is "no limit" to the kernel
MIN_NANO_CPUS = 10_000_000  # Docker's own floor, a hundredth
CALL_VARIABLE = "ODEK_CALL"
"""marks the processes of one command in the sandbox"""

_SIZE = r"([1-9][0-9]*(?:\.[0-9]+)?)([bkmgBKMG]?)"
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_CPUS = r"[0-9]{1,5}(?:\.[0-9]{1,9})?"
_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,254}"
# Read-only in bash, which ends when one of them is exported; and how odek finds a command's processes.
_KEPT_NAMES = ("UID", "EUID", "PPID", "BASHOPTS", "SHELLOPTS", "BASH_VERSINFO", CALL_VARIABLE)


class Unfit(ValueError):
    """A text that is not what it must be; `hint` says what fits."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self._message = message
        self.hint = hint

    def about(self, shown: str) -> str:
        """Return what is wrong, in a sentence that quotes the text as `shown`."""
        return self._message.format(f'"{shown}"')


def parse_memory(text: str) -> int:
    """Return the bytes that a limit of memory such as "512m" or "1.5g" stands for. Raises Unfit."""
    size = _size(text)
    if size is None:
        raise Unfit(
            "{} is not an amount of memory", 'write a number with an optional unit b, k, m or g, for example "512m"'
        )
    if size < MIN_MEMORY_BYTES:
        raise Unfit(
            "a memory limit of {} is below the least that Docker accepts, 6m",
            "give the sandbox at least 64m for anything real",
        )
    return size


def parse_tmp_size(text: str) -> int:
    """Return the bytes that `text` stands for, as the size of a /tmp. Raises Unfit."""
    size = _size(text)
    if size is None or size < MIN_TMP_BYTES:
        raise Unfit(
            "{} is not a size for /tmp",
            'write at least 1m, a number with an optional unit b, k, m or g, for example "256m" or "2g"',
        )
    return size


def parse_cpus(text: str) -> int:
    """Return the billionths of a CPU that `text` ("2", "0.5") stands for; at least a hundredth. Raises Unfit."""
    nano = _scaled(text, 10**9) if _match(_CPUS, text) else 0
    if nano < MIN_NANO_CPUS:
        raise Unfit("{} is not a number of CPUs", 'write a decimal number of at least 0.01, for example "0.5" or "2"')
    return nano


def check_variable_name(name: str) -> None:
    """Raise Unfit when a shell could not export `name`, or needs it for itself."""
    if not _match(_NAME, name):
        raise Unfit(
            "{} is not a name for an environment variable",
            "use letters, digits and underscores, and begin with a letter or underscore",
        )
    if name in _KEPT_NAMES:
        raise Unfit("{} cannot be set", "the shell or odek itself uses it; choose another name")


def _size(text: str) -> int | None:
    match = _match(_SIZE, text)
    if match is None:
        return None
    size = _scaled(match.group(1), _UNITS[match.group(2).lower()]) if len(text) < 40 else 1 << 62
    return size if size < 1 << 62 else None


def _scaled(number: str, unit: int) -> int:
    """Return `number` times `unit`, exact, what is less than one left out."""
    whole, _, fraction = number.partition(".")
    parts: int = 10 ** len(fraction)
    return int(whole) * unit + int(fraction or "0") * unit // parts


def _match(pattern: str, text: str) -> re.Match[str] | None:
    import re  # the table of options needs the numbers above, and the help of a command no pattern

    return re.fullmatch(pattern, text)
