"""Layers and hosts built by hand, for tests of the configuration."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from odek.config.layers import Environment, Layer, parse_environment, parse_file, parse_flags
from odek.config.options import Source
from odek.config.server import settle_server
from odek.config.sources import SecretFile
from odek.host import Host

NO_SECRETS = SecretFile(values={})


def make_layers(
    *,
    operator: Mapping[str, object] | None = None,
    project: Mapping[str, object] | None = None,
    env: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> tuple[Layer, ...]:
    """Return what read_layers would, from values instead of files; files get `env` for their ${VAR}."""
    env = env or {}
    layers = []
    if operator is not None:
        layers.append(parse_file(json.dumps(operator).encode(), Source.GLOBAL, env))
    if project is not None:
        layers.append(parse_file(json.dumps(project).encode(), Source.PROJECT, env))
    raw = (*layers, parse_environment(env, NO_SECRETS), parse_flags(flags or {}, env))
    return settle_server(raw, Environment(env, NO_SECRETS))


def make_host(root: Path, env: Mapping[str, str] | None = None, *, uid: int, home: str | None = None) -> Host:
    """Return a host whose home is `root`/home and whose working directory is `root`/work."""
    (root / "home" / ".odek").mkdir(parents=True, exist_ok=True)
    (root / "work").mkdir(exist_ok=True)
    return Host(
        env=env or {},
        cwd=str((root / "work").resolve()),
        home=str(root / "home") if home is None else home,
        uid=uid,
        gid=0,
        pid=1,
        stdin_is_terminal=False,
        stdout_is_terminal=False,
        stderr_is_terminal=False,
    )


def bare_host(cwd: str) -> Host:
    """Return a host of which only the working directory matters."""
    return Host(
        env={},
        cwd=cwd,
        home="",
        uid=os.getuid(),
        gid=os.getgid(),
        pid=1,
        stdin_is_terminal=False,
        stdout_is_terminal=False,
        stderr_is_terminal=False,
    )
