"""How odek comes to a host: nothing of an update or a bundle counts before it was compared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.bundles import SHELLS, Target, make_bundle
from support.release_server import sums

from odek.process import Completed
from odek.update.download import follow, parse_address
from odek.update.release import UpdateError
from odek.update.update import Update, carry_out

ROOT = Path(__file__).resolve().parents[2]
BASE = "https://host.example/releases"


def test_update_takes_only_what_has_the_hash(tmp_path: Path) -> None:
    """
    S-28 No request for a newer odek leaves but that of `odek update`, when you type it. A new file takes the
    place of the old one only when its SHA-256 is that of the release's `SHA256SUMS`, and runs only after that;
    TLS is required but on this machine, and no redirect gives it up. Whatever ends an update, the file is the
    old one or the new one. As with the installer, those who can change the release itself can change its sums
    as well: compare with `gh attestation verify` where that matters ([test_update](tests/e2e/test_update.py),
    [test_download](tests/unit/update/test_download.py), [test_replace](tests/unit/update/test_replace.py)).
    """
    pattern = re.compile(r"^\s*(?:from|import) odek\.update\b", re.MULTILINE)
    importers = {
        path.relative_to(ROOT).parts[1:3] for path in ROOT.glob("odek/**/*.py") if pattern.search(path.read_text())
    }
    assert {parts for parts in importers if parts[0] != "update"} == {("cli", "commands")}
    target = tmp_path / "odek"
    target.write_bytes(b"old")
    files = {"SHA256SUMS": sums({"odek": b"new"}), "odek": b"nev"}

    def fetch(address: str, _limit: int, sink: object) -> None:
        sink(files[address.rpartition("/")[2]], None)  # type: ignore[operator]

    def run(argv: tuple[str, ...]) -> Completed:
        raise AssertionError(f"{argv} ran")

    with pytest.raises(UpdateError, match="SHA-256"):
        carry_out(Update(base=BASE, version="1.2.3", name="odek", target=str(target)), fetch, run, lambda *_: None)
    assert ([path.name for path in tmp_path.iterdir()], target.read_bytes()) == (["odek"], b"old")
    for address in ("http://host.example/", "ftp://host.example/", "file:///etc/passwd"):
        with pytest.raises(UpdateError):
            parse_address(address)
        with pytest.raises(UpdateError):
            follow(parse_address(BASE), address)


@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: words[0])
def test_bundle_with_one_other_byte_does_nothing(shell: tuple[str, ...], tmp_path: Path) -> None:
    """
    S-29 A bundle for hosts without network (`odek bundle make`) checks itself and every part before anything of
    it is installed or run; one damaged byte anywhere ends it. That proves that it is whole, not where it comes
    from: its SHA-256, carried another way, and `odek bundle verify` on a host that you trust do
    ([AIRGAPPED](docs/AIRGAPPED.md)). Settings with a secret in clear are not packed
    ([test_head](tests/unit/bundle/test_head.py), [test_layout](tests/unit/bundle/test_layout.py)).
    """
    whole = tmp_path / "whole.sh"
    make_bundle(whole)
    content = whole.read_bytes()
    for place in (1000, len(content) // 2, len(content) - 1):
        damaged = bytearray(content)
        damaged[place] ^= 1
        (tmp_path / "odek.sh").write_bytes(damaged)
        target = Target(shell=shell, folder=tmp_path / f"at-{place}")
        assert target.run(tmp_path / "odek.sh").returncode != 0
        assert target.is_untouched()
    target = Target(shell=shell, folder=tmp_path / "there")
    assert target.run(whole).returncode == 0
    assert not target.is_untouched()
