"""How values of the sandbox's settings are written: amounts, users, networks, names of variables. Pure.

Docker reads several of them more generously than anyone means them: a limit of 0 is "unlimited", a tiny number of
CPUs enforces nothing, an empty user is the image's root. This is the only grammar: config/ parses a value with it
once, and the result is what the sandbox is made of, so `odek config view` never shows a value that a run refuses.

Every parser raises GrammarError, naming `origin`: the file and key, variable or flag that the text came from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from odek.errors import ConfigError
from odek.patterns import pattern
from odek.text import truncate, visible

DOCKERFILE = "Dockerfile.odek"
"""what a project's image is built from"""
# An exec of the engine has threads of its own in the container for a moment, more on a busy machine: with 7 one of
# eight execs failed there, with 8 none did.
MIN_PIDS_LIMIT = 16
ENOUGH_PIDS = 32  # with fewer the limit is a likely cause of a start that fails
MAX_PIDS_LIMIT = 4_194_304  # the kernel's own ceiling for pid_max
MIN_MEMORY_BYTES = 6 << 20  # Docker's own floor
MIN_TMP_BYTES = 1 << 20  # below it there is no room for the checks of a start; 0 is "no limit" to the kernel
MIN_NANO_CPUS = 10_000_000  # Docker's own floor, a hundredth
MAX_ID = 2_147_483_647
CALL_VARIABLE = "ODEK_CALL"
"""marks the processes of one command in the sandbox"""

NetworkMode = Literal["none", "bridge"]

_SIZE = pattern(r"([1-9][0-9]*(?:\.[0-9]+)?)([bkmgBKMG]?)")
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_CPUS = pattern(r"[0-9]{1,5}(?:\.[0-9]{1,9})?")
_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_ACCOUNT = pattern(r"0|[1-9][0-9]{0,9}|[A-Za-z_][A-Za-z0-9_.-]{0,31}")
# Read-only in bash, which ends when one of them is exported; and how odek finds a command's processes.
_KEPT_NAMES = ("UID", "EUID", "PPID", "BASHOPTS", "SHELLOPTS", "BASH_VERSINFO", CALL_VARIABLE)

MAX_NETWORKS = 8
MAX_NETWORK_NAME = 128
RESERVED_NETWORKS = ("host", "none", "bridge", "default")
_LOWER, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"
_ALPHANUMERIC = frozenset(_LOWER + _LOWER.upper() + _DIGITS)
_NAME_CHARACTERS = _ALPHANUMERIC | frozenset("_.-")
_PROJECT_START = frozenset(_LOWER + _DIGITS)
_PROJECT_CHARACTERS = _PROJECT_START | frozenset("_-")
_SHOWN_CHARS = 80  # of a name that a message repeats

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
PATH = rf"{_COMPONENT}(?:/{_COMPONENT})*"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
# What stands before the first slash is a registry only with a dot or a port, or as "localhost".
_DOMAIN = pattern(
    rf"(?:localhost|{_LABEL}(?:\.{_LABEL})+|(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:]+\])(?=:))(?::[0-9]+)?"
)
_REMAINDER = pattern(rf"(?P<path>{PATH})(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?P<digest>@sha256:[0-9a-f]{{64}})?")
_IMAGE_ID = pattern(r"sha256:[0-9a-f]{64}")
_HEX_ID = pattern(r"[0-9a-f]{12,64}|(?=[a-f]*[0-9])[0-9a-f]{7,11}")  # as `docker images` prints them, or less
_MAX_IMAGE_NAME = 255  # registry and path together, as Docker completes them
_DOCKER_HUB = "docker.io"
_NO_IMAGE = "scratch"  # a word of Dockerfiles: Docker never pulls it

WORKSPACE = "/workspace"
ATTACHMENTS = "/ctx"
"""where files from outside the workspace are that the operator attached (D-3)"""
_FORBIDDEN_TARGETS = (
    ATTACHMENTS, "/etc", "/tmp", "/proc", "/sys", "/dev", "/run", "/var/run", "/boot",
    # the programs and libraries that odek's own commands in there are made of
    "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32",
    "/usr/lib64", "/usr/libx32", "/usr/libexec", "/usr/local/bin", "/usr/local/sbin",
)  # fmt: skip
"""neither these nor anything below them"""
_FORBIDDEN_FOLDERS = ("/", "/usr", "/usr/local", "/usr/local/lib", "/var", "/var/lock")
"""these, but what is below them may be a target"""

