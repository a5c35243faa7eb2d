"""A record of an approval that asks for everything there is."""

from __future__ import annotations

from odek.approval.store import ApprovalRecord

DATE = "2025-01-31T12:00:00Z"
A, B = "a" * 64, "b" * 64
FULL_RECORD = ApprovalRecord(
    folder="/home/u/proj",
    date=DATE,
    asks=(
        ("image", "i"),
        ("network", "none"),
        ("compose", "app"),
        ("attach", f"app_default ({A}, Compose project app)"),
        ("attach", f"backend ({B}, internal)"),
        ("env", "PLAIN"),
        ("env", "X (reads Y, Z)"),
        ("volume", "./a:/a"),
        ("user", "0:0"),
        ("build", f"Dockerfile.odek sha256:{B}"),
    ),
)
