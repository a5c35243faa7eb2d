"""odek serve as a process: its start, whole jobs with curl, floods, endings."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from fakes.model_server import ModelServer, calls, text
from support.docker_engine import Engine
from support.nginx import find_nginx, free_port, running_nginx
from support.odek_process import Odek
from support.serve_process import (
    URL,
    ServeProcess,
    curl,
    descendants,
    serving_process,
    sockets_of,
    stream_of,
    wait_until,
)
from support.web_server import Answer

NOTES = "notes from outside\n"
DOCUMENT = Path(__file__).parents[2] / "docs" / "SERVE.md"


@pytest.fixture
def sandboxed(odek: Odek, docker_engine: Engine, base_image: str) -> Odek:
    """The program, with an operator's file that names the test image."""
    write_settings(odek, {"sandbox_image": base_image})
    return odek


@pytest.fixture
def idle(on_host: Odek) -> Iterator[ServeProcess]:
    """A server that has nothing to do; its model is not there."""
    with serving_process(on_host, "--base-url", "http://127.0.0.1:9/v1") as server:
        yield server


def write_settings(odek: Odek, settings: dict[str, object]) -> None:
    folder = odek.home / ".odek"
    folder.mkdir(mode=0o700)
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "config.json").chmod(0o600)


def state_of(server: ServeProcess, session: str) -> str:
    return str(server.ask("GET", f"/api/sessions/{session}").json["state"])


def results_of(server: ServeProcess, session: str) -> list[str]:
    entries = server.ask("GET", f"/api/sessions/{session}").json["entries"]
    assert isinstance(entries, list)
    return [entry.get("text") or entry.get("result") or "" for entry in entries if entry["kind"] == "result"]


def test_whole_job_with_curl(sandboxed: Odek, docker_engine: Engine, tmp_path: Path) -> None:
    """W-1, W-5, W-17, W-18, R-124, R-143, P-5: login, upload, session, stream, card, answer, cancel, delete, end."""
    before = docker_engine.labelled()
    names = ("../../x", "a/b", ".bashrc", "ä" * 300, "tab\there", "a/b", "bin")
    contents = [b"x", NOTES.encode(), b"rc", b"long", b"", b"second b", bytes(range(256))]
    model = ModelServer(
        calls(("shell", {"command": 'cd /ctx && for f in *; do wc -c <"$f"; done; ls | wc -l; cat b; ls /workspace'})),
        calls(("shell", {"command": "kill -9 -1", "description": "end all"})),
        text("job done"),
        text("never heard", delay_s=60),
    )
    with model, serving_process(sandboxed, "--base-url", model.base_url, "--model", "m") as server:
        assert curl(f"{server.base}/api/health").status == 200
        assert docker_engine.labelled() == before
        assert curl(f"{server.base}/").status == 200
        jar = tmp_path / "jar"
        login = curl(
            "-c", str(jar), "-H", "Content-Type: application/json", "-d", json.dumps({"token": server.token}),
            f"{server.base}/api/login",
        )  # fmt: skip
        halves = ("-b", str(jar), "-H", f"X-Odek-Key: {login.json['key']}")
        uploads = []
        for name, data in zip(names, contents, strict=True):
            file = tmp_path / "upload"
            file.write_bytes(data)
            encoded = "".join(f"%{byte:02X}" for byte in name.encode())
            kept = curl(
                *halves, "-H", "Content-Type: application/octet-stream", "-H", f"X-Odek-Filename: {encoded}",
                "--data-binary", f"@{file}", f"{server.base}/api/uploads",
            )  # fmt: skip
            assert kept.status == 201, kept
            uploads.append(str(kept.json["id"]))
        created = curl(
            *halves, "-H", "Content-Type: application/json", "-d",
            json.dumps({"text": "do it", "files": uploads, "request_id": "r1"}), f"{server.base}/api/sessions",
        )  # fmt: skip
        assert created.status == 201, created
        session = str(created.json["id"])
        with stream_of(server, session) as events:
            asked = events.read_until(b"event: approval_asked") + events.read_until(b"\n\n")
            card = json.loads(asked.rpartition(b"data: ")[2])["approval"]
            (item,) = card["items"]
            assert item["text"] == "kill -9 -1"
            held = sockets_of(server.pid)
            children = descendants(server.pid)
            assert children  # the docker clients that hold the lease
            for child in children:
                assert not held & sockets_of(child)
            path = f"/api/sessions/{session}/approvals/{card['id']}"
            assert server.ask("POST", path, {"answer": "deny", "digest": "0"}).status == 422
            assert server.ask("POST", path, {"answer": "deny", "digest": card["digest"]}).status == 200
            assert server.ask("POST", path, {"answer": "deny", "digest": card["digest"]}).status == 409
            events.read_until(b"event: turn_ended")
        (first, second) = results_of(server, session)
        for part in ("1", str(len(NOTES)), "8", "2", "0", "256", "4", "7", NOTES.strip()):
            assert part in first.split("\n"), first
        assert "denied" in second.lower()
        assert sorted(os.listdir(sandboxed.cwd)) == []
        assert server.ask("POST", f"/api/sessions/{session}/turns", {"text": "wait"}).status == 202
        wait_until(lambda: len(model.requests) == 4)
        assert server.ask("POST", f"/api/sessions/{session}/cancel", {"turn": 2}).status == 202
        wait_until(lambda: state_of(server, session) == "idle")
        assert server.ask("POST", f"/api/sessions/{session}/cancel", {"turn": 2}).status == 200
        kept_files = sandboxed.home / ".odek" / "uploads" / session
        assert len(list(kept_files.iterdir())) == 7
        assert server.ask("DELETE", f"/api/sessions/{session}").status == 204
        assert server.ask("GET", f"/api/sessions/{session}").status == 404
        assert not kept_files.exists()
        assert docker_engine.labelled() == before
        for secret in (server.token, str(login.json["key"])):
            assert secret not in Path(f"/proc/{server.pid}/cmdline").read_text()
            assert secret not in server.log
        assert server.end() == 128 + signal.SIGTERM
    assert URL.fullmatch(server.url)
    assert server.stdout == [f"{server.url}\n"]
    assert "odek: sandbox network=none pids=4096 image=" in server.log
    assert "odek: sessions of this folder are served; Ctrl-C ends\n" in server.log
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", server.port))
        again.listen()


