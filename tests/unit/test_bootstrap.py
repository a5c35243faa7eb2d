"""The one spine of all commands: in which order things happen, and that a failure leaves nothing (R-7, R-8, R-60)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from fakes.approver import Answers
from fakes.containers import CONTAINER_ID, FACTS, IMAGE_ID, inspected
from fakes.docker import FakeDocker, FakePending
from fakes.engines import INFO
from fakes.layering import make_host, make_layers
from fakes.model import ScriptedModel, text_reply
from fakes.runtimes import CHECKED, fake_runtime, script_start, spec_of

from odek.app.config import config_of
from odek.app.conversation import Conversation, open_conversation
from odek.app.environment import render_host, render_sandbox
from odek.app.isolation import CommandProfile
from odek.app.model import make_model
from odek.app.runtime import Runtime
from odek.app.workspace import startup_line
from odek.approval.card import Answer, Card
from odek.approval.gate import ProjectAnswer
from odek.approval.request import ApprovalRequest
from odek.cli.approval_prompt import TerminalUser
from odek.config.layers import Layer
from odek.config.resolve import resolve
from odek.config.settings import Settings
from odek.errors import ApprovalDenied, ConfigError, ExecutableMissing, Interrupted, OdekError
from odek.events import Event, Notice, SandboxStarted, WarningIssued
from odek.host import Host
from odek.host_executor.commands import HostExecutor
from odek.model.http import HttpModel
from odek.model.replay import RecordingModel, ReplayModel
from odek.model.types import Model
from odek.sandbox.container import scripts
from odek.sandbox.container.container import Container
from odek.sandbox.errors import DaemonUnreachable, SandboxConfigError, SandboxError
from odek.sandbox.network.plan import Network

ROOT = Path(__file__).parents[2]
RUN = CommandProfile(command="run")
IMAGE = {"sandbox_image": "some/image:1"}


@dataclass
class Notes:
    """A sink of events; warnings with their hints."""

    notes: list[str] = field(default_factory=list)
    warnings: list[tuple[str, str]] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        match event:
            case WarningIssued():
                self.warnings.append((event.text, event.hint))
            case SandboxStarted():
                self.notes.append(event.line)
            case Notice():
                self.notes.append(event.text)


class LoggedDocker(FakeDocker):
    """Writes down each call before it is answered."""

    log: list[str]

    def start(self, *args: str, **options: object) -> FakePending:  # type: ignore[override]
        self.log.append(f"docker {args[0]}")
        return super().start(*args, **options)  # type: ignore[arg-type]


@dataclass
class Bench:
    """Opens sessions in a made-up world and writes down, in `log`, what happened to it in which order."""

    host: Host
    docker: FakeDocker
    answers: Answers | None = None
    no_model: OdekError | None = None
    log: list[str] = field(default_factory=list)
    notices: Notes = field(default_factory=Notes)
    stack: ExitStack = field(default_factory=ExitStack)
    model: ScriptedModel = field(default_factory=lambda: ScriptedModel([text_reply("done")]))

    def open(
        self,
        profile: CommandProfile = RUN,
        *,
        operator: dict[str, object] | None = None,
        project: dict[str, object] | None = None,
        env: dict[str, str] | None = None,
        flags: dict[str, object] | None = None,
    ) -> Conversation:
        layers: tuple[Layer, ...] = make_layers(operator=operator, project=project, env=env, flags=flags)
        config = config_of(layers)
        return self.stack.enter_context(open_conversation(profile, config, self.runtime, sink=nothing))

    @property
    def runtime(self) -> Runtime:
        person = TerminalUser(self.ask) if self.answers else None
        return fake_runtime(
            self.host, self.docker, new_model=self._new_model, operator=person, person=person, emit=self.notices
        )

    def ask(self, prompt: str, choices: tuple[str, ...]) -> str | None:
        self.log.append("ask")
        assert self.answers is not None
        return self.answers.ask(prompt, choices)

    def _new_model(self, _: Settings) -> Model:
        self.log.append("model")
        if self.no_model:
            raise self.no_model
        return self.model


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A world whose docker answers nothing: every call fails the test."""
    docker = LoggedDocker()
    made = Bench(host=replace(make_host(tmp_path, uid=os.getuid()), gid=os.getgid()), docker=docker)
    docker.log = made.log
    return made


