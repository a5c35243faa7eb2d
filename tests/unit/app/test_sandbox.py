"""From settings to a running container: what is checked when, and what Docker is asked for."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from fakes.approver import Answers
from fakes.containers import IMAGE_ID, inspected
from fakes.docker import FakeDocker
from fakes.engines import INFO, PODMAN, REMAPPED, ROOTLESS, podman_inspect
from fakes.layering import make_host, make_layers
from fakes.runtimes import NONCE, fake_runtime, script_start, spec_of
from support.bad_values import BAD_VALUES, as_flag, bad_value_id
from support.isolation_table import VALUES, WIDENS

from odek.app.config import config_of
from odek.app.environment import render_sandbox
from odek.app.project_approval import approval_request
from odek.app.sandbox import SandboxPlan, plan_sandbox, prepare_sandbox, start_prepared, start_sandbox
from odek.app.sandbox_request import SandboxRequest
from odek.app.seccomp_file import profile_path
from odek.approval.request import digest
from odek.config.options import ProjectRule
from odek.config.resolve import Override, project_overrides
from odek.config.settings import BY_KEY, OPTIONS
from odek.errors import ApprovalDenied, ConfigError, OdekError
from odek.events import Event, Notice, WarningIssued
from odek.host import Host
from odek.sandbox.container import scripts
from odek.sandbox.container.container import Container
from odek.sandbox.docker import INFO_ARGV, DockerCli
from odek.sandbox.engine import read_engine
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.network.plan import Network, NetworkPlan
from odek.sandbox.podman import docker_info
from odek.sandbox.spec import Limits, Mount, SandboxSpec

UNREACHABLE = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
APPROVED = {"ODEK_APPROVE_PROJECT_SANDBOX": "1"}
MISSING = "Error response from daemon: No such image\n"

BACK = Network(name="back", id="b" * 64, internal=True)


@dataclass
class Setup:
    """A host, its settings, and the Docker that is asked."""

    host: Host
    docker: FakeDocker = field(default_factory=FakeDocker)
    notes: list[str] = field(default_factory=list)
    warnings: list[tuple[str, str]] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        match event:
            case WarningIssued():
                self.warnings.append((event.text, event.hint))
            case Notice():
                self.notes.append(event.text)

    def plan(self, answers: Answers | None = None, **layers: Any) -> SandboxPlan:
        runtime = fake_runtime(self.host, self.docker, emit=self, operator=answers)
        return plan_sandbox(config_of(make_layers(**layers)), runtime)

    def draft(self, **layers: Any) -> SandboxRequest:
        return self.plan(**layers).request

    def start(self, answers: Answers | None = None, **layers: Any) -> Container:
        return start_sandbox(self.plan(answers, **layers))

    def spec(self, **changes: Any) -> SandboxSpec:
        return spec_of(self.host, **{"image": "i:1", **changes})

    def script(self, spec: SandboxSpec) -> FakeDocker:
        """Let Docker start what `spec` asks for."""
        return script_start(self.docker, spec)

    @property
    def steps(self) -> list[str]:
        return [
            " ".join(call.args[:2]) if call.args[0] in ("network", "image") else call.args[0]
            for call in self.docker.calls
        ]


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(replace(make_host(tmp_path, uid=os.getuid()), gid=os.getgid(), umask=0o027))


def operator(**values: object) -> dict[str, object]:
    return {"operator": {"sandbox_image": "i:1", **values}}


@pytest.mark.parametrize("source", ["operator", "project", "flags"])
@pytest.mark.parametrize(("key", "value", "named"), BAD_VALUES, ids=bad_value_id)
def test_bad_value_is_found_before_docker_is_asked_anything(
    key: str, value: object, named: str, source: str, setup: Setup
) -> None:
    """R-8: an unreachable daemon hides nothing; the origin is named."""
    if source == "flags" and not as_flag(key, value):
        pytest.skip("no flag sets it")
    said = [str(value)] if source == "flags" and isinstance(value, int) else value
    with pytest.raises((SandboxConfigError, ConfigError)) as refused:
        setup.start(**({source: {key: said}} if source != "operator" else operator(**{key: value})))
    origin = {"operator": "config.json", "project": "odek.json", "flags": BY_KEY[key].flag}[source]
    assert (named.replace(key, origin) in refused.value.message, origin in refused.value.message) == (True, True)
    assert setup.docker.calls == []


@pytest.mark.parametrize("cwd", ["/", "/etc"])
def test_folder_that_cannot_be_shared_is_found_before_docker_is_asked_anything(cwd: str, setup: Setup) -> None:
    """R-8, R-34."""
    setup.host = replace(setup.host, cwd=cwd)
    with pytest.raises(SandboxConfigError, match="is part of the system"):
        setup.start(**operator())
    assert setup.docker.calls == []


@pytest.mark.parametrize(
    ("key", "attached", "word"),
    [("sandbox_networks", ["back"], "--sandbox-networks"), ("sandbox_compose_project", "shop", "--sandbox-compose")],
)
@pytest.mark.parametrize(
    ("said", "by"),
    [
        ({"flags": {"sandbox_network": "none"}}, "--sandbox-network"),
        ({"env": {"ODEK_SANDBOX_NETWORK": "none"}}, "ODEK_SANDBOX_NETWORK"),
        ({}, ""),  # the default takes nothing away and says nothing
        ({"flags": {"sandbox_network": "bridge"}}, ""),
        ({"operator_network": "none"}, ""),  # said in the same place as the networks
    ],
)
def test_network_none_says_which_inherited_networks_stay(
    key: str, attached: object, word: str, said: dict[str, Any], by: str, setup: Setup
) -> None:
    """A4: it takes none of them away, and names the word that does."""
    mode = {"sandbox_network": said["operator_network"]} if "operator_network" in said else {}
    layers = {name: values for name, values in said.items() if name in ("flags", "env")}
    draft = setup.draft(**operator(**{key: attached}, **mode), **layers)
    assert (draft.networks.names, draft.networks.compose_project) in ((("back",), ""), ((), "shop"))
    assert setup.notes == (
        [f"{by} none means no other network: those of ~/.odek/config.json stay attached; {word} none leaves them out"]
        if by
        else []
    )


@pytest.mark.parametrize(("key", "word"), [("sandbox_networks", ["none"]), ("sandbox_compose_project", "none")])
def test_network_none_says_nothing_where_the_inherited_networks_are_left_out(
    key: str, word: object, setup: Setup
) -> None:
    """A4"""
    has = {"sandbox_networks": ["back"], "sandbox_compose_project": ""}
    has = has if key == "sandbox_networks" else {"sandbox_networks": [], "sandbox_compose_project": "shop"}
    draft = setup.draft(**operator(**has), flags={"sandbox_network": "none", key: word})
    assert (draft.networks.names, draft.networks.compose_project, setup.notes) == ((), "", [])


def test_draft_is_what_the_settings_ask_for(setup: Setup) -> None:
    """R-32, R-33: nothing is made on the disk yet."""
    draft = setup.draft(
        **operator(
            sandbox_pids_limit=100, sandbox_memory="1g", sandbox_cpus="1.5", sandbox_user="12:34",
            sandbox_volumes=["new/deep:/data"],
        )
    )  # fmt: skip
    limits = Limits(pids=100, memory_bytes=1 << 30, nano_cpus=1_500_000_000, tmp_bytes=1 << 29)
    assert (draft.limits, draft.user) == (limits, "12:34")
    assert draft.volumes == (Mount(source=f"{setup.host.cwd}/new/deep", target="/data"),)
    assert draft.missing_folders == (f"{setup.host.cwd}/new/deep",)
    assert os.listdir(setup.host.cwd) == []


@pytest.mark.parametrize(
    ("operator_has", "project", "size"),
    [
        ({}, {}, 1 << 30),
        ({"sandbox_memory": "8g"}, {}, 1 << 30),
        ({"sandbox_memory": "512m"}, {}, 256 << 20),
        ({"sandbox_memory": "6m"}, {}, 3 << 20),
        ({"sandbox_memory": "512m", "sandbox_tmp_size": "2g"}, {}, 2 << 30),
        ({}, {"sandbox_tmp_size": "64m"}, 64 << 20),
        ({}, {"sandbox_tmp_size": "2g"}, 1 << 30),
        ({"sandbox_tmp_size": "64m"}, {"sandbox_tmp_size": "128m"}, 64 << 20),
        ({"sandbox_tmp_size": "4g"}, {"sandbox_tmp_size": "2g"}, 2 << 30),
        ({"sandbox_memory": "512m"}, {"sandbox_tmp_size": "900m"}, 256 << 20),
        ({}, {"sandbox_memory": "64m"}, 32 << 20),
    ],
)
def test_size_of_tmp(operator_has: dict[str, object], project: dict[str, object], size: int, setup: Setup) -> None:
    """R-15, R-16: an operator chooses, a project lowers, and what nobody chose is never most of the memory."""
    assert setup.draft(**operator(**operator_has), project=project).limits.tmp_bytes == size


@pytest.mark.parametrize(
    ("values", "changes"),
    [
        ({}, {}),
        ({"sandbox_readonly": True}, {"readonly": True}),
        ({"sandbox_env": {"A": "1", "HOME": "/h"}}, {"home": "/h", "env": (("A", "1"), ("HOME", "/h"))}),
        ({"sandbox_user": "12:34"}, {"user": "12:34"}),
        ({"sandbox_network": "bridge"}, {"networks": NetworkPlan(mode="bridge")}),
        ({"sandbox_memory": "64m"}, {"limits": Limits(memory_bytes=64 << 20, tmp_bytes=32 << 20)}),
        ({"sandbox_tmp_size": "2g"}, {"limits": Limits(tmp_bytes=2 << 30)}),
    ],
)
def test_container_is_started_as_the_settings_ask_for(
    values: dict[str, object], changes: dict[str, Any], setup: Setup
) -> None:
    """R-30 to R-32: the inspected container would not match anything else."""
    setup.script(setup.spec(**changes))
    assert setup.start(**operator(**values)).facts.image_id == IMAGE_ID
    assert setup.steps == ["info", "image inspect", "run", "ps", "inspect", "exec"]


@pytest.mark.parametrize(
    ("info", "values", "user"),
    [
        (ROOTLESS, {}, "0:0"),
        (ROOTLESS, {"sandbox_user": "12:34"}, "12:34"),
        (PODMAN, {}, f"{os.getuid()}:{os.getgid()}"),
    ],
)
def test_commands_run_as_who_the_engine_takes_for_the_user(
    info: dict[str, Any], values: dict[str, object], user: str, setup: Setup
) -> None:
    """R-31, D-13, B11: in a rootless engine that is uid 0; who asks for another user gets that one."""
    engine = read_engine(docker_info(info))
    spec = setup.spec(user=user, engine=engine, seccomp_file=profile_path(engine, setup.host))
    shown = inspected(spec, name="odek-1-1", nonce=NONCE)
    setup.docker.on("info", stdout=json.dumps(info))
    setup.docker.on("inspect", stdout=json.dumps([podman_inspect(shown) if engine.podman else shown]))
    setup.script(spec)
    setup.start(**operator(**values))
    (check,) = setup.docker.called("exec")
    assert check[check.index("--user") + 1] == user
    (run,) = setup.docker.called("run")
    assert (",uid=" in run[run.index("--tmpfs") + 1]) == (not engine.podman)


@pytest.mark.parametrize(
    ("info", "values", "words"),
    [
        (REMAPPED, {}, "remaps users"),
        (ROOTLESS, {"sandbox_cpus": "1"}, "cannot enforce sandbox_cpus"),
        ({"ServerVersion": "4.3.1", "Plugins": {"Log": ["k8s-file"]}}, {}, "podman's service"),
        ([], {}, "does not describe itself"),
    ],
)
def test_engine_that_cannot_give_the_sandbox_stops_the_run_before_an_image_is_looked_for(
    info: object, values: dict[str, object], words: str, setup: Setup
) -> None:
    """D-13, R-30, B11: nothing is pulled, built or made for it."""
    setup.docker.on("version", stdout="1\n").on("info", stdout=json.dumps(info))
    with pytest.raises(SandboxConfigError, match=words):
        setup.start(**operator(**values))
    assert setup.steps == (["info"] if info else ["info", "version", "info"])


def test_networks_that_the_engine_cannot_attach_are_refused_before_anybody_is_asked(setup: Setup) -> None:
    """D-13, R-60."""
    setup.docker.on("version", stdout="4.3.1\n").on("info", stdout=json.dumps(PODMAN))
    answers = Answers()
    with pytest.raises(SandboxConfigError, match="networks cannot be attached"):
        setup.start(answers, **operator(), project={"sandbox_networks": ["back"]})
    assert answers.prompts == []


def test_missing_folders_are_made_when_all_else_is_decided_and_said_so(setup: Setup) -> None:
    """R-33, R-64: with the invoking user's umask, the name shown harmlessly."""
    name = "a\x1b[2J\nb"
    volume = Mount(source=f"{setup.host.cwd}/{name}", target="/data")
    setup.script(setup.spec(volumes=(volume,)))
    setup.start(**operator(sandbox_volumes=[f"{name}:/data"]))
    assert os.listdir(setup.host.cwd) == [name]
    assert setup.notes == [f"made the folder {setup.host.cwd}/a\\x1b[2J\\nb for sandbox_volumes"]


