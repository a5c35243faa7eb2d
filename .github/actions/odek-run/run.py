"""Run a task on a GitHub runner: from the inputs in the environment to outputs, a summary and files.

What the model writes is data all the way: it is in no shell text, its `::workflow commands::` do not count in the
log, a fence that it cannot close is around it, and an output ends at a mark that it cannot know.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT = 100_000
"""characters of an answer in outputs and summaries"""
_INPUTS = ("ODEK_RUN_TASK", "ODEK_RUN_MODEL", "ODEK_RUN_MAX_COST_USD", "ODEK_RUN_OPTIONS")


def main() -> int:
    """Run the task; return its exit code."""
    task, model, cost, more = (os.environ.get(name, "") for name in _INPUTS)
    env = {name: value for name, value in os.environ.items() if name not in _INPUTS}
    folder = Path(tempfile.mkdtemp(prefix="odek-run-", dir=os.environ.get("RUNNER_TEMP")))
    options = [f"--model={model}"] * bool(model) + [f"--max-cost-usd={cost}"] * bool(cost)
    options += [line.strip() for line in more.splitlines() if line.strip()]
    argv = ["odek", "run", "--json", *options, "-"]
    mark = secrets.token_hex(16)
    print(f"::stop-commands::{mark}", flush=True)  # what a command prints is not for the runner
    with open(folder / "events.jsonl", "wb") as events:
        code = subprocess.run(argv, input=task.encode(), stdout=events, env=env, check=False).returncode
    code = 128 - code if code < 0 else code
    seen = list(read_events(folder / "events.jsonl"))
    changed = [file for event in seen if event.get("event") == "files_changed" for file in event["files"]]
    last = seen[-1] if seen else {}
    answer = last.get("answer") or ""
    (folder / "answer.md").write_text(answer, encoding="utf-8", errors="replace")
    with open(folder / "changes.diff", "wb") as diff:
        if changed:
            subprocess.run(["odek", "diff"], stdin=subprocess.DEVNULL, stdout=diff, env=env, check=False)
    print(f"\n::{mark}::", flush=True)
    paths = [file["path"] for file in changed]
    summary = render_summary(answer, paths, last, code)
    (folder / "summary.md").write_text(summary, encoding="utf-8", errors="replace")
    append("GITHUB_STEP_SUMMARY", summary)
    price = last.get("cost_usd")
    values = {
        "answer": answer[:LIMIT], "changed-files": json.dumps(paths), "cost-usd": "" if price is None else f"{price}",
        "exit-code": f"{code}", "folder": f"{folder}",
    }  # fmt: skip
    append("GITHUB_OUTPUT", "".join(render_output(name, value) for name, value in values.items()))
    return code


def read_events(file: Path) -> list[dict[str, object]]:
    """Return the events that are whole; a killed odek may leave half of one."""
    found = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def render_output(name: str, value: str) -> str:
    """Return the lines for GITHUB_OUTPUT."""
    mark = secrets.token_hex(16)
    return f"{name}<<{mark}\n{value}\n{mark}\n"


def fenced(text: str) -> str:
    """Return `text` in a fence that nothing in it closes."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}\n"


def render_summary(answer: str, paths: list[str], last: dict[str, object], code: int) -> str:
    """Return the Markdown of the job summary and of the comment."""
    price = last.get("cost_usd")
    parts = [f"### odek: exit code {code}\n"]
    if last.get("event") == "error":
        parts.append(fenced(f"{last.get('message')}\n{last.get('hint') or ''}".strip()))
    if answer:
        parts.append(fenced(answer[:LIMIT]))
    if paths:
        parts.append(f"{len(paths)} changed:\n\n" + fenced("\n".join(json.dumps(path) for path in paths[:200])))
    if price is not None:
        parts.append(f"Cost: {price} USD\n")
    return "\n".join(parts)


def append(variable: str, text: str) -> None:
    """Write to a file of the runner that a variable names."""
    name = os.environ.get(variable)
    if name:
        with open(name, "a", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text)


if __name__ == "__main__":
    sys.exit(main())
