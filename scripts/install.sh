#!/bin/sh
# Installs odek: one file, checked by its SHA-256, put in place in one step; and what it says of itself: its manual
# page, and completions for the shells that are here. Needs no root, edits no profile.
#
#   sh install.sh [OPTION…]        curl -fsSL ADDRESS/install.sh | sh -s -- [OPTION…]        (or bash, zsh, ksh)
#
#   --version V       this release, not the one that the script came with, or else the latest one
#   --kind KIND       zip: for a Python 3.10 or newer that is here; binary: brings its own; auto (default):
#                     the zip where it runs, else the binary
#   --bin-dir DIR     where to put `odek`; default: $XDG_BIN_HOME, else ~/.local/bin
#   --prefix DIR      the same as --bin-dir DIR/bin
#   --from PATH       take it from a file, or from a folder that holds a release; nothing is downloaded
#   --sha256 HEX      what the file must be, whatever SHA256SUMS says
#   --base-url URL    where releases are: URL/download/vV/FILE and URL/latest/download/FILE; a script that came
#                     with a release knows; https, but with --sha256 or on this machine
#   --force           replace an `odek` that is there and is another program, too
#   --no-extras       neither manual page nor completions; else they go to PREFIX/share with --prefix, without it to
#                     $XDG_DATA_HOME, else ~/.local/share, and to fish's own folder
#   --uninstall       remove all of it again; ~/.odek, which holds settings and sessions, stays
#   --dry-run         say what would be done
#   --quiet           say only what went wrong
#
# Each option with a value can be given as a variable too: ODEK_INSTALL_VERSION, …_KIND, …_BIN_DIR,
# …_PREFIX, …_FROM, …_SHA256, …_BASE_URL. curl and wget take proxies from https_proxy and no_proxy. No option
# leaves the check out.
#
# Ends with 64 for wrong options, 65 for a wrong hash, 66 for a file that is not there, 69 when it cannot be
# downloaded, 70 when it does not run here, 73 without a place for temporary files, 77 when it may not be
# written, 78 without a place to put it.

# Everything stands in functions and the last line calls them: a script that was cut off does nothing.

# zsh splits no words otherwise, and obeys a trap for EXIT as soon as the function that set it ends
[ -z "${ZSH_VERSION-}" ] || emulate -R sh

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
    uninstall='' dry_run='' quiet='' force='' no_extras=''
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
        --force) force=yes ;;
        --no-extras) no_extras=yes ;;
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
                     [--sha256 HEX] [--base-url URL] [--force] [--no-extras] [--uninstall] [--dry-run] [--quiet]
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

