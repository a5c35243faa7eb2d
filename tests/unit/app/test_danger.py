"""What holds for commands in a place, from settings, host and container."""

from __future__ import annotations

import os
import pwd
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.containers import FACTS
from fakes.layering import bare_host, make_layers

from odek.app.danger import expected_sandbox_policy, host_policy, own_home, policy_for
from odek.config.danger import DangerSettings
from odek.config.resolve import resolve
from odek.danger.policy import HOST_TABLE, Policy, sandbox_table
from odek.host import Host

DANGER = DangerSettings(
    action="prompt",
    classes=(("install", "deny"),),
    allowlist=("make",),
    denylist=("git push",),
    non_interactive="allow",
)
HOST = bare_host("/home/user/project")


def host(tmp_path: Path, **changes: object) -> Host:
    return replace(HOST, cwd=str(tmp_path), **changes)  # type: ignore[arg-type]


def test_policy_of_the_host() -> None:
    """R-84: the strict table, and the operator's settings on top; what is said of the sandbox does not count."""
    danger = replace(DANGER, sandboxed=DangerSettings(action="allow"))
    assert policy_for(danger, None, HOST, interactive=False).policy == Policy(
        table=HOST_TABLE,
        action="prompt",
        classes=(("install", "deny"),),
        allowlist=("make",),
        denylist=("git push",),
        non_interactive="allow",
        interactive=False,
    )


@pytest.mark.parametrize("internet", [True, False])
def test_policy_of_the_sandbox(internet: bool) -> None:
    """D-6: the table of the sandbox, the same settings on top; a remedy names `dangerous.sandboxed`."""
    facts = replace(FACTS, internet=internet)
    assert policy_for(DANGER, facts, HOST, interactive=True).policy == Policy(
        table=sandbox_table(internet=internet),
        section="dangerous.sandboxed",
        action="prompt",
        classes=(("install", "deny"),),
        allowlist=("make",),
        shared_denylist=("git push",),
        non_interactive="allow",
    )


def test_settings_of_the_sandbox_replace_all_but_the_denylist() -> None:
    """D-6, runtime 5.2: deny beats allow."""
    danger = replace(DANGER, sandboxed=DangerSettings(classes=(("destructive", "allow"),), denylist=("make deploy",)))
    assert policy_for(danger, FACTS, HOST, interactive=True).policy == Policy(
        table=sandbox_table(internet=False),
        section="dangerous.sandboxed",
        classes=(("destructive", "allow"),),
        denylist=("make deploy",),
        shared_denylist=("git push",),
    )


def test_place_of_the_sandbox() -> None:
    """R-53: it knows itself and the services on its networks."""
    place = policy_for(DANGER, replace(FACTS, service_names=("Redis", "db")), HOST, interactive=True).place
    assert (place.home, place.cwd, place.workspace, place.sandboxed) == ("/tmp", "/workspace", "/workspace", True)
    assert place.peers == {"redis", "db", "localhost", "127.0.0.1", "::1", "0.0.0.0"}


@pytest.mark.parametrize(
    ("flags", "asks"),
    [
        ({}, False),
        ({"sandbox_network": "bridge"}, True),
        ({"sandbox_networks": ["backend"]}, True),
        ({"sandbox_compose_project": "app"}, True),
    ],
)
def test_sandbox_that_is_not_there_yet(flags: dict[str, object], asks: bool) -> None:
    """`odek danger explain`: what is not known without Docker is taken as the stricter."""
    settings = resolve(make_layers(operator=flags))
    context = expected_sandbox_policy(settings.dangerous, settings.sandbox)
    assert context.decide_command("curl https://a").action == ("prompt" if asks else "allow")


def test_home_counts_only_if_it_is_the_users(tmp_path: Path) -> None:
    """Runtime 5.4: a HOME of somebody else makes nothing ordinary ground."""
    try:
        known = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        pytest.skip("this user has no name, as in a container")
    nobody = 12345
    for home, uid, expected in (
        (str(tmp_path), os.getuid(), str(tmp_path)),
        (known, os.getuid(), known),
        (str(tmp_path / "missing"), os.getuid(), known),
        ("", os.getuid(), known),
        (str(tmp_path), nobody, ""),
    ):
        assert own_home(host(tmp_path, home=home, uid=uid)) == expected, (home, uid)


def test_links_of_the_home_are_followed(tmp_path: Path) -> None:
    """The working directory is known free of links; a start file below it must be recognised."""
    (tmp_path / "real").mkdir()
    (tmp_path / "home").symlink_to("real")
    cwd = tmp_path / "real"
    context = host_policy(DANGER, replace(HOST, cwd=str(cwd), home=str(tmp_path / "home")), interactive=True)
    assert context.place.home == str(cwd.resolve())


@pytest.mark.parametrize(
    ("folder", "counts"),
    [
        ("/var/tmp", True),
        ("/scratch/user/tmp/", True),
        ("/", False),
        ("/scratch", False),
        ("relative/tmp", False),
        ("", False),
        ("/home/user", False),
        ("/home/user/project", False),
        ("/home/user/../user", False),
    ],
)
def test_folder_for_temporary_files(folder: str, counts: bool) -> None:
    """Runtime 5.4: TMPDIR, unless that would make the project a temporary file."""
    context = host_policy(DANGER, replace(HOST, env={"TMPDIR": folder}), interactive=True)
    assert (len(context.place.temp) == 2) is counts
