"""Sandbox or host: every setting x who says it x what it says x the daemon x the image, as one generated table.

What is expected comes from the few rules of `expected`, which know nothing of the code (R-7, R-8, D-1, D-22, D-25,
A3, A4).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from odek.config.settings import BY_KEY

# What can be said of each setting, as a file has it; "bad" is wrong in itself, whatever Docker would say.
VALUES: dict[str, dict[str, object]] = {
    "sandbox": {"good": True, "off": False, "empty": None, "bad": "perhaps"},
    "sandbox_image": {"good": "some/image:1", "empty": "", "bad": "BUSYBOX:1"},
    "sandbox_network": {"good": "bridge", "off": "none", "empty": "", "bad": "host"},
    "sandbox_networks": {"good": ["back"], "empty": [], "bad": ["a b"]},
    "sandbox_compose_project": {"good": "shop", "empty": "", "bad": "Shop!"},
    "sandbox_pids_limit": {"good": 256, "empty": None, "bad": 0},
    "sandbox_readonly": {"good": True, "off": False, "empty": None, "bad": "perhaps"},
    "sandbox_git": {"good": True, "off": False, "bad": "perhaps"},
    "sandbox_memory": {"good": "512m", "empty": "", "bad": "512mb"},
    "sandbox_cpus": {"good": "0.5", "empty": "", "bad": "0"},
    "sandbox_tmp_size": {"good": "64m", "empty": "", "bad": "1"},
    "sandbox_user": {"good": "1000:1000", "empty": "", "bad": "a b"},
    "sandbox_env": {"good": {"A": "b"}, "empty": {}, "bad": {"A-B": "c"}},
    "sandbox_volumes": {"good": ["./data:/mnt/data"], "empty": [], "bad": ["../data:/mnt/data"]},
    "no_sandbox": {"good": True, "off": False, "bad": "perhaps"},
    "require_sandbox": {"good": True, "off": False, "bad": "perhaps"},
    "approve_mcp": {"good": True, "off": False, "bad": "perhaps"},
    "require_verified": {"good": True, "off": False, "bad": "perhaps"},
    "require": {"good": ["net.routes"], "empty": [], "bad": ["net.nothing"]},
    "approve_project_sandbox": {"good": True, "off": False, "bad": "perhaps"},
    "sandbox_build_network": {"good": True, "off": False, "bad": "perhaps"},
    "sandbox_network_lenient": {"good": True, "off": False, "bad": "perhaps"},
    "suppress_sandbox_warning": {"good": True, "off": False, "bad": "perhaps"},
}
WIDENS = (  # what a project asks of the sandbox and the operator has to approve
    "sandbox_image", "sandbox_network", "sandbox_networks", "sandbox_compose_project", "sandbox_user", "sandbox_env",
    "sandbox_volumes",
)  # fmt: skip
FORBIDDEN = ("sandbox_git",)  # what a project says of it is not even read
NETWORKS = ("sandbox_networks", "sandbox_compose_project")
SOURCES = ("flag", "variable", "operator", "project", "project, not approved")
DAEMONS = ("there", "away", "no client", "misnamed")
IMAGES = ("there", "missing", "the project's is missing", "invalid")
OPERATORS: dict[str, dict[str, object]] = {  # what the operator's file says already
    "nothing": {},
    "networks": {"sandbox_networks": ["back"]},
    "a project of Compose": {"sandbox_compose_project": "shop"},
    "read-only": {"sandbox_readonly": True},
    "a sandbox": {"sandbox": True},
}
# where what the operator has asked for already makes a difference: the rest of the product is left out
DECIDED_BY_FIRMNESS = (("away", "there"), ("there", "missing"), ("there", "there"))
MISNAMED = {"DOCKER_HOST": "foo://bar"}


@dataclass(frozen=True, slots=True)
class Cell:
    key: str
    source: str
    value: str
    """good, off, empty or bad"""
    daemon: str
    image: str
    operator: str


def cells(key: str) -> Iterator[Cell]:
    for source, value in itertools.product(SOURCES, ("good", "off", "drop", "empty", "bad")):
        if can_say(key, source, value):
            for daemon, image, operator in itertools.product(DAEMONS, IMAGES, OPERATORS):
                if key == "sandbox_image" and image not in ("there", "missing"):
                    continue  # what it says decides
                if source == "operator" and key in OPERATORS[operator]:
                    continue  # one file cannot say a thing twice
                if operator != "nothing" and (daemon, image) not in DECIDED_BY_FIRMNESS:
                    continue
                yield Cell(key, source, value, daemon, image, operator)


def can_say(key: str, source: str, value: str) -> bool:
    option = BY_KEY[key]
    if value == "drop":
        return bool(option.off_word) and source in ("flag", "variable")
    if source == "flag":
        # a flag of yes or no says "off" by another one, where there is one, and can say nothing else
        spoken = value == "good" or (value == "off" and bool(option.off_flag)) if option.is_switch else True
        return bool(option.flag) and spoken and (value in VALUES[key] or value == "empty")
    if source == "variable":
        return bool(option.env) and (value in VALUES[key] or value == "empty")
    return option.in_file and value in VALUES[key]


def expected(cell: Cell) -> str:
    """Return "sandbox", "host" or "stop" by the rules; see the module."""
    by_operator = cell.source in ("flag", "variable", "operator")
    on, off = (by_operator and cell.value == "good"), (by_operator and cell.value == "off")
    counts = cell.value == "good"
    if cell.value == "empty" and cell.source in ("flag", "variable"):
        return "stop"  # A4: an empty flag or variable is an error, whatever it would have set
    if cell.value == "bad" and not (cell.key in FORBIDDEN and cell.source.startswith("project")):
        return "stop"  # never hidden behind a daemon that is away
    readonly = (cell.key == "sandbox_readonly" and counts) or (
        cell.operator == "read-only" and not (cell.key == "sandbox_readonly" and off)
    )
    required = cell.key in ("require_sandbox", "require_verified", "require") and on
    explicit = (cell.key == "sandbox" and counts) or (
        cell.operator == "a sandbox" and not (cell.key == "sandbox" and off)
    )
    if (cell.key == "sandbox" and off) or (cell.key == "no_sandbox" and on):
        return "stop" if readonly or required else "host"  # R-4, D-22; else as the operator chose
    if cell.daemon == "misnamed" or cell.image == "invalid":
        return "stop"  # D-25
    if needs_approval(cell):
        return "stop"
    networks = cell.operator in ("networks", "a project of Compose") or (cell.key in NETWORKS and counts)
    firm = explicit or required or readonly or networks  # A3: whatever a layer drops, it was asked for
    if cell.daemon != "there":
        return "stop" if firm else "host"
    if cell.image == "there":
        return "sandbox"
    by_project = cell.image == "the project's is missing" or (
        cell.key == "sandbox_image" and cell.source.startswith("project") and counts
    )
    return "stop" if firm or by_project else "host"  # R-7, D-1


def needs_approval(cell: Cell) -> bool:
    if cell.key == "approve_project_sandbox" and cell.value == "off":
        return cell.image == "the project's is missing"
    if cell.source != "project, not approved":
        return False
    said = cell.key in WIDENS and cell.value == "good"
    said = said and OPERATORS[cell.operator].get(cell.key) != VALUES[cell.key]["good"]
    return said or cell.image == "the project's is missing"


def files_and_variables(cell: Cell) -> tuple[dict[str, object], dict[str, object], dict[str, str]]:
    """Return the operator's file, the project's file and the variables of `cell`."""
    operator, project, env = dict(OPERATORS[cell.operator]), dict[str, object](), dict[str, str]()
    if cell.image == "invalid":
        env["ODEK_SANDBOX_IMAGE"] = "scratch"
    elif cell.image == "the project's is missing":
        project["sandbox_image"] = "some/image:2"
    if cell.daemon == "misnamed":
        env |= MISNAMED
    if cell.source != "project, not approved":
        env["ODEK_APPROVE_PROJECT_SANDBOX"] = "1"
    if cell.source == "variable":
        env[BY_KEY[cell.key].env[0]] = as_text(cell)
    elif cell.source != "flag":
        (operator if cell.source == "operator" else project)[cell.key] = VALUES[cell.key][cell.value]
    return operator, project, env


def parsed_flags(cell: Cell) -> dict[str, object]:
    """Return what the command line says, by key, as read_layers takes it."""
    if cell.source != "flag":
        return {}
    kind, text = BY_KEY[cell.key].kind, as_text(cell)
    return {cell.key: cell.value == "good" if kind == "bool" else [text] if kind == "list" else text}


def command_line(cell: Cell) -> tuple[str, ...]:
    """Return the flags as a user writes them."""
    if cell.source != "flag":
        return ()
    option = BY_KEY[cell.key]
    if option.is_switch:
        return (option.flag if cell.value == "good" else option.off_flag,)
    return option.flag, as_text(cell)


def as_text(cell: Cell) -> str:
    """Return the value as a flag or a variable has it."""
    if cell.value in ("empty", "drop"):
        return "" if cell.value == "empty" else BY_KEY[cell.key].off_word
    value = VALUES[cell.key][cell.value]
    if isinstance(value, list):
        return ",".join(value)
    return str(int(value)) if isinstance(value, bool) else str(value)
