"""Which listed networks are meant, and that none of what was asked for is left out in silence."""

from __future__ import annotations

import json

import pytest

from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.network.plan import Listed, NetworkRequest, choose_named, choose_of_project, parse_listing

A, B, C = "a" * 64, "b" * 64, "c" * 64
SWARM, OTHER_SWARM = "te9o6zwbvpaqnjf9dzsaifnr1", "nzbvsqtf8fiyxbsbv1hn63j9a"
FLAG, COMPOSE_FLAG = "--sandbox-networks", "--sandbox-compose"
LISTING = (Listed(id=A, name="app_default"), Listed(id=B, name="app_back"), Listed(id=C, name="bridge"))
OVERLAY = Listed(id=SWARM, name="app_mesh", driver="overlay", scope="swarm")
LOCAL_ONLY = "attach a local bridge network: `docker network create NAME` makes one"


def request(*names: str, project: str = "") -> NetworkRequest:
    return NetworkRequest(names=names, names_origin=FLAG, compose_project=project, compose_origin=COMPOSE_FLAG)


def refusal(error: pytest.ExceptionInfo[SandboxConfigError]) -> tuple[str, str]:
    return error.value.message, error.value.hint


def test_names_become_full_ids_in_the_order_asked_for() -> None:
    """R-52."""
    assert choose_named(request("app_back", "app_default"), LISTING) == (B, A)


def test_network_named_like_the_beginning_of_an_id_is_the_named_one() -> None:
    """B26: a name counts, an ID does not."""
    listing = (Listed(id=A, name="other"), Listed(id=B, name="aaaaaaaaaaaa"))
    assert choose_named(request("aaaaaaaaaaaa"), listing) == (B,)


def test_network_named_like_a_full_id_is_the_named_one() -> None:
    """B26: Docker itself would take the ID."""
    assert choose_named(request(A), (Listed(id=A, name="other"), Listed(id=B, name=A))) == (B,)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("app", "`docker network ls` lists the networks; start the project with `docker compose up -d`"),
        ("APP_DEFAULT", "`docker network ls` lists the networks; start the project with `docker compose up -d`"),
        ("aaaa", 'an ID or its beginning does not count: write the name, "app_default"'),
        ("c", 'an ID or its beginning does not count: write the name, "bridge"'),
        (B, 'an ID or its beginning does not count: write the name, "app_back"'),
    ],
)
def test_missing_network_is_refused(name: str, hint: str) -> None:
    """R-52, B26: neither a part of a name nor an ID, the default bridge's least of all."""
    with pytest.raises(SandboxConfigError) as error:
        choose_named(request(name), LISTING)
    assert refusal(error) == (f'network "{name}" not found by Docker ({FLAG})', hint)


def test_two_networks_of_one_name_are_refused_with_both_ids() -> None:
    """R-52, B26."""
    with pytest.raises(SandboxConfigError) as error:
        choose_named(request("dup"), (Listed(id=B, name="dup"), Listed(id=A, name="dup")))
    assert refusal(error) == (
        f'2 networks have the name "dup" ({FLAG}): {A}, {B}',
        "remove the one that is not needed: `docker network rm ID`",
    )


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        (OVERLAY, 'network "app_mesh" cannot be attached: its driver is "overlay", not "bridge"'),
        (
            Listed(id=SWARM, name="app_mesh", driver="weave:2", scope="swarm"),
            'network "app_mesh" cannot be attached: its driver is "weave:2", not "bridge"',
        ),
        (
            Listed(id=SWARM, name="app_mesh", driver="bridge", scope="swarm"),
            'network "app_mesh" cannot be attached: its scope is "swarm", not "local"',
        ),
        (Listed(id=A[:12], name="app_mesh"), 'network "app_mesh" not found by Docker'),
    ],
)
@pytest.mark.parametrize("by", ["name", "project"])
def test_network_of_a_swarm_is_refused_by_its_name(listed: Listed, why: str, by: str) -> None:
    """E5: its ID has another form; it was "not found", or left out of its Compose project in silence."""
    asked = request("app_mesh") if by == "name" else request(project="app")
    choose = choose_named if by == "name" else choose_of_project
    with pytest.raises(SandboxConfigError) as error:
        choose(asked, (*LISTING[:2], listed))
    assert error.value.message == f"{why} ({FLAG if by == 'name' else COMPOSE_FLAG})"


def test_name_of_a_local_network_and_one_of_a_swarm_is_refused_with_both_ids() -> None:
    """E5, R-52."""
    with pytest.raises(SandboxConfigError) as error:
        choose_named(request("app_mesh"), (OVERLAY, Listed(id=A, name="app_mesh")))
    assert error.value.message == f'2 networks have the name "app_mesh" ({FLAG}): {A}, {SWARM}'


def test_beginning_of_a_swarms_id_is_no_name() -> None:
    """E5, B26."""
    with pytest.raises(SandboxConfigError) as error:
        choose_named(request(SWARM[:6]), (OVERLAY,))
    assert refusal(error) == (
        f'network "{SWARM[:6]}" not found by Docker ({FLAG})',
        'an ID or its beginning does not count: write the name, "app_mesh"',
    )


def test_projects_networks_are_all_of_those_listed() -> None:
    """R-53: those of other kinds that are local have ordinary IDs, and are refused when they are inspected."""
    listing = (Listed(id=B, name="b", driver="macvlan"), Listed(id=A, name="a"))
    assert choose_of_project(request(project="app"), listing) == (B, A)


def test_project_with_a_network_of_an_odd_name_in_a_swarm_is_refused() -> None:
    """E5, R-64."""
    with pytest.raises(SandboxConfigError) as error:
        choose_of_project(request(project="app"), (Listed(id=SWARM, name="x\ny", driver="overlay", scope="swarm"),))
    assert error.value.message == (f'network "x\\ny" ({SWARM}) has a name that odek does not attach ({COMPOSE_FLAG})')


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: something", "", "[", "[1,2,3,4]", '["a"]', f'["{A}","n","bridge"]', '["","n","bridge","local"]', "{}",
        f'["{A}","n","bridge","local",""]', "[" * 100_000,
    ],
)  # fmt: skip
def test_line_that_is_not_a_network_is_passed_over(line: str) -> None:
    """B25: a client may chatter."""
    row = json.dumps([B, "front", "bridge", "local"])
    assert parse_listing(f"{line}\n{row}\r\n") == (Listed(id=B, name="front"),)


def test_name_of_any_characters_stays_in_its_line() -> None:
    """R-52, R-64: engines allow line ends and tabs in names."""
    name = f'x\n["{A}","front","bridge","local"]\t'
    assert parse_listing(json.dumps([B, name, "bridge", "local"])) == (Listed(id=B, name=name),)