def test_folder_that_became_a_link_under_way_stops_the_run(setup: Setup, tmp_path: Path) -> None:
    """R-33, S-6: between the check and the start lie a question and a pull; another sandbox may work in this folder."""
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("data", "new"):
        cache = Path(setup.host.cwd, "cache")
        cache.mkdir(exist_ok=True)
        (cache / name).mkdir() if name == "data" else None
        setup.docker = FakeDocker()
        setup.docker.on("version", stdout="1\n").on("info", stdout=INFO)

        def exchange(_: object, cache: Path = cache) -> None:
            if not cache.is_symlink():
                cache.rename(cache.with_name("old"))
                cache.symlink_to(outside)

        setup.docker.on("image", "inspect", stdout=f"{IMAGE_ID}\n", react=exchange)
        with pytest.raises(OdekError, match=r"is a symbolic link|cannot be made"):
            setup.start(**operator(sandbox_volumes=[f"./cache/{name}:/data"]))
        assert (os.listdir(outside), setup.docker.called("run")) == ([], [])
        cache.unlink()
        cache.with_name("old").rename(cache)


def test_working_directory_that_was_exchanged_stops_the_run_before_anything_is_made(setup: Setup) -> None:
    """R-37, S-6: nothing of another folder is sent to a build either."""
    setup.host = replace(setup.host, cwd_id=(1, 2))
    setup.docker.on("version", stdout="1\n").on("info", stdout=INFO)
    with pytest.raises(SandboxConfigError, match="another folder than the one in which odek was started"):
        setup.start(**operator())
    assert [call.args[0] for call in setup.docker.calls] == ["info"]


