"""One update with a scripted server and a scripted new odek (R-342, R-346, R-347)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from support.release_server import sums

from odek.errors import ExecutableMissing, Interrupted
from odek.process import Completed, Output
from odek.update.extras import places_of, refresh
from odek.update.release import UpdateError, parse_version
from odek.update.update import Built, Update, carry_out, choose_base, find_newest, is_wanted, read_built

OLD, NEW = b"the old one", b"the new one"
BASE = "https://host.example/releases"


def completed(argv: tuple[str, ...], stdout: str, *, code: int = 0, stderr: str = "", late: bool = False) -> Completed:
    def output(text: str) -> Output:
        return Output(head=text.encode(), tail=b"", size_bytes=len(text))

    return Completed(argv=argv, code=code, stdout=output(stdout), stderr=output(stderr), timed_out=late)


class Server:
    """A Fetch that knows some addresses and fails on others."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def __call__(self, address: str, limit_bytes: int, sink: Callable[[bytes, int | None], None]) -> None:
        content = self._files[address]
        assert len(content) <= limit_bytes
        for at in range(0, len(content), 4):
            sink(content[at : at + 4], len(content))


class NewOdek:
    """A Run of the file that was downloaded; it must be whole by then."""

    def __init__(self, said: str = "odek 1.2.3\n", *, code: int = 0, stderr: str = "", late: bool = False) -> None:
        self._said, self._code, self._stderr, self._late = said, code, stderr, late
        self.ran: list[tuple[str, ...]] = []

    def __call__(self, argv: tuple[str, ...]) -> Completed:
        self.ran.append(argv[1:])
        assert Path(argv[0]).read_bytes() == NEW
        assert os.access(argv[0], os.X_OK)
        return completed(argv, self._said, code=self._code, stderr=self._stderr, late=self._late)


def server(content: bytes = NEW, listed: bytes = NEW, name: str = "odek") -> Server:
    place = f"{BASE}/download/v1.2.3"
    return Server({f"{place}/SHA256SUMS": sums({name: listed, "other": b""}), f"{place}/{name}": content})


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "odek"
    path.write_bytes(OLD)
    path.chmod(0o755)
    return path


def update(target: Path, name: str = "odek") -> Update:
    return Update(base=BASE, version="1.2.3", name=name, target=str(target))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", ["odek", "odek-linux-x86_64-gnu", "odek-linux-aarch64-musl", "odek-linux-x86_64"])
def test_the_same_kind_of_file_is_put_in_place(name: str, target: Path) -> None:
    """R-346: by the name that its build gave it; it ran once, after it was compared."""
    run, seen = NewOdek(), []
    assert carry_out(update(target, name), server(name=name), run, lambda *progress: seen.append(progress))
    assert (target.read_bytes(), run.ran, names(target.parent)) == (NEW, [("version",)], ["odek"])
    assert seen == [(4, 11), (8, 11), (11, 11)]


def test_what_is_there_already_is_not_downloaded_again(target: Path) -> None:
    """R-342: as the installer, by its hash."""
    target.write_bytes(NEW)
    fetch = Server({f"{BASE}/download/v1.2.3/SHA256SUMS": sums({"odek": NEW})})
    run = NewOdek()
    assert not carry_out(update(target), fetch, run, lambda *_: None)
    assert run.ran == []


@pytest.mark.parametrize("content", [NEW + b"#", NEW[:-1], b"", OLD])
def test_what_has_another_hash_never_runs(content: bytes, target: Path) -> None:
    """R-342: nor is it left anywhere."""
    run = NewOdek()
    with pytest.raises(UpdateError, match=f"SHA-256 {hashlib.sha256(content).hexdigest()} instead of"):
        carry_out(update(target), server(content), run, lambda *_: None)
    assert (run.ran, target.read_bytes(), names(target.parent)) == ([], OLD, ["odek"])


def test_a_release_without_this_kind_of_file_is_named(target: Path) -> None:
    """R-342: nothing else of it is taken."""
    with pytest.raises(UpdateError, match="SHA256SUMS does not name odek-linux-riscv64"):
        carry_out(update(target, "odek-linux-riscv64"), server(), NewOdek(), lambda *_: None)


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (NewOdek(code=127, stderr="odek: error: no Python 3.12\nmore\n"), "does not run here: odek: error: no Python"),
        (NewOdek(code=-11), "does not run here: it ended with -11"),
        (NewOdek(late=True), "does not run here"),
        (NewOdek("odek 1.2.2\n"), 'says "odek 1.2.2" of itself'),
        (NewOdek("1.2.3\n"), 'says "1.2.3" of itself'),
        (NewOdek(""), 'says "" of itself'),
        (NewOdek("odek \x1b[31m\n"), r"x1b"),
    ],
)
def test_what_does_not_run_here_or_is_another_version_is_not_put_in_place(
    run: NewOdek, reason: str, target: Path
) -> None:
    """R-342: a server that hands out an old release with its own right sums is noticed."""
    with pytest.raises(UpdateError) as caught:
        carry_out(update(target), server(), run, lambda *_: None)
    assert reason in caught.value.message
    assert (target.read_bytes(), names(target.parent)) == (OLD, ["odek"])


@pytest.mark.parametrize("moment", ["download", "run"])
def test_a_signal_leaves_nothing(moment: str, target: Path) -> None:
    """R-343: Ctrl-C while it downloads, or while the new one is tried."""

    def stop(*_: object) -> Completed:
        raise Interrupted(2)

    run: Callable[[tuple[str, ...]], Completed] = stop if moment == "run" else NewOdek()
    on_progress = stop if moment == "download" else lambda *_: None
    with pytest.raises(Interrupted):
        carry_out(update(target), server(), run, on_progress)  # type: ignore[arg-type]
    assert (target.read_bytes(), names(target.parent)) == (OLD, ["odek"])


