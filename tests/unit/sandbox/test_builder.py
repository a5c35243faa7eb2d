"""Building an image, by a scripted docker: what it is told, and what it takes to believe it."""

from __future__ import annotations

import json
import tempfile

import pytest
from fakes.docker import FakeDocker, FakePending
from fakes.notices import texts_to

from odek.errors import Interrupted
from odek.sandbox.argv import build_argv
from odek.sandbox.build.builder import (
    LABEL,
    Build,
    BuildOptions,
    build_image,
    describe_staleness,
    find_changed_bases,
    is_ours,
    obtain_bases,
)
from odek.sandbox.build.dockerfile import Dockerfile
from odek.sandbox.errors import SandboxConfigError, SandboxLost

MISSING = "Error response from daemon: No such image\n"

DOCKERFILE = Dockerfile(data=b"FROM a\nRUN true\n")
ID, OTHER = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
OFFLINE = BuildOptions(network=False)


def inspected(image_id: str, labels: dict[str, str] | None = None, triggers: list[str] | None = None) -> str:
    return json.dumps([{"Id": image_id, "Config": {"Labels": labels, "OnBuild": triggers}}])


OURS = inspected(ID, {LABEL: DOCKERFILE.sha256})


def writes_id(text: str) -> object:
    """Return a reaction of the client that leaves `text` in the file it was told to write."""

    def react(client: FakePending) -> None:
        path = client.args[client.args.index("--iidfile") + 1]
        with open(path, "w", encoding="ascii") as file:
            file.write(text)

    return react


def run_build(docker: FakeDocker, options: BuildOptions = OFFLINE) -> tuple[str, list[str]]:
    notes: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        image = build_image(
            DOCKERFILE, "/w", docker, options, id_file=f"{folder}/id", emit=texts_to(notes), now=docker.now
        )
    return image.id, notes


def test_command_line_of_a_build_without_network() -> None:
    """R-36: no network for RUN, nothing pulled anew, no proxies with their passwords, context last."""
    argv = build_argv("/w", tag="t:1", labels=(("l", "v"),), id_file="/i", network=False, no_cache=False)
    proxies = [argv[index + 1] for index, word in enumerate(argv) if word == "--build-arg"]
    assert argv[:12] == (
        "build", "--file", "-", "--tag", "t:1", "--label", "l=v", "--iidfile", "/i", "--pull=false", "--force-rm",
        "--network",
    )  # fmt: skip
    assert argv[12] == "none"
    assert sorted(proxies) == sorted(
        f"{name}="
        for upper in ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY")
        for name in (upper, upper.lower())
    )
    assert argv[-2:] == ("--", "/w")


def test_network_and_cache_are_options() -> None:
    """R-36: the operator's switch gives RUN the network."""
    argv = build_argv("/w", tag="t:1", labels=(("l", "v"),), id_file="/i", network=True, no_cache=True)
    assert ("--network" in argv, "--no-cache" in argv) == (False, True)


def test_build_gets_the_bytes_on_stdin_and_is_used_by_its_id() -> None:
    """R-36: the bytes that were approved are built, wherever the file has gone meanwhile."""
    docker = FakeDocker().on("build", react=writes_id(ID)).on("image", "inspect", "--", ID, stdout=OURS)  # type: ignore[arg-type]
    image_id, notes = run_build(docker)
    assert image_id == ID
    assert docker.calls[0].stdin == DOCKERFILE.data
    assert docker.calls[0].args[3:7] == ("--tag", DOCKERFILE.tag, "--label", f"{LABEL}={DOCKERFILE.sha256}")
    assert notes == [f"building {DOCKERFILE.tag} from Dockerfile.odek, its RUN steps without network"]
    docker.assert_all_used()
    docker.assert_no_client_left()


def test_store_that_knows_another_id_is_asked_by_tag() -> None:
    """R-36: a containerd store knows the image by its manifest; the label must be ours all the same."""
    docker = (
        FakeDocker()
        .on("build", react=writes_id(OTHER))  # type: ignore[arg-type]
        .on("image", "inspect", "--", OTHER, code=1, stderr="no such image")
        .on("image", "inspect", "--", DOCKERFILE.tag, stdout=OURS)
    )
    assert run_build(docker)[0] == ID


