"""OPTIONS: every setting of odek, one row each (R-11, R-12).

The command line, the environment, both files, `odek config view`, the JSON Schema, the templates
and the table in docs/CONFIG.md derive from these rows. Adding a setting is one row here and one
use. The module imports nothing that costs time: `odek run --help` is built from it.
"""

from __future__ import annotations

from odek.amounts import MAX_PIDS_LIMIT, MIN_PIDS_LIMIT

FREE = "free"  # a project's value counts like anybody's
APPROVE = "approve"  # counts once the operator has approved it
LOWER_ONLY = "lower"  # counts when it is below what the operator has
ONLY_TRUE = "true"  # `true` counts, `false` does not
FORBIDDEN = "forbidden"  # ignored, with a warning

GLOBAL_FILE = "~/.odek/config.json"
PROJECT_FILE = "./odek.json"

MAX_WHOLE = 2**31 - 1  # what every consumer of a whole number can hold

_SURFACES = ("run", "repl", "serve")
_CONVERSING = ("run", "continue", "repl", "serve")
_ASKING = (*_CONVERSING, "models")
"""commands that ask a model's server"""


class Option:
    """One setting. Rows are made once, below, and never change."""

    __slots__ = (
        "choices", "commands", "default", "env", "expands", "fallback_env", "flag", "grammar", "group", "help",
        "in_file", "key", "kind", "maximum", "merge", "metavar", "minimum", "off_commands", "off_flag",
        "off_help", "off_word", "project", "reserved", "secret", "short",
    )  # fmt: skip

    def __init__(
        self,
        key: str,
        kind: str,
        help: str,  # noqa: A002 - the word argparse uses for it
        *,
        default: object = None,
        env: tuple[str, ...] = (),
        fallback_env: tuple[str, ...] = (),
        flag: str = "",
        short: str = "",
        metavar: str = "",
        off_flag: str = "",
        off_commands: tuple[str, ...] = (),
        off_help: str = "",
        off_word: str = "",
        commands: tuple[str, ...] = _CONVERSING,
        group: str = "agent",
        project: str = FORBIDDEN,
        merge: str = "replace",
        grammar: str = "",
        choices: tuple[str, ...] = (),
        minimum: float = 0,
        maximum: float = MAX_WHOLE,
        in_file: bool = True,
        secret: bool = False,
        expands: bool = False,
        reserved: bool = False,
    ) -> None:
        self.key = key
        """the key in a file; a dot stands for an object inside the top level ("tools.enabled")"""
        self.kind = kind
        """bool, int, float, str, list (of str), map (str to str) or object (parsed by a module of its own)"""
        self.help = help
        """one sentence without its full stop"""
        self.default = default
        """the value when nobody says anything; None: decided elsewhere"""
        self.env = env
        """variables that set it, the first one that is set counts"""
        self.fallback_env = fallback_env
        """variables that are asked when no layer at all has a value"""
        self.flag = flag
        self.short = short
        self.metavar = metavar
        """the placeholder of the flag's value; "" for a flag without one"""
        self.off_flag = off_flag
        """the flag that sets a bool to false, on `off_commands`"""
        self.off_commands = off_commands
        self.off_help = off_help
        self.off_word = off_word
        """the text of a flag or variable that drops what weaker layers say; "" for none"""
        self.commands = commands if flag else ()
        """the commands that take `flag`"""
        self.group = group
        """the heading in a command's help: model, limits, agent, tools, sandbox"""
        self.project = project
        """what ./odek.json may do with it: one of the five rules above"""
        self.merge = merge
        """how a stronger layer meets a weaker one: replace, keys (map, key by key) or union (list); D-7"""
        self.grammar = grammar
        """what a text must look like: memory, cpus, tmp, key, or files (any bytes); "" for any text"""
        self.choices = choices
        self.minimum = minimum
        self.maximum = maximum
        self.in_file = in_file
        self.secret = secret
        """never shown, not in an error either"""
        self.expands = expands
        """${VAR} is replaced in the operator's file (R-17)"""
        self.reserved = reserved
        """a name that is kept for a feature this version does not have"""

    @property
    def repeats(self) -> bool:
        """whether the flag may be given more than once, each time adding to the list"""
        return self.kind == "list"

    @property
    def places(self) -> str:
        """where the operator may set it, in words"""
        places = [GLOBAL_FILE] if self.in_file else []
        places += [*self.env[:1], *([self.flag] if self.flag else [])]
        return " or ".join(([", ".join(places[:-1])] if places[1:] else []) + places[-1:])

    def off_flag_for(self, command: str) -> str:
        """Return the flag of `command` that sets this to false, or ""."""
        return self.off_flag if command in self.off_commands else ""