def test_a_place_where_nothing_may_run_is_an_error(target: Path) -> None:
    def refuse(argv: tuple[str, ...]) -> Completed:
        raise ExecutableMissing(f"cannot run {argv[0]}: Permission denied")

    with pytest.raises(UpdateError, match=r"does not run here: cannot run .*: Permission denied"):
        carry_out(update(target), server(), refuse, lambda *_: None)
    assert names(target.parent) == ["odek"]


@pytest.mark.parametrize(
    ("newest", "current", "wanted"),
    [
        ("1.2.3", "1.2.2", True),
        ("1.2.3", "1.2.3-rc1", True),
        ("1.2.3", "1.2.3", False),
        ("1.2.2", "1.2.3", False),
        ("1.3.0-rc1", "1.2.3", False),
        ("1.3.0-rc2", "1.3.0-rc1", False),
    ],
)
def test_what_is_offered_unasked_is_newer_and_no_prerelease(newest: str, current: str, wanted: bool) -> None:
    """R-347."""
    new, old = parse_version(newest), parse_version(current)
    assert new is not None
    assert old is not None
    assert is_wanted(new, old) == wanted
    fetch = Server({f"{BASE}/latest/download/release.json": json.dumps({"version": newest}).encode()})
    assert find_newest(BASE, fetch) == new


def test_where_releases_are() -> None:
    """R-340: the flag, the variable of the installer, what the build has written."""
    built = Built(file="odek", releases="https://built.example/r")
    assert choose_base("https://flag.example/r/", "https://variable.example", built) == "https://flag.example/r"
    assert choose_base("", "https://variable.example/r", built) == "https://variable.example/r"
    assert choose_base("", "", built) == "https://built.example/r"
    for wrong in ("http://host.example/r", "https://host.example/r?x=1", "https://host.example/r#x", "host.example"):
        with pytest.raises(UpdateError):
            choose_base(wrong, "", built)
    with pytest.raises(UpdateError, match="not built for one"):
        choose_base("", "", Built())


def test_what_the_build_has_written_is_read() -> None:
    """R-340: nothing of it in a checkout."""
    said = b'{"file": "odek-linux-x86_64-musl", "releases": "https://host.example/r"}'
    assert read_built(lambda *_: said) == Built(file="odek-linux-x86_64-musl", releases="https://host.example/r")

    def missing(*_: str) -> bytes:
        raise FileNotFoundError

    assert read_built(missing) == Built()


# --- manual page and completions

MAN, FISH = b".TH ODEK 1\nold\n", b"# fish completion for odek; put it somewhere\nold\n"


def printed(arguments: tuple[str, ...]) -> bytes | None:
    if arguments == ("man", "--roff"):
        return b".TH ODEK 1\nnew\n"
    return f"# {arguments[1]} completion for odek; put it somewhere\nnew\n".encode()


def test_manual_page_and_completions_that_the_installer_wrote_are_written_again(tmp_path: Path) -> None:
    """R-346: what is there and odek's own, in both places; nothing new, nothing of others, through no link."""
    target, home = tmp_path / "opt" / "bin" / "odek", tmp_path / "home"
    man, fish = tmp_path / "opt/share/man/man1/odek.1", home / ".config/fish/completions/odek.fish"
    own, linked = home / ".local/share/man/man1/odek.1", home / ".local/share/bash-completion/completions/odek"
    for path, content in ((man, MAN), (fish, FISH), (own, b"my own page\n"), (tmp_path / "dotfile", FISH)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    linked.parent.mkdir(parents=True)
    linked.symlink_to(tmp_path / "dotfile")
    said = list(refresh(str(target), str(home), {}, printed))
    assert said == [f"wrote {man}", f"wrote {fish}"]
    assert (man.read_bytes(), fish.read_bytes()) == (b".TH ODEK 1\nnew\n", printed(("completion", "fish")))
    assert (own.read_bytes(), (tmp_path / "dotfile").read_bytes()) == (b"my own page\n", FISH)
    files = [path for folder in (home, tmp_path / "opt") for path in folder.rglob("*") if not path.is_dir()]
    assert sorted(files) == sorted([man, fish, own, linked])
    assert list(refresh(str(target), str(home), {}, printed)) == []


@pytest.mark.parametrize("output", [None, b"", b"<html>\n"])
def test_extras_stay_when_the_new_odek_prints_no_such_thing(output: bytes | None, tmp_path: Path) -> None:
    page = tmp_path / "share/man/man1/odek.1"
    page.parent.mkdir(parents=True)
    page.write_bytes(MAN)
    assert list(refresh(str(tmp_path / "bin/odek"), "", {}, lambda _: output)) == []
    assert page.read_bytes() == MAN


def test_places_are_those_of_the_installer() -> None:
    """R-346: as tests/install has them."""
    env = {"XDG_DATA_HOME": "/data", "XDG_CONFIG_HOME": "relative"}
    found = [path for path, _ in places_of("/opt/bin/odek", "/home/me", env)]
    shared = ("man/man1/odek.1", "bash-completion/completions/odek", "zsh/site-functions/_odek")
    assert found == [
        *(f"/opt/share/{name}" for name in shared), "/opt/share/fish/vendor_completions.d/odek.fish",
        *(f"/data/{name}" for name in shared), "/home/me/.config/fish/completions/odek.fish",
    ]  # fmt: skip
    usual = [path for path, _ in places_of("/home/me/.local/bin/odek", "/home/me", {})]
    assert len(usual) == len(set(usual)) == 5
