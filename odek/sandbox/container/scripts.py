"""The shell scripts that run inside the container, and how text is sent to them. POSIX sh: ash, dash, bash.

RUN wraps everything else that is run: shell texts and file scripts come to it on stdin. A docker client
that is killed while it writes looks, inside, like the end of its input. So the header of what is sent ends
in a line of the call's own, a long text ends in it as well, and content comes with its size: nothing runs,
and no file is replaced, before the last byte has arrived.

STOP uses builtins only: it must work when the process limit is reached and nothing can fork. A long text
needs `cat`, which CHECK makes sure of, and the file scripts the usual file programs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from odek.sandbox_grammar import CALL_VARIABLE as CALL_VARIABLE

READY = "odek-ready"

# The container's main process, as the helper user: says that it runs, then waits for the end of
# its input, which comes when odek is gone. `read` is a builtin: no `sleep`, no `cat` is needed.
KEEP_ALIVE = f"echo {READY}; while read -r _; do :; done"

CHECKED_WORD = "checked"
"""the word in front of the exit status of CHECK, where RUN goes on behind it"""
READY_WORD, HERE_WORD = "ready", "here"
"""the words with which RUN waits"""
CUT, RESTARTED = "cut", "restarted"
"""the words with which RUN refuses"""
UNRUN = "unrun"
"""the word with which RUN ends when no process could be made for a text"""

REPORT_TRIES = 500_000  # of ten microseconds

CHECKED = 42
# $1: name of the nonce file, $2: inode of the workspace where no such file could be made, then for each
# volume that odek cannot prove from outside its place below the workspace, its target, and the name of a
# file that must be there, or "". Stdin: HOME of the commands, which may be a secret, a line end, and
# a line "#$1": read by a builtin, which leaves what comes behind it. A HOME below a tmpfs or the workspace is made:
# the image cannot have brought it.
# Says what is true inside, as the commands' user, and leaves with 42. `[ -w ]` would not do: to some
# shells root may write everywhere, also without its capabilities and on a read-only mount. odek removes
# the file that the attempt leaves in the workspace; in a folder that is another one, it could not, so none is made.
# A volume is what was checked if it is the same file as the one in the workspace and holds that file:
# Docker goes by names, and a folder can be exchanged for a link between check and mount, and back again.
CHECK = """\
lf='
'
IFS= read -r HOME || exit 1
while IFS= read -r line || exit 1; [ "$line" != "#$1" ]; do HOME=$HOME$lf$line; done
command -v cat >/dev/null || { echo missing=cat; exit 1; }
lines=$1$lf.$1
[ "$(cat <<end
$lines
end
)" = "$lines" ] || { echo broken=cat; exit 1; }
read -r line </proc/1/stat && echo "init=${line##*) }"
seen=
[ -e "/workspace/$1" ] && seen=1
[ -n "$2" ] && case " $(ls -di /workspace </dev/null)" in *" $2 "*) seen=1 ;; esac
attempt() { true 2>/dev/null >"$1" && echo "$2=writable"; }
if [ "$seen" ]; then
  case $HOME in /tmp/*|/dev/shm/*|/workspace/*) [ -d "$HOME" ] || mkdir -p -- "$HOME" 2>/dev/null </dev/null ;; esac
fi
if attempt "$HOME/.odek-$1" home; then rm -f "$HOME/.odek-$1" </dev/null
elif [ -d "$HOME" ]; then echo nohome=closed
elif [ -e "$HOME" ]; then echo nohome=file
else echo nohome=missing
fi
[ -d /dev/shm ] && [ -w /dev/shm ] && echo spare=writable
[ "$seen" ] && echo nonce=seen && attempt "/workspace/$1.w" workspace
while read -r key id rest; do
  case $key in Uid:) echo "uid=$id" ;; Gid:) echo "gid=$id" ;; esac
done </proc/self/status
while read -r to length _ _ _ _ _ _ _ device; do
  case $to$length in 0000000000000000000000000000000000) [ "$device" = lo ] || echo "ipv6=$device" ;; esac
done 2>/dev/null </proc/net/ipv6_route
shift 2
number=0
while [ $# -gt 2 ]; do
  number=$((number + 1))
  [ "/workspace/$1" -ef "$2" ] && { [ -z "$3" ] || [ -e "$2/$3" ]; } && echo "volume$number=same"
  shift 3
done
exit 42
"""

# $1: mark of the call, $2: when the container's first process started (proc(5), stat field 22), "" when
# that is not known. Says "MARK ready" and waits, also ahead of its time (spares.py): a line "?" is answered with
# "MARK here". What comes then is a header in shell words of any length, `end=NONCE` and `set -- KIND UMASK TEXT …`,
# closed by the line "#MARK", and what KIND says (pack_text, pack_script). `read` is a builtin, so the header needs no
# process, and a wrapper that waits is one process; what comes without its end is not run. Where a script has not read
# all that it was sent, the rest is read before the end, or podman may lose what was said (M-35).
#   joint, apart    TEXT runs with /dev/null as its stdin, its stderr joined to its stdout or apart
#   joint…, apart…  (with "-long") the same, but TEXT is the rest of stdin and ends in "#MARK": beyond a
#                   few kilobytes `cat` is quicker than `read`
#   file, pipe      TEXT runs with the words behind it as its arguments, and with the rest of stdin
# TEXT runs in a subshell. Lines of ours begin with a line end of their own. "MARK cut" or "MARK restarted" on stderr:
# nothing was run. "NONCE began TICKS PID" on stdout: the subshell of this shell, PID, has started then. "NONCE
# STATUS" or "NONCE unrun" without it: no process could be made (bash goes on, other shells end). "NONCE STATUS", on
# stdout and, but for joint, on stderr as well: TEXT has ended. A stream keeps its order, so whatever TEXT printed has
# arrived before that line, even though a child that was left behind may still hold the output open (R-40, B02). For a
# pipe, all of them come on stderr. The mark is public in the container; the nonce comes with the text and is known to
# this shell alone. A command may have left its stdout non-blocking and full, so the last line is tried again until it
# is taken, for some seconds. A pipe takes such a line as a whole or not at all, but bash writes the line end in front
# by itself: there it is tried by itself, so that none comes twice.
# TEXT comes on stdin and is evaluated, not passed as an argument: one ends at 128 KiB (B14) and is public.
_MARKED = """\
mark=$1 init=$2 header= line= lf='
'
"""
_WAIT = f"""\
say() {{ echo "$lf$mark $1" >&2; }}
refuse() {{ say "$1"; exit 125; }}
field() {{ set -- ${{line##*) }}; ticks=${{20}}; }}
put() {{ until echo "$1" 2>/dev/null || [ $((line += 1)) -ge {REPORT_TRIES} ]; do :; done; }}
report() {{
  line=0
  case ${{BASH_VERSION-}} in ?*) put "" && put "$end $1" ;; *) put "$lf$end $1" ;; esac
}}
say {READY_WORD}
IFS= read -r line || refuse {CUT}
while [ "$line" = "?" ]; do
  say {HERE_WORD}
  IFS= read -r line || refuse {CUT}
done
while [ "$line" != "#$mark" ]; do
  header="$header$line$lf"
  IFS= read -r line || refuse {CUT}
done
if [ -n "$init" ]; then
  read -r line </proc/1/stat
  field
  [ "$ticks" = "$init" ] || refuse {RESTARTED}
fi
eval "$header"
header=
umask "$2"
exec 9>&1
case $1 in pipe) exec 9>&2 ;; esac
trap 'echo "$lf$end {UNRUN}" >&9' EXIT
case $1 in
  *-long)
    set -- "$1" "$2" "$(cat; echo x)"
    line=${{3%"#${{mark}}x"}}
    [ "$line" != "$3" ] || refuse {CUT}
    set -- "$1" "$2" "$line"
    line= ;;
esac
case $1 in joint*) exec 2>&1 ;; esac
case $1 in file|pipe) ;; *) exec </dev/null ;; esac
(
  trap - EXIT
  read -r line </proc/self/stat
  field
  echo "$lf$end began $ticks $$" >&9
  exec 9>&-
  unset -f say refuse field put report
  unset mark init header line lf ticks end
  eval "shift 3
$3"
)
status=$?
trap - EXIT
report $status >&9
case $1 in joint*|pipe) ;; *) report $status >&2 ;; esac
case $1$status in file0) ;; file*) cat >/dev/null 2>&1 ;; esac
exit $status
"""
RUN = _MARKED + _WAIT

# The first exec of a container, which does the work of two: $1, $2 and what comes last are those of RUN, the arguments
# from $3 on and the first lines of stdin those of CHECK. "MARK checked STATUS" on stdout: CHECK has ended.
CHECK_AND_RUN = f"""\
{_MARKED}(
shift 2
{CHECK}) 2>&1
echo "$lf$mark {CHECKED_WORD} $?"
{_WAIT}"""

# $1: file with the variables, $2: umask, then the command. For a person at a terminal.
SHELL = f"""\
umask "$2"
. "$1" 2>/dev/null
rm -f "$1"
unset {CALL_VARIABLE}
shift 2
exec "$@"
"""

# $1: mark of the call, $2: marks of other calls, $3: when the call began, in ticks, and its wrapper; "": not known,
# $4: not "" to leave orphans without a mark alone, as for a call that lasts longer than others.
# Stops every process of the call: those that carry its mark in their environment; those in the
# session of one that does (`env -i`); and orphans that are younger than the call and carry no mark
# (`env -i setsid`) or one that odek never gave out. What was there before the call, and what carries
# another call's mark, lives on: servers. Of what was there before, only the wrapper can be the call's; the
# environments of the others are not read, which takes a moment for each, and there may be hundreds. The name of a
# process may hold line ends and parentheses, and a zombie with more than one thread is a program whose main
# thread has ended. What still breeds after 0.2 s and six rounds, or after three seconds, is a fork bomb and ends with
# everything else of this user: the killed take a moment to die, and hundreds take a second to be looked at on a
# busy machine.
# Leaves with 0 when only the call was stopped, with 3 when everything was.
STOP = f"""\
variable={CALL_VARIABLE}
mark=$1 others=$2 began=${{3%% *}} wrapper= spared=${{4-}}
case $3 in *" "*) wrapper=${{3#* }} ;; esac
any= rest=$mark
while [ -n "$rest" ]; do any="$any?"; rest=${{rest#?}}; done
look() {{
  pid=${{1#/proc/}}
  [ "$pid" = "$$" ] && return 1
  line=
  while read -r part; do line="$line $part"; done 2>/dev/null <"$1/stat"
  set -- ${{line##*) }}
  state=$1 parent=$2 session=$4 threads=${{18}} born=${{20}}
  [ -n "$born" ] || return 1
  [ "$state" = Z ] && [ "$threads" -le 1 ] && return 1
  kill -0 "$pid" 2>/dev/null || return 1
  kind=unknown
  if [ -n "$began" ] && [ "$born" -lt "$began" ]; then
    kind=older
    case $wrapper in ""|"$pid") ;; *) return 0 ;; esac
  fi
  environment=
  while IFS= read -r environment || [ -n "$environment" ]; do
    case $environment in
      *"$variable=$mark"*) kind=ours; break ;;
      *"$variable="*)
        value=${{environment#*"$variable="}}
        value=${{value%"${{value#$any}}"}}
        case " $others " in *" ${{value:-/}} "*) kind=older; break ;; esac ;;
    esac
    environment=
  done 2>/dev/null <"/proc/$pid/environ"
  return 0
}}
after() {{ read -r uptime _ </proc/uptime; [ "${{uptime%.*}}${{uptime#*.}}" -gt $((start + $1)) ]; }}
sessions=" " round=0
read -r uptime _ </proc/uptime
start=${{uptime%.*}}${{uptime#*.}}
while {{ [ $round -lt 6 ] || ! after 20; }} && ! after 300; do
  round=$((round + 1))
  found= unknown=
  for entry in /proc/[0-9]*; do
    after 300 && break
    look "$entry" || continue
    case $kind in
      ours) found="$found $pid" sessions="$sessions$session " ;;
      unknown) unknown="$unknown $pid:$session:$parent" ;;
    esac
  done
  for entry in $unknown; do
    pid=${{entry%%:*}} parent=${{entry##*:}} session=${{entry#*:}}
    case $sessions in
      *" ${{session%:*}} "*) found="$found $pid" ;;
      *) [ "$parent" = 1 ] && [ -z "$spared" ] && found="$found $pid" ;;
    esac
  done
  [ -z "$found" ] && ! after 300 && exit 0
  kill -KILL $found 2>/dev/null
done
kill -KILL -1
exit 3
"""

STOP_ALL = "kill -KILL -1; exit 3"
STOPPED_ALL = 3

# The file scripts walk a path one component at a time: `cd -P` pins each folder, so what is checked
# is what is used, and a link that is swapped afterwards changes nothing. A final link is
# followed as long as it stays inside. `make` says whether missing folders are made.
# `name` is the file and the shell's folder the one it lies in, afterwards.
LEFT_WORKSPACE, MISSING, LOOP, NO_FOLDER, NOT_A_FILE, NOT_WRITABLE, CHANGED = 64, 65, 66, 67, 68, 69, 70
NO_PROGRAM, ELSEWHERE, INCOMPLETE = 71, 72, 73
_STEPS = f"""\
cd -P "$base" || exit {MISSING}
root=$PWD
step() {{
  path=$1
  case $path in
    "$root"/*) cd -P "$root" && path=${{path#"$root"/}} ;;
    /*) exit {LEFT_WORKSPACE} ;;
  esac
  while :; do
    case $path in */*) ;; *) break ;; esac
    part=${{path%%/*}}
    path=${{path#*/}}
    case $part in ""|.) continue ;; esac
    if ! cd -P "./$part" 2>/dev/null; then
      [ -n "$make" ] || exit {MISSING}
      mkdir "./$part" && cd -P "./$part" || exit {NO_FOLDER}
    fi
    case $PWD/ in "$root"/*) ;; *) exit {LEFT_WORKSPACE} ;; esac
  done
  name=$path
  case $name in ""|.|..) exit {NOT_A_FILE} ;; esac
}}
step "$1"
"""
_LINKS = f"""\
hops=0
while [ -L "./$name" ]; do
  hops=$((hops + 1))
  [ $hops -gt 40 ] && exit {LOOP}
  link=$(readlink "./$name"; echo x) || exit {MISSING}
  link=${{link%x}}
  step "${{link%?}}"
done
"""
_WALK = _STEPS + _LINKS

# $1: path, $2: how many bytes at most, $3: the folder it is in, unless that is the workspace.
READ = f"""\
make=
base=${{3:-/workspace}}
{_WALK}
[ -e "./$name" ] || exit {MISSING}
[ -f "./$name" ] || exit {NOT_A_FILE}
head -c "$2" "./$name"
"""

# Puts stdin into the file $1 and makes sure that all of it has arrived: a client that dies while it
# writes looks like the end of the content, and `cat` may be any program. `ls -n` is POSIX and in every image.
_RECEIVE = f"""\
receive() {{
  cat >"$1" || exit {NOT_WRITABLE}
  set -- $(ls -ln "$1")
  [ "${{5-}}" = "$size" ] || exit {INCOMPLETE}
}}
"""

# $1: path, $2: name for a temporary file, $3: size of the content, $4: sha256 that the file must have, or
# "", $5: the place below the workspace that the path must lead to; without it, any. Otherwise prints where
# it leads. Stdin: the new content. The old file is copied first, for its mode, and replaced by a rename: a
# reader sees the old bytes or the new ones, never a part. A file of another user is written in
# place instead, because a rename would change its owner, and only with what has arrived as a whole.
WRITE = f"""\
temporary=./$2 spare=/tmp/$2
size=$3
expected=$4
place=${{5-}}
make=1
base=/workspace
{_RECEIVE}{_WALK}
if [ -n "$place" ] && [ "$PWD/$name" != "$root/$place" ]; then
  place=$PWD/$name
  printf %s "${{place#"$root"/}}"
  exit {ELSEWHERE}
fi
trap 'rm -f "$temporary"' EXIT
if [ -e "./$name" ]; then
  [ -f "./$name" ] || exit {NOT_A_FILE}
  [ -w "./$name" ] || exit {NOT_WRITABLE}
  if [ -n "$expected" ]; then
    actual=$(sha256sum <"./$name") || exit {NOT_WRITABLE}
    [ "${{actual%% *}}" = "$expected" ] || exit {CHANGED}
  fi
  if ! [ -O "./$name" ]; then
    true 2>/dev/null >"$temporary" || temporary=$spare
    receive "$temporary"
    cat "$temporary" >"./$name" || exit {NOT_WRITABLE}
    exit 0
  fi
  cp -p "./$name" "$temporary" || exit {NOT_WRITABLE}
elif [ -n "$expected" ]; then
  exit {CHANGED}
fi
receive "$temporary"
mv -f "$temporary" "./$name" && ! [ -e "$temporary" ] || exit {NOT_WRITABLE}
trap - EXIT
"""

# $1: folder, $2: name of a file in it, $3: size of the content. Stdin: the content.
ATTACH = f"""\
name=$2 size=$3
{_RECEIVE}cd "$1" || exit {NOT_WRITABLE}
trap 'rm -f "./$name"' EXIT
receive "./$name"
trap - EXIT
"""

# What follows is run as commands are, with the arguments in front as `set -- …`.

# $1: path or "", $2: mark, $3: 1 to follow a link there, $4: how many bytes to print at most, the rest:
# what `find` is to print of a folder. Prints "MARK MODE SIZE MTIME NAME" for the path itself (as ".")
# and for each thing below it, and last "MARK end". A name may hold line ends, but no mark.
LIST = f"""\
for program in find xargs stat head; do
  command -v $program >/dev/null || {{ printf %s $program; exit {NO_PROGRAM}; }}
done
mark=$2 follow=$3 limit=$4
make=
base=/workspace
if [ -n "$1" ]; then
{_STEPS}
  if [ -n "$follow" ] && [ -d "./$name" ]; then
    cd -P "./$name" 2>/dev/null || exit {MISSING}
    case $PWD/ in "$root"/*) ;; *) exit {LEFT_WORKSPACE} ;; esac
    name=.
  elif [ -n "$follow" ]; then
{_LINKS}
  fi
else
  cd -P "$base" || exit {MISSING}
  name=.
fi
[ -e "./$name" ] || [ -L "./$name" ] || exit {MISSING}
shift 4
{{
  stat -c "$mark %f %s %Y ." "./$name"
  [ $# = 0 ] || [ "$name" != . ] || find . "$@" | xargs -0 -r stat -c "$mark %f %s %Y %n" --
  echo "$mark end"
}} | head -c "$limit"
"""

# $1: mark, $2: how many bytes at most of each file, $3: how many to print in all, the rest: paths.
# Prints for each path the content of the file, a line end, and "MARK STATUS".
READ_MANY = f"""\
mark=$1 each=$2 all=$3
shift 3
make=
base=/workspace
one() {{
{_STEPS}
{_LINKS}
[ -e "./$name" ] || exit {MISSING}
[ -f "./$name" ] || exit {NOT_A_FILE}
exec head -c "$each" "./$name"
}}
for path; do
  ( one "$path" )
  printf '\\n%s %s\\n' "$mark" "$?"
done | head -c "$all"
"""


SHORT_BYTES = 4096
"""texts up to this size stand in the header, which the shell reads by itself; longer ones need `cat`"""


def end_nonce(secret: str, mark: str) -> str:
    """Return the nonce with which the wrapper of the call `mark` reports; unknown inside before the text arrives."""
    return hashlib.sha256(f"{secret} {mark}".encode()).hexdigest()[:32]


def pack_text(text: bytes, mark: str, end: str, *, umask: int, apart: bool) -> bytes:
    """Return the stdin of a wrapper that is to run a shell text; `apart`: with stderr on its own."""
    kind = b"apart" if apart else b"joint"
    if len(text) <= SHORT_BYTES:
        return _pack(mark, end, (kind, _octal(umask), text))
    return _pack(mark, end, (kind + b"-long", _octal(umask))) + text + f"#{mark}".encode()


def pack_script(script: str, arguments: Sequence[str], mark: str, end: str, *, umask: int, data: bytes = b"") -> bytes:
    """Return the stdin of a wrapper that is to run one of the file scripts, with `data` as its stdin."""
    return _pack(mark, end, (b"file", _octal(umask), *_words(script, arguments))) + data


def pack_pipe(script: str, arguments: Sequence[str], mark: str, end: str, *, umask: int) -> bytes:
    """Return what a wrapper gets first that is to run a shell text and to leave its stdin and stdout to it."""
    return _pack(mark, end, (b"pipe", _octal(umask), *_words(script, arguments)))


def _words(script: str, arguments: Sequence[str]) -> list[bytes]:
    return [word.encode("utf-8", "surrogateescape") for word in (script, *arguments)]


def _pack(mark: str, end: str, words: Sequence[bytes]) -> bytes:
    quoted = b" ".join(b"'%s'" % word.replace(b"'", b"'\\''") for word in words)
    return b"end=%s\nset -- %s\n#%s\n" % (end.encode(), quoted, mark.encode())


def _octal(umask: int) -> bytes:
    return b"%04o" % umask
