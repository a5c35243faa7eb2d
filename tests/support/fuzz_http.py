"""Requests that are almost right, sent to a real server: it answers or closes, and never fails inside.

PYTHONPATH=tests:. python3 -m support.fuzz_http [REQUESTS [SEED]]
"""

from __future__ import annotations

import random
import socket
import sys
from collections import Counter

from fakes.live_sessions import KNOWN
from support.web_server import TOKEN, RunningServer, request, serving

from odek.web.routes import ROUTES

_PATHS = [
    *(
        (
            route.method,
            route.path.replace("{id}", KNOWN).replace("{aid}", "a").replace("{tid}", "1").replace("{uid}", "u"),
        )
        for route in ROUTES
        if not route.streams
    ),
    ("GET", "/"),
    ("HEAD", "/app.js"),
]
_QUERIES = ("limit=1", "q=%s", "before=x", "%00=1", "q=1&q=2", "limit=99999999999", "before=%ff", "q=" + "a" * 500)
_BODIES = (
    *(
        b"{}",
        b'{"text":"a"}',
        b'{"turn":1}',
        b'{"answer":"once","digest":"d"}',
        b'{"model":"m"}',
        b'{"action":"close"}',
    ),
    *(b'{"token":"x"}', b"\xff\x00", b"[" * 200),
)
_NAMES = ("a", "%", "%ff", "\xff", "%00", "..%2f")


def fuzz(server: RunningServer, requests: int, seed: int) -> Counter[str]:
    """Send so many requests and return how often each status came; "" where there was no answer."""
    chance, found = random.Random(seed), Counter[str]()
    for _ in range(requests):
        server.service.logins._buckets.clear()
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
            answer = b""
            try:
                client.sendall(_mutated(_request(server, chance), chance))
                client.shutdown(socket.SHUT_WR)
                while data := client.recv(1 << 16):
                    answer += data
            except OSError:
                pass  # it was refused and closed before all of it was sent
        found[answer[9:12].decode("latin-1")] += 1
    return found


def _request(server: RunningServer, chance: random.Random) -> bytes:
    method, path = chance.choice(_PATHS)
    body = chance.choice(_BODIES)
    headers = {
        "Host": server.host,
        "Authorization": f"Bearer {TOKEN}",
        "Content-Type": chance.choice(("application/json", "application/octet-stream")),
        "Content-Length": str(len(body)),
        "X-Odek-Filename": chance.choice(_NAMES),
    }
    return request(method, path + chance.choice(("", "", f"?{chance.choice(_QUERIES)}")), headers, body)


def _mutated(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((0, 0, 1, 2, 5))):
        place = chance.randrange(len(changed))
        if chance.random() < 0.5:
            changed[place : place + chance.randrange(9)] = b""
        else:
            changed[place : place + chance.randrange(2)] = chance.randbytes(chance.randrange(1, 5))
    return bytes(changed)


def main(arguments: list[str]) -> int:
    requests, seed = (int(arguments[place]) if len(arguments) > place else 10_000 for place in (0, 1))
    with serving(patience_s=0.5) as server:
        print(f"seed {seed}: {dict(fuzz(server, requests, seed))}, bugs: {server.bugs}")
        return 1 if server.bugs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
