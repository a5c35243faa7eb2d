"""Secrets taken out of text before a model, a file or a terminal gets it (runtime contract 4.4, F-50). Pure.

Two kinds are found: values that odek knows to be secret, in the encodings that a command is likely to
print them in, and texts that look like the keys of well-known services. Texts are redacted before a tool
cuts them (tools/unsecret.py), and once more as results, where a part of a secret that ends or begins at a
mark for something left out is a secret as well. What is not found: a part that a program took by itself
(`cut -c1-10`), or an encoding of an encoding.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache

from odek.patterns import pattern
from odek.secret_names import is_secret_name, names_a_place

MARK = "[REDACTED]"
MIN_LENGTH = 8  # a shorter value would be found in innocent words
_LINE_LENGTH = 16  # a line of a secret of several lines that counts alone

# Values that protect nothing and occur in every project: masked by value, its code could be neither read nor patched.
_COMMON = frozenset(
    (
        *("password", "passwords", "password1", "password123", "passw0rd", "passphrase", "mypassword", "yourpassword"),
        *("postgres", "postgresql", "mariadb", "rabbitmq", "wordpress", "superuser", "administrator", "adminadmin"),
        *(
            "changeme",
            "changeit",
            "change-me",
            "change_me",
            "change_this",
            "rootroot",
            "testtest",
            "testpass",
            "test1234",
        ),
        *("testpassword", "secretsecret", "mysecret", "supersecret", "notasecret", "not-a-secret", "your-api-key"),
        *("12345678", "123456789", "1234567890", "11111111", "00000000", "qwertyui", "qwertyuiop", "letmein1"),
        *("development", "production", "disabled", "enabled", "required", "optional", "undefined", "anonymous"),
        *("placeholder", "username", "localhost", "database", "credentials", "keychain", "keyring", "not-needed"),
        *("no-key-required", "dummy-key", "test-key", "fake-key", "redacted", "[redacted]"),
    )
)


def _word(start: str, rest: str, *, of: str = "A-Za-z0-9") -> str:
    """Return the pattern of a key that is a word, or stands behind an escape, as in JSON or in an address (R-415).

    What comes before it is looked at behind `start`, which is of one width: the search is for that.
    """
    escapes = (r"\\[bfnrt]", r"\\x[0-9A-Fa-f]{2}", r"\\u[0-9A-Fa-f]{4}", r"%[0-9A-Fa-f]{2}")
    behind = "|".join(f"(?<={escape}{start})" for escape in escapes)
    return f"{start}(?:(?<![{of}]{start})|{behind}){rest}"


# What each format cannot be without (looked for first: most texts hold none of them) and the pattern.
# What a pattern calls `keep` stays in the text. Every repetition is bounded or nothing can fail after it,
# so that no text makes the search slower than linear.
_FORMATS = (
    # the first: no other takes a part of it, by which the rest would not be known any more
    (
        "PRIVATE KEY-----",
        r"-----BEGIN [A-Z ]{0,24}PRIVATE KEY-----(?:[A-Za-z0-9+/=\s|\\:,]|-(?!----)){40,20000}"
        r"(?:-----END [A-Z ]{0,24}PRIVATE KEY-----)?",
    ),
    ("sk-", _word(r"sk-", r"[A-Za-z0-9_-]{16,}")),
    ("gsk_", _word(r"gsk_", r"[A-Za-z0-9]{20,}")),
    ("xai-", _word(r"xai-", r"[A-Za-z0-9_-]{20,}")),
    ("hf_", _word(r"hf_", r"[A-Za-z0-9]{20,}")),
    ("gh", _word(r"gh[oprsu]_", r"[A-Za-z0-9]{20,}")),
    ("github_pat_", r"github_pat_[A-Za-z0-9_]{20,}"),
    ("glpat-", r"glpat-[A-Za-z0-9_-]{16,}"),
    ("npm_", _word(r"npm_", r"[A-Za-z0-9]{30,}")),
    ("pypi-", r"pypi-AgE[A-Za-z0-9_-]{40,}"),
    ("AKIA", _word(r"AKIA", r"[A-Z0-9]{16}(?![A-Za-z0-9])")),
    ("ASIA", _word(r"ASIA", r"[A-Z0-9]{16}(?![A-Za-z0-9])")),
    ("AIza", _word(r"AIza", r"[A-Za-z0-9_-]{35}")),
    ("xox", r"xox[abeprs]-[A-Za-z0-9-]{10,}"),
    ("xapp-", r"xapp-[A-Za-z0-9-]{10,}"),
    ("k_live_", r"[rs]k_live_[A-Za-z0-9]{16,}"),
    ("k_test_", r"[rs]k_test_[A-Za-z0-9]{16,}"),
    ("whsec_", r"whsec_[A-Za-z0-9+/=]{16,}"),
    ("SK", _word(r"SK", r"[0-9a-f]{32}(?![A-Za-z0-9])")),
    ("hv", _word(r"hv[bs]\.", r"[A-Za-z0-9_-]{20,}")),
    ("SG.", _word(r"SG\.", r"[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,}")),
    ("eyJ", _word(r"eyJ", r"[A-Za-z0-9_-]{8,8192}\.eyJ[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{8,}", of="A-Za-z0-9_-")),
    (".", _word(r"[MNO]", r"[A-Za-z0-9]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}", of="A-Za-z0-9_-")),
    (":AA", r"(?P<keep>(?<![0-9])[0-9]{8,10}:)AA[A-Za-z0-9_-]{33}"),
    ("://", r"(?P<keep>://[^\s/:@\"'<>]{0,64}:)[^\s/@\"'<>]{1,256}(?=@)"),
    ("earer", r"(?P<keep>[Bb]earer[ \t]{1,4})(?=[A-Za-z._~+/=-]{0,256}[0-9])[A-Za-z0-9._~+/=-]{20,}"),
)
# Names that say what their value is, in any case; the value must hold two digits, as words and calls rarely do.
KEY_NAMES = (
    *("api_key", "apikey", "api-key", "access_token", "access-token", "access_key", "auth_token"),
    *("secret_key", "secret-key", "client_secret", "client-secret", "password", "passwd"),
)
_QUOTED = r"\\{0,3}[\"']?"  # JSON in JSON has it behind backslashes
_NAMED_VALUE = (
    rf"{_QUOTED}[ \t]{{0,4}}[:=][ \t]{{0,4}}{_QUOTED})(?=(?:[A-Za-z_./+=-]{{0,256}}[0-9]){{2}})[A-Za-z0-9_./+=-]{{16,}}"
)


_NAMED = f"(?P<keep>(?i:{'|'.join(KEY_NAMES)}){_NAMED_VALUE}"

# Where a tool leaves something out, and the beginning of a key that ends there, before it is long enough for _FORMATS.
_CUT = pattern(r"(\n?\[(?:… )?[0-9]+ (?:bytes|characters) left out(?: …)?\]\n?|…)")
_CUT_KEY = pattern(
    r"(?:(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=%[0-9A-Fa-f]{2}))(?:sk-|gsk_|xai-|hf_|gh[oprsu]_|npm_|AKIA|ASIA|AIza|"
    r"hv[bs]\.|SG\.|eyJ)|github_pat_|glpat-|pypi-AgE|xox[abeprs]-|xapp-|[rs]k_live_|[rs]k_test_|whsec_)[A-Za-z0-9_+/=.-]{2,}\Z"
)
_ESCAPES = ("\x1b", "\\x1", "\\u001", "\\033", "\\e[")
_COLOUR = pattern(
    r"(?:\x1b|\\{1,16}(?:x1[bB]|u001[bB]|033|e))(?:\[[0-?]{0,64}[A-Za-z]|\(B)"
    r"|\x1b\][^\x07\x1b]{0,2048}(?:\x07|\x1b\\)"
)
"""what a terminal takes for colours and the like, as it is or as JSON, `visible` and programs write it"""
_HIDDEN = "\ud800"  # in place of each character of a secret; it is in no text
_RUN = pattern(f"{_HIDDEN}+")
_PART_LENGTH = 4  # of a known secret next to a cut; fewer characters reveal little, and occur in every text
_LONGEST_KEY = 512  # characters looked at for such a beginning
_REACH = 24 << 10  # characters: as many as what _FORMATS finds can have, but for a key that has no limit


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)  # at the first text that may hold one: together they cost milliseconds of a start


class Redactor:
    """Takes secrets out of texts; made once for a session, used on each of its texts."""

    def __init__(self, secrets: Iterable[str] | Mapping[str, str] = ()) -> None:
        """`secrets` are the values that are known, or by value who holds it, for `holder_of_secret_in`; those shorter
        than MIN_LENGTH are not looked for.

        A plain word ("password") is one only as a whole value, behind `=` or `:` (A27).
        """
        holders = secrets if isinstance(secrets, Mapping) else dict.fromkeys(secrets, "")
        known = {secret.strip(): holder for secret, holder in holders.items()}
        self._words = {
            secret: holder
            for secret, holder in sorted(known.items())
            if secret.lower() in _COMMON and len(secret) >= MIN_LENGTH
        }
        words = "|".join(map(re.escape, self._words))
        self._common = re.compile(rf"(?P<keep>[=:][ \t]{{0,4}}{_QUOTED})(?:{words})(?![\w-])") if words else None
        forms = {form: known[secret] for secret in known if secret not in self._words for form in _forms(secret)}
        self._known = {form: forms[form] for form in sorted(forms, key=lambda form: (-len(form), form))}
        self.reach = max(_REACH, *map(len, forms), 0)
        """characters on this side of a gap in a text that may belong to a secret which goes on behind it"""

    @property
    def known(self) -> Iterable[str]:
        """the values that are looked for everywhere, in each of their forms"""
        return self._known

    def __call__(self, text: str) -> str:
        """Return `text` with every secret in it, and each part of one at a cut, replaced by MARK."""
        return self._at_cuts(self._replaced(text, lambda _: MARK))

    def in_lines(self, text: str) -> str:
        """Return `text` with MARK for every line of a secret, so that what follows keeps the number of its line."""
        return self._replaced(text, lambda secret: "\n".join([MARK] * (secret.count("\n") + 1)))

    def holder_of_secret_in(self, text: str) -> str:
        """Return who holds a known secret that is in `text`, "" for none."""
        for form, holder in self._known.items():
            if holder and form in text:
                return holder
        found = self._common.search(text) if self._common is not None else None
        return self._words[found[0][len(found["keep"]) :]] if found else ""

    def _replaced(self, text: str, mark: Callable[[str], str]) -> str:
        if not any(escape in text for escape in _ESCAPES):
            return self._found(text, mark)
        hidden = self._found(text, _hide)
        plain = _with_colours(self._found(_COLOUR.sub("", text), _hide), text)  # one may be in a secret, or end there
        if _HIDDEN in plain:
            hidden = "".join(_HIDDEN if _HIDDEN in pair else pair[0] for pair in zip(hidden, plain, strict=True))
        return _RUN.sub(lambda run: mark(text[run.start() : run.end()]), hidden)

    def _found(self, text: str, mark: Callable[[str], str]) -> str:
        def marked(match: re.Match[str]) -> str:
            kept = match.groupdict().get("keep") or ""
            return kept + mark(match[0][len(kept) :])

        for form in self._known:
            if form in text:
                text = text.replace(form, mark(form))
        for sign, written in _FORMATS:
            if sign in text:
                text = _compiled(written).sub(marked, text)
        if self._common is not None:
            text = self._common.sub(marked, text)
        lower = text.lower()
        return _compiled(_NAMED).sub(marked, text) if any(name in lower for name in KEY_NAMES) else text

    def _at_cuts(self, text: str) -> str:
        """Return `text` without the beginnings of secrets before a cut, and the ends of secrets behind one."""
        if "…" not in text and " left out" not in text:
            return text
        pieces = _CUT.split(text)  # every second one is a cut
        for index in range(0, len(pieces), 2):
            piece = pieces[index]
            if index > 0 and (size := self._ended(piece)):
                piece = MARK + piece[size:]
            if index + 1 < len(pieces) and (size := self._begun(piece)):
                piece = piece[:-size] + MARK
            pieces[index] = piece
        return "".join(pieces)

    def _begun(self, text: str) -> int:
        """Return how many characters at the end of `text` are the beginning of a secret, 0 for none."""
        key = _CUT_KEY.search(text[-_LONGEST_KEY:])
        likely = (form for form in self._known if form[:_PART_LENGTH] in text)
        return max(len(key[0]) if key else 0, *(_overlap(form, text) for form in likely), 0)

    def _ended(self, text: str) -> int:
        """Return how many characters at the beginning of `text` are the end of a secret, 0 for none."""
        likely = (form for form in self._known if form[-_PART_LENGTH:] in text)
        return max((_overlap(text, form) for form in likely), default=0)


def _hide(secret: str) -> str:
    return _HIDDEN * len(secret)


def _with_colours(plain: str, text: str) -> str:
    """Return `text` with what is hidden in `plain`, which is `text` without its colours; those in it are as well."""
    pieces, taken, place = [], 0, 0
    for colour in _COLOUR.finditer(text):
        size = colour.start() - place
        pieces.append(plain[taken : taken + size])
        taken, place = taken + size, colour.end()
        is_inside = taken > 0 and plain[taken - 1 : taken + 1] == _hide("..")
        pieces.append(_hide(colour[0]) if is_inside else colour[0])
    return "".join((*pieces, plain[taken:]))


def _overlap(after: str, before: str) -> int:
    """Return how long a beginning of `after` ends `before`, if it counts as a part of a secret."""
    sizes = range(min(len(after), len(before)), _PART_LENGTH - 1, -1)
    return next((size for size in sizes if before.endswith(after[:size])), 0)


def secrets_in(env: Mapping[str, str]) -> dict[str, str]:
    """Return, by value, the variables of `env` whose names look secret, except names of paths (`*_FILE`, `*_DIR`)."""
    return {value: name for name, value in env.items() if is_secret_name(name) and not names_a_place(name)}


def _forms(secret: str) -> Iterator[str]:
    """Yield what `secret` looks like in the output of a program."""
    from urllib.parse import quote  # here, for commands that redact nothing

    secret = secret.strip()
    if len(secret) < MIN_LENGTH:
        return
    if "\n" in secret:  # tools put something before each line
        for line in secret.splitlines():
            if len(line.strip()) >= _LINE_LENGTH and not line.startswith("-----"):
                yield from _forms(line)
    data = secret.encode("utf-8", "surrogateescape")
    yield secret
    yield secret[::-1]
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield data.hex()
    yield data.hex().upper()
    yield quote(data, safe="")
    yield quote(data)
    yield re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), quote(data, safe=""))
    yield from _base64_forms(data)


def _base64_forms(data: bytes) -> Iterator[str]:
    """Yield the part of the base64 of any text around `data` that depends on `data` alone.

    There are three, by where in the text it begins; the characters at both ends, which its
    neighbours have a share in, are left off.
    """
    import base64  # as above

    for before in range(3):
        encoded = base64.b64encode(bytes(before) + data).decode().rstrip("=")
        whole = (before + len(data)) * 8 // 6
        inner = encoded[(before * 8 + 5) // 6 : whole]
        if len(inner) >= MIN_LENGTH:
            yield inner
            yield inner.replace("+", "-").replace("/", "_")
