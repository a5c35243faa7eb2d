"""Images that bring settings of their own, or lack what others have."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest
from support.sandboxes import PROGRAMS, Boxes, OddImages, output

from odek.errors import FileAccessDenied
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.image.resolve import look_up

WORLD = "pwd; id -u; cat /proc/1/comm; touch $HOME/x /workspace/y && echo written"


def without(*programs: str) -> tuple[str, ...]:
    return tuple(program for program in PROGRAMS if program not in programs)


@pytest.mark.parametrize(
    "changes",
    [
        ('ENTRYPOINT ["/bin/sh"]', "USER nobody", "HEALTHCHECK CMD false", "VOLUME /workspace"),
        ('ENTRYPOINT ["/bin/busybox", "false"]', "USER 4711:4711", "WORKDIR /no/such", "VOLUME /data"),
        ('ENTRYPOINT ["/bin/sh", "-c", "exit 0", "--"]', 'CMD ["x"]', "VOLUME /tmp", "EXPOSE 80"),
        ("ENV HOME=/nowhere", "ENV ODEK_CALL=x", "ENV ENV=/evil", "ENV LD_PRELOAD=/evil.so"),
        ("LABEL io.odek.sandbox=0 io.odek.nonce=x io.odek.pid=1",),
    ],
    ids=lambda changes: changes[0][:24],
)
def test_image_with_settings_of_its_own_is_run_like_any_other(
    changes: tuple[str, ...], boxes: Boxes, odd_images: OddImages
) -> None:
    """B20, R-30: none of them has a say."""
    if boxes.kind.podman:  # its import knows no health checks
        changes = tuple(change for change in changes if not change.startswith("HEALTHCHECK"))
    box = boxes.start(image=odd_images.make(*changes))
    init = "podman-init" if boxes.kind.podman else "docker-init"
    assert output(box, WORLD) == f"/workspace\n{os.getuid()}\n{init}\nwritten\n"
    assert box.facts.home == "/tmp"
    health = boxes.inspect(box)["State"].get("Health") or {}
    assert (health.get("Status") in (None, "", "none"), health.get("Log")) == (True, None)


def test_volumes_of_an_image_go_with_the_container(boxes: Boxes, odd_images: OddImages) -> None:
    """R-38, B20."""
    box = boxes.start(image=odd_images.make("VOLUME /data"))
    volumes = [mount["Name"] for mount in boxes.inspect(box)["Mounts"] if mount["Type"] == "volume"]
    assert len(volumes) == (0 if boxes.kind.podman else 1)
    box.close()
    assert not set(volumes) & set(boxes.engine.run("volume", "ls", "--quiet").stdout.split())


@pytest.mark.docker_only  # podman makes no volumes that an image declares
def test_volume_of_an_image_inside_the_workspace_is_refused(boxes: Boxes, odd_images: OddImages) -> None:
    """R-37, B20: it would hide the user's folder of that name."""
    with pytest.raises(SandboxConfigError) as refused:
        boxes.start(image=odd_images.make("VOLUME /workspace/node_modules"))
    assert (
        refused.value.detail
        == "the image declares a volume at /workspace/node_modules, which would hide that folder of yours"
    )
    assert boxes.existing(os.getpid()) == []


@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_home_is_writable_whatever_mode_tmp_has_in_the_image(mode: int, boxes: Boxes, odd_images: OddImages) -> None:
    """R-30, R-31; podman gives the tmpfs no owner, and with runc 1.1 it is as closed as the image's folder (M-4)."""
    box = boxes.start(image=odd_images.make(modes={"tmp": mode}), user="12345:54321")
    homes = ("/tmp\n", "/dev/shm\n") if boxes.kind.podman else ("/tmp\n",)
    assert output(box, "touch $HOME/x && echo $HOME") in homes


