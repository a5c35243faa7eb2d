"""What nothing brings back is never allowed: a system, a home, a disk. Commands are judged here, and none is run."""

from __future__ import annotations

import pytest

from odek.danger.classify import classify
from odek.danger.paths import Place, is_irreplaceable
from odek.danger.policy import HOST_TABLE, Policy, decide

pytestmark = pytest.mark.once  # no Python can make a difference

HOST = Place(home="/home/user", cwd="/home/user/project", workspace="/home/user/project")
SANDBOX = Place(home="/home/odek", cwd="/workspace", workspace="/workspace", sandboxed=True)
PLACES = (HOST, SANDBOX)

GONE = r"""
    rm -r /
    rm -rf /
    rm -fr --no-preserve-root /
    rm --recursive --force //
    rm --rec /
    rm -R -- /
    rm -rf / tmp
    rm -rf build /
    rm -rf /*
    rm -rf /.*
    rm -rf /.[!.]*
    rm -rf /./tmp/..
    rm -rf /[a-z]*
    rm -rf /us?
    rm -rf /{usr,bin}
    rm -rf /etc
    rm -rf /etc/
    rm -rf /etc/*
    rm -rf /etc/{*,.*}
    rm -rf /boot /tmp/x
    rm -rf /bin
    rm -rf /usr
    rm -rf /usr/bin
    rm -rf /usr/lib/*
    rm -rf /lib64
    rm -rf /sbin
    rm -rf /var
    rm -rf /var/lib
    rm -rf /opt
    rm -rf /srv/*
    rm -rf /root
    rm -rf /home
    rm -rf /home/*
    rm -rf /home/bob
    rm -rf /home/b*
    rm -rf /Users/bob/
    rm -rf /dev
    rm -rf /sys/*
    rm -rf /proc/self/root
    rm -rf /proc/1/root/etc
    rm -rf ~
    rm -rf ~/
    rm -rf ~/*
    rm -rf ~/.*
    rm -rf ~/{*,.*}
    rm -rf ~root
    rm -rf ~bob/*
    rm -rf $HOME
    rm -rf "$HOME"
    rm -rf ${HOME}/
    rm -rf "${HOME:?}"/*
    rm -rf "$HOME/."
    rm -f /etc/*
    rm /boot/*
    rm -rf $(echo /)
    rm -rf "`echo /etc`"
    X=/; rm -rf $X
    X=/; rm -rf "$X"etc
    for d in /*; do rm -rf "$d"; done
    for d in /etc /usr; do rm -rf $d; done
    cd /; rm -rf *
    cd / && rm -rf .
    cd ~ && rm -rf .
    cd && rm -rf *
    cd /etc && rm -rf ./*
    pushd /usr && rm -rf *
    rm -rf /tmp/../etc
    {rm,-rf,/}
    rm$IFS-rf$IFS/
    r\m -rf /
    "rm" -rf '/'
    $(echo rm) -rf /
    $'\x72\x6d' -rf $'\x2f'
    /bin/rm -rf /
    command rm -rf /
    exec rm -rf /
    eval 'rm -rf /'
    sh -c 'rm -rf /'
    bash -c "rm -rf $HOME"
    bash -c 'rm -rf "$1"' _ /etc
    bash -lc 'cd / && rm -rf *'
    sh <<<'rm -rf ~'
    echo 'rm -rf /' | sh
    trap 'rm -rf ~' EXIT
    f() { rm -rf /; }
    f() { rm -rf "$1"; }; f /
    if false; then rm -rf /; fi
    true || rm -rf /
    sudo rm -rf /
    sudo -u root env A=b nohup rm -rf /var
    doas rm -r /etc
    su -c 'rm -rf /'
    env -i rm -rf /usr
    env -S 'rm -rf /'
    timeout 5 nice rm -rf / &
    busybox rm -rf /
    toybox rm -r /etc
    xargs rm -rf /
    echo / | xargs rm -rf
    printf '%s\n' /etc | xargs -n1 rm -r
    echo /etc | xargs -I{} rm -rf {}
    parallel rm -rf ::: /etc /usr
    find / | xargs rm -rf
    find / -print0 | xargs -0 rm -rf
    find / -delete
    find ~ -delete
    find ~/ -mindepth 1 -delete
    find /etc -type f -delete
    find / -name '*' -delete
    find /home -not -name x -delete
    find / -exec rm -rf {} +
    find / -exec sudo rm -rf {} \;
    find /usr -execdir rm {} \;
    find / -exec sh -c 'rm -rf {}' \;
    find / -exec sh -c 'rm -rf "$1"' _ {} \;
    cd / && find . -delete
    fd . / -x rm -rf
    fd . /etc -X rm -rf {}
    rimraf /
    srm -r ~
    shred /etc/*
    rsync -a --delete empty/ /
    rsync -a --delete-after empty/ ~/
    python3 -c "import shutil; shutil.rmtree('/')"
    python3 -c "import shutil; shutil.rmtree('/etc', ignore_errors=True)"
    python3 -c "import os, shutil; shutil.rmtree(os.path.expanduser('~'))"
    python3 -c "import shutil; from pathlib import Path; shutil.rmtree(Path.home())"
    python3 -c "import os, shutil; shutil.rmtree(os.environ['HOME'])"
    python3 -c "import os; os.system('rm -rf /usr')"
    echo "import shutil; shutil.rmtree('/')" | python3
    node -e "fs.rmSync('/etc', {recursive: true})"
    node -e "fs.rmSync(os.homedir(), {recursive: true})"
    perl -e 'system("rm -rf /")'
    perl -e 'use File::Path; remove_tree("/usr")'
    ruby -e 'FileUtils.rm_rf("/")'
    ruby -e 'FileUtils.rm_rf ENV["HOME"]'
    """
