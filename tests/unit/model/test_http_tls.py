"""http.py over TLS: whom it believes, and the way through a proxy (B43)."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.model_server import ModelServer, text

from odek.errors import ConfigError
from odek.model.endpoint import Endpoint
from odek.model.errors import ModelError, ModelRejected, ModelUnreachable
from odek.model.http import Effects, HttpModel
from odek.model.provider import RequestOptions
from odek.model.transport import has_cas, load_first_bundle, read_tls_context
from odek.model.types import Message

TLS = Path(__file__).parents[2] / "data" / "tls"
CA = {"SSL_CERT_FILE": str(TLS / "ca.pem")}
ASK = (Message(role="user", content="go"),)
OPTIONS = RequestOptions(model="m")


def server_context(name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / name)
    return context


def ask(base_url: str, env: dict[str, str]) -> str:
    model = HttpModel(
        base_url=base_url, options=OPTIONS, env=env, on_notice=lambda _: None, effects=Effects(sleep=lambda _: None)
    )
    return model.complete(ASK, (), lambda _: None).message.content


def test_private_ca_of_ssl_cert_file_is_believed() -> None:
    """B43 (b)."""
    with ModelServer(text("hi"), tls=server_context("good.pem")) as server:
        assert ask(server.base_url, CA) == "hi"
    server.assert_all_used()


def test_private_ca_of_ssl_cert_dir_is_believed(tmp_path: Path) -> None:
    """B43 (b): OpenSSL finds a CA by the hash of its subject."""
    certificate = (TLS / "ca.pem").read_bytes()
    for number in range(2):
        (tmp_path / f"{_subject_hash()}.{number}").write_bytes(certificate)
    with ModelServer(text("hi"), tls=server_context("good.pem")) as server:
        assert ask(server.base_url, {"SSL_CERT_DIR": str(tmp_path)}) == "hi"


@pytest.mark.parametrize(
    ("certificate", "env", "reason"),
    [
        pytest.param("good.pem", {}, "unable to get local issuer certificate", id="b-without-the-ca"),
        pytest.param("expired.pem", CA, "certificate has expired", id="c-expired"),
        pytest.param(
            "othername.pem", CA, "IP address mismatch, certificate is not valid for '127.0.0.1'.", id="c-other-name"
        ),
    ],
)
def test_certificate_that_is_not_trusted_ends_the_call_at_once(
    certificate: str, env: dict[str, str], reason: str
) -> None:
    """B43 (b), (c): the host is named, nothing is sent, and no way to look away is offered."""
    with ModelServer(tls=server_context(certificate)) as server:
        with pytest.raises(ModelUnreachable) as caught:
            ask(server.base_url, env)
        assert server.requests == []
    assert caught.value.message == f"the certificate of 127.0.0.1:{server.port} is not trusted: {reason}"
    assert caught.value.hint == "if the server has a CA of its own, name its file in SSL_CERT_FILE"


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (
            {"SSL_CERT_FILE": "/nowhere/ca.pem"},
            'SSL_CERT_FILE "/nowhere/ca.pem" cannot be used: No such file or directory',
        ),
        ({"SSL_CERT_FILE": __file__}, f'SSL_CERT_FILE "{__file__}" cannot be used: it holds no certificate'),
        ({"SSL_CERT_DIR": "/nowhere"}, 'SSL_CERT_DIR names no directory: "/nowhere"'),
    ],
)
def test_ca_that_cannot_be_read_is_an_error(env: dict[str, str], message: str) -> None:
    """B43 (b)."""
    with pytest.raises(ConfigError) as caught:
        read_tls_context(env)
    assert caught.value.message == message


@pytest.mark.parametrize("env", [{}, CA, {"SSL_CERT_FILE": "", "SSL_CERT_DIR": ""}])
def test_certificates_and_names_are_always_checked(env: dict[str, str]) -> None:
    context = read_tls_context(env)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_system_bundle_is_looked_for_where_python_knows_no_ca(tmp_path: Path) -> None:
    """B43: a Python that was built elsewhere, as in a frozen binary."""
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    assert not has_cas(bare, "/nowhere")
    assert not has_cas(bare, str(tmp_path))
    load_first_bundle(bare, ("/nowhere", str(tmp_path)))
    assert not has_cas(bare, "/nowhere")
    load_first_bundle(bare, ("/nowhere", str(TLS / "ca.pem"), str(TLS / "README.md")))
    assert has_cas(bare, "/nowhere")
    fresh = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # a folder with the bundle alone, as of NixOS or an image without a shell: OpenSSL finds nothing in it
    for name in ("ca-certificates.crt", "README", "1234567.0", "0a1b2c3g.0", "0a1b2c3d.r0", "0a1b2c3d"):
        (tmp_path / name).touch()
    assert not has_cas(fresh, str(tmp_path))
    (tmp_path / "0a1b2c3d.0").touch()
    assert has_cas(fresh, str(tmp_path))


def test_tls_is_read_only_for_https() -> None:
    """A broken SSL_CERT_FILE does not concern a local server."""
    with ModelServer(text("hi")) as server:
        assert ask(server.base_url, {"SSL_CERT_FILE": "/nowhere"}) == "hi"


class ConnectProxy:
    """Takes CONNECT requests, and answers them or passes bytes on to one port of the loopback."""

    def __init__(self, target_port: int, refusal: bytes = b"") -> None:
        self._target_port = target_port
        self._refusal = refusal
        self.heads: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += client.recv(1)
        self.heads.append(head)
        if self._refusal:
            client.sendall(self._refusal)
            client.close()
            return
        with client, socket.create_connection(("127.0.0.1", self._target_port)) as server:
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            there = threading.Thread(target=self._copy, args=(client, server), daemon=True)
            there.start()
            self._copy(server, client)
            there.join(5)

    @staticmethod
    def _copy(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def make_proxy() -> Callable[..., ConnectProxy]:
    return ConnectProxy


def test_https_through_a_proxy_checks_the_name_of_the_server_and_hides_the_rest(
    make_proxy: Callable[..., ConnectProxy],
) -> None:
    """B43 (a), (g): the proxy sees a CONNECT with its own password, and nothing of the request."""
    with ModelServer(text("hi"), tls=server_context("othername.pem")) as server:
        proxy = make_proxy(server.port)
        env = CA | {"https_proxy": f"http://me:secret@127.0.0.1:{proxy.port}"}
        assert ask("https://other.example/v1", env) == "hi"
        proxy.close()
    assert "proxy-authorization" not in server.requests[0].headers
    (head,) = proxy.heads
    assert head.startswith(b"CONNECT other.example:443 HTTP/1.")
    assert b"Proxy-Authorization: Basic bWU6c2VjcmV0\r\n" in head
    assert b"chat" not in head


@pytest.mark.parametrize(
    ("refusal", "kind", "reason"),
    [
        (
            b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
            ModelRejected,
            "answered 407 Proxy Authentication Required",
        ),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", ModelRejected, "answered 403 Forbidden"),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", ModelUnreachable, "answered 502 Bad Gateway (4 attempts)"),
    ],
)
def test_proxy_that_refuses_is_named_without_its_password(
    make_proxy: Callable[..., ConnectProxy], refusal: bytes, kind: type[ModelError], reason: str
) -> None:
    """B43 (e), (g)."""
    proxy = make_proxy(0, refusal)
    with pytest.raises(ModelError) as caught:
        ask("https://other.example/v1", CA | {"HTTPS_PROXY": f"http://me:secret@127.0.0.1:{proxy.port}"})
    proxy.close()
    assert type(caught.value) is kind
    assert caught.value.message == f"the proxy 127.0.0.1:{proxy.port} (HTTPS_PROXY) {reason}"


def test_loopback_goes_past_the_proxy() -> None:
    """B43 (a)."""
    with ModelServer(text("hi"), tls=server_context("good.pem")) as server:
        assert ask(server.base_url, CA | {"HTTPS_PROXY": "http://127.0.0.1:1"}) == "hi"


def test_endpoint_shown_in_messages_has_no_default_port() -> None:
    endpoint = Endpoint(scheme="https", host="::1", port=443, target="/")
    assert (endpoint.authority, endpoint.url) == ("[::1]", "https://[::1]/")


def _subject_hash() -> str:
    """Return `openssl x509 -subject_hash` of the test CA."""
    return "41c11b4a"
