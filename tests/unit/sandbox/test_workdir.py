"""Which folders of the host a container may be shown."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.spec import Mount
from odek.sandbox.workdir import check_workdir, resolve_volume

ORIGIN = "./odek.json"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    "workdir", ["/home/u/p", "/tmp/p", "/root/p", "/devel", "/etcetera", "/opt/app", "/usr/src/x", "/dev/shm/p",
    "/var/tmp/x", "/mnt", "/run/media/u/stick/p", "/var/lib/jenkins/p", "/usr/share/p", "/home/u/.dockerfiles"]
)  # fmt: skip
def test_folder_of_a_project_is_shared(workdir: str) -> None:
    """R-34."""
    check_workdir(workdir, home="/home/u", docker_host="")


@pytest.mark.parametrize(
    "name",
    [
        "o t",
        "a:b",
        "a,b",
        'a"b',
        "a'b",
        "(ü) 日本",
        "$x",
        "a\nb",
        "a\tb",
        "a\\b",
        "a\rb",
        "-x",
        "a;b",
        "a=b",
        "a\u2028b",
        " ",
    ],
)
def test_folder_of_any_name_is_shared(name: str) -> None:
    """R-34, B12."""
    check_workdir(f"/home/u/{name}", home="/home/u", docker_host="")


@pytest.mark.parametrize(
    ("name", "words"), [("a\r\nb", r"the characters \r\n"), ("a\udcffb", r"the characters \udcff")]
)
def test_folder_whose_name_docker_would_change_is_refused_with_the_characters(name: str, words: str) -> None:
    """R-34: never another folder."""
    with pytest.raises(SandboxConfigError) as refused:
        check_workdir(f"/home/u/{name}", home="/home/u", docker_host="")
    assert words in refused.value.message
    assert refused.value.hint == "rename the folder"


@pytest.mark.parametrize(
    ("home", "named", "workdir", "words"),
    [
        ("/home/u", "", "/home/u/.odek", "holds ~/.odek"),
        ("/home/u", "", "/home/u/.odek/sessions", "is inside ~/.odek"),
        ("/home/u", "/home/u/.odek", "/home/u/.odek/a/b", "is inside ~/.odek"),
        ("/home/u", "/srv/odek", "/srv/odek", "holds ODEK_HOME"),
        ("/home/u", "/srv/odek", "/srv/odek/sessions/x", "is inside ODEK_HOME"),
        ("/home/u", "/srv/me/odek", "/srv/me", "holds ODEK_HOME"),
        ("", "/srv/odek", "/srv/odek/sessions", "is inside ODEK_HOME"),
        ("/home/u", "/srv/odek", "/home/u/.odek/sessions", "is inside ~/.odek"),
    ],
)
def test_folder_with_odeks_own_files_is_refused(home: str, named: str, workdir: str, words: str) -> None:
    """R-34, E3: what is in there rules later runs, and a folder in it is one that odek itself works in."""
    with pytest.raises(SandboxConfigError, match=f"{words}: sharing it would hand odek's settings"):
        check_workdir(workdir, home=home, docker_host="", operator_folder=named)
    check_workdir("/srv/odekish/p", home=home, docker_host="", operator_folder=named)


def test_link_to_odeks_own_files_is_followed(tmp_path: Path) -> None:
    """R-34, E3."""
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "sessions").mkdir(parents=True)
    with pytest.raises(SandboxConfigError, match="is inside ODEK_HOME"):
        check_workdir(str(tmp_path / "real" / "sessions"), home="", docker_host="", operator_folder=f"{tmp_path}/link")


@pytest.mark.parametrize("workdir", ["/tmp", "/var/tmp", "/dev/shm", "/private/tmp"])
def test_folder_that_all_programs_share_is_refused(workdir: str) -> None:
    """A8: it holds sockets of other programs; a folder below it is a project like any other."""
    with pytest.raises(SandboxConfigError, match="is shared by all programs") as refused:
        check_workdir(workdir, home="/home/u", docker_host="")
    assert refused.value.hint.endswith(f"mkdir {workdir}/project")
    check_workdir(f"{workdir}/project", home="/home/u", docker_host="")


@pytest.mark.parametrize(
    "workdir",
    ["/", "/etc", "/etc/ssh", "/dev", "/dev/disk", "/proc", "/proc/self", "/sys/fs", "/boot/grub", "/home", "/usr",
    "/usr/local", "/var", "/run", "/run/user/1000", "/run/user/1000/podman", "/run/media", "/usr/bin", "/usr/lib/x",
    "/usr/local/bin", "/var/lib", "/var/lib/docker/volumes/x", "/var/log", "/root", "/var/run/x", "/nix/store/x",
    "/var/snap", "/var/lib/containers/storage", "/Users", "/private/etc/x", "/Library/LaunchDaemons", "/opt", "/srv"],
)  # fmt: skip
def test_folder_of_the_system_is_refused(workdir: str) -> None:
    with pytest.raises(SandboxConfigError, match="is part of the system"):
        check_workdir(workdir, home="/home/u", docker_host="")


@pytest.mark.parametrize(
    ("workdir", "docker_config"),
    [
        ("/home/u/.docker", ""),
        ("/home/u/.docker/cli-plugins", ""),
        ("/srv/p", "/srv/p/.docker"),
        ("/srv/p", "/srv/p"),
        ("/srv/p", ".docker"),
        ("/srv/p/x", "/srv/p"),
    ],
)
def test_folder_that_holds_the_settings_of_the_docker_client_is_refused(workdir: str, docker_config: str) -> None:
    """S-4: what lies there as cli-plugins/docker-buildx is run by the client, on the host."""
    with pytest.raises(SandboxConfigError, match="holds the settings of Docker's client"):
        check_workdir(workdir, home="/home/u", docker_host="", docker_config=docker_config)


def test_settings_of_the_docker_client_elsewhere_are_no_obstacle() -> None:
    """S-4: where DOCKER_CONFIG is set, ~/.docker is not what the client reads."""
    check_workdir("/home/u/.docker", home="/home/u", docker_host="", docker_config="/srv/docker")
    check_workdir("/srv/p", home="/home/u", docker_host="", docker_config="../q")


@pytest.mark.parametrize("workdir", ["/home/u", "/home/u/.odek", "/home/u/.odek/sessions"])
def test_folder_that_holds_or_is_the_state_of_odek_is_refused(workdir: str) -> None:
    """R-61: approvals must not be the sandbox's to write."""
    with pytest.raises(SandboxConfigError, match=r"(holds|is inside) ~/\.odek"):
        check_workdir(workdir, home="/home/u", docker_host="")


