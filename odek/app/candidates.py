"""What a shell can offer where a value of one kind is typed: networks, sessions, models … (C7).

Nothing is asked of a server and nothing of a project counts; Docker is given a moment. What cannot be had is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from odek.host import Host
from odek.text import truncate, visible

if TYPE_CHECKING:
    from odek.app.config import Config

Candidate = tuple[str, str]
"""a value, and a few words about it: "" where it speaks for itself"""
_DOCKER_S = 2.0
_DESCRIPTION_LENGTH = 60


def find_candidates(kind: str, words: Sequence[str], host: Host) -> list[Candidate]:
    """Return what may stand in place of the last of `words`, the words of the command line as far as it is typed.

    In a list with commas, what stands before the last one stays, and is not offered again. Foreign words are shown as
    they are typed or not at all: a value with a character that a terminal does not show is left out.
    """
    earlier, comma, beginning = words[-1].rpartition(",")
    named = earlier.split(",") if comma else []
    found: dict[str, str] = {}
    for value, text in _SOURCES[kind](words, host):
        if value.startswith(beginning) and value not in named and value == visible(value):
            found.setdefault(earlier + comma + value, truncate(visible(" ".join(text.split())), _DESCRIPTION_LENGTH))
    return list(found.items())


def _docker_rows(host: Host, *arguments: str) -> Iterator[list[str]]:
    """Yield the fields of each line that Docker prints in a format with tabs."""
    from odek.app.runtime import real_docker
    from odek.sandbox.docker import run_docker

    done = run_docker(real_docker(host), *arguments, timeout_s=_DOCKER_S)
    if done.code == 0:
        yield from (line.split("\t") for line in done.stdout.text.splitlines())


def _networks(_: Sequence[str], host: Host) -> Iterator[Candidate]:
    from odek.sandbox_grammar import RESERVED_NETWORKS, is_network_name

    yield "none", "drops those of weaker settings"
    listed = _docker_rows(host, "network", "ls", "--filter", "driver=bridge", "--format", "{{.Name}}")
    names = [row[0] for row in listed]
    yield from ((name, "") for name in names if is_network_name(name) and name not in RESERVED_NETWORKS)


def _compose_projects(_: Sequence[str], host: Host) -> Iterator[Candidate]:
    from odek.sandbox.network.plan import PROJECT_LABEL

    yield "none", "drops the one of weaker settings"
    # not `.Label NAME`, which podman does not have
    listed = _docker_rows(host, "network", "ls", "--filter", f"label={PROJECT_LABEL}", "--format", "{{.Labels}}")
    labels = (label.partition("=") for row in listed for label in row[0].split(","))
    yield from ((value, "") for name, _, value in labels if name == PROJECT_LABEL)


def _images(_: Sequence[str], host: Host) -> Iterator[Candidate]:
    listed = _docker_rows(host, "image", "ls", "--format", "{{.Repository}}:{{.Tag}}\t{{.Size}}")
    yield from ((row[0], " ".join(row[1:])) for row in listed if "<none>" not in row[0])


def _containers(_: Sequence[str], host: Host) -> Iterator[Candidate]:
    from odek.sandbox.argv import LABEL, list_by_label_argv

    listed = _docker_rows(host, *list_by_label_argv(f"{LABEL}=1", "{{.Names}}\t{{.Image}}\t{{.Status}}"))
    yield from ((row[0], " ".join(row[1:])) for row in listed)


def _sessions(_: Sequence[str], host: Host) -> Iterator[Candidate]:
    from odek.app.stored_sessions import open_store

    store = open_store(host, lambda text: text, warn=lambda _: None)
    yield from ((summary.header.id, summary.header.task) for summary in store.list().sessions)


def _approvals(_: Sequence[str], host: Host) -> Iterator[Candidate]:
    from odek.approval.server_store import ServerApprovals
    from odek.approval.store import ApprovalStore, short_id
    from odek.state import StateFolder

    folder = StateFolder(host.operator_home)
    for entry in ApprovalStore(folder).entries():
        yield short_id(entry.key), entry.record.folder if entry.record else ""
    for server in ServerApprovals(folder).entries():
        yield short_id(server.key), f"{server.name}, {server.folder}"


def _tools(words: Sequence[str], host: Host) -> Iterator[Candidate]:
    from odek.app.tools import TOOLS
    from odek.tools.delegate import DELEGATE_TASKS

    yield from ((tool.name, tool.description.partition(". ")[0]) for tool in (*TOOLS, DELEGATE_TASKS))
    config = _config(words, host)
    yield from ((f"{server.name}__", "a tool of this MCP server") for server in config.settings.mcp_servers)


def _probes(_: Sequence[str], host: Host) -> Iterator[Candidate]:
    del host
    from odek.sandbox.probes import CALLS, HIT, INSIDE, OUTSIDE

    yield from ((probe.id, probe.claim) for probe in (*INSIDE, *HIT, *OUTSIDE))
    yield from ((call.id, call.claim) for call in CALLS)


def _providers(words: Sequence[str], host: Host) -> Iterator[Candidate]:
    from odek.config.provider import KNOWN

    yield from ((entry.name, entry.base_url) for entry in _config(words, host).settings.model.providers)
    yield from ((name, known.base_url) for name, known in KNOWN.items())


def _models(words: Sequence[str], host: Host) -> Iterator[Candidate]:
    from odek.app.model import ModelNames, remembered_models
    from odek.config.options import Source

    config = _config(words, host)
    if config.settings.source_of("provider") is not Source.FLAG:
        yield config.settings.model.full_name, "in force"
    names = ModelNames(lambda: config, host, ask=lambda settings: remembered_models(settings, host))
    yield from ((name, "") for name in names(words[-1]))


class _Silent:
    """A person who presses Tab wants no warnings."""

    def warn(self, text: str, hint: str = "") -> None:
        pass

    def without_color(self) -> None:
        pass

    def make_plain(self) -> None:
        pass


def _config(words: Sequence[str], host: Host) -> Config:
    """Return the operator's settings, with the server that the command line names."""
    from odek.app.config import load

    flags: dict[str, object] = {}
    for word, following in pairwise(words):
        flag, equals, value = word.partition("=")
        if flag in ("--provider", "--base-url") and (value or following):
            flags[flag[2:].replace("-", "_")] = value if equals else following
    return load(host, flags, _Silent(), with_project=False)


_SOURCES: dict[str, Callable[[Sequence[str], Host], Iterator[Candidate]]] = {
    "approvals": _approvals,
    "compose": _compose_projects,
    "containers": _containers,
    "images": _images,
    "models": _models,
    "networks": _networks,
    "probes": _probes,
    "providers": _providers,
    "sessions": _sessions,
    "tools": _tools,
}
KINDS = tuple(_SOURCES)
