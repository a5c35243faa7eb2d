"""Every setting of odek, one row each (R-11, R-12), and the settings in force.

A row is an attribute: `ModelSettings.max_iterations` is the Option, `settings.model.max_iterations` its value, typed
by the row's kind. Adding a setting is one row here and one use: the files, variables and flags with their errors,
`odek config view`, the help, the JSON Schema, the templates and the table in docs/CONFIG.md follow from the row. For
one that ends in the `docker run` line, docs/ARCHITECTURE.md lists where else it passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from odek.config.danger import DangerSettings, PolicyKind, grant, parse_granted
from odek.config.options import Option, OptionGroup, ProjectRule, Resolved, Source
from odek.config.provider import KNOWN, Provider, address_of, choose_provider
from odek.config.provider_entries import ModelEntry, ProviderEntry, ProvidersKind
from odek.config.serve import ServeSettings
from odek.config.server_list import ServerList
from odek.config.snapshots import SnapshotSettings
from odek.config.subagent import SubagentSettings
from odek.config.values import (
    ApiKey,
    Decimal,
    FileNames,
    Kind,
    Limit,
    Parsed,
    ProviderName,
    Switch,
    Text,
    Texts,
    Url,
    Variables,
    Whole,
    names_host,
    parse_hosts,
)
from odek.sandbox_grammar import (
    MAX_PIDS_LIMIT,
    MIN_PIDS_LIMIT,
    Cpus,
    Memory,
    NetworkMode,
    TmpSize,
    parse_compose_project,
    parse_cpus,
    parse_memory,
    parse_network_mode,
    parse_network_names,
    parse_tmp_size,
    parse_user,
    parse_volumes,
)

T = TypeVar("T")

_SURFACES = ("run", "repl", "serve", "mcp")
_TASKS = ("run", "continue", "repl")
_ASKING = ("run", "continue", "repl", "serve", "mcp", "models")
"""commands that ask a model's server"""


def _sandbox(
    key: str,
    kind: Kind[T],
    text: str,
    *,
    default: T,
    flag: str = "",
    metavar: str = "",
    project: ProjectRule = ProjectRule.NEEDS_APPROVAL,
    merge: Literal["replace", "by name", "union"] = "replace",
    off_word: str = "",
    expands: bool = False,
    lenient: str = "",
) -> Option[T]:
    """Return a row of the container: the key sandbox_X, the variable ODEK_SANDBOX_X and `flag`.

    Without a flag there is no variable either: the row is for files only.
    `project` is what ./odek.json may do with it; FORBIDDEN leaves it to the operator.
    """
    env = ("ODEK_" + key.upper(),) if flag else ()
    return Option(
        key, kind, text, default=default, env=env, flag=flag, metavar=metavar, group="sandbox", project=project,
        merge=merge, off_word=off_word, expands=expands, lenient=lenient,
    )  # fmt: skip


def _limit(key: str, text: str, *, flag: str, metavar: str) -> Option[int | None]:
    """Return a row of a task's budget: unset, there is no limit."""
    return Option[int | None](
        key, Whole(1), text, default=None, flag=flag, metavar=metavar, commands=(*_TASKS, "serve", "mcp"),
        group="limits", project=ProjectRule.CAN_LOWER,
    )  # fmt: skip


def _operator_switch(key: str, text: str) -> Option[bool]:
    """Return a switch that only a variable of the operator's environment can set."""
    return Option(key, Switch(), text, default=False, env=("ODEK_" + key.upper(),), group="sandbox", in_file=False)


