"""How values of the sandbox's settings are written."""

from __future__ import annotations

import pytest

from odek.sandbox_grammar import (
    Cpus,
    GrammarError,
    Memory,
    parse_cpus,
    parse_memory,
    parse_network_mode,
    parse_user,
    parse_variable_name,
)

ORIGIN = "./odek.json"


@pytest.mark.parametrize("text", ["none", "bridge"])
def test_network_mode_is_taken_when_it_is_known(text: str) -> None:
    """R-50."""
    assert parse_network_mode(text, ORIGIN) == text


@pytest.mark.parametrize(
    "text",
    ["", "host", "None", "NONE", "none ", " none", "none\n", "bridge\n", "default", "container:x", "permission denied"],
)
def test_network_mode_is_refused_with_its_origin_when_it_is_unknown(text: str) -> None:
    """R-50: no line end slips through, no other mode of Docker's."""
    with pytest.raises(GrammarError, match=r"is not allowed \(./odek.json\)") as refused:
        parse_network_mode(text, ORIGIN)
    assert "\n" not in refused.value.message
    assert '"none" or "bridge"' in refused.value.hint


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("6m", 6291456),
        ("6291456", 6291456),
        ("6291456b", 6291456),
        ("6144k", 6291456),
        ("512M", 536870912),
        ("1.5g", 1610612736),
        ("2G", 2147483648),
        ("8.0000001m", 8388608),
        ("1048576g", 1 << 50),
    ],
)
def test_memory_is_read_exactly(text: str, size: int) -> None:
    """R-32."""
    assert parse_memory(text, ORIGIN) == Memory(text, size)


@pytest.mark.parametrize(
    "text",
    [
        "", "0", "0m", "00m", "-1", "-512m", "+512m", "512 mb", "512mb", "0x200m", "1e9", "1_000m", ".5g", "0.5g",
        "5.m",
        "512m\n", "\n512m", " 512m", "512t", "99999999t", "٥١٢m", "9999999999g", "1" * 400, "inf", "nan",
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
    ],
)  # fmt: skip
def test_memory_is_refused_when_it_is_no_plain_amount(text: str) -> None:
    """R-32: 0 means "unlimited" to Docker, 99999999t overflows."""
    with pytest.raises(GrammarError, match=r"is not an amount of memory \(./odek.json\)"):
        parse_memory(text, ORIGIN)


@pytest.mark.parametrize("text", ["1", "5m", "6291455", "5.99m"])
def test_memory_is_refused_below_what_docker_accepts(text: str) -> None:
    """R-32: at least 6 MiB."""
    with pytest.raises(GrammarError, match=r"below the least that Docker accepts, 6m \(./odek.json\)"):
        parse_memory(text, ORIGIN)


@pytest.mark.parametrize(
    ("text", "nano"),
    [
        ("0.01", 10_000_000),
        ("0.5", 500_000_000),
        ("1", 10**9),
        ("01.0", 10**9),
        ("2.000000001", 2 * 10**9 + 1),
        ("64", 64 * 10**9),
    ],
)
def test_cpus_are_read_exactly(text: str, nano: int) -> None:
    """R-32."""
    assert parse_cpus(text, ORIGIN) == Cpus(text, nano)


@pytest.mark.parametrize(
    "text",
    ["", "0", "0.0", "0.009999999", "0.0000001", "-1", "+1", "1/2", "1e3", "1.", ".5", "1.0000000001", "100000",
    "2\n", " 2", "٢", "nan", "inf"],
)  # fmt: skip
def test_cpus_are_refused_when_docker_would_not_enforce_them(text: str) -> None:
    """R-32: 0 means "unlimited", tiny numbers enforce nothing, fractions and exponents surprise."""
    with pytest.raises(GrammarError, match=r"is not a number of CPUs \(./odek.json\)"):
        parse_cpus(text, ORIGIN)


@pytest.mark.parametrize(
    "text",
    ["0", "0:0", "1000", "1000:1000", "2147483647:2147483647", "nobody", "nobody:users", "_apt", "www-data:33", "a.b"],
)
def test_user_is_taken_when_docker_means_the_same_by_it(text: str) -> None:
    """R-32."""
    assert parse_user(text, ORIGIN) == text


@pytest.mark.parametrize(
    "text",
    [
        "", ":", ":0", "0:", "1:2:3", "-1", "1000:-1", "2147483648", "1000:2147483648", "4294967296", "99999999999",
        "1000 ",
        "1000\n", "a b", "-x", "--privileged", "root\n", "no such file or directory", "ü", "٥", "a" * 33, "065534",
        "00", "0:00",
    ],
)  # fmt: skip
def test_user_is_refused_when_docker_would_take_it_for_another(text: str) -> None:
    """R-32, D-10: an empty user is the image's root; 065534 is 65534 to Docker, whom the keep-alive belongs to."""
    with pytest.raises(GrammarError, match=r"is not a user \(./odek.json\)"):
        parse_user(text, ORIGIN)


@pytest.mark.parametrize("name", ["", "BAD KEY", "A=B", "-e", "1A", "A-B", "A\n", "A\0", "É", "a" * 256, "A.B"])
def test_environment_name_is_refused_when_no_shell_can_export_it(name: str) -> None:
    """B16."""
    with pytest.raises(GrammarError, match=r"is not a name for an environment variable \(./odek.json\)"):
        parse_variable_name(name, ORIGIN)


@pytest.mark.parametrize("name", ["ODEK_CALL", "UID", "EUID", "PPID", "BASHOPTS", "SHELLOPTS", "BASH_VERSINFO"])
def test_environment_name_is_refused_when_it_belongs_to_the_shell_or_to_odek(name: str) -> None:
    """R-32, R-40: bash ends at `export UID=…`; ODEK_CALL is how a command's processes are found again."""
    with pytest.raises(GrammarError, match=rf'"{name}" cannot be set \(./odek.json\)'):
        parse_variable_name(name, ORIGIN)
