"""The gate for what a project asks for: nothing of it is applied before this has let it through (R-60, R-61).

In this order: the operator's switch, the remembered approvals, the operator. Without an operator to ask, the
request is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from odek.approval.description import describe_plainly
from odek.approval.display import value
from odek.approval.request import SWITCH, ApprovalRequest
from odek.approval.store import ApprovalRecord, ApprovalStore, changed_parts
from odek.errors import ApprovalDenied
from odek.events import Notice, Sink

if TYPE_CHECKING:
    from odek.approval.commands import CommandsRequest
    from odek.approval.servers import ServerRequest, ToolsRequest

MAX_ENTRIES = 64  # what one can be expected to read before saying yes

ProjectAnswer = Literal["once", "trust", "no"]


class Operator(Protocol):
    """The person whose machine this is: the terminal that odek was started from, or nothing.

    A separate role from `card.Person`: a page or an MCP client may decide on what the model does, and never
    on what a project's files widen (R-103).
    """

    def approve_project(self, request: ApprovalRequest) -> ProjectAnswer:
        """Return the answer to all of `request`; no answer is a no. Input given before the question never counts."""
        ...

    def approve_server(self, request: ServerRequest | ToolsRequest) -> ProjectAnswer:
        """Return the answer about a project's MCP server, or its tools, as `approve_project` does."""
        ...

    def approve_commands(self, request: CommandsRequest) -> ProjectAnswer:
        """Return the answer about a project's own slash commands, as `approve_project` does."""
        ...


def require_approval(
    request: ApprovalRequest,
    *,
    operator: Operator | None,
    store: ApprovalStore,
    approved_by_environment: bool,
    emit: Sink,
) -> None:
    """Return when `request` is empty or approved.

    `operator` is None where there is no terminal; `approved_by_environment` says whether the
    operator set ODEK_APPROVE_PROJECT_SANDBOX; `emit` takes notices for the user. Raises
    ApprovalDenied, and StateFileError when the remembered approvals cannot be trusted or written.
    """
    if request.is_empty:
        return
    if approved_by_environment:
        emit(Notice(f"{SWITCH} approves {request.subject}"))
        return
    if store.holds(request):
        return
    earlier = store.earlier(request.project_dir)
    if earlier is not None:
        emit(Notice(_asked_anew(earlier, request)))
    if operator is None:
        raise _denied(request, "need an approval, and there is no terminal to ask for it")
    if request.entries > MAX_ENTRIES:
        raise ApprovalDenied(
            f"{request.sources} asks for {request.entries} variables, volumes and networks; at most {MAX_ENTRIES} "
            "can be asked about",
            hint="put variables into the image, and mount one folder instead of its parts",
        )
    answer = operator.approve_project(request)
    if answer == "trust":
        store.remember(request)
        emit(Notice(_trusted(request, store.path)))
    elif answer != "once":
        raise _denied(request, "were not approved")


def _asked_anew(earlier: ApprovalRecord, request: ApprovalRequest) -> str:
    unnamed = "the value of a variable" if request.env else "a detail"
    changed = ", ".join(map(value, changed_parts(earlier, request))) or unnamed
    return f"this project was trusted on {value(earlier.date)}; what it asks for has changed since: {changed}"


def _denied(request: ApprovalRequest, what: str) -> ApprovalDenied:
    return ApprovalDenied(
        f"{request.subject} {what}",
        hint=f"read them, then approve them at a terminal, or set {SWITCH}=1 where there is none",
        detail=describe_plainly(request),
    )


def _trusted(request: ApprovalRequest, path: str) -> str:
    text = f"remembered in {value(path)}; odek asks again when the project asks for anything else"
    if request.image and "sha256:" not in request.image:
        # the approval binds the name; what a registry serves under it is not ours to bind (B30)
        text += f"; the image is bound by its name {value(request.image)}, not by its content"
    return text
