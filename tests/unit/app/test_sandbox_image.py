"""Which image is run, and that nothing of a Dockerfile.odek runs before its lint and its approval."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from fakes.approver import Answers
from fakes.docker import FakeDocker, FakePending
from fakes.layering import make_host, make_layers
from fakes.notices import Notes
from fakes.runtimes import fake_runtime

from odek.app.config import config_of
from odek.app.sandbox import SandboxPlan, build_sandbox_image, plan_sandbox, start_sandbox
from odek.app.sandbox_image import (
    BuildRecords,
    choose_image,
    default_choice,
    ensure_image,
    find_local_image,
    make_image,
)
from odek.config.resolve import resolve
from odek.config.settings import Settings
from odek.errors import ApprovalDenied, ConfigError
from odek.host import Host
from odek.sandbox.build.builder import INPUTS_LABEL, LABEL, Build, BuildOptions
from odek.sandbox.build.dockerfile import Dockerfile
from odek.sandbox.docker import find_image_argv
from odek.sandbox.errors import ImageUnavailable, SandboxConfigError
from odek.sandbox.image.reference import BUSYBOX_TAG, ImageChoice
from odek.sandbox.image.resolve import FoundImage

MISSING = "Error response from daemon: No such image\n"

TEXT = b"FROM base:1\nCOPY tool.sh /t\n"
FETCHES = TEXT + b"ADD http://127.0.0.1/x /x\n"
DOCKERFILE = Dockerfile(data=TEXT)
ID, OTHER, BASE = (f"sha256:{digit * 64}" for digit in "123")
SWITCH = {"ODEK_SANDBOX_BUILD_NETWORK": "1"}


@dataclass
class Project:
    host: Host
    notices: Notes = field(default_factory=Notes)

    def write(self, data: bytes = TEXT) -> None:
        Path(self.host.cwd, "Dockerfile.odek").write_bytes(data)
        Path(self.host.cwd, "tool.sh").write_text("echo one\n")

    def settings(self, **said: object) -> Settings:
        return resolve(make_layers(**said))  # type: ignore[arg-type]

    def choose(self, **said: object) -> tuple[ImageChoice, Dockerfile | None]:
        return choose_image(self.settings(**said), self.host)

    def plan(self, approver: Answers | None = None) -> SandboxPlan:
        runtime = fake_runtime(self.host, FakeDocker(), emit=self.notices, operator=approver)
        return plan_sandbox(config_of(make_layers()), runtime)

    def records(self, at: float = 1.0) -> BuildRecords:
        return BuildRecords(self.host, self.notices, clock=lambda: at)

    def obtain(self, docker: FakeDocker, data: bytes = TEXT, *, network: bool = False) -> str:
        made = Dockerfile(data=data)
        choice = ImageChoice(ref=made.tag, origin="./Dockerfile.odek", chosen_by_project=True)
        name, found = obtain(choice, made, self.host, docker, self.notices, network=network)
        assert name == choice.ref
        return found.id


def obtain(
    choice: ImageChoice,
    dockerfile: Dockerfile | None,
    host: Host,
    docker: FakeDocker,
    emit: Notes,
    *,
    network: bool = False,
) -> tuple[str, FoundImage]:
    """Look for the image and get it, as a start does."""
    local = find_local_image(choice, dockerfile, host, docker=docker, emit=emit)
    return ensure_image(local, choice, dockerfile, host, network=network, docker=docker, emit=emit)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(host=make_host(tmp_path, uid=os.getuid()))


def image(image_id: str, dockerfile: Dockerfile = DOCKERFILE) -> str:
    return json.dumps([{"Id": image_id, "Config": {"Labels": {LABEL: dockerfile.sha256}}}])


def docker_that_builds(image_id: str = ID, dockerfile: Dockerfile = DOCKERFILE) -> FakeDocker:
    """Return a docker with the base in place, whose next build gives `image_id`."""

    def react(client: FakePending) -> None:
        Path(client.args[client.args.index("--iidfile") + 1]).write_text(image_id)

    return (
        FakeDocker()
        .on("image", "inspect", has="base:1", stdout=BASE)
        .on("image", "inspect", has=BASE, stdout=json.dumps([{"Id": BASE, "Config": None}]))
        .on("image", "inspect", has=dockerfile.tag, code=1, stderr=MISSING, times=1)
        .on("build", react=react)
        .on("image", "inspect", has=image_id, stdout=image(image_id, dockerfile))
    )


def test_setting_wins_over_dockerfile_and_default(project: Project) -> None:
    """R-35: nothing is read, and nothing built, when an image is named."""
    project.write(b"nonsense")
    choice = ImageChoice(ref="x:1", origin="--sandbox-image", chosen_by_project=False)
    assert project.choose(flags={"sandbox_image": "x:1"}) == (choice, None)


def test_dockerfile_wins_over_default_and_counts_as_the_projects_choice(project: Project) -> None:
    """R-35, D-1: what a project brings never leads to the host."""
    project.write()
    choice = ImageChoice(ref=DOCKERFILE.tag, origin="./Dockerfile.odek", chosen_by_project=True)
    assert project.choose() == (choice, DOCKERFILE)


def test_default_is_the_pin_with_its_local_ids(project: Project) -> None:
    """R-35, D-12."""
    choice, dockerfile = project.choose()
    assert (choice, dockerfile) == (default_choice(), None)
    assert choice.local_ids[0] == ("", choice.ref.rpartition("@")[2])


def test_fetching_file_is_refused_before_anybody_is_asked(project: Project) -> None:
    """B17, R-36: the lint stands before the question and before Docker."""
    project.write(FETCHES)
    with pytest.raises(SandboxConfigError, match=r"Dockerfile\.odek line 3"):
        project.plan()
    with pytest.raises(SandboxConfigError, match=r"Dockerfile\.odek line 3"):
        project_build(project, Answers(), FakeDocker(), data=FETCHES)


def test_operators_switch_lets_the_fetch_through(project: Project) -> None:
    """R-36, D-2."""
    project.write(FETCHES)
    assert project.choose(env=SWITCH)[1] == Dockerfile(data=FETCHES)


def test_project_cannot_give_its_build_the_network(project: Project) -> None:
    """R-36: the switch is an operator's; a project's file has no such key."""
    project.write(FETCHES)
    with pytest.raises(ConfigError, match="sandbox_build_network"):
        project.choose(project={"sandbox_build_network": True})


def test_image_built_with_the_network_serves_without(project: Project) -> None:
    """R-36: built once with the switch, it runs offline afterwards; nothing of the file runs again."""
    project.write(FETCHES)
    dockerfile = Dockerfile(data=FETCHES)
    assert project.obtain(docker_that_builds(dockerfile=dockerfile), FETCHES, network=True) == ID
    assert project.choose()[1] == dockerfile
    again = FakeDocker().on("image", "inspect", has=ID, stdout=image(ID, dockerfile)).on(
        "image", "inspect", has="base:1", stdout=BASE
    )  # fmt: skip
    assert project.obtain(again, FETCHES) == ID
    gone = FakeDocker().on("image", "inspect", code=1, stderr=MISSING)
    with pytest.raises(SandboxConfigError, match=r"Dockerfile\.odek line 3"):
        project.obtain(gone, FETCHES)


@pytest.mark.parametrize("answer", ["n", "", None])
def test_refused_build_asks_docker_nothing(answer: str | None, project: Project) -> None:
    """R-36, R-60: whoever does not say yes gets no build, and no host either."""
    project.write()
    approver = Answers(answer)
    with pytest.raises(ApprovalDenied, match=r"\./Dockerfile\.odek were not approved"):
        start_sandbox(project.plan(approver))
    assert DOCKERFILE.sha256 in "".join(approver.prompts[0].replace("+", "").split())
    assert approver.prompts[0].startswith("WARNING: the project (./Dockerfile.odek) requests an image build:\n")


def test_nobody_to_ask_means_no_build(project: Project) -> None:
    """R-61."""
    project.write()
    with pytest.raises(ApprovalDenied) as refused:
        project_build(project, None, FakeDocker())
    assert "ODEK_APPROVE_PROJECT_SANDBOX=1" in refused.value.hint


def test_trust_covers_the_bytes_and_no_others(project: Project) -> None:
    """R-36: approval is keyed on the whole digest; an edit asks again."""
    project.write()
    assert project_build(project, Answers("t"), docker_that_builds()).image_id == ID
    assert project_build(project, Answers(), docker_that_builds()).image_id == ID
    approver = Answers("n")
    with pytest.raises(ApprovalDenied):
        project_build(project, approver, FakeDocker(), data=TEXT + b"# edited\n")
    approver.assert_all_used()


def test_bytes_that_were_approved_are_built_though_the_file_changed(project: Project) -> None:
    """R-36: the file is read once; what takes its place later is not built."""
    project.write()
    docker = docker_that_builds()

    class Swapping(Answers):
        def ask(self, prompt: str, choices: tuple[str, ...]) -> str | None:
            project.write(b"FROM evil\n")
            return super().ask(prompt, choices)

    assert project_build(project, Swapping("y"), docker).image_id == ID
    assert [call.stdin for call in docker.calls if call.args[0] == "build"] == [TEXT]


def test_system_folder_is_no_context(project: Project, tmp_path: Path) -> None:
    """B19: ~/.odek and the machine's own folders are not sent to a build."""
    host = make_host(tmp_path, uid=os.getuid(), home=project.host.cwd)
    with pytest.raises(SandboxConfigError, match=r"holds ~/\.odek"):
        project_build(Project(host=host), Answers(), FakeDocker())


