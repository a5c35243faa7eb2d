"""Which daemon Docker's client is set up to talk to, and the copy of its settings that it gets (D-25, F2). Pure.

The client takes DOCKER_HOST, else the context that DOCKER_CONTEXT or `currentContext` of its
config.json names, else the default socket. A client that cannot find its daemon (an unknown
context, a missing certificate, an address of a kind that it does not know) fails like one whose
daemon is away; its exit status is the same. So this is decided here, before Docker is asked:
whatever is wrong stops the run, and only a daemon that was named can be "not reachable".

~/.docker/config.json names programs that the client runs on this host: plugins and where they are, aliases,
hooks. It may be a link into a project, as dotfiles are, and then a sandbox can write it. So the client reads
a copy that holds accounts of registries, the names of credential helpers (programs on odek's PATH) and the
current context, each checked, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from odek import json_text, safefile
from odek.patterns import pattern
from odek.sandbox.errors import SandboxConfigError
from odek.text import truncate, visible

if TYPE_CHECKING:
    from urllib.parse import SplitResult

DEFAULT_CONTEXT = "default"
CONFIG_FILE = "config.json"

ReadFile = Callable[[str], "bytes | None"]
"""path → its bytes; None when there is no such file; raises OSError when it cannot be read"""

_PASSWORD = pattern(r"//[^/@]*@")
_API_VERSION = pattern(r"[0-9]{1,4}\.[0-9]{1,4}")
_HOST_NAME = pattern(r"[A-Za-z0-9_.%-]*|[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?")  # "" is localhost to the client
_ADDRESS_HINT = "an address looks like unix:///var/run/docker.sock, tcp://HOST:PORT or ssh://USER@HOST"
_CONTEXT_HINT = (
    "`docker context ls` lists the contexts; an unset DOCKER_CONTEXT and `docker context use default` drop it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """What the client will use; see the module."""

    folder: str
    """of its settings; "" where there is neither DOCKER_CONFIG nor a home"""
    context: str
    host: str
    """the address of the daemon; "" for the default socket"""
    origin: str
    """who named the daemon, for messages: "DOCKER_HOST", "DOCKER_CONTEXT", "~/.docker/config.json", "default" """
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """the members of config.json, names as written; may hold passwords of registries"""


def read_file(path: str) -> bytes | None:
    """Return the bytes of a file of at most 4 MiB, None when there is none. Raises OSError.

    It may be a link; what it leads to must be a regular file, or a FIFO would be waited for.
    """
    try:
        return safefile.read_regular(os.path.realpath(path), limit_bytes=4 << 20)
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_client_config(env: Mapping[str, str], *, home: str, read: ReadFile = read_file) -> ClientConfig:
    """Return what the client will use under `env`, for a user whose home is `home`.

    Raises SandboxConfigError when the client could not tell its daemon.
    """
    folder = config_folder(env, home=home)
    settings = _settings(folder, read)
    _check_api_version(env)
    # the client reads "" as unset, in all its variables
    if env.get("DOCKER_HOST", "").strip():
        context, host, origin = DEFAULT_CONTEXT, env["DOCKER_HOST"].strip(), "DOCKER_HOST"
    else:
        context, origin = _context_name(env, settings, folder)
        host = _context_host(context, origin, folder, read)
    if host:
        check_address(host, origin=origin)
    if context == DEFAULT_CONTEXT:
        _check_certificates(env, folder, read)
    return ClientConfig(folder=folder, context=context, host=host, origin=origin, settings=settings)


def config_folder(env: Mapping[str, str], *, home: str) -> str:
    """Return the folder of the client's settings, "" where there is none."""
    return env.get("DOCKER_CONFIG", "") or (os.path.join(home, ".docker") if home else "")


def check_address(text: str, *, origin: str) -> None:
    """Refuse an address that the client has no means to talk to. Raises SandboxConfigError. Pure."""
    scheme, mark, rest = text.partition("://")
    if not mark:  # the client reads a bare word as the name of a host
        scheme, rest = "tcp", text
    problem = ""
    if not all(" " < letter < "\x7f" for letter in text):
        problem = "holds blanks or characters that no address has"
    elif scheme == "unix":
        problem = "" if rest.startswith("/") or not rest else "must name the socket by its absolute path"
    elif scheme in ("tcp", "ssh"):
        problem = _host_problem(scheme, rest)
    else:
        problem = "is of a kind that Docker's client does not know here"
    if problem:
        shown = visible(truncate(_PASSWORD.sub("//…@", text), 200))  # a password may stand there
        raise SandboxConfigError(f'the Docker daemon\'s address "{shown}" {problem} ({origin})', hint=_ADDRESS_HINT)


