"""The variables of a shell that may be set without a question. Pure.

Programs obey variables without number, and a variable that is exported already stays so: what is not in the list is
not understood. A name passes if it is one of those below with a value that fits, lower-case letters that no program
looks for, or made of words that speak of the script's own affairs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from odek.danger.risk import NotUnderstood
from odek.danger.shell import abstract_text
from odek.patterns import pattern

_FLAG = r"[\w.+-]*"
_PROGRAM = r"(?:/usr/bin/)?(?:cat|true|:)?"
_VALUES: dict[str, str] = {
    **dict.fromkeys(
        (
            "CI", "DEBUG", "VERBOSE", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "NODE_ENV", "RAILS_ENV",
            "RACK_ENV", "APP_ENV", "MIX_ENV", "GO111MODULE", "CGO_ENABLED", "GOOS", "GOARCH", "RUST_BACKTRACE",
            "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONUTF8",
            "COLUMNS", "LINES", "TERM", "OPTIND", "GIT_PAGER_IN_USE", "GIT_OPTIONAL_LOCKS", "GIT_TERMINAL_PROMPT",
            "DEBIAN_FRONTEND", "MAKELEVEL", "SOURCE_DATE_EPOCH", "DOCKER_BUILDKIT", "COMPOSE_PROJECT_NAME",
        ),
        _FLAG,
    ),
    **dict.fromkeys(
        (
            "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
            "GIT_COMMITTER_DATE",
        ),
        r"[^\0-\6\n]*",
    ),
    **dict.fromkeys(("PAGER", "GIT_PAGER", "MANPAGER"), _PROGRAM),
    **dict.fromkeys(("EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR"), r"(?:/usr/bin/)?(?:true|cat|:)"),
    **dict.fromkeys(
        (
            "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_COLLATE", "LC_MESSAGES", "LC_NUMERIC", "LC_TIME",
            "LC_MONETARY",
        ),
        r"(?:[A-Za-z]{1,5}(?:_[A-Z]{2})?(?:\.[A-Za-z0-9-]+)?)?",
    ),
    "TZ": r"(?:[A-Z][A-Za-z]*(?:/[A-Za-z_-]+){0,2}|[A-Z]{3,4}[+-]?\d*)?",
    "IFS": r"[ \t\n,:;|=\0-\6]*",
}  # fmt: skip
_WORDS = frozenset(
    """
    A ABC ACTION ADDED AGE ALL AMOUNT APP ARCH ARGS ARTIFACT B BACKUP BAD BAR BASE BAZ BEGIN BIN BODY BRANCH BUILD C
    CASE CHANGED CHANGES CHECK CHOICE CHUNK CODE COL COLOR COMMIT CONTENT COPY COUNT COUNTER COVERAGE CURRENT D DATA
    DATE DAY DAYS DEPLOY DEST DIFF DIR DIRS DIST DOC DOCS DONE DST E ELAPSED END ENTRY ERR ERROR ERRORS EXAMPLE EXIT
    EXT F FAILED FAILURES FILE FILENAME FILES FIRST FLAG FLAGS FOLDER FOO FOUND FROM FULL G GREEN GREETING H HASH
    HEAD HELLO HEX HOUR I ID IDX IMG INDEX INPUT ITEM ITEMS J JOB JSON K KIND L LABEL LAST LATEST LEFT LEN LENGTH
    LEVEL LINE LIST LOG LOGS LONG M MAX MESSAGE MIN MODE MODULE MONTH MSG N NAME NAMES NC NEW NEXT NOW NUM NUMBER O
    OBJ OK OLD OP OTHER OUT OUTPUT P PAGE PART PASS PASSED PCT PID PIDS PKG PORT PREFIX PREV PROJECT Q R RATE RC RED
    RELEASE REPO REPORT REQUIRED RES RESULT RESULTS RET REV RIGHT ROOT ROW RUN S SCRIPT SECOND SERVICE SHA SHORT
    SITE SIZE SRC STAMP START STATE STATUS STEP STR SUB SUBDIR SUFFIX SUM SUMMARY T TABLE TAG TARGET TEMP TEST TESTS
    TEXT TIME TIMEOUT TIMESTAMP TITLE TMP TODAY TOTAL TYPE U UNIT UPDATED V VAL VALUE VAR VER VERSION W WARN
    WARNINGS WHEN WIDTH WORD WORDS WORK X Y YEAR YELLOW YESTERDAY Z ZIP
    """.split()
)
_LOWER = pattern(r"[a-z][a-z0-9_]*|_[a-z_]*|_")
_OBEYED_LOWER = pattern(r".*_proxy|npm_.*|prefix|cdpath|path|fpath|manpath|mailpath|home|shell|ifs|term|psvar|_")


def require_settable(name: str, values: Iterable[str]) -> None:
    """Return if the variable `name` may get one of `values`. Raises NotUnderstood."""
    form = _VALUES.get(name)
    if form is not None:
        if all(re.fullmatch(form, value) for value in values):
            return
    elif name.isupper() and all(part in _WORDS or part.isdigit() for part in name.split("_") if part):
        if name.strip("_"):
            return
    elif _LOWER.fullmatch(name) and not _OBEYED_LOWER.fullmatch(name):
        return
    raise NotUnderstood(f"sets {abstract_text.rendered(name)[:40] or 'a variable'}, which programs may obey")
