"""What a sandbox is to be, as the settings and the look-ups of a start have it (R-8, R-30 to R-34).

The values are checked when they get here, before Docker is asked anything, so that a bad value is never hidden
behind an unreachable daemon: their grammar and their least and most in sandbox_grammar.py, volumes and the
working directory in workdir.py. argv.py makes the command line of it, container/verify.py compares what Docker did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from odek.sandbox.engine import DOCKER, Engine
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.network.plan import NetworkPlan
from odek.sandbox_grammar import MIN_TMP_BYTES, WORKSPACE
from odek.text import visible

DEFAULT_HOME = "/tmp"
DEFAULT_PIDS_LIMIT = 4096
DEFAULT_TMP_BYTES = 1 << 30
HELPER_UID = 65534  # "nobody": owns init and keep-alive, so that no command can signal them (D-10)
OTHER_HELPER_UID = 65533


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
        """the settings of those that an engine may be unable to enforce (check_engine); any engine bounds a tmpfs"""
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
    git: Mount | None = None
    """data of the workspace's git repository that lies outside of it and is shared, read-only"""
    git_outside: bool = False
    """whether the workspace is of a git repository whose data lies outside of it and is not shared"""
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
    def mounts(self) -> tuple[Mount, ...]:
        """every part of this machine that it shows, the workspace first"""
        whole = Mount(source=self.workdir, target=WORKSPACE, readonly=self.readonly)
        return (whole, *self.volumes, *((self.git,) if self.git else ()))

    @property
    def helper_user(self) -> str:
        """the uid:gid that owns init and keep-alive: never the one of the commands"""
        uid = self.user.partition(":")[0]
        taken = uid == str(HELPER_UID) or uid in ("nobody", "nfsnobody")
        helper = OTHER_HELPER_UID if taken else HELPER_UID
        return f"{helper}:{helper}"


Narrow = Callable[[SandboxSpec], SandboxSpec]
"""what is to be started → the same with less; raises OdekError"""


def as_planned(spec: SandboxSpec) -> SandboxSpec:
    """Return `spec`: nothing is given up."""
    return spec


def usual_tmp_size(memory_bytes: int | None) -> int:
    """Return the size of /tmp where none was chosen: 1 GiB, or half of a memory limit where that is less."""
    if memory_bytes is None:
        return DEFAULT_TMP_BYTES
    return max(min(DEFAULT_TMP_BYTES, memory_bytes // 2), MIN_TMP_BYTES)


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
