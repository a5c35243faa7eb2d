"""profiles.py: what is known of models, and what servers say about theirs."""

from __future__ import annotations

import pytest

from odek.model.profiles import ModelProfile, find_profile, parse_stated_window, parse_window


@pytest.mark.parametrize(
    ("model", "profile"),
    [
        ("deepseek-v4-pro", ModelProfile(window=1_000_000, thinking="enabled", timeout_s=180.0)),
        ("DeepSeek-V4-Pro-0711", ModelProfile(window=1_000_000, thinking="enabled", timeout_s=180.0)),
        ("deepseek-v4-flash", ModelProfile(window=131_072, timeout_s=90.0)),
        ("deepseek-chat", ModelProfile(window=131_072)),
        ("deepseek/deepseek-chat", ModelProfile(window=131_072)),
        ("claude-sonnet-4-5", ModelProfile(window=200_000, output_tokens=32_000)),
        ("claude-3-haiku-20240307", ModelProfile(window=200_000, output_tokens=4096)),
        ("claude-3-5-haiku-latest", ModelProfile(window=200_000, output_tokens=8192)),
        ("qwen3-coder", ModelProfile()),
        ("my-deepseek-copy", ModelProfile()),
        ("", ModelProfile()),
    ],
)
def test_longest_prefix_counts(model: str, profile: ModelProfile) -> None:
    assert find_profile(model) == profile


@pytest.mark.parametrize(
    ("payload", "window"),
    [
        ({"data": [{"id": "other", "context_length": 1}, {"id": "m", "context_length": 8192}]}, 8192),
        ({"models": [{"name": "m", "max_context": 4096}]}, 4096),
        ({"data": [{"id": "m", "max_input_tokens": 200_000}]}, 200_000),
        ({"data": [{"id": "m", "max_model_len": 32_768}]}, 32_768),
        ({"data": [{"id": "m", "context_window": 131_072}]}, 131_072),
        # llama.cpp calls its only model by its path, and lists it twice
        ({"models": [{"name": "/m.gguf"}], "data": [{"id": "/m.gguf", "meta": {"n_ctx_train": 2048}}]}, 2048),
        # the window in force is smaller than the one of the training
        ({"data": [{"id": "m", "max_context_length": 131_072, "loaded_context_length": 4096}]}, 4096),
        ({"data": [{"id": "a", "context_length": 1}, {"id": "b", "context_length": 2}]}, None),
        ({"data": [{"id": "m"}]}, None),
        ({"data": [{"id": "m", "context_length": "8192"}]}, None),
        ({"data": [{"id": "m", "context_length": True}]}, None),
        ({"data": [{"id": "m", "context_length": -1, "max_context": 9}]}, 9),
        ({"data": [None, 3, "x"]}, None),
        ({"data": {}}, None),
        ({}, None),
        ([], None),
        (None, None),
    ],
)
def test_window_as_servers_tell_it(payload: object, window: int | None) -> None:
    assert parse_window(payload, "m") == window


@pytest.mark.parametrize(
    ("refusal", "window"),
    [
        ("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens", 8192),
        ('{"error":{"type":"exceed_context_size_error","n_prompt_tokens":3703,"n_ctx":1024}}', 1024),
        ("request (3703 tokens) exceeds the available context size (1024 tokens), try increasing it", 1024),
        ("Requested tokens (3611) exceed context window of 2048", 2048),
        ("prompt is too long: 203456 tokens > 200000 maximum", 200_000),
        ("the context length was exceeded", None),
        ("maximum context length is 0 tokens", None),
        ("maximum context length is 99999999999 tokens", None),
        ("", None),
    ],
)
def test_window_as_a_refusal_tells_it(refusal: str, window: int | None) -> None:
    """B42"""
    assert parse_stated_window(refusal) == window
