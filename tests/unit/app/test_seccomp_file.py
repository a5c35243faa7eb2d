"""Where Docker's client finds odek's filter of system calls."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from fakes.layering import make_host

from odek.app.seccomp_file import profile_file, profile_path
from odek.sandbox.engine import Engine
from odek.sandbox.seccomp import profile_data

OWN = Engine(own_filter=True)


def test_profile_is_written_once_for_the_operator_alone(tmp_path: Path) -> None:
    """S-5: below the operator's folder, named after its content; what has another content is replaced."""
    host = make_host(tmp_path, uid=os.getuid())
    with profile_file(OWN, host) as path:
        assert path == profile_path(OWN, host)
        assert Path(path).read_bytes() == profile_data()
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        inode = os.stat(path).st_ino
    with profile_file(OWN, host) as again:
        assert (again, os.stat(again).st_ino) == (path, inode)
    Path(path).write_bytes(b"{}")
    with profile_file(OWN, host) as again:
        assert Path(again).read_bytes() == profile_data()


def test_no_file_where_the_engines_own_filter_is_used(tmp_path: Path) -> None:
    host = make_host(tmp_path, uid=os.getuid())
    with profile_file(Engine(), host) as path:
        assert (path, profile_path(Engine(), host)) == ("", "")
    assert list((tmp_path / "home" / ".odek").iterdir()) == []


def test_profile_is_a_temporary_file_where_there_is_no_folder_for_it(tmp_path: Path) -> None:
    """S-5, D10: without a HOME, and only as long as the start takes."""
    host = make_host(tmp_path, uid=os.getuid(), home="")
    with profile_file(OWN, host) as path:
        assert Path(path).read_bytes() == profile_data()
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert not os.path.exists(path)
