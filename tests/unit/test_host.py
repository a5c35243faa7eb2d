"""Which programs of PATH are trusted."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from odek.host import Host, home_of_owner, project_root, trusted_path, which


def host(cwd: Path, path: str | None) -> Host:
    return Host(
        env={} if path is None else {"PATH": path},
        cwd=str(cwd),
        home="",
        uid=1000,
        gid=1000,
        pid=1,
        stdin_is_terminal=False,
        stdout_is_terminal=False,
        stderr_is_terminal=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a program `docker` in its folder `bin`, beside a folder `usr` with one, too."""
    if project_root(host(tmp_path, None)) != str(tmp_path):
        pytest.skip("pytest's own folders are in a checkout, whose programs do not count either")
    for folder in ("project/bin", "usr"):
        (tmp_path / folder).mkdir(parents=True)
        program = tmp_path / folder / "docker"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    (tmp_path / "linked").symlink_to(tmp_path / "project" / "bin")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "docker").symlink_to(tmp_path / "project" / "bin" / "docker")
    return tmp_path / "project"


@pytest.mark.parametrize("entry", ["", ".", "bin", "{cwd}", "{cwd}/bin", "{cwd}/../linked", "{cwd}/../project/bin"])
def test_entry_that_leads_into_the_working_directory_is_left_out(entry: str, project: Path) -> None:
    """R-92, S-4: docker finds its credential helpers on this PATH."""
    usr = f"{project.parent}/usr"
    path = os.pathsep.join((entry.format(cwd=project), usr, entry.format(cwd=project)))
    assert trusted_path(host(project, path)) == usr
    assert which("docker", host(project, path)) == f"{usr}/docker"


def test_program_that_is_a_link_into_the_working_directory_does_not_count(project: Path) -> None:
    """R-92, S-4."""
    links = f"{project.parent}/links"
    assert which("docker", host(project, links)) is None
    assert which("docker", host(project.parent / "usr", links)) == f"{links}/docker"


def test_folder_with_a_name_that_begins_alike_is_another_one(project: Path) -> None:
    beside = project.parent / "project-2"
    beside.mkdir()
    assert trusted_path(host(project, str(beside))) == str(beside)


def test_path_that_is_not_set_is_the_default_of_the_system(project: Path) -> None:
    assert trusted_path(host(project, None)) == os.pathsep.join(
        folder for folder in os.defpath.split(os.pathsep) if os.path.isabs(folder)
    )


def test_programs_of_the_repository_around_the_working_directory_do_not_count(project: Path) -> None:
    """R-92, S-4: started in a subfolder, the programs of the checkout above are the project's as well."""
    inner = project / "packages" / "web"
    inner.mkdir(parents=True)
    usr = f"{project.parent}/usr"
    path = f"{project}/bin:{usr}"
    assert trusted_path(host(inner, path)) == path  # no repository: nothing says that it belongs together
    (project / ".git").write_text("gitdir: elsewhere")
    assert project_root(host(inner, path)) == str(project)
    assert trusted_path(host(inner, path)) == usr
    assert which("docker", host(inner, f"{project.parent}/links")) is None


@pytest.mark.parametrize("mark", [".git", ".hg", ".svn", ".jj", ".bzr"])
@pytest.mark.parametrize("home", ["", "project/packages", "project/.home"])
def test_the_outermost_checkout_is_the_project(mark: str, home: str, project: Path) -> None:
    """F6: in a submodule or a repository inside of another, programs of the outer one are foreign as well."""
    inner = project / "packages" / "submodule"
    (inner / "src").mkdir(parents=True)
    (inner / ".git").write_text("gitdir: ../../.git/modules/submodule")
    (project / mark).mkdir()
    started = replace(
        host(inner / "src", f"{project}/bin:{project.parent}/usr"), home=home and str(project.parent / home)
    )
    assert project_root(started) == str(project)
    assert which("docker", started) == f"{project.parent}/usr/docker"


@pytest.mark.parametrize("target", ["/proc/1/root/x", "self", "x" * 300])
def test_entry_that_leads_where_nobody_may_look_is_left_out(target: str, project: Path) -> None:
    """E2: whatever the file system answers, an entry that cannot be followed is not trusted."""
    (project.parent / "self").symlink_to(target)
    path = f"{project.parent}/self:{project.parent}/usr"
    assert which("docker", host(project, path)) == f"{project.parent}/usr/docker"


def test_a_repository_that_holds_the_home_is_no_project(project: Path) -> None:
    """Dotfiles in git must not take the user's own programs away."""
    (project / ".git").mkdir()
    work = project / "work"
    work.mkdir()
    at_home = replace(host(work, f"{project}/bin"), home=str(project))
    assert project_root(at_home) == str(work)
    assert trusted_path(at_home) == f"{project}/bin"


def test_home_of_who_owns_a_folder_is_looked_up(tmp_path: Path) -> None:
    """S-6: HOME says nothing about somebody else's folder."""
    assert home_of_owner(str(tmp_path)) == pwd.getpwuid(os.getuid()).pw_dir
    assert home_of_owner(str(tmp_path / "missing")) == ""


def test_variables_with_secrets_are_hidden_from_who_looks_at_the_process() -> None:
    """F9: a command on the host reads its parent's environment."""
    script = (
        "import os, subprocess, sys; sys.path.insert(0, os.getcwd())\n"
        "from odek.host import Host, hide_variables\n"
        "from odek.secret_names import is_secret_name\n"
        "host = Host.capture(); look = ['sh', '-c', 'cat /proc/$PPID/environ']\n"
        "before = subprocess.run(look, capture_output=True).stdout\n"
        "hide_variables(is_secret_name)\n"
        "after = subprocess.run(look, capture_output=True).stdout\n"
        "print(b'canary' in before, b'canary' in after, b'OTHER=kept' in after, host.env['ODEK_API_KEY'])\n"
    )
    secrets = dict.fromkeys(("ODEK_API_KEY", "OPENAI_API_KEY", "GITHUB_TOKEN", "DB_PASSWORD"), "canary")
    done = subprocess.run(
        [sys.executable, "-c", script], env={"PATH": "/usr/bin:/bin", **secrets, "OTHER": "kept"}, capture_output=True
    )
    assert done.stdout == b"True False True canary\n", done.stderr
