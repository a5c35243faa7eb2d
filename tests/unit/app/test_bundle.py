"""What goes into a bundle."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.bundles import ODEK, empty_part, make_bundle

from odek.app.bundle import (
    FoundForBundle,
    SavedImage,
    bundle_sources,
    choose_images,
    find_odek,
    machine_of,
    read_settings,
    settings_in,
    verify_parts,
)
from odek.app.config import config_of
from odek.bundle.file import Source as PartSource
from odek.bundle.file import write_bundle
from odek.bundle.layout import BundleError
from odek.config.layers import Layer, Value
from odek.config.options import Source
from odek.errors import OdekError, UsageError
from odek.sandbox.errors import SandboxConfigError

ZIP = b"#!/bin/sh\n# The head of the one-file odek\n"
ID = f"sha256:{'ab' * 32}"


def elf(machine: int, *, libc: bytes = b"") -> bytes:
    return b"\x7fELF\x02\x01\x01" + bytes(11) + machine.to_bytes(2, "little") + bytes(2 << 20) + b"odek.cli.main" + libc


def image(architecture: str = "amd64") -> FoundForBundle:
    return FoundForBundle(id=ID, name="alpine:3.22", origin="--image", architecture=architecture)


@pytest.fixture
def release(tmp_path: Path) -> Path:
    files = {
        "odek": ZIP,
        "odek-linux-x86_64": elf(62),
        "odek-linux-x86_64-gnu": elf(62, libc=b"gnu"),
        "odek-linux-x86_64-musl": elf(62, libc=b"musl"),
        "odek-linux-aarch64-musl": elf(183),
    }
    sums = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items()]
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "SHA256SUMS").write_text("".join(sums))
    return tmp_path


@pytest.mark.parametrize(
    ("machine", "kind", "from_folder", "name", "for_machine"),
    [
        ("x86_64", "", False, "odek", "any"),
        ("x86_64", "zip", False, "odek", "any"),
        ("x86_64", "musl", False, "odek-linux-x86_64-musl", "x86_64"),
        ("x86_64", "gnu", True, "odek-linux-x86_64-gnu", "x86_64"),
        ("x86_64", "binary", True, "odek-linux-x86_64", "x86_64"),
        ("x86_64", "", True, "odek-linux-x86_64-musl", "x86_64"),
        ("aarch64", "musl", True, "odek-linux-aarch64-musl", "aarch64"),
        ("", "zip", True, "odek", "any"),
    ],
)
def test_odek_is_the_running_one_or_one_of_a_release(
    machine: str, kind: str, from_folder: bool, name: str, for_machine: str, release: Path
) -> None:
    """R-320: for the processor of the image; from a release without a word, the one that needs nothing."""
    running = "/nowhere" if from_folder else str(release / "odek")
    found = find_odek(running, machine, odek="", kind=kind, folder=str(release) if from_folder else "")
    assert (found.path, found.name, found.machine) == (str(release / name), name, for_machine)


def test_odek_that_is_not_what_its_sums_say_is_refused(release: Path) -> None:
    """R-320: of a release always, elsewhere where there are sums that name it."""
    musl = release / "odek-linux-x86_64-musl"
    musl.write_bytes(elf(62, libc=b"evil"))
    for odek, kind, folder in (("", "musl", str(release)), (str(musl), "", ""), ("", "musl", "")):
        with pytest.raises(BundleError, match="is not what SHA256SUMS"):
            find_odek(str(release / "odek"), "x86_64", odek=odek, kind=kind, folder=folder)
    (release / "SHA256SUMS").write_text("")
    with pytest.raises(BundleError, match="is not what SHA256SUMS"):
        find_odek("", "x86_64", odek="", kind="musl", folder=str(release))
    (release / "SHA256SUMS").unlink()
    assert find_odek("", "x86_64", odek=str(musl), kind="", folder="").machine == "x86_64"
    with pytest.raises(BundleError, match="there is no"):
        find_odek("", "x86_64", odek="", kind="musl", folder=str(release))


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\necho\n", elf(62)[:-13], elf(40), b"MZ"])
def test_other_program_is_not_taken_for_odek(content: bytes, tmp_path: Path) -> None:
    """R-320"""
    (tmp_path / "odek").write_bytes(content)
    with pytest.raises(BundleError, match="is not an odek for Linux"):
        find_odek("", "x86_64", odek=str(tmp_path / "odek"), kind="", folder="")


@pytest.mark.parametrize(
    ("running", "machine", "odek", "kind", "folder", "error"),
    [
        ("", "x86_64", "", "", "", UsageError),
        ("/o", "x86_64", "/o", "musl", "", UsageError),
        ("/o", "x86_64", "/o", "", "/r", UsageError),
        ("/o", "", "", "musl", "", BundleError),
        ("/nowhere/odek", "x86_64", "", "", "", BundleError),
    ],
)
def test_odek_that_cannot_be_chosen(
    running: str, machine: str, odek: str, kind: str, folder: str, error: type[OdekError]
) -> None:
    """R-320: from source there is no file to take; two answers to one question are none."""
    with pytest.raises(error):
        find_odek(running, machine, odek=odek, kind=kind, folder=folder)


def test_images_are_those_named_or_that_of_the_settings_or_the_default() -> None:
    """R-320"""
    plain = config_of(()).settings
    layer = Layer(source=Source.GLOBAL, origin="f", values={"sandbox_image": Value(value="node:22", origin="f")})
    with_image = config_of((layer,)).settings
    assert [choice.ref for choice in choose_images(("a:1", "b", "a:1"), with_image)] == ["a:1", "b"]
    assert [choice.ref for choice in choose_images((), with_image)] == ["node:22"]
    (default,) = choose_images((), plain)
    assert default.origin == "the pinned default"
    assert default.substitute


def test_images_for_several_processors_do_not_fit_one_bundle() -> None:
    """R-320"""
    assert machine_of((image(), image())) == ("amd64", "x86_64")
    assert machine_of((image("arm64/v8"),)) == ("arm64/v8", "aarch64")
    assert machine_of((image("riscv64"),)) == ("riscv64", "")
    with pytest.raises(SandboxConfigError, match="amd64 and arm64"):
        machine_of((image(), image("arm64")))


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"modell": "m"}, 'unknown key "modell"'),
        ({"model": 3}, "model"),
        ({"sandbox_imag": "x"}, "sandbox_imag"),
        ({"api_key": "k-of-mine"}, "a secret would travel.*api_key"),
        ({"model": "sk-proj-" + "a1B2" * 12}, "a secret would travel"),
        (
            {"mcp_servers": {"a": {"command": "x", "env": {"GITHUB_TOKEN": "abcdefgh"}}}},
            "a secret would travel.*mcp_servers.a.env.GITHUB_TOKEN",
        ),
    ],
)
def test_settings_are_checked_where_they_are_packed(document: object, words: str, tmp_path: Path) -> None:
    """R-320: what odek would refuse or only warn of, and secrets, which everybody with the bundle could read."""
    path = tmp_path / "c.json"
    path.write_text(json.dumps(document))
    with pytest.raises(OdekError, match=words):
        read_settings(str(path), {})


def test_settings_get_the_image_and_may_refer_to_a_key(tmp_path: Path) -> None:
    """R-320: that need not be set here; a variable's name is not a secret."""
    path = tmp_path / "c.json"
    providers = {"work": {"base_url": "http://10.0.0.1/v1", "api_key_variable": "WORK_KEY"}}
    path.write_text(json.dumps({"api_key": "${MY_KEY}", "sandbox_image": "node:22", "providers": providers}))
    data, settings = read_settings(str(path), {})
    assert settings.sandbox.image == "node:22"
    (zip_file,) = (tmp_path / "odek",)
    zip_file.write_bytes(ZIP)
    odek = find_odek(str(zip_file), "x86_64", odek="", kind="", folder="")
    saved = SavedImage(path="/saved", id=ID, ids=(ID,), tag="alpine:3.22")
    sources = bundle_sources(odek, (saved, saved), data)
    kinds = ["installer", "odek", "settings", "image", "image"]
    assert [source.part.kind for source in sources] == kinds
    assert json.loads(sources[2].data) == {**json.loads(path.read_text()), "sandbox_image": ID}
    assert b"RELEASES=" in sources[0].data
    assert [source.part.name for source in sources[3:]] == ["image-1.tar.gz", "image-2.tar.gz"]


def test_verify_knows_the_installer_and_reads_the_settings(tmp_path: Path) -> None:
    """R-323: of a bundle whose script is right, another installer is refused; settings that are none are not read."""
    path = tmp_path / "b.sh"
    bundle = make_bundle(path, settings=b'{"sandbox": false}', images=0)
    verify_parts(str(path), bundle)
    assert settings_in(str(path), bundle) == '{"sandbox": false}'
    for part, data, check, words in (
        (empty_part("installer", "install.sh"), b"#!/bin/sh\n", verify_parts, "not the one that this odek brings"),
        (empty_part("settings", "config.json"), b" " * 2_000_000, settings_in, "larger than settings are"),
    ):
        other = tmp_path / f"{part.kind}.sh"
        sources = (PartSource(part=empty_part("odek", "odek"), data=ODEK), PartSource(part=part, data=data))
        made = write_bundle(str(other), replace(bundle.contents, parts=()), sources)
        with pytest.raises(BundleError, match=words):
            check(str(other), made)  # type: ignore[operator]
