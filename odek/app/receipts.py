"""What the tools of a workspace executed, noted as receipts for the session that keeps it.

What receipts are made of is loaded with the first one: most runs keep none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from odek.approval.operation import Basis
from odek.executor import CommandResult
from odek.host import Host
from odek.process import Output
from odek.redact import Redactor

if TYPE_CHECKING:
    from odek.sandbox.container.facts import ContainerFacts
    from odek.session.receipts import Receipt, WrittenFile

_UNKNOWN = Basis(classes=(), how="")
"""of what no gate was asked about"""


class Receipts:
    """The log of one workspace (tools.workspace.ExecutionLog), in the sandbox of `facts` or on `host`."""

    def __init__(self, facts: ContainerFacts | None, host: Host, redact: Redactor, clock: Callable[[], float]) -> None:
        self.keep: Callable[[Receipt], None] | None = None
        """gets each receipt, in any thread; None as long as there is no session to keep it"""
        self._facts = facts
        self._host = host
        self._redact = redact
        self._clock = clock

    def ran(self, command: str, result: CommandResult | None, basis: Basis | None) -> None:
        """See ExecutionLog."""
        if self.keep is None:
            return
        outputs: tuple[Output | None, ...] = (result.output, result.stderr) if result else ()
        output = b"".join(each.data for each in outputs if each is not None)
        self.keep(
            self._receipt(
                basis,
                command_sha256=_sha256(self._redact(command).encode("utf-8", "surrogateescape")),
                output_sha256=_sha256(output),
                exit_status=result.code if result else None,
            )
        )

    def called(self, call: str, answer: str | None, basis: Basis | None, *, on_host: bool) -> None:
        """See ExecutionLog."""
        if self.keep is None:
            return
        texts = [
            None if text is None else self._redact(text).encode("utf-8", "surrogatepass") for text in (call, answer)
        ]
        digests = ["" if text is None else _sha256(text) for text in texts]
        made = self._receipt(basis, command_sha256=digests[0], output_sha256=digests[1])
        made = replace(made, kind="call")
        if on_host:
            user = f"{self._host.uid}:{self._host.gid}"
            made = replace(made, place="host", container="", image="", network="host", networks=(), user=user)
        self.keep(made)

    def wrote(self, path: str, data: bytes, basis: Basis | None) -> None:
        """See ExecutionLog."""
        if self.keep is None:
            return
        from odek.session.receipts import WrittenFile

        file = WrittenFile(path=self._redact(path), sha256=_sha256(data))
        self.keep(self._receipt(basis, file=file))

    def _receipt(
        self,
        basis: Basis | None,
        *,
        command_sha256: str = "",
        output_sha256: str = "",
        exit_status: int | None = None,
        file: WrittenFile | None = None,
    ) -> Receipt:
        from odek.session.ids import format_time
        from odek.session.receipts import Receipt

        facts, basis = self._facts, basis or _UNKNOWN
        networks = [network.id for network in facts.networks] if facts else []
        return Receipt(
            at=format_time(self._clock()),
            kind="write" if file else "command",
            place="sandbox" if facts else "host",
            container=facts.id if facts else "",
            image=facts.image_id if facts else "",
            network=facts.network if facts else "host",
            networks=tuple(networks),
            user=facts.user if facts else f"{self._host.uid}:{self._host.gid}",
            risk=basis.classes,
            decision=basis.how,
            command_sha256=command_sha256,
            output_sha256=output_sha256,
            exit_status=exit_status,
            file=file,
        )


def _sha256(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()
