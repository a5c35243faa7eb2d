"""Downloads from a server that may be hostile (R-345)."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.release_server import Answer, ReleaseServer, serve_releases

from odek.errors import ConfigError
from odek.model.endpoint import Endpoint
from odek.update.download import Network, follow, parse_address
from odek.update.release import UpdateError

TLS = Path(__file__).parents[2] / "data" / "tls"
LIMIT = 1000
FILE = "/releases/file"


@pytest.fixture
def server() -> Iterator[ReleaseServer]:
    with serve_releases() as made:
        yield made


def get(address: str, env: dict[str, str] | None = None, limit: int = LIMIT) -> bytes:
    found = bytearray()
    Network(env=env or {})(address, limit, lambda chunk, _: found.extend(chunk))
    return bytes(found)


@pytest.mark.parametrize(
    "text",
    [
        *("", "odek", "//host/x", "ftp://host/x", "file:///etc/passwd", "data:text/plain,x", "https://", "https:///x"),
        *("http://host.example/x", "http://127.0.0.1.example/x", "http://[::2]/x", "http://10.0.0.1/"),
        *("https://user:secret@host/x", "https://host:0/x", "https://host:x/", "https://ho st/", "https://host/a b"),
        *("https://host/\r\nX: y", "https://h\u00f6st/", "https://[::1", "HTTP://host.example/x"),
    ],
)
def test_an_address_that_is_not_https_is_refused(text: str) -> None:
    """R-345: plain http is for this machine; no secret of an address is shown."""
    with pytest.raises(UpdateError) as caught:
        parse_address(text)
    assert "secret" not in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "target"),
    [("https://h.example/a?b=c#d", "/a?b=c"), ("https://h.example", "/"), ("http://[::1]:8080/a/", "/a/")],
)
def test_an_address_is_taken_as_it_is(text: str, target: str) -> None:
    """No end of a path is taken for one of a model's API."""
    assert parse_address(text).target == target
    assert parse_address("https://h.example/v1/models/").target == "/v1/models/"


HTTPS, LOOPBACK = parse_address("https://h.example/r/odek"), parse_address("http://127.0.0.1:80/r/odek")


@pytest.mark.parametrize(
    ("place", "location", "leads_to"),
    [
        (HTTPS, "https://other.example/x?sig=1", "https://other.example/x?sig=1"),
        (HTTPS, "/x", "https://h.example/x"),
        (HTTPS, "//other.example/x", "https://other.example/x"),
        (LOOPBACK, "http://localhost:81/x", "http://localhost:81/x"),
        (LOOPBACK, "https://other.example/x", "https://other.example/x"),
        (HTTPS, "http://other.example/x", ""),
        (HTTPS, "http://127.0.0.1/x", ""),
        (LOOPBACK, "http://other.example/x", ""),
        (HTTPS, "file:///etc/passwd", ""),
        (LOOPBACK, "file:///etc/passwd", ""),
        (HTTPS, "ftp://h.example/x", ""),
        (HTTPS, "https://user:pw@h.example/x", ""),
        (HTTPS, "https://h.example/\x00", ""),
        (HTTPS, "https://[::1/x", ""),
        (HTTPS, "//[x]y/", ""),
        (HTTPS, "https://h\u2100.example/", ""),
        (HTTPS, "https://h.example:99999999/", ""),
        (LOOPBACK, "http://2130706433/", ""),
    ],
)
def test_a_redirect_never_gives_up_encryption(place: Endpoint, location: str, leads_to: str) -> None:
    """R-345: nor leads to a file."""
    if leads_to:
        assert follow(place, location).url == leads_to
        return
    with pytest.raises(UpdateError):
        follow(place, location)


def test_a_redirect_is_followed_a_few_times(server: ReleaseServer) -> None:
    server.files["/releases/there"] = b"content"
    server.answers[FILE] = Answer(302, headers={"Location": "there"})
    assert get(f"{server.address}/file") == b"content"
    server.answers[FILE] = Answer(302, headers={"Location": "file"})
    with pytest.raises(UpdateError, match="redirects without end"):
        get(f"{server.address}/file")
    assert server.asked.count(FILE) == 7