DISKS = r"""
    dd if=/dev/zero of=/dev/sda
    dd of=/dev/nvme0n1 if=x bs=1M
    sudo dd if=image.iso of=/dev/sdb
    dd if=x of=/dev/disk/by-id/usb
    dd if=x of=/dev/mapper/root
    shred /dev/sda
    shred -u -n 3 /dev/sd*
    mkfs /dev/sda1
    mkfs -t ext4 /dev/sdb
    mkfs.ext4 -F /dev/sdb1
    mkfs.btrfs /dev/vda /dev/vdb
    mke2fs /dev/mmcblk0
    mkswap /dev/sda2
    wipefs -a /dev/sda
    wipefs --all /dev/sda
    blkdiscard /dev/nvme0n1
    sgdisk --zap-all /dev/sda
    parted -s /dev/sda mklabel gpt
    cryptsetup luksFormat /dev/sda2
    badblocks -w /dev/sdb
    hdparm --security-erase x /dev/sda
    nvme format /dev/nvme0n1
    diskutil eraseDisk JHFS+ x disk2
    cat x > /dev/sda
    : > /dev/[sv]da
    echo x >> /dev/sda1
    echo x | sudo tee /dev/sdb
    cp image.iso /dev/sda
    truncate -s 0 /dev/sda
    sh -c 'cat x > /dev/sda'
    """