def test_home_that_is_not_writable_is_replaced_and_said_so(boxes: Boxes, odd_images: OddImages) -> None:
    """R-31, D11: a user known only by name, and a /tmp that is only root's; newer runtimes open the tmpfs (M-4)."""
    image = odd_images.make(
        modes={"tmp": 0o755}, files={"etc/passwd": "root:x:0:0::/:/bin/sh\napp:x:4711:4711::/:/bin/sh\n"}
    )
    box = boxes.start(image=image, user="app")
    replaced = output(box, "stat -c %a /tmp") != "1777\n"
    assert output(box, "touch $HOME/x && echo $HOME; id -u") == f"{'/dev/shm' if replaced else '/tmp'}\n4711\n"
    said = "HOME /tmp is not writable in this image; commands get HOME=/dev/shm"
    assert (said in boxes.said) == replaced


def test_home_of_the_operator_is_kept_or_it_is_said_why_not(boxes: Boxes) -> None:
    """R-31, A18: made as the user below /tmp and the workspace, where no image can have brought it."""
    (boxes.workdir / "file").touch()
    user = "12345:54321" if os.getuid() == 0 else ""  # root owns the image's folders
    if user:
        os.chown(boxes.workdir, 12345, 54321)

    def start(home: str, **changes: Any) -> str:
        boxes.said.clear()
        box = boxes.start(home=home, env=(("HOME", home),), **({"user": user} if user else {}), **changes)
        return output(box, 'touch "$HOME/x" && echo "$HOME"').rstrip("\n")

    for home in ("/tmp/a b/'c/d", "/workspace/.home/h"):
        assert (start(home), boxes.said) == (home, [])
    assert (boxes.workdir / ".home/h/x").stat().st_uid == (12345 if user else os.getuid())
    for home, why in {
        "/no/such": "is not in this image, and a folder is made for it only below /tmp, /dev/shm and /workspace",
        "/bin": "is not writable in this image",
        "/workspace/file": "is not a folder",
        "/workspace/file/h": f"could not be made by user {user or boxes.spec().user}",
    }.items():
        assert start(home) == "/dev/shm"
        assert boxes.said == [f"HOME {home} {why}; commands get HOME=/dev/shm"]
    assert start("/workspace/.home/h", readonly=True) == "/dev/shm"
    assert boxes.said == [
        "HOME /workspace/.home/h lies in the working directory, which is read-only; commands get HOME=/dev/shm"
    ]


@pytest.mark.parametrize(
    ("programs", "changes", "words"),
    [
        (without("sh"), (), "Docker did not start the sandbox from image"),
        (PROGRAMS, ("ENV PATH=/none",), "Docker did not start the sandbox from image"),
    ],
    ids=["no sh", "no path"],
)
def test_image_that_cannot_run_commands_is_refused_in_one_sentence(
    programs: tuple[str, ...], changes: tuple[str, ...], words: str, boxes: Boxes, odd_images: OddImages
) -> None:
    """B20, B21: container removed, no host."""
    with pytest.raises(SandboxConfigError, match=words) as refused:
        boxes.start(image=odd_images.make(*changes, programs=programs))
    assert refused.value.hint
    assert boxes.existing(os.getpid()) == []
    assert list(boxes.workdir.iterdir()) == []


@pytest.fixture(scope="session")
def dash() -> str:
    """A shell of this machine without programs of its own."""
    found = shutil.which("dash")
    if found is None:
        pytest.skip("no dash on PATH")
    return found


def test_image_without_cat_is_refused(boxes: Boxes, odd_images: OddImages, dash: str) -> None:
    """B21 (5)."""
    with pytest.raises(SandboxConfigError, match=r"has no `cat`"):
        boxes.start(image=odd_images.make(programs=without("sh", "cat"), shell=dash))
    assert boxes.existing(os.getpid()) == []


