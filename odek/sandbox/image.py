"""Which image a sandbox runs: the grammar of references, and the pinned default. Pure.

The grammar is the one of the OCI distribution reference (domain/path:tag@digest), spelled out
here because a reference reaches Docker's command line and hex words would also match image IDs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from odek.sandbox.errors import SandboxConfigError
from odek.text import visible

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_DOMAIN = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*(?::[0-9]+)?"
_REFERENCE = re.compile(
    rf"(?:{_DOMAIN}/)?{_COMPONENT}(?:/{_COMPONENT})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?"
)
_IMAGE_ID = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_REFERENCE = 511  # name 255, tag 128, digest 71, and the marks between them, rounded up
_PIN = re.compile(rf"FROM ({_COMPONENT}(?:/{_COMPONENT})*:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}@sha256:[0-9a-f]{{64}})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageChoice:
    """The image to run and who chose it."""

    ref: str
    origin: str
    """where the reference stands, for messages: "--sandbox-image", "./odek.json", "the pinned default" """
    chosen_by_project: bool
    """an image that a project named never leads to the host when it cannot be pulled (D-1)"""
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
    # what looks like an ID and is none would be looked up as the beginning of one, or pulled by that name
    if len(text) > _MAX_REFERENCE or text.startswith("sha256:") or not _REFERENCE.fullmatch(text):
        raise SandboxConfigError(
            f'"{visible(text[:200])}" is not an image reference ({origin})',
            hint='write NAME[:TAG][@sha256:DIGEST] in lower case, for example "python:3.12-slim", or its full ID',
        )
    return text


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
