"""The folder of attached files: made when there are some, read by tools, never written by them (D-3, R-44)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.containers import CONTAINER_ID, FACTS, NONCE, SECRET, SPEC, answer, inspected
from fakes.docker import FakeDocker

from odek.errors import FileAccessDenied
from odek.sandbox.argv import run_argv
from odek.sandbox.container import scripts
from odek.sandbox.container.container import Container
from odek.sandbox.container.file_protocol import attachment_path, is_attachment
from odek.sandbox.container.scripts import end_nonce, pack_script
from odek.sandbox.container.verify import inspect_mismatches
from odek.sandbox_grammar import GrammarError, parse_volume

MARK, END = SECRET, end_nonce(SECRET, SECRET)
WITH = replace(SPEC, attachments=True)


def box(docker: FakeDocker, *, attachments: bool = True) -> Container:
    docker.on("run", hold=True)
    lease = docker.start("run", hold_stdin=True)
    docker.calls.clear()
    return Container(docker, replace(SPEC, attachments=attachments), FACTS, lease=lease, new_nonce=lambda: SECRET)


def test_second_tmpfs_is_asked_for_only_when_there_are_files() -> None:
    """R-43: as closed as /tmp, and the user's own."""
    options = "rw,noexec,nosuid,nodev,mode=1777,size=1073741824,nr_inodes=262144,uid=1000,gid=100"
    with_files = run_argv(replace(WITH, user="1000:100"), name="n", labels=())
    assert [with_files[place + 1] for place, word in enumerate(with_files) if word == "--tmpfs"][:2] == [
        f"/tmp:{options}",
        f"/ctx:{options}",
    ]
    assert "/ctx" not in " ".join(run_argv(SPEC, name="n", labels=()))


def test_tmpfs_that_is_not_as_asked_for_is_a_mismatch() -> None:
    """R-37."""
    seen = inspected(SPEC)
    tmpfs = seen["HostConfig"]["Tmpfs"]
    assert inspect_mismatches(seen, WITH, nonce=NONCE) == ("/ctx is not a tmpfs with noexec and nosuid, found ''",)
    tmpfs["/ctx"] = tmpfs["/tmp"]
    assert inspect_mismatches(seen, WITH, nonce=NONCE) == ()


@pytest.mark.parametrize("target", ["/ctx", "/ctx/x", "/./ctx"])
def test_nothing_is_mounted_over_it(target: str) -> None:
    """R-33."""
    with pytest.raises(GrammarError):
        parse_volume(f"a:{target}", "./odek.json")


@pytest.mark.parametrize(
    ("path", "relative"),
    [("/ctx/a", "a"), ("//ctx/./a/b", "a/b"), ("/workspace/../ctx/a", "a"), ("/ctx/x/../a", "a")],
)
def test_path_of_an_attached_file(path: str, relative: str) -> None:
    assert (is_attachment(path), attachment_path(path)) == (True, relative)


@pytest.mark.parametrize(
    "path", ["/ctx", "/ctx/", "/ctx/..", "/ctx/../workspace/a", "ctx/a", "/ctxx/a", "a", "", "../ctx/a"]
)
def test_path_that_is_no_attached_file(path: str) -> None:
    assert not is_attachment(path)


def test_content_travels_on_stdin() -> None:
    """R-32, D-3: no byte of it is in an argument, and it is written by the user of the commands."""
    docker = FakeDocker()
    container = box(docker)
    docker.on("exec", react=answer())
    container.attach("-rf\n", b"a\0b")
    (call,) = docker.calls
    assert call.args == (
        *("exec", "--interactive", "--user", SPEC.user, "--env", f"ODEK_CALL={MARK}"),
        *(CONTAINER_ID, "sh", "-c", scripts.RUN, "sh", MARK, ""),
    )
    words = ("/ctx", "-rf\n", "3")
    assert call.stdin == pack_script(scripts.ATTACH, words, MARK, END, umask=SPEC.umask, data=b"a\0b")


def test_file_that_cannot_be_put_there_is_named() -> None:
    docker = FakeDocker()
    container = box(docker)
    docker.on("exec", react=answer(scripts.NOT_WRITABLE))
    with pytest.raises(FileAccessDenied, match='cannot write "/ctx/a": it cannot be written'):
        container.attach("a", b"x")


def test_read_reaches_it_and_write_does_not() -> None:
    docker = FakeDocker()
    container = box(docker)
    docker.on("exec", react=answer(out=b"text"))
    assert container.read("/ctx/a", limit_bytes=10) == b"text"
    assert docker.calls[0].stdin == pack_script(scripts.READ, ("a", "11", "/ctx"), MARK, END, umask=SPEC.umask)
    with pytest.raises(FileAccessDenied, match="leaves the workspace"):
        container.write("/ctx/a", b"x", replacing=None)
    assert len(docker.calls) == 1


def test_several_files_are_read_with_one_of_them_attached() -> None:
    docker = FakeDocker()
    container = box(docker)
    docker.on("exec", react=answer(out=b"text"))
    found = container.read_many(("/ctx/a", "b", "/etc/passwd"), limit_bytes=10, total_bytes=100)
    assert found[:2] == (b"text", b"text")
    assert isinstance(found[2], FileAccessDenied)


def test_without_files_there_is_no_such_place() -> None:
    container = box(FakeDocker(), attachments=False)
    with pytest.raises(FileAccessDenied, match="leaves the workspace"):
        container.read("/ctx/a", limit_bytes=10)
