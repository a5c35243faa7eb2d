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
import sys
import time

_GUARD_INTERVAL_S = 0.5
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


def guard(bootloader: int) -> None:
    """End odek as SIGTERM would when the bootloader above it is killed: nothing could end it any more."""
    while os.getppid() == bootloader:
        time.sleep(_GUARD_INTERVAL_S)
    os.kill(os.getpid(), _signal.SIGTERM)


def start() -> int:
    """Run odek and return its exit status."""
    restore(os.environ, read_environment())
    if sys.argv[1:4] == AS_PYTHON and len(sys.argv) > 4:
        # sys.executable is this file: odek starts it for a search that may have to be killed (tools/regex_worker.py)
        code, sys.argv[:] = sys.argv[4], ["-c", *sys.argv[5:]]
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102
        return 0
    prepare_imports()
    import _thread

    _thread.start_new_thread(guard, (bootloader_of(sys._MEIPASS),))  # type: ignore[attr-defined]
    from odek.cli.main import main

    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(start())