def test_build_is_remembered_and_used_again(project: Project) -> None:
    """R-36: built once, then looked at by its ID and its label each time."""
    project.write()
    assert project.obtain(docker_that_builds()) == ID
    record = Path(project.host.home, ".odek", "builds.json")
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    again = (
        FakeDocker().on("image", "inspect", has=ID, stdout=image(ID)).on("image", "inspect", has="base:1", stdout=BASE)
    )
    assert project.obtain(again) == ID
    assert project.notices.warnings == []
    again.assert_all_used()


def test_planted_tag_is_not_looked_at(project: Project) -> None:
    """B18: without a record of ours the image is built, whatever carries the tag already."""
    project.write()
    planted = FakeDocker().on("image", "inspect", has=DOCKERFILE.tag, stdout=image(OTHER))
    planted._rules += docker_that_builds()._rules
    assert project.obtain(planted) == ID
    assert planted.called("build") != []


def labels_of(docker: FakeDocker) -> dict[str, str]:
    """Return what the build of `docker` was told to write onto its image."""
    (args,) = (call.args for call in docker.calls if call.args[0] == "build")
    return dict(args[at + 1].split("=", 1) for at, word in enumerate(args) if word == "--label")


@pytest.mark.parametrize(
    ("change", "is_reused"),
    [
        ("nothing", True),
        ("times", True),
        ("file that no line copies", True),
        ("content", False),
        ("mode", False),
        ("link", False),
        ("added", False),
        ("renamed", False),
        ("ignore", False),
        ("base", False),
        ("base gone", False),
        ("no inputs label", False),
        ("inputs label of another build", False),
        ("label of another Dockerfile", False),
    ],
)
def test_label_proves_the_build_where_no_record_does(change: str, is_reused: bool, tmp_path: Path) -> None:
    """A21: a fresh HOME or a second user; only an exact match serves, a planted tag never."""
    copies = Dockerfile(data=b"FROM base:1\nCOPY src /t\n")
    projects = []
    for name in ("one", "two"):  # two checkouts, two homes
        (tmp_path / name).mkdir()
        project = Project(host=make_host(tmp_path / name, uid=os.getuid()))
        source = Path(project.host.cwd, "src")
        source.mkdir()
        (source / "a").write_text("echo one\n")
        projects.append(project)
    first = docker_that_builds(dockerfile=copies)
    projects[0].obtain(first, copies.data)
    labels = labels_of(first)
    assert set(labels) == {LABEL, INPUTS_LABEL}

    folder = Path(projects[1].host.cwd)
    file = folder / "src" / "a"
    base = {"base": OTHER, "base gone": ""}.get(change, BASE)
    made = copies
    if change == "times":
        os.utime(file, (1, 1))
    elif change == "file that no line copies":
        (folder / "README").write_text("x")
    elif change == "content":
        file.write_text("echo two\n")
    elif change == "mode":
        file.chmod(0o755)
    elif change == "link":
        file.unlink()
        file.symlink_to("echo one")
    elif change == "added":
        (folder / "src" / "b").mkdir()
    elif change == "renamed":
        file.rename(folder / "src" / "b")
    elif change == "ignore":
        (folder / ".dockerignore").write_text("x\n")
        made = replace(copies, ignore=b"x\n")
    elif change == "no inputs label":
        del labels[INPUTS_LABEL]
    elif change == "inputs label of another build":
        labels[INPUTS_LABEL] = "f" * 64
    elif change == "label of another Dockerfile":
        labels[LABEL] = DOCKERFILE.sha256
    tagged = json.dumps([{"Id": ID, "Config": {"Labels": labels}}])
    docker = FakeDocker().on("image", "inspect", "--", copies.tag, stdout=tagged, times=1)
    if base != BASE:
        absent = {"code": 1, "stderr": MISSING} if not base else {"stdout": base}
        docker.on("image", "inspect", has="base:1", times=1, **absent)  # type: ignore[arg-type]
    docker._rules += docker_that_builds(OTHER, made)._rules
    choice = ImageChoice(ref=made.tag, origin="./Dockerfile.odek", chosen_by_project=True)
    notices = projects[1].notices
    name, found = obtain(choice, made, projects[1].host, docker, notices)
    assert (name, found.id) == (made.tag, ID if is_reused else OTHER)
    assert bool(docker.called("build")) == (not is_reused)
    said = f"using {made.tag}, built before from the same Dockerfile.odek, files and base"
    assert (said in notices.notes) == is_reused
    record = projects[1].records().find(made)
    assert record is not None
    assert record.image_id == found.id


