"""An error as plain values: what was given, what is allowed, and what to do.

`--json` prints it in the place of an answer, and an agent gets it through
`planner mcp`. Its schema is `planner schema error`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from planner.engine.arguments import ARGUMENTS, Argument, Kind
from planner.engine.gpu import catalogue
from planner.engine.releases import NEWEST, OLDEST
from planner.errors import PlannerError
from planner.planning.batches import ENTRYPOINTS

_SENTENCES = re.compile(r"(?<=[.?!])\s+(?=[A-Z`'\"(])")
_SECRET = re.compile(r"(?:api|hf)[-_](?:key|token)|password")
_LONGEST = 200
"""Characters of a value that are given back."""
_KINDS = {
    Kind.SWITCH: "true or false",
    Kind.LENGTH: "a whole number from 1, such as 32768 or 32K; auto or -1",
    Kind.SIZE: "bytes: a whole number, or with a unit, such as 8GiB",
    Kind.NUMBER: "a number",
    Kind.SHARE: "a number above 0 and at most 1",
    Kind.TEXT: "a text",
    Kind.TABLE: "a table: names and values, as JSON",
    Kind.NAMES: "a list of texts",
    Kind.NUMBERS: "a list of whole numbers",
}
_NUMBERS_OF_LOAD = ("tokens", "requests", "turns")


def problem(
    error: PlannerError, given: Mapping[str, object], usage: str, hint: str
) -> dict[str, Any]:
    """Return an error as plain values.

    Args:
        error: a sentence on what was given, what is allowed and what to do.
        given: all that was given, by the names that a user gives it under.
        usage: what is allowed, where the sentence names nothing that was given.
        hint: what to do, where the sentence does not say.
    """
    sentence = str(error)
    named = dict(_named(sentence, given))
    found = error.allowed or " ".join(filter(None, map(allowed, named)))
    _, *rest = _SENTENCES.split(sentence)
    return {
        "error": sentence,
        "code": error.code,
        "given": {name: _shown(name, one) for name, one in (named or given).items()},
        "allowed": found or usage,
        "do": " ".join(rest) or hint,
    }


def _named(sentence: str, given: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield what a sentence names, else what has a value that it quotes."""
    names = {form: name for name in given for form in _forms(name)}
    first = mentioned(sentence, names)
    if first is not None:
        yield names[first], given[names[first]]
        return
    for name, value in given.items():
        values = value if isinstance(value, list) else [value]
        quoted = [one for one in values if mentioned(sentence, [str(one)])]
        if quoted:
            yield name, quoted if isinstance(value, list) else value


def _forms(name: str) -> tuple[str, ...]:
    """Return how errors write a name: as an argument, and as a flag."""
    plain = name.removeprefix("--").replace("-", "_")
    return (plain, "--" + plain.replace("_", "-"))


def mentioned(sentence: str, names: Iterable[str]) -> str | None:
    """Return the one of these names that a sentence mentions first."""
    places = {
        name: match.start()
        for name in names
        if name and (match := re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sentence))
    }
    return min(places, key=places.__getitem__, default=None)


def allowed(name: str) -> str:
    """Say which values an argument, a flag or an entry may have; empty: not known.

    >>> allowed("--enforce-eager"), allowed("max_num_seqs")
    ('true or false', 'a whole number from 1')
    """
    plain = _forms(name)[0]
    if plain in ARGUMENTS:
        return values_of(ARGUMENTS[plain])
    if plain.endswith(_NUMBERS_OF_LOAD):
        return "a whole number"
    say = _ENTRIES.get(plain)
    return "" if say is None else say()


def values_of(argument: Argument) -> str:
    """Say which values an engine argument may have."""
    if argument.kind is Kind.CHOICE:
        return f"one of {', '.join(map(str, argument.taken))}"
    if argument.kind in _KINDS:
        return _KINDS[argument.kind]
    least = 1 if argument.least is None else argument.least
    most = "" if argument.most is None else f" to {argument.most:,}"
    return f"a whole number from {least}{most}"


def _releases() -> str:
    return f"a release of vLLM from {OLDEST} to {NEWEST}"


def _gpus() -> str:
    some = ", ".join(gpu.name for gpu in catalogue()[:6])
    return (
        f"a GPU of the catalogue, such as {some} (`planner gpus` lists them), "
        "attached, CPU, or a description: name=MyGPU,memory=48GiB,capability=8.9"
    )


_ENTRIES: Mapping[str, Callable[[], str]] = {
    "model": lambda: (
        "the name of a bundled model (`planner models` lists them), owner/name on the "
        "Hub, or the path of a folder or config.json"
    ),
    "gpu": _gpus,
    "gpus": _gpus,
    "vllm_version": _releases,
    "from": _releases,
    "to": _releases,
    "entrypoint": lambda: f"one of {', '.join(ENTRYPOINTS)}",
    "env": lambda: "NAME=VALUE, an environment variable of vLLM",
}


def _shown(name: str, value: object) -> object:
    if _SECRET.search(name):
        return "***"
    if isinstance(value, str) and len(value) > _LONGEST:
        return f"{value[:_LONGEST]} ..."
    return value
