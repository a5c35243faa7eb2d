"""What requests cost, at the prices that the operator has written down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from odek.agent.budget import unpriced
from odek.app.config import Config
from odek.app.model import replay_path
from odek.config.options import GLOBAL_FILE, Source
from odek.config.provider_entries import Prices
from odek.errors import ConfigError
from odek.events import Sink, WarningIssued
from odek.model.types import Usage
from odek.text import visible

_LIMIT = "limits.max_cost_usd"


def pricing(config: Config, emit: Sink) -> Callable[[Usage], Usage]:
    """Return what adds their cost to tokens of the model in force; where its prices are not known, nothing is added.

    Raises ConfigError when the operator has set a limit of cost that could not be kept then; a project's is only warned
    of.
    """
    model = config.settings.model
    entry = model.model_entry
    if entry is not None and entry.prices is not None:
        return partial(priced, entry.prices)
    if config.settings.limits.cost_usd is not None and replay_path(model.base_url) is None:  # a recording costs nothing
        origin = config.settings.origin_of(_LIMIT)
        words = f"{_LIMIT} ({origin}) cannot be kept: no prices of {visible(model.model)} are known"
        hint = f"write them into {GLOBAL_FILE}: providers.{visible(model.server or 'NAME')}.models, or limit tokens"
        if any(_LIMIT in layer.values for layer in config.layers if layer.source is not Source.PROJECT):
            raise ConfigError(words, hint=hint)
        emit(WarningIssued(words, hint=hint))
    return unpriced


def priced(prices: Prices, usage: Usage) -> Usage:
    """Return `usage` with what it costs."""
    fresh = max(usage.input_tokens - usage.cached_tokens, 0)
    cost = fresh * prices.input + usage.cached_tokens * prices.cached + usage.output_tokens * prices.output
    return replace(usage, priced_tokens=usage.input_tokens + usage.output_tokens, cost_usd=cost / 1_000_000)
