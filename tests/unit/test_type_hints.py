"""What the build takes out of the code that is compiled ahead because checkers of types alone ask for it."""

from __future__ import annotations

from types import CodeType

import pytest
from support.load_module import load_recipe


def names_of(code: CodeType) -> set[str]:
    """Return the names in a module's code and in what it defines."""
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    return {*code.co_names, *(part.co_name for part in inner)}.union(*map(names_of, inner))


@pytest.mark.parametrize(
    ("source", "kept", "dropped"),
    [
        ("from x import A, B\ndef f(a: A) -> None: B()\n", "B f", "A"),
        ("from x import A\ndef f(a: A) -> None: pass\n", "f", "A x"),
        ("from x import A\nb: A = 1\n", "b", "A x __annotations__"),
        ("from x import A\ndef f(a: A) -> None:\n  global A\n  A = 1\n", "A x", ""),
        ("from x import A as C\ndef f(a: C) -> A: pass\n", "f", "A C x"),
        ("from x import A, B\ndef f(a: A): pass\n", "B", "A"),  # B is for other modules
        ("from x import A\nclass C:\n  def f(self, a: A) -> None: isinstance(a, A)\n", "A", ""),
        ("import x\ndef f(a: x.A) -> None: pass\n", "x", "A"),
        ("try:\n  from x import A\nexcept ImportError:\n  A = None\ndef f(a: A): pass\n", "A x", ""),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n  from x import A\ndef f(a: A): pass\n", "f", "A x"),
        ("from typing import Protocol\nclass P(Protocol):\n  a: int\n  def f(self) -> int: ...\n", "P", "f"),
        (
            "from typing import Protocol\nclass P(Protocol):\n  def f(self):\n    '.'\n  def g(self): return 1\n",
            "g",
            "f",
        ),
        ("from x import A\nfrom typing import NamedTuple\nclass N(NamedTuple):\n  a: A\n", "N __annotations__", "A x"),
    ],
)
def test_code_holds_no_import_of_what_only_types_name(source: str, kept: str, dropped: str) -> None:
    """R-350: and everything else of it."""
    names = names_of(load_recipe("compile_package").compile_module(source.encode()))
    assert (set(kept.split()) - names, set(dropped.split()) & names) == (set(), set())
