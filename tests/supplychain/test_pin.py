"""The pinned default image: one place, strictly read, kept fresh (R-35, D-12)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.load_module import load_script

from odek.app.sandbox_image import default_choice, default_image
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.image.reference import parse_default_digests

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "odek" / "sandbox"
PIN = re.compile(r"[a-z0-9./-]+:[A-Za-z0-9_.-]+@sha256:[0-9a-f]{64}")
INDEX, CONFIG, MANIFEST = (f"sha256:{digit * 64}" for digit in "123")
PINNED = f"alpine:3.22@{INDEX}"


def test_default_is_pinned_by_tag_and_digest() -> None:
    """R-35: name, tag and digest, from the packaged file."""
    lines = [line for line in (FOLDER / "default.Dockerfile").read_text().splitlines() if not line.startswith("#")]
    assert lines == [f"FROM {default_image()}"]
    assert PIN.fullmatch(default_image())


def test_digest_stands_nowhere_else() -> None:
    """R-35: code that repeats the pin would keep the old one."""
    digest = default_image().rpartition(":")[2]
    allowed = {FOLDER / "default.Dockerfile", FOLDER / "default.digests.json"}
    folders = [ROOT / name for name in ("odek", "build", "scripts")]
    paths = [path for folder in folders for path in folder.rglob("*")]
    files = [path for path in paths if path.is_file() and "__pycache__" not in path.parts]
    assert [path for path in files if path not in allowed and digest.encode() in path.read_bytes()] == []


def test_dependabot_watches_the_folder_of_the_pin_and_no_other() -> None:
    """R-35: docker ecosystem, that folder only."""
    text = (ROOT / ".github" / "dependabot.yml").read_text()
    watched = re.findall(r"^  - package-ecosystem: (\S+)\n    director(?:y|ies): (.+)$", text, re.MULTILINE)
    assert watched == [
        ("docker", "/odek/sandbox"),
        ("github-actions", '["/", "/.github/actions/*"]'),
        ("pip", "/build"),
    ]
    assert text.count("package-ecosystem") == len(watched)
    # it takes every file there whose name holds "dockerfile" for one, and each "from" in it for an image
    assert [path.name for path in FOLDER.iterdir() if "dockerfile" in path.name.lower()] == ["default.Dockerfile"]


def test_shipped_ids_belong_to_the_pin() -> None:
    """D-12: fails after the pin moved, until scripts/update-default-image ran."""
    ids = parse_default_digests((FOLDER / "default.digests.json").read_bytes(), pin=default_image())
    assert ids[0] == ("", default_image().rpartition("@")[2])
    assert default_choice().local_ids == ids


def test_ids_are_read_by_processor() -> None:
    """D-12: of arm, every variant counts; the index counts everywhere."""
    digests = {"config": CONFIG, "manifest": MANIFEST}
    data = json.dumps({"index": INDEX, "architectures": {"arm/v7": digests, "amd64": digests}})
    assert parse_default_digests(data.encode(), pin=PINNED) == (
        ("", INDEX), ("amd64", CONFIG), ("amd64", MANIFEST), ("arm", CONFIG), ("arm", MANIFEST),
    )  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "\ufeff{}",
        f'{{"index": "{INDEX}"}}',
        f'{{"index": "{CONFIG}", "architectures": {{}}}}',
        f'{{"index": "{INDEX}", "architectures": [], "more": 1}}',
        f'{{"index": "{INDEX}", "architectures": []}}',
        f'{{"index": "{INDEX}", "index": "{INDEX}", "architectures": {{}}}}',
        f'{{"index": "{INDEX}", "architectures": {{"AMD 64": {{}}}}}}',
        f'{{"index": "{INDEX}", "architectures": {{"amd64": {{"config": "{CONFIG}"}}}}}}',
        f'{{"index": "{INDEX}", "architectures": {{"amd64": {{"config": "{CONFIG}", "manifest": "{CONFIG} "}}}}}}',
        f'{{"index": "{INDEX}", "architectures": {{"amd64": {{"config": "{CONFIG[:-1]}G", "manifest": "{CONFIG}"}}}}}}',
        f'{{"index": "{INDEX}", "architectures": {{"amd64": {{"config": 7, "manifest": "{CONFIG}"}}}}}}',
        "[" * 100_000,
    ],
)
def test_anything_unexpected_in_the_ids_is_refused(text: str) -> None:
    """D-12: what is trusted as the default must not be read by guess."""
    with pytest.raises(SandboxConfigError, match=r"default\.digests\.json"):
        parse_default_digests(text.encode(), pin=PINNED)


def test_script_takes_the_linux_images_out_of_dockers_description() -> None:
    """D-12: attestations, which call their platform unknown, are no images."""

    def entry(digest: str, config: str, **platform: str) -> dict[str, object]:
        kind = "OCIManifest" if platform.get("variant") else "SchemaV2Manifest"
        return {"Descriptor": {"digest": digest, "platform": platform}, kind: {"config": {"digest": config}}}

    described = [
        entry(MANIFEST, CONFIG, os="linux", architecture="amd64"),
        entry(MANIFEST, CONFIG, os="linux", architecture="arm64", variant="v8"),
        entry(MANIFEST, CONFIG, os="linux", architecture="arm", variant="v7"),
        entry(MANIFEST, CONFIG, os="unknown", architecture="unknown"),
    ]
    script = load_script("update-default-image")
    content = script.choose_digests(described, index=INDEX)
    digests = {"config": CONFIG, "manifest": MANIFEST}
    assert content == {"index": INDEX, "architectures": {"amd64": digests, "arm64": digests, "arm/v7": digests}}
    assert len(parse_default_digests(script.render(content).encode(), pin=PINNED)) == 7


def test_script_finds_both_files_in_order() -> None:
    assert load_script("update-default-image").main(["--check"]) == 0


DIGESTS = {"config": CONFIG, "manifest": MANIFEST}


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ({"index": INDEX, "architectures": {"amd64": DIGESTS, "arm64": DIGESTS}}, 0),
        ({"index": INDEX, "architectures": {}}, 1),
        ({"index": INDEX, "architectures": {"amd64": DIGESTS}}, 1),
        ({"index": CONFIG, "architectures": {"amd64": DIGESTS, "arm64": DIGESTS}}, 1),
        (None, 1),
    ],
    ids=["filled", "empty", "one", "of another pin", "missing"],
)
def test_a_release_without_digests_is_refused(
    content: object, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """D8: the workflow ends there."""
    (tmp_path / "default.Dockerfile").write_text(f"FROM {PINNED}\n")
    if content is not None:
        (tmp_path / "default.digests.json").write_text(json.dumps(content))
    assert load_script("update-default-image").main(["--filled"], tmp_path) == code
    assert capsys.readouterr().err.startswith("update-default-image: " if code else "")


def test_the_release_fills_the_digests_before_it_builds() -> None:
    """D8: both builds, and the copy that the second one is made from."""
    job = (ROOT / ".github" / "workflows" / "release.yml").read_text().partition("  verify:\n")[0]
    steps = ("scripts/update-default-image\n", "scripts/update-default-image --filled\n", ".github/build-twice\n")
    places = [job.index(step) for step in steps]
    assert places == sorted(places)
    assert "cp odek/sandbox/default.digests.json" in (ROOT / ".github" / "build-twice").read_text()
