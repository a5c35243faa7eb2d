# Attacks the sandbox from inside, as a command of the model would (see probes.py, which puts the settings before
# this text and the system calls behind it). POSIX sh and its builtins wherever they suffice; where a program is
# needed and the image lacks it, the probe is skipped: a program that is missing must not look like a refusal. One line for each probe: ID, tab, ok|OPEN|info|skip or the errno of a system call, tab, what was seen.
LC_ALL=C
export LC_ALL
umask 077
work=/workspace

report() { # ID VERDICT SEEN
    printf '%s\t%s\t%s\n' "$1" "$2" "$(set -f; set -- $3; printf %s "$*")"
}
there() { command -v "$1" >/dev/null 2>&1; }
equal() { # ID FOUND EXPECTED
    if [ "$2" = "$3" ]; then report "$1" ok "$2"; else report "$1" OPEN "$2, not $3"; fi
}
closed() { # ID COMMAND…: the command must fail
    id=$1
    shift
    out=$("$@" 2>&1 </dev/null)
    case $? in
    0) report "$id" OPEN "worked: $*" ;;
    127) report "$id" skip "no $1 in the image" ;;
    *) report "$id" ok "${out##*: }" ;;
    esac
}
unwritable() { # ID FILE TEXT
    if [ ! -e "$2" ]; then
        report "$1" ok "no $2"
    elif out=$( (printf %s "$3" >"$2") 2>&1); then
        report "$1" OPEN "wrote to $2"
    else
        report "$1" ok "${out##*: }"
    fi
}
unreadable() { # ID FILE [VERDICT when it gives something]
    if [ ! -e "$2" ]; then
        report "$1" ok "no $2"
    elif { IFS= read -r content || [ -n "$content" ]; } 2>/dev/null <"$2"; then
        report "$1" "${3:-OPEN}" "$2 can be read"
    else
        report "$1" ok "$2 gives nothing"
    fi
}
status_of() { # FIELD of /proc/self/status, as this shell has it
    while read -r key value; do
        [ "$key" = "$1:" ] && { echo "$value"; return; }
    done <"/proc/$$/status"
}
options_of() { # MOUNT POINT: its mount options, those of the file system behind them
    found=
    while read -r _ _ _ _ point options rest; do
        [ "$point" = "$1" ] && found="$options,${rest##* }"
    done </proc/self/mountinfo
    echo "$found"
}

# --- rights
for pair in CapInh:inheritable CapPrm:permitted CapEff:effective CapBnd:bounding CapAmb:ambient; do
    equal "cap.${pair#*:}" "$(status_of "${pair%:*}")" 0000000000000000
done
equal no_new_privs "$(status_of NoNewPrivs)" 1
equal seccomp.mode "$(status_of Seccomp)" 2
uid=$(set -- $(status_of Uid); echo "$1")
gid=$(set -- $(status_of Gid); echo "$1")
report user.id info "uid $uid, gid $gid"
equal user.groups "$(set -- $(status_of Groups); echo "${*:-$gid}")" "$gid"
if there find; then
    report user.setuid info "$(find / -xdev -type f \( -perm -4000 -o -perm -2000 \) 2>/dev/null)"
else
    report user.setuid skip "no find in the image"
fi

