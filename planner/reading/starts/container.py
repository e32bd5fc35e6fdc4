"""Commands that start vLLM inside of something: a container, a shell, an evaluation.

Source: Docker 28 `docker run`, `docker-compose`; the entry point of vLLM's images,
vLLM 0.33.0 `docker/Dockerfile` (`vllm serve`; before 0.12 `python3 -m
vllm.entrypoints.openai.api_server`); EleutherAI lm-evaluation-harness 0.4
`lm_eval/models/vllm_causallms.py` VLLM, `lm_eval/utils.py` simple_parse_args_string.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from planner.engine.flags import plain
from planner.reading.passage import Edit, Passage
from planner.reading.questions.noted import other_engine
from planner.reading.reading import FoundStart, Kind
from planner.reading.scripts.shell import Command, Word, commands_of
from planner.reading.scripts.variables import Over
from planner.reading.sign_table import signs
from planner.reading.sites import Site, Start, WordList, shell_list
from planner.reading.starts.clouds import (
    IMAGE_OF_VLLM,
    PROGRAMS,
    Deployment,
    Run,
    container_at,
    deployment_in,
    devices_named,
    number_of_gpus,
)
from planner.reading.starts.command import (
    Program,
    env_site,
    env_sites,
    program_in,
    start_of,
)
from planner.reading.starts.images import gpu_named_in, image_notes, version_of, visible

_STARTS_VLLM = re.compile(
    r"\bvllm\s+serve\s|-m\s+(?:vllm\.entrypoints|dynamo\.vllm)|\bvllm\s+bench\s"
    r"|(?:docker|podman)\s+run\s"
)
"""A command in one word: the text that a shell is given to run."""
_NAMED = re.compile(rf"vllm|benchmark_|\b(?:{'|'.join(PROGRAMS)})\b")
"""What stands in every command that starts vLLM."""
_REQUIRED = re.compile(r"\bvllm(?:\[[\w,-]+\])?==(?P<version>\d+\.\d+\.\d+\S*)")
_SAYS = ("echo", "printf", "cat")
"""Programs that print a command and start none."""
_SHOWN = re.compile(r"\.(?:log|out|err|txt|csv|md)\b|/dev/|^(?:tee|grep|wc|jq|less)\b")
"""Where nothing that is printed runs."""
_LOOKS = frozenset(
    "grep egrep rg pgrep pkill killall kill alias which man git sed awk curl logger "
    "notify-send".split()
)
"""Programs that have a command among their words, and start none."""
_PROGRAM = re.compile(
    r"(?:\S*/)?(?:python[\d.]*|uv|bash|sh|zsh|tini|env|exec|nvidia-smi|sleep)\Z"
    r"|\S+\.(?:sh|py)\Z|/(?:usr|bin|sbin|opt/\w+/bin)/"
)
"""A program of another image, or a script: never a model."""
_FLAGS = {
    "--model",
    "--max-model-len",
    "--gpu-memory-utilization",
    "--served-model-name",
}
"""What no other server takes: an image that the text does not tell is one of vLLM."""
_OWN_FLAGS = _FLAGS - {"--model", "--served-model-name"}
_TAKEN = "What is started is taken for vLLM, by the flags that it is given."
_FIRST_WORDS = 3
ReadsDocument = Callable[[Passage], Sequence["FoundStart"]]
_MOST_NAMED = 12
"""Variables that are named in notes: a script has a few of them."""


def starts_in(
    commands: Sequence[Command], text: str, read: ReadsDocument | None = None
) -> Iterator[FoundStart]:
    """Yield the starts of vLLM in shell commands, in order.

    Args:
        commands: what a script runs.
        text: the whole text.
        read: reads a here-document that is none for a shell, such as a manifest.
    """
    for command in commands:
        values = [word.value for word in command.words]
        names = [value.rsplit("/", 1)[-1] for value in values[:_FIRST_WORDS]]
        is_shown = not command.into or bool(_SHOWN.search(command.into))
        is_said = names[0] in _SAYS and is_shown
        is_start = _NAMED.search(" ".join(values)) and not is_said
        if is_start and not _LOOKS.intersection(names):
            found = shell_list(command.words, text)
            yield from starts_in_words(found, text, command.assigned)
        for document in () if is_said else command.documents:
            others = read(document) if read else ()
            inner = commands_of(document, command.assigned)
            yield from others or starts_in(inner, text)


def starts_in_words(
    found: WordList, text: str, assigned: Mapping[str, Word]
) -> Iterator[FoundStart]:
    """Yield the starts in the words of one command, with the variables set for it."""
    values = [word.value for word in found.words]
    if not _NAMED.search(" ".join(values)):
        return
    container = container_at(values)
    if container is not None:
        yield from _contained(found, container, text, assigned)
        return
    deployment = deployment_in(found, text)
    if deployment is not None:
        yield from _deployed(deployment, text)
        return
    own = Over(_of_env_program(found.words), assigned)
    program = program_in(values)
    if program is not None:
        yield FoundStart(
            kind=Kind.COMMAND,
            start=replace(
                start_of(found, program, env_sites(own)),
                version=_required_version(found.words[: program.first]),
                gpus=visible(own),
            ),
        )
        return
    inner = _shell_text(found.words)
    if inner is not None:
        yield from _in_shell(inner, found.words, text, assigned)
        return
    evaluated = evaluation_in(found, env_sites(own))
    if evaluated is not None:
        yield FoundStart(kind=Kind.EVALUATION, start=evaluated)


def _deployed(one: Deployment, text: str) -> Iterator[FoundStart]:
    """Yield the start of a container that a cloud or a cluster is to run."""
    program = "-" if one.has_program else ""
    for start in starts_of_list(
        one.found, 0, text, one.env, entrypoint=program, image=one.image
    ):
        gpu = gpu_named_in(one.gpu) if one.gpu else None
        placed = replace(start, gpu=gpu, gpus=number_of_gpus(one.gpus) or start.gpus)
        yield FoundStart(kind=Kind.CONTAINER, start=placed)


def _in_shell(
    inner: Word, words: Sequence[Word], text: str, assigned: Mapping[str, Word]
) -> Iterator[FoundStart]:
    """Yield the starts in a text that another shell runs: `sh -c TEXT NAME WORDS`."""
    at = next(at for at, word in enumerate(words) if word is inner)
    is_script = words[at - 1].value.startswith("-") and words[at - 1].value[-1] == "c"
    given = words[at + 2 :] if is_script else None
    for command in commands_of(inner.passage, assigned, given):
        yield from starts_in_words(
            shell_list(command.words, text), text, Over(command.assigned, assigned)
        )


def _required_version(words: Sequence[Word]) -> Site | None:
    """Return the release in a requirement: `uv run --with vllm==0.11.0`."""
    for word in words:
        match = _REQUIRED.search(word.value)
        if match is not None:
            return env_site("vllm_version", word.part(*match.span("version")))
    return None


def _of_env_program(words: Sequence[Word]) -> dict[str, Word]:
    """Return variables set by `env NAME=value program`, or by a launcher's words."""
    named: dict[str, Word] = {}
    for word in words:
        match = re.match(r"(VLLM_\w+)=", word.value)
        if match:
            named[match[1]] = word.part(match.end())
    return named


