"""What a sandbox may be asked for: every value that Docker takes more generously than anyone means it."""

from __future__ import annotations

import subprocess

import pytest

from odek.amounts import MAX_PIDS_LIMIT, MIN_PIDS_LIMIT
from odek.config.layers import parse_flags
from odek.errors import ConfigError
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.network.plan import Network
from odek.sandbox.spec import (
    MAX_VARIABLE_BYTES,
    Limits,
    Mount,
    SandboxSpec,
    parse_cpus,
    parse_env,
    parse_memory,
    parse_network_mode,
    parse_pids_limit,
    parse_user,
    parse_volume,
    require_apart,
)

ORIGIN = "./odek.json"


def spec_of(user: str, **changes: object) -> SandboxSpec:
    values: dict[str, object] = {
        "image": "alpine:3.22",
        "image_id": f"sha256:{'a' * 64}",
        "network": "none",
        "workdir": "/w",
        "readonly": False,
        "home": "/tmp",
        "limits": Limits(),
    }
    return SandboxSpec(user=user, **(values | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["none", "bridge"])
def test_network_mode_is_taken_when_it_is_known(text: str) -> None:
    """R-50."""
    assert parse_network_mode(text, origin=ORIGIN) == text


@pytest.mark.parametrize(
    "text",
    ["", "host", "None", "NONE", "none ", " none", "none\n", "bridge\n", "default", "container:x", "permission denied"],
)
def test_network_mode_is_refused_with_its_origin_when_it_is_unknown(text: str) -> None:
    """R-50: no line end slips through, no other mode of Docker's."""
    with pytest.raises(SandboxConfigError, match=r"is not allowed \(./odek.json\)") as refused:
        parse_network_mode(text, origin=ORIGIN)
    assert "\n" not in refused.value.message
    assert '"none" or "bridge"' in refused.value.hint


@pytest.mark.parametrize("value", [MIN_PIDS_LIMIT, 16, 4096, MAX_PIDS_LIMIT])
def test_pids_limit_is_taken_when_it_limits(value: int) -> None:
    """R-32."""
    assert parse_pids_limit(value, origin=ORIGIN) == value


@pytest.mark.parametrize("value", [0, -1, -5, 1, 4, 4_194_305, 1 << 53])
def test_pids_limit_is_refused_when_docker_would_not_enforce_it(value: int) -> None:
    """R-32: 0 and less mean "unlimited" to Docker; 1 starts a container in which nothing can run."""
    with pytest.raises(SandboxConfigError, match=rf"limit of {value} is not possible \(./odek.json\)") as refused:
        parse_pids_limit(value, origin=ORIGIN)
    with pytest.raises(ConfigError, match="out of range") as earlier:
        parse_flags({"sandbox_pids_limit": [str(value)]})
    least_and_most = f"from {MIN_PIDS_LIMIT} to {MAX_PIDS_LIMIT}"  # A17: one range wherever it is named
    assert least_and_most in refused.value.hint
    assert least_and_most in earlier.value.hint


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
    assert parse_memory(text, origin=ORIGIN) == size


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
    with pytest.raises(SandboxConfigError, match=r"is not an amount of memory \(./odek.json\)"):
        parse_memory(text, origin=ORIGIN)


@pytest.mark.parametrize("text", ["1", "5m", "6291455", "5.99m"])
def test_memory_is_refused_below_what_docker_accepts(text: str) -> None:
    """R-32: at least 6 MiB."""
    with pytest.raises(SandboxConfigError, match=r"below the least that Docker accepts, 6m \(./odek.json\)"):
        parse_memory(text, origin=ORIGIN)


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
    assert parse_cpus(text, origin=ORIGIN) == nano


@pytest.mark.parametrize(
    "text",
    ["", "0", "0.0", "0.009999999", "0.0000001", "-1", "+1", "1/2", "1e3", "1.", ".5", "1.0000000001", "100000",
    "2\n", " 2", "٢", "nan", "inf"],
)  # fmt: skip
def test_cpus_are_refused_when_docker_would_not_enforce_them(text: str) -> None:
    """R-32: 0 means "unlimited", tiny numbers enforce nothing, fractions and exponents surprise."""
    with pytest.raises(SandboxConfigError, match=r"is not a number of CPUs \(./odek.json\)"):
        parse_cpus(text, origin=ORIGIN)


@pytest.mark.parametrize(
    "text",
    ["0", "0:0", "1000", "1000:1000", "2147483647:2147483647", "nobody", "nobody:users", "_apt", "www-data:33", "a.b"],
)
def test_user_is_taken_when_docker_means_the_same_by_it(text: str) -> None:
    """R-32."""
    assert parse_user(text, origin=ORIGIN) == text


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
    with pytest.raises(SandboxConfigError, match=r"is not a user \(./odek.json\)"):
        parse_user(text, origin=ORIGIN)


@pytest.mark.parametrize(
    ("user", "helper"),
    [
        ("0:0", "65534:65534"),
        ("1000:65534", "65534:65534"),
        ("root", "65534:65534"),
        ("65533:1", "65534:65534"),
        ("65534", "65533:65533"),
        ("65534:100", "65533:65533"),
        ("nobody", "65533:65533"),
        ("nobody:users", "65533:65533"),
        ("nfsnobody", "65533:65533"),
    ],
)
def test_helper_is_another_user_than_the_one_of_the_commands(user: str, helper: str) -> None:
    """D-10."""
    assert spec_of(user).helper_user == helper


def test_plan_holds_the_mode_and_the_attached_networks() -> None:
    """R-55."""
    network = Network(name="n", id="b" * 64, internal=False)
    plan = spec_of("0", network="bridge", attached=(network,)).plan
    assert (plan.mode, plan.attached) == ("bridge", (network,))


def test_environment_is_taken_byte_for_byte() -> None:
    """R-32, B16: line ends, equal signs, quotes, empty values and hostile names of the client's own."""
    pairs = (
        ("MULTI", "a\nb\n"),
        ("EQ", "x=y=z"),
        ("EMPTY", ""),
        ("DOCKER_HOST", "tcp://127.0.0.1:1"),
        ("PATH", "/evil"),
        ("LD_PRELOAD", "/evil.so"),
        ("_", "'\"$(x)`\\"),
        ("a" * 255, "x"),
    )
    assert parse_env(pairs, origin=ORIGIN) == pairs


@pytest.mark.parametrize("name", ["", "BAD KEY", "A=B", "-e", "1A", "A-B", "A\n", "A\0", "É", "a" * 256, "A.B"])
def test_environment_name_is_refused_when_no_shell_can_export_it(name: str) -> None:
    """B16."""
    with pytest.raises(
        SandboxConfigError, match=r"is not a name for an environment variable \(./odek.json: sandbox_env\)"
    ):
        parse_env((("GOOD", "1"), (name, "1")), origin=ORIGIN)


@pytest.mark.parametrize("name", ["ODEK_CALL", "UID", "EUID", "PPID", "BASHOPTS", "SHELLOPTS", "BASH_VERSINFO"])
def test_environment_name_is_refused_when_it_belongs_to_the_shell_or_to_odek(name: str) -> None:
    """R-32, R-40: bash ends at `export UID=…`; ODEK_CALL is how a command's processes are found again."""
    with pytest.raises(SandboxConfigError, match=rf'"{name}" cannot be set \(./odek.json: sandbox_env\)'):
        parse_env(((name, "1"),), origin=ORIGIN)


def test_environment_value_with_a_nul_is_refused_by_name() -> None:
    """B16."""
    with pytest.raises(SandboxConfigError, match=r'^the value of "NUL" holds a NUL byte \(./odek.json: sandbox_env\)$'):
        parse_env((("NUL", "a\0b"),), origin=ORIGIN)


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("./.npm:/home/node/.npm", ("./.npm", "/home/node/.npm")),
        ("./in:put:/data", ("./in:put", "/data")),
        ('a,b"c\nd:/data', ('a,b"c\nd', "/data")),
        (".:/data", (".", "/data")),
        ("/w/cache:/data/x", ("/w/cache", "/data/x")),
        ("x:/etcetera", ("x", "/etcetera")),
        ("x:/workspace2", ("x", "/workspace2")),
        ("x:/opt/etc", ("x", "/opt/etc")),
        ("..x:/data", ("..x", "/data")),
        ("x:/home/a b,c", ("x", "/home/a b,c")),
    ],
)
def test_volume_is_split_at_the_last_colon(text: str, pair: tuple[str, str]) -> None:
    """R-33, B12."""
    assert parse_volume(text, origin=ORIGIN) == pair


