"""When the sandbox cannot be had (R-4, R-6, R-7, R-8, D-1): the whole table, on the program itself.

In every test the operator allows all commands without a question. Where a run must stop, the mark
that the model's command would leave on the host proves that nothing ran there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from support.bad_values import BAD_VALUES, as_flag
from support.docker_engine import Engine
from support.odek_process import Odek
from support.scenario import ANSWER, DEAD_REGISTRY, DEAD_SOCKET, Scene, listening_socket, tools_only

from odek.config.settings import BY_KEY

STOPPED = (1, 0, False)
ON_HOST = (0, 2, True)
WARNING = "shell commands run ON THIS HOST, WITHOUT A SANDBOX"

FIRMNESS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "implicit": ((), {}),
    "--sandbox": (("--sandbox",), {}),
    "ODEK_SANDBOX": ((), {"ODEK_SANDBOX": "1"}),
    "ODEK_REQUIRE_SANDBOX": ((), {"ODEK_REQUIRE_SANDBOX": "1"}),
    "networks": (("--sandbox-networks", "some-network"), {}),
    "compose": (("--sandbox-compose", "some-project"), {}),
}
firmness = pytest.mark.parametrize("firm", FIRMNESS)

# every level has the whole table; here is one value of each setting
SOME_BAD_VALUES = tuple({key: (key, value, named) for key, value, named in BAD_VALUES}.values())


@pytest.fixture(scope="module")
def docker_client() -> str:
    """The docker client; no engine is needed."""
    client = shutil.which("docker")
    if client is None:
        pytest.skip("no docker client on PATH")
    return client


def expected(firm: str) -> tuple[int, int, bool]:
    return ON_HOST if firm == "implicit" else STOPPED


def check_fall(scene: Scene, firm: str, reason: str, env: dict[str, str]) -> None:
    """Run once; the outcome must be the table's, and `reason` must be told."""
    flags, more = FIRMNESS[firm]
    ended = scene.run(*flags, env={**env, **more})
    assert (ended.summary, reason in ended.outcome.stderr) == (expected(firm), True), ended.outcome.stderr
    assert (WARNING in ended.outcome.stderr) == (firm == "implicit")
    if firm == "implicit":
        assert ended.outcome.stdout == f"{ANSWER}\n"
        assert "WITHOUT a sandbox" in ended.system_prompt
        assert ended.outcome.stderr.index(WARNING) < ended.outcome.stderr.index("shell  sh -c 'echo ran")


@firmness
def test_no_docker_client(firm: str, scene: Scene, tmp_path: Path) -> None:
    """R-7: no CLI is a daemon that cannot be reached."""
    check_fall(scene, firm, "docker client was not found on PATH", {"PATH": tools_only(tmp_path / "bin")})


@firmness
def test_no_daemon(firm: str, scene: Scene, docker_client: str) -> None:
    """R-7: nobody listens on the socket."""
    check_fall(scene, firm, "the Docker daemon is not reachable", {"DOCKER_HOST": DEAD_SOCKET})


@firmness
def test_no_permission(firm: str, scene: Scene, docker_client: str, tmp_path: Path) -> None:
    """R-7: a socket that this user may not open is a daemon that cannot be reached."""
    with listening_socket(tmp_path / "s") as host:
        os.chmod(tmp_path / "s", 0)
        if os.geteuid() == 0:  # root may open anything, unless that right is taken away
            drop = ("setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search")
            scene.odek.argv = (*drop, *scene.odek.argv)
        check_fall(scene, firm, "no permission to talk to the Docker daemon", {"DOCKER_HOST": host})


Waits = Future[dict[str, tuple[str, tuple[int, int, bool]]]]
"""by firmness: what was said, and `Ended.summary`"""


@pytest.fixture(scope="module", autouse=True)
def silent_daemon(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Waits]:
    """Runs that ask a daemon that never answers.

    Each waits for twenty seconds. They begin with the first test of this file, and the last one looks at them.
    """
    folder = tmp_path_factory.mktemp("silent")

    def run_one(firm: str) -> tuple[str, tuple[int, int, bool]]:
        (folder / firm / "home").mkdir(mode=0o700, parents=True)
        (folder / firm / "work").mkdir()
        odek = Odek(home=folder / firm / "home", cwd=folder / firm / "work")
        flags, more = FIRMNESS[firm]
        ended = Scene(odek=odek, folder=folder / firm).run(*flags, env={"DOCKER_HOST": host, **more})
        return ended.outcome.stderr, ended.summary

    def run_all() -> dict[str, tuple[str, tuple[int, int, bool]]]:
        with ThreadPoolExecutor(len(FIRMNESS)) as each:
            return dict(zip(FIRMNESS, each.map(run_one, FIRMNESS), strict=True))

    wanted = any(item.name == "test_daemon_that_never_answers" for item in request.session.items)
    with listening_socket(folder / "s") as host, ThreadPoolExecutor(1) as pool:
        yield pool.submit(run_all if wanted else dict)


