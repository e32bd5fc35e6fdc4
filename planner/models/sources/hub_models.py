"""What the Hub says of models in a list: use, access, base model, format.

Only values and how they are read; `hub_search` makes the requests. A quantised release
names the model that it was made from in a tag, `base_model:quantized:owner/name`, and
so it is shown below that model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from planner.models.sources.hub_errors import is_repo_id
from planner.values import frozen

if TYPE_CHECKING:
    from huggingface_hub import ModelInfo

Query = tuple[tuple[str, str], ...]
"""Parameters of `/api/models`, as `HfApi.list_models` sends them."""

_EXPAND = ("downloads", "gated", "library_name", "private", "safetensors", "tags")
_MOST_RELEASES = 5
_SAFETENSORS = "safetensors"
"""The tag of repositories with such files; most releases of others are GGUF."""

_OTHER_LIBRARIES = frozenset(
    (
        "coreml",
        "diffusers",
        "gguf",
        "mlx",
        "onnx",
        "openvino",
        "peft",
        "transformers.js",
    )
)
_OTHER_FORMATS = frozenset(("mlx", "exl2", "exl3"))
_BESIDE_WEIGHTS = frozenset(("coreml", "gguf", "onnx", "openvino", "tflite"))
"""Formats that a repository may hold beside safetensors files."""

_NAMED = re.compile(
    r"(?<![a-z])(nvfp4|mxfp[48]|fp[48]|awq|gptq|w\d+a\d+|int[48]|bnb|[48]bit|"
    r"autoround|quark|torchao)(?![a-z])"
)
_TAGGED = {
    "nvfp4": "NVFP4",
    "mxfp4": "MXFP4",
    "fp8": "FP8",
    "awq": "AWQ",
    "gptq": "GPTQ",
    "bitsandbytes": "bitsandbytes",
    "quark": "quark",
    "torchao": "torchao",
    "auto-round": "AutoRound",
    "modelopt": "ModelOpt",
    "compressed-tensors": "compressed-tensors",
}
_WRITTEN = {"BNB": "bitsandbytes", "AUTOROUND": "AutoRound", "QUARK": "quark"}
_WRITTEN |= {"TORCHAO": "torchao", "4BIT": "4-bit", "8BIT": "8-bit"}


@frozen
class HubModel:
    """One model in an answer of the Hub."""

    name: str
    """owner/name."""
    num_downloads: int = 0
    """Of the last 30 days, as the Hub counts them."""
    is_gated: bool = False
    """Whether its files are given only to accounts that accepted its terms."""
    base_model: str = ""
    """The model it was made from; empty where its page does not say."""
    relation: str = ""
    """How it was made of that: finetune, quantized, merge, adapter."""
    quantization: str = ""
    """Format of the weights in words, such as FP8; empty for plain floats."""
    num_parameters: int | None = None
    """Elements of its safetensors files; None where the Hub does not say."""

    @property
    def group(self) -> str:
        """The model below which it is shown: its base, or itself."""
        return (self.relation == "quantized" and self.base_model) or self.name


@frozen
class HubGroup:
    """A model and its quantised releases."""

    name: str
    """The model's; it need not be among those found."""
    model: HubModel | None = None
    releases: tuple[HubModel, ...] = ()
    """The most downloaded first."""
    rest: int = 0
    """How many further releases were found and are not among them."""


def by_name(text: str, limit: int) -> Query:
    """Return the query for models whose name holds a text, most downloaded first."""
    return _query(limit, ("search", text))


def quantised_of(name: str, limit: int) -> Query:
    """Return the query for the quantised releases of a model."""
    made = f"base_model:quantized:{name}"
    return _query(limit, ("filter", made), ("filter", _SAFETENSORS))


def ungated_of(name: str, limit: int) -> Query:
    """Return the query for what was made of a model and is not gated."""
    made = ("filter", f"base_model:{name}"), ("filter", _SAFETENSORS)
    return _query(limit, *made, ("gated", "false"))


def _query(limit: int, *first: tuple[str, str]) -> Query:
    expanded = (("expand", name) for name in _EXPAND)
    return (*first, ("sort", "downloads"), ("limit", str(limit)), *expanded)


def read(rows: object) -> tuple[HubModel, ...]:
    """Return the models in an answer that vLLM could load, in its order.

    The answer is untrusted: what has no repository's name is left out, as are private
    models, adapters, and formats of other engines.
    """
    found = rows if isinstance(rows, list) else []
    models = (_model(row) for row in found if isinstance(row, Mapping))
    return tuple(model for model in models if model is not None)