def test_build_that_may_read_more_than_its_lines_carries_no_digest(project: Project) -> None:
    """A21: what such a build has read is not known, so no label says so."""
    data = b"# syntax=docker/dockerfile:1\nFROM base:1\n"
    foreign = Dockerfile(data=data.replace(b"docker/dockerfile", b"evil/frontend"))
    docker = docker_that_builds(dockerfile=foreign)
    project.obtain(docker, foreign.data, network=True)
    assert set(labels_of(docker)) == {LABEL}


@pytest.mark.parametrize("answer", [image(OTHER), image(ID, Dockerfile(data=b"FROM x\n")), "[]"])
def test_image_that_is_not_the_recorded_one_is_built_again(answer: str, project: Project) -> None:
    """B18, R-36."""
    project.write()
    project.records().remember(DOCKERFILE, Build(image_id=OTHER, bases=(), inputs=""))
    docker = FakeDocker().on("image", "inspect", has=OTHER, stdout=answer.replace(OTHER, BASE))
    docker._rules += docker_that_builds()._rules
    assert project.obtain(docker) == ID


@pytest.mark.parametrize(
    ("change", "reason"),
    [("file", "files that it copies changed"), ("base", "base:1 is another image now"), ("none", "")],
)
def test_changed_inputs_give_one_clear_line(change: str, reason: str, project: Project) -> None:
    """B18: the cache goes by the Dockerfile; that the image is behind is said."""
    project.write()
    project.obtain(docker_that_builds())
    if change == "file":
        Path(project.host.cwd, "tool.sh").write_text("echo another\n")
    base = OTHER if change == "base" else BASE
    again = (
        FakeDocker().on("image", "inspect", has=ID, stdout=image(ID)).on("image", "inspect", has="base:1", stdout=base)
    )
    assert project.obtain(again) == ID
    advice = "`odek sandbox build` (or build --no-cache) makes it anew"
    assert project.notices.warnings == ([f"stale image {DOCKERFILE.tag}: {reason}; {advice}"] if reason else [])