def _shell_text(words: Sequence[Word]) -> Word | None:
    """Return the text that another shell runs: of `bash -lc TEXT`, `ssh host TEXT`."""
    for word in words[1:]:
        if _STARTS_VLLM.search(word.value):
            return word
    return None


def _contained(
    found: WordList, first: int, text: str, assigned: Mapping[str, Word]
) -> Iterator[FoundStart]:
    # It reads what containers hold, too.
    from planner.reading.starts.adapting import start_of_variables  # noqa: PLC0415 - as above

    run = Run(found.words, first)
    if run.image >= len(found.words):
        return
    image = found.words[run.image]
    entrypoint = "" if run.entrypoint is None else run.entrypoint.value
    # Variables of the shell around it do not reach a container of Docker.
    env: Mapping[str, Word] = Over(run.env, assigned) if run.inherits else dict(run.env)
    lost = [] if run.inherits else _not_passed(assigned)
    by_variables = None
    if run.image + 1 == len(found.words):
        by_variables = start_of_variables(env, "", image)
    if by_variables is not None:
        yield by_variables
        return
    for one in starts_of_list(
        found, run.image + 1, text, env, entrypoint=entrypoint, image=image
    ):
        yield FoundStart(
            kind=Kind.CONTAINER,
            start=replace(
                one,
                gpus=number_of_gpus(run.gpus) or one.gpus,
                devices=devices_named(run.gpus),
                shown=run.name,
                notes=(*one.notes, *run.notes, *lost),
            ),
        )


