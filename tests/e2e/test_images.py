"""Images as a user gives them: --image, @file in a task, a session that goes on, and read_file of one."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest
from fakes import pictures
from fakes.model_server import ModelServer, calls, text
from support.odek_process import Odek

PNG, GIF = pictures.png(3, 2), pictures.gif(5, 5)
ON_HOST = ("--no-sandbox",)


def shown(server: ModelServer, request: int = -1) -> list[tuple[list[bytes], str]]:
    """Return the images, as base64, and the text of each message of the user in a request."""
    found = []
    for message in server.requests[request].json["messages"]:
        if message["role"] == "user":
            parts = message["content"] if isinstance(message["content"], list) else [{"text": message["content"]}]
            urls = [part["image_url"]["url"] for part in parts if "image_url" in part]
            words = [part["text"] for part in parts if "text" in part]
            found.append(([url.partition("base64,")[2].encode() for url in urls], words[-1]))
    return found


def test_images_of_a_task_and_of_a_session_that_goes_on(odek: Odek) -> None:
    """R-234: by flag and in the text; the session keeps where they are, and what has changed is said."""
    (odek.cwd / "a.png").write_bytes(PNG)
    (odek.home / "b.jpg").write_bytes(GIF)  # a name is a claim
    with ModelServer(*[text("seen")] * 3) as server:
        common = (*ON_HOST, "--base-url", server.base_url)
        ran = odek.run("run", "--session", *common, "--image", str(odek.home / "b.jpg"), "compare it with @a.png")
        assert (ran.code, ran.stdout) == (0, "seen\n"), ran.stderr
        ((images, words),) = shown(server)
        assert images == [b64encode(GIF), b64encode(PNG)]
        assert "compare it with @a.png" in words
        assert f"(PNG image, 3x2, {len(PNG)} bytes; shown)" in words
        assert "data:image/gif;base64" in server.requests[0].body.decode()
        (session,) = (odek.home / ".odek" / "sessions").glob("*.jsonl")
        assert b64encode(PNG) not in session.read_bytes()
        odek.run("continue", "--base-url", server.base_url, "again")
        assert shown(server)[0][0] == [b64encode(GIF), b64encode(PNG)]
        (odek.cwd / "a.png").write_bytes(pictures.png(4, 4))
        changed = odek.run("continue", "--base-url", server.base_url, "and again")
        assert shown(server)[0][0] == [b64encode(GIF)]
        assert "[the image a.png is not shown: the file is gone or has changed]" in shown(server)[0][1]
        assert 'a.png", given with an earlier turn, is gone or has changed' in changed.stderr
    server.assert_all_used()


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.png", b"%PDF-1.7", "it is not a PNG, JPEG, GIF or WebP image"),
        ("a.png", PNG[:12], "it is a damaged image"),
        ("a.png", pictures.png(9000, 1), "it is 9000x1 pixels"),
        ("a.png", PNG + bytes(4_000_000), "it is larger than 3.75 MB"),
        ("none.png", None, "no such file"),
    ],
)
def test_what_cannot_be_shown_stops_before_anything_is_asked(
    name: str, data: bytes | None, words: str, odek: Odek
) -> None:
    """R-234: in its own words, exit 2."""
    if data is not None:
        (odek.cwd / name).write_bytes(data)
    with ModelServer() as server:
        ran = odek.run("run", *ON_HOST, "--base-url", server.base_url, "--image", name, "look")
    assert (ran.code, words in ran.stderr, server.requests) == (2, True, []), ran.stderr


def test_model_that_the_operator_says_takes_none(odek: Odek) -> None:
    """R-234: refused before it is asked; `--ctx` gives the file to the tools."""
    (odek.cwd / "a.png").write_bytes(PNG)
    (odek.home / ".odek").mkdir(mode=0o700)
    with ModelServer(text("done")) as server:
        models = {"blind": {"images": False}}
        providers = {"work": {"base_url": server.base_url, "models": models}}
        (odek.home / ".odek" / "config.json").write_text(json.dumps({"providers": providers, "model": "work/blind"}))
        ran = odek.run("run", *ON_HOST, "look at @a.png")
        assert (ran.code, server.requests) == (2, [])
        assert "work/blind takes no images" in ran.stderr
        assert odek.run("run", *ON_HOST, "--ctx", "a.png", "look").stdout == "done\n"
        assert f"(binary, {len(PNG)} bytes; not shown)" in shown(server)[0][1]


def test_read_file_of_an_image_says_how_to_look_at_it(odek: Odek) -> None:
    """R-234"""
    (odek.cwd / "a.png").write_bytes(PNG)
    with ModelServer(calls(("read_file", {"path": "a.png"})), text("done")) as server:
        odek.run("run", *ON_HOST, "--base-url", server.base_url, "what is in a.png?")
    result = server.requests[-1].json["messages"][-1]["content"]
    assert f"is a PNG image, 3x2, {len(PNG)} bytes, which no tool can show you" in result
    assert "as @a.png in the next message, or with --image" in result
