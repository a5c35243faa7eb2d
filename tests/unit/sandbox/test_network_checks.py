"""What is said of attached networks, and whether they are still the ones that were meant."""

from __future__ import annotations

import pytest

from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.network.checks import network_diff, removal_hint, require_unchanged, verify_attached, warnings
from odek.sandbox.network.plan import Network, NetworkPlan

A, B, C, D = "a" * 64, "b" * 64, "c" * 64, "d" * 64


def network(name: str, full_id: str, *, internal: bool = False, project: str = "") -> Network:
    return Network(name=name, id=full_id, internal=internal, compose_project=project)


def plan(*attached: Network, mode: str = "none") -> NetworkPlan:
    return NetworkPlan(mode=mode, attached=attached)


OPEN, WIDE = network("open", A), network("wide", C)
CLOSED, SHUT = network("closed", B, internal=True), network("shut", D, internal=True)
OPEN_WARNING = (
    'network "open" is not internal: commands in the sandbox reach the internet, this machine and its local network'
)
CLOSED_WARNING = (
    'network "closed" is internal: no internet that way, but services of this machine that listen on all addresses '
    "may be reachable"
)
BRIDGE_WARNING = (
    "bridge is combined with attached networks: what commands read from their services can leave for the internet"
)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (plan(), ()),
        (plan(mode="bridge"), ()),
        (plan(OPEN), (OPEN_WARNING,)),
        (plan(CLOSED), (CLOSED_WARNING,)),
        (plan(CLOSED, OPEN), (OPEN_WARNING, CLOSED_WARNING)),
        (plan(CLOSED, mode="bridge"), (CLOSED_WARNING, BRIDGE_WARNING)),
        (
            plan(OPEN, CLOSED, WIDE, SHUT),
            (
                OPEN_WARNING.replace('network "open" is', 'networks "open", "wide" are'),
                CLOSED_WARNING.replace('network "closed" is', 'networks "closed", "shut" are'),
            ),
        ),
    ],
)
def test_warnings_say_what_each_network_opens(found: NetworkPlan, expected: tuple[str, ...]) -> None:
    """R-55, R-56, B27: an internal network keeps the internet away and is never said to hide the host."""
    assert warnings(found) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (plan(), ""),
        (plan(OPEN), ""),
        (
            plan(network("x", A, project="b"), network("y", B, project="a"), network("z", C, project="b"), OPEN),
            'while the sandbox runs, `docker compose down` cannot remove the networks of "a", "b"; '
            "repeat it afterwards",
        ),
        (
            plan(network("x", A, project="\x1b[2J\n" + "p" * 300)),
            'while the sandbox runs, `docker compose down` cannot remove the networks of "\\x1b[2J\\n'
            + "p" * 70
            + '…"; repeat it afterwards',
        ),
    ],
)
def test_removal_hint_names_the_compose_projects(found: NetworkPlan, expected: str) -> None:
    """R-54, R-64: networks are never removed by odek, and those in use by nobody; labels are foreign text."""
    assert removal_hint(found) == expected


@pytest.mark.parametrize(
    ("approved", "now", "expected"),
    [
        (plan(), plan(), ()),
        (plan(OPEN, CLOSED), plan(CLOSED, OPEN), ()),
        (plan(OPEN), plan(OPEN, CLOSED), (f'network "closed" ({B}) has joined and was not approved',)),
        (plan(), plan(OPEN), (f'network "open" ({A}) has joined and was not approved',)),
        (plan(OPEN, CLOSED), plan(OPEN), (f'network "closed" ({B}) was approved and is gone',)),
        (plan(OPEN), plan(network("open", D)), (f'network "open" was recreated: approved as {A}, now {D}',)),
        (
            plan(OPEN, CLOSED),
            plan(network("open", D), WIDE),
            (
                f'network "open" was recreated: approved as {A}, now {D}',
                f'network "wide" ({C}) has joined and was not approved',
                f'network "closed" ({B}) was approved and is gone',
            ),
        ),
    ],
    ids=["none", "another order", "joined", "first one", "gone", "recreated", "everything"],
)
def test_changes_are_told_by_id(approved: NetworkPlan, now: NetworkPlan, expected: tuple[str, ...]) -> None:
    """R-63: the message says what network_diff."""
    assert network_diff(approved, now) == expected


def test_changed_networks_stop_the_start() -> None:
    """R-63, B26: a network recreated under its old name is another network."""
    with pytest.raises(SandboxConfigError) as error:
        require_unchanged(plan(OPEN), plan(network("open", D)))
    assert (error.value.message, error.value.hint, error.value.detail) == (
        "the networks are no longer those that were approved",
        "start odek again: it asks again and shows them as they are now",
        f'network "open" was recreated: approved as {A}, now {D}',
    )


def test_same_networks_do_not_stop_the_start() -> None:
    """R-63."""
    require_unchanged(plan(OPEN, CLOSED), plan(CLOSED, OPEN))


def entries(**ids: str) -> dict[str, object]:
    return {"NetworkSettings": {"Networks": {name: {"NetworkID": full_id} for name, full_id in ids.items()}}}


@pytest.mark.parametrize(
    ("wanted", "inspected", "expected"),
    [
        (plan(), entries(none=D), ()),
        (plan(), {}, ()),
        (plan(), {"NetworkSettings": {"Networks": None}}, ()),
        (plan(), entries(bridge=D), (f"network bridge ({D}): attached, not asked for",)),
        (plan(mode="bridge"), entries(bridge=D), ()),
        (plan(mode="bridge"), entries(podman="podman"), ()),
        (
            plan(mode="bridge"),
            entries(none=D),
            (f"network none ({D}): attached, not asked for", "network bridge: asked for, not attached"),
        ),
        (plan(OPEN, CLOSED), entries(closed=B, open=A), ()),
        (plan(OPEN), entries(renamed=A), ()),
        (
            plan(OPEN),
            entries(open=D),
            (f"network open ({A}): asked for, not attached", f"network open ({D}): attached, not asked for"),
        ),
        (plan(OPEN, CLOSED), entries(open=A), (f"network closed ({B}): asked for, not attached",)),
        (plan(OPEN), entries(open=A, extra=D), (f"network extra ({D}): attached, not asked for",)),
        (plan(OPEN), entries(open=A, bridge=D), (f"network bridge ({D}): attached, not asked for",)),
        (plan(OPEN), entries(open=A, none=D), (f"network none ({D}): attached, not asked for",)),
        (plan(OPEN), {}, (f"network open ({A}): asked for, not attached",)),
        (plan(OPEN, mode="bridge"), entries(bridge=D, open=A), ()),
        (plan(OPEN, mode="bridge"), entries(open=A), ("network bridge: asked for, not attached",)),
        (plan(OPEN), entries(**{"x\n": D, "open": A}), (f"network x\\n ({D}): attached, not asked for",)),
    ],
)
def test_attached_networks_are_compared_as_an_exact_set_of_ids(
    wanted: NetworkPlan, inspected: dict[str, object], expected: tuple[str, ...]
) -> None:
    """R-37, R-54: nothing missing, nothing besides."""
    assert verify_attached(wanted, inspected) == expected
