"""Files that the operator names, in a folder that a checkout or a model has filled."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.layering import make_host, make_layers
from fakes.model import ScriptedModel
from fakes.sessions import SYSTEM, Sessions, said, user
from fakes.terminals import Screen

from odek import safefile
from odek.app.model import make_model
from odek.cli.commands import bundle, init, sandbox_images, sessions
from odek.config.resolve import resolve
from odek.errors import OdekError
from odek.host import Host, project_root
from odek.model.replay import RecordingModel


def export(path: str, host: Host) -> None:
    sessions.main(["export", "--output", path], host, Screen().terminal)


def record(path: str, host: Host) -> None:
    RecordingModel(ScriptedModel(()), os.path.join(host.cwd, path), project=project_root(host)).close()


def save(path: str, host: Host) -> None:
    sandbox_images.through_no_link(os.path.join(host.cwd, path), host)


def make_bundle(path: str, host: Host) -> None:
    bundle._new_file([path], host)


WAYS = (export, record, save, make_bundle)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """At work in a repository with links out of it, which is itself reached by one of the operator's."""
    host = make_host(tmp_path, uid=os.getuid())
    Sessions(Path(host.home)).make(SYSTEM, user("x"), said("y"))
    outside = tmp_path / "outside"
    outside.mkdir()
    cwd = Path(host.cwd)
    (cwd / ".git").mkdir()
    (cwd / "sub").mkdir()
    (cwd / "way").symlink_to(outside)
    (cwd / "sub" / "way").symlink_to("../way")
    (cwd / "new").symlink_to(outside / "new")
    (tmp_path / "own").symlink_to(outside)
    return host


@pytest.mark.parametrize("write", WAYS)
@pytest.mark.parametrize("path", ["way/file", "sub/way/file", "sub/../way/file", "way/../way/file"])
def test_no_link_of_the_project_says_where_the_file_is(
    write: Callable[[str, Host], None], path: str, host: Host
) -> None:
    """R-363: what the checkout holds must not choose which folder of the operator gets a file."""
    with pytest.raises(OdekError, match='"way" is a link in the project'):
        write(path, host)
    assert not list(Path(host.cwd).parent.glob("outside/*"))


@pytest.mark.parametrize("write", [export, record])
@pytest.mark.parametrize("path", ["new", "sub/../new"])
def test_no_link_at_its_end_either(write: Callable[[str, Host], None], path: str, host: Host) -> None:
    """R-363."""
    with pytest.raises(OdekError):
        write(path, host)
    assert not list(Path(host.cwd).parent.glob("outside/*"))


@pytest.mark.parametrize("write", [export, record])
def test_the_operators_own_links_count(write: Callable[[str, Host], None], host: Host) -> None:
    """R-363: outside of the project a link is the operator's."""
    own = Path(host.cwd).parent / "own" / "file"
    write(str(own), host)
    assert own.stat().st_size > 0
    assert own.stat().st_mode & 0o777 == 0o600
    write("sub/file", host)
    assert (Path(host.cwd) / "sub" / "file").read_text() == own.read_text()


def test_folder_is_opened_by_names_that_are_not_followed(host: Host) -> None:
    """R-363: a link that comes after the look is not followed."""
    with pytest.raises(OSError, match=r"."):
        safefile.open_chosen_folder(os.path.join(host.cwd, "way"), host.cwd)
    os.close(safefile.open_chosen_folder(os.path.join(os.path.dirname(host.cwd), "own"), host.cwd))


@pytest.mark.parametrize("kind", ["link", "hard link", "fifo"])
def test_init_replaces_what_is_there_and_opens_none_of_it(kind: str, host: Host) -> None:
    """R-363: `--force` waits for no FIFO and writes through no link."""
    place, kept = Path(host.cwd) / "odek.json", Path(host.cwd).parent / "kept"
    kept.write_text("kept")
    if kind == "fifo":
        os.mkfifo(place)
    else:
        {"link": os.symlink, "hard link": os.link}[kind](kept, place)
    with pytest.raises(OdekError, match="exists already"):
        init.main([], host, Screen().terminal)
    init.main(["--force"], host, Screen().terminal)
    assert (place.is_file(), place.is_symlink(), kept.read_text()) == (True, False, "kept")
    assert sorted(os.listdir(host.cwd)) == [".git", "new", "odek.json", "sub", "way"]


def test_a_recording_that_is_a_fifo_is_not_waited_for(host: Host) -> None:
    """R-363."""
    os.mkfifo(os.path.join(host.cwd, "talk.jsonl"))
    settings = resolve(make_layers(flags={"base_url": "replay:talk.jsonl"}))
    with pytest.raises(OdekError, match="not a regular file"):
        make_model(settings, host, notify=print)