@pytest.mark.parametrize(
    "text", ["", "x", ":/data", "x:", "x:data", "x:/data:ro", "x:./data", "x:/a\nb", "x\0y:/data", "x:/a\0"]
)
def test_volume_is_refused_when_it_is_no_pair(text: str) -> None:
    """R-33."""
    with pytest.raises(SandboxConfigError, match=r"\(./odek.json: sandbox_volumes\)"):
        parse_volume(text, origin=ORIGIN)


@pytest.mark.parametrize("text", ["..:/data", "../x:/data", "x/../y:/data", "x/..:/data", "/w/../etc:/data"])
def test_volume_source_with_parent_folder_is_refused(text: str) -> None:
    """R-33."""
    with pytest.raises(SandboxConfigError, match=r'"\.\." is not allowed in the host part'):
        parse_volume(text, origin=ORIGIN)


@pytest.mark.parametrize(
    "target",
    [
        "/", "//", "/.", "/workspace", "/workspace/", "/workspace/x", "//workspace", "/./workspace", "/etc", "/etc/",
        "/etc/passwd",
        "/tmp", "/tmp/x", "/proc", "/proc/self", "/sys", "/sys/fs", "/dev", "/dev/shm", "/run", "/run/docker.sock",
        "/data/../etc",
        "/data/..", "/..",
    ],
)  # fmt: skip
def test_volume_target_over_a_system_folder_is_refused(target: str) -> None:
    """R-33."""
    with pytest.raises(SandboxConfigError, match="may not be mounted at"):
        parse_volume(f"x:{target}", origin=ORIGIN)


