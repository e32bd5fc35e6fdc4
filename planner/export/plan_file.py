"""A plan as a small file to keep in a repository, in YAML or JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from planner.engine import given_arguments
from planner.errors import PlannerError
from planner.export.link_gpus import gpu_from_link, gpu_to_link
from planner.export.machines import environment
from planner.export.plan_file_nodes import Node, parse
from planner.export.values import checked, is_text
from planner.export.yaml_text import yaml_text
from planner.gpu import GPU
from planner.inputs import Inputs
from planner.load import Load
from planner.releases import NEWEST

if TYPE_CHECKING:
    from planner.result import Plan

_Read = TypeVar("_Read")
_KEYS = ("model", "gpu", "vllm_version", "entrypoint", "env", "load", "engine_args")
_LOAD = ("prompt_tokens", "output_tokens", "requests")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """What a plan file holds."""

    inputs: Inputs
    load: Load | None = None
    """The load that the plan must serve, where the file names one."""


def yaml(plan: Plan, load: Load | None = None) -> str:
    """Return a plan as a file that `planner plan -f` and `read_yaml` read again.

    It holds what was given, not the figures. Tokens are left out.

    >>> import planner
    >>> print(yaml(planner.plan("Qwen/Qwen3-8B", max_model_len=32768)), end="")
    model: Qwen/Qwen3-8B
    gpu: H100
    vllm_version: "0.33.0"
    entrypoint: serve
    engine_args:
      max_model_len: 32768
    """
    given = given_arguments(plan.settings)
    document: dict[str, Any] = {
        "model": plan.name,
        "gpu": _gpu(plan.gpu),
        "vllm_version": plan.vllm_version,
        "entrypoint": plan.entrypoint,
    }
    if environment(plan):
        document["env"] = environment(plan)
    if load is not None:
        document["load"] = {name: getattr(load, name) for name in _LOAD}
    arguments = {n: _plain(value) for n, value in given.items() if n != "hf_token"}
    return yaml_text(document | {"engine_args": arguments}) + "\n"


def read_yaml(text: str) -> PlanFile:
    """Read a plan file; JSON of the same shape is read as well.

    Raises:
        PlannerError: naming the line and what is allowed there; also where PyYAML is
            not installed, which JSON does not need.

    >>> read_yaml('{"model": "Qwen/Qwen3-8B", "engine_args": {"seed": 1}}').inputs.gpu
    'H100'
    """
    entries = _table(parse(text), "A plan file", _KEYS)
    if "model" not in entries:
        raise PlannerError("A plan file needs `model:`, such as Qwen/Qwen3-8B.")
    start = {
        name: _text(name, entries[name])
        for name in ("model", "vllm_version", "entrypoint")
        if name in entries
    }
    inputs = Inputs(
        model=start["model"],
        gpu=_read_gpu(entries.get("gpu")),
        vllm_version=start.get("vllm_version", NEWEST),
        entrypoint=start.get("entrypoint", "serve"),
        env=dict(_environment(entries.get("env"))),
        engine_args=dict(_arguments(entries.get("engine_args"))),
    )
    return PlanFile(inputs=inputs, load=_load(entries.get("load")))


def _gpu(gpu: GPU) -> object:
    """Return a catalogue name, or the name with the facts that differ."""
    name, *facts = gpu_to_link(gpu).items()
    if not facts:
        return name[1]
    return {"name": name[1]} | {
        fact.removeprefix("gpu."): int(text) if text.isdecimal() else text
        for fact, text in facts
    }


def _read_gpu(node: Node | None) -> str | GPU:
    if node is None:
        return "H100"
    if node.items is None:
        return _text("gpu", node)
    texts = {name: _text(f"gpu.{name}", inner) for name, inner in node.items.items()}
    if "name" not in texts:
        raise PlannerError(f"{node.where}gpu needs a name beside its facts.")
    name = texts.pop("name")
    return _at(node, lambda: gpu_from_link(name, texts))


def _environment(node: Node | None) -> Iterator[tuple[str, str]]:
    if node is not None:
        for name, inner in _table(node, "env").items():
            yield name, _text(name, inner)


def _arguments(node: Node | None) -> Iterator[tuple[str, Any]]:
    """Yield engine arguments, each checked by its name and type."""
    if node is None or (node.items is None and node.value is None):
        return
    for name, inner in _table(node, "engine_args").items():
        value = inner.value
        if is_text(name) and inner.text is not None and value is not None:
            value = inner.text  # 1.10 is a text here, not a number
        yield name, _at(inner, partial(checked, name, value))


def _load(node: Node | None) -> Load | None:
    if node is None:
        return None
    given = {n: inner.value for n, inner in _table(node, "load", _LOAD).items()}
    missing = [name for name in _LOAD[:2] if name not in given]
    if missing:
        raise PlannerError(f"{node.where}load needs {' and '.join(missing)}.")
    return _at(node, lambda: Load(**given))


def _table(
    node: Node, what: str, known: tuple[str, ...] | None = None
) -> Mapping[str, Node]:
    if node.items is None:
        raise PlannerError(f"{node.where}{what} is a table of names and values.")
    for name, inner in node.items.items():
        if known is not None and name not in known:
            raise PlannerError(f"{inner.where}{_unknown(name, what, known)}")
    return node.items


def _unknown(name: str, what: str, known: tuple[str, ...]) -> str:
    try:
        checked(name, None)
    except PlannerError:
        near = get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        return f"{what} has no {name!r}; it has {', '.join(known)}.{hint}"
    return f"{name} is an engine argument: it stands under engine_args."


def _text(name: str, node: Node) -> str:
    """Return a scalar as it is written: 0.30 stays 0.30."""
    if node.text is None:
        raise PlannerError(f"{node.where}{name}: a text is needed.")
    return node.text


def _at(node: Node, read: Callable[[], _Read]) -> _Read:
    """Name the line of what is refused."""
    try:
        return read()
    except PlannerError as error:
        raise type(error)(f"{node.where}{error}") from None


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return value