@pytest.mark.once
def test_examples_of_the_document_work(on_host: Odek, tmp_path: Path) -> None:
    """R-163: docs/SERVE.md is run as it stands; what was made up in it is answered as unknown."""
    section = DOCUMENT.read_text().partition("### With curl")[2].partition("### Events")[0]
    script = "\n".join(re.findall(r"```sh\n(.*?)```", section, re.DOTALL))
    script = script.replace("curl -sN", "curl -sN --max-time 2")  # it would see at the next event that sed has ended
    codes = "curl() { command curl -w '%{stderr}%{http_code}\\n' \"$@\"; }\n"
    model = ModelServer(text("read"), text("one sentence"))
    with model, serving_process(on_host, "--base-url", model.base_url, "--model", "m") as server:
        done = subprocess.run(
            ("bash", "-euc", codes + script), env={"PATH": os.environ["PATH"], "URL": server.url}, cwd=tmp_path,
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, files, job, rest = [200] * 4, [200] * 3, [201, 201, 200, 200, 200, 200, 200], done.stderr.split()[14:]
    assert [int(code) for code in done.stderr.split()[:14]] == [*first, *files, *job]
    turn, cancel, *others = map(int, rest)
    assert (turn, cancel in (200, 202)) == (202, True)
    assert others == [404, 404, 200, 202, 200, 202, 204, 404]
    assert "some notes" in model.requests[0].body.decode()


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "env", "code", "message"),
    [
        (("--addr", "0.0.0.0:0"), {}, 2, "0.0.0.0:0 can be reached from other machines (--addr)"),
        (("--addr", "192.0.2.1:0", "--hosts", "a.example"), {}, 1, "192.0.2.1:0 cannot be listened on"),
        (("--addr", "example.org:80"), {}, 1, '"example.org:80" is not an address to listen on (--addr)'),
        (("--hosts", "*"), {}, 1, '"*" cannot be the name of a server (--hosts)'),
        (("--session",), {}, 2, "--session"),
        (("--sandbox",), {"DOCKER_HOST": "unix:///nowhere/docker.sock"}, 1, "docker"),
        ((), {"ODEK_SANDBOX": "1", "DOCKER_HOST": "unix:///nowhere/docker.sock"}, 1, "docker"),
        ((), {"ODEK_REQUIRE_SANDBOX": "1"}, 1, "ODEK_REQUIRE_SANDBOX forbids it"),
        (("--provider", "openai"), {}, 1, "there is no key"),
        (("--provider", "openai", "--sandbox"), {"DOCKER_HOST": "unix:///nowhere/docker.sock"}, 1, "there is no key"),
        (("--provider", "openai", "--sandbox", "--require", "no-such"), {}, 2, '"no-such"'),
    ],
)
def test_what_can_fail_fails_at_the_start(
    on_host: Odek, arguments: tuple[str, ...], env: dict[str, str], code: int, message: str
) -> None:
    """R-122, R-123, W-15: with nothing on stdout, and never a server on the host in place of the sandbox."""
    model = () if "--provider" in arguments else ("--base-url", "http://127.0.0.1:9/v1")
    outcome = on_host.run("serve", *model, *arguments, env=env)
    assert (outcome.code, outcome.stdout) == (code, ""), outcome.stderr
    assert message.lower() in outcome.stderr.lower()


