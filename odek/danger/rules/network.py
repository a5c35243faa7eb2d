"""Programs of the network beyond their table rows: what they send, where they write, what they run."""

from __future__ import annotations

import re

from odek.danger.call import Call
from odek.danger.options import Arguments, parse_arguments
from odek.danger.rules.table import DESTROY, EXEC, LOCAL, SYSTEM, Path, table
from odek.patterns import pattern

_SSH_RUNS = pattern(
    r"\s*(?:proxycommand|localcommand|permitlocalcommand|knownhostscommand|match|include|pkcs11provider|securitykeyprovider|proxyusefdpass)\b",
    re.IGNORECASE,
)


def check_transfer(call: Call, _path: Path, arguments: Arguments) -> None:
    """`curl`, `wget`: local files in addresses, files that are created under their remote names."""
    for word in arguments.operands:
        if word.lower().startswith("file:"):
            call.read(re.sub(r"(?i)^file:(?://(?:localhost)?)?", "", word))
    saves = (
        arguments.has("-O", "--remote-name", "--remote-name-all")
        if call.program == "curl"
        else not arguments.has("-O", "--spider")
    )
    if saves:
        call.add(LOCAL, "saves", "writes a file of the name that the server gives")
    if call.program == "curl" and arguments.has("--upload-file", "-T"):
        call.read(*arguments.values("-T", "--upload-file"))


def check_ssh(call: Call, _path: Path, _arguments: Arguments) -> None:
    """`ssh`, `scp`, `sftp`: options that run a local command."""
    parsed = parse_arguments(call.arguments, table().values["ssh"], stop=True)
    for value in parsed.values("-o"):
        if _SSH_RUNS.match(value):
            call.add(EXEC, "command", "runs a local command from an option")
    if parsed.has("-F", "-S", "-E") or any(word.startswith("-") for word in parsed.operands[:1]):
        call.add(EXEC, "file", "reads its settings from a file that may run commands")


def check_cloud(call: Call, _path: Path, arguments: Arguments) -> None:
    """Subcommands of clouds follow patterns: `describe-*` asks, `delete-*` deletes."""
    words = arguments.operands
    joined = " ".join(words[:6])
    if re.search(r"(?:^|\s)(?:delete|terminate|destroy|purge|remove|rb|drop|reset|wipe)(?:-\S+)?(?:\s|$)", joined):
        call.add(DESTROY, "delete", "deletes what runs in a cluster or a cloud")


def check_containers(call: Call, _path: Path, arguments: Arguments) -> None:
    """`docker … rm -f`, `down -v`: data goes with the container."""
    words = arguments.operands
    if "rm" in words[:3] and arguments.has("-v", "--volumes") and "run" not in words[:2]:
        call.add(DESTROY, "remove", "removes data with its container")


def check_github(call: Call, _path: Path, arguments: Arguments) -> None:
    """`gh api`: a method other than GET changes something; `gh extension` and `gh alias` run code."""
    words = arguments.operands
    if words[:1] in (("extension",), ("alias",), ("codespace",)):
        call.add(EXEC, "runs", "installs or runs code")
    if words[:1] == ("api",) and any(v.upper() == "DELETE" for v in arguments.values("-X", "--method")):
        call.add(DESTROY, "delete", "deletes something in the service")
    if words[:1] in (("auth",),) and words[1:2] in (("token",),):
        call.add(SYSTEM, "token", "shows a token")