class ModelSettings(OptionGroup):
    """Which model is asked, and how."""

    model = Option(
        "model", Text(), "The model to talk to, or PROVIDER/NAME for one of another provider",
        default="deepseek-v4-flash", env=("ODEK_MODEL",), flag="--model", short="-m", metavar="MODEL", group="model",
        project=ProjectRule.ALLOWED, expands=True,
    )  # fmt: skip
    base_url = Option(
        "base_url", Url(), "The root of an OpenAI-compatible or Anthropic API, or replay:FILE to play a recording",
        default="https://api.deepseek.com/v1", env=("ODEK_BASE_URL",), flag="--base-url", metavar="URL",
        commands=_ASKING, group="model", expands=True,
    )  # fmt: skip
    provider_name = Option(
        "provider", ProviderName(tuple(KNOWN)),
        "Who serves the model: brings the address, unless base_url is set next to it, and the API", default="",
        env=("ODEK_PROVIDER",), flag="--provider", metavar="PROVIDER", commands=_ASKING, group="model",
    )  # fmt: skip
    """"" when none is named"""
    providers = Option(
        "providers", ProvidersKind(), "Servers by name: address, key, dialect, models with their window and prices",
        default=(), group="model",
    )  # fmt: skip
    api_key = Option(
        "api_key", ApiKey(), "The key that is sent to base_url", default="", env=("ODEK_API_KEY",),
        # each for its own servers: provider.py
        fallback_env=(
            "DEEPSEEK_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY",
            "MISTRAL_API_KEY", "GROQ_API_KEY", "XAI_API_KEY", "MOONSHOT_API_KEY", "DASHSCOPE_API_KEY",
            "MINIMAX_API_KEY",
        ),
        group="model", expands=True,
    )  # fmt: skip
    """"" when there is none"""
    thinking = Option(
        "thinking", Text(("enabled", "disabled", "low", "medium", "high")),
        "How much a reasoning model thinks; the model's profile decides when unset", default="",
        env=("ODEK_THINKING",), flag="--thinking", metavar="LEVEL", group="model", project=ProjectRule.ALLOWED,
        expands=True,
    )  # fmt: skip
    thinking_budget = Option(
        "thinking_budget", Whole(1), "Tokens a reasoning model may think with thinking=enabled", default=5000,
        flag="--thinking-budget", metavar="N", group="model", in_file=False,
    )  # fmt: skip
    temperature = Option(
        "temperature", Decimal(0, 2), "Sampling temperature, from 0 to 2", default=0.0, flag="--temperature",
        metavar="X", group="model", in_file=False,
    )  # fmt: skip
    prompt_caching = Option[bool | None](
        "prompt_caching", Switch(), "Cache markers in requests; unset: in those of Anthropic's API", default=None,
        env=("ODEK_PROMPT_CACHING",), flag="--prompt-caching", group="model", project=ProjectRule.ALLOWED,
    )  # fmt: skip
    max_iterations = Option(
        "max_iterations", Whole(1), "How often the model is asked before a run gives up", default=90,
        env=("ODEK_MAX_ITER",), flag="--max-iter", metavar="N", group="model", project=ProjectRule.CAN_LOWER,
    )  # fmt: skip
    record = Option(
        "record", Text(), "Write what the model answers to FILE, for replay:FILE", default="", flag="--record",
        metavar="FILE", commands=_TASKS, group="model", in_file=False,
    )  # fmt: skip

    @property
    def provider(self) -> Provider:
        """which of two APIs is spoken"""
        named = next((entry for entry in self.providers if entry.name == self.provider_name), None)
        return named.api if named else choose_provider(self.provider_name, self.base_url)

    @property
    def server(self) -> str:
        """the name of the provider whose address is in force, "" where it is that of none"""
        at = self.base_url.rstrip("/")
        names = [entry.name for entry in self.providers if entry.base_url.rstrip("/") == at]
        names += [name for name in KNOWN if address_of(name) == at]
        return self.provider_name if self.provider_name in names else next(iter(names), "")

    @property
    def entry(self) -> ProviderEntry | None:
        """what the operator says of that provider"""
        return next((entry for entry in self.providers if entry.name == self.server), None)

    @property
    def model_entry(self) -> ModelEntry | None:
        """what the operator says of the model"""
        return self.entry.find_model(self.model) if self.entry else None

    @property
    def chosen_server(self) -> str:
        """the name of the provider, where it was chosen by name"""
        return self.server if self.server == self.provider_name else ""

    @property
    def full_name(self) -> str:
        """the model, with its provider where that was chosen by name"""
        return f"{self.chosen_server}/{self.model}" if self.chosen_server else self.model


