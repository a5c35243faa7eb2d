"""Dockerfile.odek on a real engine, with each builder that is here: what is built, stopped, refused, used again."""

from __future__ import annotations

import http.server
import json
import os
import secrets
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fakes.approver import Answers
from fakes.layering import make_host, make_layers
from fakes.notices import Notes
from fakes.runtimes import fake_runtime
from support.docker_engine import Engine

from odek.app.config import config_of
from odek.app.sandbox import build_sandbox_image
from odek.app.sandbox_image import choose_image, ensure_image, find_local_image
from odek.config.resolve import resolve
from odek.errors import Interrupted
from odek.host import Host
from odek.sandbox.build.builder import LABEL
from odek.sandbox.build.context import read_dockerfile
from odek.sandbox.build.dockerfile import REPOSITORY, Dockerfile
from odek.sandbox.docker import DockerCli, DockerProcess
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.image.reference import ImageChoice
from odek.sandbox.offline.transfer import load_image, save_image

CANARY = "canary-in-the-environment-file"


class Builders:
    """The builders that can be had here, as docker clients of the user: the classic one, and BuildKit."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        classic = folder / "docker-classic"  # from client 23 on, buildx is the choice where there is one
        classic.write_text(f'#!/bin/sh\nDOCKER_BUILDKIT=0 exec "{engine.client}" "$@"\n')
        classic.chmod(0o755)
        self.clients: dict[str, DockerCli] = {"classic": DockerCli(str(classic), dict(os.environ))}
        for number, client in enumerate(dict.fromkeys((engine.client, "/usr/bin/docker", "/usr/local/bin/docker"))):
            wrapper = folder / f"docker-{number}"
            wrapper.write_text(f'#!/bin/sh\nDOCKER_BUILDKIT=1 exec "{client}" "$@"\n')
            wrapper.chmod(0o755)
            if shutil.which(client) and self._has_buildkit(str(wrapper), folder):
                self.clients["buildkit"] = DockerCli(str(wrapper), dict(os.environ))
                break

    def _has_buildkit(self, client: str, folder: Path) -> bool:
        context = folder / "empty"
        context.mkdir(exist_ok=True)
        done = subprocess.run(
            [client, "build", "--file", "-", "--", str(context)], input=b"FROM scratch\nLABEL a=b\n",
            capture_output=True, timeout=60,
        )  # fmt: skip
        return done.returncode == 0 and b"#1 " in done.stderr


@dataclass
class Project:
    """A project with a Dockerfile.odek; its images go when the test is over."""

    engine: Engine
    host: Host
    docker: DockerCli
    base: str
    images: set[str] = field(default_factory=set)
    notices: Notes = field(default_factory=Notes)
    nonce: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def folder(self) -> Path:
        return Path(self.host.cwd)

    def write(self, *lines: str, base: str = "") -> Dockerfile:
        text = "\n".join(
            (f"FROM {base or self.base}", f"LABEL odek.test={self.nonce} unique={secrets.token_hex(8)}", *lines, "")
        )
        (self.folder / "Dockerfile.odek").write_text(text)
        dockerfile = Dockerfile(data=text.encode())
        self.images.add(dockerfile.tag)
        return dockerfile

    def run(self, *, network: bool = False) -> str:
        """Do what a start does up to the image, the operator having approved it."""
        env = {"ODEK_SANDBOX_BUILD_NETWORK": "1"} if network else {}
        settings = resolve(make_layers(env=env))
        choice, dockerfile = choose_image(settings, self.host)
        local = find_local_image(choice, dockerfile, self.host, docker=self.docker, emit=self.notices)
        _, found = ensure_image(
            local, choice, dockerfile, self.host, network=network, docker=self.docker, emit=self.notices
        )
        self.images.add(found.id)
        return found.id

    def output(self, image_id: str, *command: str) -> str:
        return self.engine.run("run", "--rm", "--network", "none", image_id, *command).stdout.strip()

    def close(self) -> None:
        for image in sorted(self.images):
            self.engine.run("rmi", "--force", image, check=False)
        # what failed and interrupted builds leave of their first steps
        self.engine.run("image", "prune", "--force", "--filter", f"label=odek.test={self.nonce}", check=False)


@pytest.fixture(scope="module")
def builders(docker_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Builders:
    return Builders(docker_engine, tmp_path_factory.mktemp("clients"))


@pytest.fixture
def projects(docker_engine: Engine, builders: Builders, base_image: str, tmp_path: Path) -> Iterator[list[Project]]:
    """A project for each builder."""
    made = []
    for name, client in builders.clients.items():
        (tmp_path / name).mkdir()
        made.append(
            Project(
                engine=docker_engine, host=make_host(tmp_path / name, uid=os.getuid()), docker=client, base=base_image
            )
        )
    yield made
    for project in made:
        project.close()


@pytest.fixture
def listener() -> Iterator[tuple[int, list[str]]]:
    """A web server on the loopback of this host, and what was asked of it."""
    hits: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hits.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"payload")

        do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port, hits
    server.shutdown()
    server.server_close()
    thread.join()


def test_built_once_then_used_by_its_id(projects: list[Project]) -> None:
    """R-36, A21: tag, label with the whole digest, no second build, also without the record."""
    for project in projects:
        dockerfile = project.write("COPY copied /", "RUN echo made >/made")
        copied = project.folder / "copied"
        copied.write_text("one")
        image_id = project.run()
        described = json.loads(project.engine.run("image", "inspect", dockerfile.tag).stdout)[0]
        assert f"sha256:{described['Id'][-64:]}" == image_id
        assert described["Config"]["Labels"][LABEL] == dockerfile.sha256
        assert project.output(image_id, "cat", "/made") == "made"
        builds = sum(note.startswith("building") for note in project.notices.notes)
        assert project.run() == image_id
        record = Path(project.host.home) / ".odek" / "builds.json"
        record.unlink()
        assert project.run() == image_id
        assert sum(note.startswith("building") for note in project.notices.notes) == builds
        assert project.notices.warnings == []
        record.unlink()
        copied.write_text("two")
        assert project.output(project.run(), "cat", "/copied") == "two"


def test_run_steps_have_no_network_unless_the_operator_gives_it(projects: list[Project]) -> None:
    """R-36, B17."""
    for project in projects:
        project.write("RUN ls /sys/class/net >/devices")
        assert project.output(project.run(), "cat", "/devices").split() == ["lo"]
        project.write("RUN ls /sys/class/net >/devices")
        assert "eth0" in project.output(project.run(network=True), "cat", "/devices").split()


def test_no_fetch_of_the_daemon_reaches_the_hosts_loopback(
    projects: list[Project], listener: tuple[int, list[str]]
) -> None:
    """B17, M-3: zero hits without the switch; with it the same line is fetched, so the refusal counts."""
    port, hits = listener
    fetches = (
        f"ADD http://127.0.0.1:{port}/add /p",
        f"add \\\n  http://127.0.0.1:{port}/continued /p",
        f"ARG U=http://127.0.0.1:{port}/variable\nADD $U /p",
        f"ADD http://127.0.0.1:{port}/x.git#main /g",
        f"COPY --from=127.0.0.1:{port}/image / /",
        f"RUN --mount=type=bind,from=127.0.0.1:{port}/image,target=/m true",
        f"RUN --network=default wget http://127.0.0.1:{port}/run",
        f"ONBUILD ADD http://127.0.0.1:{port}/later /p",
        f"RUN <<EOF\nADD http://127.0.0.1:{port}/heredoc /p\nEOF",
    )
    for project in projects:
        for fetch in fetches:
            project.write(fetch)
            with pytest.raises(SandboxConfigError, match=r"Dockerfile\.odek line \d"):
                project.run()
        (project.folder / "Dockerfile.odek").write_text(f"# syntax=127.0.0.1:{port}/front\nFROM {project.base}\n")
        with pytest.raises(SandboxConfigError, match=r"line 1.* is a parser directive"):
            project.run()
        assert hits == []
        project.write(fetches[0])
        assert project.output(project.run(network=True), "cat", "/p") == "payload"
        assert "/add" in hits
        hits.clear()


def test_base_whose_own_instructions_fetch_is_refused(projects: list[Project], listener: tuple[int, list[str]]) -> None:
    """B17: ONBUILD of the base would fetch in the name of the project."""
    port, hits = listener
    project = projects[0]
    base = f"{REPOSITORY}-test-onbuild:{secrets.token_hex(6)}"
    project.images.add(base)
    # podman's own format has none
    form = ("--format", "docker") if project.engine.release < (10, 0) else ()
    project.engine.run(
        "build",
        *form,
        "--tag",
        base,
        "-",
        stdin=f"FROM {project.base}\nONBUILD ADD http://127.0.0.1:{port}/o /o\n".encode(),
    )
    project.write(base=base)
    with pytest.raises(SandboxConfigError, match=r"brings (instructions of its own|ONBUILD)"):
        project.run()
    assert hits == []


def test_changed_file_and_moved_base_are_said_and_a_new_build_takes_them(projects: list[Project]) -> None:
    """B18: one clear line; `odek sandbox build` then has the new content."""
    for project in projects:
        base = f"{REPOSITORY}-test-base:{secrets.token_hex(6)}"
        project.images.add(base)
        project.engine.run("tag", project.base, base)
        (project.folder / "tool.sh").write_text("one")
        dockerfile = project.write("COPY tool.sh /t", base=base)
        image_id = project.run()
        (project.folder / "tool.sh").write_text("two!")
        other = project.engine.run(
            "build", "--quiet", "--tag", base, "-", stdin=f"FROM {project.base}\nLABEL o={base}\n".encode()
        )
        project.images.add(other.stdout.strip())
        assert project.run() == image_id
        assert project.notices.warnings == [
            f"stale image {dockerfile.tag}: {base} is another image now and files that it copies changed; "
            "`odek sandbox build` (or build --no-cache) makes it anew"
        ]
        runtime = fake_runtime(project.host, project.docker, operator=Answers("y"), emit=project.notices)
        made = build_sandbox_image(dockerfile, config_of(make_layers()), runtime, no_cache=False)
        project.images.add(made.image_id)
        assert project.output(made.image_id, "cat", "/t") == "two!"
        project.notices.warnings.clear()
        assert project.run() == made.image_id
        assert project.notices.warnings == []


def test_planted_tag_is_not_trusted(projects: list[Project]) -> None:
    """B18: another image under the expected tag, on a machine that never built it."""
    for project in projects:
        dockerfile = project.write("RUN echo ours >/whose")
        project.engine.run("tag", project.base, dockerfile.tag)
        planted = json.loads(project.engine.run("image", "inspect", project.base).stdout)[0]["Id"]
        image_id = project.run()
        assert image_id != planted
        assert project.output(image_id, "cat", "/whose") == "ours"
        # planted again, after the build: the image is used by its ID
        project.engine.run("tag", project.base, dockerfile.tag)
        assert project.run() == image_id


def test_planted_label_is_not_trusted(projects: list[Project]) -> None:
    """B18: an image with our tag and our label, and no record of ours."""
    project = projects[0]
    dockerfile = project.write("RUN echo ours >/whose")
    text = f"FROM {project.base}\nLABEL {LABEL}={dockerfile.sha256}\nRUN echo planted >/whose\n"
    project.engine.run("build", "--tag", dockerfile.tag, "--network", "none", "-", stdin=text.encode())
    assert project.output(project.run(), "cat", "/whose") == "ours"


def test_two_at_once_both_get_a_good_image(projects: list[Project]) -> None:
    """B18."""
    project = projects[0]
    project.write("RUN sleep 1; echo ours >/whose")
    results: list[str] = []
    threads = [threading.Thread(target=lambda: results.append(project.run())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [project.output(image_id, "cat", "/whose") for image_id in results] == ["ours", "ours"]


def test_failed_build_leaves_nothing_in_use(projects: list[Project]) -> None:
    """B18, R-7: fatal, in Docker's words; no image under the tag, no container left."""
    for project in projects:
        reason = secrets.token_hex(8)
        dockerfile = project.write(f"RUN echo {reason} >&2; exit 3")
        with pytest.raises(SandboxConfigError, match=r"Dockerfile\.odek could not be built") as failed:
            project.run()
        assert reason in failed.value.detail
        assert project.engine.run("image", "inspect", dockerfile.tag, check=False).returncode != 0
        assert not build_containers(project.engine, reason)
        assert not (Path(project.host.home) / ".odek" / "builds.json").exists()