# --- devices and the kernel's files
found=
for entry in /dev/*; do
    case ${entry#/dev/} in
    null | zero | full | random | urandom | tty | ptmx | pts | shm | mqueue | fd | stdin | stdout | stderr | core | console) ;;
    *) found="$found $entry" ;;
    esac
done
equal dev.unexpected "${found:-none}" none
if there find; then
    found=$(find / -xdev -type b 2>/dev/null)
    equal dev.block "${found:-none}" none
else
    report dev.block skip "no find in the image"
fi
closed dev.mknod mknod "/tmp/.odek-probe-$$" c 1 3
unreadable dev.kmsg /dev/kmsg
unreadable dev.mem /dev/mem
unreadable proc.kcore /proc/kcore
unreadable proc.keys /proc/keys
unreadable proc.timer_list /proc/timer_list
unreadable proc.sched_debug /proc/sched_debug
unreadable proc.scsi /proc/scsi/scsi
found=
for entry in /proc/acpi/*; do [ -e "$entry" ] && found="$found ${entry##*/}"; done
equal proc.acpi "${found:-empty}" empty
unwritable proc.sysrq /proc/sysrq-trigger ''
unwritable sysctl.domainname /proc/sys/kernel/domainname "$(cat /proc/sys/kernel/domainname)"
unwritable sysctl.core_pattern /proc/sys/kernel/core_pattern "$(cat /proc/sys/kernel/core_pattern)"
unwritable sysctl.modprobe /proc/sys/kernel/modprobe "$(cat /proc/sys/kernel/modprobe 2>/dev/null)"
unwritable sysctl.binfmt /proc/sys/fs/binfmt_misc/register ''
unwritable sysfs.uevent_helper /sys/kernel/uevent_helper ''
found=
for entry in /sys/fs/cgroup/release_agent /sys/fs/cgroup/*/release_agent; do
    [ -e "$entry" ] && (printf '' >>"$entry") 2>/dev/null && found="$found $entry"
done
equal cgroup.release_agent "${found:-none}" none
found=
for entry in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do
    [ -e "$entry" ] && (printf '%s' $$ >>"$entry") 2>/dev/null && found="$found $entry"
done
equal cgroup.procs "${found:-none}" none
found=
for entry in /sys/fs/cgroup /sys/fs/cgroup/pids /sys/fs/cgroup/memory; do
    there mkdir && [ -d "$entry" ] && mkdir "$entry/odek-probe-$$" 2>/dev/null || continue
    # with control groups v1, newer runtimes leave the tmpfs that holds them writable: an empty folder there is no group
    [ ! -e "$entry/odek-probe-$$/cgroup.procs" ] || found="$found $entry"
    rmdir "$entry/odek-probe-$$"
done
equal cgroup.mkdir "${found:-none}" none
found=
while IFS=: read -r _ _ group; do
    case $group in / | "") ;; *) found="$found $group" ;; esac
done <"/proc/$$/cgroup"
equal cgroup.namespace "${found:-none}" none

# --- limits
closed limits.ulimit sh -c 'ulimit -H -n 99999999'
closed limits.nice renice -n -5 -p $$
closed limits.oom sh -c 'echo -900 >/proc/self/oom_score_adj'
equal limits.core "$(ulimit -c)" 0
first_of() { # the first of these files that can be read
    for entry; do
        [ -r "$entry" ] && read -r value rest <"$entry" && { echo "$value"; return; }
    done
}
pids=$(first_of /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max)
memory=$(first_of /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes)
cpu=$(first_of /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu/cpu.cfs_quota_us)
case $pids in
"") report limits.pids skip "the control group cannot be read" ;;
max) report limits.pids OPEN "no limit" ;;
*) report limits.pids ok "$pids" ;;
esac
case $memory in
max | 9223372036* | "")
    memory=
    if [ -n "$memory_asked" ]; then
        report limits.memory OPEN "no limit is seen"
    else
        report limits.memory info "none: all of this machine's memory"
    fi
    ;;
*) report limits.memory ok "$memory bytes" ;;
esac
case $cpu in
max | -1 | "")
    cpu=
    if [ -n "$cpu_asked" ]; then report limits.cpu OPEN "no limit is seen"; else report limits.cpu info none; fi
    ;;
*) report limits.cpu ok "$cpu µs of each period" ;;
esac

# --- file systems in memory
runs_from() { # ID FOLDER: no program may run from there
    file=$2/.odek-probe-$$
    printf '#!/bin/sh\nexit 42\n' 2>/dev/null >"$file" && chmod 700 "$file"
    "$file" >/dev/null 2>&1
    code=$?
    rm -f "$file"
    case $code in
    126) report "$1" ok "permission denied" ;;
    42) report "$1" OPEN "a program ran" ;;
    *) report "$1" ok "nothing can be written there ($code)" ;;
    esac
}
for place in tmp shm; do
    point=/tmp
    [ $place = tmp ] || point=/dev/shm
    options=$(options_of $point)
    runs_from "$place.noexec" "$point"
    for word in nosuid nodev; do
        case ,$options, in *,$word,*) report "$place.$word" ok "$word" ;; *) report "$place.$word" OPEN "$options" ;; esac
    done
    case ,$options, in
    *,size=*)
        size=${options#*size=}
        report "$place.size" ok "${size%%,*}"
        [ $place = shm ] || tmp_size=${size%%,*}
        ;;
    *) report "$place.size" OPEN "no size: half of this machine's memory" ;;
    esac
    [ $place = shm ] && continue
    case ,$options, in
    *,nr_inodes=*)
        size=${options#*nr_inodes=}
        report tmp.inodes ok "${size%%,*} files"
        ;;
    *) report tmp.inodes OPEN "no number" ;;
    esac
done
found=
for entry in / /etc /usr /bin /var /root /home /run /opt /srv; do
    [ -d "$entry" ] && (: >"$entry/.odek-probe-$$") 2>/dev/null && rm -f "$entry/.odek-probe-$$" && found="$found $entry"
done
report image.writable info "${found:-none}"
found=
for entry in /etc/passwd /etc/hosts /etc/resolv.conf /etc/hostname /etc/group; do
    (: >>"$entry") 2>/dev/null && found="$found $entry"
done
if [ "$uid" = 0 ]; then report image.etc info "commands are root in the container: ${found:-none}"; else equal image.etc "${found:-none}" none; fi

# --- processes
read -r first </proc/1/comm
case $first in
docker-init | tini | catatonit | podman-init | sh) report host.pids ok "1 is $first" ;;
*) report host.pids OPEN "1 is $first" ;;
esac
keeper=
for entry in /proc/[0-9]*; do
    number=${entry#/proc/}
    [ "$number" = 1 ] && continue
    owner=$(while read -r key value rest; do [ "$key" = Uid: ] && echo "$value"; done 2>/dev/null <"$entry/status")
    [ -n "$owner" ] && [ "$owner" != "$uid" ] && keeper=$number && break
done
closed keepalive.init kill -0 1
if [ -n "$keeper" ]; then
    closed keepalive.signal kill -0 "$keeper"
    closed keepalive.memory sh -c ': <"/proc/$1/mem"' sh "$keeper"
    closed keepalive.environ sh -c ': <"/proc/$1/environ"' sh "$keeper"
    closed keepalive.root sh -c 'cd -P "/proc/$1/root"' sh "$keeper"
    closed keepalive.descriptors sh -c 'cd -P "/proc/$1/fd"' sh "$keeper"
else
    for name in signal memory environ root descriptors; do
        report "keepalive.$name" OPEN "it runs as the commands' user"
    done
fi
# the wrapper of a command may hold pipes of its own; files, folders, sockets and devices are none of its business
found=
for entry in /proc/$$/fd/*; do
    case ${entry##*/} in 0 | 1 | 2) continue ;; esac
    if [ -f "$entry" ] || [ -d "$entry" ] || [ -S "$entry" ] || [ -b "$entry" ]; then found="$found ${entry##*/}"; fi
