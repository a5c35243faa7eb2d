"""The shell scripts that run inside the container. POSIX sh, for ash, dash and bash.

STOP uses builtins only: it must work when the process limit is reached and nothing can fork. The
others need `cat`, which CHECK makes sure of, and the file scripts the usual file programs.
"""

from __future__ import annotations

CALL_VARIABLE = "ODEK_CALL"

READY = "odek-ready"

# The container's main process, as the helper user: says that it runs, then waits for the end of
# its input, which comes when odek is gone. `read` is a builtin: no `sleep`, no `cat` is needed.
KEEP_ALIVE = f"echo {READY}; while read -r _; do :; done"

CHECKED = 42
# $1: name of the nonce file, $2: inode of the workspace where no such file could be made, then for each
# volume its place below the workspace and its target. Stdin: HOME of the commands, which may be a secret.
# Says what is true inside, as the commands' user, and leaves with 42. `[ -w ]` would not do: to some
# shells root may write everywhere, also without its capabilities and on a read-only mount. odek removes
# the file that the attempt leaves in the workspace; in a folder that is another one, it could not, so none is made.
# A volume is what was checked if it is the same file as the one in the workspace: Docker goes by names,
# and a folder can be exchanged for a link between check and mount.
CHECK = """\
command -v cat >/dev/null || { echo missing=cat; exit 1; }
HOME=$(cat; echo x)
HOME=${HOME%x}
seen=
[ -e "/workspace/$1" ] && seen=1
[ -n "$2" ] && case " $(ls -di /workspace)" in *" $2 "*) seen=1 ;; esac
attempt() { true 2>/dev/null >"$1" && echo "$2=writable"; }
attempt "$HOME/.odek-$1" home && rm -f "$HOME/.odek-$1"
[ -d /dev/shm ] && [ -w /dev/shm ] && echo spare=writable
[ "$seen" ] && echo nonce=seen && attempt "/workspace/$1.w" workspace
while read -r key id rest; do
  case $key in Uid:) echo "uid=$id" ;; Gid:) echo "gid=$id" ;; esac
done </proc/self/status
shift 2
number=0
while [ $# -gt 1 ]; do
  number=$((number + 1))
  [ "/workspace/$1" -ef "$2" ] && echo "volume$number=same"
  shift 2
done
exit 42
"""

# $1: mark of the call, $2: umask. Stdin: the command.
# The command runs in a subshell whose stderr joins its stdout; the wrapper's own stderr stays with
# the wrapper and carries two lines. "MARK began TICKS": when the wrapper started (proc(5), stat field
# 22), before which nothing of this call can have. "MARK STATUS": the command has ended, even though a
# child that it left behind may still hold the output open (R-40, B02). The command comes on stdin and
# is evaluated, not passed as an argument: an argument ends at 128 KiB (B14) and is public.
_COMMAND = """\
mark=$1
umask "$2"
read -r line </proc/self/stat
set -- ${line##*) }
echo "$mark began ${20}" >&2
set -- "$(cat; echo x)"
exec 9>&2 JOIN</dev/null
( unset mark line; eval "shift
${1%x}" ) 9>&-
status=$?
echo "BREAK$mark $status" >&9
exit $status
"""
COMMAND = _COMMAND.replace("JOIN", "2>&1 ").replace("BREAK", "")
# The same with stderr apart, on the wrapper's own; the last line then begins with a line end of its own.
COMMAND_APART = _COMMAND.replace("JOIN", "").replace("BREAK", "\n")

# $1: file with the variables, $2: umask, then the command. For a person at a terminal.
SHELL = f"""\
umask "$2"
. "$1" 2>/dev/null
rm -f "$1"
unset {CALL_VARIABLE}
shift 2
exec "$@"
"""

# $1: mark of the call, $2: marks of other calls, $3: when the call began, in ticks; "": not known.
# Stops every process of the call: those that carry its mark in their environment; those in the
# session of one that does (`env -i`); and orphans that are younger than the call and carry no mark
# (`env -i setsid`) or one that odek never gave out. What was there before the call, and what carries
# another call's mark, lives on: servers. The name of a process may hold line ends and parentheses, and
# a zombie with more than one thread is a program whose main thread has ended. What still breeds after
# 0.2 s and six rounds, or after a second, is a fork bomb and ends with everything else of this user: the
# killed take a moment to die, and many take many moments to be looked at. Leaves with 0 when only the
# call was stopped, with 3 when everything was.
STOP = f"""\
variable={CALL_VARIABLE}
mark=$1 others=$2 began=$3
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
  [ -n "$began" ] && [ "$born" -lt "$began" ] && kind=older
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
while {{ [ $round -lt 6 ] || ! after 20; }} && ! after 100; do
  round=$((round + 1))
  found= unknown=
  for entry in /proc/[0-9]*; do
    after 100 && break
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
      *) [ "$parent" = 1 ] && found="$found $pid" ;;
    esac
  done
  [ -z "$found" ] && ! after 100 && exit 0
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
NO_PROGRAM, ELSEWHERE = 71, 72
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
exec head -c "$2" "./$name"
"""

# $1: path, $2: umask, $3: name for a temporary file, $4: sha256 that the file must have, or "", $5: the
# place below the workspace that the path must lead to; without it, any. Otherwise prints where it leads.
# Stdin: the new content. The old file is copied first, for its mode, and replaced by a rename: a
# reader sees the old bytes or the new ones, never a part. Somebody else's file is written in
# place instead, because a rename would change its owner.
WRITE = f"""\
umask "$2"
temporary=./$3
expected=$4
place=${{5-}}
make=1
base=/workspace
{_WALK}
if [ -n "$place" ] && [ "$PWD/$name" != "$root/$place" ]; then
  place=$PWD/$name
  printf %s "${{place#"$root"/}}"
  exit {ELSEWHERE}
fi
if [ -e "./$name" ]; then
  [ -f "./$name" ] || exit {NOT_A_FILE}
  [ -w "./$name" ] || exit {NOT_WRITABLE}
  if [ -n "$expected" ]; then
    actual=$(sha256sum <"./$name") || exit {NOT_WRITABLE}
    [ "${{actual%% *}}" = "$expected" ] || exit {CHANGED}
  fi
  if ! [ -O "./$name" ]; then
    cat >"./$name" || exit {NOT_WRITABLE}
    exit 0
  fi
  trap 'rm -f "$temporary"' EXIT
  cp -p "./$name" "$temporary" || exit {NOT_WRITABLE}
elif [ -n "$expected" ]; then
  exit {CHANGED}
fi
trap 'rm -f "$temporary"' EXIT
cat >"$temporary" || exit {NOT_WRITABLE}
mv -f "$temporary" "./$name" || exit {NOT_WRITABLE}
trap - EXIT
"""

# $1: folder, $2: name of a file in it, $3: umask. Stdin: the content.
ATTACH = f"""\
umask "$3"
cd "$1" && cat >"./$2" || exit {NOT_WRITABLE}
"""

# What follows is run as commands are: the arguments stand before it on stdin, as `set -- …`, and so may
# be any bytes and any number.

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
