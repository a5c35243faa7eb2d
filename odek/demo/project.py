"""A small project with a real bug: its test fails until `slugify.sh` is fixed."""

from __future__ import annotations

FILES: tuple[tuple[str, str], ...] = (
    (
        "README.md",
        """\
# slugify

`sh slugify.sh "Some Title"` prints a name that is fit for a URL: lower case, words joined by
single dashes, nothing else. `sh test.sh` checks it.
""",
    ),
    (
        "slugify.sh",
        """\
#!/bin/sh
# Print $1 as a slug: lower case letters and digits, words joined by single dashes.
printf '%s\\n' "$1" | tr 'A-Z' 'a-z' | sed -e 's/[^a-z0-9]/-/g' -e 's/^-//' -e 's/-$//'
""",
    ),
    (
        "test.sh",
        """\
#!/bin/sh
# One line per case; the exit code is the number of failures.
failures=0
check() {
  got=$(sh slugify.sh "$1")
  if [ "$got" = "$2" ]; then
    echo "ok       $1"
  else
    echo "FAILED   $1: expected '$2', got '$got'"
    failures=$((failures + 1))
  fi
}
check 'Hello World' 'hello-world'
check 'Release 2.0' 'release-2-0'
check '  What?  Really!  ' 'what-really'
check 'C & C++' 'c-c'
echo "$failures failed"
exit $failures
""",
    ),
)
