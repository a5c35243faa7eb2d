"""A release server on the loopback interface, and install.sh in every shell that is here."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.release_server import ReleaseServer, serve_releases

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "install.sh"
SHELLS = {
    name: argv
    for name, argv in {
        "dash": ["dash"],
        "bash": ["bash", "--posix"],
        "busybox": ["busybox", "sh"],
        "ksh": ["ksh"],
        "zsh": ["zsh"],  # as in `curl … | zsh`: it becomes sh by the script's own doing
    }.items()
    if shutil.which(argv[0])
}
# what the script calls; nothing else is on PATH
PROGRAMS = (
    *("cat", "chmod", "cp", "curl", "cut", "dirname", "getconf", "grep", "head", "mkdir", "mktemp", "mv", "rm"),
    *("sh", "sha256sum", "tr", "uname"),
)
# stand-ins: as install.sh sees them, and quick to start
ZIP = b"#!/bin/sh\n# The head of the one-file odek, a stand-in\necho 'odek 1.2.3'\n"
# what an earlier odek, or a later one that no longer runs, begins with
OLD = "#!/bin/sh\n# The head of the one-file odek, of another release\nexit 1\n"
# one that knows its manual page and its completions
WHOLE = b"""#!/bin/sh
# The head of the one-file odek, a stand-in with all that it says of itself
case $* in
version) echo 'odek 1.2.3' ;;
'man --roff') echo '.TH ODEK 1 "" "odek 1.2.3"' ;;
'completion zsh') printf '%s\\n' '#compdef odek' '# zsh completion for odek; put it somewhere' ;;
'completion '*) echo "# $2 completion for odek; put it somewhere" ;;
esac
"""
BINARY = b"#!/bin/sh\n# The head of the one-file odek, as a stand-in for the binary\necho 'odek 1.2.3 (binary)'\n"


@pytest.fixture
def server() -> Iterator[ReleaseServer]:
    with serve_releases() as state:
        yield state


@dataclass(slots=True, kw_only=True)
class Installer:
    """Runs install.sh with a HOME and a PATH of its own."""

    shell: list[str]
    home: Path
    path: Path
    server: ReleaseServer
    script: Path = SCRIPT
    wrapper: list[str] = field(default_factory=list)

    @property
    def target(self) -> Path:
        return self.home / ".local" / "bin" / "odek"

    def run(
        self, *arguments: str, env: Mapping[str, str] | None = None, stdin: bytes | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end; `stdin` is a script for `sh -s`."""
        source = [str(self.script)] if stdin is None else ["-s", "--"]
        base = {"ODEK_INSTALL_BASE_URL": self.server.address, "HOME": str(self.home), "PATH": str(self.path)}
        done = subprocess.run(
            [*self.wrapper, *self.shell, *source, *arguments],
            env={**base, "TMPDIR": str(self.home), "no_proxy": "*", **(env or {})},
            cwd=self.home,
            input=b"" if stdin is None else stdin,
            capture_output=True,
            timeout=60,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def left(self) -> list[str]:
        """Return the files below HOME."""
        return sorted(str(path.relative_to(self.home)) for path in self.home.rglob("*") if path.is_file())


@pytest.fixture(params=sorted(SHELLS))
def installer(request: pytest.FixtureRequest, server: ReleaseServer, tmp_path: Path) -> Installer:
    """In each shell; without a Python on PATH."""
    home, path = tmp_path / "home", tmp_path / "bin"
    home.mkdir()
    path.mkdir()
    for name in PROGRAMS:
        found = shutil.which(name)
        assert found, name
        (path / name).symlink_to(os.path.realpath(found) if "busybox" not in os.path.realpath(found) else found)
    shell, *options = SHELLS[request.param]
    return Installer(shell=[shutil.which(shell) or "", *options], home=home, path=path, server=server)
