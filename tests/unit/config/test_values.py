"""One value of one option, from JSON and from text."""

from __future__ import annotations

import pytest

from odek.config.settings import BY_KEY
from odek.config.values import split_list
from odek.errors import ConfigError
from odek.sandbox_grammar import GrammarError

WHERE = "./odek.json: k"


@pytest.mark.parametrize(
    ("key", "raw", "value"),
    [
        ("sandbox", True, True),
        ("sandbox", False, False),
        ("sandbox", None, None),
        ("sandbox_pids_limit", 16, 16),
        ("sandbox_pids_limit", 2**22, 2**22),
        ("sandbox_image", "a:b", "a:b"),
        ("sandbox_image", "", None),
        ("sandbox_image", "$X ${", "$X ${"),
        ("thinking", "low", "low"),
        ("sandbox_networks", [], ()),
        ("sandbox_networks", ["a", "b"], ("a", "b")),
        ("sandbox_env", {}, ()),
        ("sandbox_env", {"B": "x=y=z", "A": "a\nb", "E": ""}, (("A", "a\nb"), ("B", "x=y=z"), ("E", ""))),
        ("sandbox_env", {"DOCKER_HOST": "tcp://127.0.0.1:1"}, (("DOCKER_HOST", "tcp://127.0.0.1:1"),)),
        ("api_key", " sk-1\n", "sk-1"),
    ],
)
def test_json_value_is_taken_as_it_is(key: str, raw: object, value: object) -> None:
    """B16: values with line ends and equals signs stay byte for byte; an empty one is set and empty."""
    parsed = BY_KEY[key].kind.from_json(raw, WHERE)
    assert (type(parsed), parsed) == (type(value), value)


