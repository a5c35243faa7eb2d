"""What a project asks for, and the keys under which an approval of it is remembered.

Two digests identify a request (R-62, D-5). `fingerprint` is the key that older tools write and
read; it covers directory, image, network, the names of variables, volumes and network IDs.
`digest` covers all there is, the raw values of the variables included, so that a repository that
was trusted once cannot swap what it asks for.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

PROJECT_FILE = "./odek.json"
DOCKERFILE = "./Dockerfile.odek"
SWITCH = "ODEK_APPROVE_PROJECT_SANDBOX"
_DIGEST_VERSION = 1


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
    """Everything of a project that widens or changes the sandbox; "" or () where the project does not set it."""

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
    """of the bytes of Dockerfile.odek that would be built; "" when nothing would be"""
    ignore_sha256: str = ""
    """of the .dockerignore that goes with it; "" when there is none"""
    build_network: bool = False
    """whether the operator gives the build the network; shown, but not a part of any key"""
    readonly: bool = False
    """whether the sandbox is read-only, volumes included; shown, but not a part of any key"""

    @property
    def from_project_file(self) -> bool:
        """whether ./odek.json asks for anything"""
        named = (self.image, self.network, self.networks, self.compose_project, self.env, self.volumes, self.user)
        return any(named)

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

    @property
    def subject(self) -> str:
        """what they ask for, for messages"""
        asked = [f"the sandbox overrides of {PROJECT_FILE}"] if self.from_project_file else []
        asked += [f"the build steps of {DOCKERFILE}"] if self.dockerfile_sha256 else []
        return " and ".join(asked)


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
        "other": [],  # further settings, of which there are none; what was approved before stays approved
    }
    if request.ignore_sha256:  # left out where there is none, for the same reason
        content["ignore_sha256"] = request.ignore_sha256
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def fingerprint_covers(request: ApprovalRequest) -> bool:
    """Return whether `fingerprint` alone binds all that `request` asks for.

    Only then does a key that an older tool wrote count. Values with a NUL or half a surrogate pair
    are not bound: they could be read as another request's bytes.
    """
    beyond = request.env, request.networks, request.compose_project, request.user, request.dockerfile_sha256
    return not any(beyond) and all(map(_unambiguous, (request.image, request.network, *request.volumes)))


def _unambiguous(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _bytes(text: str) -> bytes:
    """Return the bytes of a path or setting; a path that is not UTF-8 keeps the bytes it has on disk."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a surrogate pair out of a JSON escape
        return text.encode("utf-8", "surrogatepass")
