"""endpoint.py: base URLs and proxies."""

from __future__ import annotations

import pytest

from odek.errors import ConfigError
from odek.model.endpoint import BaseUrl, Endpoint, Proxy, checked_key, choose_proxy, is_loopback, parse_base_url


def base(url: str, *, allow_plain_http: bool = True) -> BaseUrl:
    return parse_base_url(url, allow_plain_http=allow_plain_http)


def endpoint(url: str, *, allow_plain_http: bool = True) -> Endpoint:
    found = base(url, allow_plain_http=allow_plain_http)
    return found.endpoint(f"{found.path}/chat/completions")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://api.example.com/v1", "https://api.example.com/v1/chat/completions"),
        ("https://api.example.com/v1/", "https://api.example.com/v1/chat/completions"),
        ("https://api.example.com", "https://api.example.com/chat/completions"),
        ("HTTPS://API.example.com:443/v1", "https://api.example.com/v1/chat/completions"),
        ("https://api.example.com:8443/v1", "https://api.example.com:8443/v1/chat/completions"),
        ("https://example.com/openai?api-version=1", "https://example.com/openai/chat/completions?api-version=1"),
        ("http://127.0.0.1:11434/v1", "http://127.0.0.1:11434/v1/chat/completions"),
        ("http://127.3.2.1/v1", "http://127.3.2.1/v1/chat/completions"),
        ("http://localhost:8080/v1", "http://localhost:8080/v1/chat/completions"),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1/chat/completions"),
    ],
)
def test_base_url_is_accepted(text: str, url: str) -> None:
    """R-82."""
    assert endpoint(text, allow_plain_http=False).url == url


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'base_url "" is not an http or https address'),
        ("api.example.com/v1", 'base_url "api.example.com/v1" is not an http or https address'),
        ("ftp://example.com", 'base_url "ftp://example.com" is not an http or https address'),
        ("file:///etc/passwd", 'base_url "file:///etc/passwd" is not an http or https address'),
        ("https:///v1", 'base_url "https:///v1" names no valid host'),
        ("https://exa mple.com", 'base_url "https://exa mple.com" is not an http or https address'),
        ("https://example.com/\r\nX: y", 'base_url "https://example.com/\\r\\nX: y" is not an http or https address'),
        ("https://exämple.com", 'base_url "https://exämple.com" is not an http or https address'),
        ("https://example.com/#x", 'base_url "https://example.com/#x" is not an http or https address'),
        ("https://example.com:0/", 'base_url "https://example.com:0/" is not an http or https address'),
        ("https://example.com:99999/", 'base_url "https://example.com:99999/" is not valid'),
        ("https://[::1/", 'base_url "https://[::1/" is not valid'),
        ("https://me:secret@example.com:x/", 'base_url "…example.com:x/" is not valid'),
        ("https://me:secret@example.com/v1", "base_url must not hold a user or a password"),
        ("https://secret@example.com/v1", "base_url must not hold a user or a password"),
        (
            "http://example.com/v1?key=secret",
            'base_url "http://example.com/v1" would send the key and the conversation unencrypted',
        ),
        ("http://10.0.0.1/v1", 'base_url "http://10.0.0.1/v1" would send the key and the conversation unencrypted'),
        (
            "http://localhost.example.com/",
            'base_url "http://localhost.example.com/" would send the key and the conversation unencrypted',
        ),
        (
            "http://127.0.0.1.example.com/",
            'base_url "http://127.0.0.1.example.com/" would send the key and the conversation unencrypted',
        ),
        ("http://2130706433/", 'base_url "http://2130706433/" would send the key and the conversation unencrypted'),
    ],
)
def test_base_url_is_refused(text: str, message: str) -> None:
    """R-82: http(s) only, no userinfo, plain http for the loopback only; secrets are not shown."""
    with pytest.raises(ConfigError) as caught:
        base(text, allow_plain_http=False)
    assert caught.value.message == message


def test_plain_http_elsewhere_is_allowed_when_the_operator_said_so() -> None:
    assert endpoint("http://example.com:80/v1") == Endpoint(
        scheme="http", host="example.com", port=80, target="/v1/chat/completions"
    )


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("127.0.0.1", True),
        ("127.255.0.9", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("128.0.0.1", False),
        ("notlocalhost", False),
        ("a.localhost.example", False),
    ],
)
def test_loopback(host: str, *, expected: bool) -> None:
    assert is_loopback(host) is expected


