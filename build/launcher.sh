#!/bin/sh
# The head of the one-file odek: finds a Python for the zip archive that follows this text, and becomes it.
#
# A checkout that odek is started in must not supply the interpreter (R-92). Skipped on PATH are
# empty and relative entries, entries that really lie inside the current folder or the repository around
# it (as odek.host has it), and the shims of version managers, which obey files of the checkout
# (.python-version, .tool-versions). What such a manager installed is used when nothing else is there.
#
# The first interpreter gets the names of the others: if it is too old, it passes the run on
# (boot.py). So a suitable one costs no extra start, and there is one rule for where to look.

case $0 in
/*) self=$0 ;;
*) self=$PWD/$0 ;;
esac
if [ ! -r "$self" ]; then
    echo "odek: error: cannot read $self, the file odek was started from" >&2
    exit 126
fi

has_links() { # may the path $1 lead elsewhere than it says?
    case $1/ in
    [!/]* | *//* | */./* | */../*) return 0 ;;
    esac
    part=$1
    while [ -n "$part" ]; do
        [ ! -h "$part" ] || return 0
        part=${part%/*}
    done
    return 1
}

find_here() { # sets here to the folder whose programs are those of the checkout
    here=${PWD:-.}
    ! has_links "$here" || here=$(pwd -P 2>/dev/null) || here=/
    here=/${here#"${here%%[!/]*}"} # some shells keep both slashes of "//folder"
    above=$here own=${HOME-}
    own=${own%"${own##*[!/]}"}
    while [ -n "$above" ]; do
        # the outermost checkout counts; one that is the home itself (dotfiles) does not
        for mark in .git .hg .svn .jj .bzr; do
            if [ "$above" != "$own" ] && { [ -e "$above/$mark" ] || [ -h "$above/$mark" ]; }; then
                here=$above
            fi
        done
        above=${above%/*}
    done
}

inside_here() {
    case $1 in
    /bin | /usr/bin | /usr/local/bin) return 1 ;;
    esac
    # a process each, only where a look does not do
    real=$1
    ! has_links "$1" || real=$(cd -P -- "$1" 2>/dev/null && pwd -P) || return 0
    real=/${real#"${real%%[!/]*}"}
    [ -n "$here" ] || find_here
    [ "$here" != / ] || return 1
    case $real/ in
    "$here"/*) return 0 ;;
    esac
    return 1
}

here='' plain='' numbered='' managed='' shims=''
IFS=:
set -f
for folder in ${PATH-}; do
    case $folder in
    */shims | */shims/) shims=$shims:$folder ;;
    /*)
        checked=''
        for name in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
            if [ ! -f "$folder/$name" ] || [ ! -x "$folder/$name" ]; then continue; fi
            if [ -z "$checked" ]; then
                inside_here "$folder" && break
                checked=yes
            fi
            case $name in
            python3) plain=$plain:$folder/$name ;;
            *) numbered=$numbered:$folder/$name ;;
            esac
        done
        ;;
    esac
done
for folder in $shims; do
    case $folder in
    /*) inside_here "$folder" && continue ;;
    *) continue ;;
    esac
    folder=${folder%/} folder=${folder%/shims}
    set +f
    for python in "$folder"/versions/*/bin/python3.1[0-9] "$folder"/installs/python/*/bin/python3.1[0-9]; do
        [ -x "$python" ] && managed=$managed:$python
    done
    set -f
done

found=$plain$numbered$managed
found=${found#:}
if [ -z "$found" ]; then
    echo "odek: error: no Python 3.10 or newer on PATH (folders of the current project do not count)" >&2
    exit 127
fi
python=${found%%:*}
others=${found#"$python"}

# not by `import`: what that sets up first takes longer than all the rest of a start
exec "$python" -X utf8 -I -S -c \
    'import sys,zipimport as z
try:z=z.zipimporter(sys.argv[1])
except z.ZipImportError:sys.exit("odek: error: this copy of odek is damaged: "+sys.argv[1]+"\nodek: hint: get it again")
s={};exec(z.get_data(sys.argv[1]+"/odekboot.py"),s);s["start"](z)' \
    "$self" "${others#:}" "$@"