@pytest.mark.once
def test_server_that_could_keep_no_session_does_not_start(on_host: Odek) -> None:
    """R-408: each message would be refused; where sessions can be kept the attempt leaves nothing."""
    sessions = on_host.home / ".odek" / "sessions"
    sessions.parent.mkdir(mode=0o700, exist_ok=True)
    sessions.write_text("a file where the folder would be")
    outcome = on_host.run("serve", "--base-url", "http://127.0.0.1:9/v1")
    assert (outcome.code, outcome.stdout) == (1, "")
    assert f'odek: error: odek serve keeps its sessions, but "{sessions}' in outcome.stderr
    assert "odek: hint: " in outcome.stderr
    sessions.unlink()
    with serving_process(on_host, "--base-url", "http://127.0.0.1:9/v1"):
        assert list(sessions.iterdir()) == []


@pytest.mark.once
def test_stopped_daemon_is_not_followed_by_the_host(odek: Odek) -> None:
    """W-15, R-120: the default is the sandbox, and there is no fall back, whatever was asked for."""
    env = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}
    outcome = odek.run("serve", "--base-url", "http://127.0.0.1:9/v1", env=env)
    assert (outcome.code, outcome.stdout) == (1, "")
    assert "ON THIS HOST" not in outcome.stderr


@pytest.mark.once
@pytest.mark.docker_only
def test_daemon_that_goes_away_costs_its_sessions_only(sandboxed: Odek, docker_engine: Engine, tmp_path: Path) -> None:
    """W-15: a start fails, nothing runs on the host, and the server works again when the daemon is back."""
    real = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")
    if not real.startswith("/"):
        pytest.skip("the engine is not behind a socket of this machine")
    link, mark = tmp_path / "docker.sock", tmp_path / "mark"
    link.symlink_to(real)
    model = ModelServer(calls(("shell", {"command": f"touch {mark}"})), text("done"))
    arguments = ("--base-url", model.base_url, "--model", "m")
    with model, serving_process(sandboxed, *arguments, env={"DOCKER_HOST": f"unix://{link}"}) as server:
        link.unlink()
        refused = server.ask("POST", "/api/sessions", {"text": "touch it"})
        assert refused.status in (409, 503), refused
        assert model.requests == []
        assert server.ask("GET", "/api/state").json["sandbox"] is True
        link.symlink_to(real)
        session = str(server.ask("POST", "/api/sessions", {"text": "touch it"}).json["id"])
        wait_until(lambda: state_of(server, session) == "idle")
        assert server.ask("DELETE", f"/api/sessions/{session}").status == 204
        assert not mark.exists()
        assert "ON THIS HOST" not in server.log


