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


@pytest.mark.parametrize("shell", [SHELLS[name] for name in SHELLS if shutil.which(SHELLS[name][0])], ids=" ".join)
def test_variables_of_the_operator_arrive_byte_for_byte(shell: tuple[str, ...], tmp_path: Path) -> None:
    """R-32, B15, B16: line ends, quotes, bytes that are not text; in no argument (fakes/local_docker.py)."""
    env = (("A", "x\ny=z\n"), ("B", ""), ("C", "it's '$x' `y` \\ \"q\""), ("D", "\udcff"))
    work, _ = folders(tmp_path)
    done = local_container(str(work), shell, env).run(r'printf "%s\0" "$A" "${B-unset}" "$C" "$D"', timeout_s=30)
    assert done.output.data.split(b"\0")[:-1] == [os.fsencode(value) for _, value in env]
