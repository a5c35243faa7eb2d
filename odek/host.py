"""The machine and the process odek was started in, read once: the only place that reads os.environ."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from odek.errors import OdekError
from odek.operator_home import OperatorHome, find_operator_home, repositories_around
from odek.safefile import is_inside


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What odek knows about where it runs; tests build it by hand."""

    env: Mapping[str, str]
    cwd: str
    """absolute, links resolved"""
    home: str
    """absolute; "" when there is none"""
    uid: int
    gid: int
    pid: int
    stdin_is_terminal: bool
    stdout_is_terminal: bool
    stderr_is_terminal: bool
    umask: int = 0o022
    cwd_id: tuple[int, int] | None = None
    """device and inode of the folder that `cwd` names; None: not known"""

    @property
    def operator_home(self) -> OperatorHome:
        """Where the operator's files are. Raises StateFileError when a variable names no such place."""
        return find_operator_home(home=self.home, env=self.env, uid=self.uid, cwd=self.cwd)

    @classmethod
    def capture(cls) -> Host:
        """Return the facts of this process. Raises OdekError when the working directory is gone."""
        try:
            cwd = os.path.realpath(os.getcwd())
            here = os.stat(".")  # the folder itself, whatever its name leads to by now
        except OSError as error:
            raise OdekError(
                f"the working directory cannot be read: {error.strerror}",
                hint="change into a directory that exists",
            ) from error
        env = dict(os.environ)
        return cls(
            env=env,
            cwd=cwd,
            home=_home(env),
            uid=os.getuid(),
            gid=os.getgid(),
            pid=os.getpid(),
            stdin_is_terminal=_is_terminal(0),
            stdout_is_terminal=_is_terminal(1),
            stderr_is_terminal=_is_terminal(2),
            umask=_read_umask(),
            cwd_id=(here.st_dev, here.st_ino),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """Tells one process from every other, also after a reboot or a reused pid."""

    pid: int
    start_ticks: str
    """clock ticks from boot to the start of the process (proc(5), stat field 22); "" if unknown"""
    boot_id: str
    pid_namespace: str


def read_identity(pid: int) -> ProcessIdentity | None:
    """Return who `pid` is now, or None when no such process exists."""
    stat = _read_proc(f"/proc/{pid}/stat")
    if not stat:
        return None
    return ProcessIdentity(
        pid=pid,
        # the command name stands in parentheses and may itself hold blanks and parentheses
        start_ticks=stat.rpartition(")")[2].split()[19],
        boot_id=_read_proc("/proc/sys/kernel/random/boot_id").strip(),
        pid_namespace=_pid_namespace(),
    )


def moved(host: Host, folder: str) -> Host:
    """Return `host` as if odek had been started in `folder`."""
    status = os.stat(folder)
    return replace(host, cwd=os.path.realpath(folder), cwd_id=(status.st_dev, status.st_ino))


def hide_variables(is_secret: Callable[[str], bool]) -> None:
    """Overwrite, where /proc/PID/environ shows them, the values of this process's variables with a secret name.

    What was read of them before stays (Host.env). A command on the host could show them otherwise, by its parent's
    pid. Where the kernel does not let a process write its own memory by /proc, they stay.
    """
    fields = _read_proc("/proc/self/stat").rpartition(")")[2].split()
    try:
        place = int(fields[47])  # proc(5): env_start, field 50 of which the first two are cut off
        with open("/proc/self/environ", "rb") as file:
            entries = file.read().split(b"\0")
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            for entry in entries:
                name, equals, value = entry.partition(b"=")
                if equals and value and is_secret(name.decode("utf-8", "replace")):
                    memory.seek(place + len(name) + 1)
                    memory.write(bytes(len(value)))
                place += len(entry) + 1
    except (OSError, ValueError, IndexError):
        return


def start_of(pid: int) -> str | None:
    """Return when the living process `pid` was started, in clock ticks since the boot; None when there is none."""
    found = read_identity(pid)
    return found.start_ticks if found else None


def home_of_owner(folder: str) -> str:
    """Return the home, as the machine's list of users has it, of who owns `folder`; "" when that is not known."""
    try:
        return pwd.getpwuid(os.stat(folder).st_uid).pw_dir
    except (OSError, KeyError):
        return ""


def which(program: str, host: Host) -> str | None:
    """Return the absolute path of `program` on the part of PATH that `trusted_path` leaves.

    A link into the project does not count either: an untrusted checkout must not supply the `docker`
    that is to contain it (R-92).
    """
    root = project_root(host)
    for folder in filter(None, trusted_path(host).split(os.pathsep)):
        candidate = os.path.join(folder, program)
        is_program = os.path.isfile(candidate) and os.access(candidate, os.X_OK)
        if is_program and _leads_outside(candidate, root):
            return candidate
    return None


def trusted_path(host: Host) -> str:
    """Return PATH without the entries that are empty, relative, or lead into the project.

    Our own children look for programs as well: docker for its credential helpers and for ssh.
    """
    root = project_root(host)
    folders = host.env.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if os.path.isabs(folder) and _leads_outside(folder, root))


def project_root(host: Host) -> str:
    """Return the folder whose programs are the project's: the outermost checkout around the working directory.

    Started in a subfolder, a submodule or a repository inside of another one, odek must not trust
    `node_modules/.bin` of the checkout above it either. A repository that is the home itself (dotfiles)
    is the user's own and does not count; one that holds the home is what a checkout in CI looks like.
    """
    home = _real_path(host.home) if host.home else None
    around = [folder for folder in repositories_around(host.cwd) if folder not in (home, host.home)]
    return around[-1] if around else host.cwd


def _leads_outside(path: str, folder: str) -> bool:
    """Return whether `path` is known to lead to something that is not in `folder`."""
    real = _real_path(path)
    return real is not None and (folder == "/" or not is_inside(real, folder))


def _real_path(path: str) -> str | None:
    """Return `path` without links; None where that is unknown: a link may lead where no one may look."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return None


def _home(env: Mapping[str, str]) -> str:
    home = env.get("HOME", "")
    if os.path.isabs(home):
        return home
    import pwd  # needed only when HOME is missing or relative

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def _read_umask() -> int:
    umask = os.umask(0o077)  # there is no call that only reads it
    os.umask(umask)
    return umask


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def _read_proc(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