def test_records_of_one_project_say_nothing_of_another(project: Project, tmp_path: Path) -> None:
    """B18: the same Dockerfile copies other files elsewhere."""
    made = Build(image_id=ID, bases=(("b", BASE),), inputs="f")
    project.records().remember(DOCKERFILE, made)
    (tmp_path / "elsewhere").mkdir()
    elsewhere = make_host(tmp_path / "elsewhere", uid=os.getuid(), home=project.host.home)
    assert project.records().find(DOCKERFILE) == made
    assert BuildRecords(elsewhere, project.notices).find(DOCKERFILE) is None


@pytest.mark.parametrize("content", ["{", "[]", "null"])
def test_damaged_records_are_passed_over_with_a_warning(content: str, project: Project) -> None:
    """B18: what cannot be trusted proves no build."""
    path = Path(project.host.home, ".odek", "builds.json")
    path.write_text(content)
    path.chmod(0o600)
    assert project.records().find(DOCKERFILE) is None
    project.records().remember(DOCKERFILE, Build(image_id=ID, bases=(), inputs=""))
    assert [warning.rpartition("; ")[2] for warning in project.notices.warnings] == [
        "images are built again",
        "the image is built again the next time",
    ]


def test_records_that_others_can_write_are_passed_over(project: Project) -> None:
    """B18."""
    project.records().remember(DOCKERFILE, Build(image_id=ID, bases=(), inputs=""))
    Path(project.host.home, ".odek", "builds.json").chmod(0o666)
    assert project.records().find(DOCKERFILE) is None


