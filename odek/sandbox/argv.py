"""The docker command lines, built by pure functions. Nothing here runs anything.

Every value that reaches a line was checked before (spec.py says where); images and networks go in by full ID. No
value of `sandbox_env` and no command of the model is ever part of a line: argv is public on the
host (/proc/PID/cmdline), so both travel on stdin (R-32, B15).
"""

from __future__ import annotations

from odek.sandbox.container import scripts
from odek.sandbox.network.plan import PROJECT_LABEL
from odek.sandbox.spec import DEFAULT_HOME, Mount, SandboxSpec
from odek.sandbox_grammar import ATTACHMENTS, WORKSPACE

LABEL = "io.odek.sandbox"
"""marks a container as ours; `ps --filter` and the sweep look for it"""
NONCE_LABEL = "io.odek.nonce"
"""tells our own container from another's that took the same name"""
SESSION_LABEL = "io.odek.session"
"""names the session that a container belongs to (R-138)"""

_LISTED_NETWORK = "[{{json .ID}},{{json .Name}},{{json .Driver}},{{json .Scope}}]"
NO_RESOLVER = "0.0.0.0"  # noqa: S104 - nothing is bound to it
SHARED_MEMORY = "/dev/shm"
_SHARED_MEMORY_BYTES = 64 << 20  # Docker's own default
_PAGE_BYTES = 4096

# Empty values win over the proxies that the client would copy, credentials included, from
# ~/.docker/config.json into every container.
_NO_PROXIES = tuple(
    f"{name}="
    for upper in ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY")
    for name in (upper, upper.lower())
)


