"""What a project says to the model: ./AGENTS.md."""

from __future__ import annotations

import os

from odek import safefile
from odek.events import Sink, WarningIssued

_MAX_INSTRUCTIONS_BYTES = 256 << 10


def read_instructions(cwd: str, emit: Sink) -> str | None:
    """Return the text of ./AGENTS.md: a regular file, not a link, of at most 256 KiB.

    Anything else is left out with a warning and stops nothing.
    """
    try:
        data = safefile.read_regular(os.path.join(cwd, "AGENTS.md"), limit_bytes=_MAX_INSTRUCTIONS_BYTES)
    except FileNotFoundError:
        return None
    except safefile.TooLarge:
        emit(WarningIssued(f"AGENTS.md is not read: it is larger than {_MAX_INSTRUCTIONS_BYTES >> 10} KiB"))
        return None
    except safefile.NotRegular:
        emit(WarningIssued("AGENTS.md is not read: it is not a regular file"))
        return None
    except OSError as error:
        emit(WarningIssued(f"AGENTS.md is not read: {error.strerror}; it must be a file, not a link"))
        return None
    return data.decode("utf-8", errors="replace")
