"""A real nginx before a server: TLS, a path prefix that it strips, and its buffering as it comes."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CERTIFICATE = Path(__file__).parents[1] / "data" / "tls" / "good.pem"
_CONFIG = """\
daemon off;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{outside} ssl;
        ssl_certificate {certificate};
        ssl_certificate_key {certificate};
        location /tools/odek/ {{
            proxy_pass http://127.0.0.1:{inside}/;
            proxy_set_header Host $http_host;
        }}
    }}
}}
"""


def find_nginx() -> str:
    """Return the path of nginx; without one the test is skipped, in CI it fails."""
    found = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        message = "no nginx on PATH; Debian: apt-get install nginx-light"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(message)
    return found


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running_nginx(program: str, folder: Path, *, outside: int, inside: int) -> Iterator[None]:
    """Serve https://…:outside/tools/odek/ from http://127.0.0.1:inside/."""
    config = folder / "nginx.conf"
    config.write_text(_CONFIG.format(folder=folder, outside=outside, inside=inside, certificate=CERTIFICATE))
    process = subprocess.Popen((program, "-c", str(config), "-e", "stderr"), stderr=subprocess.PIPE)
    try:
        while True:
            assert process.poll() is None, process.stderr and process.stderr.read().decode()
            try:
                socket.create_connection(("127.0.0.1", outside), timeout=5).close()
                break
            except ConnectionRefusedError:
                continue
        yield
    finally:
        process.terminate()
        process.communicate()
