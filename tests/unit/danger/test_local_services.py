"""Clients that do not leave the sandbox and the networks that were attached for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odek.danger.classify import classify
from odek.danger.paths import Place
from odek.danger.policy import Policy, PolicyContext, sandbox_table
from odek.danger.risk import RiskClass
from odek.danger.rules.local_services import SELF

ATTACHED = Place(
    home="/tmp",
    cwd="/workspace",
    workspace="/workspace",
    sandboxed=True,
    peers=SELF | {"redis", "db", "web", "quiet", "cache"},
)
NEAR = [
    "redis-cli ping",
    "redis-cli -h redis -p 6380 set a b",
    "redis-cli -u redis://user:word@redis:6379/0 get a",
    "for i in 1 2 3; do redis-cli -h redis ping && break; sleep 0.3; done",
    "for name in redis quiet cache; do redis-cli -h $name ping; done",
    'host=redis; redis-cli -h "$host" ping',
    "psql",
    "psql -h db -U postgres -c 'select 1'",
    "psql postgres://postgres@db/app -f schema.sql",
    "psql postgresql:///app",
    "pg_isready -h db",
    "PGPASSWORD=x true; pg_dump -h db app",
    "mysql -h 127.0.0.1 -u root -e 'show tables'",
    "mysqladmin -hdb ping",
    "mongosh mongodb://db:27017/app",
    "mongosh --eval 'db.stats()'",
    "curl -fsS http://web:8080/health",
    "curl -X POST -d '{}' localhost:3000/api",
    "curl 'http://[::1]:80/'",
    "wget -qO- http://WEB/",
    "nc -w 5 db 5432 </dev/null",
    "nc -z localhost 5432",
    "telnet web 80",
    "ping -c 3 db",
    "sqlite3 app.db .dump",
]
FAR = [
    "redis-cli -h evil.example ping",
    "redis-cli -h redis -h evil ping",
    "redis-cli -u redis://user@redis@evil:6379/0 get a",
    "redis-cli -h $HOST ping",
    "for name in redis evil; do redis-cli -h $name ping; done",
    "for name in redis 16843009; do redis-cli -h $name ping; done",
    "read host; redis-cli -h $host ping",
    'psql "postgres://postgres@db/app?host=evil"',
    'psql "host=evil dbname=app"',
    "psql postgres://a@db,evil/app",
    "psql -h db,evil",
    "psql -h db -c '\\connect app me evil'",
    "PGHOST=evil psql",
    "export PGHOST=evil; psql",
    "env PGHOST=evil psql",
    "PGHOST=evil sh -c psql",
    "mysql -hevil",
    "mysql --defaults-file=f",
    "mongosh mongodb+srv://db/app",
    "mongosh evil.example/app",
    "curl https://example.com",
    "curl -L http://web",
    "curl http://web http://evil",
    "curl http://{web,evil}/",
    "curl http://web@evil/",
    "curl 'http://evil\\@web/'",
    "curl http://web.evil.example/",
    "curl -x evil http://web",
    "curl --connect-to ::evil: http://web",
    "curl --res web:80:6.6.6.6 http://web",
    "https_proxy=evil curl http://web",
    "export ALL_PROXY=evil; curl http://web",
    "wget -i urls.txt",
    "curl",
    "nc -l 1234",
    "nc -x evil db 1",
    "nc",
    "ssh db",
    "git push",
    "dig db",
    "cat </dev/tcp/db/1",
]


def levels(command: str, place: Place = ATTACHED) -> set[RiskClass]:
    return {finding.level for finding in classify(command, place).findings}


@pytest.mark.parametrize("command", NEAR)
def test_service_that_was_attached_is_no_way_out(command: str) -> None:
    """D-6, R-53: the sandbox's own services are what the networks were attached for."""
    assert RiskClass.NETWORK_EGRESS not in levels(command)
    assert RiskClass.NETWORK_EGRESS in levels(command, replace(ATTACHED, peers=frozenset()))


@pytest.mark.parametrize("command", FAR)
def test_destination_that_is_elsewhere_or_not_certain_is_a_way_out(command: str) -> None:
    """D-6."""
    assert RiskClass.NETWORK_EGRESS in levels(command)


@pytest.mark.parametrize(
    ("command", "level"),
    [
        ("redis-cli -h redis flushall", RiskClass.DESTRUCTIVE),
        ("curl http://web/x | sh", RiskClass.CODE_EXECUTION),
        ("curl -d @.env http://web/", RiskClass.SYSTEM_WRITE),
        ("curl -o .envrc http://web/", RiskClass.LOCAL_WRITE),
        ("nc -e sh db 1", RiskClass.CODE_EXECUTION),
    ],
)
def test_what_else_a_client_does_counts_as_ever(command: str, level: RiskClass) -> None:
    assert classify(command, ATTACHED).level is level


def test_only_the_way_out_asks() -> None:
    """D-6: in a sandbox whose networks reach the internet."""
    context = PolicyContext(
        place=ATTACHED, policy=Policy(table=sandbox_table(internet=True), section="dangerous.sandboxed")
    )
    assert [context.decide_command(command).action for command in ("redis-cli -h redis ping", "curl https://a")] == [
        "allow",
        "prompt",
    ]
