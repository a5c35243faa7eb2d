"""The `dangerous` object."""

from __future__ import annotations

import pytest

from odek.config.danger import CLASSES, DangerSettings, parse_dangerous
from odek.errors import ConfigError


def test_empty_object_is_the_default() -> None:
    assert parse_dangerous({}, "o") == DangerSettings()


def test_nulls_say_nothing() -> None:
    keys = ("action", "classes", "allowlist", "denylist", "non_interactive", "sandboxed")
    assert parse_dangerous(dict.fromkeys(keys), "o") == DangerSettings()


def test_every_field_is_taken() -> None:
    parsed = parse_dangerous(
        {
            "action": "prompt",
            "classes": {"unknown": "allow", "install": "deny", "persistence": "prompt"},
            "allowlist": ["echo $HOME"],
            "denylist": ["git push"],
            "non_interactive": "allow",
            "sandboxed": {"action": "deny", "non_interactive": "deny"},
        },
        "o",
    )
    assert parsed == DangerSettings(
        action="prompt",
        classes=(("install", "deny"), ("persistence", "prompt"), ("unknown", "allow")),
        allowlist=("echo $HOME",),
        denylist=("git push",),
        non_interactive="allow",
        sandboxed=DangerSettings(action="deny"),
    )


def test_nine_classes_and_three_later_ones_are_known() -> None:
    """R-84"""
    assert CLASSES[:9] == (
        "safe", "local_write", "install", "network_egress", "code_execution", "system_write", "unknown",
        "destructive", "blocked",
    )  # fmt: skip
    classes = dict.fromkeys(CLASSES, "deny")
    assert parse_dangerous({"classes": classes}, "o").classes == tuple(sorted(classes.items()))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "o must be an object, not a list"),
        ("deny", "o must be an object, not a string"),
        ({"actoin": "deny"}, 'unknown key "actoin" in o'),
        ({"Action": "deny"}, 'unknown key "Action" in o'),
        ({"\x1b[2J": 1}, 'unknown key "\\x1b[2J" in o'),
        ({"action": "Allow"}, 'o.action is "Allow"'),
        ({"action": " deny"}, 'o.action is " deny"'),
        ({"action": True}, "o.action is true"),
        ({"action": ["deny"]}, "o.action is a list"),
        ({"non_interactive": "prompt"}, 'o.non_interactive is "prompt"'),
        ({"non_interactive": False}, "o.non_interactive is false"),
        ({"classes": ["unknown"]}, "o.classes must be an object, not a list"),
        ({"classes": {"unkown": "deny"}}, 'unknown key "unkown" in o.classes'),
        ({"classes": {"unknown": "ask"}}, 'o.classes.unknown is "ask"'),
        ({"classes": {"unknown": None}}, "o.classes.unknown is null"),
        ({"classes": {"blocked": "allow"}}, "o.classes.blocked can only be deny"),
        ({"classes": {"blocked": "prompt"}}, "o.classes.blocked can only be deny"),
        ({"allowlist": "ls"}, "o.allowlist must be a list of strings, not a string"),
        ({"allowlist": [1]}, "o.allowlist[0] must be a string, not a number"),
        ({"denylist": ["a", ""]}, "o.denylist[1] is empty"),
        ({"denylist": [" \t"]}, "o.denylist[0] is empty"),
        ({"sandboxed": []}, "o.sandboxed must be an object, not a list"),
        ({"sandboxed": {"action": "no"}}, 'o.sandboxed.action is "no"'),
        ({"sandboxed": {"sandboxed": {}}}, 'unknown key "sandboxed" in o.sandboxed'),
    ],
)
def test_unknown_names_and_words_are_refused(value: object, message: str) -> None:
    """F-2, F-82: a word that is not exactly one of the three must not act like "allow"."""
    with pytest.raises(ConfigError) as caught:
        parse_dangerous(value, "o")
    assert caught.value.message == message
    assert caught.value.hint