@pytest.mark.once
def test_a_port_that_is_taken(on_host: Odek, idle: ServeProcess) -> None:
    """R-147: a second server takes another one by itself."""
    arguments = ("serve", "--base-url", "http://127.0.0.1:9/v1")
    taken = on_host.run(*arguments, "--addr", f"127.0.0.1:{idle.port}")
    assert (taken.code, f"127.0.0.1:{idle.port} is in use" in taken.stderr) == (1, True)
    assert "--addr 127.0.0.1:0" in taken.stderr
    with serving_process(on_host, *arguments[1:], "--json", "--addr", "[::1]:0") as second:
        event = json.loads(second.stdout[0])
        assert event == {"event": "serving", "url": second.url, "addr": f"[::1]:{second.port}", "pid": second.pid}
        assert second.port != idle.port
        assert curl(f"http://[::1]:{second.port}/api/health").status == 200


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_in_order(on_host: Odek, number: signal.Signals) -> None:
    """R-146, W-18: the turn is cancelled, streams hear it, nothing of a command is left."""
    mark = f"31{os.getpid()}"
    model = ModelServer(calls(("shell", {"command": f"ls -l /proc/self/fd; exec sleep {mark}"})))
    with model, serving_process(on_host, "--base-url", model.base_url, "--model", "m") as server:
        session = str(server.ask("POST", "/api/sessions", {"text": "go"}).json["id"])
        with stream_of(server, session) as events:
            events.read_until(b"event: tool_started")
            held = sockets_of(server.pid)
            wait_until(lambda: any(mark in command_of(child) for child in descendants(server.pid)))
            assert not any(held & sockets_of(child) for child in descendants(server.pid))
            assert server.end(number) == 128 + number
            rest = events.read_until(b"event: bye")
            assert b"event: turn_ended" in rest
    assert not any(mark in command_of(int(each.name)) for each in Path("/proc").iterdir() if each.name.isdigit())
    assert f"odek: stopped by {number.name}\n" in server.log


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def figures(pid: int) -> tuple[int, int]:
    """Return the threads and the resident memory of a process, in KiB."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["Threads"]), int(fields["VmRSS"].split()[0])


@pytest.mark.once
def test_flood_is_bounded_and_a_good_request_is_served(idle: ServeProcess) -> None:
    """W-4, P-10, P-11: 300 idle and 100 slow clients, thousands of requests."""
    _, before = figures(idle.pid)
    with ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", idle.port), timeout=30)) for _ in range(300)
        ]
        wait_until(lambda: curl(f"{idle.base}/api/health").status == 200)
        for client in clients[:100]:
            try:
                client.sendall(b"POST /api/login HTTP/1.1\r\nHost: 127.0")
            except OSError:
                continue  # it was turned away
        wait_until(lambda: curl(f"{idle.base}/api/health").status == 200)
        assert figures(idle.pid)[0] < 150
        statuses: list[int] = []
        threads = [threading.Thread(target=_ask_often, args=(idle.port, 500, statuses)) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert curl("-H", f"Authorization: Bearer {idle.token}", f"{idle.base}/api/state").status == 200
        for thread in threads:
            thread.join()
        assert sorted(set(statuses)) == [401, 429]
        assert len(statuses) == 2000
    threads_after, after = figures(idle.pid)
    assert threads_after < 150
    assert after - before < 100_000
    refusals = [line for line in idle.stderr if line.startswith("odek: refused")]
    assert 0 < len(refusals) < 60
    assert idle.process.poll() is None


def _ask_often(port: int, times: int, statuses: list[int]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for _ in range(times):
        connection.request("GET", "/api/state")
        answer = connection.getresponse()
        answer.read()
        statuses.append(answer.status)
    connection.close()


@pytest.mark.once
def test_large_uploads_are_taken_up_to_their_limits(idle: ServeProcess, on_host: Odek, tmp_path: Path) -> None:
    """W-17, R-143: 32 MiB each, 64 MiB waiting; what is refused is nowhere."""
    file = tmp_path / "large"

    def upload(size: int) -> Answer:
        file.write_bytes(bytes(size))
        return curl(
            "-H", f"Authorization: Bearer {idle.token}", "-H", "Content-Type: application/octet-stream",
            "-H", "X-Odek-Filename: large.bin", "--data-binary", f"@{file}", f"{idle.base}/api/uploads",
        )  # fmt: skip

    limit = 32 << 20
    answers = [upload(size) for size in (limit, limit + 1, limit, 1, 0)]
    assert [answer.status for answer in answers] == [201, 413, 201, 507, 201]
    assert idle.ask("DELETE", f"/api/uploads/{answers[0].json['id']}").status == 204
    assert upload(1).status == 201
    kept = [path for path in (on_host.home / ".odek" / "uploads").rglob("*") if path.is_file()]
    assert sorted(path.stat().st_size for path in kept) == [0, 1, limit]
    assert idle.end() == 128 + signal.SIGTERM
    assert not [path for path in (on_host.home / ".odek" / "uploads").rglob("*") if path.is_file()]


@pytest.mark.once
def test_seventh_connection_of_a_browser_is_answered_while_its_streams_run(on_host: Odek) -> None:
    """W-7, P-7: four streams and six tabs; an action of another tab does not wait for them."""
    model = ModelServer(text("one"))
    with model, serving_process(on_host, "--base-url", model.base_url, "--model", "m") as server, ExitStack() as stack:
        session = str(server.ask("POST", "/api/sessions", {"text": "go"}).json["id"])
        streams = [stack.enter_context(stream_of(server, session)) for _ in range(6)]
        for stream in streams:
            stream.read_until(b"\r\n\r\n")
        kinds = sorted(
            stream.read_until(b"\ndata: ").partition(b"event: ")[2].partition(b"\n")[0] for stream in streams
        )
        assert kinds == [b"crowded", b"crowded", b"hello", b"hello", b"hello", b"hello"]
        wait_until(lambda: state_of(server, session) == "idle")
        assert server.ask("POST", f"/api/sessions/{session}/undo", {}).status == 200


@pytest.mark.once
def test_proxy_with_tls_and_a_prefix(on_host: Odek, tmp_path: Path) -> None:
    """W-26, P-18: nginx as most people set it up; without the name in serve.hosts it is refused."""
    nginx = find_nginx()
    model = ModelServer(text("one"))
    outside = free_port()
    name = f"odek.example:{outside}"
    arguments = ("--base-url", model.base_url, "--model", "m")
    to_proxy = ("-k", "--resolve", f"odek.example:{outside}:127.0.0.1")
    with (
        model,
        serving_process(on_host, *arguments, "--hosts", name) as server,
        running_nginx(nginx, tmp_path, outside=outside, inside=server.port),
    ):
        base = f"https://{name}/tools/odek"
        page = curl(*to_proxy, f"{base}/")
        assert (page.status, b"<!doctype html>" in page.body) == (200, True)
        for file in ("app.js", "render.js", "style.css", "icon.svg"):
            assert f'"{file}"'.encode() in page.body or file == "render.js"
            assert curl(*to_proxy, f"{base}/{file}").status == 200
        same = ("-H", f"Origin: https://{name}", "-H", "Content-Type: application/json")
        login = curl(*to_proxy, *same, "-d", json.dumps({"token": server.token}), f"{base}/api/login")
        cookie = login.headers["set-cookie"]
        assert cookie.endswith("; Path=/; Secure")
        halves = ("-H", f"Cookie: {cookie.partition(';')[0]}", "-H", f"X-Odek-Key: {login.json['key']}")
        created = curl(*to_proxy, *same, *halves, "-d", '{"text": "go"}', f"{base}/api/sessions")
        assert created.status == 201, created
        stream = subprocess.Popen(
            ("curl", "-sN", *to_proxy, *halves, f"{base}/api/sessions/{created.json['id']}/events"),
            stdout=subprocess.PIPE,
        )
        assert stream.stdout is not None
        assert stream.stdout.readline() == b"retry: 1000\n"  # at once, not when a buffer is full
        stream.kill()
        stream.wait()
        stream.stdout.close()
        other = ("-H", f"Origin: https://evil.example:{outside}", "-H", "Content-Type: application/json")
        assert curl(*to_proxy, *other, *halves, "-d", '{"text": "x"}', f"{base}/api/sessions").status == 403
    with (
        serving_process(on_host, *arguments) as server,
        running_nginx(nginx, tmp_path, outside=outside, inside=server.port),
    ):
        refused = curl(*to_proxy, f"https://{name}/tools/odek/")
        assert (refused.status, refused.code) == (403, "host")


def test_each_session_has_a_container_that_ends_with_it_and_with_the_server(
    sandboxed: Odek, docker_engine: Engine
) -> None:
    """W-8, W-12, R-138, R-146: apart from each other, kept between turns; closed one by one; gone after SIGKILL."""
    before = docker_engine.labelled()
    look = {"command": "cat /tmp/mine 2>/dev/null; echo $0 >>/tmp/mine; cat /tmp/mine | wc -l"}
    turns = [step for _ in range(3) for step in (calls(("shell", look)), text("looked"))]
    with (
        ModelServer(*turns, calls(("shell", {"command": "sleep 600"}))) as model,
        serving_process(sandboxed, "--base-url", model.base_url, "--model", "m") as server,
    ):
        one, two = (begin(server, "look") for _ in range(2))
        assert len(docker_engine.labelled() - before) == 2
        assert server.ask("POST", f"/api/sessions/{one}/turns", {"text": "again"}).status == 202
        wait_until(lambda: state_of(server, one) == "idle")
        lines = [[re.findall(r"^\d+$", each, re.M) for each in results_of(server, session)] for session in (one, two)]
        assert lines == [[["1"], ["2"]], [["1"]]]
        assert server.ask("POST", f"/api/sessions/{two}/sandbox", {"action": "close"}).status == 202
        wait_until(lambda: len(docker_engine.labelled() - before) == 1)
        assert server.ask("POST", f"/api/sessions/{one}/turns", {"text": "wait"}).status == 202
        wait_until(lambda: len(model.requests) == 7 and state_of(server, one) == "working")
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: docker_engine.labelled() == before)
        for session in (one, two):
            shown = sandboxed.run("session", "show", session)
            assert (shown.code, "looked" in shown.stdout) == (0, True), shown


def begin(server: ServeProcess, task: str) -> str:
    created = server.ask("POST", "/api/sessions", {"text": task})
    assert created.status == 201, created
    session = str(created.json["id"])
    wait_until(lambda: state_of(server, session) == "idle")
    return session
