"""From a reference to the ID that is run."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from fakes.docker import FakeDocker
from fakes.notices import texts_to

from odek.errors import Interrupted
from odek.sandbox.build.builder import obtain_bases
from odek.sandbox.docker import find_image_argv
from odek.sandbox.errors import ImageUnavailable, SandboxConfigError, SandboxLost
from odek.sandbox.image.reference import ImageChoice
from odek.sandbox.image.resolve import PULL_TIMEOUT_S, explain_processor, find_image, find_or_pull

HEX = "0123456789abcdef" * 4
IMAGE_ID = f"sha256:{HEX}"
CHOICE = ImageChoice(ref="alpine:3.22", origin="--sandbox-image", chosen_by_project=False)
CONNECT = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n"
MISSING = "Error response from daemon: No such image: alpine:3.22\n"


def obtain(docker: FakeDocker, choice: ImageChoice = CHOICE) -> tuple[str, list[str]]:
    notes: list[str] = []
    return find_or_pull(choice, docker, emit=texts_to(notes), clock=docker.now).id, notes


@pytest.mark.parametrize("words", [f"{IMAGE_ID}\n", f"{HEX}\n", IMAGE_ID, f"What's next:\n{IMAGE_ID}\n"])
def test_local_image_is_found_and_nothing_is_pulled(words: str) -> None:
    """R-35, D-13: podman prints the ID without its prefix."""
    docker = FakeDocker().on("image", "inspect", stdout=words, stderr="WARNING: no swap limit support\n")
    assert obtain(docker) == (IMAGE_ID, [])
    assert [one.args for one in docker.calls] == [find_image_argv("alpine:3.22")]
    docker.assert_no_client_left()


@pytest.mark.parametrize(
    "words", ["", "\n", "sha256:abc\n", f"{IMAGE_ID}\nhint\n", "<no value>\n", f"{IMAGE_ID.upper()}\n"]
)
def test_answer_that_is_no_full_id_is_no_image(words: str) -> None:
    """D-12: what is run is a full ID or nothing."""
    with pytest.raises(SandboxConfigError, match="does not say whether"):
        find_image("alpine:3.22", FakeDocker().on("image", "inspect", stdout=words))


def test_id_on_stdout_of_a_failed_inspect_is_no_image() -> None:
    docker = FakeDocker().on("image", "inspect", code=1, stdout=IMAGE_ID, stderr=MISSING)
    assert find_image("alpine:3.22", docker) == ""


@pytest.mark.parametrize(
    "words",
    [
        MISSING,
        "Error: No such image: alpine:3.22\n",
        "Error: no such object: alpine:3.22\n",
        "Error: inspecting object: alpine:3.22: image not known\n",
        "Error response from daemon: image with reference alpine:3.22 was found but does not provide the specified "
        "platform (linux/arm64)\n",
    ],
)
@pytest.mark.parametrize("code", [1, 125])
def test_image_that_docker_says_is_not_there(words: str, code: int) -> None:
    """R-35: in the words of Docker's clients and engines, and of podman."""
    assert find_image("alpine:3.22", FakeDocker().on("image", "inspect", code=code, stdout="\n", stderr=words)) == ""


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (1, ""),
        (1, CONNECT),
        (1, "error during connect: Get http://docker/v1.41/images/x/json: EOF\n"),
        (1, "Error response from daemon: open /var/lib/docker/image/overlay2/repositories.json: input/output error\n"),
        (2, MISSING),
        (126, MISSING),
        (127, "docker: not found\n"),
        (-9, ""),
        (-9, MISSING),
    ],
)
def test_lookup_that_fails_otherwise_is_not_a_missing_image(code: int, words: str) -> None:
    """D-11, D-25: nothing is pulled, since a pull that failed would lead to the host, with the image lying here."""
    docker = FakeDocker().on("image", "inspect", code=code, stderr=words)
    with pytest.raises(SandboxConfigError, match=r'^Docker does not say whether it has the image "alpine:3\.22"'):
        obtain(docker)