class LimitSettings(OptionGroup):
    """What one task may use up; None: no limit."""

    runtime_s = _limit(
        "limits.max_runtime_seconds", "Seconds that a task may take", flag="--max-runtime", metavar="SECONDS"
    )
    tool_calls = _limit(
        "limits.max_tool_calls", "Tool calls that a task may make", flag="--max-tool-calls", metavar="N"
    )
    input_tokens = _limit(
        "limits.max_input_tokens", "Tokens that a task may send to the model, over all its requests",
        flag="--max-input-tokens", metavar="N",
    )  # fmt: skip
    output_tokens = _limit(
        "limits.max_output_tokens", "Tokens that the model may write for a task", flag="--max-output-tokens",
        metavar="N",
    )  # fmt: skip
    cost_usd = Option[float | None](
        "limits.max_cost_usd", Decimal(0.0001, 1_000_000), "USD that a task may cost, at the prices in providers",
        default=None, flag="--max-cost-usd", metavar="USD", commands=(*_TASKS, "serve", "mcp"),
        group="limits", project=ProjectRule.CAN_LOWER,
    )  # fmt: skip


class SandboxSettings(OptionGroup):
    """What the container shall be, not yet checked against Docker; "", () and None are unset."""

    enabled = Option[bool | None](
        "sandbox", Switch(), "Run commands in a container, and stop when that cannot be had", default=None,
        env=("ODEK_SANDBOX",), flag="--sandbox", commands=("run", "repl", "serve", "mcp"), off_flag="--no-sandbox",
        off_commands=_SURFACES, off_help="Run commands on this host, without a container", group="sandbox",
        project=ProjectRule.CAN_ENABLE,
    )  # fmt: skip
    """None: the command's own default counts"""
    image = _sandbox(
        "sandbox_image", Text(), "The image of the container; unset: Dockerfile.odek, else a pinned Alpine",
        flag="--sandbox-image", metavar="REF", default="", expands=True,
    )  # fmt: skip
    """checked where an image is chosen: with the sandbox off, a bad reference stops nothing (D-25)"""
    network = _sandbox(
        "sandbox_network", Parsed[NetworkMode](parse_network_mode, choices=("none", "bridge")),
        "none, or bridge for access to the internet (and to this host)", flag="--sandbox-network", metavar="MODE",
        default="none", expands=True, lenient="ODEK_SANDBOX_NETWORK_LENIENT",
    )  # fmt: skip
    networks = _sandbox(
        "sandbox_networks", Texts(parse_network_names),
        "Existing Docker networks to attach; none drops those of weaker settings",
        flag="--sandbox-networks", metavar="NETWORK,…", default=(), expands=True, off_word="none",
    )  # fmt: skip
    compose_project = _sandbox(
        "sandbox_compose_project", Text(parse=parse_compose_project),
        "A Compose project whose networks are attached; none drops it",
        flag="--sandbox-compose", metavar="PROJECT", default="", expands=True, off_word="none",
    )  # fmt: skip
    pids_limit = _sandbox(
        "sandbox_pids_limit", Whole(MIN_PIDS_LIMIT, MAX_PIDS_LIMIT), "How many processes the container may hold",
        flag="--sandbox-pids-limit", metavar="N", default=4096, project=ProjectRule.CAN_LOWER,
    )  # fmt: skip
    readonly = _sandbox(
        "sandbox_readonly", Switch(), "Mount the working directory read-only", flag="--sandbox-readonly",
        default=False, project=ProjectRule.CAN_ENABLE,
    )  # fmt: skip
    git = _sandbox(
        "sandbox_git", Switch(),
        "Share git's data, read-only, where the working directory is a linked worktree", flag="--sandbox-git",
        default=False, project=ProjectRule.FORBIDDEN,
    )  # fmt: skip
    memory = _sandbox(
        "sandbox_memory", Limit[Memory | None](parse_memory), "Memory limit, such as 512m or 2g",
        flag="--sandbox-memory", metavar="SIZE", default=None, project=ProjectRule.CAN_LOWER, expands=True,
    )  # fmt: skip
    cpus = _sandbox(
        "sandbox_cpus", Limit[Cpus | None](parse_cpus), "Limit of processor time, such as 0.5 or 2",
        flag="--sandbox-cpus", metavar="N", default=None, project=ProjectRule.CAN_LOWER, expands=True,
    )  # fmt: skip
    tmp_size = _sandbox(
        "sandbox_tmp_size", Limit(parse_tmp_size),
        "Size of /tmp, which is memory; unset: 1g, or half of sandbox_memory if less", flag="--sandbox-tmp-size",
        metavar="SIZE", default=TmpSize("1g", 1 << 30), project=ProjectRule.CAN_LOWER, expands=True,
    )  # fmt: skip
    user = _sandbox(
        "sandbox_user", Text(parse=parse_user),
        "User of the commands, uid:gid or a name of the image; unset: who started odek", flag="--sandbox-user",
        metavar="USER", default="", expands=True,
    )  # fmt: skip
    env = _sandbox(
        "sandbox_env", Variables(), "Variables in the environment of the commands", default=(), merge="by name",
        expands=True,
    )  # fmt: skip
    """sorted by name; the values named in `raw_env` still hold their ${VAR}"""
    volumes = _sandbox(
        "sandbox_volumes",
        Texts(parse_volumes),
        "Further folders of the working directory to mount, as host:container",
        default=(),
    )

    def __init__(
        self, resolved: Mapping[str, Resolved], *, raw_env: tuple[str, ...], networks_asked_by: tuple[str, ...]
    ) -> None:
        super().__init__(resolved)
        self.raw_env = raw_env
        """names whose value a project wrote: values.expand_marked, after approval (R-17)"""
        self.networks_asked_by = networks_asked_by
        """the operator's layers that ask for networks or a Compose project, also where a stronger one dropped them"""