@firmness
def test_something_else_answers_in_place_of_docker(firm: str, scene: Scene, docker_client: str, tmp_path: Path) -> None:
    """R-7: a daemon that answers with an error is there; nothing falls back to the host."""
    words = b'{"message":"permission denied while trying to connect: Cannot connect to the Docker daemon"}'
    head = b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    with listening_socket(tmp_path / "s", head % len(words) + words) as host:
        flags, more = FIRMNESS[firm]
        ended = scene.run(*flags, env={"DOCKER_HOST": host, **more})
    assert ended.summary == STOPPED, ended.outcome.stderr


@pytest.mark.parametrize("firm", ["implicit", "--sandbox", "ODEK_SANDBOX", "ODEK_REQUIRE_SANDBOX"])
def test_image_of_the_operator_cannot_be_pulled(firm: str, scene: Scene, docker_engine: Engine) -> None:
    """R-7: the operator's image cannot be had."""
    check_fall(scene, firm, "could not be pulled", {"ODEK_SANDBOX_IMAGE": DEAD_REGISTRY})


@pytest.mark.parametrize("firm", ["implicit", "--sandbox", "ODEK_REQUIRE_SANDBOX"])
def test_image_of_the_project_cannot_be_pulled(firm: str, scene: Scene, docker_engine: Engine) -> None:
    """R-7, D-1, B24, M-6: a project cannot push work to the host by an image that is not there."""
    scene.project(sandbox_image=DEAD_REGISTRY)
    flags, more = FIRMNESS[firm]
    ended = scene.run(*flags, env={"ODEK_APPROVE_PROJECT_SANDBOX": "1", **more})
    assert (ended.summary, "could not be pulled" in ended.outcome.stderr) == (STOPPED, True), ended.outcome.stderr


@pytest.mark.parametrize("up", [True, False], ids=["daemon up", "daemon down"])
@pytest.mark.parametrize(("key", "value", "named"), SOME_BAD_VALUES, ids=[key for key, _, _ in SOME_BAD_VALUES])
def test_bad_value_stops_whether_the_daemon_is_up_or_down(
    key: str, value: object, named: str, up: bool, scene: Scene
) -> None:
    """R-8, R-32, R-33, B16: an unreachable daemon does not hide a bad value."""
    flags = as_flag(key, value)
    if not flags:
        scene.operator(**{key: value})
    ended = scene.run(*flags, env={} if up else {"DOCKER_HOST": DEAD_SOCKET})
    assert ended.summary == STOPPED, ended.outcome.stderr
    first = ended.outcome.stderr.splitlines()[0]
    origin = BY_KEY[key].flag if flags else "config.json"
    assert first.startswith("odek: error: "), first
    assert (named.replace(key, origin) in first, origin in first) == (True, True), first


@pytest.mark.parametrize(
    "flags",
    [
        ("--sandbox-cpus", "100000"),
        ("--sandbox-user", "nobody-of-that-name"),
        ("--sandbox-networks", "odek-e2e-no-such-network"),
        ("--sandbox-compose", "odek-e2e-no-such-project"),
    ],
    ids=" ".join,
)
def test_what_only_docker_can_refuse_stops_too(
    flags: tuple[str, ...], scene: Scene, docker_engine: Engine, base_image: str
) -> None:
    """R-7: any other failure while the daemon answers."""
    ended = scene.run("--sandbox-image", base_image, *flags)
    assert ended.summary == STOPPED, ended.outcome.stderr


@pytest.mark.parametrize("kind", ["no sh", "ends at once", "not for this machine"])
def test_image_that_cannot_run_the_sandbox_stops(
    kind: str, scene: Scene, docker_engine: Engine, base_image: str
) -> None:
    """R-7, B21: an image that is there but does not work is no reason to use the host."""
    build = {
        "no sh": f"FROM {base_image}\nRUN rm /bin/sh\n",
        "ends at once": f'FROM {base_image}\nRUN rm /bin/cat /bin/sleep\nENTRYPOINT ["/bin/false"]\n',
        "not for this machine": f"FROM {base_image}\nRUN cp /etc/passwd /bin/busybox2 && rm /bin/sh "
        "&& cp /etc/passwd /bin/sh && /bin/busybox chmod 755 /bin/sh\n",
    }
    tag = f"odek-e2e:{kind.replace(' ', '-')}"
    docker_engine.run("build", "--network", "none", "--tag", tag, "-", stdin=build[kind].encode())
    try:
        ended = scene.run("--sandbox-image", tag)
    finally:
        docker_engine.run("rmi", "--force", tag)
    if kind == "ends at once":  # an entry point of the image's own cannot swallow ours
        assert ended.summary == (0, 2, False), ended.outcome.stderr
    else:  # the model may have been asked while Docker tried
        assert ended.model_calls <= 1
        assert (ended.outcome.code, ended.outcome.stdout, ended.ran_on_host) == (1, "", False), ended.outcome.stderr