def _host_problem(scheme: str, rest: str) -> str:
    from urllib.parse import urlsplit  # only where an address was set

    try:
        parts = urlsplit(f"{scheme}://{rest}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "holds no valid host and port"
    if not _HOST_NAME.fullmatch(host) or port == 0 or parts.netloc.endswith(":"):
        return "holds no valid host and port"
    return _ssh_problem(host, parts) if scheme == "ssh" else _tcp_problem(rest, host)


def _ssh_problem(host: str, parts: SplitResult) -> str:
    if not host or host.startswith("-"):
        return "names no host"
    if parts.password is not None or parts.query or parts.fragment:
        return "holds what an ssh address may not: a password, ? or #"
    return ""


def _tcp_problem(rest: str, host: str) -> str:
    # "/run/x.sock" would be a path on localhost:2375
    return "names no host" if rest.startswith("/") and not host else ""


def _settings(folder: str, read: ReadFile) -> dict[str, Any]:
    """Return the members of config.json. One that the client only warns of may have named the daemon."""
    if not folder:
        return {}
    path = os.path.join(folder, CONFIG_FILE)
    text = (_read(path, read) or b"").decode("utf-8", errors="replace")
    if not text.strip():
        return {}
    try:  # the client reads the first value and nothing after it
        value = json_text.loads(text, whole=False)
    except (ValueError, RecursionError) as error:
        raise SandboxConfigError(
            f'the settings of Docker\'s client, "{visible(path)}", are not valid JSON, so which daemon they name '
            f"cannot be known: {visible(truncate(str(error), 200))}",
            hint="correct or remove that file; `docker version` must print no warning",
        ) from error
    if not isinstance(value, dict):
        raise SandboxConfigError(
            f'the settings of Docker\'s client, "{visible(path)}", are not a JSON object', hint="correct or remove it"
        )
    return value


def _context_name(env: Mapping[str, str], settings: Mapping[str, Any], folder: str) -> tuple[str, str]:
    """Return the name of the context and who named it."""
    if env.get("DOCKER_CONTEXT"):
        return env["DOCKER_CONTEXT"], "DOCKER_CONTEXT"
    path = os.path.join(folder, CONFIG_FILE)
    named: object = None
    for key, value in settings.items():  # names of members are compared without case, the last one counts
        if key.lower() == "currentcontext":
            named = value
    if named is None or named == "":
        return DEFAULT_CONTEXT, "default"
    if not isinstance(named, str):
        raise SandboxConfigError(f'"currentContext" in "{visible(path)}" is not a string', hint=_CONTEXT_HINT)
    return named, path


def _context_host(context: str, origin: str, folder: str, read: ReadFile) -> str:
    """Return the address that a context has, "" for the default one's."""
    if context == DEFAULT_CONTEXT:
        return ""
    what = f'the Docker context "{visible(truncate(context, 100))}" ({visible(origin)})'
    digest = _digest_of(context)
    data = _read(os.path.join(folder, "contexts", "meta", digest, "meta.json"), read) if folder else None
    if data is None:
        raise SandboxConfigError(f"{what} does not exist", hint=_CONTEXT_HINT)
    import json  # few have a context of their own

    try:
        host = json.loads(data)["Endpoints"]["docker"].get("Host", "")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise SandboxConfigError(f"{what} holds no address of a daemon", hint=_CONTEXT_HINT) from error
    if not isinstance(host, str) or not host:
        raise SandboxConfigError(f"{what} holds no address of a daemon", hint=_CONTEXT_HINT)
    return host


def _check_certificates(env: Mapping[str, str], folder: str, read: ReadFile) -> None:
    """With TLS asked for by variables the client needs at least ca.pem; any text but the empty one asks."""
    asking = next((name for name in ("DOCKER_TLS_VERIFY", "DOCKER_TLS") if env.get(name)), "")
    if not asking:
        return
    path = os.path.join(env.get("DOCKER_CERT_PATH", "") or folder, "ca.pem")
    if _read(path, read) is None:
        raise SandboxConfigError(
            f'{asking} is set, and the certificate "{visible(path)}" does not exist',
            hint="let DOCKER_CERT_PATH name the folder of ca.pem, cert.pem and key.pem, or unset the variable",
        )


def _check_api_version(env: Mapping[str, str]) -> None:
    version = env.get("DOCKER_API_VERSION", "")
    if version and not _API_VERSION.fullmatch(version):
        raise SandboxConfigError(
            f'DOCKER_API_VERSION is "{visible(truncate(version, 100))}", which is not a version',
            hint="unset it, or write one such as 1.41",
        )


def _read(path: str, read: ReadFile) -> bytes | None:
    try:
        return read(path)
    except OSError as error:
        raise SandboxConfigError(
            f'"{visible(path)}" cannot be read, and Docker\'s client needs it: {error.strerror or error}',
            hint="correct its owner and mode, or remove it",
        ) from error


_HELPER = pattern(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # no slash: it is the end of a program's name
_ACCOUNT = ("auth", "username", "password", "email", "identitytoken", "registrytoken")
_CERTIFICATES = ("ca.pem", "cert.pem", "key.pem")


def copied_files(config: ClientConfig, read: ReadFile) -> dict[tuple[str, ...], bytes]:
    """Return what is to stand in the client's folder: (folders and name) → bytes.

    `read` gets the files of a context. Raises OSError when one of them cannot be read.
    """
    files: dict[tuple[str, ...], bytes] = {(CONFIG_FILE,): _json(_copied_settings(config))}
    if config.context == DEFAULT_CONTEXT:
        return files
    digest = _digest_of(config.context)
    meta = read(os.path.join(config.folder, "contexts", "meta", digest, "meta.json"))
    files["contexts", "meta", digest, "meta.json"] = _json(_context(config, meta or b"{}"))
    for name in _CERTIFICATES:
        data = read(os.path.join(config.folder, "contexts", "tls", digest, "docker", name))
        if data is not None:
            files["contexts", "tls", digest, "docker", name] = data
    return files


def _copied_settings(config: ClientConfig) -> dict[str, object]:
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
    import json

    endpoint = _object(_object(_object(json.loads(data)).get("Endpoints")).get("docker"))
    docker = {"Host": config.host, "SkipTLSVerify": endpoint.get("SkipTLSVerify") is True}
    return {"Name": config.context, "Metadata": {}, "Endpoints": {"docker": docker}}


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _json(value: object) -> bytes:
    import json

    return (json.dumps(value, sort_keys=True) + "\n").encode()


def _digest_of(context: str) -> str:
    """Return the name of a context's folder."""
    import hashlib  # loads OpenSSL; few have a context of their own

    return hashlib.sha256(context.encode("utf-8", errors="surrogateescape")).hexdigest()