done
equal descriptors "${found:-none}" none

# --- mounts
unexpected= below= shared=
while read -r _ _ _ root point options rest; do
    case $point in
    "$work" | "$work"/*) case " ${rest%% - *} " in *" shared:"* | *" master:"*) shared="$shared $point" ;; esac ;;
    esac
    type=${rest#*- }
    type=${type%% *}
    case $point in
    "$work") path=$root ;;
    "$work"/*) below="$below $point" ;;
    esac
    case $type in overlay | proc | sysfs | tmpfs | devpts | mqueue | cgroup | cgroup2 | fuse-overlayfs | btrfs | zfs | aufs) continue ;; esac
    case $point in / | "$work" | /etc/resolv.conf | /etc/hostname | /etc/hosts | /proc/* | /sbin/docker-init | /dev/init | /run/podman-init | /run/.containerenv | /dev/console) ;;
    *) case " $volumes" in *" $point "*) ;; *) unexpected="$unexpected $point" ;; esac ;;
    esac
done </proc/self/mountinfo
equal mounts.unexpected "${unexpected:-none}" none
equal mounts.below "${below:-none}" none
equal mounts.propagation "${shared:-none}" none
report workspace.path info "${path:-unknown}"
report workspace.options info "$(options_of "$work")"
if [ -n "$readonly" ]; then
    unwritable_folder=$work/.odek-probe-$$
    if (: >"$unwritable_folder") 2>/dev/null; then
        rm -f "$unwritable_folder"
        report workspace.readonly OPEN "a file was made"
    else
        report workspace.readonly ok "read-only"
    fi
else
    report workspace.readonly skip "the workspace is writable, as asked for"
fi
if [ -S /var/run/docker.sock ] || [ -S /run/docker.sock ]; then report docker.socket OPEN there; else report docker.socket ok "not there"; fi
if there find; then
    found=$(find / -xdev -type s 2>/dev/null; find /run /tmp "$work" -maxdepth 3 -type s 2>/dev/null)
    equal sockets.files "${found:-none}" none
else
    report sockets.files skip "no find in the image"
fi

# --- network
if [ -n "$networks" ]; then
    names=
    for entry in /sys/class/net/*; do names="$names ${entry##*/}"; done
    report net.interfaces info "a network was asked for:$names"
    routes=
    while read -r device target _; do
        [ "$device" = Iface ] || routes="$routes $target@$device"
    done </proc/net/route
    report net.routes info "the routes allow:$routes"
    report net.ipv6 info "see the routes"
    report net.resolver info "$(cat /etc/resolv.conf 2>/dev/null)"
    report net.connect skip "a network was asked for: nothing is sent"