MAX_VARIABLE_BYTES = 131_072  # of "NAME=VALUE" and its NUL: Linux's MAX_ARG_STRLEN, with which no program starts
MAX_ENV_BYTES = 1 << 20  # a program's arguments and variables share a quarter of its stack, which is 2 MiB
_POINTER_BYTES = 8


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


def parse_network_names(names: tuple[str, ...], origin: str) -> tuple[str, ...]:
    """Return `names`, each once, when all of them can name a network to attach. Raises GrammarError."""
    for name in names:
        if not is_network_name(name):
            raise GrammarError(
                f'"{_shown(name)}" is not the name of a network ({origin})',
                hint=f"use letters, digits, _ . and -, at most {MAX_NETWORK_NAME}; "
                "`docker network ls` lists the networks",
            )
        if name in RESERVED_NETWORKS:
            raise GrammarError(
                f'"{name}" is not a network that can be attached ({origin})',
                hint=_reserved_hint(name),
            )
    unique = tuple(dict.fromkeys(names))
    if len(unique) > MAX_NETWORKS:
        raise GrammarError(
            f"{len(unique)} networks are asked for, at most {MAX_NETWORKS} can be attached ({origin})",
            hint="name only those that the task needs, with --sandbox-networks",
        )
    return unique


def parse_compose_project(text: str, origin: str) -> str:
    """Return `text` when it can be the name of a Compose project. Raises GrammarError.

    Compose itself allows lower-case letters, digits, - and _, and writes the name into its labels.
    """
    if 0 < len(text) <= MAX_NETWORK_NAME and text[0] in _PROJECT_START and _PROJECT_CHARACTERS.issuperset(text):
        return text
    raise GrammarError(
        f'"{_shown(text)}" is not the name of a Compose project ({origin})',
        hint="use the name that `docker compose ls` shows: lower-case letters, digits, - and _",
    )


def is_network_name(text: str) -> bool:
    """Return whether `text` obeys the name rule of R-51; it says nothing of reserved names."""
    return 0 < len(text) <= MAX_NETWORK_NAME and text[0] in _ALPHANUMERIC and _NAME_CHARACTERS.issuperset(text)


def parse_reference(text: str, origin: str) -> str:
    """Return `text` when it is an image reference or a full image ID. Raises GrammarError."""
    if is_image_id(text):
        return text
    if _HEX_ID.fullmatch(text):  # Docker would look it up as the beginning of an ID, or refuse it
        raise GrammarError(
            f'"{text}" looks like an image ID, not like an image reference ({origin})',
            hint="write its name, as in NAME:TAG, or sha256: and all 64 digits (`docker images --no-trunc`)",
        )
    problem = _problem_of(text)
    if problem:
        raise GrammarError(
            f'"{visible(text[:200])}" is not an image reference ({origin}){problem}',
            hint='write NAME[:TAG][@sha256:DIGEST] in lower case, for example "python:3.12-slim", or its full ID',
        )
    return text


def is_image_id(text: str) -> bool:
    """Return whether `text` is the full, content-addressed ID of an image."""
    return _IMAGE_ID.fullmatch(text) is not None


def parse_volumes(entries: tuple[str, ...], origin: str) -> tuple[str, ...]:
    """Return `entries` when each is `host:container` as parse_volume takes it."""
    for entry in entries:
        parse_volume(entry, origin)
    return entries


