"""What requests cost: where the prices come from, and a limit that is kept or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fakes.layering import NO_SECRETS, make_layers
from fakes.notices import Notes

from odek.agent.budget import Budget, Spending, exceeded_limit, render_spending
from odek.app.config import Config, config_of
from odek.app.cost import priced, pricing
from odek.config.layers import Environment
from odek.config.provider_entries import Prices
from odek.errors import ConfigError
from odek.model.types import Usage
from odek.session.codec import read_usage, state_line
from odek.session.transcript import State
from odek.text import render_usd

PRICES = {"input_usd_per_million": 2, "cached_usd_per_million": 0.5, "output_usd_per_million": 10}
PROVIDERS = {
    "work": {"base_url": "https://llm.example/v1", "models": {"dear": PRICES, "plain": {"window": 8000}}},
    "deepseek": {"models": {"deepseek-v4-flash": {"input_usd_per_million": 1, "output_usd_per_million": 1}}},
}
USED = Usage(input_tokens=1_000_000, output_tokens=100_000, cached_tokens=400_000)


def config(model: str = "", **layers: Any) -> Config:
    flags = {**({"model": model} if model else {}), **layers.pop("flags", {})}
    operator = {"providers": PROVIDERS, **layers.pop("operator", {})}
    return config_of(make_layers(operator=operator, flags=flags, **layers), Environment({}, NO_SECRETS))


@pytest.mark.parametrize(
    ("model", "cost"),
    [
        ("work/dear", 0.6 * 2 + 0.4 * 0.5 + 0.1 * 10),
        ("", 1.1),  # the default model, at the default address
        ("deepseek/deepseek-v4-flash", 1.1),
        ("work/plain", None),
        ("work/other", None),
        ("other", None),
    ],
)
def test_cost_is_that_of_the_model_in_force(model: str, cost: float | None) -> None:
    """R-232: no price, no cost; never that of another model."""
    found = pricing(config(model), Notes())(USED).known_cost_usd
    assert found == (None if cost is None else pytest.approx(cost))


def test_costs_of_several_models_add_up_and_what_is_not_known_is_counted() -> None:
    """R-232"""
    total = priced(Prices(1, 1, 1), Usage(input_tokens=1_000_000)) + Usage(input_tokens=5, output_tokens=2)
    assert (total.known_cost_usd, total.input_tokens + total.output_tokens - total.priced_tokens) == (1.0, 7)
    assert priced(Prices(0, 0, 0), Usage(input_tokens=1)).known_cost_usd == 0.0
    assert Usage().known_cost_usd is None


@pytest.mark.parametrize(
    "said", [{"flags": {"limits.max_cost_usd": "1"}}, {"operator": {"limits": {"max_cost_usd": 1}}}]
)
def test_limit_of_cost_that_cannot_be_kept_stops_the_run(said: dict[str, Any]) -> None:
    """R-232: before anything is started, with the way out; also where a project has lowered it."""
    for project in (None, {"limits": {"max_cost_usd": 0.5}}):
        with pytest.raises(ConfigError) as caught:
            pricing(config("work/plain", project=project, **said), Notes())
        assert "cannot be kept: no prices of plain are known" in caught.value.message
        assert caught.value.hint == ("write them into ~/.odek/config.json: providers.work.models, or limit tokens")
        pricing(config("work/dear", project=project, **said), Notes())


def test_recording_costs_nothing() -> None:
    """R-232"""
    pricing(config(flags={"limits.max_cost_usd": "1", "base_url": "replay:x"}), Notes())


def test_limit_of_a_project_that_cannot_be_kept_is_a_warning() -> None:
    """R-232: else a repository could stop everyone who has no prices."""
    notes = Notes()
    pricing(config("work/plain", project={"limits": {"max_cost_usd": 0.5}}), notes)
    assert ["cannot be kept" in warning for warning in notes.warnings] == [True]


@pytest.mark.parametrize(
    ("operator", "project", "limit"), [(None, 2.0, 2.0), (3.0, 2.0, 2.0), (1.0, 2.0, 1.0), (1.0, None, 1.0)]
)
def test_project_only_lowers_the_limit(operator: float | None, project: float | None, limit: float) -> None:
    """R-232, R-16"""
    layers = {
        name: {"limits": {"max_cost_usd": value}}
        for name, value in (("operator", operator), ("project", project))
        if value is not None
    }
    assert config("work/dear", **layers).settings.limits.cost_usd == limit


def test_task_ends_at_its_limit_of_cost() -> None:
    """R-232: as at the other limits."""
    spent = Spending(requests=1, usage=Usage(input_tokens=1, priced_tokens=1, cost_usd=0.5))
    assert [exceeded_limit(Budget(cost_usd=limit), spent) for limit in (0.6, 0.5, 0.25)] == ["", "$0.5000", "$0.2500"]
    assert render_spending(spent) == "used: 1 model call, 0 tool calls, 1 tokens in, 0 out, $0.5000, 0 s"


@pytest.mark.parametrize("usage", [USED, priced(Prices(2, 10, 0.5), USED), priced(Prices(0, 0, 0), USED)])
def test_cost_is_kept_with_the_session(usage: Usage) -> None:
    """R-232: and a session without prices is stored as before."""
    line = json.loads(state_line(State(updated_at="2026-01-01T00:00:00Z", turns=1, model="m", cwd="/", usage=usage)))
    assert read_usage(line["usage"]) == usage
    assert ("cost_usd" in line["usage"]) is (usage.known_cost_usd is not None)


@pytest.mark.parametrize("cost", ["1", None, [], True, -1])
def test_cost_that_is_not_one_is_none(cost: object) -> None:
    """R-232"""
    assert read_usage({"input_tokens": 3, "priced_tokens": 3, "cost_usd": cost}) == Usage(input_tokens=3)


@pytest.mark.parametrize(("amount", "shown"), [(0, "$0.00"), (0.00012, "$0.0001"), (0.5, "$0.5000"), (12.3, "$12.30")])
def test_usd(amount: float, shown: str) -> None:
    """R-232"""
    assert render_usd(amount) == shown
