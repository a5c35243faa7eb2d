"""The `mcp_servers` object: which programs of others offer tools to the model, and where they run (R-190, R-191). Pure.

An entry decides what is started, so whatever is not understood in it is an error, in a project's file too. What a
project may not say is taken out and named (`McpServer.refused`): its servers run in the sandbox, and only after an
approval of their own (approval/servers.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from odek.config.values import Pair, check_characters, check_references, expand
from odek.errors import ConfigError
from odek.patterns import pattern
from odek.sandbox_grammar import parse_variable_name, require_small_env
from odek.strict_json import described, kind_of, quoted

MAX_SERVERS = 32
"""in one file; each costs a process, and a project's each a question"""
MAX_ARGUMENTS = 256
MAX_ARGV_BYTES = 32 << 10  # what one can be expected to read before saying yes
MAX_TOOLS = 512
STARTUP_S, TIMEOUT_S = 20, 120
PARALLEL, MAX_PARALLEL = 4, 8
"""calls of tools that are called read-only, where nothing is said; calls at most"""
MAX_STARTUP_S, MAX_TIMEOUT_S = 600, 3600
KEYS = (
    "command", "args", "env", "sandbox", "startup_seconds", "timeout_seconds", "parallel", "tools", "allow",
    "required",
)  # fmt: skip
_NAME = pattern(r"[A-Za-z0-9_-]{1,32}")
_NOT_LOCAL = ("url", "headers", "type", "transport")


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """One entry."""

    name: str
    command: str
    """a program, not a command line: no shell reads it"""
    args: tuple[str, ...] = ()
    env: tuple[Pair, ...] = ()
    """sorted by name; of a project's entry as it is written, its ${VAR} not replaced"""
    on_host: bool = False
    """the operator's `"sandbox": false`"""
    startup_s: int = STARTUP_S
    timeout_s: int = TIMEOUT_S
    parallel: int = 0
    """calls of any of its tools that may run at the same time; 0: not said"""
    tools: tuple[str, ...] | None = None
    """the only ones that are offered, by the names that the server gives them; None: all"""
    allow: tuple[str, ...] = ()
    """those that run on the host without a question"""
    required: bool = False
    by_project: bool = False
    refused: tuple[str, ...] = ()
    """keys whose value a project may not set, and that do not count"""


def parse_servers(raw: object, origin: str, *, env: Mapping[str, str] | None) -> tuple[McpServer, ...]:
    """Return the entries, by name. `env` replaces ${VAR} in the operator's; None: the file is a project's.

    Raises ConfigError with the path of what is wrong.
    """
    document = _object(raw, origin)
    if len(document) > MAX_SERVERS:
        raise ConfigError(f"{origin} has {len(document)} entries", hint=f"use at most {MAX_SERVERS}")
    found = [_parse_entry(name, _object(entry, f"{origin}.{name}"), origin, env) for name, entry in document.items()]
    return tuple(sorted(found, key=lambda server: server.name))


def merge_servers(mine: Iterable[object], theirs: Iterable[object]) -> tuple[McpServer, ...]:
    """Return the operator's entries and those of a project that have another name."""
    kept = {server.name: server for server in (*theirs, *mine) if isinstance(server, McpServer)}
    return tuple(kept[name] for name in sorted(kept))


def refusals(mine: Iterable[object], theirs: Iterable[object], *, project_file: str) -> tuple[str, ...]:
    """Return a warning for each thing in a project's entries, `theirs`, that does not count beside the operator's."""
    names = {server.name for server in mine if isinstance(server, McpServer)}
    warnings: list[str] = []
    for server in theirs:
        assert isinstance(server, McpServer)
        where = f'"mcp_servers.{server.name}" in {project_file}'
        if server.name in names:
            warnings.append(f"{where} is ignored: a server of the operator has that name")
            continue
        if "sandbox" in server.refused:
            warnings.append(f'{where}: a server of a project runs in the sandbox; its "sandbox": false is ignored')
        other = [f'"{key}"' for key in server.refused if key != "sandbox"]
        if other:
            warnings.append(f"{where}: a project may not set {', '.join(other)} so; that is ignored")
    return tuple(warnings)


def servers_schema() -> Mapping[str, object]:
    """Return the JSON Schema of the object."""
    names = {"type": "array", "items": {"type": "string", "minLength": 1}}
    properties = {
        "command": {"type": "string", "minLength": 1},
        "args": {"type": "array", "items": {"type": "string"}},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
        "sandbox": {"type": "boolean"},
        "startup_seconds": {"type": "integer", "minimum": 1, "maximum": MAX_STARTUP_S},
        "timeout_seconds": {"type": "integer", "minimum": 1, "maximum": MAX_TIMEOUT_S},
        "parallel": {"type": "integer", "minimum": 1, "maximum": MAX_PARALLEL},
        "tools": names,
        "allow": names,
        "required": {"type": "boolean"},
    }
    entry = {"type": "object", "properties": properties, "required": ["command"], "additionalProperties": False}
    return {"type": "object", "additionalProperties": entry}