@pytest.mark.parametrize(
    ("ref", "asked"),
    [
        ("cafe", "cafe:latest"),
        ("5f8fa5", "5f8fa5:latest"),
        ("cafe:1", "cafe:1"),
        ("caffe/x", "caffe/x"),
        ("gcc", "gcc"),
    ],
)
def test_name_of_hex_digits_is_not_looked_up_as_an_id(ref: str, asked: str) -> None:
    """D-12: Docker would take it for the beginning of an image ID."""
    docker = FakeDocker().on("image", "inspect", code=1, stderr=MISSING)
    find_image(ref, docker)
    assert docker.calls[0].args[-1] == asked


def test_missing_image_is_pulled_with_a_note_and_looked_up_again() -> None:
    """R-35."""
    docker = (
        FakeDocker()
        .on("image", "inspect", code=1, stdout="\n", stderr=MISSING, times=1)
        .on("pull", "--", "alpine:3.22", stdout="3.22: Pulling from library/alpine\n")
        .on("image", "inspect", stdout=IMAGE_ID)
    )
    assert obtain(docker) == (IMAGE_ID, ["pulling image alpine:3.22"])
    docker.assert_all_used()
    docker.assert_no_client_left()


@pytest.mark.parametrize(
    "words",
    [
        "toomanyrequests: You have reached your unauthenticated pull rate limit.",
        "pull access denied for x, repository does not exist or may require 'docker login'",
        "manifest for alpine:9.99 not found: manifest unknown: manifest unknown",
        "no matching manifest for linux/arm64/v8 in the manifest list entries",
        "net/http: TLS handshake timeout",
        "unauthorized: authentication required",
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
    ],
)
def test_failed_pull_repeats_what_the_registry_says(words: str) -> None:
    """B24, D-11: the words are shown and not read."""
    docker = (
        FakeDocker()
        .on("image", "inspect", code=1, stderr=MISSING)
        .on("pull", code=1, stderr=f"Error response from daemon: {words}\n")
        .on("version", stdout="28.2.2\n")
    )
    with pytest.raises(
        ImageUnavailable, match=r'^image "alpine:3.22" could not be pulled by Docker \(--sandbox-image\)$'
    ) as refused:
        obtain(docker)
    assert refused.value.detail == f"Error response from daemon: {words}"
    assert len(docker.called("pull")) == 1


@pytest.mark.parametrize(
    "words",
    [
        "invalid reference format",
        "invalid reference format: repository name must be lowercase",
        "Error response from daemon: 'scratch' is a reserved name",
        "invalid repository name (x), cannot specify 64-byte hexadecimal strings",
        "write /var/lib/docker/tmp/x: no space left on device",
        "failed to register layer: Error processing tar file(exit status 1): operation not permitted",
        "filesystem layer verification failed for digest sha256:0",
        "mkdir /var/lib/docker/overlay2/x: read-only file system",
    ],
)
def test_pull_that_fails_here_and_not_at_the_registry_never_leads_to_the_host(words: str) -> None:
    """A1, D-25: a reference that Docker calls invalid, and an image that came and could not be kept."""
    docker = (
        FakeDocker()
        .on("image", "inspect", code=1, stderr=MISSING)
        .on("pull", code=1, stderr=words)
        .on("version", stdout="28.2.2\n")
    )
    with pytest.raises(SandboxConfigError, match="could not take in the image") as refused:
        obtain(docker)
    assert words in refused.value.detail


@pytest.mark.parametrize(("code", "stdout"), [(1, ""), (0, ""), (0, " \n")])
def test_failed_pull_is_the_loss_of_the_daemon_when_it_no_longer_answers(code: int, stdout: str) -> None:
    """D-11: which is never read as "no daemon"."""
    docker = (
        FakeDocker()
        .on("image", "inspect", code=1, stderr=MISSING)
        .on("pull", code=1)
        .on("version", code=code, stdout=stdout)
    )
    with pytest.raises(SandboxLost, match="went away while an image was pulled"):
        obtain(docker)