def test_old_records_make_room(project: Project) -> None:
    for number in range(203):
        dockerfile = Dockerfile(data=b"%d" % number)
        project.records(at=float(number)).remember(dockerfile, Build(image_id=ID, bases=(), inputs=""))
    kept = [project.records().find(Dockerfile(data=b"%d" % number)) is not None for number in range(203)]
    assert kept == [False] * 3 + [True] * 200


@pytest.mark.parametrize(
    "entry", [3, {}, {"image": 1, "bases": [], "inputs": ""}, {"image": ID, "bases": 1, "inputs": ""}]
)
def test_record_of_another_shape_is_none(entry: object, project: Project) -> None:
    project.records().remember(DOCKERFILE, Build(image_id=ID, bases=(), inputs=""))
    path = Path(project.host.home, ".odek", "builds.json")
    path.write_text(json.dumps(dict.fromkeys(json.loads(path.read_text()), entry)))
    assert project.records().find(DOCKERFILE) is None


def test_large_context_is_warned_of_before_the_build(project: Project) -> None:
    """B19: a sparse file stands for node_modules; what no line copies is no part of it."""
    project.write()
    everything = Dockerfile(data=b"FROM base:1\nCOPY . /t\n")
    with open(Path(project.host.cwd, "big"), "wb") as file:
        file.truncate(220_000_000)

    def warnings(dockerfile: Dockerfile) -> list[str]:
        docker = docker_that_builds(dockerfile=dockerfile)
        make_image(dockerfile, project.host, BuildOptions(network=False), docker=docker, emit=project.notices)
        return project.notices.warnings

    assert warnings(DOCKERFILE) == []
    told = ["Docker gets 220 MB in 3 files for the build; the most of it is in big (220 MB)"]
    assert warnings(everything) == told
    Path(project.host.cwd, ".dockerignore").write_text("big\n")
    assert warnings(replace(everything, ignore=b"big\n")) == told


def test_folder_that_is_exchanged_and_put_back_while_it_is_built_is_never_sent(project: Project) -> None:
    """R-36, S-6: who may write the folder above can put another one in the place of the project for a moment."""
    project.write()
    here = Path(project.host.cwd)
    status = here.stat()
    host = replace(project.host, cwd_id=(status.st_dev, status.st_ino))
    away, other = here.parent / "away", here.parent / "other"
    other.mkdir()
    (other / "tool.sh").write_text("a secret of somebody else")
    sent: list[str] = []

    def exchange(_: FakePending) -> None:
        here.rename(away)
        here.symlink_to(other)

    def put_back(client: FakePending) -> None:
        here.unlink()
        away.rename(here)
        Path(client.args[client.args.index("--iidfile") + 1]).write_text(ID)
        sent.extend(f"{path.name}: {path.read_text()}" for path in Path(client.args[-1]).iterdir())

    docker = (
        FakeDocker()
        .on("image", "inspect", has="base:1", stdout=BASE, react=exchange)
        .on("image", "inspect", has=BASE, stdout=json.dumps([{"Id": BASE, "Config": None}]))
        .on("build", react=put_back)
        .on("image", "inspect", has=ID, stdout=image(ID))
    )
    make_image(DOCKERFILE, host, BuildOptions(network=False), docker=docker, emit=project.notices)
    assert sent == ["tool.sh: echo one\n"]


def test_folder_that_is_another_one_already_is_not_built(project: Project) -> None:
    """R-36, S-6."""
    project.write()
    host = replace(project.host, cwd_id=(1, 2))
    with pytest.raises(SandboxConfigError, match="is another folder than the one in which odek was started"):
        make_image(DOCKERFILE, host, BuildOptions(network=False), docker=FakeDocker(), emit=project.notices)


@pytest.mark.parametrize(
    ("first", "triggers", "network", "sent"),
    [
        ("", [], True, {"tool.sh"}),
        ("# syntax=docker/dockerfile:1.7\n", [], True, {"tool.sh"}),
        ("# syntax=me/mine\n", [], True, {"tool.sh", "Dockerfile.odek"}),
        ("# escape=`\n", [], True, {"tool.sh", "Dockerfile.odek"}),
        ("", ["COPY . /all"], True, {"tool.sh", "Dockerfile.odek"}),
        ("", [], False, {"tool.sh"}),
    ],
)
def test_build_is_sent_what_it_may_read(
    first: str, triggers: list[str], network: bool, sent: set[str], project: Project
) -> None:
    """R-36: what the lines copy; everything only where they do not tell."""
    dockerfile = Dockerfile(data=first.encode() + TEXT)
    project.write(dockerfile.data)
    names: set[str] = set()

    def react(client: FakePending) -> None:
        Path(client.args[client.args.index("--iidfile") + 1]).write_text(ID)
        names.update(os.listdir(client.args[-1]))

    docker = (
        FakeDocker()
        .on("image", "inspect", has="base:1", stdout=BASE)
        .on("image", "inspect", has=BASE, stdout=json.dumps([{"Id": BASE, "Config": {"OnBuild": triggers}}]))
        .on("build", react=react)
        .on("image", "inspect", has=ID, stdout=image(ID, dockerfile))
    )
    make_image(dockerfile, project.host, BuildOptions(network=network), docker=docker, emit=project.notices)
    assert names == sent


