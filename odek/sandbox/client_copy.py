"""What Docker's client gets of the user's settings: enough to reach its daemon and its registries (F2). Pure.

~/.docker/config.json names programs that the client runs on this host: plugins and where they lie, aliases,
hooks. It may be a link into a project, as dotfiles are, and then a sandbox can write it. So the client reads a
copy that holds accounts of registries, the names of credential helpers (programs on odek's PATH) and the
current context, each checked, and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping

from odek.sandbox.client_config import CONFIG_FILE, DEFAULT_CONTEXT, ClientConfig, ReadFile

_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # no slash: it is the end of a program's name
_ACCOUNT = ("auth", "username", "password", "email", "identitytoken", "registrytoken")
_CERTIFICATES = ("ca.pem", "cert.pem", "key.pem")


def copied_files(config: ClientConfig, read: ReadFile) -> dict[tuple[str, ...], bytes]:
    """Return what is to stand in the client's folder: (folders and name) → bytes.

    `read` gets the files of a context. Raises OSError when one of them cannot be read.
    """
    files: dict[tuple[str, ...], bytes] = {(CONFIG_FILE,): _json(_settings(config))}
    if config.context == DEFAULT_CONTEXT:
        return files
    digest = hashlib.sha256(config.context.encode("utf-8", errors="surrogateescape")).hexdigest()
    meta = read(os.path.join(config.folder, "contexts", "meta", digest, "meta.json"))
    files["contexts", "meta", digest, "meta.json"] = _json(_context(config, meta or b"{}"))
    for name in _CERTIFICATES:
        data = read(os.path.join(config.folder, "contexts", "tls", digest, "docker", name))
        if data is not None:
            files["contexts", "tls", digest, "docker", name] = data
    return files


def _settings(config: ClientConfig) -> dict[str, object]:
    said = {name.lower(): value for name, value in config.settings.items()}
    kept: dict[str, object] = {}
    accounts = _object(said.get("auths"))
    if accounts:
        kept["auths"] = {registry: _account(account) for registry, account in accounts.items()}
    helper = said.get("credsstore")
    if isinstance(helper, str) and _HELPER.fullmatch(helper):
        kept["credsStore"] = helper
    helpers = {
        registry: name
        for registry, name in _object(said.get("credhelpers")).items()
        if isinstance(name, str) and _HELPER.fullmatch(name)
    }
    if helpers:
        kept["credHelpers"] = helpers
    if config.context != DEFAULT_CONTEXT:
        kept["currentContext"] = config.context
    return kept


def _account(account: object) -> dict[str, str]:
    said = {name.lower(): value for name, value in _object(account).items()}
    return {name: value for name in _ACCOUNT if isinstance(value := said.get(name), str)}


def _context(config: ClientConfig, data: bytes) -> dict[str, object]:
    """Return the description of a context: its name, and where its daemon is."""
    endpoint = _object(_object(_object(json.loads(data)).get("Endpoints")).get("docker"))
    docker = {"Host": config.host, "SkipTLSVerify": endpoint.get("SkipTLSVerify") is True}
    return {"Name": config.context, "Metadata": {}, "Endpoints": {"docker": docker}}


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _json(value: object) -> bytes:
    return (json.dumps(value, sort_keys=True) + "\n").encode()