def _sandbox(key: str, kind: str, text: str, *, flag: str, metavar: str, **more: object) -> Option:
    """Return a row of the container: named sandbox_X, ODEK_SANDBOX_X and --sandbox-X alike."""
    row: dict[str, object] = {"group": "sandbox", "project": APPROVE, "env": ("ODEK_" + key.upper(),), **more}
    return Option(key, kind, text, flag=flag, metavar=metavar, **row)  # type: ignore[arg-type]


def _limit(key: str, text: str, *, flag: str, metavar: str) -> Option:
    """Return a row of a task's budget: unset, there is no limit."""
    commands = ("run", "continue", "repl")
    return Option(
        key, "int", text, flag=flag, metavar=metavar, commands=commands, group="limits", project=LOWER_ONLY, minimum=1
    )


def _switch(key: str, text: str) -> Option:
    """Return an operator's switch: the environment alone can set it."""
    return Option(key, "bool", text, default=False, env=("ODEK_" + key.upper(),), group="sandbox", in_file=False)


def _reserved(key: str, text: str) -> Option:
    return Option(key, "object", "Reserved for " + text, reserved=True)


_MODEL = (
    Option(
        "model", "str", "The model to talk to", default="deepseek-v4-flash", env=("ODEK_MODEL",), flag="--model",
        metavar="NAME", group="model", project=FREE, expands=True,
    ),
    Option(
        "base_url", "str", "The root of an OpenAI-compatible or Anthropic API, or replay:FILE to play a recording",
        default="https://api.deepseek.com/v1", env=("ODEK_BASE_URL",), flag="--base-url", metavar="URL",
        commands=_ASKING, group="model", expands=True,
    ),
    Option(
        "provider", "str", "Who serves the model: brings the address, unless base_url is set, and the API", default="",
        env=("ODEK_PROVIDER",), flag="--provider", metavar="NAME", commands=_ASKING, group="model",
        choices=(
            "openai", "anthropic", "deepseek", "gemini", "openrouter", "mistral", "groq", "xai", "moonshot",
            "dashscope", "minimax", "ollama", "lmstudio", "llama.cpp", "vllm",
        ),
    ),
    Option(
        "api_key", "str", "The key that is sent to base_url", default="", env=("ODEK_API_KEY",),
        # each for its own servers: provider.py
        fallback_env=(
            "DEEPSEEK_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY",
            "MISTRAL_API_KEY", "GROQ_API_KEY", "XAI_API_KEY", "MOONSHOT_API_KEY", "DASHSCOPE_API_KEY",
            "MINIMAX_API_KEY",
        ),
        group="model", secret=True, expands=True, grammar="key",
    ),
    Option(
        "thinking", "str", "How much a reasoning model thinks; the model's profile decides when unset", default="",
        env=("ODEK_THINKING",), flag="--thinking", metavar="LEVEL", group="model", project=FREE, expands=True,
        choices=("enabled", "disabled", "low", "medium", "high"),
    ),
    Option(
        "thinking_budget", "int", "Tokens a reasoning model may think with thinking=enabled", default=5000,
        flag="--thinking-budget", metavar="N", group="model", in_file=False, minimum=1,
    ),
    Option(
        "temperature", "float", "Sampling temperature, from 0 to 2", default=0.0, flag="--temperature", metavar="X",
        group="model", in_file=False, maximum=2,
    ),
    Option(
        "prompt_caching", "bool", "Cache markers in requests; unset: in those of Anthropic's API",
        env=("ODEK_PROMPT_CACHING",), flag="--prompt-caching", group="model", project=FREE,
    ),
    Option(
        "max_iterations", "int", "How often the model is asked before a run gives up", default=90,
        env=("ODEK_MAX_ITER",), flag="--max-iter", metavar="N", group="model", project=LOWER_ONLY, minimum=1,
    ),
    Option(
        "record", "str", "Write what the model answers to FILE, for replay:FILE", default="", flag="--record",
        metavar="FILE", commands=("run", "continue", "repl"), group="model", in_file=False,
    ),
)  # fmt: skip

