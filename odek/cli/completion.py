"""Completion scripts for three shells, made from the pages of all commands. Pure.

The scripts are whole by themselves: they start no odek, read no network, and know the same options
as the odek that printed them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odek.cli.command_docs import CommandDoc, Flag

SHELLS = ("bash", "zsh", "fish")


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


def _flags_of(pages: Sequence[CommandDoc], key: tuple[str, ...]) -> tuple[Flag, ...]:
    return next((page.flags for page in pages if page.words == key), ())


def _with_choices(pages: Sequence[CommandDoc]) -> dict[str, tuple[str, ...]]:
    return {flag.name: flag.choices for page in pages for flag in page.flags if flag.choices}


def _with_values(pages: Sequence[CommandDoc]) -> list[str]:
    """Return the names of all flags that take a value which is none of a few."""
    names = {
        name: None for page in pages for flag in page.flags if flag.metavar and not flag.choices for name in flag.names
    }
    return list(names)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _bash(pages: Sequence[CommandDoc]) -> str:
    keys = _keys(pages)
    known = "|".join(_quoted(" ".join(key)) for key in keys)
    cases = [f"  '') words={_quoted(_names(pages, ()))}; flags='--help --version' ;;"]
    for key in keys:
        flags = " ".join(name for flag in _flags_of(pages, key) for name in flag.names)
        cases.append(f"  {_quoted(' '.join(key))}) words={_quoted(_names(pages, key))}; flags={_quoted(flags)} ;;")
    choices = [
        f'  {name}) COMPREPLY=($(compgen -W {_quoted(" ".join(values))} -- "$current")); return ;;'
        for name, values in _with_choices(pages).items()
    ]
    return "\n".join(
        (
            '# bash completion for odek; put it where bash-completion looks, or: eval "$(odek completion bash)"',
            "_odek() {",
            "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}",
            "  local key= next word words flags index",
            '  if [ "$current" = = ]; then current=',
            '  elif [ "$before" = = ]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi',
            "  for ((index = 1; index < COMP_CWORD; index++)); do",
            "    word=${COMP_WORDS[index]}",
            '    if [ "$key$word" = help ]; then continue; fi',
            '    next="${key:+$key }$word"',
            f"    case $next in {known}) key=$next ;; -*|*' '-*) ;; *) break ;; esac",
            "  done",
            "  case $before in",
            *choices,
            f'  {"|".join(_with_values(pages))}) COMPREPLY=($(compgen -f -- "$current")); return ;;',
            "  esac",
            "  case $key in",
            *cases,
            "  esac",
            "  case $current in",
            '  -*) COMPREPLY=($(compgen -W "$flags" -- "$current")) ;;',
            '  *) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;',
            "  esac",
            "}",
            "complete -o default -F _odek odek",
            "",
        )
    )


def _names(pages: Sequence[CommandDoc], key: tuple[str, ...]) -> str:
    return " ".join(word for word, _ in words_after(pages, key))


def _zsh(pages: Sequence[CommandDoc]) -> str:
    keys = _keys(pages)
    known = "|".join(" ".join(key).replace(" ", "\\ ") for key in keys)
    choices = [
        f"    {name}) compadd -- {' '.join(map(_quoted, values))}; return ;;"
        for name, values in _with_choices(pages).items()
    ]
    return "\n".join(
        (
            "#compdef odek",
            "# zsh completion for odek; put it into a folder of $fpath as _odek",
            "_odek() {",
            "  local key= next word",
            "  local -a candidates flags",
            '  for word in "${(@)words[2,CURRENT-1]}"; do',
            "    [[ $key$word == help ]] && continue",
            '    next="${key:+$key }$word"',
            f"    case $next in ({known}) key=$next ;; (-*|*\\ -*) ;; (*) break ;; esac",
            "  done",
            "  case ${words[CURRENT-1]} in",
            *choices,
            f"    {'|'.join(_with_values(pages))}) _files; return ;;",
            "  esac",
            "  case $key in",
            _zsh_case(
                "", words_after(pages, ()), (("--help", "list the commands"), ("--version", "print the version"))
            ),
            *(
                _zsh_case(
                    " ".join(key),
                    words_after(pages, key),
                    [(name, flag.help) for flag in _flags_of(pages, key) for name in flag.names],
                )
                for key in keys
            ),
            "  esac",
            "  if [[ ${words[CURRENT]} == -* ]]; then _describe -o option flags",
            "  elif (( ${#candidates} )); then _describe command candidates",
            "  else _files",
            "  fi",
            "}",
            'if [ "$funcstack[1]" = _odek ]; then _odek "$@"; else compdef _odek odek; fi',
            "",
        )
    )


def _zsh_case(key: str, words: Sequence[tuple[str, str]], flags: Sequence[tuple[str, str]]) -> str:
    def listed(pairs: Sequence[tuple[str, str]]) -> str:
        return " ".join(_quoted(name.replace(":", "\\:") + (f":{text}" if text else "")) for name, text in pairs)

    return f"    ({_quoted(key)}) candidates=({listed(words)}); flags=({listed(flags)}) ;;"


def _fish(pages: Sequence[CommandDoc]) -> str:
    keys = _keys(pages)
    known = " ".join(_quoted(" ".join(key)) for key in keys)
    lines = [
        "# fish completion for odek; put it into ~/.config/fish/completions as odek.fish",
        "function __odek_at",
        "    set -l key ''",
        "    for word in (commandline -opc)[2..-1]",
        '        test "$key$word" = help; and continue',
        '        set -l next (string trim -- "$key $word")',
        f'        if contains -- "$next" {known}',
        "            set key $next",
        "        else if not string match -q -- '-*' $word",
        "            break",
        "        end",
        "    end",
        '    test "$key" = "$argv[1]"',
        "end",
    ]
    for key in ((), *keys):
        here = f"complete -c odek -n {_quoted('__odek_at ' + _quoted(' '.join(key)))}"
        for word, text in words_after(pages, key):
            lines.append(f"{here} -f -a {_quoted(word)}" + (f" -d {_quoted(text)}" if text else ""))
        lines += [f"{here} {_fish_flag(flag)}" for flag in _flags_of(pages, key)]
    return "\n".join((*lines, ""))


def _fish_flag(flag: Flag) -> str:
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.names]
    value = f"-x -a {_quoted(' '.join(flag.choices))}" if flag.choices else "-r" if flag.metavar else ""
    return " ".join(part for part in (*names, value, f"-d {_quoted(flag.help)}") if part)
