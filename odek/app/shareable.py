"""Whether a folder may be shared with a sandbox (S-6 of SECURITY.md): asked before anything else is made ready."""

from __future__ import annotations

from odek.host import Host, home_of_owner
from odek.sandbox.client_config import read_client_config
from odek.sandbox.workdir import check_workdir


def require_shareable(host: Host) -> None:
    """Raise SandboxConfigError for a working directory that is not shared with a sandbox."""
    client = read_client_config(host.env, home=host.home)  # one that cannot name its daemon is not "unreachable"
    check_workdir(
        host.cwd,
        home=host.home,
        docker_host=client.host,  # that of a context as well (F5)
        docker_config=client.folder,
        home_of_owner=home_of_owner(host.cwd),
        operator_folder=host.operator_home.folder,
    )
