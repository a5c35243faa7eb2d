"""The pinned default image under the IDs that it has where no registry is (D-12). Pure.

`docker load` loses the digest that default.Dockerfile pins. What still names the content is the
local ID: the digest of the configuration, or with a containerd store that of the manifest or the
index. default.digests.json lists these, by processor; scripts/update-default-image fills it.
"""

from __future__ import annotations

import json
import re

from odek.sandbox.errors import SandboxConfigError
from odek.text import truncate, visible

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
        content = json.loads(data.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
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


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)
