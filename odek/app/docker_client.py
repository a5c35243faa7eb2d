"""The folder of settings that odek gives to Docker's client (F2)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from odek.errors import StateFileError
from odek.host import Host
from odek.sandbox.client_config import ClientConfig, copied_files, read_client_config, read_file
from odek.sandbox.errors import SandboxConfigError
from odek.state import StateFolder
from odek.text import visible

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

FOLDER = "docker"
_TEMPORARY = "odek-build-"  # of the kind that the next build removes when odek was killed


@dataclass(slots=True)
class ClientFolder:
    """A DOCKER_CONFIG of odek's own: below ~/.odek, or for the life of this object where that cannot be."""

    host: Host
    _temporary: TemporaryDirectory[str] | None = field(default=None, init=False)

    def environment(self) -> Mapping[str, str]:
        """Write the folder where it is not as it should be; return the variables that lead to it.

        Raises SandboxConfigError when the client's settings cannot be read, or the folder not be written.
        """
        config = read_client_config(self.host.env, home=self.host.home)
        try:
            files = copied_files(config, read_file)
        except (OSError, ValueError) as error:
            raise SandboxConfigError(
                f'the Docker context "{visible(config.context)}" cannot be read: {error}',
                hint="see `docker context ls`",
            ) from error
        variables = {"DOCKER_CONFIG": self._written(config, files)}
        env = self.host.env
        if (env.get("DOCKER_TLS_VERIFY") or env.get("DOCKER_TLS")) and not env.get("DOCKER_CERT_PATH"):
            variables["DOCKER_CERT_PATH"] = config.folder  # where the client looks when nothing names another one
        return variables

    def _written(self, config: ClientConfig, files: Mapping[tuple[str, ...], bytes]) -> str:
        # by where it comes from, so that a change replaces what was there: passwords do not pile up
        source = f"{config.folder}\0{config.context}".encode("utf-8", "surrogateescape")
        name = hashlib.sha256(source).hexdigest()[:16]
        try:
            where = self.host.operator_home
            if not os.path.isdir(where.folder):  # nothing of odek's is kept here yet, and this need not be the first
                return self._written_for_now(files)
            for path, data in files.items():
                folder = StateFolder(where, parts=(FOLDER, name, *path[:-1]))
                if folder.read(path[-1]) != data:
                    folder.write(path[-1], data)
            return where.path(FOLDER, name)
        except StateFileError:  # no home, a disk that cannot be written: the settings are needed all the same
            return self._written_for_now(files)

    def _written_for_now(self, files: Mapping[tuple[str, ...], bytes]) -> str:
        import tempfile  # where odek has no folder

        try:
            self._temporary = tempfile.TemporaryDirectory(prefix=_TEMPORARY, dir=_temporary_folder(self.host))
            for path, data in files.items():
                place = os.path.join(self._temporary.name, *path)
                os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
                with open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(data)
        except OSError as error:
            raise SandboxConfigError(
                f"no folder can be made for the settings of Docker's client: {error.strerror}",
                hint="let ODEK_HOME or TMPDIR name a folder of your own with room",
            ) from error
        return self._temporary.name


def _temporary_folder(host: Host) -> str:
    """Return the folder for temporary files. Raises SandboxConfigError when the project holds it."""
    import tempfile

    folder = os.path.realpath(tempfile.gettempdir())
    if (folder + "/").startswith(host.cwd.rstrip("/") + "/"):
        raise SandboxConfigError(
            f'the folder for temporary files, "{visible(folder)}", lies in the working directory',
            hint="let ODEK_HOME or TMPDIR name a folder outside of it",
        )
    return folder
