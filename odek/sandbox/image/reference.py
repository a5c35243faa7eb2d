"""Which image a sandbox runs: the grammar of references, and the pinned default. Pure.

The grammar is Docker's own (domain/path:tag@digest, as in the distribution reference), with the
cases that Docker refuses only when it is asked: a reserved name, a name that is too long, hex
digits that are an image's ID. It must be exact: an image that cannot be pulled may lead to the
host, a reference that could never name one stops the run.

`docker load` loses the digest that default.Dockerfile pins. The local ID still identifies the content:
the digest of the configuration, or with a containerd store that of the manifest or the index.
default.digests.json lists these IDs by processor (D-12); scripts/update-default-image fills it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from odek import strict_json
from odek.sandbox.errors import SandboxConfigError
from odek.text import truncate, visible

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATH = rf"{_COMPONENT}(?:/{_COMPONENT})*"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
# What stands before the first slash is a registry only with a dot or a port, or as "localhost".
_DOMAIN = re.compile(
    rf"(?:localhost|{_LABEL}(?:\.{_LABEL})+|(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:]+\])(?=:))(?::[0-9]+)?"
)
_REMAINDER = re.compile(
    rf"(?P<path>{_PATH})(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?P<digest>@sha256:[0-9a-f]{{64}})?"
)
_IMAGE_ID = re.compile(r"sha256:[0-9a-f]{64}")
_HEX_ID = re.compile(r"[0-9a-f]{12,64}|(?=[a-f]*[0-9])[0-9a-f]{7,11}")  # as `docker images` prints them, or less
_MAX_NAME = 255  # registry and path together, as Docker completes them
_DOCKER_HUB = "docker.io"
_RESERVED = "scratch"  # a word of Dockerfiles: Docker never pulls it
_PIN = re.compile(rf"FROM ({_PATH}:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}@sha256:[0-9a-f]{{64}})")

BUSYBOX_TAG = "odek-busybox:local"
"""what `odek sandbox image bootstrap` makes unless another tag is given"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageChoice:
    """The image to run and who chose it."""

    ref: str
    origin: str
    """where the reference stands, for messages: "--sandbox-image", "./odek.json", "the pinned default" """
    chosen_by_project: bool
    """an image that a project named never leads to the host when it cannot be pulled (D-1)"""
    substitute: str = ""
    """a local image that is used where this one cannot be pulled; "" for none (D-23)"""
    local_ids: tuple[tuple[str, str], ...] = ()
    """(processor or "" for any, ID): local images that are this one where `ref` is not known (D-12)"""

    @property
    def is_id(self) -> bool:
        """whether `ref` is a content-addressed ID, which is never pulled (D-12)"""
        return _IMAGE_ID.fullmatch(self.ref) is not None


def parse_reference(text: str, *, origin: str) -> str:
    """Return `text` when it is an image reference or a full image ID. Raises SandboxConfigError."""
    if _IMAGE_ID.fullmatch(text):
        return text
    if _HEX_ID.fullmatch(text):  # Docker would look it up as the beginning of an ID, or refuse it
        raise SandboxConfigError(
            f'"{text}" looks like an image ID, not like an image reference ({origin})',
            hint="write its name, as in NAME:TAG, or sha256: and all 64 digits (`docker images --no-trunc`)",
        )
    problem = _problem_of(text)
    if problem:
        raise SandboxConfigError(
            f'"{visible(text[:200])}" is not an image reference ({origin}){problem}',
            hint='write NAME[:TAG][@sha256:DIGEST] in lower case, for example "python:3.12-slim", or its full ID',
        )
    return text


def _problem_of(text: str) -> str:
    """Return what is wrong with a reference, to be read after the sentence that says so; "" for nothing."""
    domain, slash, rest = text.partition("/")
    if not slash or not _is_domain(domain):
        domain, rest = _DOCKER_HUB, text
    match = _REMAINDER.fullmatch(rest)
    if match is None or text.startswith("sha256:"):
        return ": capitals are allowed in a tag only" if _REMAINDER.fullmatch(rest.lower()) else ": it cannot be read"
    path = match["path"]
    if domain in (_DOCKER_HUB, f"index.{_DOCKER_HUB}"):
        domain, path = _DOCKER_HUB, path if "/" in path else f"library/{path}"
        if path == f"library/{_RESERVED}":
            return f': "{_RESERVED}" is a word of Dockerfiles and names no image'
    length = len(domain) + len("/") + len(path)
    return f": its name of {length} characters is longer than {_MAX_NAME}" if length > _MAX_NAME else ""


def _is_domain(text: str) -> bool:
    return _DOMAIN.fullmatch(text) is not None


def parse_default_dockerfile(text: str) -> str:
    """Return the reference pinned by the packaged default.Dockerfile: name, tag and digest (R-35).

    The file may hold comments, blank lines and exactly one FROM. Anything else is refused with its
    line number, so that an edit that would change the meaning of the pin cannot pass unseen.
    """
    pin = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            if "=" in line and re.match(r"#\s*(syntax|escape|check)\s*=", line, re.IGNORECASE):
                raise SandboxConfigError(f"default.Dockerfile line {number}: directives are not allowed")
            continue
        match = _PIN.fullmatch(line.rstrip())
        if match is None:
            raise SandboxConfigError(
                f'default.Dockerfile line {number}: expected "FROM name:tag@sha256:<64 hex digits>", '
                f'found "{visible(line)}"'
            )
        if pin:
            raise SandboxConfigError(f"default.Dockerfile line {number}: a second FROM")
        pin = match.group(1)
    if not pin:
        raise SandboxConfigError("default.Dockerfile holds no FROM line")
    return pin


FILE = "default.digests.json"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_ARCHITECTURE = re.compile(r"[a-z0-9]+(?:/v[0-9]+)?")
_KINDS = frozenset(("config", "manifest"))


def parse_default_digests(data: bytes, *, pin: str) -> tuple[tuple[str, str], ...]:
    """Return (processor in Docker's words or "" for any, ID) of the image that `pin` names.

    `pin` is name:tag@digest, and its digest must be the index of the file: digests of another
    image would be trusted otherwise. Raises SandboxConfigError for anything unexpected.
    """
    try:
        content = strict_json.parse(data)
    except strict_json.JsonError as error:
        raise SandboxConfigError(f"{FILE} is damaged: {visible(truncate(str(error), 200))}") from error
    if not isinstance(content, dict) or set(content) != {"index", "architectures"}:
        raise SandboxConfigError(f'{FILE} must hold "index" and "architectures" and nothing else')
    index, architectures = content["index"], content["architectures"]
    if index != pin.rpartition("@")[2]:
        raise SandboxConfigError(f"{FILE} belongs to {visible(truncate(str(index), 80))}, not to the pinned default")
    if not isinstance(architectures, dict):
        raise SandboxConfigError(f'{FILE}: "architectures" is no object')
    found = [("", index)]
    for name, digests in sorted(architectures.items()):
        if not _ARCHITECTURE.fullmatch(name) or not isinstance(digests, dict) or set(digests) != _KINDS:
            raise SandboxConfigError(f'{FILE}: "{visible(truncate(name, 40))}" must hold "config" and "manifest"')
        for digest in (digests["config"], digests["manifest"]):
            if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
                raise SandboxConfigError(f'{FILE}: "{visible(truncate(str(digest), 80))}" ({name}) is no digest')
            found.append((name.partition("/")[0], digest))
    return tuple(found)
