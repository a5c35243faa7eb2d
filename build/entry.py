"""First code of the binary: undoes what its bootloader did to the environment, then odek.

Everything that odek starts must find the user's own environment (R-94): docker, its credential helpers
and ssh would otherwise load the libraries of the binary.
"""

from __future__ import annotations

import _signal

# from the first line on, a Ctrl-C ends it as the shell expects, without a traceback of imports
if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import fcntl
import os
import stat
import sys
import time

_GUARD_INTERVAL_S = 0.5
_UNCLAIMED_S = 600.0
"""a folder that no odek has claimed for so long is not being unpacked any more"""
_CLAIM = "in-use"
"""file in the folder of an odek that has begun to run, locked as long as it does"""
_FOLDER = "_MEI"
_TWINS_S = 0.2
"""a stop that the terminal and the bootloader both pass on arrives twice within this time"""
AS_PYTHON = ["-I", "-S", "-c"]


def restore(env: dict[str, str] | os._Environ[str], before: dict[str, str]) -> None:
    """Give `env` back what the bootloader and PyInstaller's own start changed in it.

    `before` is what this process was started with: there, the bootloader keeps the user's value of
    LD_LIBRARY_PATH under another name, and VIRTUAL_ENV is still there.
    """
    for name in [name for name in env if name.startswith("_PYI_")]:
        del env[name]
    env.pop("LD_LIBRARY_PATH", None)
    mine = env.pop("LD_LIBRARY_PATH_ORIG", None)
    if mine is not None:
        env["LD_LIBRARY_PATH"] = mine
    if "VIRTUAL_ENV" in before:
        env["VIRTUAL_ENV"] = before["VIRTUAL_ENV"]


def read_environment() -> dict[str, str]:
    """Return the environment that this process was started with, {} where that cannot be read."""
    try:
        with open("/proc/self/environ", "rb") as file:
            pairs = [os.fsdecode(pair).partition("=") for pair in file.read().split(b"\0") if b"=" in pair]
    except OSError:
        return {}
    return {name: value for name, _, value in pairs}


def prepare_imports() -> None:
    """Read modules from the file that was started, also when another one takes its name (an upgrade)."""
    import pyimod02_importers  # of PyInstaller, in the binary

    import odek

    archive = pyimod02_importers.pyz_archive
    opened = os.open(sys.executable, os.O_RDONLY | os.O_CLOEXEC)
    # above the standard streams, one of which may be closed
    kept = f"/proc/self/fd/{fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, 3)}"
    os.close(opened)
    if os.path.exists(kept):
        archive._filename = kept
    # for `odek selftest`
    odek.__loader__.module_names = lambda: list(archive.toc)  # type: ignore[union-attr]


def bootloader_of(folder: str) -> int:
    """Return the process that unpacked into `folder`: its id stands in the name, in 8 hexadecimal digits."""
    return int(os.path.basename(folder).removeprefix("_MEI")[:8], 16)


def claim(folder: str) -> int:
    """Lock the folder of this odek until its end, however it ends. Returns the descriptor with the lock, or -1."""
    try:
        opened = os.open(os.path.join(folder, _CLAIM), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return opened
    except OSError:  # a full disk: nobody will think it dead as long as its bootloader lives
        return -1


def is_abandoned(folder: str, user: int, now: float) -> bool:
    """Return whether `folder` is what a killed odek has unpacked, and no living one uses it.

    A lock holds in every namespace of processes; the process in the name may be of another one, so for a folder without
    a claim, which may be being unpacked, its age counts too.
    """
    try:
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != user or not os.path.isdir(os.path.join(folder, "odek")):
            return False
        try:
            opened = os.open(os.path.join(folder, _CLAIM), os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return now - found.st_mtime > _UNCLAIMED_S and not os.path.exists(f"/proc/{bootloader_of(folder)}")
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(opened)
    except (OSError, ValueError):  # in use, gone meanwhile, or another program's
        return False
    return True


def sweep(own: str) -> None:
    """Remove what killed odeks have left next to the folder `own`."""
    place, mine = os.path.split(own)
    try:
        names = [name for name in os.listdir(place) if name.startswith(_FOLDER) and name != mine]
    except OSError:
        return
    for name in names:
        folder = os.path.join(place, name)
        if is_abandoned(folder, os.geteuid(), time.time()):
            import shutil

            shutil.rmtree(folder, ignore_errors=True)


def guard(bootloader: int) -> None:
    """End odek as SIGTERM would when the bootloader above it is killed: nothing could end it any more."""
    while os.getppid() == bootloader:
        time.sleep(_GUARD_INTERVAL_S)
    os.kill(os.getpid(), _signal.SIGTERM)


def stop_as_one(bootloader: int) -> None:
    """Let what stops odek (Ctrl-Z, a question in the background) stop its bootloader, too.

    A shell waits for the bootloader alone, and would not see that the job has stopped.
    """
    resumed = 0.0

    def stop(_number: int, _frame: object) -> None:
        nonlocal resumed
        if time.monotonic() - resumed < _TWINS_S or is_orphaned(bootloader):
            return
        os.kill(bootloader, _signal.SIGSTOP)
        os.kill(os.getpid(), _signal.SIGSTOP)
        resumed = time.monotonic()

    for number in (_signal.SIGTSTP, _signal.SIGTTIN, _signal.SIGTTOU):
        if _signal.getsignal(number) is _signal.SIG_DFL:
            _signal.signal(number, stop)


def is_orphaned(bootloader: int) -> bool:
    """Return whether no shell is there to resume this job: then the kernel does not stop it either."""
    try:
        with open(f"/proc/{bootloader}/stat", "rb") as file:
            parent = int(file.read().rpartition(b")")[2].split()[1])
        return os.getsid(parent) != os.getsid(0) or os.getpgid(parent) == os.getpgrp()
    except (OSError, ValueError, IndexError):
        return True


def start() -> None:
    """Run odek, which ends this process."""
    restore(os.environ, read_environment())
    if sys.argv[1:4] == AS_PYTHON and len(sys.argv) > 4:
        # sys.executable is this file: odek starts it for a search that may have to be killed (tools/regex_worker.py)
        code, sys.argv[:] = sys.argv[4], ["-c", *sys.argv[5:]]
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102
        return
    prepare_imports()
    import _thread

    folder: str = sys._MEIPASS  # type: ignore[attr-defined]
    claim(folder)
    sweep(folder)
    stop_as_one(bootloader_of(folder))
    _thread.start_new_thread(guard, (bootloader_of(folder),))
    from odek.cli.main import start as start_odek

    start_odek(sys.argv[1:])


if __name__ == "__main__":
    start()
