"""Starts of vLLM by frameworks and platforms: what their settings are to vLLM.

A row of planner/data/frameworks.json is a framework: what it is known by (`has`, or
the words of a `program`), what says that it uses vLLM (`wants`), and where model,
arguments, words of a command, GPUs and release stand.

Source: verl 0.6 `trainer/config/rollout/rollout.yaml`; OpenRLHF 0.9
`cli/train_ppo_ray`; TRL 0.24 `trainer/grpo_config.py`; SkyRL 0.3
`config/ppo_base_config.yaml`; ms-swift 3.9 `arguments`; NeMo RL 0.4
`examples/configs`; axolotl 0.12 `utils/schemas/vllm.py`; LLaMA-Factory 0.9
`hparams/model_args.py`; prime-rl `inference/config.py`; AReaL 0.4 `api/cli_args.py`;
lighteval 0.12, lm-eval 0.4; KubeAI kubeai.org/v1; KAITO 0.10 kaito.sh
(`pkg/model/interface.go`); llmaz 0.1; BentoVLLM; Dynamo 0.3; Seldon's LLM module; DJL
LMI 16 and SageMaker; vLLM production stack 0.1 VLLMRuntime; RunPod worker-vllm 2;
Vast.ai's vLLM template; LiteLLM 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache, partial
from typing import Any

from planner.data import DATA
from planner.engine.cloud_machines import counted, machine_named
from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.reading.documents.yaml_edits import passage_of, removed, replaced
from planner.reading.documents.yaml_nodes import Node, documents
from planner.reading.documents.yaml_words import as_it_is, word_of
from planner.reading.passage import Edit
from planner.reading.scripts.shell import Word
from planner.reading.sites import WordList
from planner.reading.starts.images import gpu_named_in
from planner.values import frozen

_DEEPEST, _MOST, _LONGEST = 12, 4_000, 4_000
_ITEM = re.compile(
    r"(?:\A|,)\s*(?P<name>\w+)=(?P<value>[^,{\[]*(?:\{[^}]*\}|\[[^\]]*\])?)"
)
_PROFILE = re.compile(
    r"(?i)^(?:nvidia-gpu-|nvidia-|gpu-|(?:ampere|ada|hopper|turing|blackwell)_)"
)
_REFERENCE = re.compile(r"\$\{(?P<path>[\w.]+)\}")
_OVERRIDE = re.compile(r"\+{0,2}(?P<name>[A-Za-z_][\w.]*)=")


class NoStartError(PlannerError):
    """A framework is configured, or run, that starts no vLLM here."""


@frozen
class Framework:
    """A row of the table."""

    name: str
    kind: str = "framework's settings"
    is_last: bool = False
    """Whether it is asked only where nothing else reads a document."""
    has: Sequence[Sequence[str]] = ()
    """Of each group one path must be there: `path=pattern` with that value, and `~word`
    in the text."""
    program: str = ""
    is_variables: bool = False
    """Whether its settings are environment variables, or properties."""
    wants: Sequence[str | Sequence[str]] = ()
    """What says that vLLM is used; `?path=pattern` only where the path is given."""
    without: str = ""
    model: Sequence[str] = ()
    models: Mapping[str, str] = field(default_factory=dict)
    """Its own names of models."""
    args: Mapping[str, str] = field(default_factory=dict)
    tables: Sequence[str] = ()
    """Tables below which names are vLLM's own."""
    prefixes: Sequence[str] = ()
    """What stands before names that are vLLM's own."""
    words: Sequence[str] = ()
    """Arguments as words of a command."""
    sums: Mapping[str, Sequence[str]] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Arguments that it gives vLLM where nothing is set."""
    refers: Mapping[str, str] = field(default_factory=dict)
    """Kinds of other objects of the text, and where their names stand."""
    sets: Mapping[str, tuple[object, str]] = field(default_factory=dict)
    """Arguments that its controller gives vLLM where nothing else is set, each with the
    path that tells of it."""
    devices: Sequence[str] = ()
    counts: Sequence[str] = ()
    nodes: Sequence[str] = ()
    """How many machines serve together: a stage on each, split over its GPUs."""
    trains: Sequence[str] = ()
    """What says that it trains on the GPUs of vLLM; none: it never does."""
    shared: Sequence[str] = ()
    """GPUs or engines of the whole job."""
    version: Sequence[str] = ()
    shown: str = ""
    entrypoint: str = "serve"
    notes: Sequence[str] = ()
    open: Sequence[str] = ()


@frozen
class Setting:
    """A value of a framework's settings where it is written."""

    word: Word
    replace: Callable[[object], list[Edit]]
    remove: Callable[[], list[Edit]]
    at: tuple[tuple[int, int], ...]
    node: Node | None = None
    table: Node | None = None
    """The table that it is an entry of."""


