"""odek demo: a recorded model works on a scratch project in a real sandbox; no key, no registry needed."""

from __future__ import annotations

from odek.app.config import load
from odek.app.conversation import open_conversation
from odek.cli import signals
from odek.cli.commands.run import PROFILE
from odek.cli.console import JsonSink, StreamingRenderer, show_answer, shown_output
from odek.cli.demo_place import demo_place
from odek.cli.main import COMMANDS
from odek.cli.parser import CommandParser
from odek.cli.runtime import terminal_runtime
from odek.cli.terminal import Terminal
from odek.config.danger import DangerSettings
from odek.config.layers import Layer, Value
from odek.config.options import Source
from odek.demo.recording import ATTACKS, TASK
from odek.host import Host


def parser() -> CommandParser:
    """Return the parser of `odek demo`."""
    made = CommandParser("demo", COMMANDS["demo"][1], usage="[--json]", examples=("odek demo",))
    made.add_argument("--json", action="store_true", help="events as JSON lines on stdout")
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Show one whole run. Nothing of it stays behind but, perhaps, the local image it made."""
    parsed = parser().read_flags(arguments)
    with demo_place(host, terminal) as place:
        terminal.sentence(f"task: {TASK}", "bold")
        sink = (
            JsonSink(terminal)
            if parsed.json
            else StreamingRenderer(terminal, verbose=True, streams=terminal.shows_answer)
        )
        config = load(place.host, place.flags, terminal).with_layer(_own_settings())
        with (
            open_conversation(PROFILE, config, terminal_runtime(place.host, terminal), sink=sink) as conversation,
            signals.turn(),
            shown_output(sink, conversation, place.host),
        ):
            show_answer(sink, terminal, conversation.send(TASK))
    return 0


def _own_settings() -> Layer:
    """Say what an operator would: in the sandbox, and there alone, this one command runs without a question.

    Nothing is kept for an undo in a folder that goes with the demo.
    """
    danger = DangerSettings(sandboxed=DangerSettings(allowlist=(ATTACKS,)))
    said: dict[str, object] = {"dangerous": danger, "snapshots.enabled": False}
    values = {key: Value(value=value, origin="odek demo") for key, value in said.items()}
    return Layer(source=Source.FLAG, origin="odek demo", values=values)
