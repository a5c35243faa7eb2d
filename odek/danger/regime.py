"""One place to run in and the policy that holds there, put together: what may happen here? Pure."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, replace

from odek.danger.classify import classify
from odek.danger.paths import Place, classify_read, classify_write, resolve, trusted_name
from odek.danger.policy import Decision, Policy, decide
from odek.danger.risk import NOTHING, summarise


@dataclass(frozen=True, slots=True, kw_only=True)
class Regime:
    """Decides about commands and about files that tools read or write."""

    place: Place
    policy: Policy

    def decide_command(self, command: str) -> Decision:
        """Return whether `command` may run."""
        return decide(classify(command, self.place), command, self.policy)

    def decide_write(self, path: str) -> Decision:
        """Return whether a tool may write the file at `path`, relative to the workspace."""
        whole = self._resolve(path)
        name = trusted_name(whole, self.place)
        risk = summarise([classify_write(whole, self.place)], trusted_files=[name] if name else ())
        return decide(risk, "", self.policy)

    def decide_read(self, path: str) -> Decision:
        """Return whether a tool may show what is in the file or folder at `path`, relative to the workspace."""
        return decide(summarise([classify_read(self._resolve(path), self.place) or NOTHING]), "", self.policy)

    def trusting(self, classes: tuple[str, ...]) -> Regime:
        """Return the same with all of `classes` allowed from now on."""
        policy = replace(self.policy, classes=(*self.policy.classes, *((name, "allow") for name in classes)))
        return replace(self, policy=policy)

    def trusting_command(self, command: str) -> Regime:
        """Return the same with exactly this command allowed from now on."""
        return replace(self, policy=replace(self.policy, allowlist=(*self.policy.allowlist, command)))

    def _resolve(self, path: str) -> str:
        return resolve(posixpath.join(self.place.workspace, path), "/")
