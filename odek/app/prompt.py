"""The system prompt of a conversation, for where its tools work."""

from __future__ import annotations

import platform
import time
from functools import partial
from typing import TYPE_CHECKING

from odek.agent.prompt import PromptFacts, system_prompt
from odek.app.runtime import Runtime

if TYPE_CHECKING:
    from odek.tools.registry import Toolbox


def render_system(
    runtime: Runtime,
    tools: Toolbox,
    *,
    folder: str,
    sandboxed: bool,
    surface: str,
    identity: str,
    instructions: str | None,
    environment_block: str,
) -> str:
    """Return the system prompt of an agent that works with `tools` in `folder`; `identity` "": odek's own."""
    return system_prompt(
        identity=identity or None,
        project_instructions=instructions,
        facts=PromptFacts(
            os="Linux container" if sandboxed else f"{platform.system()} {platform.release()}",
            cwd=folder,
            date=time.strftime("%A, %Y-%m-%d, %Z"),
            surface=surface,
            tool_advice=tools.advice,
        ),
        environment_block=environment_block,
        nonce=partial(runtime.random_hex, 8),
    )
