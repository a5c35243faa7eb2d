"""Nothing that a project asks for is applied before this gate has let it through (R-60, R-61).

Order: the operator's switch, the remembered approvals, the person at the terminal. Whoever cannot
be asked has not approved.
"""

from __future__ import annotations

from typing import Protocol

from odek.approval.display import value
from odek.approval.pages import PromptPage, prompt_choice
from odek.approval.request import (
    CONSEQUENCE,
    FIT_ROWS,
    SWITCH,
    ApprovalRequest,
    describe_plainly,
    describe_request,
    heading_of,
    render_request,
)
from odek.approval.store import ApprovalRecord, ApprovalStore, changed_parts
from odek.errors import ApprovalDenied
from odek.events import Notice, Sink

MAX_ENTRIES = 64  # what one can be expected to read before saying yes
_ONCE = ("y", "yes")
_TRUST = ("t", "trust")
_NO = ("", "n", "no")


class Approver(Protocol):
    """Somebody who can be asked."""

    def ask(self, prompt: str, choices: tuple[str, ...]) -> str | None:
        """Return the one of `choices` (lower case; "" is a bare Enter) that was answered to `prompt`.

        The last line of `prompt` is the question. None: no answer, which is a no. Input given
        before the question was shown never counts.
        """
        ...


def require_approval(
    request: ApprovalRequest,
    *,
    approver: Approver | None,
    store: ApprovalStore,
    approved_by_environment: bool,
    emit: Sink,
) -> None:
    """Return when `request` is empty or approved.

    `approver` is None where nobody can be asked; `approved_by_environment` says whether the
    operator set ODEK_APPROVE_PROJECT_SANDBOX; `emit` takes notices for the user. Raises
    ApprovalDenied, and StateFileError when the remembered approvals cannot be trusted or written.
    """
    if request.is_empty:
        return
    if approved_by_environment:
        emit(Notice(f"{SWITCH} approves the sandbox overrides of {request.sources}"))
        return
    if store.holds(request):
        return
    earlier = store.earlier(request.project_dir)
    if earlier is not None:
        emit(Notice(_asked_anew(earlier, request)))
    if approver is None:
        raise _denied(request, "need an approval, and there is no terminal to ask for it")
    if request.entries > MAX_ENTRIES:
        raise ApprovalDenied(
            f"{request.sources} asks for {request.entries} variables, volumes and networks; at most {MAX_ENTRIES} "
            "can be asked about",
            hint="put variables into the image, and mount one folder instead of its parts",
        )
    answer = _ask(request, approver)
    if answer in _TRUST:
        store.remember(request)
        emit(Notice(_trusted(request, store.path)))
    elif answer not in _ONCE:
        raise _denied(request, "were not approved")


def _ask(request: ApprovalRequest, approver: Approver) -> str:
    """Return the answer, "" for a no or none. A yes counts when all has been on the screen, the end of it last."""
    rows = tuple(describe_request(request).split("\n"))
    if len(rows) <= FIT_ROWS:
        return approver.ask(render_request(request), _ONCE + _TRUST + _NO) or ""
    pages = PromptPage(
        heading=heading_of(request),
        rows=rows,
        words=_ONCE + _TRUST,
        offer="",
        question=CONSEQUENCE,
        page_rows=FIT_ROWS,
    )
    return prompt_choice(approver, pages)


def _asked_anew(earlier: ApprovalRecord, request: ApprovalRequest) -> str:
    unnamed = "the value of a variable" if request.env else "a detail"
    changed = ", ".join(map(value, changed_parts(earlier, request))) or unnamed
    return f"this project was trusted on {value(earlier.date)}; what it asks for has changed since: {changed}"


def _denied(request: ApprovalRequest, what: str) -> ApprovalDenied:
    return ApprovalDenied(
        f"the sandbox overrides of {request.sources} {what}",
        hint=f"read them, then approve them at a terminal, or set {SWITCH}=1 where there is none",
        detail=describe_plainly(request),
    )


def _trusted(request: ApprovalRequest, path: str) -> str:
    text = f"remembered in {value(path)}; odek asks again when the project asks for anything else"
    if request.image and "sha256:" not in request.image:
        # the approval binds the name; what a registry serves under it is not ours to bind (B30)
        text += f"; the image is bound by its name {value(request.image)}, not by its content"
    return text
