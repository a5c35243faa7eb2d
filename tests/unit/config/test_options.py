"""The option table: names, defaults, flags by command."""

from __future__ import annotations

from pathlib import Path

import pytest

from odek.config.settings import BY_KEY, OPTIONS, RESERVED, flag_options

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("key", "kind", "env", "flag", "default"),
    [
        ("sandbox", "bool", ("ODEK_SANDBOX",), "--sandbox", None),
        ("sandbox_image", "str", ("ODEK_SANDBOX_IMAGE",), "--sandbox-image", ""),
        ("sandbox_network", "str", ("ODEK_SANDBOX_NETWORK",), "--sandbox-network", "none"),
        ("sandbox_networks", "list", ("ODEK_SANDBOX_NETWORKS",), "--sandbox-networks", []),
        ("sandbox_compose_project", "str", ("ODEK_SANDBOX_COMPOSE_PROJECT",), "--sandbox-compose", ""),
        ("sandbox_pids_limit", "int", ("ODEK_SANDBOX_PIDS_LIMIT",), "--sandbox-pids-limit", 4096),
        ("sandbox_readonly", "bool", ("ODEK_SANDBOX_READONLY",), "--sandbox-readonly", False),
        ("sandbox_git", "bool", ("ODEK_SANDBOX_GIT",), "--sandbox-git", False),
        ("sandbox_memory", "str", ("ODEK_SANDBOX_MEMORY",), "--sandbox-memory", ""),
        ("sandbox_cpus", "str", ("ODEK_SANDBOX_CPUS",), "--sandbox-cpus", ""),
        ("sandbox_tmp_size", "str", ("ODEK_SANDBOX_TMP_SIZE",), "--sandbox-tmp-size", "1g"),
        ("sandbox_user", "str", ("ODEK_SANDBOX_USER",), "--sandbox-user", ""),
        ("sandbox_env", "map", (), "", []),
        ("sandbox_volumes", "list", (), "", []),
    ],
)
def test_sandbox_fields_are_those_of_the_specification(
    key: str, kind: str, env: tuple[str, ...], flag: str, default: object
) -> None:
    """R-11: names, variables, flags, types and defaults; env and volumes are in files only."""
    option = BY_KEY[key]
    assert (option.kind.name, option.env, option.flag) == (kind, env, flag)
    assert option.kind.shown(option.default) == default
    assert option.in_file


def test_some_settings_of_the_operator_are_in_no_file() -> None:
    switches = {option.env: (option.flag, option.in_file) for option in OPTIONS if option.env and not option.in_file}
    assert switches == {
        ("ODEK_ALLOW",): ("--allow", False),
        ("ODEK_ALLOW_HTTP",): ("", False),
        ("ODEK_NO_SANDBOX",): ("", False),
        ("ODEK_REQUIRE_SANDBOX",): ("", False),
        ("ODEK_REQUIRE_VERIFIED",): ("", False),
        ("ODEK_APPROVE_PROJECT_SANDBOX",): ("", False),
        ("ODEK_APPROVE_MCP",): ("", False),
        ("ODEK_SANDBOX_BUILD_NETWORK",): ("", False),
        ("ODEK_SANDBOX_NETWORK_LENIENT",): ("", False),
        ("ODEK_SUPPRESS_SANDBOX_WARNING",): ("", False),
    }