_LIMITS = (
    _limit(
        "limits.max_runtime_seconds", "Seconds that a task may take", flag="--max-runtime", metavar="SECONDS",
    ),
    _limit(
        "limits.max_tool_calls", "Tool calls that a task may make", flag="--max-tool-calls", metavar="N",
    ),
    _limit(
        "limits.max_input_tokens", "Tokens that a task may send to the model, over all its requests",
        flag="--max-input-tokens", metavar="N",
    ),
    _limit(
        "limits.max_output_tokens", "Tokens that the model may write for a task", flag="--max-output-tokens",
        metavar="N",
    ),
)  # fmt: skip

_AGENT = (
    Option(
        "system", "str", "Text that replaces the built-in identity of the agent", default="", env=("ODEK_SYSTEM",),
        flag="--system", metavar="TEXT", expands=True,
    ),
    Option(
        "no_agents", "bool", "Do not read AGENTS.md", default=False, env=("ODEK_NO_AGENTS",), flag="--no-agents",
        project=ONLY_TRUE,  # its AGENTS.md must not come in against the operator's word
    ),
    Option(
        "no_color", "bool", "No colours", default=False, env=("ODEK_NO_COLOR", "NO_COLOR"), flag="--no-color",
        project=FREE,
    ),
    Option(
        "interaction_mode", "str", "How much is told on stderr while the agent works", default="engaging",
        env=("ODEK_INTERACTION_MODE",), flag="--interaction-mode", metavar="MODE", commands=("run", "continue", "repl"),
        choices=("engaging", "enhance", "verbose", "off"),
    ),
    Option(
        "json", "bool", "Events as JSON lines on stdout instead of the answer", default=False, flag="--json",
        commands=("run", "continue"), in_file=False,
    ),
    Option(
        "ctx", "list", "Files to give the model, and the sandbox; - is stdin", default=(), flag="--ctx", short="-c",
        metavar="FILE,…", commands=("run", "continue"), in_file=False, grammar="files",
    ),
)  # fmt: skip

_TOOLS = (
    Option(
        "tools.enabled", "list", "The only tools the model gets; unset: all, none: no tools",
        env=("ODEK_TOOLS_ENABLED",), flag="--tool", metavar="NAME", group="tools", off_word="none",
    ),
    Option(
        "tools.disabled", "list", "Tools the model does not get, gathered from every layer", default=(),
        env=("ODEK_TOOLS_DISABLED",), flag="--no-tool", metavar="NAME", group="tools", project=FREE, merge="union",
    ),
    Option(
        "max_tool_parallel", "int", "Tool calls of one answer that may run at the same time", default=4,
        env=("ODEK_MAX_TOOL_PARALLEL",), group="tools", project=FREE, minimum=1, maximum=64,
    ),
    Option(
        "dangerous", "object", "Which classes of commands run, ask or are refused", group="tools",
    ),
)  # fmt: skip

