"""What docker says to the calls that the sandbox makes, recorded from client 28.2 with engine 20.10.

tests/integration/test_docker_contract.py holds the records against the engine at hand, so that a fake
that plays them does not drift from what is real. `{words}` stand for what a real set-up fills in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from odek.sandbox.podman import NOTICE

NOWHERE = "e" * 64
ID = r"[0-9a-f]{64}"


_FIND_IMAGE = "{{.Id}} {{with .Config}}{{json .Volumes}}{{end}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One call, what was answered, and what of the answer the product relies on."""

    name: str
    args: tuple[str, ...]
    stdout: str = ""
    stderr: str = ""
    code: int = 0
    codes: frozenset[int] = frozenset()
    """all the exit codes that engines and clients are known to give; empty: only `code`"""
    stdout_like: str = ""
    """pattern that stdout matches from its beginning to its end"""
    stderr_like: str = r"(?s).*"
    dockers_own: bool = False
    """whether podman knows no such call, and is asked in another way or not at all (M-27)"""

    @property
    def allowed(self) -> frozenset[int]:
        return self.codes or frozenset((self.code,))


FAILED_RUN = frozenset((1, 125, 126, 127))
RECORDS = (
    Record(
        name="probe",
        args=("version", "--format", "{{.Server.Version}}"),
        stdout="20.10.24+dfsg1\n",
        stdout_like=r"[0-9]+\.\S+\n",
    ),
    Record(
        name="machine",
        dockers_own=True,
        args=("version", "--format", "{{.Server.Arch}}"),
        stdout="amd64\n",
        stdout_like=r"[a-z0-9]+\n",
    ),
    Record(
        name="image that is there",
        args=("image", "inspect", "--format", _FIND_IMAGE, "--", "{image}"),
        stdout=f"sha256:{'a' * 64} null\n",
        stdout_like=rf"(sha256:)?{ID} (null|\{{.*\}})\n",
    ),
    Record(
        name="image that is not there",
        args=("image", "inspect", "--format", _FIND_IMAGE, "--", "odek-test-nosuch:1"),
        stdout="\n",
        stderr="Error response from daemon: no such image: odek-test-nosuch:1: No such image: odek-test-nosuch:1\n",
        code=1,
        codes=frozenset((1, 125)),
        stdout_like=r"(\[\])?\s*",
        stderr_like=r"(?s).+",
    ),
    Record(
        name="pull that is refused",
        args=("pull", "--", "127.0.0.1:1/none:1"),
        stderr='Error response from daemon: Get "http://127.0.0.1:1/v2/": dial tcp: connect: connection refused\n',
        code=1,
        codes=frozenset((1, 125)),
        stdout_like=r"(?s).*",
        stderr_like=r"(?s).+",
    ),
    Record(
        name="run under a name that is taken",
        args=("run", "--rm", "--pull", "never", "--name", "{name}", "--", "{image_id}", "true"),
        stderr=(
            'docker: Error response from daemon: Conflict. The container name "/x" is already in use by container "c". '
            "You have to remove (or rename) that container to be able to reuse that name.\n"
        ),
        code=125,
        codes=FAILED_RUN,
        stderr_like=r"(?s).*already in use.*",
    ),
    Record(
        name="run of an image that is not there",
        args=("run", "--rm", "--pull", "never", "--", f"sha256:{NOWHERE}", "true"),
        stderr=f"docker: Error response from daemon: No such image: sha256:{NOWHERE}\n",
        code=125,
        codes=FAILED_RUN,
        stderr_like=r"(?s).+",
    ),
    Record(
        name="run on a network that is not there",
        args=("run", "--rm", "--pull", "never", "--network", NOWHERE, "--", "{image_id}", "true"),
        stderr=f"docker: Error response from daemon: network {NOWHERE} not found\n",
        code=125,
        codes=FAILED_RUN,
        stderr_like=r"(?s).+",
    ),
    Record(
        name="run of a program that is not there, with init",
        args=("run", "--rm", "--pull", "never", "--init", "--entrypoint", "nosuch", "--", "{image_id}"),
        stderr="[FATAL tini (6)] exec nosuch failed: No such file or directory\n",
        code=127,
        codes=FAILED_RUN,
    ),
    Record(
        name="container that is there",
        args=("inspect", "--type", "container", "--", "{name}"),
        stdout='[\n    {\n        "Id": "x"\n    }\n]\n',
        stdout_like=r"(?s)\[\s*\{.*\}\s*\]\n",
    ),
    Record(
        name="container that is not there",
        args=("inspect", "--type", "container", "--", NOWHERE),
        stdout="[]\n",
        stderr=f"Error response from daemon: No such container: {NOWHERE}\n",
        code=1,
        codes=frozenset((1, 125)),
        stdout_like=r"\[\]\n",
        stderr_like=r"(?s).+",
    ),
    Record(name="exec with a status", args=("exec", "--user", "1:1", "{name}", "sh", "-c",
    "echo o; echo e >&2; exit 42"),
           stdout="o\n", stderr="e\n", code=42, stdout_like=r"o\n", stderr_like=rf"({re.escape(NOTICE)}.*\n)?e\n"),
    Record(
        name="exec in a container that is not there",
        args=("exec", NOWHERE, "true"),
        stderr=f"Error response from daemon: No such container: {NOWHERE}\n",
        code=1,
        codes=frozenset((1, 125)),
        stderr_like=r"(?s).+",
    ),
    Record(
        name="exec of a program that is not there",
        args=("exec", "{name}", "nosuch"),
        stdout="OCI runtime exec failed: exec failed: …: executable file not found in $PATH: unknown\r\n",
        code=126,
        codes=frozenset((126, 127, 128)),
        stdout_like=r"(?s).*",
    ),
    Record(
        name="exec as a user that is not there",
        args=("exec", "--user", "nosuch", "{name}", "true"),
        stdout="unable to find user nosuch: no matching entries in passwd file\r\n",
        code=126,
        codes=frozenset((1, 125, 126, 255)),
        stdout_like=r"(?s).*",
    ),
    Record(
        name="listing of containers by label",
        dockers_own=True,
        args=("ps", "--all", "--no-trunc", "--filter", "label={label}", "--format",
        '{{.ID}}\t{{json (.Label "odd")}}\t{{json (.Label "none")}}'),
        stdout=f'{"c" * 64}\t"a\\n\\"b\\t"\t""\n',
        stdout_like=rf'{ID}\t"a\\n\\"b\\t"\t""\n',
    ),
    Record(name="listing of nothing", args=("ps", "--all", "--no-trunc", "--filter", "label=odek.none=1", "--format",
    "{{.ID}}")),
    Record(
        name="removal of what is not there",
        args=("rm", "--force", "--volumes", "--", NOWHERE),
        stderr=f"Error response from daemon: No such container: {NOWHERE}\n",
        codes=frozenset((0, 1)),
        stdout_like=r"\s*",
    ),
    Record(
        name="listing of networks",
        dockers_own=True,
        args=(
            "network", "ls", "--no-trunc", "--format", "[{{json .ID}},{{json .Name}},{{json .Driver}},{{json .Scope}}]",
        ),
        stdout=f'["{"b" * 64}","bridge","bridge","local"]\n',
        stdout_like=rf'(\["({ID}|[0-9a-z]{{25}})","[^"]+","[^"]+","(local|global|swarm)"\]\n)+',
    ),
    Record(
        name="network that is not there",
        args=("network", "inspect", "--", NOWHERE),
        stdout="[]\n",
        stderr=f"Error response from daemon: network {NOWHERE} not found\n",
        code=1,
        codes=frozenset((1, 125)),
        stdout_like=r"\[\]\n",
        stderr_like=r"(?s).+",
    ),
    Record(
        name="connecting to a network that is not there",
        args=("network", "connect", "--", NOWHERE, "{name}"),
        stderr=f"Error response from daemon: network {NOWHERE} not found\n",
        code=1,
        codes=frozenset((1, 125)),
        stderr_like=r"(?s).+",
    ),
)  # fmt: skip