class Settings(OptionGroup):
    """Everything that the layers said, put together."""

    system = Option(
        "system", Text(), "Text that replaces the built-in identity of the agent", default="", env=("ODEK_SYSTEM",),
        flag="--system", metavar="TEXT", expands=True,
    )  # fmt: skip
    no_agents = Option(
        "no_agents", Switch(), "Do not read AGENTS.md", default=False, env=("ODEK_NO_AGENTS",), flag="--no-agents",
        project=ProjectRule.CAN_ENABLE,  # its AGENTS.md must not come in where the operator has refused it
    )  # fmt: skip
    no_color = Option(
        "no_color", Switch(), "No colours", default=False, env=("ODEK_NO_COLOR", "NO_COLOR"), flag="--no-color",
        project=ProjectRule.ALLOWED,
    )  # fmt: skip
    plain = Option(
        "plain", Switch(), "Whole lines of words, for a screen reader: no colours, no drawing, nothing that moves",
        default=False, env=("ODEK_PLAIN",), flag="--plain", project=ProjectRule.FORBIDDEN,
    )  # fmt: skip
    interaction_mode = Option(
        "interaction_mode", Text(("engaging", "enhance", "verbose", "off")),
        "How much is shown on stderr while the agent works", default="engaging", env=("ODEK_INTERACTION_MODE",),
        flag="--interaction-mode", metavar="MODE", commands=_TASKS,
    )  # fmt: skip
    json = Option(
        "json", Switch(), "Events as JSON lines on stdout instead of the answer", default=False, flag="--json",
        commands=("run", "continue", "serve"), in_file=False,
    )  # fmt: skip
    ctx = Option(
        "ctx", FileNames(), "Files to give the model, and the sandbox; - is stdin", default=(), flag="--ctx",
        short="-c", metavar="FILE,…", commands=("run", "continue"), in_file=False,
    )  # fmt: skip
    images = Option(
        "image", FileNames(), "Images to show the model: PNG, JPEG, GIF or WebP", default=(), flag="--image",
        metavar="FILE,…", commands=("run", "continue"), in_file=False,
    )  # fmt: skip
    tools_enabled = Option[tuple[str, ...] | None](
        "tools.enabled", Texts(), "The only tools the model gets; unset: all, none: no tools", default=None,
        env=("ODEK_TOOLS_ENABLED",), flag="--tool", metavar="TOOL", group="tools", off_word="none",
    )  # fmt: skip
    tools_disabled = Option(
        "tools.disabled", Texts(), "Tools the model does not get, gathered from every layer", default=(),
        env=("ODEK_TOOLS_DISABLED",), flag="--no-tool", metavar="TOOL", group="tools", project=ProjectRule.ALLOWED,
        merge="union",
    )  # fmt: skip
    max_tool_parallel = Option(
        "max_tool_parallel", Whole(1, 64), "Tool calls of one answer that may run at the same time", default=4,
        env=("ODEK_MAX_TOOL_PARALLEL",), group="tools", project=ProjectRule.ALLOWED,
    )  # fmt: skip
    mcp_servers = Option(
        "mcp_servers", ServerList(), "MCP servers whose tools the model gets; see MCP.md", default=(), group="tools",
        project=ProjectRule.ASKS_ITSELF, merge="by server",
    )  # fmt: skip
    """each a config.mcp_servers.McpServer, sorted by name"""
    dangerous = Option(
        "dangerous", PolicyKind(), "Which classes of commands run, ask or are refused", default=DangerSettings(),
        group="tools",
    )  # fmt: skip
    granted = Option(
        "allow", Texts(parse_granted), "Classes of danger that need no approval in this run", default=(),
        env=("ODEK_ALLOW",), flag="--allow", metavar="CLASS,…", commands=(*_TASKS, "serve", "mcp"), group="tools",
        in_file=False,
    )  # fmt: skip
    allow_http = Option(
        "allow_http", Texts(parse_hosts), "Hosts in whose address plain http is allowed, for servers of the LAN",
        default=(), env=("ODEK_ALLOW_HTTP",), group="model", in_file=False,
    )  # fmt: skip
    mcp_elicitation = Option[bool | None](
        "mcp.elicitation", Switch(), "Let a client of odek mcp be asked for approvals; unset: for the sandbox only",
        default=None, env=("ODEK_MCP_ELICITATION",),
    )  # fmt: skip
    """None: for the sandbox only. A client may answer for its user, and there the container is the wall"""
    no_sandbox = _operator_switch("no_sandbox", "Opt out of the sandbox on run, repl, serve and mcp")
    require_sandbox = _operator_switch("require_sandbox", "Stop whenever commands would run without a sandbox")
    require_verified = _operator_switch(
        "require_verified", "Start only sandboxes in which odek sandbox verify finds nothing open"
    )
    required_probes = Option(
        "require", Texts(), "Probes of odek sandbox verify that must have found the sandbox closed", default=(),
        flag="--require", metavar="PROBE,…", commands=(*_TASKS, "serve"), group="sandbox", in_file=False,
    )  # fmt: skip
    approve_project_sandbox = _operator_switch(
        "approve_project_sandbox", "Approve what a project asks of the sandbox, for automation"
    )
    approve_mcp = _operator_switch(
        "approve_mcp", "Approve the MCP servers of a project and their tools, for automation"
    )
    build_network = _operator_switch("sandbox_build_network", "Give the build of Dockerfile.odek the network")
    network_lenient = _operator_switch(
        "sandbox_network_lenient", "Turn a bad sandbox_network into none, with a warning"
    )
    suppress_sandbox_warning = _operator_switch(
        "suppress_sandbox_warning", "Do not remind that commands run on the host because the operator said so"
    )

    def __init__(
        self,
        resolved: Mapping[str, Resolved],
        *,
        raw_env: tuple[str, ...],
        networks_asked_by: tuple[str, ...],
        warnings: tuple[str, ...],
    ) -> None:
        super().__init__(resolved)
        self.model = ModelSettings(resolved)
        self.limits = LimitSettings(resolved)
        self.subagent = SubagentSettings(resolved)
        self.sandbox = SandboxSettings(resolved, raw_env=raw_env, networks_asked_by=networks_asked_by)
        self.serve = ServeSettings(resolved)
        self.snapshots = SnapshotSettings(resolved)
        self.danger = grant(self.dangerous, self.granted, self.origin_of("allow"))
        """what is allowed, asked or refused in this run"""
        self.warnings = warnings
        """for the operator, in order; one line each, fit for a terminal"""

    @property
    def may_use_plain_http(self) -> bool:
        """whether the operator means an address without TLS: by the file, or by the name of its host"""
        address = self.model.base_url
        meant = self.source_of("base_url") is Source.GLOBAL or self.model.entry is not None
        return meant or bool(self.allow_http and names_host(address, self.allow_http))

    def source_of(self, key: str) -> Source:
        """Return who set the option `key`."""
        return self.resolved[key].source

    def origin_of(self, key: str) -> str:
        """Return the file, variable or flag that set the option `key`, or "default"."""
        return self.resolved[key].origin

    @property
    def verification_asked_by(self) -> str:
        """who wants the sandbox attacked before it is used; "" when none does"""
        if self.required_probes:
            return self.origin_of("require")
        return "ODEK_REQUIRE_VERIFIED" if self.require_verified else ""

    @property
    def sandbox_required_by(self) -> str:
        """what forbids commands on this host, whatever else is set; "" when nothing does"""
        return "ODEK_REQUIRE_SANDBOX" if self.require_sandbox else self.verification_asked_by

    @property
    def withheld_tools(self) -> tuple[str, ...]:
        """the tools that are taken away: without `shell` there are to be no commands, so `parallel_shell` goes with it,
        unless it was asked for by name"""
        disabled = self.tools_disabled
        if "shell" in disabled and "parallel_shell" not in (*disabled, *(self.tools_enabled or ())):
            return (*disabled, "parallel_shell")
        return disabled

    def was_set(self, key: str) -> bool:
        """Return whether any layer set the option `key`."""
        return self.source_of(key) > Source.DEFAULT