def nothing(_: object) -> None:
    """Take a notice or an event and do nothing with it."""


def script_unreachable(docker: FakeDocker) -> None:
    docker.without_daemon()


def test_a_session_is_opened_in_this_order(bench: Bench) -> None:
    """F-20, R-60, D-11: the model's settings, the question, the engine, the image, the container, and its check."""
    script_start(bench.docker, spec_of(bench.host))
    bench.answers = Answers("y")
    session = bench.open(project=IMAGE)
    assert bench.log == [
        *("model", "ask", "docker info", "docker image"),
        *("docker run", "docker ps", "docker inspect", "docker exec"),
    ]
    assert isinstance(session.workspace.executor, Container)
    assert session.workspace.facts is not None
    assert bench.notices == Notes(notes=["sandbox network=none pids=4096 image=some/image:1"])


def test_system_prompt_and_shell_end_with_the_block(bench: Bench) -> None:
    """R-70: the same block in both places."""
    script_start(bench.docker, spec_of(bench.host))
    session = bench.open(operator=IMAGE)
    assert session.agent.run("task") == "done"
    (request,) = bench.model.requests
    assert session.workspace.facts is not None
    block = render_sandbox(session.workspace.facts, nonce=lambda: "ab" * 8)
    assert request.messages[0].content.endswith(f"\n\n{block}")
    assert [tool.description.endswith(f"\n\n{block}") for tool in request.tools if tool.name == "shell"] == [True]


def test_container_ends_with_the_stack(bench: Bench) -> None:
    """R-38: closing it lets go of the lease, which ends the container."""
    script_start(bench.docker, spec_of(bench.host))
    bench.open(operator=IMAGE)
    (lease,) = [client for client in bench.docker.clients if client.args[0] == "run"]
    assert lease.released is False
    bench.stack.close()
    assert (lease.released, lease.closed) == (True, True)
    bench.docker.assert_no_client_left()
    assert bench.docker.called("rm") == []


@pytest.mark.parametrize("step", ["inspect", "exec"])
@pytest.mark.parametrize("trouble", [Interrupted(15), ExecutableMissing("docker is gone")], ids=str)
def test_nothing_is_left_when_a_start_fails_half_way(step: str, trouble: BaseException, bench: Bench) -> None:
    """R-38: whatever goes wrong after `docker run`, the lease is let go of, and the container is removed by name."""
    bench.docker.on("version", stdout="28.0.0\n").on("info", stdout=INFO).on("image", "inspect", stdout=f"{IMAGE_ID}\n")
    bench.docker.on("ps", has="nonce", stdout=f"{CONTAINER_ID}\n").on("ps")
    bench.docker.on("run", stdout=f"{scripts.READY}\n", hold=True)
    bench.docker.on(step, raises=trouble)
    bench.docker.on("inspect", stdout=json.dumps([inspected(spec_of(bench.host), nonce="ab" * 16)]))
    bench.docker.on("exec", has=scripts.CHECK, code=scripts.CHECKED, stdout=CHECKED)
    bench.docker.on("rm")
    with pytest.raises(type(trouble)), bench.stack:
        bench.open(operator=IMAGE)
    assert bench.docker.called("rm") == [("rm", "--force", "--volumes", "--", CONTAINER_ID)]
    (lease,) = [client for client in bench.docker.clients if client.args[0] == "run"]
    assert (lease.released, lease.closed) == (True, True)
    assert os.listdir(bench.host.cwd) == []


@pytest.mark.parametrize("operator", [{"sandbox_memory": "5m"}, {"sandbox_volumes": ["/etc:/x"]}], ids=str)
@pytest.mark.parametrize("answers", [None, ()], ids=["nobody there", "somebody there"])
def test_bad_value_stops_before_the_question_and_before_docker(
    operator: dict[str, object], answers: tuple[str, ...] | None, bench: Bench
) -> None:
    """R-8: also where a project asks for something that would need an approval; all values: unit/app/test_sandbox."""
    bench.answers = None if answers is None else Answers(*answers)
    with pytest.raises((ConfigError, SandboxConfigError)):
        bench.open(operator=operator, project={"sandbox_env": {"X": "1"}})
    assert set(bench.log) <= {"model"}