def test_image_with_a_shell_and_hardly_more_works(boxes: Boxes, odd_images: OddImages, dash: str) -> None:
    """B21: no bash, no sleep, no ps; what is stopped is stopped all the same."""
    box = boxes.start(image=odd_images.make(programs=("cat",), shell=dash))
    assert output(box, "echo alive") == "alive\n"
    assert box.run("while :; do :; done", timeout_s=0.5).notes == (
        "the command and everything it had started was stopped",
    )


def test_file_tool_names_the_program_that_an_image_lacks(boxes: Boxes, odd_images: OddImages, dash: str) -> None:
    """B21 (5): and changes nothing."""
    missing = ("head", "mv", "cp", "sha256sum", "mkdir")
    (boxes.workdir / "f").write_text("old")
    box = boxes.start(image=odd_images.make(programs=without("sh", *missing), shell=dash))
    for program, access in {
        "head": lambda: box.read("f", limit_bytes=10),
        "mv": lambda: box.write("g", b"new", replacing=None),
        "cp": lambda: box.write("f", b"new", replacing=None),
        "sha256sum": lambda: box.write("f", b"new", replacing=b"old"),
        "mkdir": lambda: box.write("d/g", b"new", replacing=None),
    }.items():
        with pytest.raises(FileAccessDenied, match=f"{program}: not found"):
            access()
    assert {path.name: path.read_text() for path in boxes.workdir.iterdir()} == {"f": "old"}


def test_user_by_name_gets_a_helper_of_another_name(boxes: Boxes) -> None:
    """D-10, R-32."""
    boxes.workdir.chmod(0o777)
    box = boxes.start(user="nobody")
    assert boxes.inspect(box)["Config"]["User"] == "65533:65533"
    assert (box.facts.user, output(box, "id -u")) == ("65534:65534", "65534\n")


def test_user_by_name_who_turns_out_to_be_the_helper_is_refused(boxes: Boxes, odd_images: OddImages) -> None:
    """D-10: it could end the sandbox."""
    passwd = "root:x:0:0::/:/bin/sh\napp:x:65534:65534::/:/bin/sh\n"
    with pytest.raises(SandboxConfigError, match="is the one that odek's own processes need"):
        boxes.start(image=odd_images.make(files={"etc/passwd": passwd}), user="app")
    assert boxes.existing(os.getpid()) == []


def test_unknown_user_is_refused(boxes: Boxes) -> None:
    """R-7, R-32."""
    with pytest.raises(SandboxConfigError, match=r'commands cannot run in image ".*" as user "nosuchuser"'):
        boxes.start(user="nosuchuser")
    assert boxes.existing(os.getpid()) == []


def test_volumes_that_links_of_the_image_lead_into_the_workspace_leave_nothing(
    boxes: Boxes, odd_images: OddImages
) -> None:
    """E8: the engine would make the mount point as root, in the user's folder; a volume in /tmp runs no programs."""
    image = odd_images.make("VOLUME /app/node_modules", links={"app": "/workspace"})
    found = look_up(image, boxes.docker)
    assert found is not None
    assert found.volumes == ("/app/node_modules",)
    if boxes.kind.podman:  # makes none that an image declares
        assert output(boxes.start(image=image, image_volumes=("/app/node_modules",)), "ls /app/") == ""
    else:
        with pytest.raises(SandboxConfigError, match="leads into /workspace"):
            boxes.start(image=image, image_volumes=("/app/node_modules",))
        assert list(boxes.workdir.iterdir()) == []
        (boxes.workdir / "node_modules").mkdir()  # the mount point is there: the proof finds it
        with pytest.raises(SandboxConfigError, match="/workspace/node_modules is another mount"):
            boxes.start(image=image, image_volumes=("/app/node_modules",))
    volumes = ("/data", "/tmp/sub")
    box = boxes.start(image=odd_images.make('VOLUME ["/data", "/tmp/sub"]'), image_volumes=volumes)
    attack = "cp /bin/busybox /tmp/sub/sh && /tmp/sub/sh true || echo refused; touch /data || echo no"
    assert "refused" in box.run(attack, timeout_s=30).output.text
