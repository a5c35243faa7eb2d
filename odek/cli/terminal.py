"""What odek prints: the answer on stdout, everything else on stderr.

Foreign text goes through odek.text before it gets here; sentences do so here once more, in case one
was forgotten, and what was escaped already stays as it is. What each stream can show is decided in
odek.cli.look.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from odek.cli.look import Look, choose_look
from odek.cli.streams import redirect_to_devnull
from odek.errors import Interrupted, OdekError
from odek.text import shorten_words, visible, visible_lines, visible_prose

if TYPE_CHECKING:
    from odek.cli.last_event import LastEvent
    from odek.cli.spinner import Spinner

_COLUMNS = 80  # of a terminal that does not say how wide it is
_ROW_COLUMNS = 164
_WORD_LENGTH = 400  # characters of a path or an address in a message


Span = tuple[str, tuple[str, ...]]
"""a piece of text and its styles"""


class Terminal:
    """The two output streams of this process."""

    def __init__(self, stdout: TextIO, stderr: TextIO) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self._wishes: Callable[[], tuple[bool, bool]] | None = None
        """returns the settings no_color and plain; None: they are known"""
        self._no_color = self._plain = self._is_terminal = False
        self._look: Look | None = None
        """of stderr"""
        self._answer_look: Look | None = None
        self._waiting: Spinner | None = None
        self.env: Mapping[str, str] = {}
        self.asked_s = 0.0
        """seconds that all questions together waited for an answer"""
        self._is_open = False
        """whether a line of an answer has no end yet"""
        self.exact = False
        """whether the answer is for a program: also a terminal gets nothing but the answer, as it is written"""
        self.last_event: LastEvent | None = None
        """with --json: what its last line will say"""
        self.redact: Callable[[str], str] = str
        """takes secrets out of what stderr says, for others' words are in it; a turn's knows those of its settings"""
        for stream in (stdout, stderr):
            if hasattr(stream, "reconfigure"):  # LANG=C: degrade instead of failing (B47)
                stream.reconfigure(errors="backslashreplace", newline="\n")

    def configure(
        self,
        *,
        env: Mapping[str, str],
        is_terminal: bool,
        wishes: Callable[[], tuple[bool, bool]] = lambda: (False, False),
    ) -> None:
        """`is_terminal`: stderr is one. `wishes` returns the settings no_color and plain, when they first matter."""
        self.env = env
        self._is_terminal = is_terminal
        self._wishes = wishes
        self._look = self._answer_look = None

    def without_color(self) -> None:
        self._no_color = True
        self._look = self._answer_look = None

    def make_plain(self) -> None:
        """From now on write whole lines of words, for a program that reads them aloud."""
        self._plain = True
        self._look = self._answer_look = None

    @property
    def look(self) -> Look:
        """what stderr can show"""
        if self._look is None:
            self._look = self._choose_look(self._stderr, is_terminal=self._is_terminal)
        return self._look

    @property
    def answer_look(self) -> Look:
        """what stdout can show"""
        if self._answer_look is None:
            self._answer_look = self._choose_look(self._stdout, is_terminal=self._stdout.isatty())
        return self._answer_look

    def _choose_look(self, stream: TextIO, *, is_terminal: bool) -> Look:
        if self._wishes is not None and is_terminal:
            wishes, self._wishes = self._wishes, None
            no_color, plain = wishes()
            self._no_color, self._plain = self._no_color or no_color, self._plain or plain
        encoding = getattr(stream, "encoding", None) or "utf-8"
        return choose_look(
            self.env, is_terminal=is_terminal, no_color=self._no_color, plain=self._plain, encoding=encoding
        )

    def style(self, text: str, *styles: str) -> str:
        """Return `text` for stderr in the given styles, or as it is where that has no colours.

        For `line` only: on its way to stdout foreign text loses its escapes, and these would go with them.
        """
        return self.look.style(text, *styles)

    def answer(self, text: str) -> None:
        """Print what the user asked for, on stdout, ending with one line end.

        Raises OdekError when it cannot be written, and BrokenPipeError when its reader has gone.
        """
        self.stream(text if text.endswith("\n") else text + "\n")

    def answer_spans(self, spans: Iterable[Span]) -> None:
        """Print an answer in colours where stdout is a terminal that has them; otherwise as `answer`."""
        look = self.answer_look
        safe = ((visible_prose(text) if look.colors else text, styles) for text, styles in spans)
        text = "".join(look.style(text, *styles) for text, styles in safe)
        self._print(text + "\n", trusted=bool(look.colors))

    @property
    def shows_answer(self) -> bool:
        """whether stdout is a terminal, where a person reads"""
        return self._stdout.isatty() and not self.exact

    @property
    def answer_columns(self) -> int:
        """width of the terminal on stdout; 0: stdout is not a terminal"""
        return _columns_of(self._stdout)

    @property
    def stdout_descriptor(self) -> int:
        return self._stdout.fileno()

    @property
    def columns(self) -> int:
        """width of the terminal on stderr"""
        return _columns_of(self._stderr) or _COLUMNS

    @property
    def row_columns(self) -> int:
        """how wide a row of foreign text on stderr may be: a line of its terminal, or what a log can hold"""
        return self.columns if self._is_terminal and not self.look.plain else _ROW_COLUMNS

    def stream(self, text: str) -> None:
        """Print `text` as a part of the answer; errors as for `answer`."""
        self._print(text, trusted=False)

    def stream_rendered(self, text: str) -> None:
        """Print a part of the answer as cli.markdown has made it safe and styled; errors as for `answer`."""
        self._print(text, trusted=True)

    def _print(self, text: str, *, trusted: bool) -> None:
        self.clear_status()
        try:
            self._is_open = self._stdout.isatty() and not text.endswith("\n")
            self._stdout.write(visible_prose(text) if self._stdout.isatty() and not trusted else text)
            self._stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            self.abandon_output()
            raise OdekError(
                f"the output cannot be written to stdout: {error.strerror}", hint="send stdout to another place"
            ) from error

    def line(self, text: str = "") -> None:
        """Print a line on stderr. A terminal that is gone or full does not end the run."""
        self.clear_status()
        self._is_open = False
        self._write(text + "\n")

    def sentence(self, text: str, *styles: str) -> None:
        """Print safe text on stderr in the given styles, its lines broken between words where a terminal is narrow."""
        self.line("\n".join(self.style(row, *styles) for row in self._rows(text)))

    def _rows(self, text: str) -> list[str]:
        rows = text.split("\n")
        if not self._is_terminal or all(len(row) <= self.columns // 2 for row in rows):  # whatever they consist of
            return rows
        from odek.cli.wrap import wrap_rows  # most are short

        return [part for row in rows for part in wrap_rows(row, self.columns)]

    def ask(self, prompt: str) -> None:
        """Print a prompt on stderr; the answer is read elsewhere."""
        self.clear_status()
        self._write(prompt)

    def show_status(self, what: str) -> None:
        """Show on a terminal what is being waited for, from the second second on, until the next line."""
        if self.look.moves:
            if self._waiting is None:
                from odek.cli.spinner import Spinner

                self._waiting = Spinner(self._write, lambda: _columns_of(self._stderr) or _COLUMNS)
            self._waiting.start(what)

    def show_rows(self, rows: Callable[[int], tuple[str, ...]]) -> None:
        """Show what `rows` returns for the terminal's width above the status, as long as that is shown."""
        if self._waiting is not None:
            self._waiting.show(rows)

    def clear_status(self) -> None:
        if self._waiting is not None:
            self._waiting.stop()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Keep the last line free for a question and its answer; the status is shown again afterwards."""
        began = time.monotonic()
        with self._without_status():
            try:
                yield
            finally:
                self.asked_s += time.monotonic() - began

    def note(self, text: str) -> None:
        self.sentence(f"odek: {visible_lines(self._without_secrets(text))}")

    def aside(self, text: str) -> None:
        """Print a note during a wait and show the status again."""
        with self._without_status():
            self.note(text)

    @contextmanager
    def _without_status(self) -> Iterator[None]:
        what = self._waiting.stop() if self._waiting is not None else ""
        yield
        if what:
            self.show_status(what)

    def warn(self, text: str, hint: str = "") -> None:
        self.sentence(f"odek: warning: {_message(self._without_secrets(text))}", "yellow")
        if hint:
            self.sentence(f"odek: hint: {_message(self._without_secrets(hint))}")

    def error(self, error: OdekError) -> None:
        """Print what is wrong, quoted words of others below it, and what to do; `error` is without secrets then."""
        error.redact(self._without_secrets)
        first, *rows = self._rows(f"odek: error: {_message(error.message)}")
        self.line("\n".join((first.replace("odek: error:", self.style("odek: error:", "red", "bold"), 1), *rows)))
        if error.detail:
            for detail in visible_lines(error.detail).splitlines():
                self.sentence(f"    {detail}")
        if error.hint:
            self.sentence(f"odek: hint: {_message(error.hint)}")

    def interrupted(self, interruption: Interrupted) -> None:
        import signal

        number = interruption.signal_number
        self.clear_status()
        if self._is_open or (self.look.moves and interruption.echoed and number == signal.SIGINT):
            self.line()  # an answer was being written, or the terminal has written ^C
        self.line(f"odek: stopped by {signal.Signals(number).name}")

    def bug(self, error: BaseException, *, debug: bool, code: int) -> int:
        """Report what should never happen; return `code`."""
        said = self._without_secrets(str(error))
        self.line(f"odek: internal error: {type(error).__name__}: {visible(said)} (in {_place_of(error)})")
        if debug:
            import traceback

            self.line("".join(traceback.format_exception(error)).rstrip())
        else:
            self.line("odek: hint: this is a bug of odek; ODEK_DEBUG=1 shows where it happened")
        return code

    def _without_secrets(self, text: str) -> str:
        try:
            return self.redact(text)
        except OdekError:  # what holds the secrets cannot be read, which is said as an error
            return text

    def _write(self, text: str) -> None:
        try:
            self._stderr.write(text)
            self._stderr.flush()
        except (OSError, ValueError):
            redirect_to_devnull(self._stderr)

    def abandon_output(self) -> None:
        """The reader of stdout has gone: keep the interpreter from complaining at exit."""
        redirect_to_devnull(self._stdout)


def _message(text: str) -> str:
    return visible_lines(shorten_words(text, _WORD_LENGTH))


def _place_of(error: BaseException) -> str:
    """Return the innermost function of odek that `error` came through; compiled code has no line numbers."""
    place = "odek"
    step = error.__traceback__
    while step is not None:
        module = str(step.tb_frame.f_globals.get("__name__"))
        if module.partition(".")[0] == "odek":
            place = f"{module}.{step.tb_frame.f_code.co_name}"
        step = step.tb_next
    return place


def _columns_of(stream: TextIO) -> int:
    """Return the width of the terminal, 0 when it is unknown or `stream` is not a terminal."""
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 0