@pytest.mark.parametrize(("code", "how"), [(-9, "signal 9"), (2, "exit status 2"), (127, "exit status 127")])
def test_pull_that_the_client_did_not_finish_never_leads_to_the_host(code: int, how: str) -> None:
    """R-7, S-1: it says nothing of the image."""
    docker = FakeDocker().on("image", "inspect", code=1, stderr=MISSING).on("pull", code=code)
    with pytest.raises(SandboxConfigError, match=rf'ended before it had pulled "alpine:3\.22" \({how}\)'):
        find_or_pull(CHOICE, docker, emit=print)


@pytest.mark.parametrize(
    "words",
    [
        CONNECT,
        "3.22: Pulling from library/alpine\nunexpected EOF\n",
        "error during connect: Post http://docker/v1.41/images/create: read unix @->/run/docker.sock: EOF\n",
        "failed to connect to the docker API at unix:///var/run/docker.sock\n",
        "permission denied while trying to connect to the docker API at unix:///var/run/docker.sock\n",
    ],
)
def test_pull_during_which_the_daemon_was_restarted_never_leads_to_the_host(words: str) -> None:
    """D-11, S-1: it answers again when it is asked afterwards, and no registry has refused anything."""
    docker = FakeDocker().on("image", "inspect", code=1, stderr=MISSING).on("pull", code=1, stderr=words)
    with pytest.raises(SandboxLost, match="the Docker daemon went away while an image was pulled"):
        find_or_pull(CHOICE, docker, emit=print)


@pytest.mark.parametrize(
    ("local_ids", "words"),
    [
        ((), "check its name; without a registry, carry it here: `odek sandbox image save FILE --image NAME`"),
        (
            (("", f"sha256:{'1' * 64}"),),
            "`odek sandbox image bootstrap` makes a small one; sandbox_image names another",
        ),
    ],
)
def test_failed_pull_says_how_an_image_comes_to_a_machine_without_a_registry(
    local_ids: tuple[tuple[str, str], ...], words: str
) -> None:
    """D-12: on a machine that never reaches one, "try again" is no help."""
    docker = (
        FakeDocker().on("image", "inspect", code=1, stderr=MISSING).on("pull", code=1).on("version", stdout="amd64\n")
    )
    with pytest.raises(ImageUnavailable) as refused:
        find_or_pull(replace(CHOICE, local_ids=local_ids), docker, emit=lambda _: None)
    assert words in refused.value.hint
    assert "`odek sandbox image load FILE --id ID`" in refused.value.hint


def test_pull_that_never_ends_is_given_up_with_news_in_between() -> None:
    """B23."""
    docker = (
        FakeDocker()
        .on("image", "inspect", code=1, stderr=MISSING)
        .on("pull", hang=True, stdout="a: Waiting\nb: Down\x1b[2Jloading\n")
        .on("version", stdout="1\n")
    )
    notes: list[str] = []
    start = docker.now()
    with pytest.raises(ImageUnavailable, match="could not be pulled within 15 minutes"):
        find_or_pull(CHOICE, docker, emit=texts_to(notes), clock=docker.now)
    assert docker.now() - start < PULL_TIMEOUT_S + 30
    assert notes[:2] == ["pulling image alpine:3.22", "pulling image alpine:3.22: 5 s, b: Down\\x1b[2Jloading"]
    docker.assert_no_client_left()


def test_interrupted_pull_ends_its_client() -> None:
    """R-38, B08."""
    docker = (
        FakeDocker().on("image", "inspect", code=1, stderr=MISSING).on("pull", hang=True, raises_in_pump=Interrupted(2))
    )
    with pytest.raises(Interrupted):
        obtain(docker)
    docker.assert_no_client_left()


