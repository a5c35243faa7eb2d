"""The system prompt of an agent, for where its tools work."""

from __future__ import annotations

import platform
import time
from functools import partial
from typing import TYPE_CHECKING

from odek.agent.prompt import PromptFacts, system_prompt
from odek.app.instructions import read_instructions
from odek.app.runtime import Runtime
from odek.config.settings import Settings

if TYPE_CHECKING:
    from odek.app.workspace import Workspace


def project_instructions(settings: Settings, runtime: Runtime) -> str | None:
    """Return what the project says to the model, None for nothing; see read_instructions."""
    return None if settings.no_agents else read_instructions(runtime.host.cwd, runtime.emit)


def render_system(place: Workspace, *, surface: str, instructions: str | None) -> str:
    """Return the system prompt of an agent that works in `place`.

    `surface` is what the user reads, `instructions` what the project says of itself.
    """
    facts = PromptFacts(
        os="Linux container" if place.facts else f"{platform.system()} {platform.release()}",
        cwd=place.executor.workspace,
        date=time.strftime("%A, %Y-%m-%d, %Z"),
        surface=surface,
        tool_advice=place.tools.advice,
    )
    return system_prompt(
        identity=place.config.settings.system or None,
        project_instructions=instructions,
        facts=facts,
        environment_block=place.environment_block,
        nonce=partial(place.runtime.random_hex, 8),
    )