Settings = Mapping[str, Setting]


@cache
def frameworks() -> tuple[Framework, ...]:
    """Return the rows of the table."""
    rows: list[dict[str, Any]] = json.loads(
        (DATA / "frameworks.json").read_text(encoding="utf-8")
    )
    return tuple(Framework(**row) for row in rows)


def settings_in(root: Node, prefix: str = "") -> dict[str, Setting]:
    """Return the values of a document by their paths, lists of words included."""
    found: dict[str, Setting] = {}
    for path, table, key, node in _leaves(root, prefix, 0):
        if len(found) >= _MOST:
            break
        found[path] = _setting(table, key, node)
        if path.rpartition(".")[2] == "model_args" and node.kind == "scalar":
            for match in _ITEM.finditer(node.text):
                inner = found[path].word.part(*match.span("value"))
                found[f"{path}.{match['name']}"] = setting_of(inner)
    return {path: _resolved(one, found) for path, one in found.items()}


def _resolved(setting: Setting, settings: Mapping[str, Setting]) -> Setting:
    """Return a setting with the value of the one that it names, ${a.b}."""
    match = _REFERENCE.fullmatch(setting.word.value)
    other = settings.get(match["path"]) if match is not None else None
    if other is None:
        return setting
    return replace(setting, word=other.word, node=other.node, at=setting.at + other.at)


def _leaves(
    table: Node, prefix: str, depth: int
) -> Iterator[tuple[str, Node, Node, Node]]:
    if depth > _DEEPEST:
        return
    for key, node in table.pairs:
        path = prefix + key.text
        is_list = node.kind == "sequence" and node.items[:1] != ()
        if node.pairs:
            yield from _leaves(node, f"{path}.", depth + 1)
        elif is_list and node.items[0].kind == "mapping":
            for at, item in enumerate(node.items[:8]):
                yield from _leaves(item, f"{path}[{at}].", depth + 1)
        elif node.kind != "mapping" and not node.is_nothing:
            yield path, table, key, node


def _setting(table: Node, key: Node, node: Node) -> Setting:
    word = word_of(node, as_it_is) if node.kind == "scalar" else _listed(node)
    places = key.page.places
    return Setting(
        word=word,
        replace=partial(replaced, key, node),
        remove=partial(removed, table, key, node),
        at=((places[key.start], places[key.end]), (word.start, word.end)),
        node=node,
        table=table,
    )


def _listed(node: Node) -> Word:
    page = node.page.part(node.start, node.end)
    return Word(passage=page, start=page.places[0], end=page.places[-1])


def setting_of(word: Word, flag: Word | None = None) -> Setting:
    """Return the value of a flag, an override or a variable."""
    before = () if flag is None else ((flag.start, flag.end),)
    return Setting(
        word=word,
        replace=lambda value: [word.replaced(plainly(value))],
        remove=_cannot_remove,
        at=(*before, (word.start, word.end)),
    )


def plainly(value: object) -> str:
    """Return a value as a framework reads it."""
    return value if isinstance(value, str) else json.dumps(value)


def _cannot_remove() -> list[Edit]:
    raise PlannerError("A framework's setting is taken out by hand.")


def settings_in_words(found: WordList) -> dict[str, Setting]:
    """Return the flags and the overrides of a command by their names."""
    settings: dict[str, Setting] = {}
    words = found.words
    for at, word in enumerate(words):
        override = _OVERRIDE.match(word.value)
        flag, equals, _ = word.value.partition("=")
        name = re.sub(r"[-.]", "_", flag.lstrip("-"))
        following = words[at + 1 : at + 2]
        if override is not None:
            settings[override["name"]] = setting_of(word.part(override.end()), word)
        elif word.value.startswith("--") and equals:
            settings[name] = setting_of(word.part(len(flag) + 1), word)
        elif word.value.startswith("--") and name:
            is_value = following and not following[0].value.startswith("--")
            value = following[0] if is_value else word.part(len(word.value))
            settings[name] = setting_of(value, word)
    return settings


