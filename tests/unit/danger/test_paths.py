"""Whose territory a path is."""

from __future__ import annotations

import pytest

from odek import trusted_files
from odek.danger.classify import classify
from odek.danger.paths import Place, classify_read, classify_write, has_ordinary_home, is_wipe_target, trusted_name

USER = Place(home="/home/user", cwd="/home/user/project", workspace="/home/user/project")
ROOT = Place(home="/root", cwd="/root/project", workspace="/root/project")
SANDBOX = Place(home="/tmp", cwd="/workspace", workspace="/workspace", sandboxed=True)


@pytest.mark.parametrize(
    ("home", "path", "level"),
    [
        ("/root", "/root/notes.txt", "local_write"),
        ("/root", "/root/.bashrc", "system_write"),
        ("/root", "/root/.BASHRC", "system_write"),
        ("/root", "/root/.ssh/config", "system_write"),
        ("/root", "/root/.aws/credentials", "system_write"),
        ("/root", "/root/.odek/config.json", "system_write"),
        ("/root", "/root/.odek/project_sandbox_approvals.json", "system_write"),
        ("/root", "/home/user/x", "system_write"),
        ("/home/user", "/root/notes.txt", "system_write"),
        ("/home/user", "/home/other/x", "system_write"),
        ("/home/user", "/home/user2/x", "system_write"),
        ("/home/user", "/home/user/x", "local_write"),
        ("/home/user", "/home/user/.local/bin/ls", "system_write"),
        ("/home/user", "/home/user/sub/.bashrc", "local_write"),
        ("/var/lib/jenkins", "/var/lib/jenkins/x", "local_write"),
        ("/var/lib/jenkins", "/var/lib/jenkins/.ssh/x", "system_write"),
        ("/opt/app", "/opt/app/x", "local_write"),
        ("/", "/notes.txt", "system_write"),
        ("/", "/etc/x", "system_write"),
        ("/", "/.bashrc", "system_write"),
        ("/etc", "/etc/x", "system_write"),
        ("/usr", "/usr/x", "system_write"),
        ("/home", "/home/x/y", "system_write"),
        ("", "/root/x", "system_write"),
        ("relative", "/root/x", "system_write"),
    ],
)
def test_home_is_ordinary_ground_but_for_what_is_trusted(home: str, path: str, level: str) -> None:
    """R-84: the home rule; F-70, F-87. A degenerate home gets no such treatment."""
    place = Place(home=home, cwd="/work", workspace="/work")
    assert classify_write(path, place).level.label == level


@pytest.mark.parametrize(
    "home", ["/", "/etc", "/usr", "/home", "/var", "/bin", "/dev/shm", "", "home", "/usr/bin", "/opt"]
)
def test_degenerate_home_is_none(home: str) -> None:
    """R-84: a system directory itself or an ancestor of one."""
    assert not has_ordinary_home(Place(home=home, cwd="/w", workspace="/w"))


def test_note_in_the_home_of_root_is_an_ordinary_file() -> None:
    """R-84: the example of the sandbox document."""
    assert classify("echo x > ~/notes.txt", ROOT).level.label == "local_write"
    assert classify("echo x > /root/notes.txt", USER).level.label == "system_write"


@pytest.mark.parametrize(
    ("path", "level"),
    [
        ("/devel/x", "local_write"),
        ("/etcetera/x", "local_write"),
        ("/dev/sda", "blocked"),
        ("/proc/sys/kernel/x", "destructive"),
        ("/dev/null", "safe"),
        ("/dev/shm/x", "local_write"),
        ("/tmp/x", "local_write"),
        ("/tmpfoo/x", "local_write"),
        ("/mnt/disk/x", "system_write"),
        ("/opt/x", "system_write"),
        ("/srv/x", "system_write"),
        ("/bin/x", "system_write"),
        ("/sbin/x", "system_write"),
        ("/Users/other/x", "system_write"),
        ("/", "system_write"),
    ],
)
def test_paths_are_compared_by_component(path: str, level: str) -> None:
    """F-86: `/devel` is no device, `/etcetera` no `/etc`."""
    assert classify_write(path, USER).level.label == level