def test_ignore_file_that_is_a_fifo_stops_the_build(project: Project) -> None:
    """B19: Docker's client would wait for it."""
    project.write()
    os.mkfifo(Path(project.host.cwd, ".dockerignore"))
    with pytest.raises(SandboxConfigError, match=r"\.dockerignore is not a regular file"):
        project.obtain(FakeDocker())


def test_ignore_file_that_changed_after_it_was_approved_stops_the_build(project: Project) -> None:
    """F14: before the build is begun, and once more where the copy is taken."""
    project.write()
    ignore = Path(project.host.cwd, ".dockerignore")
    ignore.write_text("!secret\n")
    with pytest.raises(SandboxConfigError, match=r"\.dockerignore changed after it was approved"):
        project.obtain(FakeDocker())
    ignore.unlink()

    class Meddling(FakeDocker):
        def start(self, *args: str, **options: object) -> FakePending:
            ignore.write_text("!secret\n")
            return super().start(*args, **options)  # type: ignore[arg-type]

    docker = Meddling().on("image", "inspect", "--format", stdout=f"{ID}\n").on("image", "inspect", stdout=image(ID))
    with pytest.raises(SandboxConfigError, match=r"\.dockerignore changed after it was approved"):
        project.obtain(docker, b"FROM base:1\nCOPY . /\n")


def project_build(project: Project, approver: Answers | None, docker: FakeDocker, *, data: bytes = TEXT) -> Build:
    docker.on("version", stdout="20.10.24")
    runtime = fake_runtime(project.host, docker, emit=project.notices, operator=approver)
    return build_sandbox_image(Dockerfile(data=data), config_of(make_layers()), runtime, no_cache=False)


MISSING_DEFAULT = "No such image"


@pytest.mark.parametrize("made", [True, False], ids=["bootstrapped", "not bootstrapped"])
def test_default_that_no_registry_gives_is_replaced_by_the_operators_own_image(made: bool, project: Project) -> None:
    """A9, D-23: before any fall back; said in one line."""
    docker = FakeDocker()
    if made:
        docker.on(*find_image_argv(BUSYBOX_TAG), stdout=ID)
    docker.on("image", "inspect", code=1, stderr=MISSING_DEFAULT)
    docker.on("version", stdout="amd64\n").on("pull", code=1, stderr="dial tcp: no such host")
    notices = Notes()
    choice = default_choice()
    if not made:
        with pytest.raises(ImageUnavailable):
            obtain(choice, None, project.host, docker, notices)
        return
    assert obtain(choice, None, project.host, docker, notices) == (
        BUSYBOX_TAG,
        FoundImage(id=ID),
    )
    assert [note for note in notices.notes if BUSYBOX_TAG in note] == [
        f'image "{choice.ref}" could not be pulled by Docker (the pinned default); using the local image {BUSYBOX_TAG}'
    ]


@pytest.mark.parametrize("words", ["no space left on device", "invalid reference format"])
def test_default_that_was_refused_here_is_not_replaced(words: str, project: Project) -> None:
    """A9: another image is no answer to a disk that is full."""
    docker = FakeDocker().on("image", "inspect", code=1, stderr=MISSING).on("version", stdout="amd64\n")
    docker.on("pull", code=1, stderr=words)
    with pytest.raises(SandboxConfigError):
        obtain(default_choice(), None, project.host, docker, Notes())


def test_image_that_somebody_named_is_not_replaced(project: Project) -> None:
    """A9: it was meant."""
    docker = (
        FakeDocker().on("image", "inspect", code=1, stderr=MISSING).on("version", stdout="amd64\n").on("pull", code=1)
    )
    choice = ImageChoice(ref="alpine:9.99", origin="--sandbox-image", chosen_by_project=False)
    with pytest.raises(ImageUnavailable):
        obtain(choice, None, project.host, docker, Notes())