def test_no_folder_is_made_when_the_image_cannot_be_had(setup: Setup) -> None:
    """R-7, R-33."""
    setup.docker.on("version", stdout="1\n").on("info", stdout=INFO).on("image", "inspect", code=1, stderr=MISSING).on(
        "pull", code=1
    )
    with pytest.raises(OdekError, match="could not be pulled"):
        setup.start(**operator(sandbox_volumes=["new:/data"]))
    assert os.listdir(setup.host.cwd) == []


def test_folder_that_cannot_be_made_stops_the_run(setup: Setup) -> None:
    """R-33: a file has come in between; a sentence, no bug."""
    blocker = Path(setup.host.cwd, "new")

    setup.docker.on("version", stdout="1\n").on("info", stdout=INFO)
    setup.docker.on("image", "inspect", stdout=IMAGE_ID, react=lambda _: blocker.touch())
    with pytest.raises(SandboxConfigError, match=r'the folder ".*/new/x" cannot be made for sandbox_volumes'):
        setup.start(**operator(sandbox_volumes=["new/x:/data"]))
    assert setup.docker.called("run") == []


def shown(network: Network, **changes: Any) -> str:
    value = {
        "Name": network.name, "Id": network.id, "Driver": "bridge", "Scope": "local", "Internal": network.internal,
        "ConfigOnly": False, "Labels": {}, "Containers": {},
    }  # fmt: skip
    return json.dumps([value | changes])