def test_fall_back_is_not_taken_where_the_project_was_not_approved(scene: Scene, docker_client: str) -> None:
    """R-60: the gate stands before every fall back; who would have said no must not find the run on the host."""
    scene.project(sandbox_image="some/image:1")
    ended = scene.run(env={"DOCKER_HOST": DEAD_SOCKET})
    assert (ended.summary, "ODEK_APPROVE_PROJECT_SANDBOX" in ended.outcome.stderr) == (STOPPED, True)


@pytest.mark.parametrize("opt_out", [("--no-sandbox", {}), ("", {"ODEK_NO_SANDBOX": "1"})], ids=str)
def test_opt_out_runs_on_the_host_without_asking_docker(
    opt_out: tuple[str, dict[str, str]], scene: Scene, tmp_path: Path
) -> None:
    """R-1."""
    flag, env = opt_out
    ended = scene.run(*([flag] if flag else []), env={"PATH": tools_only(tmp_path / "bin"), **env})
    assert ended.summary == ON_HOST, ended.outcome.stderr


@pytest.mark.parametrize(
    ("flags", "env"),
    [
        (("--no-sandbox",), {"ODEK_REQUIRE_SANDBOX": "1"}),
        ((), {"ODEK_NO_SANDBOX": "1", "ODEK_REQUIRE_SANDBOX": "1"}),
        ((), {"ODEK_SANDBOX": "false", "ODEK_REQUIRE_SANDBOX": "yes"}),
        ((), {"ODEK_SANDBOX": "1", "ODEK_NO_SANDBOX": "1"}),
        ((), {"ODEK_REQUIRE_SANDBOX": "perhaps"}),
        ((), {"ODEK_NO_SANDBOX": "2"}),
    ],
    ids=str,
)
def test_contradictions_and_unreadable_switches_stop(flags: tuple[str, ...], env: dict[str, str], scene: Scene) -> None:
    """R-4, R-14, D-9."""
    ended = scene.run(*flags, env={"DOCKER_HOST": DEAD_SOCKET, **env})
    assert ended.summary == STOPPED, ended.outcome.stderr


def test_project_cannot_switch_the_sandbox_off(scene: Scene, docker_client: str) -> None:
    """R-5, D-4: its `false` does not count; the run falls back with the warning of one that never said so."""
    scene.project(sandbox=False)
    ended = scene.run(env={"DOCKER_HOST": DEAD_SOCKET, "ODEK_REQUIRE_SANDBOX": "1"})
    assert ended.summary == STOPPED
    scene.project(sandbox=True)
    ended = scene.run(env={"DOCKER_HOST": DEAD_SOCKET})
    assert ended.summary == STOPPED


@pytest.mark.parametrize(
    ("answered", "image"),
    [("version", DEAD_REGISTRY), ("version image", ""), ("version image run", ""), ("version image run exec", "")],
)
def test_daemon_that_goes_away_meanwhile_stops(
    answered: str, image: str, scene: Scene, docker_engine: Engine, base_image: str, tmp_path: Path
) -> None:
    """D-11: only the first probe may find the daemon unreachable; whatever fails later is fatal.

    Each of the subcommands `answered` is answered once, by the real engine.
    """
    shim = tmp_path / "bin"
    shim.mkdir()
    (shim / "docker").write_text(
        f"""#!/bin/sh
        case " {answered} " in
        *" $1 "*) mkdir "{shim}/$1" 2>/dev/null && exec {docker_engine.client} "$@" ;;
        esac
        echo 'Cannot connect to the Docker daemon at unix:///s. Is the docker daemon running?' >&2
        exit 1
        """
    )
    (shim / "docker").chmod(0o755)
    ended = scene.run(env={"PATH": f"{shim}:{os.environ['PATH']}", "ODEK_SANDBOX_IMAGE": image or base_image})
    assert ended.summary == STOPPED, ended.outcome.stderr


def test_daemon_that_never_answers(silent_daemon: Waits, docker_client: str) -> None:
    """R-7, B23: the wait ends, and the table holds."""
    results = silent_daemon.result()
    assert {firm: summary for firm, (_, summary) in results.items()} == {firm: expected(firm) for firm in FIRMNESS}
    assert [firm for firm, (stderr, _) in results.items() if "did not answer" not in stderr] == []
