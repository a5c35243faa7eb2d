"""Images among the files of a task, and those of a session that goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from odek import safefile
from odek.app.attachments import IMAGE, Attachment
from odek.config.settings import Settings
from odek.errors import UsageError
from odek.model.images import LIMIT_BYTES, MOST_IMAGES, Image, image_fault, image_type
from odek.model.types import Message
from odek.text import visible


def images_of(attachments: Sequence[Attachment], settings: Settings) -> tuple[Image, ...]:
    """Return the images that the model is shown: those of --image, and those that the text or a page refers to.

    Raises UsageError when there are too many, and when the operator has said that the model takes none.
    """
    images = tuple(image_from(file) for file in attachments if file.is_image)
    if not images:
        return ()
    model, entry = settings.model, settings.model.model_entry
    if entry is not None and entry.images is False:
        raise UsageError(
            f"{visible(model.full_name)} takes no images (~/.odek/config.json: providers.{model.server})",
            hint="choose another model, or leave the image to the tools: --ctx, or a file of the project without @",
        )
    if len(images) > MOST_IMAGES:
        raise UsageError(f"{len(images)} images are more than one message can have", hint=f"give at most {MOST_IMAGES}")
    return images


def image_from(file: Attachment) -> Image:
    """Return an attachment that is an image as one."""
    return Image(
        name=file.name,
        media_type=image_type(file.data),
        path=file.path,
        sha256=_sha256(file.data),
        data=file.data,
    )


def require_images(attachments: Sequence[Attachment]) -> None:
    """Raise UsageError unless each file that --image names is an image that a model can be given."""
    for file in attachments:
        fault = image_fault(file.data) if file.source.startswith(IMAGE) else ""
        if fault:
            raise UsageError(
                f'"{visible(file.name)}" cannot be shown to a model: {fault}',
                hint="convert it first; --ctx gives any file to the tools",
            )


def with_images(messages: Sequence[Message], *, warn: Callable[[str], None]) -> tuple[Message, ...]:
    """Return the messages of a stored session with their images read again: a session holds where they are.

    One that is gone or has changed is warned of; the model is told the same.
    """

    def found(image: Image) -> Image:
        try:
            data = safefile.read_regular(image.path, limit_bytes=LIMIT_BYTES)
        except OSError:
            data = b""
        if _sha256(data) == image.sha256:
            return replace(image, data=data)
        warn(f'the image "{visible(image.path)}", given with an earlier turn, is gone or has changed')
        return image

    return tuple(
        replace(message, images=tuple(map(found, message.images))) if message.images else message
        for message in messages
    )


def _sha256(data: bytes) -> str:
    import hashlib  # loads OpenSSL, and few tasks have images

    return hashlib.sha256(data).hexdigest()
