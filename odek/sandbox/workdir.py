"""Which host folders may be shown to the container: the checks that must look at the disk (R-33, R-34)."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING

from odek import safefile
from odek.safefile import is_inside
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox_grammar import parse_volume
from odek.text import visible

if TYPE_CHECKING:
    from odek.sandbox.mounts import MountPoint
    from odek.sandbox.spec import Mount

# Folders whose content is the machine, not a project: programs that everybody runs, sockets, state.
_SYSTEM_TREES = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/proc", "/run", "/sbin", "/snap",
    "/sys", "/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/libx32", "/usr/sbin",
    "/usr/local/bin", "/usr/local/lib", "/usr/local/sbin",
    "/var/lib/containerd", "/var/lib/containers", "/var/lib/docker", "/var/lib/kubelet", "/var/lib/rancher",
    "/var/lib/systemd", "/var/lock", "/var/run", "/var/snap/docker", "/var/spool/cron",
    "/Applications", "/Library", "/System", "/private/etc", "/private/var/db", "/private/var/run",
)  # fmt: skip
_SYSTEM_FOLDERS = frozenset(
    (
        "/", "/home", "/opt", "/root", "/srv", "/usr", "/usr/local", "/usr/share", "/var", "/var/lib", "/var/log",
        "/var/snap", "/var/spool", "/Users", "/Volumes", "/private", "/private/var",
    )
)  # fmt: skip
# Below a home: keys, what is run at the next login, and where Docker of that user keeps itself.
_OF_A_HOME = (
    ".ssh", ".gnupg", ".aws", ".kube", ".password-store", ".config/systemd", ".config/autostart", ".local/bin",
    ".local/share/systemd", ".local/share/docker", ".local/share/containers", ".local/share/keyrings",
    ".colima", ".lima", ".orbstack", ".rd", "Library/LaunchAgents", "Library/Keychains",
)  # fmt: skip
_NOT_SYSTEM = ("/dev/shm/", "/run/media/")
# Every program of the machine leaves sockets, locks and secrets in them; a project in a folder below is fine.
_SHARED_FOLDERS = frozenset(("/tmp", "/var/tmp", "/dev/shm", "/run/shm", "/private/tmp", "/private/var/tmp"))
# O_NONBLOCK, where there is no O_PATH: a named pipe that was put there must not be waited for
_ENTRY_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)
_DOCKER_SOCKETS = ("/var/run/docker.sock", "/run/docker.sock")


def check_workdir(
    workdir: str,
    *,
    home: str,
    docker_host: str,
    docker_config: str = "",
    home_of_owner: str = "",
    operator_folder: str = "",
) -> None:
    """Refuse to share a folder that holds the keys to the machine, to a user's account or to odek itself.

    `workdir` has its links resolved. `docker_host` and `docker_config` are the variables DOCKER_HOST
    and DOCKER_CONFIG, `home_of_owner` is the home of who owns the folder, `operator_folder` is what
    ODEK_HOME names; "" where there is none.
    Raises SandboxConfigError.
    """
    hint = "change into the folder of a project"
    require_mountable(workdir, "the working directory")
    if workdir in _SHARED_FOLDERS:
        raise SandboxConfigError(
            f'"{visible(workdir)}" is shared by all programs of this machine: sharing it would hand over their sockets '
            "and files",
            hint=f"make a folder for the project below it: mkdir {visible(workdir)}/project",
        )
    in_tree = any(is_inside(workdir, tree) for tree in _SYSTEM_TREES) and not workdir.startswith(_NOT_SYSTEM)
    if in_tree or workdir in _SYSTEM_FOLDERS:
        raise SandboxConfigError(
            f'"{visible(workdir)}" is part of the system and is not shared with a sandbox', hint=hint
        )
    for shown, folder in (("~/.odek", os.path.join(home, ".odek") if home else ""), ("ODEK_HOME", operator_folder)):
        state = os.path.realpath(folder) if folder else ""
        if state and (is_inside(state, workdir) or is_inside(workdir, state)):
            where = "holds" if is_inside(state, workdir) else "is inside"
            raise SandboxConfigError(
                f'"{visible(workdir)}" {where} {shown}: sharing it would hand odek\'s settings and approvals to the '
                "sandbox",
                hint=hint,
            )
    client = docker_config or (os.path.join(home, ".docker") if home else "")
    settings = os.path.realpath(os.path.join(workdir, client)) if client else ""
    if settings and (is_inside(settings, workdir) or is_inside(workdir, settings)):
        raise SandboxConfigError(  # they name programs that the client runs here: plugins, credential helpers
            f'"{visible(workdir)}" holds the settings of Docker\'s client ({visible(settings)}), which name programs '
            "that it runs on this host",
            hint="keep them outside the project: DOCKER_CONFIG names another folder",
        )
    for whose in dict.fromkeys((home, home_of_owner)):
        _check_home(workdir, whose, hint=hint)
    sockets = (*_DOCKER_SOCKETS, docker_host.removeprefix("unix://") if docker_host.startswith("unix://") else "")
    for socket in sockets:
        if socket and is_inside(os.path.realpath(socket), workdir):
            raise SandboxConfigError(
                f'"{visible(workdir)}" holds the Docker socket {visible(socket)}: sharing it hands over the machine',
                hint=hint,
            )


def _check_home(workdir: str, home: str, *, hint: str) -> None:
    """Refuse a home, what holds one, and those parts of one that a sandbox must not write."""
    if not home.startswith("/"):
        return
    if is_inside(os.path.realpath(home), workdir):
        raise SandboxConfigError(
            f'"{visible(workdir)}" is or holds the home {visible(home)}: sharing it would hand over keys and '
            "start files",
            hint=hint,
        )
    for name in _OF_A_HOME:
        part = os.path.realpath(os.path.join(home, name))
        if is_inside(part, workdir) or is_inside(workdir, part):
            raise SandboxConfigError(
                f'"{visible(workdir)}" is, is in or holds {visible(os.path.join(home, name))}: that holds keys, or '
                "programs that are run later",
                hint=hint,
            )


def open_workdir(workdir: str, identity: tuple[int, int] | None) -> int:
    """Return a descriptor of the working directory, through which its files can be made and removed.

    Raises SandboxConfigError when it is gone, or no longer the folder with that device and inode:
    who may write the folder above it can put another one, or a link, in its place.
    """
    try:
        descriptor = os.open(workdir, safefile.WALK_FLAGS)
    except OSError as error:
        raise SandboxConfigError(
            f'the working directory "{visible(workdir)}" cannot be read: {error.strerror}',
            hint="change into a directory that exists",
        ) from error
    status = os.fstat(descriptor)
    if identity is not None and (status.st_dev, status.st_ino) != identity:
        os.close(descriptor)
        raise SandboxConfigError(
            f'"{visible(workdir)}" is another folder than the one in which odek was started',
            hint="find out who exchanged it, then change into the right one and start again",
        )
    return descriptor


def open_source(folder: int, relative: str) -> int:
    """Return a descriptor of what lies at `relative` in the open `folder`, no link on any component.

    "." is the folder itself. Raises OSError.
    """
    current = os.dup(folder)
    parts = [part for part in relative.split("/") if part not in ("", ".")]
    for number, part in enumerate(parts, start=1):
        flags = safefile.WALK_FLAGS if number < len(parts) else _ENTRY_FLAGS
        try:
            below = os.open(part, flags, dir_fd=current)
        finally:
            os.close(current)
        current = below
    if stat.S_ISLNK(os.fstat(current).st_mode):  # O_PATH opens a link as such
        os.close(current)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), relative)
    return current


def require_same_workdir(workdir: str, identity: tuple[int, int] | None) -> None:
    """Raise SandboxConfigError as `open_workdir` does."""
    os.close(open_workdir(workdir, identity))


def resolve_volume(text: str, *, workdir: str, origin: str) -> tuple[Mount, bool]:
    """Return the mount that a `sandbox_volumes` entry asks for, and whether its source must be made.

    Every component of the source must be a real entry inside `workdir`: no link, no `..`.
    """
    where = f"({origin}: sandbox_volumes)"
    source, target = parse_volume(text, f"{origin}: sandbox_volumes")
    require_mountable(source, f"the host part of a volume {where}")
    path = os.path.normpath(os.path.join(workdir, source))
    if not is_inside(path, workdir):
        raise SandboxConfigError(
            f'volume "{visible(text)}": the host part lies outside the working directory {where}',
            hint="only folders and files inside the working directory can be mounted",
        )
    missing = False
    current = workdir
    for component in os.path.relpath(path, workdir).split("/"):
        current = os.path.normpath(os.path.join(current, component))
        try:
            mode = os.lstat(current).st_mode
        except FileNotFoundError:
            missing = True
            break
        except OSError as error:
            raise SandboxConfigError(
                f'volume "{visible(text)}": "{visible(current)}" cannot be looked at: {error.strerror} {where}',
                hint="name another folder, or open this one to you",
            ) from error
        if stat.S_ISLNK(mode):
            raise SandboxConfigError(
                f'volume "{visible(text)}": "{visible(current)}" is a symbolic link {where}',
                hint="name the folder itself",
            )
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            raise SandboxConfigError(
                f'volume "{visible(text)}": "{visible(current)}" is neither a file nor a folder {where}',
                hint="only files and folders can be mounted",
            )
    from odek.sandbox.spec import Mount  # brings the engine along, which a look at the folder alone does not need

    return Mount(source=path, target=target), missing


def require_own_files(
    volumes: Sequence[Mount],
    workdir: str,
    here: Sequence[MountPoint],
    *,
    below: Sequence[str],
    by_project: bool,
    origin: str,
) -> None:
    """Refuse volumes that are no files of the working directory but of what is mounted below it. Pure.

    An approval of "./rootfs" does not show that all of the machine is mounted there; the operator may say so.
    `here` are the mounts of this process, `below` those in `workdir`. Raises SandboxConfigError.
    """
    from odek.sandbox.mounts import KERNEL_KINDS, kind_at  # for volumes alone

    for volume in volumes:
        kind = kind_at(volume.source, here)
        crosses = any(is_inside(volume.source, os.path.join(workdir, path)) for path in below)
        if kind in KERNEL_KINDS or (crosses and by_project):
            raise SandboxConfigError(
                f'"{visible(volume.source)}" is not of the working directory: it is mounted there ({kind}) '
                f"({origin}: sandbox_volumes)",
                hint="" if kind in KERNEL_KINDS else "to share it all the same, name it in ~/.odek/config.json",
            )


def require_mountable(path: str, what: str) -> None:
    """Refuse a path that would reach the daemon as another one (R-34). Raises SandboxConfigError.

    The client sends text, so bytes that are not UTF-8 are lost; and its reader of `--mount` turns a
    carriage return and line feed into a line feed.
    """
    broken = next((repr(char)[1:-1] for char in path if "\ud800" <= char <= "\udfff"), "")
    if not broken and "\r\n" in path:
        broken = "\\r\\n"
    if broken:
        raise SandboxConfigError(
            f'{what} cannot be mounted: Docker does not take the characters {broken} in "{visible(path)}"',
            hint="rename the folder",
        )