def _model(row: Mapping[str, object]) -> HubModel | None:
    name, tags = row.get("id"), _texts(row.get("tags"))
    if not isinstance(name, str) or not is_repo_id(name) or row.get("private"):
        return None
    base, relation = base_of(tags)
    if relation == "adapter" or not _is_served(str(row.get("library_name")), tags):
        return None
    downloads = row.get("downloads")
    return HubModel(
        name=name,
        num_downloads=downloads if type(downloads) is int else 0,
        is_gated=bool(row.get("gated")),
        base_model=base,
        relation=relation,
        quantization=format_of(name, tags)
        or ("quantised" if relation == "quantized" else ""),
        num_parameters=_total(row.get("safetensors")),
    )


def of_info(name: str, info: ModelInfo) -> HubModel:
    """Return what the Hub says of one model that was requested by name."""
    base, relation = base_of(_texts(info.tags))
    counted = info.safetensors
    return HubModel(
        name=name,
        is_gated=bool(info.gated),
        base_model=base,
        relation=relation,
        num_parameters=None if counted is None else int(counted.total) or None,
    )


def base_of(tags: Iterable[str]) -> tuple[str, str]:
    """Return the base model in a model's tags and the relation to it.

    >>> base_of(("base_model:Qwen/Qwen3-8B", "base_model:quantized:Qwen/Qwen3-8B"))
    ('Qwen/Qwen3-8B', 'quantized')
    """
    base, relation = "", ""
    for tag in tags:
        kind, _, rest = tag.partition(":")
        if kind != "base_model":
            continue
        said, _, name = rest.rpartition(":")
        if is_repo_id(name) and (said or not base):
            base, relation = name, said
    return base, relation


def format_of(name: str, tags: Iterable[str] = ()) -> str:
    """Return the format of a release by its name, else by its tags.

    >>> format_of("nvidia/Qwen3-32B-NVFP4"), format_of("Qwen/Qwen3-8B-GPTQ-Int4")
    ('NVFP4', 'GPTQ INT4')
    """
    written = re.sub(r"auto-round", "autoround", name.rpartition("/")[2].lower())
    named = dict.fromkeys(found.upper() for found in _NAMED.findall(written))
    if named:
        return " ".join(_WRITTEN.get(word, word) for word in named)
    held = set(tags)
    return next((words for tag, words in _TAGGED.items() if tag in held), "")


def _is_served(library: str, tags: Sequence[str]) -> bool:
    """Whether vLLM could load a repository; one without tags may be any."""
    held = {tag.lower() for tag in tags}
    if library.lower() in _OTHER_LIBRARIES or held & _OTHER_FORMATS:
        return False
    return _SAFETENSORS in held or not held & _BESIDE_WEIGHTS


def _texts(found: object) -> tuple[str, ...]:
    rows = found if isinstance(found, list) else []
    return tuple(row for row in rows if isinstance(row, str))


def _total(safetensors: object) -> int | None:
    total = safetensors.get("total") if isinstance(safetensors, Mapping) else None
    return total if type(total) is int and total > 0 else None


def grouped(found: Iterable[HubModel]) -> tuple[HubGroup, ...]:
    """Put quantised releases below the models that they were made from.

    Groups are in the order in which they are first met; the same model counts once.
    """
    models = {model.name: model for model in found}
    groups: dict[str, list[HubModel]] = {}
    for model in models.values():
        members = groups.setdefault(model.group, [])
        if model.name != model.group:
            members.append(model)
    return tuple(
        HubGroup(
            name=name,
            model=models.get(name),
            releases=tuple(_most_used(members)[:_MOST_RELEASES]),
            rest=max(0, len(members) - _MOST_RELEASES),
        )
        for name, members in groups.items()
    )


def _most_used(models: Iterable[HubModel]) -> list[HubModel]:
    return sorted(models, key=lambda model: -model.num_downloads)


def facts(model: HubModel) -> str:
    """Return what a list shows of a model beside its name.

    >>> facts(HubModel(name="a/b", num_downloads=12_340, quantization="FP8"))
    'FP8, 12 k downloads'
    """
    size = model.num_parameters
    # Of packed weights the Hub counts the words that hold them.
    is_counted = size is not None and not model.quantization
    parts = (
        f"{(size or 0) / 10**9:,.1f} B" if is_counted else "",
        model.quantization,
        f"{_short(model.num_downloads)} downloads" if model.num_downloads else "",
        "gated" if model.is_gated else "",
    )
    return ", ".join(part for part in parts if part)


def _short(count: int) -> str:
    for unit, name in ((10**6, "M"), (10**3, "k")):
        if count >= unit:
            digits = 1 if count < 10 * unit else 0
            return f"{count / unit:.{digits}f} {name}"
    return str(count)
