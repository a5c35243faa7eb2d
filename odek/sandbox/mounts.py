"""What is mounted where, as the kernel shows it: the proof that mounts are what was asked for (R-33, R-37).

Docker goes by names, as root, and a name may lead elsewhere by the time it is used. What was mounted
does not change any more, and /proc/PID/mountinfo of the container's first process tells of each mount
which file of which file system it shows. Compared with the folders that odek holds open, that is the
identity of a mount, shown by the kernel: no program of the image has a part in it, and any user may read
it. `docker cp` would not do: the daemon resolves the sources anew for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from odek.patterns import pattern

_ESCAPE = pattern(rb"\\([0-7]{3})")  # proc(5): blank, tab, line end and backslash
_ENGINES_FILES = ("/etc/hostname", "/etc/hosts", "/etc/resolv.conf")
"""what an engine mounts into a container from a folder that has the container's ID for a name"""
KERNEL_KINDS = frozenset(
    (
        "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs",
        "fusectl", "mqueue", "nsfs", "proc", "pstore", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs", "tracefs",
    )
)  # fmt: skip
"""file systems that are the machine itself, and no files"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountPoint:
    """One line of mountinfo (proc(5)). Bytes that are not UTF-8 are surrogate escapes."""

    number: int
    device: str
    """major:minor of the file system"""
    root: str
    """what of the file system is shown, as a path within it"""
    target: str
    """where, as a path for the process"""
    options: frozenset[str]
    kind: str
    """type of the file system"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A file or folder by its place within its file system. At any one time no two have the same."""

    device: str
    root: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A mount as it was asked for."""

    source: str
    """for messages"""
    target: str
    readonly: bool
    place: Place | None
    """None where the file system does not tell it"""


def read_mounts(pid: int | str) -> tuple[MountPoint, ...]:
    """Return the mounts that the process `pid` (or "self") sees, in order; () where that is not known."""
    try:
        with open(f"/proc/{pid}/mountinfo", "rb") as file:
            return parse_mounts(file.read())
    except OSError:
        return ()


def parse_mounts(data: bytes) -> tuple[MountPoint, ...]:
    """Return the mounts of a mountinfo; lines of another form are left out. Pure."""
    return tuple(_parse_lines(data))


def place_of(descriptor: int, here: Sequence[MountPoint]) -> Place | None:
    """Return where the open file or folder is; `here` are the mounts of this process.

    None where it is not known: /proc is missing, this process is in a chroot, or the file system
    (NFS) calls whatever is mounted its root.
    """
    try:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii", errors="replace") as file:
            words = dict(line.partition(":")[::2] for line in file)
        number = int(words.get("mnt_id", ""))
    except (OSError, ValueError):
        return None
    mount = next((mount for mount in here if mount.number == number), None)
    if mount is None or mount.kind.startswith("nfs") or not is_inside(path, mount.target):
        return None
    rest = path[len(mount.target.rstrip("/")) :].strip("/")
    return Place(device=mount.device, root=f"{mount.root.rstrip('/')}/{rest}".rstrip("/") or "/")


def kind_at(path: str, here: Sequence[MountPoint]) -> str:
    """Return the kind of file system that `path` (absolute, without links) lies in, "" if not known. Pure."""
    around = [
        (len(mount.target), number, mount.kind) for number, mount in enumerate(here) if is_inside(path, mount.target)
    ]
    return max(around)[2] if around else ""  # of two at one place the later one shows


def mounts_below(folder: str, here: Iterable[MountPoint]) -> tuple[str, ...]:
    """Return the mount points in `folder`, as paths relative to it: of those inside each other the outer one. Pure."""
    prefix = folder.rstrip("/") + "/"
    found = sorted(
        {mount.target[len(prefix) :] for mount in here if mount.target.startswith(prefix) and mount.target != prefix}
    )
    outer: list[str] = []
    for path in found:
        if not any(is_inside(path, above) for above in outer):
            outer.append(path)
    return tuple(outer)


def kernel_mounts_below(folder: str, here: Iterable[MountPoint]) -> frozenset[str]:
    """Return where a part of the machine itself, such as /proc, is mounted in `folder`, relative to it. Pure."""
    return frozenset(mounts_below(folder, (mount for mount in here if mount.kind in KERNEL_KINDS)))


def are_of_container(inside: Sequence[MountPoint], container_id: str) -> bool:
    """Return whether those are the mounts of that container. Pure.

    The number that Docker tells is of the daemon's machine; here it may be another process, or none.
    """
    part = f"/{container_id}/"
    return len(container_id) == 64 and any(mount.target in _ENGINES_FILES and part in mount.root for mount in inside)


def shares_memory(inside: Sequence[MountPoint], here: Sequence[MountPoint], folder: str) -> bool:
    """Return whether the memory mounted at `folder` in a container is this machine's own there. Pure."""
    own = {mount.device for mount in here if mount.target == folder}
    # where this machine has a plain folder there, a disk shows in the container
    return any(mount.target == folder and (mount.kind != "tmpfs" or mount.device in own) for mount in inside)


def displaced(
    inside: Sequence[MountPoint], expected: Sequence[Expected], *, covered: Sequence[str], tmpfs: Sequence[str]
) -> tuple[str, ...]:
    """Return how the mounts of a container differ from what was asked for, one sentence each. Pure.

    `covered` are the places that hold an empty read-only tmpfs, `tmpfs` those of the other ones.
    """
    return tuple(_differences(inside, expected, covered, tmpfs))


def _differences(
    inside: Sequence[MountPoint], expected: Sequence[Expected], covered: Sequence[str], tmpfs: Sequence[str]
) -> Iterator[str]:
    asked = {each.target for each in expected} | set(covered) | set(tmpfs)
    for each in expected:
        found = [mount for mount in inside if mount.target == each.target]
        if len(found) != 1:
            yield f"{each.target}: {len(found)} mounts, where one was asked for; the image may have a link there"
        elif each.place is not None and (found[0].device, found[0].root) != (each.place.device, each.place.root):
            yield f"{each.target} is not {each.source}: it shows {found[0].root} of device {found[0].device}"
        elif each.readonly and "ro" not in found[0].options:
            yield f"{each.target} is writable"
    for target in covered:
        found = [mount for mount in inside if mount.target == target]
        if len(found) != 1 or found[0].kind != "tmpfs" or "ro" not in found[0].options:
            yield f"{target} is not covered"
    shared = [each.target for each in expected] + list(tmpfs)
    for mount in inside:
        if mount.target not in asked and any(is_inside(mount.target, target) for target in shared):
            yield f"{mount.target} is another mount, of the image's"


def is_inside(path: str, folder: str) -> bool:
    """Return whether `path` is `folder` or in it, by their letters. Pure."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _parse_lines(data: bytes) -> Iterator[MountPoint]:
    for line in data.split(b"\n"):
        fields = line.split(b" ")
        if len(fields) < 10 or b"-" not in fields[6:]:
            continue
        device, root, target = (_unescape(field) for field in fields[2:5])
        kind = fields[6 + fields[6:].index(b"-") + 1 :][:1]
        if fields[0].isdigit() and kind:
            yield MountPoint(
                number=int(fields[0]),
                device=device,
                root=root,
                target=target,
                options=frozenset(os.fsdecode(fields[5]).split(",")),
                kind=os.fsdecode(kind[0]),
            )


def _unescape(field: bytes) -> str:
    return os.fsdecode(_ESCAPE.sub(lambda match: bytes((int(match[1], 8) & 0xFF,)), field))
