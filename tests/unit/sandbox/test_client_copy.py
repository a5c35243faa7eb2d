"""What of the user's settings Docker's client gets."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from odek.sandbox.client_config import ClientConfig, copied_files


def config(context: str = "default", host: str = "", **settings: Any) -> ClientConfig:
    return ClientConfig(folder="/h/.docker", context=context, host=host, origin="", settings=settings)


def copied(made: ClientConfig) -> object:
    return json.loads(copied_files(made, lambda _: None)["config.json",])


def test_accounts_helpers_and_context_are_kept_and_nothing_else() -> None:
    """F2: what names programs stays behind: plugins and their folders, aliases, hooks."""
    kept = {
        "auths": {"r.test": {"auth": "dTpw", "identitytoken": "t"}, "empty.test": {}},
        "credsStore": "secretservice",
        "credHelpers": {"gcr.test": "gcloud"},
    }
    made = config(
        **kept,
        cliPluginsExtraDirs=["/work/evil"],
        aliases={"builder": "evil"},
        plugins={"evil": {"hooks": "run,pull", "x": "y"}},
        detachKeys="a",
        HttpHeaders={"X": "y"},
        psFormat="x",
        features={"hooks": "true"},
        proxies={"default": {"httpProxy": "http://evil.test"}},
    )
    assert copied(made) == kept


@pytest.mark.parametrize(
    "name", ["", "../../work/evil", "/work/evil", "x/../../evil", "-x", ".", "a b", "a\n", 7, None, []]
)
def test_helper_that_is_not_the_end_of_a_programs_name_is_left_out(name: object) -> None:
    """F2: docker-credential-NAME is run; a slash in it makes it a path below the working directory."""
    assert copied(config(credsStore=name, credHelpers={"r.test": name})) == {}


@pytest.mark.parametrize("odd", [None, [], "x", 7, {"r": "x"}, {"r": {"auth": 7, "evil": "x"}}])
def test_what_is_odd_is_left_out(odd: object) -> None:
    """F2: names of members are compared without case, as the client does it."""
    made = copied(config(AUTHS=odd))
    assert made == ({"auths": {"r": {}}} if isinstance(odd, dict) else {})


def test_context_comes_with_its_address_and_certificates() -> None:
    """F2: and not with whatever else its description says."""
    digest = hashlib.sha256(b"far").hexdigest()
    place = f"/h/.docker/contexts/%s/{digest}/%s"
    meta = {"Name": "x", "Metadata": {"evil": 1}, "Endpoints": {"docker": {"Host": "tcp://a:1", "SkipTLSVerify": True}}}
    there = {
        place % ("meta", "meta.json"): json.dumps(meta).encode(),
        place % ("tls", "docker/ca.pem"): b"CA",
        place % ("tls", "docker/other"): b"evil",
    }
    files = copied_files(config("far", "tcp://a:1"), there.get)
    assert json.loads(files.pop(("config.json",))) == {"currentContext": "far"}
    assert json.loads(files.pop(("contexts", "meta", digest, "meta.json"))) == {
        "Name": "far",
        "Metadata": {},
        "Endpoints": {"docker": {"Host": "tcp://a:1", "SkipTLSVerify": True}},
    }
    assert files == {("contexts", "tls", digest, "docker", "ca.pem"): b"CA"}
