"""Fixtures of the end-to-end tests."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.page_server import PageServer
from support.devtools import Browser, Page, find_chromium
from support.odek_process import Odek
from support.scenario import Scene


@pytest.fixture
def scene(odek: Odek, tmp_path: Path) -> Scene:
    """A run whose model asks for one command that would leave a mark on the host."""
    return Scene(odek=odek, folder=tmp_path)


@pytest.fixture
def on_host(odek: Odek) -> Odek:
    """The program, with an operator's file that lets every command run on the host."""
    folder = odek.home / ".odek"
    folder.mkdir(mode=0o700)
    (folder / "config.json").write_text(json.dumps({"sandbox": False, "dangerous": {"action": "allow"}}))
    (folder / "config.json").chmod(0o600)
    return odek


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One browser for all tests of the page."""
    binary = find_chromium()
    if binary is None:
        message = "no Chromium on PATH; Debian: apt-get install chromium"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(message)
    browser = Browser(binary)
    yield browser
    browser.close()


@pytest.fixture
def server() -> Iterator[PageServer]:
    """A server with scripted sessions; none of its answers may be due to a bug."""
    made = PageServer()
    yield made
    made.stop()
    assert made.bugs == []


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A tab of its own; what the console complains about fails the test, requests that the test breaks apart."""
    made = chromium.new_page()
    yield made
    problems = [one for one in made.problems() if "Failed to load resource" not in one]
    made.close()
    assert problems == []
