"""Write and read plan files: the inputs of a plan, in YAML or JSON.

A file is first read into nodes, values with their lines, so that an error names the
line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar

from planner.engine.flags import plain
from planner.engine.gpu import GPU
from planner.engine.releases import NEWEST
from planner.errors import PlannerError, close_words
from planner.export.links import gpu_from_link, gpu_to_link
from planner.export.needs import environment
from planner.export.values import checked, is_text
from planner.export.yaml_text import yaml_text
from planner.given import named_in_errors
from planner.planning.inputs import Inputs
from planner.planning.load import LOAD_PARTS, Load
from planner.units import whole_number
from planner.values import frozen

if TYPE_CHECKING:
    from planner.planning.result import Plan

LONGEST = 200_000
"""Characters of a plan file, far more than the longest lists of names need."""
_DEEPEST = 30
_Read = TypeVar("_Read")
_KEYS = ("model", "gpu", "vllm_version", "entrypoint", "env", "load", "engine_args")


@frozen
class FileNode:
    """A value of the file."""

    value: Any
    """As the format's own reader reads it."""
    text: str | None = None
    """As it is written; None for tables and lists."""
    items: Mapping[str, FileNode] | None = None
    """The entries of a table; None for other values."""
    line: int | None = None
    """From 1; None for JSON."""

    @property
    def where(self) -> str:
        """The beginning of an error about it."""
        return "" if self.line is None else f"Line {self.line}: "


def parse(text: str) -> FileNode:
    """Read YAML, or JSON where the text starts with a brace.

    Raises:
        PlannerError: for text that is neither or is too long, and for anchors.
    """
    if len(text) > LONGEST:
        raise PlannerError(
            f"The plan file holds {len(text):,} characters; {LONGEST:,} are allowed."
        )
    is_json = text.lstrip().startswith("{")
    node = _from_json(text) if is_json else _from_yaml(text)
    if not _is_finite(node.value):
        raise PlannerError(
            "The plan file has nan or inf where no argument takes it: write a number, "
            "or leave the argument out."
        )
    return node


def _is_finite(value: object) -> bool:
    """Return whether all numbers in a value are finite."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or isfinite(value)


def _from_json(text: str) -> FileNode:
    try:
        return _of_value(json.loads(text, object_pairs_hook=_once))
    except json.JSONDecodeError as error:
        raise PlannerError(
            f"Line {error.lineno}: the plan file is not valid JSON: {error.msg}."
        ) from None
    except RecursionError:
        raise PlannerError("The plan file is nested too deeply.") from None
    except ValueError as error:
        if isinstance(error, PlannerError):
            raise
        raise PlannerError(
            "The plan file has a number of more digits than any argument has."
        ) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise PlannerError(f"{name!r} occurs twice in one table.")
    return dict(pairs)


def _of_value(value: Any) -> FileNode:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        return FileNode(value=value, items={k: _of_value(v) for k, v in value.items()})
    if isinstance(value, list):
        return FileNode(value=value)
    return FileNode(
        value=value, text=value if isinstance(value, str) else json.dumps(value)
    )


def _from_yaml(text: str) -> FileNode:
    try:
        import yaml  # noqa: PLC0415 - an extra: JSON files need no YAML
    except ImportError:
        raise PlannerError(
            "Plan files in YAML need PyYAML: `pip install pyyaml`, or "
            "`pip install 'vllm-memory-planner[notebook]'`. JSON of the same shape is "
            "read without it."
        ) from None
    try:
        _check_shape(yaml, text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        value = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f"Line {mark.line + 1}: "
        raise PlannerError(
            f"{line}the plan file is not valid YAML: {error.problem}."
        ) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise PlannerError(f"The plan file is not valid YAML: {error}.") from None
    if root is None:
        raise PlannerError("The plan file is empty.")
    return _of_node(root, value, root.start_mark.line + 1)


def _check_shape(yaml: Any, text: str) -> None:  # noqa: ANN401 - the library
    """Refuse anchors and deep nesting at once, since they take long to read."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise PlannerError("A plan file uses no anchors: write the value out.")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            line = event.start_mark.line + 1
            raise PlannerError(f"Line {line}: nested too deeply.")


def _of_node(node: Any, value: Any, line: int) -> FileNode:  # noqa: ANN401 - PyYAML's
    """Return a value with its line; for lists, only the line of the list."""
    if node.id == "mapping":
        if not isinstance(value, dict):
            raise PlannerError(
                f"Line {line}: {node.tag.rpartition(':')[2]} is not a type of a plan "
                "file: write a table of names and values."
            )
        items: dict[str, FileNode] = {}
        for key, inner in node.value:
            name = str(key.value)
            at = key.start_mark.line + 1
            if key.id != "scalar" or name in items or name not in value:
                raise PlannerError(
                    f"Line {at}: {name!r} is not a name, or occurs twice in one table."
                )
            items[name] = _of_node(inner, value[name], at)
        return FileNode(value=value, items=items, line=line)
    if node.id == "scalar":
        return FileNode(value=value, text=node.value, line=line)
    return FileNode(value=value, line=line)