@pytest.mark.parametrize(
    "root", ["/mnt/data/project", "/media/stick/project", "/opt/project", "/srv/www/project", "/var/lib/ci/project"]
)
def test_workspace_in_system_territory_is_ordinary_ground(root: str) -> None:
    """F-86: a project below /mnt or /media is a project."""
    place = Place(home="/home/user", cwd=root, workspace=root)
    assert classify_write(f"{root}/x", place).level.label == "local_write"
    assert classify_write(f"{root}2/x", place).level.label == "system_write"


@pytest.mark.parametrize(
    ("path", "wipes"),
    [
        ("/home/user/project", True),
        ("/home/user/project/build", False),
        ("/home/user/project/.git", True),
        ("/home/user/project/\1", True),
        ("/home/user/project/.\1", True),
        ("/home/user/project/build/\1", False),
        ("/home/user/project/\1.pyc", False),
        ("/home/user", True),
        ("/home/user/other", True),
        ("/home", True),
        ("/", True),
        ("/tmp", True),
        ("/tmp/x", False),
        ("/tmp/\1", True),
        ("/workspace", True),
        ("\0", True),
        ("/home/user/project/\0", True),
    ],
)
def test_only_a_part_of_the_project_may_be_deleted_whole(path: str, wipes: bool) -> None:
    """F-84, F-85: the working directory, its ancestors and unknown places are no parts."""
    assert is_wipe_target(path, USER) is wipes


@pytest.mark.parametrize(
    ("path", "wipes"), [("/tmp/p", True), ("/tmp", True), ("/tmp/p/build", False), ("/tmp/q", False)]
)
def test_project_in_a_temporary_directory_is_a_project(path: str, wipes: bool) -> None:
    place = Place(home="/home/user", cwd="/tmp/p", workspace="/tmp/p")
    assert is_wipe_target(path, place) is wipes


def test_directory_directly_in_a_home_that_is_the_workspace_is_no_part() -> None:
    place = Place(home="/home/user", cwd="/home/user", workspace="/home/user")
    assert is_wipe_target("/home/user/documents", place)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/workspace/.git/hooks/pre-commit", ".git/hooks/pre-commit"),
        ("/workspace/.GIT/config", ".GIT/config"),
        ("/workspace/.git", ".git"),
        ("/workspace/sub/.git/config", "sub/.git/config"),
        ("/workspace/.git/index.lock", ""),
        ("/workspace/.git/objects/ab/cd", ""),
        ("/workspace/.envrc", ".envrc"),
        ("/workspace/.vscode/tasks.json", ".vscode/tasks.json"),
        ("/workspace/odek.json", "odek.json"),
        ("/workspace/Dockerfile.odek", "Dockerfile.odek"),
        ("/workspace/AGENTS.md", "AGENTS.md"),
        ("/workspace/docs/agents.md", "docs/agents.md"),
        ("/workspace/.github/workflows/ci.yml", ".github/workflows/ci.yml"),
        ("/workspace/.github", ".github"),
        ("/workspace/deep/er/.npmrc", "deep/er/.npmrc"),
        ("/workspace/.cargo/config.toml", ".cargo/config.toml"),
        ("/workspace/Jenkinsfile", "Jenkinsfile"),
        ("/workspace/sitecustomize.py", "sitecustomize.py"),
        ("/workspace/.git/modules/sub/hooks/post-checkout", ".git/modules/sub/hooks/post-checkout"),
        ("/workspace/.gith\1/x", ".gith*/x"),
        ("/workspace/\1.py", ""),
        ("/workspace/\1.yml", ""),
        ("/workspace/odek.json.bak", ""),
        ("/workspace/workflows/ci.yml", ""),
        ("/workspace/Dockerfile", ""),
        ("/workspace/src/main.c", ""),
        ("/tmp/.git/config", ""),
    ],
)
def test_file_that_the_host_trusts_is_known(path: str, name: str) -> None:
    """D-6: what the host reads or runs later."""
    assert trusted_name(path, SANDBOX) == name


