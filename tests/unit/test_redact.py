"""Secrets taken out of text: known values in every usual encoding, formats of well-known services (F-50)."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from odek.redact import MARK, Redactor, secrets_in

SECRET = 'hunter2/"quoted" and\\more+ü'
KEY = "sk-test-CANARY01"
MULTI = "-----BEGIN THING-----\nQUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo=\nshort\n-----END THING-----"


def base64_of(text: str, *, urlsafe: bool = False) -> str:
    encode = base64.urlsafe_b64encode if urlsafe else base64.b64encode
    return encode(text.encode()).decode()


@pytest.mark.parametrize(
    "shown",
    [
        SECRET,
        SECRET[::-1],
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        quote(SECRET),
        quote(SECRET, safe=""),
        quote(SECRET, safe="").replace("%C3%BC", "%c3%bc").replace("%2F", "%2f").replace("%22", "%22"),
    ],
    ids=["plain", "reversed", "json-ascii", "json", "hex", "HEX", "percent", "percent-all", "percent-lower"],
)
def test_known_secret_is_found_in_each_encoding(shown: str) -> None:
    """F-50: what `env`, a JSON dump, xxd or a URL makes of a secret."""
    redact = Redactor((SECRET,))
    if "%c3" in shown:
        shown = shown.replace("%2B", "%2b").replace("%5C", "%5c")
    assert redact(f"a {shown} b\n{shown}") == f"a {MARK} b\n{MARK}"


@pytest.mark.parametrize("before", ["", "a", "ab", "abc", "NAME="])
@pytest.mark.parametrize("after", ["", "\n", "xy", "xyz"])
@pytest.mark.parametrize("urlsafe", [False, True])
def test_known_secret_is_found_wherever_base64_puts_it(before: str, after: str, *, urlsafe: bool) -> None:
    """`echo "NAME=$SECRET" | base64` shifts the groups of four; the middle is found all the same."""
    encoded = base64_of(before + SECRET + after, urlsafe=urlsafe)
    redacted = Redactor((SECRET,))(encoded)
    assert MARK in redacted
    assert len(redacted.replace(MARK, "")) <= len(base64_of(before)) + len(base64_of(after)) + 4


def test_lines_of_a_long_secret_are_found_alone() -> None:
    """A file tool puts numbers before the lines of a key."""
    text = "1|-----BEGIN THING-----\n2|QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo=\n3|short\n"
    assert Redactor((MULTI,))(text) == f"1|-----BEGIN THING-----\n2|{MARK}\n3|short\n"


def test_short_and_empty_values_are_not_looked_for() -> None:
    text = "the year 2024, true, no"
    assert Redactor(("2024", "true", "no", "", "  "))(text) == text


def test_longer_secret_wins_over_its_own_beginning() -> None:
    assert Redactor(("abcdefgh", "abcdefgh-ijklmnop"))("x abcdefgh-ijklmnop y") == f"x {MARK} y"


JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
PEM = "-----BEGIN RSA PRIVATE KEY-----\n" + ("QUJDREVGR0hJSktMTU5P" * 3 + "\n") * 3 + "-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (f"key {KEY}aaaaaaaa!", f"key {MARK}!"),
        ("ghp_" + "a1B2" * 9, MARK),
        ("github_pat_" + "a1B2_" * 6, MARK),
        ("AKIAIOSFODNN7EXAMPLE.", f"{MARK}."),
        ("xoxb-123456789012-abcdef", MARK),
        ("sk_" + "live_" + "a1" * 10, MARK),
        ("AIza" + "b" * 35, MARK),
        (f"cookie={JWT};", f"cookie={MARK};"),
        (f"<{PEM}>", f"<{MARK}>"),
        (f"{KEY}aaaaaaaa{PEM}!", f"{MARK}{MARK}!"),
        (f"glpat-{'a1' * 9}-{PEM}!", f"{MARK}{MARK}!"),
        ("postgres://user:pa55word@db:5432/x", f"postgres://user:{MARK}@db:5432/x"),
        ("redis://:pa55word@db", f"redis://:{MARK}@db"),
        ("Authorization: Bearer abcdefghij1234567890", f"Authorization: Bearer {MARK}"),
        ('{"api_key": "0123456789abcdef"}', f'{{"api_key": "{MARK}"}}'),
        ("export CLIENT_SECRET=0123456789abcdef0", f"export CLIENT_SECRET={MARK}"),
        ("bot12345678:AA" + "x" * 33, f"bot12345678:{MARK}"),
    ],
    ids=lambda value: value[:12],
)
def test_formats_of_well_known_services_are_found(text: str, redacted: str) -> None:
    assert Redactor()(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "task-list-of-every-kind-of-thing",
        "password = get_password_from_environment()",
        "def api_key(self) -> str: return self._settings.model.api_key",
        "https://example.org:8080/path?x=1",
        "http://127.0.0.1:8080/a@b",
        "git@github.com:owner/repository.git",
        "sha256:2e0b81d60597f449baa56dc25d355367869d2dca4cd57e866f1e2b52af3eb55f",
        "if line.startswith('-----BEGIN PRIVATE KEY-----'):",
        "the bearer of this letter",
    ],
)
def test_innocent_text_stays_as_it_is(text: str) -> None:
    """An agent that edits code must see it as it is."""
    assert Redactor((KEY,))(text) == text


def test_secrets_of_an_environment_are_values_not_places() -> None:
    env = {"API_KEY": "one", "TOKEN": "two", "HOME": "/root", "PASSWORD_STORE_DIR": "/home/u/pw", "SSH_KEY_PATH": "/k"}
    assert secrets_in(env) == {"one": "API_KEY", "two": "TOKEN"}


WORDS = ("password", "postgres", "changeme", "12345678", "Password123", "supersecret")


@pytest.mark.parametrize("word", WORDS)
def test_a_plain_word_is_a_secret_only_as_a_value(word: str) -> None:
    """A27: `DB_PASSWORD=password` in the environment leaves code as it is."""
    redact = Redactor((word, "admin", "true"))
    code = (
        f"def check({word}, admin=true):\n    return {word}.strip() or x.{word}  # the {word}, {word}s\nport: admin\n"
    )
    assert redact(code) == code
    assert redact(f"DB_X={word}\nkey: '{word}'") == f"DB_X={MARK}\nkey: '{MARK}'"
    for longer in (f"a={word}_field", f"a: {word}s", f"a={word}-2"):
        assert redact(longer) == longer


def test_a_word_that_is_not_plain_stays_a_secret_everywhere() -> None:
    """A27: nothing is given up but for what is on the list."""
    for secret in ("passwordpassword9", "correcthorse", "postgres-7f3a"):
        assert redact_all(secret) == f"see {MARK}"


def redact_all(secret: str) -> str:
    return Redactor((secret,))(f"see {secret}")


@pytest.mark.parametrize(
    ("text", "holder"),
    [
        ("password=password", "DB_PASSWORD"),
        ("key: 'password'", "DB_PASSWORD"),
        ("def check(password):", ""),
        ("x = correcthorse9", "API_TOKEN"),
        ("x = 9esrohtcerroc", "API_TOKEN"),
        ("sk-" + "a1B2c3D4" * 5, ""),
        ("postgres: postgres", ""),
        ("nothing", ""),
    ],
)
def test_the_holder_of_a_masked_secret_is_known(text: str, holder: str) -> None:
    """A27: of what is masked by its value, in any form; formats and values without a holder have none."""
    redact = Redactor({"password": "DB_PASSWORD", "correcthorse9": "API_TOKEN", "postgres": ""})
    assert redact.holder_of_secret_in(text) == holder


OPENAI, AWS = "sk-abcdefghij0123456789", "AKIAIOSFODNN7EXAMPLE"
GITHUB, DISCORD = "ghp_" + "a1B2" * 9, f"M{'a1' * 12}.abcdef.{'x' * 27}"


@pytest.mark.parametrize(
    "key", [OPENAI, AWS, GITHUB, DISCORD, JWT, "hf_" + "a1" * 12, "hvs." + "a1" * 12, "AIza" + "b" * 35]
)
@pytest.mark.parametrize(
    "before",
    [
        "\\n",
        "\\t",
        "\\\\n",
        "\\u00e9",
        "\\xe9",
        "%20",
        "k%3D",
        "\x1b[31m",
        "\x1b[01;31m\x1b[K",
        "\\x1b[1m",
        "\\u001b[m",
    ],
)
def test_a_key_behind_an_escape_is_found(key: str, before: str) -> None:
    """R-415: in JSON, in an address and in colours what comes before a key may end in a letter or a digit."""
    shown = Redactor()(f"a {before}{key} b")
    assert (key in shown, shown.endswith(f"{MARK} b")) == (False, True)


@pytest.mark.parametrize(
    "text",
    ["x/disk-usage-of-every-kind-of-thing", "\\task-list-of-every-kind-of-thing", "50%disk-usage-of-every-thing"],
)
def test_what_only_looks_like_a_key_behind_an_escape_stays(text: str) -> None:
    """R-415: a word that ends in the beginning of a key."""
    assert Redactor()(text) == text


@pytest.mark.parametrize("secret", ["hunter2-Zq81-xx", OPENAI, AWS, "hunter2 of two words"])
@pytest.mark.parametrize(
    "colour",
    [
        "\x1b[m",
        "\x1b[01;31m\x1b[K",
        "\x1b[38;2;1;2;3m",
        "\x1b(B\x1b[m",
        "\\x1b[0m",
        "\\u001B[m",
        "\\033[1m",
        "\x1b]8;;http://x/\x1b\\",
    ],
)
def test_a_secret_with_colours_in_it_is_found(secret: str, colour: str) -> None:
    """R-415: `grep --color` marks a part of it; a terminal, and a model, see it whole. What is around it stays."""
    redact = Redactor(("hunter2-Zq81-xx", "hunter2 of two words"))
    for cut in (1, 5, len(secret) - 1):
        assert redact(f"a {colour}{secret[:cut]}{colour}{secret[cut:]}{colour} b") == f"a {colour}{MARK}{colour} b"
    alone = f"{colour}a{colour} {secret} {colour}b"
    assert redact(alone) == alone.replace(secret, MARK)


@pytest.mark.parametrize(
    "written", ["\x1b[m", "\\033[1m", "\\\\\\e[31m", "\\x1b[0m", "\x1b[ ", '\x1b["', "\x1b[\n", "\\e[\\"]
)
@pytest.mark.parametrize("times", [1, 2, 3])
def test_what_loses_a_secret_with_colours_stays_json(written: str, times: int) -> None:
    """R-415: the arguments of a call, which may be JSON in JSON, lose whole escapes."""
    value: object = f"printf 'hunter2\x1b[m-Zq81-xx {written}{OPENAI} hunter2{written}-Zq81-xx {OPENAI}{written}'"
    for _ in range(times):
        value = json.dumps({"command": value})
    shown: object = Redactor(("hunter2-Zq81-xx",))(str(value))
    for _ in range(times):
        shown = json.loads(str(shown))["command"]
    assert str(shown).startswith(f"printf '{MARK} {written}{MARK} ")
    assert str(shown).endswith(f" {MARK}{written}'")


@pytest.mark.parametrize("secret", [OPENAI, "m-hunter2-Zq81", "Kunter2 of two words"])
@pytest.mark.parametrize("begun", ["\x1b[", "\\x1b[", "\x1b"])
def test_what_is_found_with_the_colours_stays_found(secret: str, begun: str) -> None:
    """R-415: the beginning of a secret may end what looks like a colour; and a colour may end a key."""
    redact = Redactor(("m-hunter2-Zq81", "Kunter2 of two words", "hunter2-Zq81-xx"))
    rest = redact(f"{begun}{secret} hunter2\x1b[m-Zq81-xx {AWS}\x1b[mX")
    assert rest.endswith(f" {MARK} {MARK}\x1b[mX")
    assert secret[1:] not in rest


def test_a_named_value_in_json_in_json_is_found() -> None:
    """R-415: the arguments of a call are JSON, and so may be what they write."""
    inner = json.dumps({"api_key": "abcdefgh12345678ij", "db": "password"})
    for text in (inner, json.dumps(inner), json.dumps({"content": inner}), json.dumps(json.dumps(inner))):
        shown = Redactor(("password",))(text)
        assert (shown.count(MARK), "abcdefgh" in shown, "password" in shown) == (2, False, False)


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[" * 50_000,
        "\x1b]" * 50_000,
        "\x1b]a" * 50_000,
        "\\x1b[0" * 50_000,
        f"\x1b[1m{OPENAI}" * 5_000,
        "%20eyJ" * 50_000,
    ],
)
def test_escapes_and_colours_without_end_are_looked_through_once(text: str) -> None:
    """R-415: the search stays linear; a quadratic one would not come to its end here."""
    assert OPENAI not in Redactor(("hunter2-Zq81-xx",))(text * 4)
