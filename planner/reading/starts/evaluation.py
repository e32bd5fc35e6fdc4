"""vLLM inside lm-eval: `lm_eval --model vllm --model_args pretrained=...,...`.

Source: EleutherAI lm-evaluation-harness 0.4 `lm_eval/models/vllm_causallms.py` VLLM,
`lm_eval/utils.py` simple_parse_args_string.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial

from planner.engine.flags import plain
from planner.reading.passage import Edit
from planner.reading.scripts.shell import Word
from planner.reading.sign_table import signs
from planner.reading.sites import Site, Start, WordList

_PROGRAMS = re.compile(r"(?:lm[_-]eval|lighteval)(?:\.py)?\Z")
_ITEM = re.compile(
    r"(?<!\w)(?P<name>\w+)="
    r"(?P<value>[^,{\[]*+(?:\{[^}]*(?:\}|\Z)|\[[^\]]*(?:\]|\Z))?[^,]*)"
)
"""A bracket that is not closed takes the rest, or each would be searched to the end."""
_OWN = frozenset(signs("arguments of lm-eval"))
"""Names that lm-eval itself reads."""
_LISTED = {"pretrained": "model", "model_name": "model", "max_length": "max_model_len"}


def evaluation_in(found: WordList, env: Mapping[str, Site]) -> Start | None:
    """Return the start that `--model_args` describe; None for other commands."""
    values = [word.value for word in found.words]
    is_evaluation = any(_PROGRAMS.search(value.rsplit("/", 1)[-1]) for value in values)
    if not is_evaluation or not any(re.match(r"vllm(?:-vlm)?$", v) for v in values):
        return None
    word = _model_args(found)
    if word is None:
        return None
    sites = tuple(_sites(word))
    return Start(
        sites=tuple(site for site in sites if site.name not in _OWN),
        add=partial(_add, word),
        entrypoint="llm",
        env=env,
        notes=tuple(
            f"{site.name} is read by lm-eval itself."
            for site in sites
            if site.name in _OWN
        ),
    )


def _model_args(found: WordList) -> Word | None:
    for word, following in zip(found.words, (*found.words[1:], None), strict=True):
        flag, equals, _ = word.value.partition("=")
        if flag in ("--model_args", "--model-args", "-a"):
            return word.part(len(flag) + 1) if equals else following
    return None


def _sites(word: Word) -> Iterator[Site]:
    for match in _ITEM.finditer(word.value):
        name = _LISTED.get(match["name"], match["name"])
        value = word.part(match.start("value"), match.end("value"))
        start = match.start() - (1 if match.start() else 0)
        yield Site(
            name=name,
            value=None if value.variables else _typed(name, match["value"]),
            replace=partial(_replaced, value),
            remove=partial(_removed, word, start, match.end()),
            variables=value.variables,
            written=match["name"],
            at=(*word.part(match.start("name"), match.end("name")).at, *value.at),
        )


def _typed(name: str, text: str) -> object:
    if name == "model":
        return text
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(plain(value))


def _replaced(word: Word, value: object) -> list[Edit]:
    return [word.replaced(_written(value))]


def _removed(word: Word, start: int, end: int) -> list[Edit]:
    return [word.passage.edit(start, end, "")]


def _add(word: Word, name: str, value: object) -> list[Edit]:
    end = len(word.value)
    return [word.passage.edit(end, end, f",{name}={_written(value)}")]
