"""Programs that write over a disk: asked about when it is a file, and never allowed when it is a device."""

from __future__ import annotations

from collections.abc import Mapping

from odek.danger.call import Call
from odek.danger.paths import is_block_device, resolve
from odek.danger.rules.table import BLOCKED
from odek.danger.shell import abstract_text

_ALWAYS = frozenset("mkfs mke2fs mkdosfs mkswap newfs blkdiscard scrub wipe sg_format".split())
_WITH: Mapping[str, tuple[str, ...]] = {
    "wipefs": ("-a", "-af", "-fa", "--all", "-o", "--offset"),
    "sgdisk": ("-z", "-Z", "-o", "--zap", "--zap-all", "--clear"),
    "sfdisk": ("--delete", "--wipe"),
    "parted": ("mklabel", "mktable", "rm"),
    "cryptsetup": ("luksFormat", "luksErase", "erase"),
    "badblocks": ("-w",),
    "hdparm": ("--security-erase", "--security-erase-enhanced", "--trim-sector-ranges", "--sanitize-block-erase"),
    "nvme": ("format", "sanitize", "write-zeroes"),
    "diskutil": ("eraseDisk", "eraseVolume", "zeroDisk", "randomDisk", "secureErase", "reformat", "partitionDisk"),
}
"""the words with which other programs do it"""


def check_disk(call: Call) -> None:
    """`mkfs`, `wipefs -a` …: what is on the device is gone. Other programs pass."""
    wanted = _WITH.get(call.program, ())
    always = call.program in _ALWAYS or call.program.startswith("mkfs.")
    if not always and not any(word.partition("=")[0] in wanted for word in call.arguments):
        return
    for word in call.arguments:
        path = f"/dev/{word}" if call.program == "diskutil" and "/" not in word else word
        if any(is_block_device(resolve(path, cwd)) for cwd in call.state.cwds):
            call.add(BLOCKED, "disk", f"overwrites the disk {abstract_text.rendered(word[:60])}")
