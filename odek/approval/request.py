"""What a project asks for, the keys under which an approval of it is remembered, and the question.

Two digests identify a request (R-62, D-5). `fingerprint` is the key that older tools write and
read; it covers directory, image, network, the names of variables, volumes and network IDs.
`digest` covers all there is, the raw values of the variables included, so that a repository that
was trusted once cannot swap what it asks for.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass

from odek.approval.display import WIDTH, field, readable, value
from odek.approval.widening import reaches_out, steers

PROJECT_FILE = "./odek.json"
DOCKERFILE = "./Dockerfile.odek"
SWITCH = "ODEK_APPROVE_PROJECT_SANDBOX"
QUESTION = "Approve? [y = once / t = trust this project / N]"
CONSEQUENCE = (
    "\nAllowing this means code in the sandbox can read workspace files and,\n"
    f"depending on network mode, contact external hosts.\n\n{QUESTION}"
)
FIT_ROWS = 14  # what a terminal of 24 rows holds besides the heading, the consequence and the question
_DIGEST_VERSION = 1
_TOKEN = re.compile(r"\s*[^/:,=\s]*[/:,=]?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedNetwork:
    """A network as Docker reported it when the person was asked."""

    name: str
    id: str
    """full, 64 hex digits"""
    internal: bool
    compose_project: str = ""
    """the network's Compose label; "" when it has none"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvOverride:
    """One variable of the project's sandbox_env."""

    key: str
    value: str
    """as the file has it, nothing expanded"""
    variables: tuple[str, ...] = ()
    """names of the host variables that `value` reads"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """Everything of a project that widens or changes the sandbox; empty: the project did not set it."""

    project_dir: str
    """absolute, links resolved"""
    image: str = ""
    network: str = ""
    networks: tuple[ApprovedNetwork, ...] = ()
    compose_project: str = ""
    env: tuple[EnvOverride, ...] = ()
    volumes: tuple[str, ...] = ()
    user: str = ""
    dockerfile_sha256: str = ""
    ignore_sha256: str = ""
    """of the .dockerignore that goes with it; "" when there is none"""
    """of the bytes of Dockerfile.odek that would be built; "" when nothing would be"""
    build_network: bool = False
    """whether the operator gives the build the network; told, and no part of any key"""
    readonly: bool = False
    """whether the sandbox is read-only, volumes included; told, and no part of any key"""
    other: tuple[tuple[str, str], ...] = ()
    """further gated settings: (label, value)"""

    @property
    def from_project_file(self) -> bool:
        """whether ./odek.json asks for anything"""
        named = (self.image, self.network, self.networks, self.compose_project, self.env, self.volumes, self.user)
        return any(named) or bool(self.other)

    @property
    def entries(self) -> int:
        """how many variables, volumes and networks are asked for"""
        return len(self.env) + len(self.volumes) + len(self.networks)

    @property
    def is_empty(self) -> bool:
        return not (self.from_project_file or self.dockerfile_sha256)

    @property
    def sources(self) -> str:
        """the files that ask, for messages"""
        return " and ".join(
            name
            for name, asks in ((PROJECT_FILE, self.from_project_file), (DOCKERFILE, bool(self.dockerfile_sha256)))
            if asks
        )


def fingerprint(request: ApprovalRequest) -> str:
    """Return the key of R-62: 64 lower-case hex digits.

    SHA-256 over `dir NUL image NUL network`, then `NUL "env:" key` for each variable, then
    `NUL "vol:" volume`, then `NUL "net:" full ID` for each network, each group sorted by its bytes.
    Without networks these are the bytes that other implementations hash.
    """
    parts = [_bytes(request.project_dir), _bytes(request.image), _bytes(request.network)]
    parts += sorted(b"env:" + _bytes(override.key) for override in request.env)
    parts += sorted(b"vol:" + _bytes(volume) for volume in request.volumes)
    parts += sorted(b"net:" + _bytes(network.id) for network in request.networks)
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def digest(request: ApprovalRequest) -> str:
    """Return the SHA-256 over the whole request: 64 lower-case hex digits.

    Over ASCII JSON with sorted keys and no blanks: unlike bytes joined by NUL, no two requests
    share it, whatever a project writes into its values.
    """
    content: dict[str, object] = {
        "version": _DIGEST_VERSION,
        "project_dir": request.project_dir,
        "image": request.image,
        "network": request.network,
        "networks": sorted([item.id, item.name, item.internal, item.compose_project] for item in request.networks),
        "compose_project": request.compose_project,
        "env": sorted([override.key, override.value] for override in request.env),
        "volumes": sorted(request.volumes),
        "user": request.user,
        "dockerfile_sha256": request.dockerfile_sha256,
        "other": sorted(list(pair) for pair in request.other),
    }
    if request.ignore_sha256:  # left out where there is none: what was approved before stays approved
        content["ignore_sha256"] = request.ignore_sha256
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def fingerprint_covers(request: ApprovalRequest) -> bool:
    """Return whether `fingerprint` alone binds all that `request` asks for.

    Only then does a key that an older tool wrote count. Values with a NUL or half a surrogate pair
    are not bound: they could be read as another request's bytes.
    """
    beyond = request.env, request.networks, request.compose_project, request.user, request.dockerfile_sha256
    if any(beyond) or request.other:
        return False
    return all(map(_unambiguous, (request.image, request.network, *request.volumes)))


def describe_request(request: ApprovalRequest) -> str:
    """Return what is asked for, a field a line, every foreign text made visible.

    What does not fit the screen ends with what widens the sandbox most: it stands next to the question.
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
    others = tuple(line for label, text in request.other for line in field(readable(label), value(text)))
    user = _named("user", request.user)
    short = (
        *first,
        *_env_lines((*ordinary, *steering)),
        *_volume_lines((*volumes, *outward), request.readonly),
        *user,
        *others,
        *_interpolation_lines(request.env),
        *build,
    )
    if len(short) <= FIT_ROWS:
        return "\n".join(short)
    usual = (*_env_lines(ordinary), *_interpolation_lines(ordinary), *_volume_lines(volumes, request.readonly))
    wide = (*_env_lines(steering), *_interpolation_lines(steering), *_volume_lines(outward, request.readonly))
    return "\n".join((*usual, *others, *wide, *user, *build, *first))


def describe_plainly(request: ApprovalRequest) -> str:
    """Return the same for places that escape whatever is invisible: our warning sign has such a part, too."""
    return describe_request(request).replace("\ufe0f", "")


def render_request(request: ApprovalRequest) -> str:
    """Return the question for the operator; its last line asks, without an end of line."""
    return f"{heading_of(request)}\n{describe_request(request)}\n{CONSEQUENCE}"


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
        if rows[-1] and len(rows[-1]) + len(token) > WIDTH:
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


def _unambiguous(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _bytes(text: str) -> bytes:
    """Return the bytes of a path or setting; a path that is not UTF-8 keeps the bytes it has on disk."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a surrogate pair out of a JSON escape
        return text.encode("utf-8", "surrogatepass")