def _parse_entry(name: str, entry: dict[str, object], origin: str, env: Mapping[str, str] | None) -> McpServer:
    if not _NAME.fullmatch(name) or "__" in name:
        raise ConfigError(
            f"{quoted(name)} cannot be the name of a server ({origin})",
            hint="use 1 to 32 letters, digits, _ and -, and no double underscore",
        )
    where = f"{origin}.{name}"
    for key in entry:
        if key not in KEYS:
            local = "odek starts local servers, which speak on stdin and stdout; " if key in _NOT_LOCAL else ""
            raise ConfigError(f"unknown key {quoted(key)} in {where}", hint=f"{local}use {' or '.join(KEYS)}")
    command, args = _command(entry, where)
    server = McpServer(
        name=name,
        command=command,
        args=args,
        env=_variables(entry.get("env"), f"{where}.env", env),
        on_host=not _switch(entry, "sandbox", where, default=True),
        startup_s=_whole(entry, "startup_seconds", where, STARTUP_S, MAX_STARTUP_S),
        timeout_s=_whole(entry, "timeout_seconds", where, TIMEOUT_S, MAX_TIMEOUT_S),
        parallel=_whole(entry, "parallel", where, 0, MAX_PARALLEL),
        tools=None if entry.get("tools") is None else _names(entry["tools"], f"{where}.tools"),
        allow=_names(_present(entry, "allow"), f"{where}.allow"),
        required=_switch(entry, "required", where, default=False),
    )
    if env is None:
        return _narrowed(server)
    if server.on_host and "/" in command and not command.startswith("/"):
        raise ConfigError(
            f"{where}.command is a relative path, which names another program in each folder",
            hint="for a server on this host use the name of a program on PATH, or an absolute path",
        )
    return server


def _narrowed(server: McpServer) -> McpServer:
    """Return a project's entry without what a project may not say (R-191)."""
    over = {"startup_seconds": server.startup_s > STARTUP_S, "timeout_seconds": server.timeout_s > TIMEOUT_S}
    said = {"sandbox": server.on_host, **over, "allow": bool(server.allow), "required": server.required}
    return replace(
        server,
        on_host=False,
        startup_s=min(server.startup_s, STARTUP_S),
        timeout_s=min(server.timeout_s, TIMEOUT_S),
        allow=(),
        required=False,
        by_project=True,
        refused=tuple(key for key, is_refused in said.items() if is_refused),
    )


def _command(entry: dict[str, object], where: str) -> tuple[str, tuple[str, ...]]:
    command = entry.get("command")
    if command is None:
        raise ConfigError(f"{where} has no command", hint="name the program that is to be started")
    program = _text(command, f"{where}.command")
    if not program.strip():
        raise ConfigError(f"{where}.command is empty", hint="name the program that is to be started")
    args = _texts(_present(entry, "args"), f"{where}.args", most=MAX_ARGUMENTS)
    if sum(len(word.encode()) for word in (program, *args)) > MAX_ARGV_BYTES:
        raise ConfigError(f"{where} has arguments that are too long", hint=f"use at most {MAX_ARGV_BYTES} bytes")
    return program, args


def _variables(raw: object, where: str, env: Mapping[str, str] | None) -> tuple[Pair, ...]:
    pairs: dict[str, str] = {}
    for name, text in _object({} if raw is None else raw, where).items():
        parse_variable_name(name, where)
        if not isinstance(text, str):  # it may be a secret: not shown
            raise ConfigError(f"{where}.{name} must be a string, not {kind_of(text)}", hint=f"correct {where}")
        check_characters(text, f"{where}.{name}")
        if env is None:
            check_references(text, origin=f"{where}.{name}")
        pairs[name] = text if env is None else expand(text, env, origin=f"{where}.{name}")
    found = tuple(sorted(pairs.items()))
    require_small_env(found, where)
    return found


def _whole(entry: dict[str, object], key: str, where: str, default: int, most: int) -> int:
    value = entry.get(key)
    if value is None:
        return default
    if type(value) is not int:  # a bool is an int to Python
        raise ConfigError(f"{where}.{key} must be a whole number, not {described(value)}", hint=f"correct {where}")
    if not 1 <= value <= most:
        raise ConfigError(f"{where}.{key} is {quoted(value)}, out of range", hint=f"use a number from 1 to {most}")
    return value


def _switch(entry: dict[str, object], key: str, where: str, *, default: bool) -> bool:
    value = entry.get(key)
    if value is None:
        return default
    if type(value) is not bool:
        raise ConfigError(f"{where}.{key} must be true or false, not {described(value)}", hint=f"correct {where}")
    return value


def _present(entry: dict[str, object], key: str) -> object:
    """Return a list of the entry, an empty one where there is none."""
    value = entry.get(key)
    return [] if value is None else value


def _names(raw: object, where: str) -> tuple[str, ...]:
    names = _texts(raw, where, most=MAX_TOOLS)
    if any(not name.strip() for name in names):
        raise ConfigError(f"an entry of {where} is empty", hint="remove the empty entry")
    return names


def _texts(raw: object, where: str, *, most: int) -> tuple[str, ...]:
    if not isinstance(raw, list):
        raise ConfigError(f"{where} must be a list of strings, not {described(raw)}", hint=f"correct {where}")
    if len(raw) > most:
        raise ConfigError(f"{where} has {len(raw)} entries", hint=f"use at most {most}")
    return tuple(_text(entry, f"{where}[{index}]") for index, entry in enumerate(raw))


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{where} must be a string, not {described(value)}", hint=f"correct {where}")
    check_characters(value, where)
    return value


def _object(value: object, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be an object, not {described(value)}", hint=f"correct {where}")
    return value