def test_pulled_image_that_is_not_there_stops_the_run() -> None:
    docker = FakeDocker().on("image", "inspect", code=1, stderr=MISSING).on("pull")
    with pytest.raises(SandboxConfigError, match=r"pulled .* but does not find it"):
        obtain(docker)


def test_image_id_is_never_pulled() -> None:
    """A1, D-12, D-25: nor does it lead to the host, since no registry could give it."""
    docker = FakeDocker().on("image", "inspect", code=1, stderr=MISSING)
    for by_project in (True, False):
        with pytest.raises(SandboxConfigError, match="no local image has the ID"):
            obtain(docker, ImageChoice(ref=IMAGE_ID, origin="x", chosen_by_project=by_project))
    assert docker.called("pull") == []


def test_daemon_that_hangs_at_the_lookup_is_lost_and_nothing_is_pulled() -> None:
    """B23, D-11: no answer is not "no such image"."""
    docker = FakeDocker().on("image", "inspect", hang=True)
    with pytest.raises(SandboxLost, match="the Docker daemon stopped answering"):
        obtain(docker)
    assert docker.called("pull") == []


@pytest.mark.parametrize(
    ("image", "machine", "hint"),
    [
        ("arm/v7", "amd64", 'the image "a:1" is for arm/v7, Docker\'s machine has amd64; choose one for it'),
        ("arm64", "", 'the image "a:1" is for arm64, Docker\'s machine has another one; choose one for it'),
        ("", "amd64", "the image is for another processor; choose one for that of Docker's machine (amd64)"),
        ("", "", "the image is for another processor; choose one for that of Docker's machine"),
        (
            "amd64",
            "amd64",
            '"a:1" says amd64, which Docker\'s machine (amd64) can run, but a program in it is for another processor; '
            "get or build the image again",
        ),
    ],
)
def test_processors_are_named_as_far_as_docker_tells(image: str, machine: str, hint: str) -> None:
    """E14."""
    architecture, _, variant = image.partition("/")
    described = [{"Id": IMAGE_ID, "Architecture": architecture, "Variant": variant, "Config": None}] if image else []
    docker = FakeDocker().on("version", stdout=f"{machine}\n").on("image", "inspect", stdout=json.dumps(described))
    assert explain_processor((("a:1", IMAGE_ID),), docker) == hint


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (
            "no matching manifest for linux/arm64/v8 in the manifest list entries",
            "not for linux/arm64/v8, the platform",
        ),
        (
            "no matching manifest for linux/386 in the manifest list entries: not found",
            "not for linux/386, the platform",
        ),
        ("no matching manifest for unknown in the manifest list entries", "not for unknown, the platform"),
        (
            "failed to resolve reference: no match for platform in manifest: not found",
            "not for the processor of Docker's",
        ),
        (
            'no image found in image index for architecture "arm64", variant "", OS "linux"',
            "not for arm64, the platform",
        ),
        ('image operating system "windows" cannot be used on this platform', "one for windows; choose one for Linux"),
        ("does not provide the specified platform (linux/s390x)", "not for linux/s390x, the platform"),
        ("no matching manifest for \x1b[2Jx in the manifest", "not for \\x1b[2Jx, the platform"),
    ],
)
def test_image_for_other_machines_only_says_so(words: str, named: str) -> None:
    """E14: also for the base of a build; it is still an image that no registry gives."""
    docker = FakeDocker().on("image", "inspect", code=1, stderr=MISSING).on("version", stdout="29\n")
    docker.on("pull", code=1, stderr=f"Error response from daemon: {words}\n")
    with pytest.raises(ImageUnavailable) as refused:
        obtain(docker)
    assert named in refused.value.hint
    with pytest.raises(SandboxConfigError) as of_base:
        obtain_bases(("alpine:3.22",), docker, network=False, emit=print)
    assert named in of_base.value.hint
