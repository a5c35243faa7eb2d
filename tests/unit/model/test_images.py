"""Images: what their bytes say, how each API gets them, and what becomes of them at a model that takes none."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest
from fakes import pictures
from fakes.model_server import ModelServer, Step, status, text, whole

from odek.agent.context_window import estimate_tokens
from odek.model.errors import ModelError
from odek.model.http import Effects, HttpModel
from odek.model.images import LIMIT_BYTES, Image, describe, image_fault, image_size, image_type
from odek.model.provider import RequestOptions
from odek.model.types import Message, Thought

PNG = pictures.png(3, 2)
KINDS = {
    "png": (PNG, "image/png"),
    "gif": (pictures.gif(3, 2), "image/gif"),
    "jpeg": (pictures.jpeg(3, 2), "image/jpeg"),
    "webp lossy": (pictures.webp(b"VP8 ", 3, 2), "image/webp"),
    "webp lossless": (pictures.webp(b"VP8L", 3, 2), "image/webp"),
    "webp extended": (pictures.webp(b"VP8X", 3, 2), "image/webp"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_type_and_size_are_read_from_the_bytes(kind: str) -> None:
    """R-234"""
    data, media_type = KINDS[kind]
    assert (image_type(data), image_size(data), image_fault(data)) == (media_type, (3, 2), "")
    for end in range(len(data)):  # cut anywhere: a fault or a smaller file, never an error
        image_fault(data[:end])
        describe(data[:end])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it is not a PNG"),
        (b"%PDF-1.7", "it is not a PNG"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "it is not a PNG"),
        (b"BM" + bytes(50), "it is not a PNG"),
        (b"\x89PNG\r\n\x1a\n", "it is a damaged image"),
        (b"\xff\xd8\xff\xe0\xff\xff", "it is a damaged image"),
        (pictures.gif(0, 5), "it is a damaged image"),
        (pictures.png(8001, 1), "it is 8001x1 pixels"),
        (pictures.jpeg(1, 9000), "it is 1x9000 pixels"),
        (PNG + bytes(LIMIT_BYTES), "it is larger than 3.75 MB"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_no_model_can_be_given(data: bytes, words: str) -> None:
    """R-234"""
    assert image_fault(data).startswith(words)


def image(data: bytes = PNG, name: str = "a.png") -> Image:
    sha256 = hashlib.sha256(data).hexdigest()
    return Image(name=name, media_type=image_type(data), path=f"/{name}", sha256=sha256, data=data)


LOOK = Message(role="user", content="what is it?", images=(image(),))
ADDRESS = f"data:image/png;base64,{b64encode(PNG).decode()}"


def client(server: ModelServer, provider: Any = "openai", **options: Any) -> HttpModel:
    return HttpModel(
        base_url=server.base_url, options=RequestOptions(model="m", **options), provider=provider, env={},
        on_notice=lambda _: None, effects=Effects(sleep=lambda _: None),
    )  # fmt: skip


def shown(_: str) -> None:
    assert not isinstance(_, Thought)


@pytest.mark.parametrize("caching", [False, True])
def test_images_in_openais_form(caching: bool) -> None:
    """R-234: ahead of the text; two messages in a row are joined with the images of both."""
    with ModelServer(text("a square")) as server:
        client(server, caching=caching).complete((LOOK, replace(LOOK, content="really?")), (), shown)
    (message,) = server.requests[0].json["messages"]
    assert [part["type"] for part in message["content"]] == ["image_url", "image_url", "text"]
    assert message["content"][0]["image_url"] == {"url": ADDRESS}
    assert message["content"][2]["text"] == "what is it?\n\nreally?"
    assert ("cache_control" in message["content"][2]) is caching


def test_images_in_anthropics_form() -> None:
    """R-234"""
    with ModelServer(text("a square")) as server:
        client(server, "anthropic").complete((LOOK,), (), shown)
    (message,) = server.requests[0].json["messages"]
    source = {"type": "base64", "media_type": "image/png", "data": b64encode(PNG).decode()}
    assert message["content"][0] == {"type": "image", "source": source}
    assert message["content"][1]["text"] == "what is it?"


def test_image_that_is_gone_is_named_in_its_place() -> None:
    """R-234: the model would make up what it does not see."""
    gone = replace(LOOK, images=(replace(image(), data=b""), image(name="b.png")))
    with ModelServer(text("x"), text("x")) as server:
        client(server).complete((gone,), (), shown)
        client(server, "anthropic").complete((gone,), (), shown)
    for request in server.requests:
        *_, words = request.json["messages"][0]["content"]
        assert words["text"].startswith("[the image a.png is not shown: the file is gone or has changed]\n\nwhat")


REFUSALS = {
    "OpenRouter": status(404, {"error": {"message": "No endpoints found that support image input", "code": 404}}),
    "DeepSeek": status(
        400, {"error": {"message": "messages[0]: unknown variant `image_url`, expected `text` at line 1"}}
    ),
    "Groq": status(400, {"error": {"message": "messages[0].content must be a string"}}),
    "Mistral": status(400, {"message": "Image input is not enabled for this model", "code": "3051"}),
    "llama.cpp": status(500, {"error": {"message": "image input is not supported - hint: provide the mmproj"}}),
    "vLLM": status(400, {"object": "error", "message": "At most 0 image(s) may be provided in one request."}),
    "Ollama": status(500, {"error": {"message": "this model is missing data required for image input"}}),
    "MiniMax": whole({"base_resp": {"status_code": 2013, "status_msg": "model does not support image"}}),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_model_that_takes_no_images_says_so_and_the_conversation_goes_on(kind: str) -> None:
    """R-234: what the task is about is not left out unseen; of turns that are over a note stays."""
    later = (LOOK, Message(role="assistant", content="[odek] no reply"), Message(role="user", content="go on"))
    with ModelServer(REFUSALS[kind], text("I go on")) as server:
        model = client(server)
        with pytest.raises(ModelError) as caught:
            model.complete((LOOK,), (), shown)
        assert "takes no images: choose another one with --model" in caught.value.hint
        assert model.complete(later, (), shown).message.content == "I go on"
    server.assert_all_used()
    first = server.requests[-1].json["messages"][0]["content"]
    assert first == "[the image a.png is not shown: this model takes no images]\n\nwhat is it?"


def test_session_moved_to_a_model_without_images_goes_on() -> None:
    """R-234: learned from its refusal, within the turn."""
    later = (LOOK, Message(role="assistant", content="a square"), Message(role="user", content="go on"))
    with ModelServer(REFUSALS["Groq"], text("done")) as server:
        assert client(server).complete(later, (), shown).message.content == "done"
    server.assert_all_used()


@pytest.mark.parametrize("words", ["image exceeds 5 MB maximum: 6 MB", "Could not process image", "image too large"])
def test_refusal_of_one_image_is_not_of_all(words: str) -> None:
    """R-234"""
    refusal: Step = status(400, {"error": {"type": "invalid_request_error", "message": words}})
    with ModelServer(*[refusal] * 3) as server, pytest.raises(ModelError) as caught:
        client(server).complete((LOOK,), (), shown)
    assert "takes no images" not in caught.value.hint


def test_images_count_when_a_conversation_is_measured() -> None:
    """R-234, F-52"""
    assert estimate_tokens((LOOK,), ()) - estimate_tokens((replace(LOOK, images=()),), ()) == 1600
