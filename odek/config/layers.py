"""Files, environment and flags to layers (R-10).

The parsing is pure: `parse_file`, `parse_environment`, `parse_flags`. A name that no option has is a warning with the
nearest known one; one that looks like a setting of the sandbox or of the danger policy stops the run (R-13, F-2, B29):
its author counts on a protection that would not be in force.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from odek.config.options import GLOBAL_FILE, PROJECT_FILE, Option, ProjectRule, Source
from odek.config.server_list import ServerList
from odek.config.settings import BY_KEY, OPTIONS, OTHER_NAMES, RESERVED
from odek.config.sources import (
    SECRETS_FILE,
    SecretFile,
    parse_config,
    read_operator_config,
    read_project_config,
    read_secrets,
)
from odek.config.values import Switch, Variables, check_references, expand
from odek.errors import ConfigError
from odek.host import Host
from odek.sandbox_grammar import GrammarError
from odek.strict_json import described
from odek.text import truncate, visible

_FILE_KEYS = (
    *dict.fromkeys(key.partition(".")[0] for key in (*(row.key for row in OPTIONS if row.in_file), *RESERVED)),
    *(option.key for option in OPTIONS if option.key.startswith("limits.")),
)
_VARIABLES = tuple(name for option in OPTIONS for name in option.env)
_SWITCHES = {option.key: option.env[0] for option in OPTIONS if option.env and not option.in_file}
_SECURITY = ("sandbox", "danger")
_NEAR = 0.75
_NEAR_VARIABLE = 0.85
_NO_MISTAKE = ("ODEK_API_KEY_FD",)  # another version's hand-over to a sub-agent, not a misspelt ODEK_API_KEY
_SHOWN_CHARS = 60


_IGNORED_KEYS = ("$schema",)  # what editors look for
_GROUPS = frozenset(option.key.partition(".")[0] for option in OPTIONS if "." in option.key)
_OPERATORS_GROUPS = _GROUPS - {
    option.key.partition(".")[0] for option in OPTIONS if option.project is not ProjectRule.FORBIDDEN
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One value as a layer has it, of the type that the option's kind parses to."""

    value: object
    origin: str
    """the file, variable or flag that said it"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What one source says, by option key."""

    source: Source
    origin: str
    values: Mapping[str, Value]
    chosen: bool = False
    """whether its model was chosen before: the name is the server's own"""
    server: str = ""
    """of a model that was chosen before: its provider, if that was chosen by name"""
    unknown: tuple[str, ...] = ()
    """keys of a file that no option has"""
    unused: tuple[str, ...] = ()
    """keys that are known and yet do not count: forbidden to a project, or reserved"""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Environment:
    """The variables that settings may come from; holds secrets."""

    env: Mapping[str, str]
    """of the environment, with what secrets.env adds"""
    secrets: SecretFile


def read_layers(host: Host, flags: Mapping[str, object]) -> tuple[tuple[Layer, ...], Environment]:
    """Return every layer, weakest first, as its source has it.

    `flags` holds, by option key, only what the command line said: a bool, a str, or a list of str.
    Raises ConfigError for whatever cannot be read, parsed or typed (R-13).
    """
    where = host.operator_home
    secrets = read_secrets(where)
    env = _with_secrets(host.env, secrets)
    layers: list[Layer] = []
    data = read_operator_config(where, shown=GLOBAL_FILE)
    if data is not None:
        layers.append(parse_file(data, Source.GLOBAL, env, shown=where.named_settings))
    data = read_project_config(host.cwd, "odek.json", shown=PROJECT_FILE)
    if data is not None:
        layers.append(parse_file(data, Source.PROJECT, env))
    return (*layers, parse_environment(env, secrets), parse_flags(flags, env)), Environment(env, secrets)


def parse_file(data: bytes, source: Source, env: Mapping[str, str], *, shown: str = "") -> Layer:
    """Return the layer of a file: the operator's (Source.GLOBAL) or the project's (Source.PROJECT).

    Only the operator's file may name variables of `env`; a project's text stays as it is (R-17). `shown` is what the
    file is called, "" for where it usually is.
    """
    shown = shown or (GLOBAL_FILE if source is Source.GLOBAL else PROJECT_FILE)
    by_project = source is Source.PROJECT
    said = _Values(env)
    unknown, unused = [], []
    for key, is_reserved, option, raw in _members(parse_config(data, shown=shown), shown, by_project):
        if is_reserved:
            unused.append(key)
        elif option is None or not option.in_file:
            unknown.append(key)
        elif by_project and option.project is ProjectRule.FORBIDDEN:
            unused.append(key)
        else:
            said.add(option, shown, partial(_file_value, option, raw, f"{shown}: {key}", None if by_project else env))
    return Layer(
        source=source,
        origin=shown,
        values=said.values,
        unknown=tuple(unknown),
        unused=tuple(unused),
        warnings=tuple(said.warnings),
    )