choose_place() { # sets $bin_dir and $target, and $again to the options that lead to the same place
    again=''
    [ -z "$prefix" ] || again=" --prefix \"$prefix\""
    if [ -n "$bin_dir" ]; then
        prefix='' again=" --bin-dir \"$bin_dir\""
    else
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

choose_extras() { # sets where the manual page and the completions go, all "" where they are not wanted or have no place
    man_file='' bash_file='' zsh_file='' fish_file=''
    [ -z "$no_extras" ] || return 0
    if [ -n "$prefix" ]; then
        data=${bin_dir%/bin}/share
        fish_file=$data/fish/vendor_completions.d/odek.fish
    else
        case ${HOME-} in
        /?*) ;;
        *) return 0 ;;
        esac
        data=${XDG_DATA_HOME-} settings=${XDG_CONFIG_HOME-}
        # as the standard has it, relative ones do not count
        case $data in /*) ;; *) data=$HOME/.local/share ;; esac
        case $settings in /*) ;; *) settings=$HOME/.config ;; esac
        fish_file=$settings/fish/completions/odek.fish
    fi
    man_file=$data/man/man1/odek.1
    bash_file=$data/bash-completion/completions/odek
    zsh_file=$data/zsh/site-functions/_odek
}

is_there() { [ -e "$1" ] || [ -L "$1" ]; }

remove() {
    if is_there "$target"; then
        is_odek "$target" || die 77 "$target is none that was installed by this script" "look at it, and remove it yourself"
        remove_file "$target"
    else
        say "there is no $target"
    fi
    for file in "$man_file" "$bash_file" "$zsh_file" "$fish_file"; do
        if [ -n "$file" ] && is_extra "$file"; then remove_file "$file"; fi
    done
    [ ! -d "${HOME-}/.odek" ] || say "settings and sessions are still in ~/.odek"
    exit 0
}

remove_file() {
    if [ -n "$dry_run" ]; then
        say "would remove $1"
        return
    fi
    rm -f -- "$1" || die 77 "$1 cannot be removed"
    say "removed $1"
}

is_odek() { # by its first bytes: it need not run any more
    [ -f "$1" ] || return 1 # a named pipe would be waited for
    case $(head -c 120 -- "$1" 2>/dev/null | tr -d '\0') in
    '#!/bin/sh'*'one-file odek'*) return 0 ;;
    ?ELF*) grep -q odek.cli.main -- "$1" ;;
    *) return 1 ;;
    esac
}

is_extra() { # by what odek writes into the first two lines; a link is not this script's
    if [ ! -f "$1" ] || [ -L "$1" ]; then return 1; fi
    case $(head -n 2 -- "$1" 2>/dev/null) in
    '.TH ODEK 1'* | *' completion for odek; put it '*) return 0 ;;
    *) return 1 ;;
    esac
}

refuse_foreign() {
    if [ -n "$force" ] || ! is_there "$target" || is_odek "$target"; then return 0; fi
    die 77 "$target is there, and is another program than this odek" \
        "look at it; choose another place with --bin-dir, or replace it with --force"
}

has() { command -v "$1" >/dev/null 2>&1; }

python_is_fit() ( # is there a Python as the launcher of the zip takes it (build/launcher.sh), with all that odek imports?
    IFS=: plain='' numbered='' managed=''
    set -f
    for folder in ${PATH-}; do
        case $folder in
        */shims | */shims/)
            folder=${folder%/} folder=${folder%/shims}
            set +f
            for python in "$folder"/versions/*/bin/python3.1[0-9] "$folder"/installs/python/*/bin/python3.1[0-9]; do
                [ ! -x "$python" ] || managed=$managed:$python
            done
            set -f
            continue
            ;;
        /*) ;;
        *) continue ;;
        esac
        for name in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
            if [ ! -f "$folder/$name" ] || [ ! -x "$folder/$name" ]; then continue; fi
            case $name in
            python3) plain=$plain:$folder/$name ;;
            *) numbered=$numbered:$folder/$name ;;
            esac
        done
    done
    cd / || exit 1
    for python in $plain$numbered$managed; do
        [ -n "$python" ] || continue
        # Debian's python3-minimal has not all of it, and would be taken all the same
        "$python" -I -c 'import sys; sys.version_info < (3, 10) and sys.exit(3); import dataclasses, json, ssl' \
            </dev/null >/dev/null 2>&1
        case $? in
        0) exit 0 ;;
        3) ;; # too old: the launcher goes on to the next
        *) exit 1 ;;
        esac
    done
    exit 1
)

find_binary() { # sets $binary to the one for this machine, "" where there is none, and $libc to why it is the static one
    binary='' libc=''
    [ "$(uname -s)" = Linux ] || return 0
    # the kernel may be a 64-bit one under 32-bit programs
    [ "$(getconf LONG_BIT 2>/dev/null || echo 64)" = 64 ] || return 0
    case $(uname -m) in
    x86_64 | amd64) binary=odek-linux-x86_64 ;;
    aarch64 | arm64) binary=odek-linux-aarch64 ;;
    *) return 0 ;;
    esac
    # the static one runs everywhere; where glibc is, and new enough, the other one asks it about names and users
    libc='no glibc'
    if [ -e /lib64/ld-linux-x86-64.so.2 ] || [ -e /lib/ld-linux-aarch64.so.1 ]; then libc=''; fi
    glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null)
    case $glibc in
    'glibc 2.'[0-9] | 'glibc 2.1'[0-9] | 'glibc 2.2'[0-7]) libc="$glibc, which is older than 2.28" ;;
    esac
    # Alpine's gcompat puts a loader where glibc has its own
    case $(ldd --version 2>&1 </dev/null) in
    *musl*) libc=musl ;;
    esac
    if [ -n "$libc" ]; then binary=$binary-musl; else binary=$binary-gnu; fi
}

require_encryption() { # the sums come from there as well: without TLS they prove nothing, but on this machine
    if [ -n "$from$sha256" ]; then return 0; fi
    case $base_url in
    *@*) ;; # "localhost:80@elsewhere"
    https://* | http://localhost | http://localhost[:/]* | http://127.0.0.1 | http://127.0.0.1[:/]*) return 0 ;;
    http://\[::1\] | http://\[::1\][:/]*) return 0 ;;
    esac
    die 64 "\"${base_url##*@}\" is not an https address" "use one; or give --sha256 HEX, from a source that you trust"
}

choose_files() { # sets $files: names to try, one after the other
    find_binary
    machine="$(uname -s) $(uname -m)"
    case $kind in
    zip) files=odek ;;
    binary)
        [ -n "$binary" ] || die 70 "there is no binary for this machine ($machine)" "use --kind zip and Python 3.10 or newer"
        files=$binary
        ;;
    auto)
        if python_is_fit; then
            files="odek $binary"
        elif [ -n "$binary" ]; then
            files=$binary
            say "no Python 3.10 to 3.14 with its standard library on PATH: takes the binary"
        else
            die 70 "no Python 3.10 or newer on PATH, and no binary for this machine ($machine)" "install Python 3"
        fi
        ;;
    esac
    # a single file is what it is
    if [ -n "$from" ] && [ -f "$from" ]; then files=${from##*/}; fi
}