_GROUPS = ("model", "limits", "agent", "tools", "sandbox", "serve")
OPTIONS: tuple[Option[Any], ...] = tuple(
    sorted(
        (
            row
            for group in (
                ModelSettings,
                LimitSettings,
                SandboxSettings,
                ServeSettings,
                Settings,
                SubagentSettings,
                SnapshotSettings,
            )
            for row in group.rows()
        ),
        key=lambda row: _GROUPS.index(row.group),
    )
)
"""every row, in the order in which they are listed"""
BY_KEY: dict[str, Option[Any]] = {option.key: option for option in OPTIONS}

RESERVED = (
    "embedding", "guard", "limits.input_cost_per_million_usd",
    "limits.output_cost_per_million_usd", "maintenance", "memory", "schedules",
    "sessions", "skills", "telegram", "tool_progress", "tool_progress_cleanup", "transcription",
    "trusted_proxies", "vision", "web_search",
)  # fmt: skip
"""keys that other programs of this kind have: accepted in the operator's file, and ignored with a warning"""

OTHER_NAMES = {"max_concurrency": "subagent.max_concurrency"}
"""key of a file that other programs of this kind have → the one that it is read as"""


def flag_options(command: str) -> tuple[Option[Any], ...]:
    """Return the settings that are flags of `command`, in the order in which its help lists them."""
    return tuple(option for option in OPTIONS if command in option.commands)
