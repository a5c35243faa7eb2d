"""What a project asks for, as lines of text: for the prompt, an error and `sandbox explain`. Pure.

What widens the sandbox most comes last, next to the question (A14, F7).
"""

from __future__ import annotations

import re

from odek.approval.display import field, layout_width, value
from odek.approval.request import DOCKERFILE, PROJECT_FILE, ApprovalRequest, ApprovedNetwork, EnvOverride
from odek.patterns import pattern
from odek.secret_names import is_secret_name

FIT_ROWS = 14  # what a terminal of 24 rows holds besides the heading, the consequence and the question
_TOKEN = pattern(r"\s*[^/:,=\s]*[/:,=]?")
# names whose value decides what programs load, where packages come from, or whom a program trusts
_STEERING = pattern(
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
_SOCKET = pattern(r"\.sock(?:et)?$")


def describe_request(request: ApprovalRequest) -> str:
    """Return what is asked for, a field a line, every foreign text made visible.

    What does not fit the screen ends with what widens the sandbox most: that is next to the question.
    """
    first = (
        *_named("image", request.image),
        *_named("network", request.network),
        *_named("compose", request.compose_project),
        *(line for network in request.networks for line in _network_lines(network)),
    )
    ordinary = tuple(each for each in request.env if not steers(each.key, each.variables))
    steering = tuple(each for each in request.env if steers(each.key, each.variables))
    volumes = tuple(volume for volume in request.volumes if not reaches_out(volume))
    outward = tuple(volume for volume in request.volumes if reaches_out(volume))
    build = _dockerfile_lines(request) if request.dockerfile_sha256 else ()
    user = _named("user", request.user)
    short = (
        *first,
        *_env_lines((*ordinary, *steering)),
        *_volume_lines((*volumes, *outward), request.readonly),
        *user,
        *_interpolation_lines(request.env),
        *build,
    )
    if len(short) <= FIT_ROWS:
        return "\n".join(short)
    usual = (*_env_lines(ordinary), *_interpolation_lines(ordinary), *_volume_lines(volumes, request.readonly))
    wide = (*_env_lines(steering), *_interpolation_lines(steering), *_volume_lines(outward, request.readonly))
    return "\n".join((*usual, *wide, *user, *build, *first))


def describe_plainly(request: ApprovalRequest) -> str:
    """Return the same for places that escape whatever is invisible: our warning sign has such a part, too."""
    return describe_request(request).replace("\ufe0f", "")


def heading_of(request: ApprovalRequest) -> str:
    """Return the line that says who asks for what."""
    if request.from_project_file:
        return f"WARNING: project config ({PROJECT_FILE}) requests sandbox overrides:"
    return f"WARNING: the project ({DOCKERFILE}) requests an image build:"


def _env_lines(env: tuple[EnvOverride, ...]) -> tuple[str, ...]:
    ordered = sorted(env, key=lambda override: (steers(override.key, override.variables), override.key))
    literal = (each for each in ordered if each.value and not each.variables)
    names = _field("env", ", ".join(value(key) for key in sorted(override.key for override in env)))
    sets = (line for each in literal for line in _field("sets", value(f"{each.key}={each.value}")))
    return (*names, *sets) if env else ()


def _volume_lines(volumes: tuple[str, ...], readonly: bool) -> tuple[str, ...]:
    return tuple(line for volume in volumes for line in _field("volume", _volume(volume, readonly)))


def _volume(text: str, readonly: bool) -> str:
    shown = value(text)
    if "(" in text and shown == text:  # a path that ends in our words is not to pass for read-only
        shown = f'"{text}"'
    return f"{shown} (read-only)" if readonly else shown


def _field(label: str, text: str) -> tuple[str, ...]:
    """Return what `field` does, but broken between names and not inside one, where that can be."""
    rows = [""]
    for token in _TOKEN.findall(text) if text.isascii() else (text,):
        if rows[-1] and len(rows[-1]) + len(token) > layout_width():
            rows.append("")
        rows[-1] += token
    first, *rest = (line for row in rows for line in field(label, row))
    head = " " * (len(first) - len(first.lstrip())) + f"{label + ':':<8} "
    return (first, *(line if line.startswith("         + ") else f"         + {line[len(head) :]}" for line in rest))


def _named(label: str, text: str) -> tuple[str, ...]:
    return field(label, value(text)) if text else ()


def _network_lines(network: ApprovedNetwork) -> tuple[str, ...]:
    # an internal network does not hide the host
    reach = "yes (no internet; services of this host may be reachable)" if network.internal else "no"
    project = value(network.compose_project) if network.compose_project else "none"
    return (
        *field("attach", value(network.name)),
        *field("id", value(network.id), indent=4),
        *field("internal", reach, indent=4),
        *field("compose project", project, indent=4),
    )


def _interpolation_lines(env: tuple[EnvOverride, ...]) -> tuple[str, ...]:
    readers = tuple(override for override in env if override.variables)
    if not readers:
        return ()
    lines = ["  ⚠️  sandbox_env values contain ${...} interpolation against host environment variables"]
    for override in sorted(readers, key=lambda reader: reader.key):
        names = ", ".join(value(name) for name in override.variables)
        lines += _field("reads", f"{value(override.key)} gets {names}")
    return tuple(lines)


def _dockerfile_lines(request: ApprovalRequest) -> tuple[str, ...]:
    sha256, ignore_sha256 = request.dockerfile_sha256, request.ignore_sha256
    ignored = (*field("without", "what .dockerignore names"), *field("sha256", value(ignore_sha256), indent=4))
    network = ("  ⚠️  its RUN steps have the network (ODEK_SANDBOX_BUILD_NETWORK)",) if request.build_network else ()
    return (
        *field("build", "Dockerfile.odek"),
        *field("sha256", value(sha256), indent=4),
        *(ignored if ignore_sha256 else ()),
        "  ⚠️  its RUN steps execute outside the sandbox's limits and can read the whole working",
        "      directory; the image it names after FROM is pulled",
        *network,
    )


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
