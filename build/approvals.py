"""The table of classes in docs/APPROVALS.md, from the policy itself.

python3 build/approvals.py   rewrites what is between the marks
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from odek.danger.policy import HOST_TABLE, Action, sandbox_table  # noqa: E402 - the source beside this file
from odek.danger.risk import RiskClass  # noqa: E402

DOCUMENT = ROOT / "docs" / "APPROVALS.md"
_BEGIN, _END = "<!-- classes: begin -->\n", "<!-- classes: end -->\n"
_WORDS: dict[Action, str] = {"allow": "runs", "prompt": "**asks**", "deny": "**refused**"}
MEANINGS = {
    RiskClass.SAFE: "only looks: `ls`, `grep`, `git status`",
    RiskClass.LOCAL_WRITE: "changes files of yours: `touch a`, `rm -rf build`, `git commit`",
    RiskClass.INSTALL: "fetches packages: `npm ci`, `pip install x`",
    RiskClass.NETWORK_EGRESS: "talks to the network: `curl …`, `git push`",
    RiskClass.CODE_EXECUTION: "runs code that is not looked at: `make`, `pytest`, `./run.sh`, `python -c …`",
    RiskClass.SYSTEM_WRITE: "system, credentials, other homes, lost work: `sudo …`, `cat .env`, `git reset --hard`",
    RiskClass.UNKNOWN: "an unknown program, text that cannot be read; on the host also an unknown form, which asks",
    RiskClass.DESTRUCTIVE: "deletes in bulk: `rm -rf .`, `docker system prune`, `shutdown`",
    RiskClass.BLOCKED: "cannot be undone: `rm -rf ~`, `find / -delete`, `mkfs /dev/sda`, a fork bomb; nothing lifts it",
}


def render_table() -> str:
    """Return the table, a row a class in the order of their ranks."""
    host = dict(HOST_TABLE)
    inside, online = dict(sandbox_table(internet=False)), dict(sandbox_table(internet=True))
    lines = [
        "| class | for example | sandbox | sandbox that reaches the internet | host |",
        "|---|---|---|---|---|",
    ]
    for level in RiskClass:
        cells = (table[level] for table in (inside, online, host))
        lines.append(f"| `{level.label}` | {MEANINGS[level]} | {' | '.join(_WORDS[cell] for cell in cells)} |")
    return "\n".join(lines) + "\n"


def render_document(text: str) -> str:
    """Return the document with the table put between its marks."""
    head, _, rest = text.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    return f"{head}{_BEGIN}{render_table()}{_END}{tail}"


if __name__ == "__main__":
    DOCUMENT.write_text(render_document(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
