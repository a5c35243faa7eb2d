"""Which daemon Docker's client is set up to talk to; whoever cannot tell is not "unreachable" (D-25)."""

from __future__ import annotations

import hashlib
import json

import pytest

from odek.sandbox.client_config import ClientConfig, check_address, config_folder, read_client_config
from odek.sandbox.errors import SandboxConfigError

HOME = "/home/ada"
CONFIG = f"{HOME}/.docker/config.json"


def context_file(name: str, folder: str = f"{HOME}/.docker") -> str:
    return f"{folder}/contexts/meta/{hashlib.sha256(name.encode()).hexdigest()}/meta.json"


def meta(host: object) -> bytes:
    return json.dumps({"Name": "x", "Endpoints": {"docker": {"Host": host, "SkipTLSVerify": False}}}).encode()


def found(env: dict[str, str], files: dict[str, bytes] | None = None, *, home: str = HOME) -> ClientConfig:
    return read_client_config(env, home=home, read=lambda path: (files or {}).get(path))


GOOD_ADDRESSES = (
    "unix:///var/run/docker.sock", "unix://", "tcp://127.0.0.1:2375", "tcp://",
    "tcp://docker.example.com", "tcp://[::1]:2376", "tcp://[fe80::1%eth0]:2375", "tcp://:2375", "tcp://h:1/path",
    "127.0.0.1:1", "nowhere", "ssh://host", "ssh://ada@host:22", "ssh://ada@host/run/docker.sock",
)  # fmt: skip
BAD_ADDRESSES = (
    "foo://bar", "http://127.0.0.1:1", "https://127.0.0.1:1", "npipe:////./pipe/docker_engine", "fd://3", "fd://",
    "UNIX:///x", "Tcp://h:1", "://h", "unix://relative.sock", "unix://./docker.sock", "unix:/x", "/run/docker.sock",
    "tcp:///run/docker.sock", "tcp://h:99999", "tcp://h:0", "tcp://h:", "tcp://h:port", "tcp://[::1", "h:1:2",
    "tcp://a b:1", "tcp://h\n:1", "tcp://h\x7f", "tcp://hé:1", "ssh://", "ssh://ada:secret@host", "ssh://host?x",
    "ssh://host#x", "ssh://-oProxyCommand=x", "$DOCKER", "tcp://${HOST}:1", "--context=x", "a,b",
)  # fmt: skip


@pytest.mark.parametrize("address", GOOD_ADDRESSES)
def test_address_that_the_client_knows_how_to_talk_to(address: str) -> None:
    """A2, D-25: such a daemon was named; nobody may be there."""
    check_address(address, origin="DOCKER_HOST")
    assert found({"DOCKER_HOST": address}).host == address


@pytest.mark.parametrize("address", BAD_ADDRESSES)
@pytest.mark.parametrize("by", ["variable", "context"])
def test_address_that_names_no_daemon_is_refused(address: str, by: str) -> None:
    """A2, D-25: from DOCKER_HOST and from a context alike; the message names who said it."""
    env = {"DOCKER_HOST": address} if by == "variable" else {"DOCKER_CONTEXT": "c"}
    with pytest.raises(SandboxConfigError) as refused:
        found(env, {context_file("c"): meta(address)})
    assert ("DOCKER_HOST" if by == "variable" else "DOCKER_CONTEXT") in refused.value.message
    assert "secret" not in refused.value.message


def test_password_in_an_address_is_not_shown() -> None:
    """A2."""
    with pytest.raises(SandboxConfigError) as refused:
        check_address("http://ada:hunter2@host", origin="DOCKER_HOST")
    assert "hunter2" not in refused.value.message


@pytest.mark.parametrize(
    ("env", "files", "wanted"),
    [
        ({}, {}, ("default", "", "default")),
        ({"DOCKER_HOST": "", "DOCKER_CONTEXT": ""}, {}, ("default", "", "default")),
        ({"DOCKER_HOST": " "}, {}, ("default", "", "default")),
        ({"DOCKER_CONTEXT": "default"}, {CONFIG: b'{"currentContext": "gone"}'}, ("default", "", "DOCKER_CONTEXT")),
        ({}, {CONFIG: b""}, ("default", "", "default")),
        ({}, {CONFIG: b" \n"}, ("default", "", "default")),
        ({}, {CONFIG: b"{}"}, ("default", "", "default")),
        ({}, {CONFIG: b'{"currentContext": ""}'}, ("default", "", "default")),
        ({}, {CONFIG: b'{"currentContext": null}'}, ("default", "", "default")),
        ({}, {CONFIG: b'{"auths": {}} trailing'}, ("default", "", "default")),
        (
            {},
            {CONFIG: b'{"currentContext": "c"}', context_file("c"): meta("unix:///c.sock")},
            ("c", "unix:///c.sock", CONFIG),
        ),
        (
            {},
            {CONFIG: b'{"CURRENTCONTEXT": "c"}', context_file("c"): meta("unix:///c.sock")},
            ("c", "unix:///c.sock", CONFIG),
        ),
        (
            {"DOCKER_CONTEXT": "d"},
            {CONFIG: b'{"currentContext": "c"}', context_file("d"): meta("tcp://d:1")},
            ("d", "tcp://d:1", "DOCKER_CONTEXT"),
        ),
        (
            {"DOCKER_HOST": "unix:///h", "DOCKER_CONTEXT": "gone"},
            {CONFIG: b'{"currentContext": "gone"}'},
            ("default", "unix:///h", "DOCKER_HOST"),
        ),
        (
            {"DOCKER_CONFIG": "/else", "DOCKER_CONTEXT": "c"},
            {context_file("c", "/else"): meta("unix:///c")},
            ("c", "unix:///c", "DOCKER_CONTEXT"),
        ),
        ({"DOCKER_TLS_VERIFY": "1"}, {f"{HOME}/.docker/ca.pem": b""}, ("default", "", "default")),
        ({"DOCKER_TLS": "1", "DOCKER_CERT_PATH": "/c"}, {"/c/ca.pem": b""}, ("default", "", "default")),
        ({"DOCKER_CERT_PATH": "/gone"}, {}, ("default", "", "default")),
        ({"DOCKER_TLS_VERIFY": ""}, {}, ("default", "", "default")),
        ({"DOCKER_API_VERSION": "1.41"}, {}, ("default", "", "default")),
    ],
)
def test_daemon_is_found_as_the_client_finds_it(
    env: dict[str, str], files: dict[str, bytes], wanted: tuple[str, str, str]
) -> None:
    """A2, D-25: DOCKER_HOST, DOCKER_CONTEXT, currentContext, the default socket, in this order."""
    config = found(env, files)
    assert (config.context, config.host, config.origin) == wanted