def listed(network: Network) -> str:
    return json.dumps([network.id, network.name, network.driver, network.scope]) + "\n"


def script_networks(setup: Setup) -> None:
    setup.docker.on("network", "ls", stdout=listed(BACK))
    setup.docker.on("network", "inspect", stdout=shown(BACK))
    setup.script(setup.spec(networks=NetworkPlan(attached=(BACK,))))


def test_networks_are_looked_at_before_the_question_and_again_after_it(setup: Setup) -> None:
    """R-52, R-63: the question shows the full ID; what is started has that network and says what it means."""
    script_networks(setup)
    answers = Answers("y")
    box = setup.start(answers, **operator(), project={"sandbox_networks": ["back"]})
    assert BACK.id in answers.prompts[0]
    assert (box.facts.network, box.facts.networks) == ("attached", (BACK,))
    assert setup.steps == [
        "info", "network ls", "network inspect", "network inspect", "image inspect", "network ls",
        "network inspect", "run", "ps", "inspect", "exec", "network inspect",
    ]  # fmt: skip
    assert len(setup.warnings) == 1
    assert "internal" in setup.warnings[0][0]


def test_network_that_was_made_anew_during_the_question_stops_the_run(setup: Setup) -> None:
    """R-63."""
    other = replace(BACK, id="c" * 64)
    setup.docker.on("network", "ls", stdout=listed(BACK), times=1)
    setup.docker.on("network", "ls", stdout=listed(other))
    setup.docker.on("network", "inspect", "--", BACK.id, stdout=shown(BACK))
    setup.docker.on("network", "inspect", "--", other.id, stdout=shown(other))
    setup.docker.on("version", stdout="1\n").on("info", stdout=INFO).on("image", "inspect", stdout=IMAGE_ID)
    with pytest.raises(SandboxConfigError, match="no longer those that were approved"):
        setup.start(Answers("y"), **operator(), project={"sandbox_networks": ["back"]})
    assert setup.docker.called("run") == []


