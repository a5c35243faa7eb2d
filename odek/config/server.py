"""Which server the layers lead to, and which key goes there. Pure.

A model may be named together with its provider, `work/qwen3`, wherever a model is named. What stands before the slash:

- a server in the operator's `providers` that has an address of its own: that one, always;
- a provider that odek knows: that one, unless an address is set, whose models may have any names, or the provider in
  force has models with that first part (`openai/…` at OpenRouter, `known.namespaces`);
- anything else: a part of the model's name.

Where the same source also names the provider, only that one's own name is taken off; where it names the address,
nothing is. Only the operator's sources lead somewhere: a project may name a model, and never a server (R-15); of its
model's name the provider in force is taken off.

The strongest source that names a provider or an address decides. A server gets the key that is meant for it, and no
other one (D-26): of the weaker sources, which speak of another server, none counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from odek.config.layers import Environment, Layer, Value, parse_fallbacks
from odek.config.options import GLOBAL_FILE, Source
from odek.config.provider import DEFAULT_PROVIDER, KNOWN, address_of, choose_provider, foreign_key_variables
from odek.config.provider_entries import ProviderEntry
from odek.config.settings import BY_KEY, OPTIONS
from odek.config.values import expand
from odek.errors import ConfigError
from odek.text import truncate, visible

_OF_OTHERS = frozenset(name for option in OPTIONS for name in option.fallback_env)


@dataclass(frozen=True, slots=True)
class _Choice:
    """What a layer leads to."""

    entry: ProviderEntry
    model: Value | None
    """without the provider's name; None: the layer names no model"""
    origin: str
    """who chose"""


@dataclass(frozen=True, slots=True)
class _InForce:
    """What the weaker layers lead to."""

    name: str
    """the provider, "" for none"""
    by_address: bool = False
    """whether an address of the operator's is asked: odek does not know the names of its models"""


def settle_server(layers: Sequence[Layer], environment: Environment) -> tuple[Layer, ...]:
    """Return `layers` with one server chosen, above the weakest one: variables of other programs.

    These are read where no other layer has a value, and depend on the rest: a key counts only where the API that it
    belongs to is spoken. Raises ConfigError as `choose_server` does.
    """
    layers = _without_foreign_key(choose_server(layers, environment.env))
    if _OF_OTHERS.isdisjoint(environment.env):  # nothing depends on the API
        return (parse_fallbacks(environment.env, environment.secrets, ()), *layers)
    entry, base_url = entries_of(layers).get(_named(layers)), _address(layers)
    provider = entry.api if entry else choose_provider(_named(layers), base_url)
    foreign = foreign_key_variables(provider, base_url)
    return (parse_fallbacks(environment.env, environment.secrets, foreign), *layers)


def choose_server(layers: Sequence[Layer], env: Mapping[str, str]) -> tuple[Layer, ...]:
    """Return `layers`, weakest first, with provider, address, key and model in the one that chooses a server by name.

    Raises ConfigError for a provider that is not known, and for a variable in its key that is not set.
    """
    entries = entries_of(layers)
    _check_names(layers, entries)
    chosen = _choose(layers, entries, env)
    entry = find_entry(_named(chosen) or DEFAULT_PROVIDER, entries)
    if entry is None or entry.base_url.rstrip("/") != _address(chosen):
        return chosen
    return tuple(_without_provider(layer, entry.name) if layer.source is Source.PROJECT else layer for layer in chosen)


def _choose(layers: Sequence[Layer], entries: Mapping[str, ProviderEntry], env: Mapping[str, str]) -> tuple[Layer, ...]:
    chosen: list[Layer] = []
    last: tuple[int, _Choice] | None = None
    now = _InForce("")
    for place, layer in enumerate(layers):
        choice = _choice(layer, entries, now, weaker=layers[:place], stronger=layers[place + 1 :])
        named = str(layer.values["provider"].value) if "provider" in layer.values else ""
        if choice is not None:
            last, now = (place, choice), _InForce(choice.entry.name)
            model = {} if choice.model is None else {"model": choice.model}
            layer = replace(layer, values={**layer.values, **model})
        elif "base_url" in layer.values:
            last, now = None, _InForce(named or now.name, by_address=True)
        elif named and layer.source is not Source.PROJECT:
            last, now, layer = None, _InForce(named), _without_provider(layer, named)
        chosen.append(layer)
    if last is None:
        return tuple(chosen)
    place, choice = last
    below = _choose(layers[:place], entries, env)
    values = _values(choice, below, env)
    return (*below, replace(chosen[place], values={**values, **chosen[place].values}), *chosen[place + 1 :])


def entries_of(layers: Sequence[Layer]) -> dict[str, ProviderEntry]:
    """Return the operator's providers by name."""
    said = [layer.values["providers"].value for layer in layers if "providers" in layer.values]
    return {entry.name: entry for entry in cast("tuple[ProviderEntry, ...]", said[-1])} if said else {}


def find_entry(name: str, entries: Mapping[str, ProviderEntry]) -> ProviderEntry | None:
    """Return the operator's entry of that name, or what odek itself knows of such a provider."""
    if name in entries:
        return entries[name]
    return ProviderEntry(name=name, base_url=KNOWN[name].base_url) if name in KNOWN else None


