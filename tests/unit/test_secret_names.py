"""One list of secret names, for all who need one (A26, F-7)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import odek
from odek.host_executor.commands import scrub_environment
from odek.redact import MARK, Redactor, secrets_in
from odek.secret_names import is_secret_name, names_a_place

SECRET = (
    *("GITHUB_PAT", "BASIC_AUTH", "SSH_PASSPHRASE", "APP_SECRETS", "OPENAI_API_KEY", "aws_secret_access_key"),
    *("DB-PASSWORD", "PGPASSWORD", "MYSQL_PWD", "SSHPASS", "GITHUB_TOKEN", "DBPASSWORD", "githubToken", "apiKey"),
    *(
        "npm_config__authToken",
        "API_KEYS",
        "API_KEY2",
        "TOKEN_1",
        "PASSWORD1",
        "LDAP_PW",
        "AWS_CREDS",
        "SESSION_COOKIE",
    ),
    *("GOOGLE_CREDENTIALS", "CI_JOB_JWT", "spring.datasource.password", "HTTP_AUTHORIZATION", "SESSION_COOKIE"),
)
PLAIN = (
    *("KEYBOARD", "MONKEY", "PATH", "TOKENS", "MAX_TOKENS", "HOME", "PWD", "OLDPWD", "SSH_AUTH_SOCK", "AUTHOR"),
    *("GIT_AUTHOR_NAME", "COMPASS", "XAUTHORITY", "PATTERN", "LANG", "TERM", "EDITOR", "", "_", "SPAWN", "PATCH"),
)


@pytest.mark.parametrize("name", SECRET)
def test_a_secret_name_is_one_for_redactor_environment_and_classifier(name: str) -> None:
    """A26: what the model prints of it is masked, and a command on the host does not get it."""
    value = "Xy7-planted-value"
    assert is_secret_name(name)
    assert Redactor(secrets_in({name: value}))(f"it is {value}") == f"it is {MARK}"
    assert scrub_environment({name: value, "LANG": "C"}) == {"LANG": "C"}


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_name_stays(name: str) -> None:
    assert not is_secret_name(name)
    assert scrub_environment({name: "x"}) == {name: "x"}


@pytest.mark.once
def test_a_place_is_not_a_value() -> None:
    assert is_secret_name("SSH_KEY_PATH")
    assert names_a_place("SSH_KEY_PATH")
    assert not names_a_place("SSH_KEY")


def test_there_is_one_list() -> None:
    """A26: no other module says by itself what a secret name is."""
    homes = [
        path.name
        for path in Path(odek.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name == "is_secret_name"
    ]
    assert homes == ["secret_names.py"]