@pytest.mark.parametrize(
    ("env", "refused"),
    [
        ((("A", "x" * (MAX_VARIABLE_BYTES - 3)),), ""),
        ((("A", "x" * (MAX_VARIABLE_BYTES - 2)),), 'the value of "A" is too long (here: sandbox_env)'),
        ((("A", "é" * 70_000),), 'the value of "A" is too long (here: sandbox_env)'),
        (tuple((f"V{number}", "x" * 1000) for number in range(1000)), ""),
        (tuple((f"V{number}", "x" * 1000) for number in range(3000)), "the variables are too many (here: sandbox_env)"),
        (tuple((f"V{number}", "") for number in range(80_000)), "the variables are too many (here: sandbox_env)"),
    ],
)
def test_variables_with_which_no_program_starts_are_refused(env: tuple[tuple[str, str], ...], refused: str) -> None:
    """E11: with the size that fits, before Docker is asked anything; what is let through starts a program."""
    if not refused:
        assert parse_env(env, origin="here") == env
        assert subprocess.run(["/bin/true"], env=dict(env)).returncode == 0
        return
    with pytest.raises(SandboxConfigError) as caught:
        parse_env(env, origin="here")
    assert caught.value.message == refused
    assert "bytes" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "target"),
    [("./a:/mnt/v/", "/mnt/v"), ("./a:/mnt//v", "/mnt/v"), ("./a:/./mnt/./v/.", "/mnt/v"), ("./a://mnt/v", "/mnt/v"),
     ("./a:/usr/src/app/node_modules", "/usr/src/app/node_modules"), ("./a:/usr/local/lib/x", "/usr/local/lib/x"),
     ("./a:/var/cache/x", "/var/cache/x"), ("./~:/mnt", "/mnt"), ("./$x:/mnt", "/mnt"), ("a$b/c:/m", "/m")],
)  # fmt: skip
def test_target_of_a_volume_is_put_into_one_form(text: str, target: str) -> None:
    """A15: Docker reports it in that form."""
    if text.startswith("a$b"):
        text = f"./{text}"
    assert parse_volume(text, origin=ORIGIN)[1] == target


@pytest.mark.parametrize(
    "target",
    ["/bin", "/sbin/", "/lib", "/lib64", "/usr", "/usr/bin", "/usr//lib/x", "/usr/local", "/usr/local/bin", "/var",
     "/var/run/x", "/boot", "/usr/libexec/x", "/usr/sbin", "/lib/x86_64-linux-gnu", "/usr/local/lib/"],
)  # fmt: skip
def test_target_over_the_programs_of_the_image_is_refused(target: str) -> None:
    """A15, F10: odek's own commands in the sandbox are made of them."""
    with pytest.raises(SandboxConfigError, match="the system of the sandbox is there"):
        parse_volume(f"x:{target}", origin=ORIGIN)


@pytest.mark.parametrize("source", ["~", "~/x", "~user/x", "$HOME", "$HOME/x", "${HOME}/x", "$x"])
def test_source_that_would_have_to_be_expanded_is_refused(source: str) -> None:
    """A15: it would make a folder called "~"."""
    with pytest.raises(SandboxConfigError, match='"~" and "\\$" stand for nothing'):
        parse_volume(f"{source}:/mnt", origin=ORIGIN)


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        (("/a", "/a"), 'two volumes have the target "/a"'),
        (("/data/sub", "/data"), 'the target "/data/sub" of a volume lies in "/data"'),
        (("/x", "/data", "/data/a/b"), 'the target "/data/a/b" of a volume lies in "/data"'),
        (("/data", "/data2", "/x/data"), ""),
        ((), ""),
    ],
)
def test_targets_that_would_hide_each_other_are_refused(targets: tuple[str, ...], words: str) -> None:
    """A15, E12: Docker makes the inner one as root, in the outer's folder on the host."""
    volumes = [Mount(source=f"/w/{number}", target=target) for number, target in enumerate(targets)]
    if not words:
        return require_apart(volumes, origin=ORIGIN)
    with pytest.raises(SandboxConfigError, match=words):
        require_apart(volumes, origin=ORIGIN)
    return None
