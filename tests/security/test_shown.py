"""What the model is shown of files and outputs: secrets stay here."""

from __future__ import annotations

from fakes.model_server import ModelServer, calls, text
from support.odek_process import Odek
from support.scenario import tool_results

KEY = "sk-canary-0123456789abcdefghij0123456789abcdefghij"


def test_secrets_are_neither_shown_by_another_tool_nor_left_at_a_cut(odek: Odek) -> None:
    """S-19 What shows lines of a file, `search_files` and `patch` as well as `read_file` and @references, asks for a
    file that may hold secrets, or leaves it out and says so. Known secrets and the keys of well-known services are
    taken out of what the model is shown before it is cut: no part of one is left at a cut. Of a plain word
    (`password`, `changeme`) that happens to be a secret's value, only `key=word` and `key: word` are masked.
    """
    (odek.cwd / ".env").write_text("TOKEN=hidden-in-env-file\n")
    (odek.cwd / "code.py").write_text("password = read()  # changeme\ndb_password=changeme\n")
    noise = "head -c 60000 /dev/zero | tr '\\0' x"
    cuts = [f"printf '%0*d' {25_000 - before} 0; printf {KEY}; {noise}" for before in (1, 9, 25, 40)]
    script = (
        calls(
            ("search_files", {"pattern": "hidden|TOKEN", "file_glob": ".env*"}),
            ("read_file", {"path": ".env"}),
            ("patch", {"path": ".env", "old_string": "TOKEN", "new_string": "X"}),
            ("read_file", {"path": "code.py"}),
            *(("shell", {"command": command}) for command in cuts),
        ),
        text("done"),
    )
    env = {"SERVICE_API_KEY": KEY, "DB_PASSWORD": "changeme"}
    with ModelServer(*script) as server:
        config = '{"dangerous": {"allowlist": [], "classes": {"unknown": "allow", "code_execution": "allow"}}}'
        (odek.home / ".odek").mkdir(mode=0o700)
        (odek.home / ".odek" / "config.json").write_text(config)
        done = odek.run("run", "--no-sandbox", "--base-url", server.base_url, "see @.env", env=env)
        searched, read, patched, code, *printed = tool_results(server)
        sent = b"".join(request.body for request in server.requests)
    assert done.code == 0, done.stderr
    assert b"hidden-in-env-file" not in sent
    assert ".env" in searched
    assert "secret" in read
    assert "secret" in patched
    assert "password = read()  # changeme\n2|db_password=[REDACTED]" in code
    shown = "".join(printed)
    assert [size for size in range(8, len(KEY)) if KEY[:size] in shown or KEY[-size:] in shown] == []
    assert shown.count("0" * 1000) >= len(cuts)
