"""The little languages of `sed` and `jq`, as far as they can neither run, write nor fetch anything. Pure.

A program is read completely by a small grammar; what goes beyond it is not understood.
"""

from __future__ import annotations

import re

from odek.danger.risk import NotUnderstood
from odek.patterns import pattern

_SED_ADDRESS = r"(?:\$|[0-9]+(?:~[0-9]+)?|/(?:[^/\\\n\[]|\\.|\[\^?[^\]/\\\n\[]+\])*/I?)"
_SED_RANGE = pattern(rf"(?:{_SED_ADDRESS}(?:[ ]*,[ ]*(?:{_SED_ADDRESS}|[+~][0-9]+))?)?[ ]*!?[ ]*")
_SED_PLAIN = pattern(r"[pdDnNgGhHxP=lz](?=[\s;}]|$)|[qQ][0-9]*(?=[\s;}]|$)")
_SED_LABEL = pattern(r"(?::[ ]*[A-Za-z0-9_]+|[bt][ ]*[A-Za-z0-9_]*)(?=[\s;}]|$)")
_SED_TEXT = pattern(r"[aic](?:[ ]+|\\[ ]?)[^\n\\{}]*$")
_SED_BRACKET = pattern(r"\[\^?\]?(?:\[:\w+:\]|[^\]\[\n])*\]")
"""in which a delimiter does not end the pattern"""
_SED_FLAGS = pattern(r"[gpiI0-9]*(?=[\s;}]|$)")


def check_sed(text: str) -> None:
    """Raise NotUnderstood for a script of sed that does more than print, delete and substitute."""
    position, depth = 0, 0
    while position < len(text):
        if text[position] in " \t\n;":
            position += 1
            continue
        if text[position] == "}":
            depth, position = depth - 1, position + 1
            continue
        position = _matched(_SED_RANGE, text, position)
        command = text[position : position + 1]
        if command == "{":
            depth, position = depth + 1, position + 1
        elif command in ("s", "y"):
            position = _sed_substitution(text, position + 1, regex=command == "s")
        else:
            for pattern in (_SED_PLAIN, _SED_LABEL, _SED_TEXT):
                if match := pattern.match(text, position):
                    position = match.end()
                    break
            else:
                raise NotUnderstood("sed does more than is understood here")
    if depth:
        raise NotUnderstood("sed does more than is understood here")


def _sed_substitution(text: str, position: int, *, regex: bool) -> int:
    """Return where `s/a/b/g` ends, whose first delimiter is at `position`."""
    delimiter = text[position : position + 1]
    if not delimiter or delimiter in " \t\n\\;{}[]" or delimiter.isalnum():
        raise NotUnderstood("sed does more than is understood here")
    for part in range(2):
        position += 1
        while text[position : position + 1] not in ("", "\n", delimiter):
            bracket = _SED_BRACKET.match(text, position) if regex and not part else None
            if text[position] == "[" and regex and not part and not bracket:
                raise NotUnderstood("sed does more than is understood here")
            position = bracket.end() if bracket else position + (2 if text[position] == "\\" else 1)
        if text[position : position + 1] != delimiter:
            raise NotUnderstood("sed does more than is understood here")
    return _matched(_SED_FLAGS, text, position + 1) if regex else position + 1


def _matched(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    if match is None:
        raise NotUnderstood("sed does more than is understood here")
    return match.end()


_JQ_TOKEN = pattern(
    r"""\s+|[.]\.?|\[|\]|\{|\}|\(|\)|,|\|=?|\?//|\?|:|;|==|!=|<=|>=|[<>]|//=?|[-+*/%]=?|=|\$(?!ENV|__)[A-Za-z_]\w*|"""
    r"""@(?:text|json|csv|tsv|html|uri|sh|base64d?)\b|[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|[A-Za-z_][A-Za-z0-9_]*|\.[A-Za-z_]\w*"""
)
_JQ_NAMES = frozenset(
    """
    abs add all and any arrays as ascii ascii_downcase ascii_upcase booleans capture catch ceil combinations
    contains debug del delpaths elif else empty end endswith error explode false first flatten floor foreach
    from_entries fromdate fromjson getpath gmtime group_by gsub has if implode in index indices infinite input
    input_line_number inputs inside isempty isnan isvalid iterables join keys keys_unsorted last leaf_paths length
    limit log ltrim ltrimstr map map_values match max max_by min min_by mktime nan not now nth null nulls numbers
    objects or path paths pick pow range recurse recurse_down reduce reverse rindex round rtrim rtrimstr scalars
    scan select setpath sort sort_by split splits sqrt startswith strftime strings strptime sub test then to_entries
    to_number toarray todate tojson tonumber tostring transpose trim true try type unique unique_by until
    utf8bytelength values walk while with_entries
    """.split()
)


def check_jq(text: str) -> None:
    """Raise NotUnderstood for a filter of jq that uses more than plain functions: the environment, modules."""
    position, open_brackets, before = 0, [""], ""
    while position < len(text):
        if text[position] == '"':
            position, before = _jq_string(text, position + 1), '"'
            continue
        match = _JQ_TOKEN.match(text, position)
        if not match:
            raise NotUnderstood("jq does more than is understood here")
        word, position = match[0], match.end()
        if word in "([{":
            open_brackets.append(word)
        elif word in ")]}" and len(open_brackets) > 1:
            open_brackets.pop()
        is_key = open_brackets[-1] == "{" and before in ("{", ",")
        if word[0].isalpha() and before != "." and not is_key and word not in _JQ_NAMES:
            raise NotUnderstood(f"jq calls {word}, which is not known to be harmless")
        before = word if not word.isspace() else before.replace(".", "")


def _jq_string(text: str, position: int) -> int:
    r"""Return where a string ends; `\(…)` in it is a filter."""
    while position < len(text):
        character = text[position]
        if character == '"':
            return position + 1
        if text.startswith("\\(", position):
            end = _closing(text, position + 2)
            check_jq(text[position + 2 : end])
            position = end + 1
        else:
            position += 2 if character == "\\" else 1
    raise NotUnderstood("jq does more than is understood here")


def _closing(text: str, position: int) -> int:
    depth = 1
    while position < len(text):
        if text[position] == '"':
            position = _jq_string(text, position + 1)
            continue
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if not depth:
            return position
        position += 1
    raise NotUnderstood("jq does more than is understood here")


_PATH_EXPRESSION = pattern(r"[.](?:[\w.\[\]\"'| -]|(?<=\.)\*)*")


def check_path_expression(text: str) -> None:
    """Raise NotUnderstood for what is more than a path into a document, as `yq` and others take it."""
    words = re.findall(r"[A-Za-z_]\w*", re.sub(r"\.[A-Za-z_][\w-]*|\"[^\"]*\"", "", text))
    if not _PATH_EXPRESSION.fullmatch(text) or set(words) - {"keys", "length", "type", "sort"}:
        raise NotUnderstood("the expression is more than a path")