@pytest.mark.parametrize("field", ["key", "flag", "env", "off_flag", "short"])
def test_no_two_options_share_a_name(field: str) -> None:
    """R-12: one row a setting."""
    names: list[str] = []
    for option in OPTIONS:
        value = getattr(option, field)
        names += value if isinstance(value, tuple) else [value] if value else []
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.key)
def test_row_is_well_formed(option: object) -> None:
    row = BY_KEY[option.key]  # type: ignore[attr-defined]
    assert row is option
    assert row.help[0].isupper() or row.help.startswith("none")
    assert not row.help.endswith(".")
    assert "|" not in row.help
    assert bool(row.flag) == bool(row.commands)
    assert bool(row.metavar) == (bool(row.flag) and not row.is_switch)
    assert row.key not in RESERVED


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        (
            "run",
            "--model --base-url --provider --thinking --thinking-budget --temperature --prompt-caching --max-iter "
            "--record --max-runtime --max-tool-calls --max-input-tokens --max-output-tokens --max-cost-usd "
            "--system --no-agents --no-color --plain --interaction-mode --json --ctx --image --tool --no-tool --allow "
            "--sandbox --sandbox-image --sandbox-network "
            "--sandbox-networks --sandbox-compose --sandbox-pids-limit --sandbox-readonly --sandbox-git "
            "--sandbox-memory --sandbox-cpus --sandbox-tmp-size --sandbox-user --require",
        ),
        (
            "repl",
            "--model --base-url --provider --thinking --thinking-budget --temperature --prompt-caching --max-iter "
            "--record --max-runtime --max-tool-calls --max-input-tokens --max-output-tokens --max-cost-usd "
            "--system --no-agents "
            "--no-color --plain --interaction-mode --tool --no-tool --allow "
            "--sandbox --sandbox-image --sandbox-network "
            "--sandbox-networks --sandbox-compose --sandbox-pids-limit --sandbox-readonly --sandbox-git "
            "--sandbox-memory --sandbox-cpus --sandbox-tmp-size --sandbox-user --require",
        ),
        (
            "continue",
            "--model --base-url --provider --thinking --thinking-budget --temperature --prompt-caching --max-iter "
            "--record --max-runtime --max-tool-calls --max-input-tokens --max-output-tokens --max-cost-usd "
            "--system --no-agents "
            "--no-color --plain --interaction-mode --json --ctx --image --tool --no-tool --allow --sandbox-image "
            "--sandbox-network --sandbox-networks --sandbox-compose --sandbox-pids-limit --sandbox-readonly "
            "--sandbox-git --sandbox-memory --sandbox-cpus --sandbox-tmp-size --sandbox-user --require",
        ),
        (
            "serve",
            "--model --base-url --provider --thinking --thinking-budget --temperature --prompt-caching "
            "--max-iter --max-runtime --max-tool-calls --max-input-tokens --max-output-tokens --max-cost-usd "
            "--system --no-agents --no-color --plain --json --tool --no-tool --allow --sandbox --sandbox-image "
            "--sandbox-network --sandbox-networks --sandbox-compose --sandbox-pids-limit --sandbox-readonly "
            "--sandbox-git --sandbox-memory --sandbox-cpus --sandbox-tmp-size --sandbox-user --require --addr "
            "--hosts",
        ),
        ("models", "--base-url --provider"),
        (
            "mcp",
            "--model --base-url --provider --thinking --thinking-budget --temperature --prompt-caching --max-iter "
            "--max-runtime --max-tool-calls --max-input-tokens --max-output-tokens --max-cost-usd "
            "--system --no-agents "
            "--no-color --plain --tool --no-tool --allow "
            "--sandbox --sandbox-image --sandbox-network --sandbox-networks "
            "--sandbox-compose --sandbox-pids-limit --sandbox-readonly --sandbox-git --sandbox-memory "
            "--sandbox-cpus --sandbox-tmp-size --sandbox-user",
        ),
        ("version", ""),
    ],
)
def test_command_takes_exactly_its_flags(command: str, flags: str) -> None:
    assert [option.flag for option in flag_options(command)] == flags.split()


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        ("run", "--no-sandbox"),
        ("repl", "--no-sandbox"),
        ("serve", "--no-sandbox"),
        ("mcp", "--no-sandbox"),
        ("continue", ""),
    ],
)
def test_only_commands_that_begin_can_opt_out_by_flag(command: str, flag: str) -> None:
    """R-2: --no-sandbox is no flag of continue."""
    assert BY_KEY["sandbox"].off_flag_for(command) == flag


@pytest.mark.parametrize(
    ("key", "places"),
    [
        ("base_url", "~/.odek/config.json, ODEK_BASE_URL or --base-url"),
        ("api_key", "~/.odek/config.json or ODEK_API_KEY"),
        ("dangerous", "~/.odek/config.json"),
        ("no_sandbox", "ODEK_NO_SANDBOX"),
    ],
)
def test_places_name_every_way_of_the_operator(key: str, places: str) -> None:
    assert BY_KEY[key].places == places


def test_lists_may_be_given_more_than_once() -> None:
    assert [option.flag for option in flag_options("run") if option.kind.is_list] == [
        "--ctx",
        "--image",
        "--tool",
        "--no-tool",
        "--allow",
        "--sandbox-networks",
        "--require",
    ]
