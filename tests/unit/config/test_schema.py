"""What is written from the table: the schema, the templates, the reference in the docs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fakes.layering import make_layers
from support.load_module import load_recipe

from odek.config.options import ProjectRule, Source
from odek.config.resolve import project_overrides, resolve
from odek.config.schema import render_template, schema
from odek.config.settings import OPTIONS

RECIPE = load_recipe("config_reference")
GROUPS = {option.key.partition(".")[0] for option in OPTIONS if "." in option.key}
DOCUMENT = Path(__file__).parents[3] / "docs" / "CONFIG.md"


def _keys(document: dict[str, Any]) -> set[str]:
    properties = document["properties"]
    groups = GROUPS & set(properties)
    nested = {f"{group}.{name}" for group in groups for name in properties[group]["properties"]}
    return (set(properties) - groups - {"$schema"}) | nested


def test_project_schema_has_exactly_what_a_project_may_set() -> None:
    """R-20, R-12"""
    allowed = {option.key for option in OPTIONS if option.in_file and option.project is not ProjectRule.FORBIDDEN}
    assert _keys(schema(Source.PROJECT)) == allowed  # type: ignore[arg-type]


def test_operators_schema_has_every_key() -> None:
    """R-20, R-12"""
    assert _keys(schema(Source.GLOBAL)) == {option.key for option in OPTIONS if option.in_file}  # type: ignore[arg-type]


def test_schema_describes_types_and_limits() -> None:
    """R-20"""
    properties: Any = schema(Source.PROJECT)["properties"]
    assert properties["sandbox_pids_limit"] == {
        "description": "How many processes the container may hold (can only lower the operator's limit)",
        "default": 4096,
        "type": "integer",
        "minimum": 16,
        "maximum": 4194304,
    }
    assert properties["thinking"]["enum"] == ["", "enabled", "disabled", "low", "medium", "high"]
    assert properties["sandbox"]["type"] == "boolean"
    assert properties["sandbox_env"]["additionalProperties"] == {"type": "string"}
    assert properties["sandbox_volumes"]["items"] == {"type": "string", "minLength": 1}
    assert properties["tools"]["additionalProperties"] is False
    assert schema(Source.PROJECT)["additionalProperties"] is False


def test_schema_of_the_policy_lifts_nothing_from_blocked() -> None:
    policy: Any = schema(Source.GLOBAL)["properties"]["dangerous"]  # type: ignore[index]
    assert policy["properties"]["classes"]["properties"]["blocked"] == {"enum": ["deny"]}
    assert policy["properties"]["classes"]["properties"]["unknown"] == {"enum": ["allow", "prompt", "deny"]}
    assert "sandboxed" in policy["properties"]
    assert "sandboxed" not in policy["properties"]["sandboxed"]["properties"]


def test_schemas_are_json() -> None:
    for source in (Source.GLOBAL, Source.PROJECT):
        assert json.loads(json.dumps(schema(source))) == schema(source)


@pytest.mark.parametrize(
    "operator",
    [
        None,
        {},
        {"sandbox": False},
        {"sandbox_pids_limit": 16, "sandbox_network": "bridge", "tools": {"disabled": ["x"]}},
    ],
)
def test_project_template_loads_without_warning_or_question(operator: dict[str, object] | None) -> None:
    """R-18, F-44: whatever the operator has set."""
    project = json.loads(render_template(Source.PROJECT))
    layers = make_layers(operator=operator, project=project)
    settings = resolve(layers)
    assert settings.warnings == ()
    assert project_overrides(layers) == ()
    assert settings.sandbox.enabled is True


def test_operators_template_changes_nothing() -> None:
    """R-18, F-45: it loads clean and decides nothing that was not so before."""
    settings = resolve(make_layers(operator=json.loads(render_template(Source.GLOBAL))))
    plain = resolve(make_layers())
    assert settings.warnings == ()
    assert (settings.model, settings.sandbox) == (plain.model, plain.sandbox)
    assert (settings.dangerous, settings.tools_enabled) == (plain.dangerous, plain.tools_enabled)
    assert not settings.was_set("sandbox")


def test_operators_template_shows_every_key_that_has_a_value_when_unset() -> None:
    """R-18"""
    document = json.loads(render_template(Source.GLOBAL))
    shown = set(document) - GROUPS | {f"{group}.{key}" for group in GROUPS & set(document) for key in document[group]}
    keys = {option.key for option in OPTIONS if option.in_file}
    limits = {key for key in keys if key.startswith("limits.")}
    assert keys - shown == {"sandbox", "tools.enabled", "prompt_caching", "providers", "mcp.elicitation"} | limits
    assert "action" not in document["dangerous"]


def test_templates_end_with_a_line_end() -> None:
    assert render_template(Source.PROJECT) == '{\n  "sandbox": true,\n  "tools": {\n    "disabled": []\n  }\n}\n'
    assert render_template(Source.GLOBAL).endswith("}\n")


def test_document_holds_the_table_as_it_is() -> None:
    """R-12: `python3 build/config_reference.py` writes it."""
    begin, end = "<!-- settings: begin -->\n", "<!-- settings: end -->"
    found = re.search(f"{begin}(.*?){end}", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    assert found[1] == RECIPE.render_reference()


def test_reference_names_every_option() -> None:
    text = RECIPE.render_reference()
    assert len([line for line in text.splitlines() if line.startswith("| ")]) == len(OPTIONS) + 1
    for option in OPTIONS:
        assert not option.in_file or f"`{option.key}`" in text


@pytest.mark.parametrize(
    "block", re.findall(r"```json project\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
)
def test_examples_for_a_project_load_clean(block: str) -> None:
    assert resolve(make_layers(project=json.loads(block))).warnings == ()


@pytest.mark.parametrize(
    "block", re.findall(r"```json operator\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
)
def test_examples_for_the_operator_load_clean(block: str) -> None:
    env = dict.fromkeys(re.findall(r"\$\{(\w+)\}", block), "x")
    assert resolve(make_layers(operator=json.loads(block), env=env)).warnings == ()
