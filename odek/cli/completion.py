"""Completion scripts for three shells, made from the pages of all commands. Pure.

Commands, options and choices are in the scripts themselves. The values of an option or an argument follow from its
placeholder: files, what `odek __complete` finds on this machine (KINDS), or nothing. So a new command or option is
completed without a line here. A value is quoted by the shell's own means: a model's name may hold `$(…)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from odek.cli.command_docs import CommandDoc, Flag

SHELLS = ("bash", "zsh", "fish")
KINDS: Mapping[str, str] = {
    "CONTAINER": "containers",
    "ID": "sessions",
    "KEY": "approvals",
    "MODEL": "models",
    "NETWORK": "networks",
    "PROBE": "probes",
    "PROJECT": "compose",
    "PROVIDER": "providers",
    "REF": "images",
    "TOOL": "tools",
}
"""placeholder → kind of values, as app/candidates.py knows them"""
_FILES = "files"
_NOTHING = "-"
_PLACES = {"FILE": _FILES, "DIR": _FILES, "PATH": _FILES, "TASK": _FILES}


def render_completion(shell: str, pages: Sequence[CommandDoc]) -> str:
    """Return the script for one of SHELLS."""
    renderers: dict[str, Callable[[Sequence[CommandDoc]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    return renderers[shell](pages)


def words_after(pages: Sequence[CommandDoc], words: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return what may follow `odek` and `words`, each with its summary ("" when there is none)."""
    found: dict[str, str] = {}
    for page in pages:
        if len(page.words) > len(words) and page.words[: len(words)] == words:
            nested = len(page.words) > len(words) + 1
            found.setdefault(page.words[len(words)], "" if nested else page.summary)
        if page.words == words:
            found |= dict.fromkeys(page.actions, "") | found
    if not words:
        found["help"] = "explain a command"
    return tuple(found.items())


def _keys(pages: Sequence[CommandDoc]) -> list[tuple[str, ...]]:
    """Return every sequence of words that a list of its own belongs to, such as ("sandbox", "image")."""
    keys = {page.words[:length]: None for page in pages for length in range(1, len(page.words) + 1)}
    return list(keys)


def _page_of(pages: Sequence[CommandDoc], key: tuple[str, ...]) -> CommandDoc | None:
    return next((page for page in pages if page.words == key), None)


def _flags_of(pages: Sequence[CommandDoc], key: tuple[str, ...]) -> tuple[Flag, ...]:
    page = _page_of(pages, key)
    return page.flags if page else ()


def _kind_of(placeholder: str) -> str:
    """Return what is offered where `placeholder` stands in the help, such as "NETWORK,…": a kind, files or nothing."""
    word = placeholder.partition(",")[0]
    return KINDS.get(word) or _PLACES.get(word, _NOTHING)


def _kinds_of_arguments(pages: Sequence[CommandDoc], key: tuple[str, ...]) -> tuple[str, ...]:
    """Return what is offered for each argument of a command; the last one is for all that follow, too."""
    page = _page_of(pages, key)
    if page is None or page.actions:
        return (_NOTHING,)
    kinds = tuple(_kind_of(name) for name, _ in page.arguments)
    return kinds if page.repeats else (*kinds, _NOTHING)


def _with_choices(pages: Sequence[CommandDoc]) -> dict[str, tuple[str, ...]]:
    """Return the options that take one of a few words, with these."""
    flags = (flag for page in pages for flag in page.flags if flag.choices and _kind_of(flag.metavar) not in _ASKED)
    return {"|".join(flag.names): flag.choices for flag in flags}


def _with_values(pages: Sequence[CommandDoc]) -> dict[str, str]:
    """Return the names of all options that take a value, as the pattern of a `case`, by what is offered for it.

    Where one name means different things in different commands, the first one counts.
    """
    by_kind: dict[str, list[str]] = {}
    for name, kind in _kinds_by_name(pages).items():
        by_kind.setdefault(kind, []).append(name)
    return {kind: "|".join(names) for kind, names in by_kind.items()}


