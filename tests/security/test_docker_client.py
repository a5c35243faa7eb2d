"""What a sandbox could leave for Docker's client to run on this host at the next start."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest
from support.docker_engine import Engine
from support.odek_process import Odek

PLUGIN = """#!/bin/sh
echo run >>{marker}
echo '{{"SchemaVersion":"0.1.0","Vendor":"x","Version":"1","ShortDescription":"x"}}'
"""


@pytest.mark.docker_only  # podman reads none of these settings
def test_settings_that_a_sandbox_can_write_run_nothing(odek: Odek, docker_engine: Engine, tmp_path: Path) -> None:
    """F2: S-4 odek itself runs no program from the working directory; nor does Docker's client, for credential helpers
    or plugins."""
    dotfiles, marker = tmp_path / "dotfiles", tmp_path / "marker"
    (dotfiles / "plugins").mkdir(parents=True)
    for folder in (dotfiles / "plugins", dotfiles / "cli-plugins"):
        folder.mkdir(exist_ok=True)
        (folder / "docker-evil").write_text(PLUGIN.format(marker=marker))
        (folder / "docker-evil").chmod(0o755)
    (dotfiles / "config.json").write_text(
        json.dumps({"cliPluginsExtraDirs": [str(dotfiles / "plugins")], "credsStore": "x/../../evil"})
    )
    (odek.home / ".docker").symlink_to(dotfiles)
    env = {**os.environ, "HOME": str(odek.home)}
    env.pop("DOCKER_CONFIG", None)
    subprocess.run([docker_engine.client, "info"], env=env, capture_output=True, check=True, cwd=odek.cwd)
    assert marker.exists()  # the attack works where the client reads the user's settings itself
    marker.unlink()
    (odek.home / ".odek").mkdir(mode=0o700)
    outcome = odek.run("sandbox", "ls")
    assert (outcome.code, marker.exists()) == (0, False), outcome.stderr
    outcome = odek.run("sandbox", "doctor")
    assert not marker.exists(), outcome.stdout
    assert f"is a link to {dotfiles}/config.json" in outcome.stdout
    own = list((odek.home / ".odek" / "docker").iterdir())
    assert [stat.S_IMODE(path.stat().st_mode) for path in own] == [0o700]
    assert [path.name for path in own[0].iterdir() if path.name == "cli-plugins"] == []
