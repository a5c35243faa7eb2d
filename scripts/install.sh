#!/bin/sh
# Installs odek: one file, checked by its SHA-256, put in place in one step. Needs no root, edits no profile.
#
#   sh install.sh [OPTION…]        curl -fsSL ADDRESS/install.sh | sh -s -- [OPTION…]
#
#   --version V       this release, not the one that the script came with, or else the latest one
#   --kind KIND       zip: for a Python 3.10 or newer that is here; binary: brings its own; auto (default):
#                     the zip where it runs, else the binary
#   --bin-dir DIR     where to put `odek`; default: $XDG_BIN_HOME, else ~/.local/bin
#   --prefix DIR      the same as --bin-dir DIR/bin
#   --from PATH       take it from a file, or from a folder that holds a release; nothing is downloaded
#   --sha256 HEX      what the file must be, whatever SHA256SUMS says
#   --base-url URL    where releases are: URL/download/vV/FILE and URL/latest/download/FILE; a script that came
#                     with a release knows
#   --uninstall       remove it again; ~/.odek, which holds settings and sessions, stays
#   --dry-run         say what would be done
#   --quiet           say only what went wrong
#
# Each option but the last three can be given as a variable too: ODEK_INSTALL_VERSION, …_KIND, …_BIN_DIR,
# …_PREFIX, …_FROM, …_SHA256, …_BASE_URL. curl and wget take proxies from https_proxy and no_proxy. No option
# leaves the check out.
#
# Ends with 64 for wrong options, 65 for a wrong hash, 66 for a file that is not there, 69 when it cannot be
# downloaded, 70 when it does not run here, 73 without a place for temporary files, 77 when it may not be
# written, 78 without a place to put it.

# Everything stands in functions and the last line calls them: a script that was cut off does nothing.

# Set in the copy that belongs to a release (build/installer.py).
RELEASES=''
RELEASE=''

say() { [ -n "$quiet" ] || printf 'install: %s\n' "$*"; }

die() { # $1: exit status, $2: what is wrong, $3: what to do
    printf 'install: error: %s\n' "$2" >&2
    [ -z "${3-}" ] || printf 'install: hint: %s\n' "$3" >&2
    exit "$1"
}

value_of() { # $1: option, $2: number of arguments that are left
    [ "$2" -gt 1 ] || die 64 "$1 needs a value"
}

parse() {
    version=${ODEK_INSTALL_VERSION:-$RELEASE} kind=${ODEK_INSTALL_KIND:-auto} bin_dir=${ODEK_INSTALL_BIN_DIR-}
    prefix=${ODEK_INSTALL_PREFIX-} from=${ODEK_INSTALL_FROM-} sha256=${ODEK_INSTALL_SHA256-}
    base_url=${ODEK_INSTALL_BASE_URL:-$RELEASES}
    uninstall='' dry_run='' quiet=''
    while [ $# -gt 0 ]; do
        case $1 in
        --version | --kind | --bin-dir | --prefix | --from | --sha256 | --base-url)
            value_of "$1" $#
            case $1 in
            --version) version=$2 ;;
            --kind) kind=$2 ;;
            --bin-dir) bin_dir=$2 ;;
            --prefix) prefix=$2 ;;
            --from) from=$2 ;;
            --sha256) sha256=$2 ;;
            --base-url) base_url=$2 ;;
            esac
            shift
            ;;
        --uninstall) uninstall=yes ;;
        --dry-run) dry_run=yes ;;
        --quiet) quiet=yes ;;
        -h | --help) usage ;;
        *) die 64 "unknown option \"$1\"" "the first lines of this script list the options" ;;
        esac
        shift
    done
    version=${version#v} base_url=${base_url%/}
    case $version in
    *[!0-9A-Za-z.+-]*) die 64 "\"$version\" is not a version" ;;
    esac
    case $kind in
    auto | zip | binary) ;;
    *) die 64 "--kind must be auto, zip or binary, not \"$kind\"" ;;
    esac
    [ -z "$sha256" ] || is_hash "$sha256" || die 64 "--sha256 must be 64 hexadecimal digits"
}

usage() {
    cat <<'END'
Usage: sh install.sh [--version V] [--kind auto|zip|binary] [--bin-dir DIR | --prefix DIR] [--from PATH]
                     [--sha256 HEX] [--base-url URL] [--uninstall] [--dry-run] [--quiet]
END
    exit 0
}

