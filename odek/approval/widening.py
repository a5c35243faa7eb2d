"""Which of a project's wishes widen the sandbox most: they are shown last, next to the question (A14, F7). Pure."""

from __future__ import annotations

import re

from odek.secret_names import is_secret_name

# names whose value decides what programs load, where packages come from, or whom a program trusts
_STEERING = re.compile(
    r"(?:LD|DYLD|PIP|UV|POETRY|NPM_CONFIG|YARN|CARGO|GIT|SSL|NODE|BUN|DENO|BUNDLE|GEM|GO|MAVEN|GRADLE|DOCKER)_.*|"
    r"(?:PYTHON|PERL5|RUBY|JAVA|JDK|NODE|LUA|PHP|GCONV|BASH_FUNC)[A-Z0-9_]*(?:PATH|OPT|OPTS|OPTIONS|STARTUP|HOME|LIB|INIT|DIR|%%)|"
    r".*(?:_PROXY|INDEX_URL|REGISTRY|GOPROXY|CA_BUNDLE|PRELOAD|_BASE_URL|ENDPOINT_URL|ENDPOINT)|"
    r"PATH|ENV|BASH_ENV|SHELL|IFS|PROMPT_COMMAND|EDITOR|VISUAL|PAGER|BROWSER|HOME|PS4|GOPROXY|GOFLAGS|GOSUMDB|CC|CXX|"
    r"RUSTC|RUSTC_WRAPPER|MAKEFLAGS|CFLAGS|LDFLAGS|CLASSPATH",
    re.IGNORECASE,
)
# where programs, their settings and the system's own files are; a volume there replaces them
_SYSTEM = [
    [name] for name in ("", "bin", "boot", "dev", "etc", "lib", "lib64", "proc", "root", "run", "sbin", "sys", "usr")
]
_SOCKET = re.compile(r"\.sock(?:et)?$")


def steers(name: str, reads: tuple[str, ...] = ()) -> bool:
    """Return whether a variable called `name` holds a secret, gets one of `reads`, or steers what programs do."""
    return bool(_STEERING.fullmatch(name)) or any(map(is_secret_name, (name, *reads)))


def reaches_out(volume: str) -> bool:
    """Return whether `volume` ("source:target") is more than an open folder of the project at a place for data."""
    source, _, target = volume.rpartition(":")
    parts = source.removeprefix("./").split("/")
    inside = source.startswith("./") or not source.startswith(("/", "~", "$", "."))
    hidden = any(part.startswith(".") for part in parts)
    return not inside or hidden or bool(_SOCKET.search(source)) or target.split("/")[1:2] in _SYSTEM