@pytest.mark.parametrize("network", [False, True])
def test_step_that_fails_for_its_processor_names_both(network: bool) -> None:
    """E14: the network is not what it lacks, though a RUN step has failed; of two bases the foreign one is named."""
    docker = FakeDocker().on(
        "build", code=1, stderr="exec /bin/sh: exec format error\nThe command 'x' returned a non-zero code: 1\n"
    )
    docker.on("version", "--format", "{{.Server.Arch}}", stdout="amd64\n")
    for image_id, architecture in ((ID, "amd64"), (OTHER, "s390x")):
        described = json.dumps([{"Id": image_id, "Architecture": architecture, "Config": None}])
        docker.on("image", "inspect", "--", image_id, stdout=described)
    with pytest.raises(SandboxConfigError) as refused:
        build_image(
            DOCKERFILE, "/w", docker, BuildOptions(network=network), bases=(("a", ID), ("b", OTHER)),
            id_file="/nowhere/id", emit=lambda _: None, now=docker.now,
        )  # fmt: skip
    assert refused.value.hint == 'the image "b" is for s390x, Docker\'s machine has amd64; choose one for it'


@pytest.mark.parametrize("answer", ["[]", "nonsense", inspected(ID), inspected(ID, {LABEL: "f" * 64})])
def test_image_without_our_label_is_not_used(answer: str) -> None:
    """B18: a tag proves nothing."""
    docker = FakeDocker().on("build", react=writes_id(ID)).on("image", "inspect", stdout=answer)  # type: ignore[arg-type]
    with pytest.raises(SandboxConfigError, match="does not show the image"):
        run_build(docker)


def test_failed_build_stops_with_the_end_of_the_output() -> None:
    """R-7, B18: a failed build is a configuration error, and no image of it is looked for."""
    steps = "\n".join(f"step {number}" for number in range(30))
    docker = FakeDocker().on("build", code=1, stdout=steps, stderr="\x1b[1mfalse\x1b[0m returned a non-zero code: 1")
    with pytest.raises(SandboxConfigError) as refused:
        run_build(docker)
    lines = refused.value.detail.splitlines()
    assert lines == [*(f"step {number}" for number in range(11, 30)), "false returned a non-zero code: 1"]
    assert refused.value.hint == "its RUN steps have no network; ODEK_SANDBOX_BUILD_NETWORK=1 gives them one"


def test_failed_build_is_told_without_decoration() -> None:
    """B18, R-64: colours and the advice to use another builder are left out; whatever moves the cursor is escaped."""
    advice = "DEPRECATED: The legacy builder is deprecated.\n            Install buildx:\n            https://x/\n\n"
    docker = FakeDocker().on(
        "build",
        code=1,
        stdout="Sending 4kB\r\r\nStep 1\n \x1b[91mbad\x1b[0m a\rb\x1b[2J\n",
        stderr=f"{advice}code: 1\n",
    )
    with pytest.raises(SandboxConfigError) as refused:
        run_build(docker)
    assert refused.value.detail.splitlines() == ["Sending 4kB", "Step 1", " bad a\\rb\\x1b[2J", "code: 1"]


def test_progress_is_told_from_either_stream_and_made_visible() -> None:
    """B19: something is said every few seconds; the words of a RUN step cannot move the cursor."""
    docker = FakeDocker().on("build", stderr="#5 [2/3] RUN x\r\n#5 1.0 \x1b[2Jhi\n", hang=True)
    with pytest.raises(SandboxConfigError, match="was not built within 30 minutes"):
        run_build(docker)
    notes: list[str] = []
    docker = FakeDocker().on("build", stderr="#5 [2/3] RUN x\r\n\x1b[91m#5 1.0 \x1b[2Jhi\n\x1b[0m\n", hang=True)
    with pytest.raises(SandboxConfigError):
        build_image(DOCKERFILE, "/w", docker, OFFLINE, id_file="/nowhere/id", emit=texts_to(notes), now=docker.now)
    assert notes[1] == f"building {DOCKERFILE.tag}: 3 s, #5 1.0 \\x1b[2Jhi"
    docker.assert_no_client_left()


def test_interrupt_kills_the_client() -> None:
    """B19: Ctrl-C stops a build; nothing half-made is used."""
    docker = FakeDocker().on("build", hang=True, raises_in_pump=Interrupted(2))
    with pytest.raises(Interrupted):
        run_build(docker)
    docker.assert_no_client_left()
    assert [call.args[0] for call in docker.calls] == ["build"]


@pytest.mark.parametrize(
    ("answer", "code", "ours"),
    [
        (OURS, 0, True),
        (inspected(OTHER, {LABEL: DOCKERFILE.sha256}), 0, False),
        (inspected(ID, {LABEL: DOCKERFILE.sha256[:12]}), 0, False),
        (inspected(ID), 0, False),
        ("[]", 1, False),
        ("[]", 0, False),
        ('[{"Id": 7}]', 0, False),
        ('[{"Id": "sha256:1", "Config": {}}]', 0, False),
        ('{"Id": "x"}', 0, False),
        ("[3]", 0, False),
    ],
)
def test_image_counts_as_ours_by_id_and_whole_digest(answer: str, code: int, ours: bool) -> None:
    """B18, R-36: checked each time before it is used again."""
    docker = FakeDocker().on("image", "inspect", "--", ID, stdout=answer, code=code)
    assert is_ours(Build(image_id=ID, bases=(), inputs=""), DOCKERFILE, docker) is ours