@pytest.mark.parametrize(
    ("key", "raw", "message"),
    [
        ("sandbox", "false", './odek.json: k must be true or false, not "false"'),
        ("sandbox", 1, "./odek.json: k must be true or false, not 1"),
        ("sandbox", [], "./odek.json: k must be true or false, not a list"),
        ("sandbox_pids_limit", 4096.0, "./odek.json: k must be a whole number, not 4096.0"),
        ("sandbox_pids_limit", "4096", './odek.json: k must be a whole number, not "4096"'),
        ("sandbox_pids_limit", True, "./odek.json: k must be a whole number, not true"),
        ("sandbox_pids_limit", {}, "./odek.json: k must be a whole number, not an object"),
        ("sandbox_pids_limit", -1, "./odek.json: k is -1, out of range"),
        ("sandbox_pids_limit", 0, "./odek.json: k is 0, out of range"),
        ("sandbox_pids_limit", 15, "./odek.json: k is 15, out of range"),
        ("sandbox_pids_limit", 2**22 + 1, "./odek.json: k is 4194305, out of range"),
        ("max_iterations", 2**63, "./odek.json: k is 9223372036854775808, out of range"),
        ("sandbox_image", 7, "./odek.json: k must be a string, not 7"),
        ("sandbox_image", False, "./odek.json: k must be a string, not false"),
        ("sandbox_image", ["a"], "./odek.json: k must be a string, not a list"),
        ("sandbox_image", "a\0b", "./odek.json: k holds a NUL character"),
        ("sandbox_image", "a\ud800", "./odek.json: k holds characters that are not UTF-8"),
        ("sandbox_networks", "a,b", './odek.json: k must be a list of strings, not "a,b"'),
        ("sandbox_networks", ["a", 1], "./odek.json: k[1] must be a string, not 1"),
        ("sandbox_networks", ["a", None], "./odek.json: k[1] must be a string, not null"),
        ("sandbox_networks", ["a", " "], "an entry of ./odek.json: k is empty"),
        ("sandbox_volumes", {"a": "b"}, "./odek.json: k must be a list of strings, not an object"),
        ("sandbox_env", ["A=1"], "./odek.json: k must be an object, not a list"),
        ("sandbox_env", {"HOSTVAR": None}, "./odek.json: k.HOSTVAR must be a string, not null"),
        ("sandbox_env", {"N": 4}, "./odek.json: k.N must be a string, not a number"),
        ("sandbox_env", {"NUL": "a\0b"}, "./odek.json: k.NUL holds a NUL character"),
        ("sandbox_env", {"BAD KEY": "1"}, '"BAD KEY" is not a name for an environment variable (./odek.json: k)'),
        ("sandbox_env", {"A=B": "1"}, '"A=B" is not a name for an environment variable (./odek.json: k)'),
        ("sandbox_env", {"-e": "1"}, '"-e" is not a name for an environment variable (./odek.json: k)'),
        ("sandbox_env", {"": "1"}, '"" is not a name for an environment variable (./odek.json: k)'),
        ("sandbox_env", {"A\n": "1"}, '"A\\n" is not a name for an environment variable (./odek.json: k)'),
        ("thinking", "hi", '"hi" is not allowed (./odek.json: k)'),
        ("thinking", "LOW", '"LOW" is not allowed (./odek.json: k)'),
        ("sandbox_memory", 536870912, "./odek.json: k must be a string, not 536870912"),
        ("sandbox_memory", "lots", '"lots" is not an amount of memory (./odek.json: k)'),
        ("api_key", 12345, "./odek.json: k must be a string, not a number"),
        ("api_key", "sk-1 sk-2", "./odek.json: k holds blanks or characters that no key has"),
        ("api_key", "sk-1\r\nX: y", "./odek.json: k holds blanks or characters that no key has"),
        ("api_key", "sk-ü", "./odek.json: k holds blanks or characters that no key has"),
    ],
)
def test_json_value_of_another_type_is_refused(key: str, raw: object, message: str) -> None:
    """R-13, B16, B37: wrong types are errors; bad names, NUL and null are refused by name."""
    with pytest.raises(ConfigError) as caught:
        BY_KEY[key].kind.from_json(raw, WHERE)
    assert caught.value.message == message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("word", "value"),
    [
        *((word, True) for word in ("1", "true", "True", "TRUE", "tRuE", "yes", "YES", "on", "On")),
        *((word, False) for word in ("0", "false", "False", "FALSE", "no", "No", "off", "OFF")),
    ],
)
def test_boolean_words_in_any_case(word: str, value: bool) -> None:
    """R-14, F-16"""
    assert BY_KEY["sandbox"].parse_text(word, "ODEK_SANDBOX") is value


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("maybe", 'ODEK_SANDBOX is "maybe", which is neither true nor false'),
        ("2", 'ODEK_SANDBOX is "2", which is neither true nor false'),
        ("t", 'ODEK_SANDBOX is "t", which is neither true nor false'),
        (" 1", 'ODEK_SANDBOX is " 1", which is neither true nor false'),
        ("1\n", 'ODEK_SANDBOX is "1\\n", which is neither true nor false'),
        ("\x1b[2J", 'ODEK_SANDBOX is "\\u001b[2J", which is neither true nor false'),
    ],
)
def test_other_words_are_no_boolean(word: str, message: str) -> None:
    """R-14: anything else is fatal and names the variable."""
    with pytest.raises(ConfigError) as caught:
        BY_KEY["sandbox"].parse_text(word, "ODEK_SANDBOX")
    assert caught.value.message == message
    assert "use 1 or 0" in caught.value.hint


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("max_iterations", "7", 7),
        ("max_iterations", "+7", 7),
        ("temperature", "0.7", 0.7),
        ("temperature", "2", 2.0),
        ("model", "m", "m"),
        ("sandbox_networks", "a, b ,c", ("a", "b", "c")),
        ("sandbox_networks", "none", ()),
        ("sandbox_compose_project", "none", ""),
        ("system", " two\nlines ", " two\nlines "),
    ],
)
def test_text_value_by_kind(key: str, text: str, value: object) -> None:
    parsed = BY_KEY[key].parse_text(text, "--flag")
    assert (type(parsed), parsed) == (type(value), value)


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("max_iterations", "abc", '--flag must be a whole number, not "abc"'),
        ("max_iterations", "", "--flag is empty"),
        ("model", "", "--flag is empty"),
        ("sandbox_networks", "", "--flag is empty"),
        ("max_iterations", "1.0", '--flag must be a whole number, not "1.0"'),
        ("max_iterations", "1_0", '--flag must be a whole number, not "1_0"'),
        ("max_iterations", " 1", '--flag must be a whole number, not " 1"'),
        ("max_iterations", "٣", '--flag must be a whole number, not "٣"'),
        ("max_iterations", "9" * 19, '--flag must be a whole number, not "9999999999999999999"'),
        ("max_iterations", "0", "--flag is 0, out of range"),
        ("max_iterations", "-1", "--flag is -1, out of range"),
        ("temperature", "nan", '--flag must be a number, not "nan"'),
        ("temperature", "1e1", '--flag must be a number, not "1e1"'),
        ("temperature", "2.1", "--flag is 2.1, out of range"),
        ("temperature", "-1", "--flag is -1.0, out of range"),
        ("sandbox_networks", "a,,b", 'an entry of "a,,b" is empty (--flag)'),
        ("sandbox_networks", "a,", 'an entry of "a," is empty (--flag)'),
        ("model", "a\udcff", "--flag holds characters that are not UTF-8"),
        ("interaction_mode", "loud", '"loud" is not allowed (--flag)'),
    ],
)
def test_text_value_that_means_nothing_is_refused(key: str, text: str, message: str) -> None:
    """R-13, F-27"""
    with pytest.raises(ConfigError) as caught:
        BY_KEY[key].parse_text(text, "--flag")
    assert caught.value.message == message
    assert caught.value.hint