else
    names=
    for entry in /sys/class/net/*; do names="$names ${entry##*/}"; done
    equal net.interfaces "$names" " lo"
    routes=
    while read -r device target _; do
        [ "$device" = Iface ] || routes="$routes $target@$device"
    done </proc/net/route
    equal net.routes "${routes:-none}" none
    routes=
    if [ -r /proc/net/ipv6_route ]; then
        while read -r _ _ _ _ _ _ _ _ _ device; do
            [ "${device##* }" = lo ] || routes="$routes ${device##* }"
        done </proc/net/ipv6_route
    fi
    equal net.ipv6 "${routes:-none}" none
    found=
    while read -r key value _; do
        case $key in
        nameserver) case $value in 127.* | ::1 | 0.0.0.0) ;; *) found="$found $value" ;; esac ;;
        search) [ "$value" = . ] || found="$found $value" ;;
        esac
    done </etc/resolv.conf
    equal net.resolver "${found:-none}" none
    if ! there nc; then
        report net.connect skip "no nc in the image; there is no route"
    elif nc -w 1 192.0.2.1 9 </dev/null >/dev/null 2>&1; then
        report net.connect OPEN "192.0.2.1 answered"
    else
        report net.connect ok "no way to 192.0.2.1"
    fi
fi
found=
while read -r _ _ _ _ _ _ _ path; do
    case $path in @*) found="$found $path" ;; esac
done </proc/net/unix
equal net.unix "${found:-none}" none

# --- environment, and what can be learnt of the host
found=$(
    export -p | while read -r _ name; do
        name=${name#-x }
        case $name in *=\'\' | *=\"\" | *= | *[!A-Za-z0-9_=]*=*) continue ;; esac
        case ${name%%=*} in
        *[Kk][Ee][Yy] | *[Tt][Oo][Kk][Ee][Nn]* | *[Ss][Ee][Cc][Rr][Ee][Tt]* | *[Pp][Aa][Ss][Ss][Ww]* | *[Cc][Rr][Ee][Dd][Ee][Nn][Tt]*)
            printf ' %s' "${name%%=*}"
            ;;
        esac
    done
)
equal env.secrets "${found:-none}" none
found=
for entry in HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY http_proxy https_proxy ftp_proxy all_proxy; do
    eval "value=\${$entry-}"
    [ -z "$value" ] || found="$found $entry"
