"""What a project tells every agent: AGENTS.md in the working directory."""

from __future__ import annotations

import os
import stat

from odek.setup.image import Notices

_MAX_INSTRUCTIONS_BYTES = 256 << 10


def read_instructions(cwd: str, notices: Notices) -> str | None:
    """Return the text of ./AGENTS.md: a regular file, no link, of at most 256 KiB."""
    try:
        descriptor = os.open(os.path.join(cwd, "AGENTS.md"), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        notices.warn(f"AGENTS.md is not read: {error.strerror}; it must be a file, not a link")
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        notices.warn("AGENTS.md is not read: it is not a regular file")
        return None
    with open(descriptor, "rb") as file:
        data = file.read(_MAX_INSTRUCTIONS_BYTES + 1)
    if len(data) > _MAX_INSTRUCTIONS_BYTES:
        notices.warn(f"AGENTS.md is not read: it is larger than {_MAX_INSTRUCTIONS_BYTES >> 10} KiB")
        return None
    return data.decode("utf-8", errors="replace")