@pytest.mark.parametrize("key", [option.key for option in OPTIONS if option.project is ProjectRule.NEEDS_APPROVAL])
def test_each_setting_that_needs_an_approval_is_in_the_request(key: str, setup: Setup) -> None:
    """R-60, R-62: a row that the request leaves out would count without a question; for every row there is."""
    layers = make_layers(project={key: VALUES[key]["good"]})
    asked = approval_request(project_overrides(layers), NetworkPlan(mode="none", attached=(BACK,)), setup.host)
    nothing = approval_request((), NetworkPlan(mode="none"), setup.host)
    assert (nothing.is_empty, asked.is_empty, digest(asked) != digest(nothing)) == (True, False, True)
    assert key in WIDENS


def test_override_that_no_question_shows_stops_the_run(setup: Setup) -> None:
    """R-60: a setting that a project may ask for and that the request leaves out is never granted in silence."""
    unshown = Override(key="sandbox_shm_size", value="8g", without="")
    with pytest.raises(AssertionError, match="no question shows sandbox_shm_size"):
        approval_request((unshown,), NetworkPlan(mode="none"), setup.host)


def test_request_shows_everything_that_a_project_asks_for(setup: Setup) -> None:
    """R-60, R-62, R-63."""
    layers = make_layers(
        project={
            "sandbox_image": "evil:1",
            "sandbox_network": "bridge",
            "sandbox_networks": ["back"],
            "sandbox_env": {"A": "x${SECRET}", "B": "1"},
            "sandbox_volumes": ["d:/data"],
            "sandbox_user": "0:0",
        }
    )
    request = approval_request(project_overrides(layers), NetworkPlan(mode="bridge", attached=(BACK,)), setup.host)
    assert (request.project_dir, request.image, request.network, request.user) == (
        setup.host.cwd, "evil:1", "bridge", "0:0",
    )  # fmt: skip
    assert [(network.name, network.id, network.internal) for network in request.networks] == [("back", BACK.id, True)]
    assert [(pair.key, pair.value, pair.variables) for pair in request.env] == [
        ("A", "x${SECRET}", ("SECRET",)),
        ("B", "1", ()),
    ]
    assert request.volumes == ("d:/data",)


def test_networks_of_the_operator_are_not_the_projects_to_be_approved(setup: Setup) -> None:
    """R-60."""
    script_networks(setup)
    assert setup.start(**operator(sandbox_networks=["back"])).facts.network == "attached"