def test_secret_is_in_no_error() -> None:
    for raw in ("canary 7f3", 7316, ["canary"], {"canary": 1}, "canary\0", "canary\ud800"):
        with pytest.raises(ConfigError) as caught:
            BY_KEY["api_key"].kind.from_json(raw, WHERE)
        assert "canary" not in caught.value.message + caught.value.hint
        assert "7316" not in caught.value.message


def test_value_of_sandbox_env_is_in_no_error() -> None:
    """B15: what stands in sandbox_env may be a secret."""
    for raw in (["canary"], "canary\0", 7316):
        with pytest.raises(ConfigError) as caught:
            BY_KEY["sandbox_env"].kind.from_json({"A": raw}, WHERE)
        assert "canary" not in caught.value.message
        assert "7316" not in caught.value.message


@pytest.mark.parametrize(
    ("key", "text", "amount"),
    [
        ("sandbox_memory", "6291456b", 6291456),
        ("sandbox_memory", "8192k", 8 << 20),
        ("sandbox_tmp_size", "1m", 1 << 20),
        ("sandbox_memory", "512m", 512 << 20),
        ("sandbox_memory", "512M", 512 << 20),
        ("sandbox_memory", "1.5g", 3 << 29),
        ("sandbox_cpus", "2", 2 * 10**9),
        ("sandbox_cpus", "0.5", 5 * 10**8),
        ("sandbox_cpus", "1.25", 125 * 10**7),
    ],
)
def test_amount_of_a_limit(key: str, text: str, amount: int) -> None:
    option = BY_KEY[key]
    value = option.parse_text(text, "o")
    assert (option.kind.limit(value), option.kind.shown(value)) == (amount, text)
    assert option.kind.from_json(text, "o") == value


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("sandbox_memory", "0"),
        ("sandbox_memory", "0.0g"),
        ("sandbox_memory", "-1"),
        ("sandbox_memory", "512x"),
        ("sandbox_memory", "512mb"),
        ("sandbox_memory", "512 m"),
        ("sandbox_memory", "1.5gib"),
        ("sandbox_memory", "2t"),
        ("sandbox_memory", "1m"),
        ("sandbox_tmp_size", "1k"),
        ("sandbox_cpus", "0.005"),
        ("sandbox_memory", "m"),
        ("sandbox_memory", "1bb"),
        ("sandbox_memory", "1ib"),
        ("sandbox_memory", "512m\n"),
        ("sandbox_memory", "٥m"),
        ("sandbox_memory", "1e9"),
        ("sandbox_memory", "9" * 40),
        ("sandbox_cpus", "0"),
        ("sandbox_cpus", "0.0"),
        ("sandbox_cpus", "-2"),
        ("sandbox_cpus", "two"),
        ("sandbox_cpus", "1,5"),
        ("sandbox_cpus", "inf"),
        ("sandbox_cpus", ".5"),
    ],
)
def test_text_that_is_no_limit_is_refused(key: str, text: str) -> None:
    """A30, R-8, R-32: the sandbox's own grammar; zero, which is "no limit" to Docker, and what Docker would refuse."""
    with pytest.raises(ConfigError) as caught:
        BY_KEY[key].parse_text(text, "o")
    assert caught.value.message.endswith(" (o)")
    assert "sandbox" not in caught.value.message


def test_list_keeps_its_order() -> None:
    assert split_list("b,a,b", "o") == ("b", "a", "b")


@pytest.mark.parametrize(
    ("key", "raw"),
    [
        ("sandbox_network", "host"),
        ("sandbox_networks", ["a b"]),
        ("sandbox_networks", ["host"]),
        ("sandbox_networks", [f"n{number}" for number in range(9)]),
        ("sandbox_compose_project", "Shop"),
        ("sandbox_memory", "512mb"),
        ("sandbox_memory", "512 m"),
        ("sandbox_memory", "2t"),
        ("sandbox_memory", "1.5gib"),
        ("sandbox_cpus", "0.005"),
        ("sandbox_tmp_size", "1k"),
        ("sandbox_user", "a b"),
        ("sandbox_user", "1:2:3"),
        ("sandbox_env", {"A.B": "1"}),
        ("sandbox_env", {"UID": "1"}),
        ("sandbox_env", {"A": "x" * 200_000}),
        ("sandbox_volumes", ["/data"]),
        ("sandbox_volumes", ["./a:data"]),
        ("sandbox_volumes", ["../a:/data"]),
        ("sandbox_volumes", ["./a:/workspace/x"]),
        ("sandbox_volumes", ["~/a:/data"]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_a_run_would_refuse_is_no_setting(key: str, raw: object) -> None:
    """V3: the settings are read with the sandbox's own grammar, so `config view` never shows what a run refuses."""
    with pytest.raises(GrammarError):
        BY_KEY[key].kind.from_json(raw, WHERE)