def test_model_that_cannot_be_had_stops_before_everything_else(bench: Bench) -> None:
    """F-20: no question and no container for a run that cannot work."""
    bench.no_model, bench.answers = ConfigError("no key"), Answers()
    with pytest.raises(ConfigError, match="no key"):
        bench.open(project=IMAGE)
    assert bench.log == ["model"]


def test_required_sandbox_stops_an_opt_out_before_the_model(bench: Bench) -> None:
    """R-4."""
    with pytest.raises(ConfigError):
        bench.open(flags={"sandbox": False}, env={"ODEK_REQUIRE_SANDBOX": "1"})
    assert bench.log == []


@pytest.mark.parametrize("answer", ["n", "", None])
def test_gate_stands_before_the_fall_back(answer: str | None, bench: Bench) -> None:
    """R-60: docker is not even asked; who says no does not find the run on the host."""
    bench.answers = Answers(answer)
    with pytest.raises(ApprovalDenied):
        bench.open(project=IMAGE)
    assert bench.log == ["model", "ask"]


def test_gate_without_anybody_to_ask_stops(bench: Bench) -> None:
    """R-61."""
    with pytest.raises(ApprovalDenied):
        bench.open(project=IMAGE)
    assert bench.log == ["model"]


def test_fall_back_to_the_host_is_loud_and_the_model_is_told(bench: Bench) -> None:
    """R-7, R-70."""
    script_unreachable(bench.docker)
    session = bench.open(operator=IMAGE)
    workspace = session.workspace
    assert (workspace.facts, type(workspace.executor), workspace.executor.workspace) == (
        None, HostExecutor, bench.host.cwd,
    )  # fmt: skip
    ((warning, hint), (void, _)) = bench.notices.warnings
    assert void == "without the sandbox these do not apply: sandbox_image (~/.odek/config.json)"
    assert warning.endswith("shell commands run ON THIS HOST, WITHOUT A SANDBOX")
    assert "ODEK_REQUIRE_SANDBOX=1 stops" in hint
    assert bench.notices.notes == [
        "Docker says: Cannot connect to the Docker daemon at unix:///s. Is the docker daemon running?"
    ]
    session.agent.run("task")
    assert bench.model.requests[0].messages[0].content.endswith(f"\n\n{render_host(bench.host.cwd)}")


@pytest.mark.parametrize(
    ("profile", "said", "reason"),
    [
        (RUN, {"flags": {"sandbox": True}}, "a sandbox was asked for explicitly"),
        (RUN, {"env": {"ODEK_SANDBOX": "1"}}, "a sandbox was asked for explicitly"),
        (RUN, {"project": {"sandbox": True}}, "a sandbox was asked for explicitly"),
        (RUN, {"env": {"ODEK_REQUIRE_SANDBOX": "1"}}, "ODEK_REQUIRE_SANDBOX is set"),
        (RUN, {"flags": {"sandbox_networks": "a"}}, "networks were asked for"),
        (RUN, {"flags": {"sandbox_compose_project": "a"}}, "networks were asked for"),
        (
            RUN,
            {"operator": {"sandbox_networks": ["a"]}, "project": {"sandbox_networks": []}},
            "networks were asked for",
        ),
        (
            RUN,
            {"operator": {"sandbox_networks": ["a"]}, "flags": {"sandbox_networks": ["none"]}},
            "networks were asked for",
        ),
        (
            RUN,
            {"operator": {"sandbox_compose_project": "a"}, "env": {"ODEK_SANDBOX_COMPOSE_PROJECT": "none"}},
            "networks were asked for",
        ),
        (RUN, {"flags": {"sandbox_readonly": True}}, "read-only was asked for"),
        (RUN, {"env": {"ODEK_SANDBOX_READONLY": "1"}}, "read-only was asked for"),
        (RUN, {"operator": {"sandbox_readonly": True}}, "read-only was asked for"),
        (RUN, {"project": {"sandbox_readonly": True}}, "read-only was asked for"),
        (CommandProfile(command="serve", never_on_host=True), {}, "this session must not run on the host"),
    ],
    ids=str,
)
def test_what_forbids_the_fall_back(
    profile: CommandProfile, said: dict[str, dict[str, object]], reason: str, bench: Bench
) -> None:
    """R-7: the right-hand column, and that the reason is told."""
    script_unreachable(bench.docker)
    with pytest.raises(DaemonUnreachable):
        bench.open(profile, **{**said, "operator": {**IMAGE, **said.get("operator", {})}})  # type: ignore[arg-type]
    assert bench.notices.notes == [f"not falling back to this host: {reason}"]