def test_folders_made_for_a_start_that_fails_are_removed(setup: Setup) -> None:
    """A15: as far as they were made and are empty; what was there before stays."""
    Path(setup.host.cwd, "old").mkdir()
    setup.docker.on("run", code=125, stderr="docker: no\n")
    setup.docker.on("inspect", code=1)
    setup.script(setup.spec())
    with pytest.raises(SandboxConfigError):
        setup.start(**operator(sandbox_volumes=["old/new/deep:/data", "b:/b"]))
    assert len(setup.notes) == 2
    assert [str(path.relative_to(setup.host.cwd)) for path in Path(setup.host.cwd).rglob("*")] == ["old"]


def test_read_only_is_read_only_for_volumes_too(setup: Setup) -> None:
    """A7, D-22: whichever way a file of this machine is reached."""
    Path(setup.host.cwd, "v").mkdir()
    cwd = setup.host.cwd
    volumes = (Mount(source=cwd, target="/all", readonly=True), Mount(source=f"{cwd}/v", target="/v", readonly=True))
    setup.script(setup.spec(readonly=True, volumes=volumes))
    setup.start(**operator(sandbox_volumes=[".:/all", "v:/v"], sandbox_readonly=True))
    assert sum(",readonly" in word for word in setup.docker.called("run")[0]) == 3


def test_question_says_that_the_volumes_are_read_only(setup: Setup) -> None:
    """A7: where the sandbox is, whoever said so."""
    Path(setup.host.cwd, "v").mkdir()
    volume = Mount(source=f"{setup.host.cwd}/v", target="/v", readonly=True)
    setup.script(setup.spec(readonly=True, volumes=(volume,)))
    answers = Answers("y")
    setup.start(answers, **operator(sandbox_readonly=True), project={"sandbox_volumes": ["v:/v"]})
    assert "  volume:  v:/v (read-only)\n" in answers.prompts[0]


@pytest.mark.parametrize("how", ["current", "variable"])
def test_folder_with_the_socket_of_a_docker_context_is_refused(how: str, setup: Setup) -> None:
    """F5: the daemon of a context is the machine as that of DOCKER_HOST is."""
    client = Path(setup.host.home, ".docker")
    meta = client / "contexts" / "meta" / sha256(b"mine").hexdigest()
    meta.mkdir(parents=True)
    endpoint = {"Host": f"unix://{setup.host.cwd}/run/d.sock"}
    (meta / "meta.json").write_text(json.dumps({"Name": "mine", "Endpoints": {"docker": endpoint}}))
    if how == "current":
        (client / "config.json").write_text('{"currentContext": "mine"}')
    else:
        setup.host = replace(setup.host, env={**setup.host.env, "DOCKER_CONTEXT": "mine"})
    with pytest.raises(SandboxConfigError, match="holds the Docker socket"):
        setup.draft(**operator())


def test_prepared_sandbox_is_started_more_than_once(setup: Setup) -> None:
    """R-105: the question and the image are of the preparation; each start is proved by itself."""
    setup.script(setup.spec(image="evil:1"))
    answers = Answers("y")
    prepared = prepare_sandbox(setup.plan(answers, project={"sandbox_image": "evil:1"}))
    assert (len(answers.prompts), setup.steps) == (1, ["info", "image inspect"])
    for _ in range(2):
        start_prepared(prepared)
    assert setup.steps[2:] == ["run", "ps", "inspect", "exec"] * 2
    assert len(answers.prompts) == 1


@pytest.mark.parametrize(
    "project",
    [
        {"sandbox_image": "evil:1", "sandbox_network": "bridge"},
        {"sandbox_image": "evil:1", "sandbox_user": "0:0"},
        {"sandbox_image": "evil:1", "sandbox_env": {"A": "$HOME"}},
        {"sandbox_image": "evil:1", "sandbox_volumes": ["./v:/v"]},
        {"sandbox_image": "evil:2"},
    ],
    ids=str,
)
def test_what_was_not_approved_is_not_started_with_the_answer_to_something_else(
    project: dict[str, object], setup: Setup
) -> None:
    """R-105: the answer is a grant for exactly the request that was shown."""
    setup.script(setup.spec(image="evil:1"))
    prepared = prepare_sandbox(setup.plan(Answers("y"), project={"sandbox_image": "evil:1"}))
    other = replace(prepared, plan=setup.plan(None, project=project, env={"HOME": "/h"}))
    with pytest.raises(ApprovalDenied, match="not what was approved"):
        start_prepared(other)
    assert setup.docker.called("run") == []