def parse_environment(env: Mapping[str, str], secrets: SecretFile) -> Layer:
    """Return the layer of the ODEK_ variables; `secrets` says which of them a file added to `env`."""
    said = _Values(env)
    for option in OPTIONS:
        said.add_variable(option, option.env, secrets)
    return Layer(
        source=Source.ENVIRONMENT,
        origin="environment",
        values=said.values,
        warnings=(*secrets.warnings, *explain_unknown_variables(env), *said.warnings),
    )


def parse_fallbacks(env: Mapping[str, str], secrets: SecretFile, foreign: tuple[str, ...]) -> Layer:
    """Return the layer of other programs' variables but for `foreign`."""
    said = _Values(env)
    for option in OPTIONS:
        said.add_variable(option, tuple(name for name in option.fallback_env if name not in foreign), secrets)
    return Layer(source=Source.ENVIRONMENT, origin="environment", values=said.values)


def parse_flags(flags: Mapping[str, object], env: Mapping[str, str]) -> Layer:
    """Return the layer of the command line; a variable of `env` may make an option lenient."""
    said = _Values(env)
    for key, given in flags.items():
        option = BY_KEY[key]
        origin = (option.off_flag if given is False else "") or option.flag
        said.add(option, origin, partial(_flag_value, option, given, origin))
    return Layer(source=Source.FLAG, origin="command line", values=said.values, warnings=tuple(said.warnings))


class _Values:
    """Gathers the values of one layer."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.values: dict[str, Value] = {}
        self.warnings: list[str] = []
        self._env = env

    def add(self, option: Option[Any], origin: str, parse: Callable[[], object | None]) -> None:
        """Add what `parse` returns, unless that is None."""
        try:
            value = parse()
        except GrammarError as error:
            if not self._is_on(option.lenient):
                raise
            self.warnings.append(f"{error.message}; {option.lenient} turns it into {option.default}")
            value = option.default
        if value is not None:
            self.values[option.key] = Value(value=value, origin=origin)

    def add_variable(self, option: Option[Any], names: tuple[str, ...], secrets: SecretFile) -> None:
        """Add the value of the first of `names` that is set."""
        for name in names:
            if name in self._env and option.key not in self.values:
                from_file = name in secrets.values and self._env[name] == secrets.values[name]
                origin = f"{name} in {SECRETS_FILE}" if from_file else name
                self.add(option, origin, partial(_variable_value, option, name, self._env[name], origin))

    def _is_on(self, variable: str) -> bool:
        return bool(variable and self._env.get(variable)) and Switch().from_text(self._env[variable], variable)


def _with_secrets(env: Mapping[str, str], secrets: SecretFile) -> dict[str, str]:
    return {**env, **{name: value for name, value in secrets.values.items() if not env.get(name)}}


def _members(
    document: dict[str, object], shown: str, by_project: bool
) -> Iterator[tuple[str, bool, Option[Any] | None, object]]:
    """Yield key, whether it is reserved, option and value of each member; those in "tools" as "tools.enabled".

    Of a project, a group that is the operator's alone is one member, whatever it holds.
    """
    for key, value in document.items():
        if by_project and key in _OPERATORS_GROUPS:
            yield key, True, None, value
        elif key in _GROUPS:
            inner = _group(key, value, shown)
            for name, member in inner.items():
                nested = f"{key}.{name}"
                yield nested, nested in RESERVED, BY_KEY.get(nested), member
        elif key in OTHER_NAMES:
            yield key, False, BY_KEY[OTHER_NAMES[key]], value
        elif key not in _IGNORED_KEYS:
            # a top-level key that is written "tools.enabled" is not the nested one
            is_flat = "." not in key
            yield key, is_flat and key in RESERVED, BY_KEY.get(key) if is_flat else None, value


def _group(key: str, value: object, shown: str) -> dict[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{shown}: {key} must be an object, not {described(value)}", hint=f"correct {shown}: {key}")
    return value


def _file_value(option: Option[Any], raw: object, where: str, env: Mapping[str, str] | None) -> object | None:
    """Return the value; `env` is None in a project's file."""
    if isinstance(option.kind, ServerList):
        return option.kind.from_file(raw, where, env)
    if option.expands and env is not None:
        raw = _expanded(raw, env, where)
    if isinstance(option.kind, Variables) and env is None and isinstance(raw, dict):
        for name, text in raw.items():
            check_references(text if isinstance(text, str) else "", origin=f"{where}.{name}")
    value: object | None = option.kind.from_json(raw, where)
    return value


