"""What a sandbox is to be, and every check of it that needs no Docker (R-8, R-30 to R-34).

Docker reads several of these values more generously than anyone means them: a pids limit of 0 or a
memory limit of 0 is "unlimited", an empty user is the image's root, a `-v` source that is missing
is made by root. They are refused here, before Docker is asked anything, so that a bad value is
never hidden behind an unreachable daemon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from odek.sandbox.engine import DOCKER, Engine
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.network.plan import NetworkPlan
from odek.sandbox_grammar import MIN_TMP_BYTES
from odek.text import visible

WORKSPACE = "/workspace"
ATTACHMENTS = "/ctx"
"""where files from outside the workspace stand that the operator attached (D-3)"""
DEFAULT_HOME = "/tmp"
DEFAULT_PIDS_LIMIT = 4096
DEFAULT_TMP_BYTES = 1 << 30
HELPER_UID = 65534  # "nobody": owns init and keep-alive, so that no command can signal them (D-10)
OTHER_HELPER_UID = 65533

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the container may use."""

    pids: int = DEFAULT_PIDS_LIMIT
    memory_bytes: int | None = None
    nano_cpus: int | None = None
    """billionths of a CPU, Docker's own unit"""
    tmp_bytes: int = DEFAULT_TMP_BYTES
    """what fits into /tmp, and into /ctx; memory, and held until the sandbox ends"""

    @property
    def settings(self) -> tuple[str, ...]:
        """the settings that they come from"""
        memory = ("sandbox_memory",) if self.memory_bytes is not None else ()
        return ("sandbox_pids_limit", *memory, *(("sandbox_cpus",) if self.nano_cpus is not None else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A host folder or file shown inside the container."""

    source: str
    target: str
    readonly: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """A sandbox ready to be started: every value checked, the image known by its full ID."""

    image: str
    """the reference, for people"""
    image_id: str
    """what Docker is given: sha256:<64 hex digits>"""
    workdir: str
    """the host folder shown at /workspace: absolute, links resolved"""
    readonly: bool
    user: str
    """whom commands run as: uid:gid, or a name of the image"""
    home: str
    limits: Limits
    env: tuple[tuple[str, str], ...] = ()
    volumes: tuple[Mount, ...] = ()
    covered: tuple[str, ...] = ()
    """places in the workspace where this machine has something mounted: the sandbox gets an empty folder there"""
    left_out: tuple[str, ...] = ()
    """those mounts, all of them, relative to the workspace"""
    image_volumes: tuple[str, ...] = ()
    """where the image declares volumes, sorted"""
    git_outside: bool = False
    """whether the workspace is of a git repository whose data lies outside of it"""
    umask: int = 0o022
    networks: NetworkPlan = field(default_factory=NetworkPlan)
    attachments: bool = False
    """whether there is a second tmpfs, for files from outside the workspace"""
    engine: Engine = DOCKER
    """what kind of engine is to start it"""
    seccomp_file: str = ""
    """odek's own filter of system calls, for the client to read; "" for the engine's"""
    workdir_id: tuple[int, int] | None = None
    """device and inode that `workdir` must still have; None: not known"""

    @property
    def helper_user(self) -> str:
        """the uid:gid that owns init and keep-alive: never the one of the commands"""
        uid = self.user.partition(":")[0]
        taken = uid == str(HELPER_UID) or uid in ("nobody", "nfsnobody")
        helper = OTHER_HELPER_UID if taken else HELPER_UID
        return f"{helper}:{helper}"


def usual_tmp_size(memory_bytes: int | None) -> int:
    """Return the size of /tmp that nobody has chosen: 1 GiB, or half of a memory limit where that is less."""
    if memory_bytes is None:
        return DEFAULT_TMP_BYTES
    return max(min(DEFAULT_TMP_BYTES, memory_bytes // 2), MIN_TMP_BYTES)


def require_small_env(pairs: tuple[tuple[str, str], ...], *, origin: str) -> None:
    """Raises SandboxConfigError when no program could be started with these variables."""
    total = 0
    for name, value in pairs:
        size = len(f"{name}={value}".encode("utf-8", "surrogateescape")) + 1  # with the NUL at its end
        total += size + _POINTER_BYTES
        if size > MAX_VARIABLE_BYTES:
            raise SandboxConfigError(
                f'the value of "{name}" is too long ({origin}: sandbox_env)',
                hint=f"name and value may have {MAX_VARIABLE_BYTES - 2} bytes together; this one has {size - 2}",
            )
    if total > MAX_ENV_BYTES:
        raise SandboxConfigError(
            f"the variables are too many ({origin}: sandbox_env)",
            hint=f"together they may have {MAX_ENV_BYTES} bytes, and {total} were given ({_POINTER_BYTES} go to each)",
        )


def parse_volume(text: str, *, origin: str) -> tuple[str, str]:
    """Return (source relative to the workspace or absolute, target without doubled or closing slashes) of
    `host:container`.

    The target is what follows the last colon, so a source may hold colons. Whether the source
    really lies inside the workspace takes a look at the disk: see workdir.resolve_volume.
    """
    source, colon, target = text.rpartition(":")
    where = f"({origin}: sandbox_volumes)"
    if not colon or not source:
        raise SandboxConfigError(
            f'volume "{visible(text)}" is not of the form host:container {where}',
            hint='for example "./.npm:/home/node/.npm"',
        )
    if not target.startswith("/") or "\0" in text or "\n" in target:
        raise SandboxConfigError(
            f'volume "{visible(text)}": the part after the last colon must be an absolute path {where}',
            hint='for example "./.npm:/home/node/.npm"; a mode such as ":ro" is not supported',
        )
    if ".." in source.split("/"):
        raise SandboxConfigError(
            f'volume "{visible(text)}": ".." is not allowed in the host part {where}',
            hint="name a folder inside the working directory",
        )
    if source.startswith("~") or "$" in source.split("/")[0]:
        raise SandboxConfigError(
            f'volume "{visible(text)}": the host part is used as it is written, "~" and "$" stand for nothing {where}',
            hint="only folders and files inside the working directory can be mounted; begin an odd name with ./",
        )
    return source, _clean_target(target, text=text, where=where)


def require_apart(volumes: Sequence[Mount], *, origin: str) -> None:
    """Refuse targets that are the same or inside each other: one would hide the other. Raises SandboxConfigError."""
    where = f"({origin}: sandbox_volumes)"
    for number, volume in enumerate(volumes):
        for other in volumes[:number]:
            if volume.target == other.target:
                raise SandboxConfigError(
                    f'two volumes have the target "{visible(volume.target)}" {where}', hint="give each its own"
                )
            outer, inner = sorted((volume.target, other.target), key=len)
            if inner.startswith(outer + "/"):
                raise SandboxConfigError(
                    f'the target "{visible(inner)}" of a volume lies in "{visible(outer)}", that of another {where}',
                    hint="choose targets that are not inside each other",
                )


def _clean_target(target: str, *, text: str, where: str) -> str:
    parts = [part for part in target.split("/") if part not in ("", ".")]
    clean = "/" + "/".join(parts)
    refused = f'volume "{visible(text)}" may not be mounted at "{visible(target)}"'
    hint = "choose a folder of its own, for example below /home or /data"
    if ".." in parts:
        raise SandboxConfigError(f'{refused}: it holds ".." {where}', hint=hint)
    if clean == WORKSPACE or clean.startswith(WORKSPACE + "/"):
        raise SandboxConfigError(f"{refused}: the working directory is there {where}", hint=hint)
    forbidden = any(clean == tree or clean.startswith(tree + "/") for tree in _FORBIDDEN_TARGETS)
    if forbidden or clean in _FORBIDDEN_FOLDERS:
        raise SandboxConfigError(f"{refused}: the system of the sandbox is there {where}", hint=hint)
    return clean
