"""The system prompt of an agent, for where its tools work, and what can be known of it before they do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from odek.agent.prompt import Instructions, PromptFacts, system_prompt
from odek.app.config import Config, redactor_of
from odek.app.environment import render_sandbox
from odek.app.instructions import read_instructions
from odek.app.runtime import Runtime
from odek.config.settings import Settings
from odek.model.types import Message, Model, ToolSpec
from odek.sandbox_grammar import WORKSPACE

if TYPE_CHECKING:
    from odek.agent.context_window import Compaction
    from odek.app.isolation import CommandProfile
    from odek.app.workspace import Workspace
    from odek.sandbox.container.facts import ContainerFacts
    from odek.tools.delegate import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptParts:
    """What the system prompt of a conversation is made of besides its place."""

    settings: Settings
    surface: str
    """what the user reads"""
    instructions: Instructions
    """what the project says of itself"""
    nonce: Callable[[], str]
    """as for `wrap_untrusted`; two renderings that are to be compared take the same one"""
    redact: Callable[[str], str] = str
    planning: bool = False
    """whether the agent only makes a plan"""
    answer_form: str = ""
    """what the last message has to be"""

    def render(self, environment_block: str, advice: tuple[str, ...], *, cwd: str, sandboxed: bool) -> str:
        """Return the prompt for a place of work."""
        facts = PromptFacts(
            os="Linux container" if sandboxed else "{0.sysname} {0.release}".format(os.uname()),
            cwd=cwd,
            date=time.strftime("%A, %Y-%m-%d, %Z"),
            surface=self.surface,
            tool_advice=advice,
        )
        return self.redact(
            system_prompt(
                identity=self.settings.system or None,
                project_instructions=self.instructions,
                facts=facts,
                environment_block=environment_block,
                nonce=self.nonce,
                planning=self.planning,
                answer_form=self.answer_form,
            )
        )

    def render_in(self, place: Workspace) -> str:
        """Return the prompt for an agent that works in `place`."""
        block, advice, cwd = place.environment_block, place.tools.advice, place.executor.workspace
        return self.render(block, advice, cwd=cwd, sandboxed=place.facts is not None)


def read_parts(config: Config, runtime: Runtime, profile: CommandProfile, *, planning: bool = False) -> PromptParts:
    """Return the parts that are known before there is a place; each rendering of them takes the same nonce.

    Raises ConfigError as `redactor_of` does.
    """
    instructions, nonce = project_instructions(config.settings, runtime), runtime.random_hex(8)
    redact = redactor_of(config, runtime.host)
    return PromptParts(
        settings=config.settings,
        surface=profile.surface,
        instructions=instructions,
        nonce=lambda: nonce,
        redact=redact,
        planning=planning,
        answer_form=profile.answer.instruction if profile.answer else "",
    )


def project_instructions(settings: Settings, runtime: Runtime) -> Instructions:
    """Return what the project says to the model; see read_instructions."""
    return () if settings.no_agents else read_instructions(runtime.host, runtime.emit)


def render_system(place: Workspace, *, surface: str, instructions: Instructions) -> str:
    """Return the system prompt of an agent that works in `place`; the rest is as in PromptParts."""
    return PromptParts(
        settings=place.config.settings,
        surface=surface,
        instructions=instructions,
        nonce=partial(place.runtime.random_hex, 8),
    ).render_in(place)


def last_compaction(compactions: Sequence[tuple[int, Message]]) -> Compaction | None:
    """Return the one that counts of `compactions`, each a place in the history and what stands for what precedes it."""
    if not compactions:
        return None
    from odek.agent.context_window import Compaction

    place, message = compactions[-1]
    return Compaction(place=place + 1, message=message)  # behind the system message


def is_place_enough(settings: Settings) -> bool:
    """Return whether an agent's first request follows from its place: no server adds tools, nothing is verified."""
    return not (settings.mcp_servers or settings.verification_asked_by)


def ask_ahead(
    model: Model,
    said: Sequence[Message],
    parts: PromptParts,
    delegate: Run | None,
    facts: ContainerFacts,
    compaction: Compaction | None,
) -> AbstractContextManager[None]:
    """Have `model` asked, within the block, for the next reply in a sandbox that is planned (R-251).

    `said` is the conversation without its system message.
    """
    from odek.agent.context_window import ContextWindow

    system, tools = first_prompt(parts, facts, delegate)
    return model.ahead(ContextWindow(model.window, compaction).view((system, *said), tools), tools)


def first_prompt(
    parts: PromptParts, facts: ContainerFacts, delegate: Run | None
) -> tuple[Message, tuple[ToolSpec, ...]]:
    """Return system message and tools of an agent in a sandbox with these `facts` and without networks (R-110)."""
    from odek.app.tools import tools_in
    from odek.tools.registry import advice_of, choose_tools, specs_of

    block, settings = render_sandbox(facts, nonce=parts.nonce), parts.settings
    tools = choose_tools(
        tools_in(block, sandboxed=True, delegate=delegate),
        enabled=settings.tools_enabled,
        disabled=settings.withheld_tools,
    )
    system = parts.render(block, advice_of(tools), cwd=WORKSPACE, sandboxed=True)
    return Message(role="system", content=system), specs_of(tools)