def test_opt_out_asks_docker_nothing_and_is_remarked_upon(bench: Bench) -> None:
    """R-1."""
    bench.open(project=IMAGE, flags={"sandbox": False})
    assert bench.log == ["model"]
    assert bench.notices.warnings == [("shell commands run ON THIS HOST, without a sandbox (--no-sandbox)", "")]
    quiet = Notes()
    bench.notices = quiet
    bench.open(flags={"sandbox": False}, env={"ODEK_SUPPRESS_SANDBOX_WARNING": "1"})
    assert quiet == Notes()


def test_project_that_cannot_decide_about_the_sandbox(bench: Bench) -> None:
    """R-5: its `false` is ignored with a warning; the sandbox is started."""
    script_start(bench.docker, spec_of(bench.host))
    session = bench.open(operator=IMAGE, project={"sandbox": False})
    assert session.workspace.facts is not None
    (warning,) = session.settings.warnings
    assert "sandbox" in warning


NETWORKS = (Network(name="db", id="1" * 64, internal=True), Network(name="web", id="2" * 64, internal=False))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "sandbox network=none pids=4096 image=alpine:3.22"),
        ({"network": "bridge", "pids_limit": 12}, "sandbox network=bridge pids=12 image=alpine:3.22"),
        (
            {"network": "bridge+attached", "networks": NETWORKS},
            "sandbox network=bridge+attached pids=4096 image=alpine:3.22 networks=db,web",
        ),
        ({"image": "x\x1b[2J"}, "sandbox network=none pids=4096 image=x\\x1b[2J"),
    ],
    ids=str,
)
def test_startup_line(changes: dict[str, object], line: str) -> None:
    """R-39."""
    assert startup_line(replace(FACTS, **changes)) == line  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["missing", "link", "folder", "pipe", "large"])
def test_instructions_that_are_no_plain_file_are_not_read(kind: str, bench: Bench, tmp_path: Path) -> None:
    """S-6: a link of the project's does not show a file of the host's to the model; a pipe does not hold odek up."""
    place = Path(bench.host.cwd, "AGENTS.md")
    (tmp_path / "secret").write_text("a secret of the host")
    make: dict[str, Callable[[], object]] = {
        "missing": lambda: None,
        "link": lambda: place.symlink_to(tmp_path / "secret"),
        "folder": place.mkdir,
        "pipe": lambda: os.mkfifo(place),
        "large": lambda: place.write_text("a secret of the host" * 20_000),
    }
    make[kind]()
    session = bench.open(flags={"sandbox": False})
    session.agent.run("task")
    assert "a secret of the host" not in bench.model.requests[0].messages[0].content
    warned = [text for text, _ in bench.notices.warnings if text.startswith("AGENTS.md is not read")]
    assert len(warned) == (0 if kind == "missing" else 1)


def test_instructions_are_fenced_and_can_be_left_out(bench: Bench) -> None:
    Path(bench.host.cwd, "AGENTS.md").write_text("indent with three blanks")
    bench.open(flags={"sandbox": False}).agent.run("task")
    fence = "ab" * 8
    expected = f'<untrusted_content_{fence} source="AGENTS.md">\nindent with three blanks\n</untrusted_content_{fence}>'
    assert expected in bench.model.requests[0].messages[0].content
    bench.model = ScriptedModel([text_reply("done")])
    bench.open(flags={"sandbox": False, "no_agents": True}).agent.run("task")
    assert "three blanks" not in bench.model.requests[0].messages[0].content


