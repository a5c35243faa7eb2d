"""Which image a sandbox runs, and the pinned default. Pure.

`docker load` loses the digest that default.Dockerfile pins. The local ID still identifies the content:
the digest of the configuration, or with a containerd store that of the manifest or the index.
default.digests.json lists these IDs by processor (D-12); scripts/update-default-image fills it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from odek import strict_json
from odek.patterns import pattern
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox_grammar import PATH, is_image_id
from odek.text import truncate, visible

_PIN = pattern(rf"FROM ({PATH}:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}@sha256:[0-9a-f]{{64}})")

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
        return is_image_id(self.ref)


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
_DIGEST = pattern(r"sha256:[0-9a-f]{64}")
_ARCHITECTURE = pattern(r"[a-z0-9]+(?:/v[0-9]+)?")
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
        raise SandboxConfigError(f'{FILE}: "architectures" is not an object')
    found = [("", index)]
    for name, digests in sorted(architectures.items()):
        if not _ARCHITECTURE.fullmatch(name) or not isinstance(digests, dict) or set(digests) != _KINDS:
            raise SandboxConfigError(f'{FILE}: "{visible(truncate(name, 40))}" must hold "config" and "manifest"')
        for digest in (digests["config"], digests["manifest"]):
            if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
                raise SandboxConfigError(f'{FILE}: "{visible(truncate(str(digest), 80))}" ({name}) is not a digest')
            found.append((name.partition("/")[0], digest))
    return tuple(found)