def _not_passed(assigned: Mapping[str, Word]) -> list[str]:
    names = (name for name in assigned if name.startswith("VLLM_"))
    return [
        f"{name} is set outside of the container and does not reach vLLM."
        for name in islice(names, _MOST_NAMED)
    ]


def starts_of_list(  # noqa: PLR0913 - what a container has
    found: WordList,
    first: int,
    text: str,
    env: Mapping[str, Word],
    *,
    entrypoint: str = "",
    image: Word | None = None,
) -> list[Start]:
    """Return the starts in a container's words from `first` on.

    Args:
        found: the container's command and arguments.
        first: index of the first of them; an image's name may stand before.
        text: the whole text.
        env: variables set in the container.
        entrypoint: a program given in place of the image's own; `vllm serve` else.
        image: the image's name, whose tag may be the release.
    """
    within = _from(found, first - 1) if first > 1 else found
    is_nested = container_at([word.value for word in within.words]) is not None
    inner = [
        one.start
        for one in (() if is_nested else starts_in_words(within, text, env))
        if one.kind is Kind.COMMAND
    ]
    if not inner:
        inner = _of_entrypoint(found, first, env, entrypoint, image)
    if not inner:
        return []
    version = None if image is None else version_of(image)
    notes = image_notes(image, version)
    return [
        replace(one, version=one.version or version, notes=(*one.notes, *notes))
        for one in inner
    ]


def _of_entrypoint(
    found: WordList,
    first: int,
    env: Mapping[str, Word],
    entrypoint: str,
    image: Word | None,
) -> list[Start]:
    """Return the start by the image's own entry point, if it is vLLM's."""
    if entrypoint and "vllm" not in entrypoint:
        return []
    named = entrypoint.split()
    flags = {word.value.partition("=")[0] for word in found.words[first:]}
    is_named = image is not None and bool(IMAGE_OF_VLLM.search(image.value))
    is_open = image is not None and image.value in image.variables
    is_like_it = "--model" in flags and bool(_OWN_FLAGS & flags)
    is_vllm = is_named or is_like_it or (is_open and bool(_FLAGS & flags))
    if not is_vllm and not entrypoint:
        return []
    words = found.words[first:]
    at = first
    if not words or _PROGRAM.match(words[0].value):
        return []
    if named and named[-1].endswith("vllm") and words and words[0].value == "serve":
        at += 1
    is_taken = not (is_named or is_open or entrypoint)
    is_other = image is not None and other_engine(image.value) != ""
    if is_taken and (is_other or not words[0].value.startswith("-")):
        return []
    start = start_of(found, Program(first=at), env_sites(env))
    taken = (_TAKEN,) if is_taken else ()
    return [replace(start, notes=(*start.notes, *taken))]


def _from(found: WordList, first: int) -> WordList:
    return replace(found, words=found.words[first:], spans=found.spans[first:])


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
