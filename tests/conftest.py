"""Fixtures for tests that need a Docker engine or the program as a process.

A test that asks for `docker_engine` (or anything made from it) is marked `docker`. Without an engine
it is skipped, but where one is promised (ODEK_REQUIRE_DOCKER or CI is set) it fails: a skipped test
of the sandbox proves nothing.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.docker_engine import Engine, find_engine, find_static_busybox, import_base_image
from support.odek_process import Odek

pytest.register_assert_rewrite("support.executor_contract")

REMOVAL_GRACE_S = 5  # Docker removes a `--rm` container some time after its client has ended


def docker_is_required() -> bool:
    """Return whether a test may be skipped for want of Docker."""
    return any(os.environ.get(name, "") not in ("", "0", "false") for name in ("ODEK_REQUIRE_DOCKER", "CI"))


def do_without(reason: str) -> None:
    """Skip the test, or fail it where Docker is required."""
    if docker_is_required():
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def pytest_configure() -> None:
    """Let signals reach the programs under test, whatever started the test run.

    A shell starts its background jobs, as .ci/run does, with SIGINT ignored, and nohup does that to
    SIGHUP. Children inherit it, and odek leaves an ignored signal ignored.
    """
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use the engine."""
    for item in items:
        if isinstance(item, pytest.Function) and "docker_engine" in item.fixturenames:
            item.add_marker("docker")


# the old form of a hook wrapper: the pytest of Debian 12 knows no other
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Turn a skip of a docker test into a failure where Docker is required, whatever the reason."""
    outcome = yield
    report = outcome.get_result()
    # an expected failure is reported as skipped, too: it has proved something
    if (
        report.skipped
        and not hasattr(report, "wasxfail")
        and item.get_closest_marker("docker")
        and docker_is_required()
    ):
        report.outcome = "failed"
        report.longrepr = f"skipped although Docker is required: {report.longrepr[2]}"


@pytest.fixture(scope="session")
def docker_engine() -> Engine:
    """The Docker engine that answers."""
    found = find_engine()
    if isinstance(found, str):
        do_without(found)
    return found


@pytest.fixture(scope="session")
def base_image(docker_engine: Engine) -> str:
    """Reference of a small local image with a shell; made once, kept for the next run."""
    busybox = find_static_busybox()
    if busybox is None:
        do_without("no static busybox on PATH to make an image from (Debian: busybox-static)")
    return import_base_image(docker_engine, busybox)


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """R-38: a docker test leaves no container, network or volume of odek's behind."""
    if not request.node.get_closest_marker("docker"):
        yield
        return
    engine: Engine = request.getfixturevalue("docker_engine")
    before = engine.labelled()
    yield
    deadline = time.monotonic() + REMOVAL_GRACE_S
    while (left := engine.labelled() - before) and time.monotonic() < deadline:
        time.sleep(0.1)
    if left:
        pytest.fail(f"left behind by this test, or by another run on the same engine: {', '.join(sorted(left))}")


@pytest.fixture
def odek(tmp_path: Path) -> Iterator[Odek]:
    """The program under test, with a scratch HOME and working directory."""
    home, cwd = tmp_path / "home", tmp_path / "work"
    home.mkdir(mode=0o700)
    cwd.mkdir()
    program = Odek(home=home, cwd=cwd)
    yield program
    program.close()