def _exceptions(pages: Sequence[CommandDoc]) -> dict[str, str]:
    """Return what is offered for an option that means something else in another command, by command and option."""
    usual = _kinds_by_name(pages)
    return {
        " ".join((*page.words, name)): _kind_of(flag.metavar)
        for page in pages
        for flag in page.flags
        for name in flag.names
        if flag.metavar and _kind_of(flag.metavar) != usual[name]
    }


def _kinds_by_name(pages: Sequence[CommandDoc]) -> dict[str, str]:
    found: dict[str, str] = {}
    for flag in (flag for page in pages for flag in page.flags if flag.metavar):
        for name in flag.names:
            found.setdefault(name, _kind_of(flag.metavar))
    return found


_ASKED = frozenset(KINDS.values())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _fill(script: str, parts: Mapping[str, Sequence[str] | str]) -> str:
    """Return `script` with the names between percent signs replaced: a text within its line, lines in place of it."""
    lines: list[str] = []
    for line in script.splitlines():
        inserted = parts.get(line.strip().strip("%"), "") if line.strip().startswith("%") else ""
        if inserted != "" and not isinstance(inserted, str):
            lines += inserted
            continue
        for name, text in parts.items():
            line = line.replace(f"%{name}%", text) if isinstance(text, str) else line
        lines.append(line)
    return "\n".join(lines) + "\n"


_BASH = r"""# bash completion for odek; put it where bash-completion looks, or: eval "$(odek completion bash)"
_odek() {
  local line=${COMP_LINE:0:COMP_POINT} current=${COMP_WORDS[COMP_CWORD]} key= settled= count=0 index
  local word value flag= kind= words= flags= kinds=() all=()
  case $current in [=:@]) current= ;; esac
  current=${current#[\"\']}
  read -ra all <<<"$line"
  case $line in *[[:space:]]) all+=('') ;; esac
  for ((index = 1; index < ${#all[@]} - 1; index++)); do
    word=${all[index]}
    case $word in
    %valued%) flag=$word; ((index++)); continue ;;
    -*) continue ;;
    esac
    if [ "$settled" ]; then ((count++)); continue; fi
    if [ "$key$word" = help ]; then continue; fi
    case ${key:+$key }$word in
    %keys%) key=${key:+$key }$word ;;
    *) settled=1; ((count++)) ;;
    esac
  done
  value=${all[${#all[@]} - 1]}
  flag=${all[${#all[@]} - 2]}
  case $value in --*=*) flag=${value%%=*}; value=${value#*=} ;; esac
  value=${value#[\"\']}
  case $flag in
  %choices%
  %kinds%
  esac
  case "$key $flag" in
  %exceptions%
  esac
  if [ "$words" ]; then COMPREPLY=($(compgen -W "$words" -- "$value")); return; fi
  if [ ! "$kind" ]; then
    case $key in
    %cases%
    esac
    case $value in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$value")); return ;;
    esac
    if [ "$words" ] && [ ! "$settled" ]; then
      COMPREPLY=($(compgen -W "$words" -- "$value"))
      if [ ${#COMPREPLY[@]} -gt 0 ]; then return; fi
    fi
    kind=${kinds[count < ${#kinds[@]} ? count : ${#kinds[@]} - 1]}
  fi
  case $kind in
  files) return ;;
  -) ;;
  *) _odek_ask "$kind" "${value%"$current"}" "${all[@]:1:${#all[@]} - 2}" "$value" ;;
  esac
  compopt +o default 2>/dev/null
}
_odek_ask() { # what odek knows of a kind ($1), without the part of it that bash leaves as it is ($2)
  local kind=$1 head=$2 line quoted
  shift 2
  while IFS=$'\t' read -r line _; do
    line=${line#"$head"}
    printf -v quoted %q "$line"
    case $quoted in */ | *__) compopt -o nospace 2>/dev/null ;; esac
    COMPREPLY+=("$quoted")
  done < <(command odek __complete "$kind" "$@" 2>/dev/null </dev/null)
}
complete -o default -F _odek odek
"""


