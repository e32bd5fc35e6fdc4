"""`planner completion`: scripts with which bash, zsh and fish complete the planner.

A script passes the line to `planner completion --line` at each Tab, so it completes
what the installed planner has: its commands and flags, GPUs, models and values. That
takes the same code as the completion of `%plan` in notebooks, and no other package.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from planner.app import cli
from planner.app.cli.shared import FITS, Output
from planner.app.completing import last_word, matching, next_words
from planner.errors import PlannerError

EXAMPLES = (
    "planner completion bash >> ~/.bashrc",
    "planner completion zsh >> ~/.zshrc",
    "planner completion fish > ~/.config/fish/completions/planner.fish",
)

_BASH = """# Completion of the planner: planner completion bash >> ~/.bashrc
_planner() {
    local line="${COMP_LINE:0:COMP_POINT}"
    local word="${line##*[[:space:]]}" cut=""
    # bash completes what stands behind the last = of a word.
    [[ $COMP_WORDBREAKS == *=* && $word == *=* ]] && cut="${word%=*}="
    mapfile -t COMPREPLY < <("$1" completion --line "$line" 2>/dev/null)
    COMPREPLY=("${COMPREPLY[@]#"$cut"}")
    # No space after NAME=, which a value follows.
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -o default -F _planner planner vllm-memory-planner
"""
_ZSH = """#compdef planner vllm-memory-planner
# Completion of the planner: planner completion zsh >> ~/.zshrc
_planner() {
    local -a found
    found=("${(@f)$("${words[1]}" completion --line "$LBUFFER" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then
        compadd -U -Q -- "${found[@]}"
    else
        _files
    fi
}
whence compdef >/dev/null || { autoload -Uz compinit && compinit; }
compdef _planner planner vllm-memory-planner
"""
_FISH = """# planner completion fish > ~/.config/fish/completions/planner.fish
function __planner_words
    set -l program (commandline -opc)[1]
    set -l found ($program completion --line (commandline -cp) 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c planner -f -a '(__planner_words)'
complete -c vllm-memory-planner -f -a '(__planner_words)'
"""
_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    parser.description = (
        "Print a script with which a shell completes commands, flags, GPUs, models of "
        "the catalogue and values."
    )
    parser.add_argument(
        "shell", nargs="?", choices=tuple(_SCRIPTS), help="whose script to print"
    )
    parser.add_argument(
        "--line", metavar="TEXT", help="print the completions of a line (for scripts)"
    )


def run(options: dict[str, Any], _out: Output) -> int:
    """Print a script, or the completions of a line; return the exit status."""
    if options["line"] is not None:
        sys.stdout.writelines(f"{word}\n" for word in completed(options["line"]))
        return FITS
    if options["shell"] is None:
        raise PlannerError(
            "Name a shell, as `planner completion bash` does: bash, zsh or fish."
        )
    sys.stdout.write(_SCRIPTS[options["shell"]])
    return FITS


def completed(line: str) -> list[str]:
    """Return what the last word of a line can become, whole words.

    >>> completed("planner pl"), completed("planner plan m --gpus=")
    (['plan'], [])
    """
    words = line.split()[1:]
    typed = last_word(line)
    before = words[: len(words) - bool(typed)]
    parser = cli.build_parser(before[0] if before else "")
    while (found := cli.subcommands(parser)) and before:
        if before[0] not in found[0].choices:
            return []
        parser = found[0].choices[before.pop(0)]
    if found and not typed.startswith("-"):
        return [*matching(typed, tuple(found[0].choices))]
    offered = next_words(parser, " ".join([*before, typed]))
    kept = typed[: len(typed) - len(offered.typed)]
    return [kept + word for word in offered.offered]