def _values(choice: _Choice, below: Sequence[Layer], env: Mapping[str, str]) -> dict[str, Value]:
    """Return what a layer above `below` says in order to lead to the chosen server."""
    entry = choice.entry
    values = {
        "provider": Value(value=entry.name, origin=choice.origin),
        "base_url": Value(value=entry.base_url, origin=choice.origin),
    }
    own = KNOWN[entry.name].variable if entry.only_adds else entry.api_key_variable
    if entry.api_key:
        where = f"{GLOBAL_FILE}: providers.{entry.name}.api_key"
        key = BY_KEY["api_key"].kind.from_text(expand(entry.api_key, env, origin=where), where)
        return {**values, "api_key": Value(value=key, origin=where)}
    if own and env.get(own):
        return {**values, "api_key": Value(value=BY_KEY["api_key"].kind.from_text(env[own], own), origin=own)}
    if _address(below) == entry.base_url.rstrip("/"):  # the key that is there is the one of this server
        return values
    return {**values, "api_key": Value(value="", origin=f"no key of {entry.name}")}


def _choice(
    layer: Layer,
    entries: Mapping[str, ProviderEntry],
    now: _InForce,
    *,
    weaker: Sequence[Layer],
    stronger: Sequence[Layer],
) -> _Choice | None:
    """Return the server that `layer` chooses by name; `now` is in force below it."""
    if layer.source is Source.PROJECT or "base_url" in layer.values or (layer.chosen and not layer.server):
        return None
    named, model = layer.values.get("provider"), layer.values.get("model")
    if layer.server:
        return _Choice(_require_entry(layer.server, entries, layer.origin), model, layer.origin)
    if named is not None:
        entry = _require_entry(str(named.value), entries, named.origin)
        if entry.only_adds and not _has_address(weaker):
            return None  # the provider alone says it: its key may be any that is set
        return _Choice(entry, _without_provider(layer, entry.name).values.get("model"), named.origin)
    if model is None:
        return None
    prefix, _, rest = str(model.value).partition("/")
    found = find_entry(prefix, entries) if rest else None
    if found is None or (found.only_adds and not _leads(prefix, now, stronger)):
        return None
    return _Choice(found, replace(model, value=_own_name(str(model.value), prefix)), model.origin)


def _leads(prefix: str, now: _InForce, stronger: Sequence[Layer]) -> bool:
    """Return whether a provider that odek knows is meant by what stands before a slash."""
    known = KNOWN.get(now.name)
    return not now.by_address and not _has_address(stronger) and (known is None or prefix not in known.namespaces)


def _has_address(layers: Sequence[Layer]) -> bool:
    return any("base_url" in layer.values for layer in layers if layer.source is not Source.PROJECT)


def _without_provider(layer: Layer, provider: str) -> Layer:
    """Return `layer` with its model called as `provider` calls it."""
    model = layer.values.get("model")
    if model is None or layer.chosen or not str(model.value).startswith(f"{provider}/"):
        return layer
    model = replace(model, value=_own_name(str(model.value), provider))
    return replace(layer, values={**layer.values, "model": model})


def written_name(name: str, provider: str) -> str:
    """Return how a source that names `provider` writes the model that is called `name` there."""
    return name if not name.startswith(f"{provider}/") or _own_name(name, provider) == name else f"{provider}/{name}"


def _own_name(name: str, provider: str) -> str:
    """Return what `provider` calls the model that is `name` together with it: openrouter/auto has that name there."""
    rest = name.removeprefix(f"{provider}/")
    known = KNOWN.get(provider)
    return name if not rest or (known and known.named_after_it and known.named_after_it.fullmatch(rest)) else rest


def _address(layers: Sequence[Layer]) -> str:
    """Return the address that `layers` lead to, which has been chosen, without a slash at its end."""
    said = [str(layer.values["base_url"].value) for layer in layers if "base_url" in layer.values]
    return ((said[-1] if said else address_of(_named(layers))) or address_of(DEFAULT_PROVIDER)).rstrip("/")


def _named(layers: Sequence[Layer]) -> str:
    said = [str(layer.values["provider"].value) for layer in layers if "provider" in layer.values]
    return said[-1] if said else ""


def _check_names(layers: Sequence[Layer], entries: Mapping[str, ProviderEntry]) -> None:
    for layer in layers:
        if "provider" in layer.values:
            _require_entry(str(layer.values["provider"].value), entries, layer.values["provider"].origin)


def _require_entry(name: str, entries: Mapping[str, ProviderEntry], origin: str) -> ProviderEntry:
    entry = find_entry(name, entries)
    if entry is None:
        raise ConfigError(
            f'"{visible(truncate(name, 60))}" is not a provider ({origin})',
            hint=f"use {', '.join((*entries, *KNOWN))}, or give it an address in {GLOBAL_FILE}: providers",
        )
    return entry


def _without_foreign_key(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Drop the operator's `api_key` where a variable or flag names another provider, which brings its own address.

    The file's key is for the server that the file leads to (D-26). An address that is set keeps the key: an operator
    who names the address means it.
    """
    if any("base_url" in layer.values for layer in layers):
        return tuple(layers)
    named = [layer.values["provider"].value for layer in layers if "provider" in layer.values]
    kept = []
    for layer in layers:
        own = layer.values["provider"].value if "provider" in layer.values else DEFAULT_PROVIDER
        if layer.source is Source.GLOBAL and "api_key" in layer.values and named and named[-1] != own:
            values = {key: value for key, value in layer.values.items() if key != "api_key"}
            warning = f"api_key in {layer.origin} is for the provider {own} and not sent to {named[-1]}"
            layer = replace(layer, values=values, warnings=(*layer.warnings, warning))
        kept.append(layer)
    return tuple(kept)
