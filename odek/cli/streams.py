"""The three standard streams, when the caller closed one or what reads them has gone; and the end of the process.

A closed one must be opened again before anything else is: the next file or socket would get its
number, and what is printed would end up in there.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs more than all of `odek version`
    from typing import NoReturn, TextIO

BROKEN_PIPE_CODE = 141  # 128 + SIGPIPE, as a program that SIGPIPE ended
_ERROR_CODE = 1


def reopen_closed_streams() -> bool:
    """Open /dev/null in place of each closed stream; return False, with an error on stderr, when stdout was closed.

    Output is discarded with >/dev/null; a closed stdout is a mistake that must not be noticed only when the
    answer is there.
    """
    if sys.stdin and sys.stdout and sys.stderr:
        return True
    import os

    has_output = sys.stdout is not None
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            mode = "r" if name == "stdin" else "w"
            # the stream lives as long as the process
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    if not has_output:
        sys.stderr.write("odek: error: stdout is closed, so there is nowhere to print to\n")
        sys.stderr.write("odek: hint: >/dev/null throws the output away\n")
    return has_output


def write_stdout(text: str, *, code: int = 0) -> int:
    """Print `text` on stdout and return `code`, or why that failed as an exit code."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
        return code
    except OSError as error:
        redirect_to_devnull(sys.stdout)
        if isinstance(error, BrokenPipeError):
            return BROKEN_PIPE_CODE
        sys.stderr.write(f"odek: error: the output cannot be written to stdout: {error.strerror}\n")
        return _ERROR_CODE


def redirect_to_devnull(stream: TextIO) -> None:
    """Send what is left in the buffer of `stream`, and what will be written to it, nowhere.

    The interpreter flushes both streams when it ends, and leaves with 120 when that fails.
    """
    import os

    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        pass  # not a file of the system's: nothing is flushed at exit


def leave(code: int) -> NoReturn:
    """End the process with `code` as `sys.exit` does, without taking apart what was imported (R-411).

    That takes 12 ms after `odek run`, as much as a start of the interpreter, and the system does it anyway. A stream
    that cannot be flushed, or a thread that is to be waited for, is left to the usual end.
    """
    import _signal  # type: ignore[import-not-found]
    import atexit
    import posix  # what `os` is made of; `odek version` does not import that

    for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
        if callable(_signal.getsignal(number)):  # nothing catches what a handler of ours would raise from here on
            _signal.signal(number, _signal.SIG_DFL)
    # the loader of the one file waits for its thread, which nothing is taken away from here
    wait = getattr(sys.modules["odek"].__loader__, "wait", lambda: None)
    atexit.unregister(wait)
    threads = sys.modules.get("threading")
    if threads is None or all(thread.daemon for thread in threads.enumerate() if thread is not threads.main_thread()):
        atexit._run_exitfuncs()
        try:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            posix._exit(code)
        except (OSError, ValueError):
            pass
    atexit.register(wait)
    sys.exit(code)