def test_network_that_changed_since_the_preparation_stops_a_later_start(setup: Setup) -> None:
    """R-63, R-105."""
    other = replace(BACK, id="c" * 64)
    setup.docker.on("network", "ls", stdout=listed(BACK), times=2)
    setup.docker.on("network", "ls", stdout=listed(other))
    setup.docker.on("network", "inspect", "--", other.id, stdout=shown(other))
    setup.docker.on("network", "inspect", stdout=shown(BACK))
    setup.script(setup.spec(networks=NetworkPlan(attached=(BACK,))))
    prepared = prepare_sandbox(setup.plan(Answers("y"), **operator(), project={"sandbox_networks": ["back"]}))
    start_prepared(prepared)
    with pytest.raises(SandboxConfigError, match="no longer those that were approved"):
        start_prepared(prepared)
    assert len(setup.docker.called("run")) == 1


@pytest.mark.parametrize(
    ("values", "changes"),
    [
        ({}, {}),
        (
            {"sandbox_network": "bridge", "sandbox_pids_limit": 99},
            {"networks": NetworkPlan(mode="bridge"), "limits": Limits(pids=99)},
        ),
        ({"sandbox_readonly": True, "sandbox_user": "12:34"}, {"readonly": True, "user": "12:34"}),
        ({"sandbox_networks": ["back"]}, {"networks": NetworkPlan(attached=(BACK,))}),
    ],
    ids=str,
)
def test_planned_facts_are_those_of_the_container(
    values: dict[str, object], changes: dict[str, Any], setup: Setup
) -> None:
    """R-110: what a model is shown of the place can be rendered before there is a container."""
    setup.docker.on("network", "ls", stdout=listed(BACK))
    setup.docker.on("network", "inspect", stdout=shown(BACK))
    uid, gid = str(changes.get("user", f"{os.getuid()}:{os.getgid()}")).split(":")
    seen = f"nonce=seen\nhome=writable\nworkspace=writable\nuid={uid}\ngid={gid}\n"
    setup.docker.on("exec", has=scripts.CHECK, code=scripts.CHECKED, stdout=seen)
    setup.script(setup.spec(**changes))
    plan = setup.plan(**operator(**values))
    planned = plan.facts(name="odek-1-1")
    assert setup.docker.called("run") == []
    assert render_sandbox(planned, nonce=lambda: "ab" * 8) == render_sandbox(
        start_sandbox(plan).facts, nonce=lambda: "ab" * 8
    )


def test_what_docker_said_before_the_question_does_not_count_after_it(setup: Setup, tmp_path: Path) -> None:
    """R-257, R-7: a daemon that came up while the question was open is there: nothing runs on the host."""
    program, up = tmp_path / "docker", tmp_path / "up"
    program.write_text(f"#!/bin/sh\n[ -e {up} ] && echo 27.0 || {{ echo {UNREACHABLE!r} >&2; exit 1; }}\n")
    program.chmod(0o755)
    docker = DockerCli(str(program), {"PATH": os.environ["PATH"]})

    class Patient(Answers):
        def ask(self, prompt: str, choices: tuple[str, ...]) -> str | None:
            up.touch()
            return super().ask(prompt, choices)

    plan = setup.plan(Patient("y"), **operator(), project={"sandbox_env": {"A": "b"}})
    plan = replace(plan, runtime=replace(plan.runtime, docker=docker))
    with docker.ahead(INFO_ARGV), pytest.raises(SandboxConfigError, match="does not describe itself"):
        prepare_sandbox(plan)
    assert plan.daemon() == "27.0"


@pytest.mark.parametrize("layers", [{}, {"project": {"sandbox_env": {"A": "b"}}, "env": APPROVED}], ids=["none", "env"])
def test_without_a_question_docker_is_asked_once(layers: dict[str, Any], setup: Setup) -> None:
    """R-257."""
    setup.script(setup.spec(env=(("A", "b"),) if layers else ()))
    with setup.docker.ahead(INFO_ARGV):
        prepare_sandbox(setup.plan(**operator(), **layers))
    assert setup.docker.looked_ahead[0] == INFO_ARGV