is_hash() {
    [ ${#1} -eq 64 ] || return 1
    case $1 in
    *[!0-9a-fA-F]*) return 1 ;;
    esac
}

lower() { printf '%s\n' "$1" | tr A-F a-f; }

choose_place() { # sets $bin_dir and $target
    if [ -z "$bin_dir" ]; then
        if [ -n "$prefix" ]; then
            bin_dir=$prefix/bin
        elif [ -n "${XDG_BIN_HOME-}" ]; then
            bin_dir=$XDG_BIN_HOME
        elif [ -n "${HOME-}" ] && [ "$HOME" != / ]; then
            bin_dir=$HOME/.local/bin
        else
            die 78 "HOME is not set, so there is no usual place for it" "name one: --bin-dir /usr/local/bin"
        fi
    fi
    case $bin_dir in
    /*) ;;
    *) bin_dir=$PWD/$bin_dir ;;
    esac
    target=$bin_dir/odek
    [ ! -d "$target" ] || die 77 "$target is a folder" "choose another place with --bin-dir"
}

remove() {
    if [ ! -e "$target" ] && [ ! -L "$target" ]; then
        say "there is no $target"
        exit 0
    fi
    is_odek "$target" || die 77 "$target is none that was installed by this script" "look at it, and remove it yourself"
    if [ -n "$dry_run" ]; then
        say "would remove $target"
        exit 0
    fi
    rm -f -- "$target" || die 77 "$target cannot be removed"
    say "removed $target"
    [ ! -d "${HOME-}/.odek" ] || say "settings and sessions are still in ~/.odek"
    exit 0
}

is_odek() { # by its first bytes: it need not run any more
    case $(head -c 120 -- "$1" 2>/dev/null | tr -d '\0') in
    '#!/bin/sh'*'one-file odek'*) return 0 ;;
    *ELF*) grep -q odek.cli.main -- "$1" ;;
    *) return 1 ;;
    esac
}

has() { command -v "$1" >/dev/null 2>&1; }

python_is_fit() { # has it all that odek imports? Debian's python3-minimal has not
    has python3 && (cd / && python3 -I -c 'import sys, dataclasses, json, ssl; sys.exit(sys.version_info < (3, 10))') 2>/dev/null
}

binary_name() { # prints the name of the binary for this machine; nothing when there is none
    [ "$(uname -s)" = Linux ] || return 0
    # the static one runs everywhere; where glibc is, and new enough, the other one asks it about names and users
    libc=musl
    if [ -e /lib64/ld-linux-x86-64.so.2 ] || [ -e /lib/ld-linux-aarch64.so.1 ]; then libc=gnu; fi
    case $(getconf GNU_LIBC_VERSION 2>/dev/null) in
    'glibc 2.'[0-9] | 'glibc 2.1'[0-9] | 'glibc 2.2'[0-7]) libc=musl ;;
    esac
    # the kernel may be a 64-bit one under 32-bit programs
    [ "$(getconf LONG_BIT 2>/dev/null || echo 64)" = 64 ] || return 0
    case $(uname -m) in
    x86_64 | amd64) echo "odek-linux-x86_64-$libc" ;;
    aarch64 | arm64) echo "odek-linux-aarch64-$libc" ;;
    esac
}

choose_files() { # sets $files: names to try, one after the other
    binary=$(binary_name)
    case $kind in
    zip) files=odek ;;
    binary)
        [ -n "$binary" ] || die 70 "there is no binary for this machine ($(uname -s) $(uname -m))" "use --kind zip and Python 3.10 or newer"
        files=$binary
        ;;
    auto)
        if python_is_fit; then
            files="odek $binary"
        elif [ -n "$binary" ]; then
            files=$binary
        else
            die 70 "no Python 3.10 or newer here, and no binary for this machine ($(uname -s) $(uname -m))" "install Python 3"
        fi
        ;;
    esac
    # a single file is what it is
    if [ -n "$from" ] && [ -f "$from" ]; then files=${from##*/}; fi
}

make_scratch() {
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/odek-install.XXXXXX") || die 73 "no folder for temporary files" "set TMPDIR to one that can be written"
    placed=''
    trap 'rm -rf -- "$scratch"; [ -z "$placed" ] || rm -f -- "$placed"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

address_of() { # $1: file
    if [ -n "$version" ]; then
        printf '%s\n' "$base_url/download/v$version/$1"
    else
        printf '%s\n' "$base_url/latest/download/$1"
    fi
}

download() { # $1: address, $2: file
    if has curl; then
        case $1 in
        https:*) set -- "$@" --proto =https --tlsv1.2 ;;
        esac
        address=$1 file=$2
        shift 2
        curl -fsSL --retry 3 --connect-timeout 20 "$@" -o "$file" "$address"
    elif has wget; then
        tries=''
        if wget --help 2>&1 | grep -q -e --tries; then tries=--tries=3; fi
        # shellcheck disable=SC2086 # no word when it is empty
        wget -q -T 30 $tries -O "$2" "$1"
    else
        die 69 "neither curl nor wget is here" "copy a release to this machine and use --from"
    fi
}

