"""The beginning of every command: settings read once, their warnings shown, colours switched off where that is set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from odek.config.layers import Environment, Layer, Value, parse_environment, parse_file, read_layers
from odek.config.options import GLOBAL_FILE, PROJECT_FILE, Option, Source
from odek.config.resolve import Override, project_overrides, resolve
from odek.config.server import settle_server
from odek.config.settings import BY_KEY, OPTIONS, Settings
from odek.config.sources import SECRETS_FILE, SecretFile, read_operator_config, read_project_config, read_secrets
from odek.config.values import variables_in
from odek.errors import OdekError, UsageError
from odek.host import Host
from odek.secret_names import is_secret_name
from odek.text import truncate, visible

if TYPE_CHECKING:
    from odek.redact import Redactor

# Settings may be in secrets.env as well; the name of a model there is not a secret.
_PLAIN = frozenset(
    name for option in OPTIONS if not option.kind.is_secret for name in (*option.env, *option.fallback_env)
)
_MODEL_NAME_LENGTH = 128
_NO_VARIABLES = Environment({}, SecretFile(values={}))


class Console(Protocol):
    """Where warnings are shown."""

    def warn(self, text: str, hint: str = "") -> None: ...
    def without_color(self) -> None: ...
    def make_plain(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings in force and the layers that they were resolved from."""

    settings: Settings
    layers: tuple[Layer, ...]
    """as their sources have them, the weakest first, flags last"""
    environment: Environment
    """for a server that is chosen later"""

    @property
    def overrides(self) -> tuple[Override, ...]:
        """what the project changes and the operator has to approve"""
        return project_overrides(self.layers)

    def with_layer(self, layer: Layer, *, below_flags: bool = False) -> Config:
        """Return these settings with one more layer: the strongest, or stronger than all but the flags."""
        *weaker, flags = self.layers
        layers = (*weaker, layer, flags) if below_flags else (*self.layers, layer)
        return config_of(layers, self.environment)

    def with_model(self, name: str, *, origin: str) -> Config:
        """Return these settings with the model `name`, which may name its provider. Raises ConfigError."""
        return self.with_layer(Layer(source=Source.FLAG, origin=origin, values=_model(name, origin)))

    def spell_model(self, name: str) -> str:
        """Return how to name the model that the server in force calls `name`: with its provider if needed."""
        now = self.settings.model
        if "/" not in name or not now.chosen_server:
            return name
        try:
            read = self.with_model(name, origin="").settings.model
        except OdekError:  # it leads to a provider whose key is not set
            return f"{now.chosen_server}/{name}"
        return name if (read.base_url, read.model) == (now.base_url, name) else f"{now.chosen_server}/{name}"

    def with_chosen_model(self, name: str, server: str, *, origin: str) -> Config:
        """Return these settings, in what no flag says, with a model that was chosen before.

        `server` is its provider, if that was chosen by name. Raises ConfigError when that is gone.
        """
        layer = Layer(source=Source.FLAG, origin=origin, values=_model(name, origin), chosen=True, server=server)
        return self.with_layer(layer, below_flags=True)


def require_model_name(name: str) -> None:
    """Raise UsageError for what cannot be the name of a model; whether there is one is known when it is asked."""
    if not name or len(name) > _MODEL_NAME_LENGTH or not name.isprintable() or " " in name:
        raise UsageError(f'"{truncate(visible(name), 60)}" is not a name of a model')


def _model(name: str, origin: str) -> dict[str, Value]:
    return {"model": Value(value=name, origin=origin)}


def load(host: Host, flags: Mapping[str, object], console: Console, *, with_project: bool = True) -> Config:
    """Return the settings of a command whose line said `flags`; `with_project`: ./odek.json counts.

    Raises ConfigError.
    """
    layers, environment = read_layers(host, flags)
    counting = [layer for layer in layers if with_project or layer.source is not Source.PROJECT]
    config = config_of(counting, environment)
    if config.settings.no_color:
        console.without_color()
    if config.settings.plain:
        console.make_plain()
    for warning in config.settings.warnings:
        console.warn(warning)
    return config


def config_of(layers: Sequence[Layer], environment: Environment = _NO_VARIABLES) -> Config:
    """Return what `layers`, weakest first, add up to. Pure. Raises ConfigError."""
    settings = resolve(settle_server(layers, environment))
    return Config(settings=settings, layers=tuple(layers), environment=environment)


def wants(key: str, host: Host, arguments: Sequence[str]) -> bool:
    """Return whether the switch `key`, such as no_color, is on, for what is printed before or without `load`.

    That is an error of the command line, say. A source that cannot be read, of which an error is about to be shown,
    says nothing.
    """
    option = BY_KEY[key]
    flags = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if option.flag in flags:
        return True
    for read in (partial(_variables, option), _project_file, _operator_file):
        with suppress(OdekError):
            layer = read(host)
            if layer is not None and key in layer.values:
                return layer.values[key].value is True
    return False


def _variables(option: Option[Any], host: Host) -> Layer:
    named = {name: host.env[name] for name in option.env if name in host.env}
    return parse_environment(named, SecretFile(values={}))


def _project_file(host: Host) -> Layer | None:
    data = read_project_config(host.cwd, "odek.json", shown=PROJECT_FILE)
    return None if data is None else parse_file(data, Source.PROJECT, host.env)


def _operator_file(host: Host) -> Layer | None:
    data = read_operator_config(host.operator_home, shown=GLOBAL_FILE)
    return None if data is None else parse_file(data, Source.GLOBAL, host.env)


def redactor_of(config: Config, host: Host) -> Redactor:
    """Return what takes the secrets of a session out of a text. Raises ConfigError as `collect_secrets` does."""
    from odek.redact import Redactor  # to read settings takes none of it

    return Redactor(collect_secrets(config.settings, host))


def collect_secrets(settings: Settings, host: Host) -> dict[str, str]:
    """Return, by value, who holds it: the API key, the secret variables of the environment and of sandbox_env, and all
    of secrets.env.

    Raises ConfigError when secrets.env cannot be read or trusted.
    """
    from odek.redact import secrets_in

    sandbox_env = dict(settings.sandbox.env)
    raw = [(name, sandbox_env[name]) for name in settings.sandbox.raw_env]
    of_servers: dict[str, str] = {}
    for server in settings.mcp_servers:
        if server.by_project:
            raw += server.env
        else:
            found = secrets_in(dict(server.env))
            of_servers |= {value: f"{name} of the MCP server {server.name}" for value, name in found.items()}
    named = [variable for name, text in raw if is_secret_name(name) for variable in variables_in(text)]
    written = [(entry.name, entry.api_key) for entry in settings.model.providers if entry.api_key]
    named += [variable for _, key in written for variable in variables_in(key)]
    return {  # of two holders of one value the last one counts
        **{key: f"api_key of {name}" for name, key in written if not variables_in(key)},
        settings.model.api_key: "api_key",
        **of_servers,
        **{value: f"{name} in sandbox_env" for value, name in secrets_in(sandbox_env).items()},
        **{value: f"{name} in {SECRETS_FILE}" for name, value in _file_values(host)},
        **{host.env[variable]: variable for variable in named if variable in host.env},
        **secrets_in(host.env),
    }


def _file_values(host: Host) -> tuple[tuple[str, str], ...]:
    found = read_secrets(host.operator_home).values
    return tuple((name, value) for name, value in found.items() if name not in _PLAIN)
