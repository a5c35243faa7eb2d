"""The contract of executors, on the host and in a container that a shell of this machine plays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.local_docker import local_container
from support.executor_contract import ExecutorContract, Place

from odek.host_executor.commands import HostExecutor

SHELLS = {"dash": ("dash",), "bash": ("bash", "--posix"), "busybox": ("busybox", "sh")}


def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Return a workspace and a folder beside it."""
    work, outside = (Path(os.path.realpath(tmp_path)) / name for name in ("work", "outside"))
    work.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("of the host")
    return work, outside


class TestHostExecutor(ExecutorContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Iterator[Place]:
        work, outside = folders(tmp_path)
        executor = HostExecutor(cwd=str(work), env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"})
        yield Place(executor, work, outside, seen=str(work))
        executor.close()


class TestContainer(ExecutorContract):
    @pytest.fixture(params=SHELLS)
    def place(self, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
        shell = SHELLS[request.param]
        if not shutil.which(shell[0]):
            pytest.skip(f"no {shell[0]} here")
        work, outside = folders(tmp_path)
        return Place(local_container(str(work), shell), work, outside, seen=str(work))