def test_base_with_instructions_of_its_own_is_refused_without_network() -> None:
    """B17, D-2: ONBUILD of the base could fetch, and nobody has seen it."""
    answer = inspected(ID, triggers=["ADD http://127.0.0.1/\x1b[2J /p"])
    docker = FakeDocker().on("image", "inspect", "--format", stdout=ID).on("image", "inspect", "--", stdout=answer)
    with pytest.raises(SandboxConfigError) as refused:
        obtain_bases(("a:1",), docker, network=False, emit=lambda _: None)
    assert refused.value.message == (
        'the image "a:1" (Dockerfile.odek: FROM) brings instructions of its own: '
        '"ONBUILD ADD http://127.0.0.1/\\x1b[2J /p"'
    )
    assert obtain_bases(("a:1",), docker, network=True, emit=lambda _: None) == (("a:1", ID),)


@pytest.mark.parametrize(
    ("form", "is_refused"),
    [
        ("application/vnd.docker.distribution.manifest.v2+json", True),
        ("application/vnd.oci.image.manifest.v1+json", False),
    ],
)
def test_base_of_which_podman_does_not_tell_them_is_refused(form: str, is_refused: bool) -> None:
    """R-388, B17, D-2: recorded from podman 5.8, of an image that brings some in both forms; only one has them."""
    config = {"Env": ["PATH=/usr/bin"], "Labels": {"io.buildah.version": "1.43.2"}}
    answer = json.dumps([{"Id": ID.removeprefix("sha256:"), "ManifestType": form, "Config": config}])
    docker = FakeDocker().on("image", "inspect", "--format", stdout=ID).on("image", "inspect", "--", stdout=answer)
    assert obtain_bases(("a:1",), docker, network=True, emit=lambda _: None) == (("a:1", ID),)
    if not is_refused:
        assert obtain_bases(("a:1",), docker, network=False, emit=lambda _: None) == (("a:1", ID),)
        return
    with pytest.raises(SandboxConfigError, match="podman does not tell whether the image") as refused:
        obtain_bases(("a:1",), docker, network=False, emit=lambda _: None)
    assert "`podman save --format oci-archive a:1 | podman load`" in (refused.value.hint or "")


def test_base_that_cannot_be_pulled_is_a_failed_build() -> None:
    """R-7, D-1: never read as an unavailable image, which could lead to the host."""
    docker = (
        FakeDocker()
        .on("image", "inspect", code=1, stderr=MISSING)
        .on("pull", code=1, stderr="manifest unknown")
        .on("version", stdout="20.10")
    )
    with pytest.raises(SandboxConfigError, match='"a:1" could not be pulled') as refused:
        obtain_bases(("a:1",), docker, network=False, emit=lambda _: None)
    assert "manifest unknown" in refused.value.detail


def test_daemon_that_dies_while_a_base_is_pulled_is_lost() -> None:
    """D-11."""
    docker = FakeDocker().on("image", "inspect", code=1, stderr=MISSING).on("pull", code=1).on("version", code=1)
    with pytest.raises(SandboxLost):
        obtain_bases(("a:1",), docker, network=False, emit=lambda _: None)


def test_bases_that_are_other_images_now_are_found() -> None:
    """B18: one that is gone says nothing; one of another ID does."""
    docker = (
        FakeDocker()
        .on("image", "inspect", has="same", stdout=ID)
        .on("image", "inspect", has="moved", stdout=OTHER)
        .on("image", "inspect", has="gone", code=1, stderr=MISSING)
    )
    made = Build(image_id=ID, bases=(("same", ID), ("moved", ID), ("gone", ID)), inputs="")
    assert find_changed_bases(made, docker) == ("moved",)


@pytest.mark.parametrize(
    ("bases", "files", "line"),
    [
        ((), False, ""),
        (("b:1",), False, "b:1 is another image now"),
        ((), True, "files that it copies changed"),
        (("b:1",), True, "b:1 is another image now and files that it copies changed"),
    ],
)
def test_staleness_is_one_line(bases: tuple[str, ...], files: bool, line: str) -> None:
    """B18."""
    advice = "`odek sandbox build` (or build --no-cache) makes it anew"
    whole = f"stale image t:1: {line}; {advice}" if line else ""
    assert describe_staleness(bases, files_changed=files, tag="t:1") == whole


def test_client_of_a_build_is_watched_while_it_works() -> None:
    """E13: and the watcher is called off when the build has ended."""
    docker = FakeDocker().on("build", code=1)
    with pytest.raises(SandboxConfigError):
        run_build(docker)
    assert [(watcher.args[:2], watcher.closed) for watcher in docker.watchers] == [(("kill", "build"), True)]