def _expanded(raw: object, env: Mapping[str, str], where: str) -> object:
    """Return `raw` with the variables replaced in itself, in its entries or in the values of its map."""
    if isinstance(raw, list):
        return [_expanded_text(entry, env, f"{where}[{index}]") for index, entry in enumerate(raw)]
    if isinstance(raw, dict):
        return {name: _expanded_text(entry, env, f"{where}.{name}") for name, entry in raw.items()}
    return _expanded_text(raw, env, where)


def _expanded_text(raw: object, env: Mapping[str, str], where: str) -> object:
    return expand(raw, env, origin=where) if isinstance(raw, str) else raw


def _variable_value(option: Option[Any], name: str, text: str, origin: str) -> object | None:
    if name == "NO_COLOR":  # no-color.org: any text but the empty one
        return True if text else None
    if not text and name not in option.env:  # another program's variable: "" is unset to most of them
        return None
    value: object | None = option.parse_text(text, origin)
    return value


def _flag_value(option: Option[Any], given: object, origin: str) -> object:
    if isinstance(given, bool):
        return given
    if isinstance(given, str):
        return option.parse_text(given, origin)
    assert isinstance(given, (list, tuple))
    if option.off_word in given and len(given) > 1:
        raise ConfigError(f"{origin} is given as {option.off_word} and with names", hint="leave one of them out")
    return tuple(entry for text in given for entry in option.parse_text(text, origin))


def explain_unknown_key(name: str, origin: str) -> str:
    """Return the warning for a key of a file that is ignored.

    Raises ConfigError when the key looks like a security setting.
    """
    shown = f'unknown key "{visible(truncate(name, _SHOWN_CHARS))}" in {origin}'
    squeezed = _squeeze(name)
    near = _nearest(squeezed, _FILE_KEYS, _NEAR)
    if any(word in squeezed + _squeeze(near) for word in _SECURITY) or name.startswith("tools."):
        raise ConfigError(shown, hint=_security_hint(name, squeezed, near))
    return f"{shown} is ignored" + (f'; did you mean "{near}"?' if near else "")


def explain_unknown_variables(names: Iterable[str]) -> tuple[str, ...]:
    """Return a warning for each ODEK_ variable of `names` that is nearly one of ours.

    Raises ConfigError for one that speaks of the sandbox.
    """
    warnings = []
    for name in sorted(names):
        if not name.startswith("ODEK_") or name in (*_VARIABLES, *_NO_MISTAKE):
            continue
        near = _nearest(_squeeze(name), _VARIABLES, _NEAR_VARIABLE)
        if "SANDBOX" in name:
            raise ConfigError(
                f"unknown variable {visible(name)}", hint=f"did you mean {near}?" if near else f"unset {visible(name)}"
            )
        if near:
            warnings.append(f"unknown variable {visible(name)} is ignored; did you mean {near}?")
    return tuple(warnings)


def _security_hint(name: str, squeezed: str, near: str) -> str:
    if name.startswith("tools."):
        return 'write "tools": {"enabled": […]} or "tools": {"disabled": […]}'
    for key, variable in _SWITCHES.items():
        if squeezed == _squeeze(key):
            return f"no file can set that; set {variable} in the environment"
    return f'did you mean "{near}"?' if near else "remove it: odek has no such setting"


def _squeeze(name: str) -> str:
    """Return the letters and digits of `name` alone, in one case and one width."""
    import unicodedata  # needed only when a name is unknown

    folded = unicodedata.normalize("NFKC", name).casefold()
    return "".join(character for character in folded if character.isalnum())


def _nearest(squeezed: str, known: tuple[str, ...], cutoff: float) -> str:
    import difflib  # needed only when a name is unknown

    by_squeezed = {_squeeze(name): name for name in known}
    found = difflib.get_close_matches(squeezed, by_squeezed, n=1, cutoff=cutoff)
    return by_squeezed[found[0]] if found else ""