PROXY = Proxy(host="proxy.corp", port=3128, variable="https_proxy")


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"https_proxy": "http://proxy.corp:3128"}, PROXY, id="lower"),
        pytest.param(
            {"HTTPS_PROXY": "http://proxy.corp:3128/"},
            Proxy(host="proxy.corp", port=3128, variable="HTTPS_PROXY"),
            id="upper",
        ),
        pytest.param({"https_proxy": "proxy.corp:3128"}, PROXY, id="no-scheme"),
        pytest.param(
            {"https_proxy": "http://proxy.corp:3128", "HTTPS_PROXY": "http://other:1"}, PROXY, id="lower-wins"
        ),
        pytest.param({"https_proxy": "", "HTTPS_PROXY": "http://other:1"}, None, id="empty-lower-wins"),
        pytest.param(
            {"ALL_PROXY": "http://proxy.corp"}, Proxy(host="proxy.corp", port=80, variable="ALL_PROXY"), id="all"
        ),
        pytest.param({"http_proxy": "http://proxy.corp:3128"}, None, id="other-scheme"),
        pytest.param(
            {"https_proxy": "http://us%40er:p%3Aw@proxy.corp:3128"},
            Proxy(host="proxy.corp", port=3128, user="us@er", password="p:w", variable="https_proxy"),
            id="password",
        ),
        pytest.param(
            {"https_proxy": "http://[fd00::1]:3128"},
            Proxy(host="fd00::1", port=3128, variable="https_proxy"),
            id="ipv6",
        ),
    ],
)
def test_proxy_of_the_environment(env: dict[str, str], expected: Proxy | None) -> None:
    """B43 (a)."""
    assert choose_proxy(base("https://api.example.com/v1"), env) == expected


@pytest.mark.parametrize(
    ("url", "no_proxy", "excepted"),
    [
        ("https://api.corp", "127.0.0.1,localhost,::1,.corp", True),
        ("https://corp", ".corp", True),
        ("https://api.corp", "corp", True),
        ("https://api.corp", "*.corp", True),
        ("https://API.corp.", "api.CORP", True),
        ("https://api.corp", " x.y , api.corp ", True),
        ("https://api.corp", "x.y api.corp", True),
        ("https://api.corp", "*", True),
        ("https://notcorp", "corp", False),
        ("https://corp.example", "corp", False),
        ("https://api.corp", "", False),
        ("https://api.corp", ",.,", False),
        ("https://api.corp", "api.corp:443", True),
        ("https://api.corp", "api.corp:8443", False),
        ("https://10.1.2.3", "10.0.0.0/8", True),
        ("https://10.1.2.3", "10.1.2.3", True),
        ("https://10.1.2.3", "2.3", False),
        ("https://11.1.2.3", "10.0.0.0/8", False),
        ("https://[fd00::1]", "fd00::/8", True),
        ("https://[fd00::1]:444", "[fd00::1]:444", True),
        ("https://127.0.0.1:9", "", True),
        ("http://localhost", "", True),
        ("https://[::1]", "", True),
    ],
)
def test_no_proxy(url: str, no_proxy: str, *, excepted: bool) -> None:
    """B43 (a); the loopback never needs to be told."""
    env = {"all_proxy": "http://proxy.corp:3128", "NO_PROXY": no_proxy}
    assert (choose_proxy(base(url), env) is None) is excepted


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("socks5://me:secret@h:1", "the proxy in https_proxy is of a kind that odek does not support: socks5"),
        ("https://h:1", "the proxy in https_proxy is of a kind that odek does not support: https"),
        ("http://me:secret@h:x", "the proxy in https_proxy is not a valid address"),
        ("http://me:secret@", "the proxy in https_proxy names no valid host"),
    ],
)
def test_proxy_that_cannot_be_used_is_a_clear_error_without_its_password(value: str, message: str) -> None:
    """B43 (g), (h)."""
    with pytest.raises(ConfigError) as caught:
        choose_proxy(base("https://api.example.com"), {"https_proxy": value})
    assert caught.value.message == message
    assert "secret" not in caught.value.hint


@pytest.mark.parametrize("key", ["se cret", "secret\n", "\tsecret", "sécret", "secret\r\nX: y"])
def test_key_that_cannot_stand_in_a_header_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        checked_key(key)
    assert "cret" not in caught.value.message + caught.value.hint


def test_key_is_optional() -> None:
    """R-82: local servers need none."""
    assert (checked_key(""), checked_key("sk-123")) == ("", "sk-123")
