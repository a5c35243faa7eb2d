#!/bin/sh
trap 'echo "bundle: error: this file was cut off, or is damaged" >&2; exit 65' EXIT
set -eu
odek_bundle() {
    # odek for a host without network: this text, then the parts that it lists. `sh FILE --help` says what it can do.
    # Nothing stands outside of this function but its call, so a file that was cut off or damaged does nothing.
    #FACTS

    say() { printf 'bundle: %s\n' "$*" >&2; }

    die() { # $1: exit status, $2: what is wrong, $3: what to do
        printf 'bundle: error: %s\n' "$2" >&2
        [ -z "${3-}" ] || printf 'bundle: hint: %s\n' "$3" >&2
        exit "$1"
    }

    has() { command -v "$1" >/dev/null 2>&1; }

    usage() {
        printf '%s\n' "Usage: sh FILE [OPTION…]     checks FILE, installs odek, loads the image, and writes sandbox_image" \
            "  --prefix DIR    odek goes to DIR/bin, what belongs to it to DIR/share; default: ~/.local" \
            "  --bin-dir DIR   where odek goes" \
            "  --force         replace another program \`odek\`, and settings that are there; the old settings are kept" \
            "  --yes           without a question" \
            "  --no-doctor     without \`odek doctor\` at the end, whose result is else the exit status" \
            "  --no-extras     neither manual page nor completions" \
            "  --list          check FILE and say what is in it" \
            "  --extract DIR   check FILE and put what is in it into the new folder DIR" \
            "Ends with 65 for a damaged file, 69 where Docker does not answer, 70 on another kind of machine, 73 where" \
            "something is in the way or room is missing."
    }

    parse() {
        prefix='' bin_dir='' force='' yes='' doctor=yes extras='' action=install folder=''
        while [ $# -gt 0 ]; do
            case $1 in
            --prefix | --bin-dir | --extract)
                [ -n "${2-}" ] || die 64 "$1 needs a value"
                case $1 in
                --prefix) prefix=$2 ;;
                --bin-dir) bin_dir=$2 ;;
                --extract) action=extract folder=$2 ;;
                esac
                shift
                ;;
            --force) force=--force ;;
            --yes) yes=yes ;;
            --no-doctor) doctor='' ;;
            --no-extras) extras=--no-extras ;;
            --list) action=list ;;
            -h | --help) action=usage ;;
            *) die 64 "unknown option \"$1\"" "\`sh FILE --help\` lists the options" ;;
            esac
            shift
        done
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

    find_tools() { # sets $file and $hasher
        case $0 in
        /*) file=$0 ;;
        *) file=./$0 ;;
        esac
        [ -f "$file" ] || die 66 "this is not a file that can be read again" "save it, then run it as \`sh FILE\`"
        for hasher in sha256sum shasum openssl ''; do
            if [ -z "$hasher" ] || has "$hasher"; then break; fi
        done
        [ -n "$hasher" ] || die 69 "none of sha256sum, shasum and openssl is here to check the file with"
        for tool in head tail sed tr cut wc dirname; do has "$tool" || die 69 "there is no $tool here"; done
    }

    hash_of_input() {
        case $hasher in
        shasum) shasum -a 256 ;;
        openssl) openssl dgst -sha256 -r ;;
        *) sha256sum ;;
        esac | cut -c 1-64
    }

    bytes() { tail -c "+$(($1 + 1))" "$file" | head -c "$2"; } # $1: from where, $2: how many

    head_hash() { head -c "$HEAD_SIZE" "$file" | LC_ALL=C sed "s/^HEAD_SHA256='[0-9a-f]*'\$/HEAD_SHA256=/" | hash_of_input; }

    file_size() { wc -c <"$file" | tr -d ' '; }

    damaged() { die 65 "$file is damaged, or cut off: $1; nothing was done" "copy it again, and compare its SHA-256 with the one where it was made"; }

    check_part() { # $1: kind, $2: from where, $3: how many bytes, $4: hash, $5: name
        [ "$(bytes "$2" "$3" | hash_of_input)" = "$4" ] || damaged "$5 does not have its SHA-256"
    }

    extract() { # as check_part; $6: where to
        # to a new file, through no link
        (set -C && bytes "$2" "$3" >"$6") || die 73 "$5 cannot be written to $6" "is there room? TMPDIR names another folder"
        [ "$(hash_of_input <"$6")" = "$4" ] || damaged "$5 does not have its SHA-256"
    }

    list_part() {
        case $1 in
        odek) printf 'odek      %s, %s bytes, for %s\n' "$5" "$3" "$MACHINE" ;;
        image) printf 'image     %s, %s bytes, %s, for linux/%s\n' "${7:-without a name}" "$3" "$6" "$ARCHITECTURE" ;;
        *) printf '%-9s %s, %s bytes\n' "$1" "$5" "$3" ;;
        esac
        printf '          SHA-256 %s\n' "$4"
        [ "$1" != settings ] || bytes "$2" "$3" | plain
    }

    plain() { # a terminal obeys nothing of it
        LC_ALL=C tr '\011' ' ' | LC_ALL=C sed 's/[^ -~]/?/g; s/^/          /'
    }

    extract_part() {
        extract "$1" "$2" "$3" "$4" "$5" "$folder/$5"
        printf '%s  %s\n' "$4" "$5" >>"$folder/SHA256SUMS"
    }

    extract_all() {
        [ ! -e "$folder" ] || die 73 "$folder is there already" "name a new folder"
        case $folder in /*) ;; *) folder=./$folder ;; esac
        # new, and not another's by now
        { mkdir -p "$(dirname "$folder")" && mkdir "$folder"; } || die 73 "$folder cannot be made"
        each_part extract_part
        say "everything in $file is right, and is in $folder now"
    }

    check_machine() { # sets $engine to the processor of Docker's machine, "" where Docker does not answer
        here=$(uname -m)
        case $here in amd64) here=x86_64 ;; arm64) here=aarch64 ;; esac
        case $MACHINE in
        any | "$here") ;;
        *) die 70 "the odek in it is for $MACHINE, this machine is $here; nothing was done" "make one for this machine: \`odek bundle make --from RELEASE --kind …\`" ;;
        esac
        limit=''
        ! has timeout || limit='timeout 30'
        engine=''
        if has docker; then
            # podman's `docker` knows the second one alone
            engine=$($limit docker version --format '{{.Server.Arch}}' 2>/dev/null </dev/null) ||
                engine=$($limit docker version --format '{{.Server.OsArch}}' 2>/dev/null </dev/null) || engine=''
            engine=${engine#linux/}
        fi
        case $engine in
        '' | "${ARCHITECTURE%%/*}") ;;
        *) die 70 "the image in it is for $ARCHITECTURE, Docker's machine is $engine; nothing was done" "make one with an image for $engine" ;;
        esac
    }

    choose_places() { # sets $target as install.sh does, and $home and $settings
        if [ -n "$bin_dir" ]; then
            target=$bin_dir/odek
        elif [ -n "$prefix" ]; then
            target=$prefix/bin/odek
        else
            [ -n "${HOME-}" ] || die 78 "HOME is not set, so there is no usual place for odek" "name one: --bin-dir /usr/local/bin"
            target=${XDG_BIN_HOME:-$HOME/.local/bin}/odek
        fi
        case $target in /*) ;; *) target=$PWD/$target ;; esac
        home=${ODEK_HOME:-${HOME-}/.odek}
        case $home in
        /.odek) die 78 "HOME is not set, so there is no place for settings" "set HOME or ODEK_HOME" ;;
        /*) ;;
        *) die 78 "$home, the place for settings, is not an absolute path" "set HOME or ODEK_HOME" ;;
        esac
        # odek would not use it, and whose it is could exchange it meanwhile; / tells root from others
        for place in "$home" "${home%/*}"; do
            if [ ! -e "$place" ] || [ -O "$place" ]; then continue; fi
            if [ "$place" = "$home" ] || [ -O / ]; then
                die 78 "$place belongs to another user; nothing was done" "set HOME (sudo -H does), or ODEK_HOME"
            fi
        done
        settings=$home/config.json
        [ -z "${ODEK_CONFIG+set}" ] || die 73 "ODEK_CONFIG names other settings than $settings; nothing was done" \
            "unset it, and name the image in that file yourself: --list shows its ID"
    }

    without_image() { # the image is written by \`odek sandbox image load\`, in the engine's own words
        sed 's/"sandbox_image": "[^"]*"//' | hash_of_input
    }

    check_settings() { # $1: kind, …: settings that are there must be the same ones, or --force is given
        [ "$1" = settings ] || return 0
        if [ ! -e "$settings" ] && [ ! -L "$settings" ]; then return 0; fi
        if [ -f "$settings" ] && [ "$(without_image <"$settings")" = "$(bytes "$2" "$3" | without_image)" ]; then
            keep_settings=yes
            return 0
        fi
        [ -n "$force" ] || die 73 "$settings is there and says something else; nothing was done" \
            "compare it with config.json of --extract DIR; --force writes the new one and keeps the old one next to it"
    }

    show_settings() { # what comes with it counts from then on: nothing of it unseen
        if [ "$1" != settings ] || [ -n "$keep_settings" ]; then return 0; fi
        written='these settings'
        say "it brings settings for $settings:"
        bytes "$2" "$3" | plain >&2
    }

    write_settings() {
        [ -z "$keep_settings" ] || return 0
        umask 077
        mkdir -p "$home" || die 73 "$home cannot be made"
        if [ -e "$settings" ] || [ -L "$settings" ]; then
            kept=$settings.before-bundle number=1
            while [ -e "$kept" ] || [ -L "$kept" ]; do number=$((number + 1)) kept=$settings.before-bundle-$number; done
            mv "$settings" "$kept" || die 73 "$settings cannot be moved to $kept"
            say "the settings that were there are in $kept"
        fi
        extract "$1" "$2" "$3" "$4" "$5" "$home/.config.json.$$"
        mv -f "$home/.config.json.$$" "$settings" || die 73 "$settings cannot be written"
        say "wrote $settings"
    }

    confirm() {
        if [ -n "$yes" ] || [ ! -t 0 ] || [ ! -t 2 ]; then return 0; fi
        printf 'bundle: install odek as %s, load %s into Docker, and write %s into %s? [y/N] ' \
            "$target" "$IMAGES" "$written" "$settings" >&2
        read -r answer || answer=''
        case $answer in
        y | Y | yes) ;;
        *) die 1 "nothing was done" ;;
        esac
    }

    make_scratch() {
        : "${TMPDIR:=/tmp}"
        case $TMPDIR in /*) ;; *) TMPDIR=$PWD/$TMPDIR ;; esac
        scratch=$(mktemp -d "$TMPDIR/odek-bundle.XXXXXX") || die 73 "no folder for temporary files" "set TMPDIR to one that can be written"
        trap 'rm -rf "$scratch"' EXIT
        trap 'exit 129' HUP
        trap 'exit 130' INT
        trap 'exit 143' TERM
        room=$(df -Pk "$scratch" 2>/dev/null | tail -n 1 | tr -s ' ' | cut -d ' ' -f 4) || room=''
        case $room in
        '' | *[!0-9]*) ;;
        *) [ "$room" -gt $((LARGEST / 1024 + 1)) ] || die 73 "$scratch has room for $room KiB and needs $((LARGEST / 1024 + 1)); nothing was done" "set TMPDIR to a folder with more" ;;
        esac
    }

    install_part() {
        case $1 in
        installer) extract "$1" "$2" "$3" "$4" "$5" "$scratch/install.sh" ;;
        odek)
            extract "$1" "$2" "$3" "$4" "$5" "$scratch/$5"
            kind=binary
            [ "$MACHINE" != any ] || kind=zip
            unset ODEK_INSTALL_VERSION ODEK_INSTALL_KIND ODEK_INSTALL_BIN_DIR ODEK_INSTALL_PREFIX ODEK_INSTALL_FROM \
                ODEK_INSTALL_SHA256 ODEK_INSTALL_BASE_URL
            set -- --from "$scratch/$5" --sha256 "$4" --kind "$kind"
            if [ -n "$bin_dir" ]; then set -- "$@" --bin-dir "$bin_dir"; elif [ -n "$prefix" ]; then set -- "$@" --prefix "$prefix"; fi
            sh "$scratch/install.sh" "$@" --quiet $force $extras </dev/null
            [ "$(hash_of_input <"$target")" = "$ODEK_SHA256" ] || die 70 "$target is not the odek of this file"
            rm -f "$scratch/$ODEK_NAME"
            say "installed odek as $target"
            case :$PATH: in
            *:"${target%/*}":*) ;;
            *) say "${target%/*} is not on PATH; add this to your profile: export PATH=\"${target%/*}:\$PATH\"" ;;
            esac
            ;;
        settings) write_settings "$@" ;;
        esac
    }

    run_odek() ( # where no project is
        cd "$scratch"
        exec "$target" "$@"
    )

    load_part() { # $6: the IDs that it may have, $7: its name
        [ "$1" = image ] || return 0
        extract "$1" "$2" "$3" "$4" "$5" "$scratch/$5"
        run_odek sandbox image load "$scratch/$5" --id "$6" ${7:+--tag "$7"} $set >/dev/null </dev/null ||
            die 70 "the image ${7:-$6} was not loaded; odek is installed as $target" "afterwards go on with: sh $file"
        rm -f "$scratch/$5"
        set=''
    }

    install() {
        check_machine
        choose_places
        keep_settings=''
        each_part check_settings
        written=sandbox_image
        each_part show_settings
        confirm
        make_scratch
        each_part install_part
        if [ -z "$engine" ]; then
            die 69 "odek is installed as $target, but Docker does not answer here (\`docker version\`): no image was loaded" \
                "start Docker, then go on with: sh $file"
        fi
        set=--set
        each_part load_part
        [ -n "$doctor" ] || return 0
        run_odek doctor </dev/null && say "odek and its image are ready" && return 0
        die 1 "odek and its image are here, and \`odek doctor\` found what it cannot work without" "see above; then \`odek doctor\` again"
    }

    trap - EXIT
    clean_path
    parse "$@"
    find_tools
    [ "$(head_hash)" = "$HEAD_SHA256" ] || damaged "its beginning does not have its SHA-256"
    [ "$(file_size)" = "$FILE_SIZE" ] || damaged "it has $(file_size) bytes instead of $FILE_SIZE"
    [ "$action" != usage ] || { usage && exit 0; }
    say "checking every byte of $file"
    each_part check_part
    # once more and in another way: a damaged byte in the lines above must not be what lets it pass
    case "$(head_hash) $(file_size)" in
    "$HEAD_SHA256 $FILE_SIZE") ;;
    *) damaged "its beginning is not what it was" ;;
    esac
    case $action in
    list)
        each_part list_part
        say "everything in $file is right (made by $MADE_BY)"
        ;;
    extract) extract_all ;;
    install) install ;;
    esac
    exit 0
}
odek_bundle "$@"; exit
