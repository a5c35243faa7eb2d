"""Respells commands that must not run unasked on the host: `scripts/fuzz-host`.

Every command of tests/unit/danger/test_host.py is written in other ways that mean the same to a shell (quotes,
blanks, wrappers, here-documents, variables); none of them may be allowed. The seed is fixed.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Sequence

from support import fuzz_danger
from test_host import CODE, HOST, PLACES, VARIABLES

from odek.danger.classify import classify
from odek.danger.policy import HOST_TABLE, Policy, decide


def run(count: int, seed: int) -> Iterator[str]:
    """Give a line for every spelling that is allowed; `count` spellings of each command."""
    chance = random.Random(seed)
    policy = Policy(table=HOST_TABLE)
    for command in (*CODE, *VARIABLES, *PLACES):
        for _ in range(count):
            spelled = fuzz_danger.disguise(command, chance)
            if decide(classify(spelled, HOST), spelled, policy).action == "allow":
                yield f"{command!r} runs as {spelled!r}"
                break


def main(arguments: Sequence[str]) -> int:
    """Print every failure and the numbers; 1 if something failed."""
    parser = argparse.ArgumentParser(prog="fuzz-host", description="Respell commands that must not run on the host.")
    parser.add_argument("--count", type=int, default=1000, help="spellings of each command (default: 1000)")
    parser.add_argument("--seed", type=int, default=20240607, help="where the chain of spellings starts")
    options = parser.parse_args(arguments)
    failures = list(run(options.count, options.seed))
    print(*failures, sep="\n")
    print(f"{len((*CODE, *VARIABLES, *PLACES))} commands, {options.count} spellings each: {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