@pytest.mark.parametrize(
    ("answer", "message", "hint"),
    [
        (Answer(404), "there is no http://127.0.0.1", "check the version"),
        (Answer(403), "refuses for now, or for good: 403", "try again later"),
        (Answer(429, headers={"Retry-After": "120"}), "429 Too Many Requests", "wait 120 seconds, or try again later"),
        (Answer(429, headers={"Retry-After": "\x1b[31m"}), "429 Too Many Requests", "try again later"),
        (Answer(500), "answered 500", "try again later"),
        (Answer(204), "answered 204", "try again later"),
        (Answer(206, b"x"), "answered 206", "try again later"),
        (Answer(300), "answered 300", "try again later"),
        (Answer(body=b"x" * (LIMIT + 1)), "is larger than 0 MiB", ""),
        (Answer(body=b"x", headers={"Content-Length": str(1 << 40)}), "is larger than", ""),
        (Answer(body=b"x" * (LIMIT + 1), headers={"Content-Length": "none"}), "is larger than", ""),
        (Answer(body=b"x", headers={"Content-Length": "9"}), "was cut off", "try again"),
        (Answer(body=b"x", headers={"Content-Length": "9" * 5000}), "a length that nothing has", "check the network"),
        (Answer(body=b"x", headers={"Content-Encoding": "gzip"}), "came compressed", ""),
        (Answer(301), "redirects without end", ""),
        (Answer(302, headers={"Location": "file:///etc/passwd"}), "not an address", ""),
        (Answer(302, headers={"Location": "http://host.example/"}), "not an https address", ""),
    ],
)
def test_an_answer_that_is_not_the_file_is_one_clear_error(
    answer: Answer, message: str, hint: str, server: ReleaseServer
) -> None:
    """R-345: a rate limit, a huge file, half of one, redirects away."""
    server.answers[FILE] = answer
    with pytest.raises(UpdateError) as caught:
        get(f"{server.address}/file")
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.message.isprintable()


def test_a_server_that_speaks_something_else_or_nothing_is_one_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def speak() -> None:
            for words in (b"SSH-2.0-x\r\n", b"", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
                connection, _ = listening.accept()
                connection.recv(1000)
                connection.sendall(words)
                connection.close()

        thread = threading.Thread(target=speak)
        thread.start()
        for _ in range(3):
            with pytest.raises(UpdateError, match=f"127.0.0.1:{port} could not be reached"):
                get(f"http://127.0.0.1:{port}/x")
        thread.join()
    with pytest.raises(UpdateError, match="refused"):
        get(f"http://127.0.0.1:{port}/x")


def test_a_server_that_drips_is_left() -> None:
    """R-345: the time for all of it is bounded, not only that for a byte; the clock is the test's."""
    with serve_releases() as server:
        server.files[FILE] = b"x"
        ticks = iter(range(0, 10**6, 40))
        with pytest.raises(UpdateError, match="too slowly"):
            Network(env={}, now=lambda: float(next(ticks)))(f"{server.address}/file", LIMIT, lambda *_: None)


def test_tls_is_that_of_the_model_client() -> None:
    """R-345: the same authorities, and no way to look away."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "good.pem")
    with serve_releases(context) as server, serve_releases() as plain:
        server.files[FILE] = b"content"
        trusting = {"SSL_CERT_FILE": str(TLS / "ca.pem")}
        assert get(f"{server.address}/file", trusting) == b"content"
        with pytest.raises(UpdateError, match="is not trusted") as caught:
            get(f"{server.address}/file")
        assert "SSL_CERT_FILE" in caught.value.hint
        server.answers[FILE] = Answer(302, headers={"Location": f"{plain.address}/file"})
        with pytest.raises(UpdateError, match="without encryption"):
            get(f"{server.address}/file", trusting)
        assert plain.asked == []
        with pytest.raises(ConfigError, match="SSL_CERT_FILE"):
            get(f"{server.address}/file", {"SSL_CERT_FILE": "/nowhere"})


def test_a_proxy_is_asked_for_a_tunnel_and_named_when_it_refuses(server: ReleaseServer) -> None:
    """R-345: as the model's client has it; the loopback never goes through one."""
    proxy = server.address.removesuffix("/releases")
    with pytest.raises(UpdateError, match=r"the proxy 127\.0\.0\.1:\d+ \(HTTPS_PROXY\) answered 501"):
        get("https://releases.invalid/file", {"HTTPS_PROXY": proxy})
    with pytest.raises(UpdateError, match="of a kind that odek does not support") as caught:
        get("https://releases.invalid/file", {"ALL_PROXY": "socks5://127.0.0.1:1"})
    assert "releases.invalid into NO_PROXY" in caught.value.hint
    server.files[FILE] = b"x"
    assert get(f"{server.address}/file", {"http_proxy": "http://127.0.0.1:1"}) == b"x"