def text_at(settings: Settings, path: str) -> str:
    """Return what is written at a path; empty for nothing."""
    found = settings.get(path)
    return "" if found is None else found.word.value


def _is_told(settings: Settings, condition: str) -> bool:
    """Return whether `path`, `path=pattern` or `?path=pattern` holds."""
    optional = condition.startswith("?")
    path, equals, pattern = condition.removeprefix("?").partition("=")
    if not equals:
        dotted = (path,) if path.endswith("_") else (f"{path}.", f"{path}[")
        return path in settings or any(name.startswith(dotted) for name in settings)
    if path not in settings:
        return optional
    value = text_at(settings, path)
    return re.fullmatch(pattern, value, re.IGNORECASE) is not None


def _any(settings: Settings, group: str | Sequence[str], text: str) -> bool:
    conditions = [group] if isinstance(group, str) else group
    return any(
        one[1:] in text.lower() if one.startswith("~") else _is_told(settings, one)
        for one in conditions
    )


def framework_of(
    settings: Settings,
    text: str,
    *,
    is_variables: bool = False,
    is_last: bool = False,
) -> Framework | None:
    """Return the framework whose settings these are; None for none of the table."""
    for row in frameworks():
        is_form = row.is_variables == is_variables and bool(row.has)
        is_form = is_form and row.is_last == is_last
        if is_form and all(_any(settings, group, text) for group in row.has):
            return row
    return None


def framework_run_by(line: str) -> Framework | None:
    """Return the framework whose program a command runs."""
    is_one = _programs().search(line, 0, _LONGEST) is not None
    rows = (row for row in frameworks() if is_one and row.program)
    return next((row for row in rows if re.search(row.program, line[:_LONGEST])), None)


@cache
def _programs() -> re.Pattern[str]:
    return re.compile("|".join(row.program for row in frameworks() if row.program))


def device_named(text: str) -> tuple[str | GPU | None, int | None]:
    """Return the GPU and the number that a machine's or a profile's name stands for.

    >>> device_named("Standard_NC24ads_A100_v4")
    ('A100-80GB-PCIe', 1)
    """
    machine = machine_named(text)
    if machine is not None:
        return machine.gpu, machine.gpus
    name, count = counted(text)
    name = name or text
    gpu = gpu_named_in(name) or gpu_named_in(_PROFILE.sub("", name))
    return gpu, count or None


def not_given(row: Framework, names: Container[str]) -> list[str]:
    """Return what a framework takes for the arguments that nothing in a text sets."""
    return [
        f"{name} is not given: {row.name} takes {value}."
        for name, value in row.defaults.items()
        if name not in names
    ]


def trains_beside(row: Framework, settings: Settings) -> bool:
    """Return whether a framework trains on the GPUs that vLLM runs on."""
    return bool(row.trains) and _any(settings, row.trains, "")


def refusal(row: Framework, settings: Settings, line: str = "") -> str:
    """Return why a framework starts no vLLM here; empty where it does."""
    if all(_any(settings, group, line) for group in row.wants):
        return ""
    return f"This is a configuration of {row.name}. {row.without}"


def referred(row: Framework, settings: Settings, roots: Sequence[Node]) -> Settings:
    """Return settings with those of the objects that they name."""
    found = dict(settings)
    for kind, path in row.refers.items():
        named = text_at(settings, path)
        objects = [root for root in roots if root.word("kind") == kind]
        same = [one for one in objects if one.word("metadata", "name") == named]
        for one in same or (objects if len(objects) == 1 else []):
            found |= settings_in(one, f"@{kind}.")
            for _, value in () if kind != "ConfigMap" else _data(one):
                for inner in documents(passage_of(value)):
                    found |= settings_in(inner, f"@{kind}.")
    return found


def _data(root: Node) -> Sequence[tuple[Node, Node]]:
    data = root.get("data")
    return () if data is None else data.pairs