@pytest.mark.parametrize(
    ("path", "on_host", "inside"),
    [
        ("/etc/os-release", "safe", "safe"),
        ("/usr/include/stdio.h", "safe", "safe"),
        ("/usr/share/doc", "safe", "safe"),
        ("/etc/passwd", "system_write", "safe"),
        ("/usr/bin", "system_write", "safe"),
        ("/etc", "safe", "safe"),
        ("/etc/shadow", "system_write", "safe"),
        ("/proc/1/environ", "system_write", "safe"),
        ("/proc/self/cwd/.env", "system_write", "system_write"),
        ("/\1/.env", "system_write", "system_write"),
        ("/workspace/.env", "system_write", "system_write"),
        ("/workspace/deploy/id_rsa", "system_write", "system_write"),
        ("/home/user/project/.env", "system_write", "safe"),
        ("/home/user/project/.env.example", "safe", "safe"),
        ("/home/other/x", "system_write", "safe"),
        ("/home/user/.netrc", "system_write", "safe"),
        ("/home/user/.ss\1/id_rs\2", "system_write", "safe"),
        ("/workspace/src", "safe", "safe"),
    ],
)
def test_reading_has_a_milder_table(path: str, on_host: str, inside: str) -> None:
    """F-89: secrets are no reading matter; inside the sandbox only the project is the user's."""
    levels = [finding.level.label if (finding := classify_read(path, place)) else "safe" for place in (USER, SANDBOX)]
    assert levels == [on_host, inside]


@pytest.mark.parametrize(
    ("command", "level"),
    [
        ("rm -rf /workspace", "destructive"),
        ("rm -rf /workspace/x", "local_write"),
        ("rm -rf build", "local_write"),
        ("rm -rf ~/x", "local_write"),
        ("rm -rf ~", "blocked"),
        ("rm -rf *", "destructive"),
        ("cat /etc/passwd", "safe"),
        ("ls /usr/bin", "safe"),
        ("echo x > /etc/hosts", "local_write"),
        ("echo x > /opt/x", "local_write"),
        ("mkdir -p /data", "local_write"),
        ("echo x > /dev/sda", "blocked"),
        ("echo b > /proc/sysrq-trigger", "local_write"),
        ("echo x > /proc/self/cwd/.envrc", "destructive"),
        ("env", "local_write"),
        ("echo $API_KEY", "local_write"),
        ("git config --global user.name x", "code_execution"),
        ("apt-get install -y x", "local_write"),
        ("sudo chown a b", "local_write"),
        ("sudo rm -rf .", "destructive"),
        ("git reset --hard", "system_write"),
        ("git push --force", "system_write"),
        ("chmod u+s x", "system_write"),
        ("kubectl apply -f x", "system_write"),
        ("cat .env", "system_write"),
        ("cat /workspace/.env", "system_write"),
        ("python -c 'open(\".ssh/id_rsa\")'", "system_write"),
    ],
)
def test_workspace_inside_the_sandbox_is_the_project(command: str, level: str) -> None:
    """R-84, D-6: `/workspace` is the project; what is of the container alone is nobody's system."""
    assert classify(command, SANDBOX).level.label == level


def test_each_file_that_the_host_trusts_asks_whatever_writes_it() -> None:
    """D-6, F11: also one whose name looks like any other, `Jenkinsfile`, and one that is named from its folder."""
    names = sorted(trusted_files.FILES | {f"{folder}/x" for folder in trusted_files.FOLDERS} | {*trusted_files.TAILS})
    commands = [f"touch {name}" for name in names] + [f"echo a > sub/{name}" for name in names]
    commands += [f"cd {name.rpartition('/')[0] or '.'} && touch {name.rpartition('/')[2]}" for name in names]
    commands += [f"cp a {name.upper()}" for name in names]
    assert [command for command in commands if not classify(command, SANDBOX).trusted_files] == []