def parse_volume(text: str, origin: str) -> tuple[str, str]:
    """Return (source relative to the workspace or absolute, target without doubled or closing slashes) of
    `host:container`.

    The target is what follows the last colon, so a source may hold colons. Whether the source
    really lies inside the workspace takes a look at the disk: see workdir.resolve_volume.
    """
    source, colon, target = text.rpartition(":")
    where = f"({origin})"
    if not colon or not source:
        raise GrammarError(
            f'volume "{visible(text)}" is not of the form host:container {where}',
            hint='for example "./.npm:/home/node/.npm"',
        )
    if not target.startswith("/") or "\0" in text or "\n" in target:
        raise GrammarError(
            f'volume "{visible(text)}": the part after the last colon must be an absolute path {where}',
            hint='for example "./.npm:/home/node/.npm"; a mode such as ":ro" is not supported',
        )
    if ".." in source.split("/"):
        raise GrammarError(
            f'volume "{visible(text)}": ".." is not allowed in the host part {where}',
            hint="name a folder inside the working directory",
        )
    if source.startswith("~") or "$" in source.split("/")[0]:
        raise GrammarError(
            f'volume "{visible(text)}": the host part is used as it is written, "~" and "$" stand for nothing {where}',
            hint="only folders and files inside the working directory can be mounted; begin an odd name with ./",
        )
    return source, _clean_target(target, text=text, where=where)


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


def require_small_env(pairs: tuple[tuple[str, str], ...], origin: str) -> None:
    """Raises GrammarError when no program could be started with these variables."""
    total = 0
    for name, value in pairs:
        size = len(f"{name}={value}".encode("utf-8", "surrogateescape")) + 1  # with the NUL at its end
        total += size + _POINTER_BYTES
        if size > MAX_VARIABLE_BYTES:
            raise GrammarError(
                f'the value of "{name}" is too long ({origin})',
                hint=f"name and value may have {MAX_VARIABLE_BYTES - 2} bytes together; this one has {size - 2}",
            )
    if total > MAX_ENV_BYTES:
        raise GrammarError(
            f"the variables are too many ({origin})",
            hint=f"together they may have {MAX_ENV_BYTES} bytes, and {total} were given ({_POINTER_BYTES} go to each)",
        )


def _problem_of(text: str) -> str:
    """Return what is wrong with a reference, to be read after the sentence that says so; "" for nothing."""
    domain, slash, rest = text.partition("/")
    if not slash or not _is_domain(domain):
        domain, rest = _DOCKER_HUB, text
    match = _REMAINDER.fullmatch(rest)
    if match is None or text.startswith("sha256:"):
        return ": capitals are allowed in a tag only" if _REMAINDER.fullmatch(rest.lower()) else ": it cannot be read"
    path = match["path"]
    if domain in (_DOCKER_HUB, f"index.{_DOCKER_HUB}"):
        domain, path = _DOCKER_HUB, path if "/" in path else f"library/{path}"
        if path == f"library/{_NO_IMAGE}":
            return f': "{_NO_IMAGE}" is a word of Dockerfiles and names no image'
    length = len(domain) + len("/") + len(path)
    return f": its name of {length} characters is longer than {_MAX_IMAGE_NAME}" if length > _MAX_IMAGE_NAME else ""


def _is_domain(text: str) -> bool:
    return _DOMAIN.fullmatch(text) is not None


def is_system_target(path: str) -> bool:
    """Return whether nothing may be mounted at `path`, normalized, because the sandbox has something there."""
    trees = (WORKSPACE, *_FORBIDDEN_TARGETS)
    return path in _FORBIDDEN_FOLDERS or any(path == tree or path.startswith(tree + "/") for tree in trees)


def _clean_target(target: str, *, text: str, where: str) -> str:
    parts = [part for part in target.split("/") if part not in ("", ".")]
    clean = "/" + "/".join(parts)
    refused = f'volume "{visible(text)}" may not be mounted at "{visible(target)}"'
    hint = "choose a folder of its own, for example below /home or /data"
    if ".." in parts:
        raise GrammarError(f'{refused}: it holds ".." {where}', hint=hint)
    if clean == WORKSPACE or clean.startswith(WORKSPACE + "/"):
        raise GrammarError(f"{refused}: the working directory is there {where}", hint=hint)
    if is_system_target(clean):
        raise GrammarError(f"{refused}: the system of the sandbox is there {where}", hint=hint)
    return clean


def _reserved_hint(name: str) -> str:
    if name == "bridge":
        return "for the internet use --sandbox-network bridge; it can be combined with attached networks"
    return "name a network that `docker network create` or Compose has made"


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


def _shown(text: str) -> str:
    return truncate(visible(text), _SHOWN_CHARS)