get() { # $1: name in the release; puts it into $scratch
    if [ -z "$from" ]; then
        download "$(address_of "$1")" "$scratch/$1" || die 69 "$(address_of "$1") cannot be downloaded" "check the version and the network, or use --from"
    elif [ -d "$from" ]; then
        [ -f "$from/$1" ] || die 66 "there is no $1 in $from"
        cp -- "$from/$1" "$scratch/$1" || die 73 "$from/$1 cannot be copied to $scratch"
    else
        source=$from
        [ "$1" != SHA256SUMS ] || source=$(dirname -- "$from")/SHA256SUMS
        [ -f "$source" ] || die 66 "there is no $source" "put it next to the file, or use --sha256"
        cp -- "$source" "$scratch/$1" || die 73 "$source cannot be copied to $scratch"
    fi
}

expected_hash() { # $1: name; prints what its hash must be
    if [ -n "$sha256" ]; then
        lower "$sha256"
        return
    fi
    found=''
    while read -r hash name rest || [ -n "$hash" ]; do
        if [ "${name#\*}" = "$1" ] && [ -z "$rest" ]; then
            [ -z "$found" ] || [ "$found" = "$hash" ] || die 65 "SHA256SUMS names $1 twice"
            found=$hash
        fi
    done <"$scratch/SHA256SUMS"
    [ -n "$found" ] || die 65 "SHA256SUMS does not name $1" "it belongs to another release, or is damaged"
    is_hash "$found" || die 65 "SHA256SUMS holds no hash for $1"
    lower "$found"
}

hash_of() { # $1: file; prints its hash
    if has sha256sum; then
        sha256sum <"$1" | cut -d ' ' -f 1
    elif has shasum; then
        shasum -a 256 <"$1" | cut -d ' ' -f 1
    elif has openssl; then
        openssl dgst -sha256 -r <"$1" | cut -d ' ' -f 1
    else
        die 69 "none of sha256sum, shasum and openssl is here to check the file with"
    fi
}

install_file() { # $1: name; returns 1 when what was there before stays because this one does not run
    wanted=$(expected_hash "$1") || exit
    if [ -f "$target" ] && [ ! -L "$target" ] && [ "$(hash_of "$target")" = "$wanted" ]; then
        say "$target is already that file"
        return 0
    fi
    if [ -n "$dry_run" ]; then
        say "would install $1 (SHA-256 $wanted) as $target"
        return 0
    fi
    [ -f "$scratch/$1" ] || get "$1"
    seen=$(hash_of "$scratch/$1") || exit
    [ "$seen" = "$wanted" ] || die 65 "$1 is not what it should be: SHA-256 $seen instead of $wanted" "nothing was installed; try again, or get it another way"
    mkdir -p -- "$bin_dir" 2>/dev/null || die 77 "$bin_dir cannot be made" "choose another place with --bin-dir"
    placed=$bin_dir/.odek.$$
    { cp -- "$scratch/$1" "$placed" && chmod 755 "$placed"; } 2>/dev/null || die 77 "$bin_dir cannot be written" "choose another place with --bin-dir"
    runs "$placed" || return 1
    mv -f -- "$placed" "$target" || die 77 "$target cannot be written" "choose another place with --bin-dir"
    placed=''
    say "installed $installed as $target"
}

runs() { # $1: file; sets $installed to what it says, or $reason
    if installed=$(cd / && "$1" version 2>"$scratch/reason") && [ -n "$installed" ]; then return 0; fi
    reason=$(head -n 1 "$scratch/reason")
    rm -f -- "$placed"
    placed=''
    return 1
}

mention_path() {
    case :$PATH: in
    *:"$bin_dir":*) ;;
    *) say "$bin_dir is not on PATH; add this to your profile: export PATH=\"$bin_dir:\$PATH\"" ;;
    esac
}

main() {
    umask 022
    parse "$@"
    choose_place
    [ -z "$uninstall" ] || remove
    [ -z "$from" ] || [ -e "$from" ] || die 66 "there is no $from"
    [ -n "$from$base_url" ] || die 64 "it is not known where releases are" "use the install.sh of a release, or --base-url, or --from"
    choose_files
    make_scratch
    [ -n "$sha256" ] || get SHA256SUMS
    reason=''
    for name in $files; do
        # each in a shell of its own would lose what they set
        if install_file "$name"; then
            [ -n "$dry_run" ] || mention_path
            exit 0
        fi
        say "$name does not run here: $reason"
    done
    die 70 "nothing that runs here; $target is as it was (${reason:-no reason given})" \
        "a folder with noexec? use another --bin-dir; no Python 3.10? --kind binary; /tmp with noexec or glibc too old? --kind zip"
}

main "$@"
