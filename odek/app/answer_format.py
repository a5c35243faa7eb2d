"""The form of an answer: one JSON value that fits a schema, taken out of what the model wrote (R-293)."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from odek import safefile, strict_json
from odek.errors import UsageError
from odek.json_schema import Schema, SchemaError
from odek.strict_json import JsonError
from odek.text import truncate, visible

LIMIT_BYTES = 256 << 10
_FENCES = ("```", "~~~")
_FORM = """\
# The form of your answer
A program reads your last message. It has to be one JSON value that fits the JSON Schema below, and nothing else: no \
words before or after it. Messages that come with tool calls are not meant.
{schema}"""


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """What the last answer has to be."""

    schema: Schema
    instruction: str
    """for the model"""

    def take(self, text: str) -> tuple[str, str]:
        """Return the JSON in `text`, as it is written there, and what is wrong with it: "" for nothing."""
        try:
            answer, value = find_value(text)
        except JsonError as error:
            return "", str(error)
        return answer, "; ".join(self.schema.faults(value))


def read_answer_format(path: str, cwd: str) -> AnswerFormat:
    """Return the form that the schema in the file `path` describes. Raises UsageError for one that cannot be used."""
    shown = visible(truncate(path, 200))
    try:
        # the operator has named it: links count
        data = safefile.read_regular(os.path.realpath(os.path.join(cwd, path)), limit_bytes=LIMIT_BYTES)
        document = strict_json.parse(data)
        schema = Schema(document)
    except OSError as error:
        reason = f"larger than {LIMIT_BYTES >> 10} KiB" if isinstance(error, safefile.TooLarge) else error.strerror
        raise UsageError(
            f'the schema "{shown}" cannot be read: {str(reason).lower()}', hint="--output-schema names a JSON file"
        ) from error
    except (JsonError, SchemaError) as error:
        raise UsageError(
            f'the schema "{shown}" cannot be used: {error}',
            hint="docs/CLI.md lists the keywords that are understood; none is skipped",
        ) from error
    return AnswerFormat(schema, _FORM.format(schema=json.dumps(document, ensure_ascii=False)))


def find_value(text: str) -> tuple[str, object]:
    """Return the JSON text of an answer, and its value: all, or what is in its one fence. Raises JsonError."""
    whole = text.strip()
    try:
        return whole, _parse(whole)
    except JsonError as error:
        blocks = _fenced(whole)
        named = [block for label, block in blocks if label.lower() == "json"]
        chosen = named if len(named) == 1 else [block for _, block in blocks]
        if not chosen:
            raise JsonError(f"it is not JSON: {error}") from error
        if len(chosen) > 1:
            raise JsonError(f"it holds {len(chosen)} fenced blocks, and one JSON value is wanted") from error
    inner = chosen[0].strip()
    try:
        return inner, _parse(inner)
    except JsonError as error:
        raise JsonError(f"its fenced block is not JSON: {error}") from error


def _parse(text: str) -> object:
    return strict_json.parse(text.encode("utf-8", "surrogatepass"))


def _fenced(text: str) -> list[tuple[str, str]]:
    """Return label and content of each fenced block; one that is not closed ends with the text."""
    found: list[tuple[str, str]] = []
    fence, label = "", ""
    lines: list[str] = []
    for line in text.split("\n"):
        bare = line.strip()
        mark = bare[: len(bare) - len(bare.lstrip(bare[:1]))] if bare.startswith(_FENCES) else ""
        if not fence and mark:
            fence, label, lines = mark, bare[len(mark) :].strip(), []
        elif fence and mark.startswith(fence) and bare == mark:
            found.append((label, "\n".join(lines)))
            fence = ""
        elif fence:
            lines.append(line)
    return [*found, (label, "\n".join(lines))] if fence else found
