"""What the model of `odek demo` says, in the format of model/replay.py.

Every step expects what the commands before it really printed; if the sandbox behaved otherwise,
the demo would stop there instead of playing on.
"""

from __future__ import annotations

import json

TASK = "The test of this project fails. Find out why, fix it, and then show what this sandbox cannot do."

ATTACKS = """\
# seven ways out of the sandbox
attempt() {
  if output=$(sh -c "$2" 2>&1); then
    echo "WORKED   $1"
  else
    echo "refused  $1: $(echo "$output" | tail -n 1)"
  fi
}
echo "user: $(id -u), capabilities: $(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)"
echo "network devices: $(ls /sys/class/net | tr '\\n' ' ')"
attempt 'open a connection to the internet' 'nc -w 3 192.0.2.1 80 </dev/null'
attempt 'write outside the workspace' 'echo owned >/etc/profile'
attempt 'run a program from /tmp' 'cp /bin/busybox /tmp/x && /tmp/x true'
attempt 'become root' 'chroot / /bin/true'
attempt 'mount a file system' 'mount -t tmpfs none /mnt'
attempt 'end the sandbox' 'kill -9 1'
attempt 'talk to the Docker daemon' 'ls /var/run/docker.sock'"""

_REFUSED = ("open a", "write outside", "run a program", "become root", "mount", "end the", "talk to")
_PASSAGE = "s/[^a-z0-9]/-/g"
_IF_DENIED = "You said no, so it did not run, and the demo ends here. Start it again to see what comes after a yes."
_MENDED = "s/[^a-z0-9][^a-z0-9]*/-/g"


def render_recording() -> str:
    """Return the recording as the text of a replay file."""
    lines: list[dict[str, object]] = [
        {"odek_replay": 1, "title": "odek demo"},
        _step(
            "First the test, to see what fails.",
            ("shell", {"command": "sh test.sh", "description": "run the test"}),
        ),
        _step(
            "Two cases fail: several unwanted characters in a row become several dashes. Now the script.",
            ("read_file", {"path": "slugify.sh"}),
            expect=("FAILED   C & C++: expected 'c-c', got 'c---c-'", "2 failed", "exit code: 2"),
        ),
        _step(
            "`[^a-z0-9]` replaces every single character. It must take a whole run of them.",
            ("patch", {"path": "slugify.sh", "old_string": _PASSAGE, "new_string": _MENDED}),
            expect=(_PASSAGE,),
        ),
        _step(
            "Again the test.",
            ("shell", {"command": "sh test.sh", "description": "run the test again"}),
            expect=("replaced: 1",),
        ),
        _step(
            "All green. Now, from inside, what the box does not let me do.",
            ("shell", {"command": ATTACKS, "description": "try to get out of the sandbox"}),
            expect=("0 failed", "exit code: 0"),
        ),
        {
            "content": (
                "slugify.sh replaced each unwanted character by a dash of its own; it now replaces a whole run of them "
                "by one, and test.sh passes (0 failed).\n"
                "From inside the sandbox there was no way to the network, to files outside the workspace, to programs "
                "in /tmp, to root, to the sandbox's own processes, or to the Docker daemon."
            ),
            "expect": [*(f"refused  {attempt}" for attempt in _REFUSED), "exit code: 0"],
            "if_denied": _IF_DENIED,
        },
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


def _step(text: str, call: tuple[str, dict[str, object]], *, expect: tuple[str, ...] = ()) -> dict[str, object]:
    name, arguments = call
    step: dict[str, object] = {
        "content": text,
        "tool_calls": [{"name": name, "arguments": arguments}],
        "expect": list(expect),
    }
    return {**step, "if_denied": _IF_DENIED} if expect else step  # before the first call nothing can be denied