def build_containers(engine: Engine, mark: str) -> list[str]:
    """Return the containers whose command holds `mark`; other tests may have theirs on the same engine."""
    listed = engine.run("ps", "--all", "--no-trunc", "--format", "{{.ID}} {{.Command}}").stdout
    return [line for line in listed.splitlines() if mark in line]


def processes(mark: str) -> list[bytes]:
    """Return the command lines of processes, those in containers included, that hold `mark`; no docker client."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            found.append((entry / "cmdline").read_bytes().replace(b"\0", b" "))
        except OSError:
            continue
    return [line for line in found if mark.encode() in line and line.startswith((b"sleep", b"/bin/sh -c sleep"))]


class Interrupting(DockerCli):
    """Ctrl-C, as soon as the RUN step of a build is at work."""

    mark = ""

    def start(self, *args: str, **options: object) -> DockerProcess:  # type: ignore[override]
        pending = super().start(*args, **options)  # type: ignore[arg-type]
        if args[0] == "build":
            deadline = time.monotonic() + 30
            while not processes(self.mark):
                assert time.monotonic() < deadline, "the RUN step never began"
                pending.pump(0.1)
            pending.pump = _interrupt  # type: ignore[method-assign]
        return pending


def _interrupt(_timeout_s: float) -> None:
    raise Interrupted(2)


def test_interrupt_ends_the_build_on_the_engine_too(projects: list[Project]) -> None:
    """B19: after Ctrl-C no RUN step goes on, no container stays, no image is used."""
    for project in projects:
        mark = f"98{secrets.randbelow(10**8):08}"
        dockerfile = project.write(f"RUN sleep {mark}")
        project.docker = Interrupting(project.docker._executable, project.docker._env)
        project.docker.mark = mark
        with pytest.raises(Interrupted):
            project.run()
        deadline = time.monotonic() + 20
        while (processes(mark) or build_containers(project.engine, mark)) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert (processes(mark), build_containers(project.engine, mark)) == ([], [])
        assert project.engine.run("image", "inspect", dockerfile.tag, check=False).returncode != 0


@pytest.mark.parametrize("rules", ["", "node_modules/\n", "*\n!Dockerfile.odek\n!tool.sh\n", "Dockerfile.odek\n"])
def test_odd_files_in_the_context_do_no_harm(rules: str, projects: list[Project]) -> None:
    """B19: FIFO, socket, link to the root, secrets: both builders take the same files, and nothing hangs."""
    for project in projects:
        (project.folder / "tool.sh").write_text("tool")
        (project.folder / ".env").write_text(CANARY)
        (project.folder / "node_modules").mkdir(exist_ok=True)
        (project.folder / "node_modules" / "m.js").write_text("m")
        os.mkfifo(project.folder / "fifo")
        os.symlink("/", project.folder / "root")
        if rules:
            (project.folder / ".dockerignore").write_text(rules)
        project.write("COPY tool.sh /t")
        image_id = project.run()
        assert project.output(image_id, "cat", "/t") == "tool"
        saved = subprocess.run([project.engine.client, "save", image_id], capture_output=True, check=True).stdout
        assert CANARY.encode() not in saved


def test_both_builders_copy_the_same_files(projects: list[Project]) -> None:
    """B19: a pattern with a slash at its end, an exception, a comment."""
    listings = set()
    for project in projects:
        for name in ("keep/a", "keep/b.log", "node_modules/x", "web/node_modules/y", "top.log", "!odd"):
            path = project.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
        (project.folder / ".dockerignore").write_text(
            "# comment\nnode_modules/\n**/*.log\n!keep/b.log\nDockerfile.odek\n.dockerignore\n"
        )
        project.write("COPY . /c", "RUN cd /c && find . -type f | sort >/listing")
        listings.add(project.output(project.run(), "cat", "/listing"))
    assert listings == {"./!odd\n./keep/a\n./keep/b.log\n./web/node_modules/y"}


def test_git_of_the_context_is_not_run(projects: list[Project], tmp_path: Path) -> None:
    """R-92: a .git/config that names a program is data; buildx would have git describe the context."""
    mark = tmp_path / "git ran a program"
    for project in projects:
        subprocess.run(["git", "init", "--quiet", str(project.folder)], check=True)
        with open(project.folder / ".git" / "config", "a") as file:
            file.write(f"[core]\n\tfsmonitor = \"touch '{mark}'\"\n")
        project.write()
        project.run()
    assert not mark.exists()
    subprocess.run(["git", "-C", str(projects[0].folder), "status"], capture_output=True, check=False)
    assert mark.exists(), "the attack does not work at all"


def test_image_is_carried_by_file_and_proven(docker_engine: Engine, base_image: str, tmp_path: Path) -> None:
    """D-12: out, away, in again; the ID is the same, and a changed file is refused."""
    docker = DockerCli(docker_engine.client, dict(os.environ))
    name = f"{REPOSITORY}-test-carried:{secrets.token_hex(6)}"
    docker_engine.run("build", "--tag", name, "-", stdin=f"FROM {base_image}\nLABEL name={name}\n".encode())
    path = tmp_path / "image.tar"
    try:
        choice = ImageChoice(ref=name, origin="--image", chosen_by_project=False)
        image_id, saved = save_image(choice, str(path), docker, emit=lambda _: None)
        assert tuple(tag.removeprefix("localhost/") for tag in saved.tags) == (name,)  # podman's names have it
        docker_engine.run("rmi", name)
        assert docker_engine.run("image", "inspect", image_id, check=False).returncode != 0
        with pytest.raises(SandboxConfigError, match="another image"):
            load_image(str(path), (f"sha256:{'0' * 64}",), docker, name="", emit=lambda _: None)
        loaded, _ = load_image(str(path), (image_id,), docker, name="", emit=lambda _: None)
        assert loaded == image_id
        assert docker_engine.run("run", "--rm", "--network", "none", loaded, "echo", "alive").stdout == "alive\n"
        data = bytearray(path.read_bytes())
        layer = data.rfind(b"root:x:0")  # the containerd store keeps layers compressed, but not the configuration
        data[(layer if layer >= 0 else data.index(f'"name":"{name}"'.encode())) + 5] ^= 1
        path.write_bytes(data)
        with pytest.raises(SandboxConfigError, match="not an image that can be trusted"):
            load_image(str(path), (image_id,), docker, name="", emit=lambda _: None)
    finally:
        docker_engine.run("rmi", "--force", name, check=False)


def test_file_read_for_a_build_is_the_one_in_the_folder(projects: list[Project]) -> None:
    dockerfile = projects[0].write()
    assert read_dockerfile(projects[0].host.cwd) == dockerfile