def test_folder_that_holds_a_linked_state_folder_is_refused(tmp_path: Path) -> None:
    """R-61: ~/.odek may be a link into a folder of dotfiles."""
    home, dotfiles = tmp_path / "home", tmp_path / "dotfiles"
    home.mkdir()
    (dotfiles / "odek").mkdir(parents=True)
    (home / ".odek").symlink_to(dotfiles / "odek")
    with pytest.raises(SandboxConfigError, match=r"(holds|is inside) ~/\.odek"):
        check_workdir(str(dotfiles), home=str(home), docker_host="")


@pytest.mark.parametrize(
    ("workdir", "home", "home_of_owner", "words"),
    [
        ("/home/v", "/home/u", "/home/v", "is or holds the home /home/v"),
        ("/data/people", "/home/u", "/data/people/v", "is or holds the home /data/people/v"),
        ("/home/u", "/tmp/x", "/home/u", "is or holds the home /home/u"),
        ("/var/lib/jenkins", "/tmp", "/var/lib/jenkins", "is or holds the home /var/lib/jenkins"),
        ("/home/u/.ssh", "/home/u", "", "holds /home/u/.ssh: "),
        ("/home/u/.ssh/keys", "/home/u", "", "holds /home/u/.ssh: "),
        ("/root/.ssh", "/home/u", "/root", "holds /root/.ssh: "),
        ("/home/u/.config", "/home/u", "/home/u", "holds /home/u/.config/systemd: "),
        ("/home/u/.config/autostart", "/home/u", "/home/u", "holds /home/u/.config/autostart: "),
        ("/home/u/.local", "/home/u", "/home/u", "holds /home/u/.local/bin: "),
        ("/home/u/.local/share/docker/overlay2/x", "/home/u", "", "holds /home/u/.local/share/docker: "),
        ("/Users/u/Library", "/Users/u", "/Users/u", "holds /Users/u/Library/LaunchAgents: "),
        ("/home/u/p", "/home/u", "/home/u", ""),
        ("/home/u/.config/nvim", "/home/u", "/home/u", ""),
        ("/home/u/.sshx", "/home/u", "/home/u", ""),
        ("/home/v/p", "/home/u", "/home/v", ""),
        ("/root/p", "/home/u", "/root", ""),
        ("/srv/.ssh", "/home/u", "/root", ""),
        ("/srv/p", "/home/u", "/", ""),
        ("/srv/p", "", "", ""),
    ],
)
def test_home_of_anybody_and_what_it_hangs_on_are_not_shared(
    workdir: str, home: str, home_of_owner: str, words: str
) -> None:
    """S-6: whatever HOME says; a project in a home is."""
    if not words:
        check_workdir(workdir, home=home, docker_host="", home_of_owner=home_of_owner)
        return
    with pytest.raises(SandboxConfigError) as refused:
        check_workdir(workdir, home=home, docker_host="", home_of_owner=home_of_owner)
    assert words in refused.value.message
    assert refused.value.hint == "change into the folder of a project"