done
equal env.proxies "${found:-none}" none
unreadable leak.dmi /sys/class/dmi/id/product_name info
unreadable leak.modules /proc/modules info
unreadable leak.partitions /proc/partitions info
read -r value </proc/version
report kernel info "${value%% (*}"

# --- the limits, reached
if [ -n "$hit_limits" ]; then
    case $pids in
    max | "") report hit.pids skip "no limit" ;;
    *)
        if ! there sleep; then
            report hit.pids skip "no sleep in the image"
        elif [ "$pids" -gt 1024 ]; then
            report hit.pids skip "a limit of $pids takes too long to reach"
        else
            (
                number=0
                while [ $number -le "$pids" ]; do
                    sleep 2 &
                    number=$((number + 1))
                done
            ) >/dev/null 2>&1
            refused=$?
            current=$(first_of /sys/fs/cgroup/pids.current /sys/fs/cgroup/pids/pids.current)
            sleep 3
            if [ $refused != 0 ] || [ "$current" -le "$pids" ]; then
                report hit.pids ok "stopped at $current of $pids"
            else
                report hit.pids OPEN "$current processes"
            fi
        fi
        ;;
    esac
    if [ -z "$memory" ]; then
        report hit.memory skip "no limit"
    elif ! there head || ! there tail; then
        report hit.memory skip "no head or tail in the image"
    elif [ "$memory" -gt 536870912 ]; then
        report hit.memory skip "a limit of $memory bytes takes too long to reach"
    else
        (head -c $((memory * 2)) /dev/zero | tail -c $((memory * 2)) >/dev/null) 2>/dev/null
        code=$?
        case $code in
        0) report hit.memory OPEN "$((memory * 2)) bytes were held" ;;
        *) report hit.memory ok "ended with $code" ;;
        esac
    fi
    throttled() { there sed && sed -n 's/^nr_throttled //p' /sys/fs/cgroup/cpu.stat /sys/fs/cgroup/cpu/cpu.stat 2>/dev/null; }
    if [ -z "$cpu" ]; then
        report hit.cpu skip "no limit"
    else
        before=$(throttled)
        for _ in 1 2 3 4; do
            (number=0; while [ $number -lt 200000 ]; do number=$((number + 1)); done) &
        done
        wait
        after=$(throttled)
        if [ "${after:-0}" -gt "${before:-0}" ]; then
            report hit.cpu ok "slowed down $((after - before)) times"
        else
            report hit.cpu info "not reached: this machine was too busy"
        fi
    fi
    tmp_kib=0
    case ${tmp_size-} in *k) tmp_kib=${tmp_size%k} ;; esac
    if [ "$tmp_kib" = 0 ]; then
        report hit.tmp OPEN "no size"
    elif [ -n "$memory" ] && [ "$tmp_kib" -gt $((memory / 1024 / 4 * 3)) ]; then
        report hit.tmp skip "the memory limit is reached before /tmp is full"
    elif (cat /dev/zero >"/tmp/.odek-probe-$$") 2>/dev/null; then
        report hit.tmp OPEN "no end"
    else
        report hit.tmp ok "full at $(wc -c <"/tmp/.odek-probe-$$" 2>/dev/null || echo some) bytes"
    fi
    rm -f "/tmp/.odek-probe-$$"
fi

# --- system calls: a program of its own for each, written over the one before
program=$work/.odek-probe-$$
runnable=
if [ -z "$readonly" ] && there chmod && there rm && : 2>/dev/null >"$program"; then
    chmod 700 "$program" && runnable=1
fi
runs() { # PROGRAM (as escapes of printf): whether it is one of this machine's
    [ -n "$runnable" ] && printf "$1" >"$program" && "$program" >/dev/null 2>&1 </dev/null
}
try_call() { # ID PROGRAM (as escapes of printf)
    if [ -z "$runnable" ]; then
        report "$1" skip "no program can be put into the workspace"
        return
    fi
    printf "$2" >"$program"
    "$program" >/dev/null 2>&1 </dev/null
    printf '%s\t%s\t\n' "$1" $?
}
no_call() { report "$1" skip "no program for this processor can be run from the workspace"; }
finish() { [ -z "$runnable" ] || rm -f "$program"; }