def settings_with(host: Host, **said: object) -> Settings:
    return resolve(make_layers(**said))  # type: ignore[arg-type]


def test_model_is_chosen_by_its_address(tmp_path: Path) -> None:
    """R-87: replay:FILE plays a recording, anything else is a server; --record wraps either."""
    host = make_host(tmp_path, uid=1000)
    recording = Path(host.cwd, "r.jsonl")
    recording.write_text('{"odek_replay": 1}\n{"content": "x"}\n')

    def kind(**flags: str) -> type:
        return type(make_model(settings_with(host, flags=flags), host, notify=nothing))

    assert kind(base_url="replay:r.jsonl") is ReplayModel
    assert kind(base_url=f"replay:{recording}") is ReplayModel
    assert kind(base_url="http://127.0.0.1:1/v1") is HttpModel
    assert kind(base_url="replay:r.jsonl", record="copy.jsonl") is RecordingModel


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({}, False),
        ({"env": {"ODEK_API_KEY": "k"}}, True),
        ({"env": {"DEEPSEEK_API_KEY": "k"}}, True),
        ({"env": {"OPENAI_API_KEY": "k"}}, False),
        ({"operator": {"api_key": "k"}}, True),
        ({"project": {"api_key": "k"}}, False),
        ({"flags": {"base_url": "http://127.0.0.1:1/v1"}}, True),
        ({"project": {"base_url": "http://127.0.0.1:1/v1"}}, False),
    ],
    ids=str,
)
def test_key_is_needed_where_nobody_named_another_server(said: dict[str, object], wanted: bool, tmp_path: Path) -> None:
    """F-20, S-13: a project can neither give a key nor make odek do without one."""
    host = make_host(tmp_path, uid=1000)
    if wanted:
        assert isinstance(make_model(settings_with(host, **said), host, notify=nothing), HttpModel)
        return
    with pytest.raises(ConfigError, match="there is no key for"):
        make_model(settings_with(host, **said), host, notify=nothing)


def test_every_sandbox_error_is_judged_by_the_table() -> None:
    """R-7: the fall back catches one family of errors, and the two that may lead to the host are of it."""
    assert issubclass(DaemonUnreachable, SandboxError)
    assert issubclass(SandboxConfigError, SandboxError)
    assert not issubclass(ApprovalDenied, SandboxError)
    assert not issubclass(ConfigError, SandboxError)


def test_tools_and_loop_are_not_loaded_before_docker_is_asked() -> None:
    """They take as long as a docker call; they are imported while Docker starts the sandbox."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import odek.app.conversation; "
        "print(sorted({'odek.agent.loop', 'odek.tools.shell', 'odek.danger.classify'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


class EagerPage:
    """A person who is not an operator, as a page is: says yes to all it is asked."""

    def __init__(self) -> None:
        self.cards: list[Card] = []

    def decide(self, card: Card) -> Answer:
        self.cards.append(card)
        return card.answers[0]

    def approve_project(self, request: ApprovalRequest) -> ProjectAnswer:
        raise AssertionError(request)


@pytest.mark.parametrize(
    "project", [{"sandbox_image": "evil"}, {"sandbox_network": "bridge"}, {"sandbox_env": {"A": "1"}}]
)
def test_person_who_is_no_operator_never_approves_a_project(bench: Bench, project: dict[str, object]) -> None:
    """R-103: what a project's files widen is asked of the operator; a page that answers for all else is not asked."""
    page = EagerPage()
    runtime = replace(bench.runtime, operator=None, person=page)
    config = config_of(make_layers(operator=IMAGE, project=project))
    with pytest.raises(ApprovalDenied, match="there is no terminal to ask for it"):
        open_conversation(RUN, config, runtime, sink=nothing)
    assert (page.cards, bench.docker.calls) == ([], [])
