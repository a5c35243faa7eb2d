"""Clients that only talk to the sandbox itself or to services on the networks that were attached for it.

Attaching a network by name says that its services are to be reached; what asks is the way out (D-6).
Whatever leaves the destination open (an option that is not listed, a proxy, a computed name) does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from odek.danger.call import Call
from odek.danger.options import Arguments
from odek.danger.risk import Hosts
from odek.danger.shell import abstract_text
from odek.patterns import pattern

SELF = frozenset(("localhost", "127.0.0.1", "::1", "0.0.0.0"))  # noqa: S104 - a destination
"""how a container names itself"""

_REDIRECTING = pattern(
    r"(?i)(?!(?:PG(?:PASSWORD|USER|DATABASE|PORT)|MYSQL_PWD|REDISCLI_AUTH)$)"
    r"(?:(?:PG|MYSQL|MARIADB|REDIS|VALKEY|MONGO|CURL|WGET)\w*|\w*_PROXY|HOME)"
)
"""variables that send a client elsewhere"""
_ADDRESS = pattern(r"(?i)[a-z][a-z0-9+.-]*://(?:[^/?#@\\]*@)?(\[[0-9a-f:]+\]|[^/?#:]*)(?::\d+)?(?:[/?#].*)?")
_NAME = pattern(r"[A-Za-z0-9_.-]+|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*")


def find_hosts(call: Call, arguments: Arguments) -> Hosts:
    """Return every host that `call` certainly talks to, if all of them are near."""
    peers = call.context.place.peers
    find = _CLIENTS.get(call.program)
    if not peers or find is None or not all(map(abstract_text.is_exact, call.argv)):
        return None
    if any(name == "" or _REDIRECTING.fullmatch(name) for name in (*call.state.variables, *call.context.assigned)):
        return None
    if not all(_is_harmless(value, call, peers) for value in _alternatives(call)):
        return None
    hosts = find(arguments)
    return hosts if hosts is None else tuple(map(_bare, hosts))


def _alternatives(call: Call) -> Iterator[str]:
    """Yield what a variable may hold besides something else: all of them are among the words at once."""
    for values in call.state.variables.values():
        if len(values) > 1:
            yield from values


def _is_harmless(value: str, call: Call, peers: frozenset[str]) -> bool:
    is_number = value.isdigit() and len(value) < 4  # longer ones may be an address
    return is_number or _bare(value) in peers or not any(value in word for word in call.argv)


def _bare(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()


def _of_redis(arguments: Arguments) -> Hosts:
    hosts = [*arguments.values("-h"), *map(_host_in, arguments.values("-u", "--uri"))]
    return tuple(hosts) or ("localhost",)


def _of_postgres(arguments: Arguments) -> Hosts:
    named = [host for value in arguments.values("-h", "--host") for host in value.split(",")]
    texts = (*arguments.values("-d", "--dbname"), *arguments.operands)
    if any("=" in text and "://" not in text for text in texts):  # "host=… port=…", and much else
        return None
    if any("\\" in text for text in arguments.values("-c", "--command")):  # \connect
        return None
    named += [host for text in texts if "://" in text for host in _hosts_in(text)]
    return tuple("localhost" if host.startswith("/") else host for host in named) or ("localhost",)


def _of_mysql(arguments: Arguments) -> Hosts:
    if arguments.has("--defaults-file", "--defaults-extra-file", "--login-path"):
        return None
    return arguments.values("-h", "--host") or ("localhost",)


def _of_mongo(arguments: Arguments) -> Hosts:
    first = arguments.operands[:1]
    if first and "://" in first[0]:
        return _hosts_in(first[0]) if first[0].startswith("mongodb://") else None  # +srv asks the name service
    if first and ("/" in first[0] or ":" in first[0] or "." in first[0]):
        return (first[0].partition("/")[0].partition(":")[0], *arguments.values("--host"))
    return arguments.values("--host") or ("localhost",)


def _of_url_client(arguments: Arguments) -> Hosts:
    hosts = [*map(_host_in, arguments.operands)]
    known = all(option.name in _URL_OPTIONS for option in arguments.options)
    return tuple(hosts) if hosts and known else None


def _of_connector(arguments: Arguments) -> Hosts:
    known = all(option.name in _CONNECT_OPTIONS or option.name[1:].isdigit() for option in arguments.options)
    return arguments.operands[:1] if arguments.operands and known else None


def _of_nothing(_: Arguments) -> Hosts:
    return ()


def _host_in(text: str) -> str:
    """Return the host of a URL, the scheme of which may be missing; "" when it is none."""
    match = _ADDRESS.fullmatch(text if "://" in text else f"http://{text}")
    return match[1] if match and _NAME.fullmatch(match[1].strip("[]")) else ""


def _hosts_in(address: str) -> tuple[str, ...]:
    """Return the hosts of a database URL, which may name several or, by a parameter, others."""
    authority, _, rest = address.partition("://")[2].partition("/")
    if "host" in rest.lower() or "?" in authority:
        return ("",)
    return tuple(_host_in(host) if host else "localhost" for host in authority.rpartition("@")[2].split(","))


_URL_OPTIONS = frozenset(
    """
    -s --silent -S --show-error -f --fail --fail-with-body -i --include -I --head -v --verbose -k --insecure -G --get
    -4 -6 --compressed -X --request -H --header -d --data --data-raw --data-binary --data-urlencode --json -o --output
    -O -q --quiet --no-verbose --spider -m --max-time --connect-timeout --retry --retry-delay --retry-connrefused
    --retry-all-errors -w --write-out -A --user-agent -u --user -F --form -T --timeout -t --tries -S
    --server-response --post-data --method --body-data
    """.split()
)
"""options of curl and wget that name no destination"""
_CONNECT_OPTIONS = frozenset("-z -v -w -q -n -N -4 -6 -c -W -i".split())

_CLIENTS: Mapping[str, Callable[[Arguments], Hosts]] = {
    **dict.fromkeys(("redis-cli", "valkey-cli"), _of_redis),
    **dict.fromkeys(frozenset("""
        psql pg_isready pg_dump pg_restore pgbench createdb createuser vacuumdb reindexdb dropdb dropuser
        """.split()), _of_postgres),
    **dict.fromkeys(frozenset("""
        mysql mariadb mysqldump mariadb-dump mysqladmin mysqlimport mysqlcheck
        """.split()), _of_mysql),
    **dict.fromkeys(("mongosh", "mongo"), _of_mongo),
    **dict.fromkeys(("curl", "wget"), _of_url_client),
    **dict.fromkeys(("nc", "netcat", "telnet", "ping", "ping6"), _of_connector),
    "sqlite3": _of_nothing,
}  # fmt: skip
