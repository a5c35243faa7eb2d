"""odek where the machine's file systems are other ones: in a mount namespace of its own. Only root can make one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.odek_process import Odek


def with_mounts(odek: Odek, mounts: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run odek where the shell lines `mounts` have been run before, in a mount namespace of its own."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("only root can mount")
    script = f'{mounts}\nexec "$@"'
    return subprocess.run(
        ["unshare", "--mount", "sh", "-ec", script, "sh", *odek.argv, *arguments],
        env=odek.env(),
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def without(library: str) -> str:
    """Return shell lines that put an empty file in the place of the machine's library: who asks for it, fails."""
    places = [place for place in Path("/").glob(f"*lib*/**/{library}") if place.is_file()]
    return "\n".join(f"mount --bind /dev/null {place}" for place in places)
