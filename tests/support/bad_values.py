"""Values of the sandbox's settings that are wrong in themselves, whatever Docker would say (R-8, R-32, R-33, A30).

One table for every level: what reads settings, what plans a start, and the program as it is delivered.
"""

from __future__ import annotations

from odek.config.settings import BY_KEY

BAD_VALUES: tuple[tuple[str, object, str], ...] = (
    # key, value as a file has it, what the error must name
    ("sandbox_image", "UPPER", '"UPPER"'),
    ("sandbox_image", "Bad Image", '"Bad Image"'),
    ("sandbox_image", "--privileged", '"--privileged"'),
    ("sandbox_image", "0123456789ab", "looks like an image ID"),
    ("sandbox_network", "host", '"host"'),
    ("sandbox_network", "container:x", '"container:x"'),
    ("sandbox_network", "none ", '"none "'),
    ("sandbox_networks", ["a b"], '"a b"'),
    ("sandbox_networks", ["none", "other"], "none"),
    ("sandbox_compose_project", "a=b", '"a=b"'),
    ("sandbox_compose_project", "Shop", '"Shop"'),
    ("sandbox_pids_limit", 0, "sandbox_pids_limit"),
    ("sandbox_pids_limit", -1, "sandbox_pids_limit"),
    ("sandbox_pids_limit", 15, "sandbox_pids_limit"),
    ("sandbox_pids_limit", 4_194_305, "sandbox_pids_limit"),
    ("sandbox_memory", "0", '"0"'),
    ("sandbox_memory", "1m", '"1m"'),
    ("sandbox_memory", "plenty", '"plenty"'),
    ("sandbox_memory", "512mb", '"512mb"'),
    ("sandbox_memory", "512 m", '"512 m"'),
    ("sandbox_memory", "2t", '"2t"'),
    ("sandbox_memory", "1.5gib", '"1.5gib"'),
    ("sandbox_cpus", "0", '"0"'),
    ("sandbox_cpus", "0.005", '"0.005"'),
    ("sandbox_cpus", "many", '"many"'),
    ("sandbox_tmp_size", "0", '"0"'),
    ("sandbox_tmp_size", "1023k", '"1023k"'),
    ("sandbox_user", "a b", '"a b"'),
    ("sandbox_user", "1:2:3", '"1:2:3"'),
    ("sandbox_user", "-1:0", '"-1:0"'),
    ("sandbox_env", {"BAD KEY": "1"}, "BAD KEY"),
    ("sandbox_env", {"A=B": "1"}, "A=B"),
    ("sandbox_env", {"a.b": "1"}, "a.b"),
    ("sandbox_env", {"UID": "1"}, "UID"),
    ("sandbox_volumes", ["/etc:/data"], "/etc"),
    ("sandbox_volumes", ["../out:/out"], "../out"),
    ("sandbox_volumes", ["x:/etc"], "/etc"),
)


def as_flag(key: str, value: object) -> tuple[str, ...]:
    """Return the command line that says `value`; empty where no flag can."""
    flag = BY_KEY[key].flag
    if not flag or isinstance(value, dict):
        return ()
    return (f"{flag}={','.join(map(str, value)) if isinstance(value, list) else value}",)


def bad_value_id(value: object) -> str:
    return value if isinstance(value, str) else repr(value)
