"""Git's data of a linked worktree in a real container: read, never written, and only that folder (A19)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.docker_engine import Engine
from support.sandboxes import Boxes, OddImages, output

from odek.app.git_data import find_git_data
from odek.sandbox.docker import DockerCli, DockerProcess
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.spec import Mount

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="needs git")


def git(folder: Path, *words: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "GIT_CONFIG_GLOBAL": "/dev/null"}
    who = ("-c", "user.name=u", "-c", "user.email=u@example.com")
    return subprocess.run(
        ("git", *who, *words), cwd=folder, env=env, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def shared(boxes: Boxes) -> Mount:
    """The data of the repository whose linked worktree the working directory is, found as a start finds it."""
    main = boxes.workdir.parent / "main"
    main.mkdir()
    (main / "file").write_text("one\n")
    for words in (("init", "-q", "-b", "main"), ("add", "file"), ("commit", "-q", "-m", "first")):
        git(main, *words)
    boxes.workdir.rmdir()
    git(main, "worktree", "add", "-q", "-b", "side", "../work")
    # the tests' folders are below /tmp, which is another one in the sandbox
    (boxes.workdir / ".git").write_text("gitdir: ../main/.git/worktrees/work\n")
    mount = find_git_data(str(boxes.workdir), uid=os.getuid()).mount
    assert mount == Mount(source=str(main / ".git"), target="/main/.git", readonly=True)
    return mount


def test_git_reads_a_worktree_in_the_sandbox_and_writes_nothing(
    shared: Mount, boxes: Boxes, odd_images: OddImages
) -> None:
    """A19, devcontainers/cli #796."""
    program = shutil.which("git")
    assert program is not None
    image = odd_images.make(own={"bin/git": program})
    before = git(boxes.workdir.parent / "main", "rev-parse", "--all")
    box = boxes.start(image=image, git=shared)
    assert (box.facts.git, box.facts.git_outside) == ("/main/.git", False)
    assert output(box, "git log --format=%s") == "first\n"
    assert output(box, "git branch --show-current") == "side\n"
    assert output(box, "echo two >>file; git diff --stat -- file | head -1").startswith(" file | 1 +")
    assert output(box, "git status --short") == " M file\n"
    who = "git -c user.name=u -c user.email=u@example.com"
    for attack in (
        f"{who} commit -qam second",
        "git config core.fsmonitor /workspace/x",
        "echo x >/main/.git/hooks/post-checkout",
        "rm -rf /main/.git/objects",
        "chmod 777 /main/.git",
    ):
        done = box.run(attack, timeout_s=30)
        assert done.code not in (0, None), attack
        assert "ead-only" in done.output.text, done
    assert git(boxes.workdir.parent / "main", "rev-parse", "--all") == before
    assert output(box, "ls /main") == ""  # nothing of the other checkout
    assert git(boxes.workdir.parent / "main", "fsck") == ""


class Swapping(DockerCli):
    """Acts before `docker run`, and again before the look at what was started."""

    def __init__(self, engine: Engine, before: Callable[[], object], after: Callable[[], object]) -> None:
        super().__init__(engine.client, dict(os.environ))
        self._acts = {"run": before, "inspect": after}

    def start(self, *args: str, **options: object) -> DockerProcess:
        self._acts.pop(args[0], lambda: None)()
        return super().start(*args, **options)  # type: ignore[arg-type]


def test_data_that_is_exchanged_while_docker_mounts_it_is_found_out(shared: Mount, boxes: Boxes) -> None:
    """A19, F1: by what the kernel tells of the mount."""
    data, aside, other = Path(shared.source), Path(f"{shared.source}-aside"), Path(f"{shared.source}-other")
    other.mkdir()
    (other / "secret").write_text("x")

    def exchange() -> None:
        data.rename(aside)
        other.rename(data)

    def put_back() -> None:
        data.rename(other)
        aside.rename(data)

    with pytest.raises(SandboxConfigError, match=r"/main/\.git is not .*/main/\.git"):
        boxes.start(docker=Swapping(boxes.engine, exchange, put_back), git=shared)
    assert boxes.existing(os.getpid()) == []


def test_data_is_not_shared_where_its_mount_cannot_be_verified(shared: Mount, boxes: Boxes) -> None:
    """A19: an engine on a machine of its own."""
    with pytest.raises(SandboxConfigError, match="it cannot be verified that the sandbox shows"):
        boxes.start(git=shared, mounts_of=lambda _: ())