@pytest.mark.parametrize(
    ("env", "files", "named"),
    [
        ({"DOCKER_CONTEXT": "gone"}, {}, '"gone" (DOCKER_CONTEXT)'),
        ({"DOCKER_CONTEXT": "../../x"}, {}, "DOCKER_CONTEXT"),
        ({"DOCKER_CONTEXT": "\x1b[2J"}, {}, "DOCKER_CONTEXT"),
        ({}, {CONFIG: b'{"currentContext": "gone"}'}, CONFIG),
        ({}, {CONFIG: b'{"currentContext": 5}'}, CONFIG),
        ({}, {CONFIG: b'{"currentContext": ["c"]}'}, CONFIG),
        ({}, {CONFIG: b"{bad"}, CONFIG),
        ({}, {CONFIG: b"[]"}, CONFIG),
        ({}, {CONFIG: b'"text"'}, CONFIG),
        ({}, {CONFIG: "\ufeff{}".encode()}, CONFIG),
        ({}, {CONFIG: b"\xff\xfe"}, CONFIG),
        ({}, {CONFIG: b"[" * 100_000}, CONFIG),
        ({"DOCKER_HOST": "unix:///h"}, {CONFIG: b"{bad"}, CONFIG),
        ({"DOCKER_CONTEXT": "c"}, {context_file("c"): b"{"}, '"c" (DOCKER_CONTEXT)'),
        ({"DOCKER_CONTEXT": "c"}, {context_file("c"): b"[]"}, '"c" (DOCKER_CONTEXT)'),
        ({"DOCKER_CONTEXT": "c"}, {context_file("c"): b"{}"}, '"c" (DOCKER_CONTEXT)'),
        ({"DOCKER_CONTEXT": "c"}, {context_file("c"): b'{"Endpoints": {"docker": 1}}'}, '"c" (DOCKER_CONTEXT)'),
        ({"DOCKER_CONTEXT": "c"}, {context_file("c"): meta("")}, '"c" (DOCKER_CONTEXT)'),
        ({"DOCKER_CONTEXT": "c"}, {context_file("c"): meta(None)}, '"c" (DOCKER_CONTEXT)'),
        ({"DOCKER_TLS_VERIFY": "1", "DOCKER_HOST": "tcp://h:1"}, {}, "DOCKER_TLS_VERIFY"),
        ({"DOCKER_TLS_VERIFY": "0"}, {}, "DOCKER_TLS_VERIFY"),
        ({"DOCKER_TLS": "1"}, {}, "DOCKER_TLS"),
        ({"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/gone"}, {}, "/gone/ca.pem"),
        ({"DOCKER_API_VERSION": "foo"}, {}, "DOCKER_API_VERSION"),
        ({"DOCKER_API_VERSION": "1"}, {}, "DOCKER_API_VERSION"),
    ],
)
def test_client_that_cannot_name_its_daemon_is_refused(
    env: dict[str, str], files: dict[str, bytes], named: str
) -> None:
    """A2, D-25: and the message names what to look at."""
    with pytest.raises(SandboxConfigError) as refused:
        found(env, files)
    assert named in refused.value.message
    assert refused.value.hint
    assert refused.value.message.isprintable()


@pytest.mark.parametrize("path", [CONFIG, context_file("c")])
def test_file_that_cannot_be_read_is_refused(path: str) -> None:
    """A2: what it would have said is not known."""

    def read(asked: str) -> bytes | None:
        if asked == path:
            raise PermissionError(13, "Permission denied")
        return None

    with pytest.raises(SandboxConfigError, match="cannot be read"):
        read_client_config({"DOCKER_CONTEXT": "c"}, home=HOME, read=read)


def test_settings_are_those_of_the_folder_that_the_client_reads() -> None:
    """A2."""
    assert config_folder({}, home=HOME) == f"{HOME}/.docker"
    assert config_folder({"DOCKER_CONFIG": "/else"}, home=HOME) == "/else"
    assert config_folder({}, home="") == ""
    assert found({}, home="").folder == ""
    assert found({}, {CONFIG: b'{"credsStore": "pass"}'}).settings == {"credsStore": "pass"}