@frozen
class PlanFile:
    """The content of a plan file."""

    inputs: Inputs

    @property
    def load(self) -> Load | None:
        """The load that the plan must serve, if the file names one."""
        return self.inputs.load


@named_in_errors
def yaml(plan: Plan, load: Load | None = None) -> str:
    """Return a plan as a file that `planner plan -f` and `read_yaml` read.

    It contains the inputs, not the figures. Tokens are left out.

    >>> import planner
    >>> print(yaml(planner.plan("Qwen/Qwen3-8B", max_model_len=32768)), end="")
    model: Qwen/Qwen3-8B
    gpu: H100
    vllm_version: "0.33.0"
    entrypoint: serve
    engine_args:
      max_model_len: 32768
    """
    inputs = Inputs.of(plan)
    load = load or inputs.load
    given = inputs.engine_args
    document: dict[str, Any] = {
        "model": plan.name,
        "gpu": _gpu(plan.gpu),
        "vllm_version": plan.vllm_version,
        "entrypoint": plan.entrypoint,
    }
    if environment(plan):
        document["env"] = environment(plan)
    if load is not None:
        document["load"] = load.to_dict()
    arguments = {n: plain(value) for n, value in given.items() if n != "hf_token"}
    return yaml_text(document | {"engine_args": arguments}) + "\n"


@named_in_errors
def read_yaml(text: str) -> PlanFile:
    """Read a plan file, in YAML or in JSON of the same shape.

    Raises:
        PlannerError: naming the line and what is allowed there; also for YAML where
            PyYAML is not installed.

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
        load=_load(entries.get("load")),
    )
    return PlanFile(inputs=inputs)


def _gpu(gpu: GPU) -> object:
    """Return a catalogue name, or the name with the facts that differ."""
    name, *facts = gpu_to_link(gpu).items()
    if not facts:
        return name[1]
    return {"name": name[1]} | {
        fact.removeprefix("gpu."): text
        if (number := whole_number(text)) is None
        else number
        for fact, text in facts
    }


def _read_gpu(node: FileNode | None) -> str | GPU:
    if node is None:
        return "H100"
    if node.items is None:
        return _text("gpu", node)
    texts = {name: _text(f"gpu.{name}", inner) for name, inner in node.items.items()}
    if "name" not in texts:
        raise PlannerError(f"{node.where}gpu needs a name besides its properties.")
    name = texts.pop("name")
    return _at(node, lambda: gpu_from_link(name, texts))


def _environment(node: FileNode | None) -> Iterator[tuple[str, str]]:
    if node is not None:
        for name, inner in _table(node, "env").items():
            yield name, _text(name, inner)


def _arguments(node: FileNode | None) -> Iterator[tuple[str, Any]]:
    """Yield engine arguments, each checked by its name and type."""
    if node is None or (node.items is None and node.value is None):
        return
    for name, inner in _table(node, "engine_args").items():
        value = inner.value
        if is_text(name) and inner.text is not None and value is not None:
            value = inner.text  # 1.10 is a text here, not a number
        yield name, _at(inner, partial(checked, name, value))


def _load(node: FileNode | None) -> Load | None:
    if node is None:
        return None
    given = {n: inner.value for n, inner in _table(node, "load", LOAD_PARTS).items()}
    missing = [name for name in LOAD_PARTS[:2] if name not in given]
    if missing:
        raise PlannerError(f"{node.where}load needs {' and '.join(missing)}.")
    return _at(node, lambda: Load(**given))


def _table(
    node: FileNode, what: str, known: tuple[str, ...] | None = None
) -> Mapping[str, FileNode]:
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
        near = close_words(name, known)
        hint = f" Did you mean {near[0]}?" if near else ""
        return f"{what} has no {name!r}; it has {', '.join(known)}.{hint}"
    return f"{name} is an engine argument: write it under engine_args."


def _text(name: str, node: FileNode) -> str:
    """Return a scalar as it is written, such as 0.30."""
    if node.text is None:
        raise PlannerError(f"{node.where}{name}: a text is needed.")
    return node.text


def _at(node: FileNode, read: Callable[[], _Read]) -> _Read:
    """Add the line to the error of a refused value."""
    try:
        return read()
    except PlannerError as error:
        raise type(error)(f"{node.where}{error}") from None