def _bash(pages: Sequence[CommandDoc]) -> str:
    keys = _keys(pages)
    values = _with_values(pages)
    cases = [f"    '') words={_quoted(_names(pages, ()))}; flags='--help --version'; kinds=(-) ;;"]
    for key in keys:
        flags = " ".join(name for flag in _flags_of(pages, key) for name in flag.names)
        kinds = " ".join(_kinds_of_arguments(pages, key))
        words = _quoted(_names(pages, key))
        cases.append(f"    {_quoted(' '.join(key))}) words={words}; flags={_quoted(flags)}; kinds=({kinds}) ;;")
    return _fill(
        _BASH,
        {
            "valued": "|".join(values.values()),
            "keys": "|".join(_quoted(" ".join(key)) for key in keys),
            "choices": [
                f"  {names}) words={_quoted(' '.join(words))} ;;" for names, words in _with_choices(pages).items()
            ],
            "kinds": [f"  {names}) kind={kind} ;;" for kind, names in values.items()],
            "exceptions": [f"  {_quoted(name)}) kind={kind} ;;" for name, kind in _exceptions(pages).items()],
            "cases": cases,
        },
    )


def _names(pages: Sequence[CommandDoc], key: tuple[str, ...]) -> str:
    return " ".join(word for word, _ in words_after(pages, key))


_ZSH = r"""#compdef odek
# zsh completion for odek; put it into a folder of $fpath as _odek
_odek() {
  local key= settled= flag= kind= word
  local -i count=0 index
  local -a candidates flags kinds choices
  for ((index = 2; index < CURRENT; index++)); do
    word=${words[index]}
    case $word in
    (%valued%) ((index++)); continue ;;
    (-*) continue ;;
    esac
    if [[ -n $settled ]]; then ((count++)); continue; fi
    [[ $key$word == help ]] && continue
    case ${key:+$key }$word in
    (%keys%) key=${key:+$key }$word ;;
    (*) settled=1; ((count++)) ;;
    esac
  done
  flag=${words[CURRENT-1]}
  if [[ ${words[CURRENT]} == --*=* ]]; then
    flag=${words[CURRENT]%%=*}
    compset -P 1 '*='
  fi
  case $flag in
  %choices%
  %kinds%
  esac
  case "$key $flag" in
  %exceptions%
  esac
  if (( ${#choices} )); then compadd -- $choices; return; fi
  if [[ -z $kind ]]; then
    case $key in
    %cases%
    esac
    if [[ ${words[CURRENT]} == -* ]]; then _describe -o option flags; return; fi
    if [[ -z $settled ]] && (( ${#candidates} )) && _describe command candidates; then return; fi
    kind=${kinds[count + 1]:-${kinds[-1]}}
  fi
  case $kind in
  (files) compset -P '@'; _files ;;
  (-) ;;
  (*) _odek_ask $kind ;;
  esac
}
_odek_ask() { # offers what odek knows of a kind
  local value text
  local -a found
  while IFS=$'\t' read -r value text; do
    value=${value//\\/\\\\}
    found+=("${value//:/\\:}${text:+:$text}")
  done < <(command odek __complete $1 "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null </dev/null)
  (( ${#found} )) && _describe -t values value found
}
if [ "$funcstack[1]" = _odek ]; then _odek "$@"; else compdef _odek odek; fi
"""


def _zsh(pages: Sequence[CommandDoc]) -> str:
    keys = _keys(pages)
    values = _with_values(pages)
    overall = (("--help", "list the commands"), ("--version", "print the version"))
    cases = [_zsh_case("", words_after(pages, ()), overall, (_NOTHING,))]
    for key in keys:
        flags = [(name, flag.help) for flag in _flags_of(pages, key) for name in flag.names]
        cases.append(_zsh_case(" ".join(key), words_after(pages, key), flags, _kinds_of_arguments(pages, key)))
    return _fill(
        _ZSH,
        {
            "valued": "|".join(values.values()),
            "keys": "|".join(" ".join(key).replace(" ", "\\ ") for key in keys),
            "choices": [
                f"  ({names}) choices=({' '.join(map(_quoted, words))}) ;;"
                for names, words in _with_choices(pages).items()
            ],
            "kinds": [f"  ({names}) kind={kind} ;;" for kind, names in values.items()],
            "exceptions": [f"  ({_quoted(name)}) kind={kind} ;;" for name, kind in _exceptions(pages).items()],
            "cases": cases,
        },
    )