make_scratch() {
    : "${TMPDIR:=/tmp}"
    case $TMPDIR in /*) ;; *) TMPDIR=$PWD/$TMPDIR ;; esac
    scratch=$(mktemp -d "$TMPDIR/odek-install.XXXXXX") || die 73 "no folder for temporary files" "set TMPDIR to one that can be written"
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
        download_with_wget "$1" "$2"
    else
        die 69 "neither curl nor wget is here" "install one of them; or copy a release to this machine, and use --from FOLDER"
    fi
}

download_with_wget() { # $1: address, $2: file
    # GNU's says with -nv where the file came from in the end, others know neither option
    words=-q
    if wget --help 2>&1 | grep -q -e --tries; then words='-nv --tries=3'; fi
    # shellcheck disable=SC2086 # two words
    wget $words -T 30 -O "$2" "$1" 2>"$scratch/said"
    ended=$?
    said=$(cat "$scratch/said")
    case $said in
    *'certificate validation not implemented'*) # busybox: anyone in between could send both file and sums
        [ -n "$sha256" ] || die 69 "this wget does not check the server's certificate" \
            "install curl or GNU wget; or give --sha256 HEX, from a source that you trust"
        ;;
    esac
    case $1$said in
    https:*' URL:http:'*) die 69 "$1 was redirected to an address without encryption" ;;
    esac
    [ "$ended" -eq 0 ] || [ -z "$said" ] || printf '%s\n' "$said" >&2
    return "$ended"
}

get() { # $1: name in the release; puts it into $scratch
    if [ -z "$from" ]; then
        download "$(address_of "$1")" "$scratch/$1" || die 69 "$(address_of "$1") cannot be downloaded" "check the version and the network, or use --from"
    elif [ -d "$from" ]; then
        [ -f "$from/$1" ] || die 66 "there is no $1 in $from" "$(missing_hint "$1")"
        cp -- "$from/$1" "$scratch/$1" || die 73 "$from/$1 cannot be copied to $scratch"
    else
        source=$from
        [ "$1" != SHA256SUMS ] || source=$(dirname -- "$from")/SHA256SUMS
        [ -f "$source" ] || die 66 "there is no $source" "put it next to the file, or use --sha256"
        cp -- "$source" "$scratch/$1" || die 73 "$source cannot be copied to $scratch"
    fi
}

missing_hint() { # $1: name of a file that the folder lacks
    case $1 in
    SHA256SUMS) echo "a release has one; for a file that you built, give --sha256 HEX, which scripts/build prints" ;;
    odek) echo "scripts/build makes it in dist" ;;
    esac
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
    case $1 in
    *-musl) [ -z "$libc" ] || say "this machine has $libc: $1 runs here, it is linked statically (with musl)" ;;
    esac
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
    { copy_new "$scratch/$1" "$placed" && chmod 755 "$placed"; } 2>/dev/null || die 77 "$bin_dir cannot be written" "choose another place with --bin-dir"
    runs "$placed" || return 1
    mv -f -- "$placed" "$target" || die 77 "$target cannot be written" "choose another place with --bin-dir"
    placed=''
    say "installed $installed as $target"
}

copy_new() ( # through no link that another user of a shared folder has put in the way
    rm -f -- "$2" && set -C && cat <"$1" >"$2"
)

runs() { # $1: file; sets $installed to what it says, or $reason
    if installed=$(cd / && "$1" version 2>"$scratch/reason" </dev/null) && [ -n "$installed" ]; then return 0; fi
    reason=$(head -n 1 "$scratch/reason")
    rm -f -- "$placed"
    placed=''
    return 1
}

install_extras() { # what odek writes itself; without it odek is installed all the same
    [ -n "$man_file" ] || return 0
    install_extra "$man_file" man --roff
    if has bash; then install_extra "$bash_file" completion bash; fi
    if has fish; then install_extra "$fish_file" completion fish; fi
    if has zsh; then
        install_extra "$zsh_file" completion zsh
        case $zsh_file in
        /usr/share/* | /usr/local/share/*) ;;
        *) ! is_extra "$zsh_file" || say "zsh finds it after this line in ~/.zshrc, before compinit: fpath=(\"${zsh_file%/*}\" \$fpath)" ;;
        esac
    fi
}

install_extra() { # $1: file, then the arguments of odek that print it
    file=$1
    shift
    if [ -n "$dry_run" ]; then
        say "would write $file"
        return 0
    fi
    # an older release may not know how
    if ! (cd / && "$target" "$@") >"$scratch/extra" 2>/dev/null </dev/null || ! is_extra "$scratch/extra"; then return 0; fi
    if is_there "$file"; then
        if [ -z "$force" ] && ! is_extra "$file"; then
            say "left $file as it is: it is not this script's (--force replaces it)"
            return 0
        fi
        if [ -f "$file" ] && [ "$(hash_of "$file")" = "$(hash_of "$scratch/extra")" ]; then return 0; fi
    fi
    placed=${file%/*}/.odek-extra.$$
    if { [ ! -d "$file" ] && mkdir -p -- "${file%/*}" && copy_new "$scratch/extra" "$placed" && mv -f -- "$placed" "$file"; } 2>/dev/null; then
        say "wrote $file"
    else
        rm -f -- "$placed" 2>/dev/null
        say "$file cannot be written, and is left out"
    fi
    placed=''
}

mention_path() {
    case :$PATH: in
    *:"$bin_dir":*)
        other=$(command -v odek) || other=''
        if [ -f "$other" ] && [ "$(hash_of "$other")" != "$(hash_of "$target")" ]; then
            say "another odek comes first on PATH: $other"
        fi
        ;;
    *) say "$bin_dir is not on PATH; add this to your profile: export PATH=\"$bin_dir:\$PATH\"" ;;
    esac
}

clean_path() { # a folder that is named from here, and here any file may lie next to this one
    clean='' IFS=:
    set -f
    for folder in ${PATH-}; do
        case $folder in /*) clean=$clean:$folder ;; esac
    done
    set +f
    unset IFS
    PATH=${clean#:}
}

main() {
    umask 022
    clean_path
    parse "$@"
    choose_place
    choose_extras
    [ -z "$uninstall" ] || remove
    refuse_foreign
    [ -z "$from" ] || [ -e "$from" ] || die 66 "there is no $from"
    [ -n "$from$base_url" ] || die 64 "it is not known where releases are" "use the install.sh of a release, or --base-url, or --from"
    require_encryption
    choose_files
    make_scratch
    [ -n "$sha256" ] || get SHA256SUMS
    reason=''
    for name in $files; do
        # each in a shell of its own would lose what they set
        if install_file "$name"; then
            install_extras
            [ -z "$dry_run" ] || exit 0
            mention_path
            say "to remove it again: this script with$again --uninstall"
            exit 0
        fi
        say "$name does not run here: $reason"
    done
    die 70 "nothing that runs here; $target is as it was (${reason:-no reason given})" \
        "a folder with noexec? use another --bin-dir; no Python 3.10? --kind binary"
}

main "$@"
