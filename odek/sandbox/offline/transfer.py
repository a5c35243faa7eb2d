"""Carrying an image to a host without a registry: out into a file, in again, proven on both ends (D-12)."""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import BinaryIO

from odek.events import Notice, Sink
from odek.patterns import pattern
from odek.process import Completed
from odek.sandbox.argv import save_argv, tag_argv
from odek.sandbox.docker import Docker, docker_output, run_docker, run_long
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.image.reference import ImageChoice
from odek.sandbox.image.resolve import daemon_machine, find_image, resolve_image
from odek.sandbox.offline.archive import ArchivedImage, Layout, TarError, plain_pieces, read_archive
from odek.sandbox.offline.layout import archive_of, read_any_image
from odek.text import visible

TRANSFER_TIMEOUT_S = 1800.0
_NAME_ONE = "name the file that `odek sandbox image save` wrote"
_DIGEST_AT_END = pattern(r"@sha256:[0-9a-f]{64}\Z")


def name_of(ref: str) -> str:
    """Return a reference without its digest: the name that an image can carry. Pure."""
    return _DIGEST_AT_END.sub("", ref)


def save_image(choice: ImageChoice, path: str, docker: Docker, *, emit: Sink) -> tuple[str, ArchivedImage]:
    """Write the local image of `choice` to the new file `path`, and return its ID and what is in the file.

    The file is there when it is whole and holds the image that was asked for, and not before.
    Raises SandboxConfigError.
    """
    image_id = resolve_image(choice, docker)
    if not image_id:
        raise SandboxConfigError(
            f'there is no local image "{visible(choice.ref)}" ({choice.origin})',
            hint=f"get it with `docker pull {visible(choice.ref)}`",
        )
    part = f"{path}.part"
    for taken in (path, part):  # the second one would be removed
        if os.path.lexists(taken):
            raise SandboxConfigError(f'"{visible(taken)}" exists already', hint="name a new file")
    name = name_of(choice.ref)
    # saved by its name where that is this image: it then has a name where it is loaded
    ref = name if not choice.is_id and find_image(name, docker) == image_id else image_id
    try:
        done = _carry(docker, *save_argv(ref, part), doing=f"saving {visible(choice.ref)}", emit=emit)
        if done.code != 0 or done.timed_out:
            raise SandboxConfigError(
                f'Docker did not save the image to "{visible(path)}"',
                hint="name a file where there is room and which you may write",
                detail=docker_output(done),
            )
        with open(part, "rb") as file:
            image = read_archive(file, shown=path)
        if image_id not in image.ids:
            raise SandboxConfigError(
                f'Docker saved another image than {image_id} to "{visible(path)}"',
                hint="its name was given to another image meanwhile, or its store saves a part; name it with --image",
                detail="\n".join(["in the file:", *sorted(image.ids)]),
            )
        os.replace(part, path)
    except OSError as error:
        raise SandboxConfigError(
            f'cannot write "{visible(path)}": {error.strerror}',
            hint="name a file where there is room and which you may write",
        ) from error
    finally:
        if os.path.lexists(part):
            os.unlink(part)
    return image_id, image


def load_image(
    path: str,
    expected: tuple[str, ...],
    docker: Docker,
    *,
    name: str,
    emit: Sink,
    unknown_on: str = "",
) -> tuple[str, ArchivedImage]:
    """Load the image in the file `path` and return its ID, one of `expected`, and what is in the file.

    Before Docker sees the file, every digest in it is computed anew; the ID that Docker then shows
    is what counts. The file is opened once, so that Docker gets what was checked. `name`: what to call an image
    that comes without a name, "" for nothing.
    `unknown_on`: the processor for which the right image may well have an ID that is not in `expected`.
    Raises SandboxConfigError.
    """
    with _opened(path) as source:
        before = _identity(source)
        image = _read(source, path, expected, docker)
        wanted = _require_expected(image, expected, path, unknown_on)
        _refuse_moved_names(image, docker)
        layout = image.layout if image.layout and (image.layout.is_needed or _keeps_manifests(docker)) else None
        done = _hand_over(source, path, layout, docker, emit)
        if done.code != 0 or done.timed_out:
            raise SandboxConfigError(
                f'Docker did not load "{visible(path)}"',
                hint="`docker system df` shows what takes Docker's room",
                detail=docker_output(done),
            )
        # what odek has put together is one image, and holds nothing else; Docker may know it by either
        shown = (layout.config, layout.manifest) if layout else wanted
        loaded = next((image_id for image_id in shown if find_image(image_id, docker) == image_id), "")
        if not loaded or _identity(source) != before:
            raise SandboxConfigError(
                f'Docker does not show the image of "{visible(path)}" under an expected ID',
                hint="its store may know it by another one: compare `docker image ls --no-trunc`",
                detail="\n".join(["in the file:", *sorted(image.ids)]),
            )
    if name and not image.tags and not find_image(name, docker):
        run_docker(docker, *tag_argv(loaded, name))  # without a name the next clean-up would take it away
    return loaded, image