def rows(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("command", rows(GONE) + rows(DISKS))
def test_deletion_that_nothing_brings_back_is_blocked(command: str) -> None:
    """R-296: by whatever word, on the host and in the sandbox; no setting and no list allows it."""
    for place in PLACES:
        risk = classify(command, place)
        assert risk.level.label == "blocked", place
        every = ("unknown", "destructive", "system_write", "blocked")
        willing = Policy(
            table=HOST_TABLE, action="allow", classes=tuple((name, "allow") for name in every), allowlist=(command,),
            non_interactive="allow",
        )  # fmt: skip
        decision = decide(risk, command, willing)
        assert (decision.action, decision.setting) == ("deny", "")


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf .", "rm -rf *", "rm -rf ./*", "rm -rf ../other", "rm -rf /tmp", "rm -rf /tmp/*", "rm -rf /tmp/x",
        "rm -rf ~/x", "rm -rf ~/.cache/x", "rm -rf /opt/tool", "rm -rf /srv/app/old", "rm -rf /usr/local/go",
        "rm -rf /usr/share/doc", "rm -rf /var/lib/apt/lists/*", "rm -rf /etc/nginx", "rm -rf /home/user/project",
        "rm -rf /home/user/project/*", 'rm -rf "$X"',
        "cd build; rm -rf *", 'cd "$X" && rm -rf *', "xargs rm -rf",
        "ls | xargs rm -rf", "rm /etc/hosts", "rm -f ~/.bashrc", "find . -delete", "find ~ -name '*.pyc' -delete",
        "find / -name node_modules -exec rm -rf {} +", "find ~ -type d -empty -delete", "find /etc -exec grep x {} +",
        "find / -type f | xargs grep x", "find ~ -name $X",
        'find / "$@"', "fd -e pyc . / -x rm", "mv ~/x /tmp", "rsync -a --delete a b",
        "rsync -a x/ /",
        "echo rm -rf /", "echo 'rm -rf /' > f", "# rm -rf /", "cat <<'E'\nrm -rf /\nE",
        "git commit -m 'rm -rf /'", "grep -r 'rm -rf /' .", "dd if=x of=disk.img", "dd if=/dev/sda of=x",
        "mkfs.ext4 image",
        "mkswap swapfile", "wipefs /dev/sda", "parted -l", "nvme list", "ls /dev/sda", "cat x > /dev/null",
        "echo x > /dev/stderr", "rm -rf /dev/shm/x", "python3 -c \"import shutil; shutil.rmtree('build')\"",
        "python3 -c \"import shutil; shutil.rmtree('/tmp/x'); print('/')\"", "trash build",
        "rm -rf /workspacex",
    ],
)  # fmt: skip
def test_other_deletion_is_not_blocked(command: str) -> None:
    """R-296: nothing lifts that class, so what can be meant, or made again, is not of it."""
    assert "blocked" not in [classify(command, place).level.label for place in PLACES]


EMPTY = r"""
    rm -rf "$X"/
    rm -rf "$X/"
    rm -rf "$X"/*
    rm -rf $X/*
    rm -rf ${X}/{*,.*}
    rm -rf "$X"/.
    rm -rf "$X"/..
    rm -rf "$X/../"
    rm -rf "$X"//
    rm -rf ${X}/bin
    rm -rf "$X/etc"/*
    rm -rf "$X$Y"/
    rm -rf "$X"/"$Y"
    rm -rf "$X"/$Y/*
    rm -rf /$X
    rm -rf /$X/
    rm -rf /etc/"$X"
    rm -rf ~/$X
    rm -rf "$HOME/$X"/
    rm -rf /home/$X
    rm -f "$X"/etc/*
    rm "$X"/*
    rm -rf "${X?}"/
    rm -rf "${X-}"/
    rm -rf "${X:-$Y}"/
    rm -rf "${X:-}"/
    rm -rf "${X%/}"/
    rm -rf "${X#x}"/*
    rm -rf "${X//a/b}"/
    rm -rf "${X:0:9}"/
    rm -rf "${A[0]}"/
    rm -rf "$1"/*
    rm -rf "$@"/
    rm -rf "$(cat dir)"/*
    rm -rf "`npm root`"/
    Y=$X; rm -rf "$Y"/
    D="$X/"; rm -rf "$D"*
    X=$(cat dir); rm -rf "$X"/*
    read X; rm -rf "$X"/
    if a; then X=build; fi; rm -rf "$X/"
    set -eu; rm -rf "$X"/
    X=build sh -c 'rm -rf "$Y"/'
    sh -c "rm -rf $X/"
    bash -c 'rm -rf "$1"/' _ "$X"
    f() { rm -rf "$1"/*; }; f "$X"
    sudo rm -rf "$X"/*
    for d in a b; do rm -rf "$X"/; done
    cd "$X/" && rm -rf *
    cd $X; rm -rf *
    cd "$X"/ && cd . && rm -rf ./*
    cd $X/etc && rm -rf -- *
    cd "$X/" && find . -delete
    find "$X"/ -delete
    find /$X -mindepth 1 -delete
    shred "$X"/etc/*
    rsync -a --delete empty/ "$X"/
    rimraf "$X"/
    fd . "$X"/ -x rm -rf
    printf '%s' "$X/" | xargs rm -rf
    (cd "$X/"; rm -rf *)
    pushd "$X"/ && rm -rf * && popd
    find "$X"/ -exec rm -rf {} +
    for d in "$A" "$B"; do rm -rf "$d"/; done
    echo 'rm -rf "$X"/' | sh
    """
FILLED = r"""
    rm -rf "$X"
    rm -rf $X
    rm -rf "${X:?}"/
    rm -rf "${X:?}"/*
    rm -rf "${X:?not set}"/bin
    rm -rf /"${X:?}"
    rm -rf ~/"${X:?}"/*
    : "${X:?}"; rm -rf "$X"/*
    : ${X:?} && cd "$X/" && rm -rf *
    rm -rf "${X:-build}"/*
    : "${X:=build}"; rm -rf "$X"/
    rm -rf "${X:+$X/}"*
    X=build; rm -rf "$X"/
    X=build; Y=$X; rm -rf "$Y"/*
    X=$Y/build; rm -rf "$X"/*
    rm -rf "$X"/build
    rm -rf "$X/node_modules" "$X"/dist/*
    rm -rf "$X"-old/
    rm -rf build/"$X"/*
    rm -rf "./$X"
    rm -rf /tmp/$X
    rm -rf ~/.cache/$X
    rm -rf "$PWD"/*
    cd "$X" && rm -rf "$PWD"/build
    rm -rf "$(pwd)"/*
    rm -rf "$(mktemp -d)"/*
    D=$(mktemp -d); trap 'rm -rf "$D"' EXIT; rm -rf "$D"/*
    for d in $DIRS; do rm -rf "$d"/*; done
    for d in */; do rm -rf "$d"/*; done
    f() { for d in "$@"; do rm -rf "$d"/; done; }
    for d in "$X"/*; do rm -rf "$d"/; done
    ls | xargs -I{} rm -rf {}/
    cat list | xargs -I{} rm -rf {}/*
    cd "$X" && rm -rf *
    cd "$X"/build && rm -rf *
    cd "$X/" && cd "${Y:?}" && rm -rf *
    cd "$X/"; cd /tmp && rm -rf *
    rm "$X"/file
    rm -f "$X"/*.o
    find "$X" -delete
    find "$X"/ -name '*.pyc' -delete
    rsync -a --delete a/ "$X"/build
    ls "$X"/; cp -r "$X"/* .
    """


@pytest.mark.parametrize("command", rows(EMPTY))
def test_variable_that_may_be_empty_is_not_trusted_with_the_root(command: str) -> None:
    """R-364: on the host, where the deletion is one of R-296 when what nothing fills is empty."""
    risk = classify(command, HOST)
    assert risk.level.label == "blocked"
    assert classify(command, SANDBOX).level.label in ("blocked", "destructive")


@pytest.mark.parametrize("command", rows(FILLED))
def test_variable_that_is_filled_or_does_no_such_harm_when_it_is_empty(command: str) -> None:
    """R-364: a guard, a value, a folder behind it that is none of the system's."""
    assert classify(command, HOST).level.label != "blocked"


def test_the_reason_says_how_it_can_be_done() -> None:
    """R-364: the model reads it, and need not give up."""
    reasons = [finding.reason for finding in classify('rm -rf "$X"/*', HOST).findings]
    assert 'deletes …/*: /* where a variable is empty, which nothing brings back; "${NAME:?}" stops there' in reasons


class Links:
    """A folder of links: /home/user is on another disk, and the project holds a link to the system."""

    def real(self, path: str) -> str:
        for link, target in (("/home/user/project/sys", "/etc"), ("/home/user", "/data/user")):
            if path == link or path.startswith(link + "/"):
                return target + path[len(link) :]
        return path


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/user", True),
        ("/data/user", True),
        ("/data/user/\1", True),
        ("/data", True),
        ("/data/other", False),
        ("/home/user/project/sys/\1", True),
        ("/home/user/project/sys", False),
        ("/home/user/project/sys/nginx", False),
        ("/home/user/project/build", False),
    ],
)
def test_links_lead_where_they_lead(path: str, expected: bool) -> None:
    """R-296: what lies behind a link is deleted with `link/*`; the link itself can go."""
    place = Place(home="/data/user", cwd="/", workspace="/data/user/project", look=Links())  # type: ignore[arg-type]
    assert is_irreplaceable(path, place) is expected
