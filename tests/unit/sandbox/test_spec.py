"""What a sandbox may be asked for: every value that Docker takes more generously than anyone means it."""

from __future__ import annotations

import subprocess

import pytest

from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.spec import Limits, Mount, SandboxSpec, require_apart
from odek.sandbox_grammar import MAX_VARIABLE_BYTES, GrammarError, parse_variable_name, parse_volume, require_small_env

ORIGIN = "./odek.json"


def spec_of(user: str, **changes: object) -> SandboxSpec:
    values: dict[str, object] = {
        "image": "alpine:3.22",
        "image_id": f"sha256:{'a' * 64}",
        "workdir": "/w",
        "readonly": False,
        "home": "/tmp",
        "limits": Limits(),
    }
    return SandboxSpec(user=user, **(values | changes))  # type: ignore[arg-type]


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
    require_small_env(pairs, ORIGIN)
    assert [parse_variable_name(name, ORIGIN) for name, _ in pairs] == [name for name, _ in pairs]


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
    assert parse_volume(text, ORIGIN) == pair


@pytest.mark.parametrize(
    "text", ["", "x", ":/data", "x:", "x:data", "x:/data:ro", "x:./data", "x:/a\nb", "x\0y:/data", "x:/a\0"]
)
def test_volume_is_refused_when_it_is_no_pair(text: str) -> None:
    """R-33."""
    with pytest.raises(GrammarError, match=r"\(./odek.json\)"):
        parse_volume(text, ORIGIN)


@pytest.mark.parametrize("text", ["..:/data", "../x:/data", "x/../y:/data", "x/..:/data", "/w/../etc:/data"])
def test_volume_source_with_parent_folder_is_refused(text: str) -> None:
    """R-33."""
    with pytest.raises(GrammarError, match=r'"\.\." is not allowed in the host part'):
        parse_volume(text, ORIGIN)


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
    with pytest.raises(GrammarError, match="may not be mounted at"):
        parse_volume(f"x:{target}", ORIGIN)


@pytest.mark.parametrize(
    ("env", "refused"),
    [
        ((("A", "x" * (MAX_VARIABLE_BYTES - 3)),), ""),
        ((("A", "x" * (MAX_VARIABLE_BYTES - 2)),), 'the value of "A" is too long (here)'),
        ((("A", "é" * 70_000),), 'the value of "A" is too long (here)'),
        (tuple((f"V{number}", "x" * 1000) for number in range(1000)), ""),
        (tuple((f"V{number}", "x" * 1000) for number in range(3000)), "the variables are too many (here)"),
        (tuple((f"V{number}", "") for number in range(80_000)), "the variables are too many (here)"),
    ],
)
def test_variables_with_which_no_program_starts_are_refused(env: tuple[tuple[str, str], ...], refused: str) -> None:
    """E11: with the size that fits, before Docker is asked anything; what is let through starts a program."""
    if not refused:
        require_small_env(env, "here")
        assert subprocess.run(["/bin/true"], env=dict(env)).returncode == 0
        return
    with pytest.raises(GrammarError) as caught:
        require_small_env(env, "here")
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
    assert parse_volume(text, ORIGIN)[1] == target


@pytest.mark.parametrize(
    "target",
    ["/bin", "/sbin/", "/lib", "/lib64", "/usr", "/usr/bin", "/usr//lib/x", "/usr/local", "/usr/local/bin", "/var",
     "/var/run/x", "/boot", "/usr/libexec/x", "/usr/sbin", "/lib/x86_64-linux-gnu", "/usr/local/lib/"],
)  # fmt: skip
def test_target_over_the_programs_of_the_image_is_refused(target: str) -> None:
    """A15, F10: odek's own commands in the sandbox are made of them."""
    with pytest.raises(GrammarError, match="the system of the sandbox is there"):
        parse_volume(f"x:{target}", ORIGIN)


@pytest.mark.parametrize("source", ["~", "~/x", "~user/x", "$HOME", "$HOME/x", "${HOME}/x", "$x"])
def test_source_that_would_have_to_be_expanded_is_refused(source: str) -> None:
    """A15: it would make a folder called "~"."""
    with pytest.raises(GrammarError, match='"~" and "\\$" stand for nothing'):
        parse_volume(f"{source}:/mnt", ORIGIN)


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
