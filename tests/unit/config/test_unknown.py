"""Names that no option has."""

from __future__ import annotations

import pytest

from odek.config.layers import explain_unknown_key, explain_unknown_variables
from odek.config.settings import OPTIONS
from odek.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("modle", '; did you mean "model"?'),
        ("BASE_URL", '; did you mean "base_url"?'),
        ("Base_Url", '; did you mean "base_url"?'),
        ("base_url ", '; did you mean "base_url"?'),
        ("baseUrl", '; did you mean "base_url"?'),
        ("max_iteration", '; did you mean "max_iterations"?'),
        ("llm", ""),
        ("", ""),
        ("_comment", ""),
    ],
)
def test_warns_with_the_nearest_known_key(name: str, suggestion: str) -> None:
    """R-13, B29"""
    assert explain_unknown_key(name, "./odek.json") == f'unknown key "{name}" in ./odek.json is ignored{suggestion}'


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sandbox_netwrok", 'did you mean "sandbox_network"?'),
        ("Sandbox", 'did you mean "sandbox"?'),
        ("SANDBOX_READONLY", 'did you mean "sandbox_readonly"?'),
        ("sandbox ", 'did you mean "sandbox"?'),
        (" sandbox_image", 'did you mean "sandbox_image"?'),
        ("sandbox-image", 'did you mean "sandbox_image"?'),
        ("sandbox\u200b", 'did you mean "sandbox"?'),
        ("ｓａｎｄｂｏｘ", 'did you mean "sandbox"?'),
        ("sanbox", 'did you mean "sandbox"?'),
        ("\u0455andbox", 'did you mean "sandbox"?'),
        ("sandbox_gpu_and_much_more", "remove it: odek has no such setting"),
        ("Dangerous", 'did you mean "dangerous"?'),
        ("dangeros", 'did you mean "dangerous"?'),
        ("danger", 'did you mean "dangerous"?'),
        ("no_sandbox", "no file can set that; set ODEK_NO_SANDBOX in the environment"),
        ("require_sandbox", "no file can set that; set ODEK_REQUIRE_SANDBOX in the environment"),
        ("requireSandbox", "no file can set that; set ODEK_REQUIRE_SANDBOX in the environment"),
        ("approve_project_sandbox", "no file can set that; set ODEK_APPROVE_PROJECT_SANDBOX in the environment"),
        ("sandbox_build_network", "no file can set that; set ODEK_SANDBOX_BUILD_NETWORK in the environment"),
        ("sandbox_network_lenient", "no file can set that; set ODEK_SANDBOX_NETWORK_LENIENT in the environment"),
        ("tools.disable", 'write "tools": {"enabled": […]} or "tools": {"disabled": […]}'),
        ("tools.enabled", 'write "tools": {"enabled": […]} or "tools": {"disabled": […]}'),
    ],
)
def test_stops_at_what_looks_like_a_security_setting(name: str, hint: str) -> None:
    """R-13, F-2: somebody counts on a policy that would not be in force."""
    with pytest.raises(ConfigError) as caught:
        explain_unknown_key(name, "./odek.json")
    assert caught.value.message.startswith('unknown key "')
    assert caught.value.message.endswith('" in ./odek.json')
    assert caught.value.hint == hint


def test_unknown_key_is_shown_short_and_harmless() -> None:
    """R-64"""
    warning = explain_unknown_key("\x1b[2J" + "x" * 100, "./odek.json")
    assert warning == f'unknown key "\\x1b[2J{"x" * 55}…" in ./odek.json is ignored'


def test_known_variables_and_those_of_others_say_nothing() -> None:
    names = [name for option in OPTIONS for name in (*option.env, *option.fallback_env)]
    others = ["PATH", "SANDBOX", "ODEK_BIN", "ODEK_E2E", "ODEK_DEBUG", "ODEK_API_KEY_FD", "ODEK_REQUIRE_DOCKER"]
    assert explain_unknown_variables([*names, *others]) == ()


def test_warns_of_a_variable_that_is_nearly_one_of_ours() -> None:
    assert explain_unknown_variables(["ODEK_REQUIRE_SANBOX", "ODEK_MODLE"]) == (
        "unknown variable ODEK_MODLE is ignored; did you mean ODEK_MODEL?",
        "unknown variable ODEK_REQUIRE_SANBOX is ignored; did you mean ODEK_REQUIRE_SANDBOX?",
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("ODEK_SANDBOX_NETWROK", "did you mean ODEK_SANDBOX_NETWORK?"),
        ("ODEK_SANDBOX_READ_ONLY", "did you mean ODEK_SANDBOX_READONLY?"),
        ("ODEK_SANDBOX_GPU_COUNT_AND_MORE", "unset ODEK_SANDBOX_GPU_COUNT_AND_MORE"),
    ],
)
def test_stops_at_an_unknown_variable_of_the_sandbox(name: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        explain_unknown_variables([name])
    assert (caught.value.message, caught.value.hint) == (f"unknown variable {name}", hint)