def run_argv(spec: SandboxSpec, *, name: str, labels: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Return the arguments after `docker` that start the container.

    The client stays attached to the keep-alive's stdin. That pipe is the lease (R-38): when odek
    ends, however it ends, the pipe closes, the keep-alive reads end-of-file, and `--rm` removes
    the container. With `--detach` the lease could only be taken after the start, which leaves a
    moment in which a killed odek would leave its container behind.
    """
    limits = spec.limits
    return (
        "run", "--rm", "--interactive", "--sig-proxy=false", "--init", "--pull", "never",
        "--name", name, "--hostname", name,
        *(item for key, value in labels for item in ("--label", f"{key}={value}")),
        "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
        *(("--security-opt", f"seccomp={spec.seccomp_file}") if spec.seccomp_file else ()),
        "--pids-limit", str(limits.pids), *_memory_flags(limits.memory_bytes), *_cpu_flags(limits.nano_cpus),
        "--network", spec.networks.run_network, *_sealing(spec),
        "--ipc", "private", "--cgroupns", "private", "--ulimit", "core=0", "--oom-score-adj", "500",
        "--log-driver", "none", "--no-healthcheck", "--stop-timeout", "1",
        "--user", spec.helper_user,
        *(item for target, options in tmpfs_mounts(spec) for item in ("--tmpfs", f"{target}:{options}")),
        *(item for mount in spec.mounts for item in ("--mount", bind_option(mount))),
        *(item for target in spec.covered for item in ("--mount", cover_option(target))),
        *(("--image-volume", "ignore") if spec.engine.podman else ()),  # what the image has there stays
        "--workdir", WORKSPACE,
        "--env", f"HOME={DEFAULT_HOME}",  # another one is a value of sandbox_env and exported with them
        *(item for variable in _NO_PROXIES for item in ("--env", variable)),
        "--entrypoint", "sh", "--", spec.image_id, "-c", scripts.KEEP_ALIVE,
    )  # fmt: skip


def exec_argv(name: str, *, user: str, script: str, args: tuple[str, ...] = (), call: str = "") -> tuple[str, ...]:
    """Return the arguments after `docker` that run `script` with positional `args`, stdin attached.

    `call` marks every process that the script starts, through its environment, so that they can
    be found again (scripts.STOP).
    """
    mark = ("--env", f"{scripts.CALL_VARIABLE}={call}") if call else ()
    return ("exec", "--interactive", "--user", user, *mark, name, "sh", "-c", script, "sh", *args)


def bind_option(mount: Mount) -> str:
    """Return the `--mount` value for a bind mount of any path, whatever characters it holds.

    Only the folder itself: what is mounted somewhere below it is not the project's (/proc of a chroot), and
    would stay writable where the folder is read-only (F4, A6). The word alone is what every client since 19.03
    and podman take; `bind-recursive=disabled` is unknown to older ones, and `=true` warned of by newer ones.

    The option is one line of CSV: quoting the whole field, with inner quotes doubled, carries
    commas, quotes, colons, blanks and line ends (measured on engines 20.10 to 29).
    """
    source, target = (path.replace('"', '""') for path in (mount.source, mount.target))
    readonly = ",readonly" if mount.readonly else ""
    return f'type=bind,"source={source}","target={target}"{readonly},bind-nonrecursive'


def cover_option(target: str) -> str:
    """Return the `--mount` value for an empty folder at `target` that nothing can be written into.

    Of a tmpfs podman knows `ro` and not `readonly` (M-30); Docker knows both.
    """
    quoted = target.replace('"', '""')
    return f'type=tmpfs,"target={quoted}",ro'


def volumes_in_memory(spec: SandboxSpec) -> tuple[str, ...]:
    """Return the image's volumes that lie in a tmpfs: they become one with its options, or programs could run there."""
    folders = ("/tmp/", f"{ATTACHMENTS}/", f"{SHARED_MEMORY}/")
    return tuple(path for path in spec.image_volumes if path.startswith(folders))


def tmpfs_mounts(spec: SandboxSpec) -> tuple[tuple[str, str], ...]:
    """Return where the container has memory in place of a disk, each with its options.

    What they say of a size is compared after the start (container/verify.py).
    /dev/shm is as Docker makes it, with a bound on its files as well; podman makes its own, and refuses another.
    """
    own = tmpfs_options(spec)
    shared = f"rw,noexec,nosuid,nodev,mode=1777{_bounds(spec, _SHARED_MEMORY_BYTES)}"
    return (
        ("/tmp", own),
        *(((ATTACHMENTS, own),) if spec.attachments else ()),
        *((path, own) for path in volumes_in_memory(spec)),
        *(((SHARED_MEMORY, shared),) if not spec.engine.podman else ()),
    )


def tmpfs_options(spec: SandboxSpec) -> str:
    """Return the options of the tmpfs on /tmp: no programs, no setuid, bounded, writable for the commands' user.

    Without a size a command could fill half of the machine's memory, without a number of files as much
    again with empty ones (a kilobyte of the kernel's memory each), until the sandbox ends.

    runc 1.1 gives the tmpfs the mode that /tmp has in the image and ignores `mode=`; owning it
    makes it writable all the same. A user known only by name cannot be put in here, and podman
    refuses owners.
    """
    uid, _, gid = ("", "", "") if spec.engine.podman else spec.user.partition(":")
    owner = f",uid={uid}" if uid.isdigit() else ""
    group = f",gid={gid}" if gid.isdigit() else ""
    return f"rw,noexec,nosuid,nodev,mode=1777{_bounds(spec, spec.limits.tmp_bytes)}{owner}{group}"


def remove_argv(*names: str) -> tuple[str, ...]:
    return ("rm", "--force", "--volumes", "--", *names)


def list_by_label_argv(label: str, template: str) -> tuple[str, ...]:
    """Return the arguments that list all containers, running or not, that carry `label`."""
    return ("ps", "--all", "--no-trunc", "--filter", f"label={label}", "--format", template)


def list_networks_argv(*, project: str = "") -> tuple[str, ...]:
    """Return the arguments that list networks, a JSON array each: full ID, name, driver, scope.

    All of them, or those of a Compose project: the filter compares the whole value, and `project` has
    passed parse_compose_project.
    """
    of_project = ("--filter", f"label={PROJECT_LABEL}={project}") if project else ()
    return ("network", "ls", "--no-trunc", "--format", _LISTED_NETWORK, *of_project)


def connect_argv(network_id: str, container: str) -> tuple[str, ...]:
    """Return the arguments that connect a running container, without any alias (R-54)."""
    return ("network", "connect", "--", network_id, container)


def pull_argv(ref: str) -> tuple[str, ...]:
    return ("pull", "--", ref)


def build_argv(
    folder: str, *, tag: str, labels: tuple[tuple[str, str], ...], id_file: str, network: bool, no_cache: bool
) -> tuple[str, ...]:
    """Return the arguments that build the Dockerfile given on stdin, with `folder` as its context (R-36).

    The client writes the ID of the image to `id_file`, with either builder. Flags of one builder
    only are left out: the other refuses them.
    """
    return (
        "build", "--file", "-", "--tag", tag, *(item for label in labels for item in ("--label", "=".join(label))),
        "--iidfile", id_file,
        "--pull=false", "--force-rm",
        *(() if network else ("--network", "none")),
        *(("--no-cache",) if no_cache else ()),
        *(item for variable in _NO_PROXIES for item in ("--build-arg", variable)),
        "--", folder,
    )  # fmt: skip


def save_argv(ref: str, path: str) -> tuple[str, ...]:
    return ("save", "--output", path, "--", ref)


def tag_argv(image_id: str, ref: str) -> tuple[str, ...]:
    return ("tag", "--", image_id, ref)


def _sealing(spec: SandboxSpec) -> tuple[str, ...]:
    """Return what keeps a container without the internet from it by name or by IPv6.

    Docker's resolver forwards what it does not know to the host's, from an internal network too where that
    one listens on a loopback address (engines before 25.0.5), and resolv.conf names it. 0.0.0.0 is the
    container itself, where nothing answers; for 127.0.0.1 the client prints a warning. podman refuses it.
    """
    if spec.networks.internet or spec.engine.podman:
        return ()
    ipv6 = ("--sysctl", "net.ipv6.conf.all.disable_ipv6=1") if spec.networks.disables_ipv6 else ()
    return ("--dns", NO_RESOLVER, "--dns-search", ".", *ipv6)


def _bounds(spec: SandboxSpec, size: int) -> str:
    """Return the options that bound a tmpfs: one file for each page of it, as many as most programs ever make."""
    files = "" if spec.engine.podman else f",nr_inodes={max(size // _PAGE_BYTES, 1024)}"
    return f",size={size}{files}"


def _memory_flags(memory_bytes: int | None) -> tuple[str, ...]:
    if memory_bytes is None:
        return ()
    # without --memory-swap as much swap again would be allowed on top
    return ("--memory", str(memory_bytes), "--memory-swap", str(memory_bytes))


def _cpu_flags(nano_cpus: int | None) -> tuple[str, ...]:
    return () if nano_cpus is None else ("--cpus", f"{nano_cpus / 1e9:.9f}".rstrip("0").rstrip("."))