def test_any_folder_is_shared_when_there_is_no_home() -> None:
    check_workdir("/srv/x", home="", docker_host="")


@pytest.mark.parametrize("docker_host", ["unix:///home/u/p/docker.sock", "unix:///home/u/p/a/b/d.sock"])
def test_folder_with_the_docker_socket_is_refused(docker_host: str) -> None:
    with pytest.raises(SandboxConfigError, match="holds the Docker socket /home/u/p/"):
        check_workdir("/home/u/p", home="/home/u", docker_host=docker_host)


@pytest.mark.parametrize("docker_host", ["tcp://127.0.0.1:2375", "ssh://home/u/p", "unix:///home/u/pq.sock", ""])
def test_folder_without_the_docker_socket_is_shared(docker_host: str) -> None:
    check_workdir("/home/u/p", home="/home/u", docker_host=docker_host)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("cache:/data", "cache"),
        ("./cache:/data", "cache"),
        (".//./cache/:/data", "cache"),
        ("file.txt:/data", "file.txt"),
        ("in:put:/data", "in:put"),
        ('a,b"c\nd:/data', 'a,b"c\nd'),
        ("cache/deep:/data", "cache/deep"),
    ],
)
def test_volume_is_resolved_inside_the_working_directory(text: str, source: str, work: Path) -> None:
    """R-33, B12."""
    (work / "cache" / "deep").mkdir(parents=True)
    (work / "file.txt").touch()
    (work / "in:put").mkdir()
    (work / 'a,b"c\nd').mkdir()
    mount = Mount(source=str(work / source), target="/data")
    assert resolve_volume(text, workdir=str(work), origin=ORIGIN) == (mount, False)


def test_volume_of_the_working_directory_itself_and_by_absolute_path_is_allowed(work: Path) -> None:
    """R-33."""
    (work / "x").mkdir()
    assert resolve_volume(".:/data", workdir=str(work), origin=ORIGIN) == (
        Mount(source=str(work), target="/data"),
        False,
    )
    absolute = Mount(source=str(work / "x"), target="/data")
    assert resolve_volume(f"{work}/x:/data", workdir=str(work), origin=ORIGIN) == (absolute, False)


@pytest.mark.parametrize("name", ["new", "new/deep", "old/new"])
def test_missing_volume_is_to_be_made(name: str, work: Path) -> None:
    """R-33: nothing is made before the approval."""
    (work / "old").mkdir()
    mount = Mount(source=str(work / name), target="/data")
    assert resolve_volume(f"{name}:/data", workdir=str(work), origin=ORIGIN) == (mount, True)
    assert sorted(os.listdir(work)) == ["old"]


@pytest.mark.parametrize("source", ["/etc", "/", "//etc", "{work}x", "{parent}"])
def test_volume_outside_the_working_directory_is_refused(source: str, work: Path) -> None:
    """R-33."""
    text = source.format(work=work, parent=work.parent)
    with pytest.raises(
        SandboxConfigError, match=r"lies outside the working directory \(./odek.json: sandbox_volumes\)"
    ):
        resolve_volume(f"{text}:/data", workdir=str(work), origin=ORIGIN)


@pytest.mark.parametrize("name", ["link", "link/x", "dangling", "good/inner", "good/inner/x"])
def test_volume_through_a_link_is_refused_and_the_link_named(name: str, work: Path) -> None:
    """R-33: a link in any component, wherever it points."""
    (work / "good").mkdir()
    (work / "link").symlink_to(work / "good")
    (work / "dangling").symlink_to("/nonexistent")
    (work / "good" / "inner").symlink_to("/etc")
    with pytest.raises(SandboxConfigError, match="is a symbolic link"):
        resolve_volume(f"{name}:/data", workdir=str(work), origin=ORIGIN)


def test_volume_that_is_no_file_or_folder_is_refused(work: Path) -> None:
    """R-33."""
    os.mkfifo(work / "fifo")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(work / "socket"))
    try:
        for name in ("fifo", "socket"):
            with pytest.raises(SandboxConfigError, match=f'{name}" is neither a file nor a folder'):
                resolve_volume(f"{name}:/data", workdir=str(work), origin=ORIGIN)
    finally:
        listener.close()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("file/x:/data", "Not a directory"),
        (f"{'n' * 300}:/data", "File name too long"),
        ("a\r\nb:/data", "cannot be mounted"),
    ],
)
def test_volume_that_cannot_be_looked_at_is_refused(text: str, words: str, work: Path) -> None:
    """R-33, R-34."""
    (work / "file").touch()
    with pytest.raises(SandboxConfigError, match=words):
        resolve_volume(text, workdir=str(work), origin=ORIGIN)