def _zsh_case(
    key: str, words: Sequence[tuple[str, str]], flags: Sequence[tuple[str, str]], kinds: Sequence[str]
) -> str:
    def listed(pairs: Sequence[tuple[str, str]]) -> str:
        return " ".join(_quoted(name.replace(":", "\\:") + (f":{text}" if text else "")) for name, text in pairs)

    return f"    ({_quoted(key)}) candidates=({listed(words)}); flags=({listed(flags)}); kinds=({' '.join(kinds)}) ;;"


_FISH = r"""# fish completion for odek; put it into ~/.config/fish/completions as odek.fish
function __odek_at # whether the words so far are those of a command ($argv[1]), followed by so many others ($argv[2])
    set -l key ''
    set -l settled
    set -l count 0
    set -l skip
    for word in (commandline -opc)[2..-1]
        if test -n "$skip"
            set skip
            continue
        end
        if contains -- "$word" %valued%
            set skip 1
            continue
        end
        string match -q -- '-*' "$word"; and continue
        test -z "$settled" -a "$key$word" = help; and continue
        set -l next (string trim -- "$key $word")
        if test -z "$settled"; and contains -- "$next" %keys%
            set key $next
        else
            set settled 1
            set count (math $count + 1)
        end
    end
    test "$key" = "$argv[1]"; or return 1
    set -q argv[3]; and test $count -ge $argv[3]; and return 0
    test -z "$argv[2]" -o "$argv[2]" = "$count"
end
function __odek_ask # offers what odek knows of a kind
    set -l typed (string replace -r -- '^--[^=]*=' '' (commandline -ct))
    set -l words (commandline -opc)
    command odek __complete $argv[1] $words[2..-1] "$typed" 2>/dev/null </dev/null
end
%cases%
"""


def _fish(pages: Sequence[CommandDoc]) -> str:
    keys = _keys(pages)
    lines = []
    for key in ((), *keys):
        where = f"__odek_at {_quoted(' '.join(key))}"
        lines += [
            f"complete -c odek -n {_quoted(where + ' 0')} -f -a {_quoted(word)}"
            + (f" -d {_quoted(text)}" if text else "")
            for word, text in words_after(pages, key)
        ]
        kinds = _kinds_of_arguments(pages, key)
        for number, kind in enumerate(kinds):
            place = f"'' {number}" if number == len(kinds) - 1 else str(number)
            if kind != _FILES:
                asked = f" -a {_quoted(f'(__odek_ask {kind})')}" if kind != _NOTHING else ""
                lines.append(f"complete -c odek -n {_quoted(f'{where} {place}')} -f{asked}")
        lines += [f"complete -c odek -n {_quoted(where)} {_fish_flag(flag)}" for flag in _flags_of(pages, key)]
    return _fill(
        _FISH,
        {
            "valued": " ".join(_with_values(pages).values()).replace("|", " "),
            "keys": " ".join(_quoted(" ".join(key)) for key in keys),
            "cases": lines,
        },
    )


def _fish_flag(flag: Flag) -> str:
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.names]
    kind = _kind_of(flag.metavar)
    value = ""
    if kind in _ASKED:
        value = f"-x -a {_quoted(f'(__odek_ask {kind})')}"
    elif flag.choices:
        value = f"-x -a {_quoted(' '.join(flag.choices))}"
    elif flag.metavar:
        value = "-r" if kind == _FILES else "-x"
    return " ".join(part for part in (*names, value, f"-d {_quoted(flag.help)}") if part)