_SANDBOX = (
    Option(
        "sandbox", "bool", "Run commands in a container, and stop when that cannot be had", env=("ODEK_SANDBOX",),
        flag="--sandbox", commands=("run", "repl", "serve", "mcp"), off_flag="--no-sandbox", off_commands=_SURFACES,
        off_help="Run commands on this host, without a container", group="sandbox", project=ONLY_TRUE,
    ),
    _sandbox(
        "sandbox_image", "str", "The image of the container; unset: Dockerfile.odek, else a pinned Alpine",
        flag="--sandbox-image", metavar="REF", default="", expands=True,
    ),
    _sandbox(
        "sandbox_network", "str", "none, or bridge for access to the internet (and to this host)",
        flag="--sandbox-network", metavar="MODE", default="none", expands=True,
    ),
    _sandbox(
        "sandbox_networks", "list", "Existing Docker networks to attach; none drops those of weaker settings",
        flag="--sandbox-networks", metavar="NAME,…", default=(), expands=True, off_word="none",
    ),
    _sandbox(
        "sandbox_compose_project", "str", "A Compose project whose networks are attached; none drops it",
        flag="--sandbox-compose", metavar="PROJECT", default="", expands=True, off_word="none",
    ),
    _sandbox(
        "sandbox_pids_limit", "int", "How many processes the container may hold", flag="--sandbox-pids-limit",
        metavar="N", default=4096, project=LOWER_ONLY, minimum=MIN_PIDS_LIMIT,
        maximum=MAX_PIDS_LIMIT,
    ),
    _sandbox(
        "sandbox_readonly", "bool", "Mount the working directory read-only", flag="--sandbox-readonly", metavar="",
        default=False, project=ONLY_TRUE,
    ),
    _sandbox(
        "sandbox_memory", "str", "Memory limit, such as 512m or 2g", flag="--sandbox-memory", metavar="SIZE",
        default="", project=LOWER_ONLY, grammar="memory", expands=True,
    ),
    _sandbox(
        "sandbox_cpus", "str", "Limit of processor time, such as 0.5 or 2", flag="--sandbox-cpus", metavar="N",
        default="", project=LOWER_ONLY, grammar="cpus", expands=True,
    ),
    _sandbox(
        "sandbox_tmp_size", "str", "Size of /tmp, which is memory; unset: 1g, or half of sandbox_memory if less",
        flag="--sandbox-tmp-size", metavar="SIZE", default="1g", project=LOWER_ONLY, grammar="tmp", expands=True,
    ),
    _sandbox(
        "sandbox_user", "str", "User of the commands, uid:gid or a name of the image; unset: who started odek",
        flag="--sandbox-user", metavar="USER", default="", expands=True,
    ),
    _sandbox(
        "sandbox_env", "map", "Variables in the environment of the commands", flag="", metavar="", env=(),
        default=(), merge="keys", expands=True,
    ),
    _sandbox(
        "sandbox_volumes", "list", "Further folders of the working directory to mount, as host:container", flag="",
        metavar="", env=(), default=(),
    ),
)  # fmt: skip

_SWITCHES = (
    _switch("no_sandbox", "Opt out of the sandbox on run, repl and serve"),
    _switch("require_sandbox", "Stop whenever commands would run without a sandbox"),
    _switch("approve_project_sandbox", "Approve what a project asks of the sandbox, for automation"),
    _switch("sandbox_build_network", "Give the build of Dockerfile.odek the network"),
    _switch("sandbox_network_lenient", "Turn a bad sandbox_network into none, with a warning"),
    _switch("suppress_sandbox_warning", "Do not remind that commands run on the host because the operator said so"),
)

_RESERVED = tuple(
    _reserved(key, text)
    for key, text in (
        ("embedding", "vector search"), ("guard", "a prompt guard"), ("limits.max_cost_usd", "prices"),
        ("limits.input_cost_per_million_usd", "prices"), ("limits.output_cost_per_million_usd", "prices"),
        ("maintenance", "clearing old state"), ("max_concurrency", "sub-agents"), ("mcp_servers", "MCP servers"),
        ("memory", "long-term memory"), ("schedules", "scheduled tasks"), ("sessions", "the session store"),
        ("skills", "skills"),
        ("subagent", "sub-agents"), ("telegram", "Telegram"), ("tool_progress", "Telegram"),
        ("tool_progress_cleanup", "Telegram"), ("transcription", "speech"),
        ("trusted_proxies", "a web page behind a proxy"), ("vision", "images"), ("web_search", "web search"),
    )
)  # fmt: skip

OPTIONS: tuple[Option, ...] = (*_MODEL, *_LIMITS, *_AGENT, *_TOOLS, *_SANDBOX, *_SWITCHES, *_RESERVED)
BY_KEY: dict[str, Option] = {option.key: option for option in OPTIONS}
LIVE: tuple[Option, ...] = tuple(option for option in OPTIONS if not option.reserved)


def flag_options(command: str) -> tuple[Option, ...]:
    """Return the settings that are flags of `command`, in the order in which its help lists them."""
    return tuple(option for option in LIVE if command in option.commands)