def _require_expected(image: ArchivedImage, expected: tuple[str, ...], path: str, unknown_on: str) -> Sequence[str]:
    """Return those of `expected` that the image has. Raises SandboxConfigError where there is none."""
    wanted = [image_id for image_id in expected if image_id in image.ids]
    if wanted:
        return wanted
    wrong = f'"{visible(path)}" holds another image than the expected one'
    if unknown_on:
        wrong = f'"{visible(path)}" cannot be verified to hold the pinned default: its ID on {unknown_on} is not known'
    raise SandboxConfigError(
        wrong,
        hint="compare with the ID that `odek sandbox image save` printed, and give that one with --id",
        detail="\n".join(["in the file:", *sorted(image.ids), "expected:", *expected]),
    )


def _keeps_manifests(docker: Docker) -> bool:
    """Return whether the engine knows images by their manifests: the default of new installations from 29 on."""
    return "io.containerd.snapshotter" in run_docker(docker, "info", "--format", "{{json .DriverStatus}}").stdout.text


def _hand_over(source: BinaryIO | str, path: str, layout: Layout | None, docker: Docker, emit: Sink) -> Completed:
    """Have Docker load what `source` holds, without its gzip (M-31), or the `layout` of it. Raises SandboxConfigError.

    It comes on Docker's stdin: by the name of the file another one could be loaded than was checked.
    """
    doing = f"loading {visible(path)}"
    emit(Notice(doing))
    try:
        if layout:
            pieces = archive_of(source, layout)
        else:
            assert not isinstance(source, str)  # a folder has a layout
            pieces = plain_pieces(source, shown=path)
        return run_long(docker, "load", doing=doing, emit=emit, timeout_s=TRANSFER_TIMEOUT_S, stdin=pieces)
    except (TarError, OSError, EOFError, zlib.error) as error:
        raise SandboxConfigError(
            f'"{visible(path)}" could not be read to its end a second time; Docker has loaded nothing of it',
            hint="leave it as it is while it is loaded",
        ) from error


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO | str]:
    """Hold the file at `path` open, or give the path of a folder. Raises SandboxConfigError."""
    try:
        kind = os.stat(path).st_mode
        if not (stat.S_ISDIR(kind) or stat.S_ISREG(kind)):  # a FIFO would be waited for
            raise SandboxConfigError(f'"{visible(path)}" is not a regular file', hint=_NAME_ONE)
        file = None if stat.S_ISDIR(kind) else open(path, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise SandboxConfigError(f'cannot read "{visible(path)}": {error.strerror}', hint=_NAME_ONE) from error
    with file or nullcontext(path) as source:
        yield source


def _read(source: BinaryIO | str, path: str, expected: tuple[str, ...], docker: Docker) -> ArchivedImage:
    try:
        return read_any_image(source, shown=path, expected=expected, machine=partial(daemon_machine, docker))
    except OSError as error:
        raise SandboxConfigError(f'cannot read "{visible(path)}": {error.strerror}', hint=_NAME_ONE) from error


def _refuse_moved_names(image: ArchivedImage, docker: Docker) -> None:
    """Loading gives an image the names in the file, and takes them from whatever has them now."""
    same = ("", *image.ids, image.layout.manifest if image.layout else "")
    for tag in image.tags:
        if find_image(tag, docker) not in same:
            raise SandboxConfigError(
                f'loading the file would take the name "{visible(tag)}" from another local image',
                hint=f"keep that one under another name first: `docker tag {visible(tag)} NEW-NAME`, "
                f"then `docker rmi {visible(tag)}`",
            )


def _identity(source: BinaryIO | str) -> tuple[int, ...]:
    status = os.stat(source) if isinstance(source, str) else os.fstat(source.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _carry(docker: Docker, *args: str, doing: str, emit: Sink) -> Completed:
    emit(Notice(doing))
    return run_long(docker, *args, doing=doing, emit=emit, timeout_s=TRANSFER_TIMEOUT_S)
