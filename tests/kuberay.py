"""KubeRay's custom resources: their fields and types, and whether a document has them.

`tests/data/kuberay.json` records them as KubeRay's API reference has them, in a form of
its own: `!` marks what must be there, `[...]` a list. Pods are Kubernetes' own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate

DATA = Path(__file__).parent / "data" / "kuberay.json"
_PLAIN = {
    "text": lambda value: isinstance(value, str),
    "switch": lambda value: isinstance(value, bool),
    "number": lambda value: type(value) in (int, float),
    "int32": lambda value: type(value) is int and -(2**31) <= value < 2**31,
    "texts": lambda value: all(isinstance(v, str) for kv in value.items() for v in kv),
    "ray.io/v1": lambda value: value == "ray.io/v1",
}


def validate(document: Mapping[str, Any]) -> None:
    """Hold a document to its schema; nothing beside it is allowed.

    Raises:
        ValueError: naming what is wrong, and where.
    """
    kinds = json.loads(DATA.read_text(encoding="utf-8"))
    if document["kind"] not in kinds:
        _as_kubernetes(document)
        return
    found = list(_wrong(kinds, document["kind"], document, document["kind"]))
    if found:
        raise ValueError("; ".join(found))


def _wrong(
    kinds: Mapping[str, Any], kind: str, value: Any, place: str
) -> Iterator[str]:
    if kind.startswith("["):
        for number, item in enumerate(value):
            yield from _wrong(kinds, kind[1:-1], item, f"{place}[{number}]")
    elif kind in _PLAIN:
        if not _PLAIN[kind](value):
            yield f"{place}: {value!r} is no {kind}"
    elif kind in ("PodTemplateSpec", "ObjectMeta"):
        _as_part(kind, value)
    elif kind in kinds:
        yield from _wrong_fields(kinds, kind, value, place)
    else:
        yield f"{place}: {kind} is not recorded"


def _wrong_fields(
    kinds: Mapping[str, Any], kind: str, value: Mapping[str, Any], place: str
) -> Iterator[str]:
    fields = kinds[kind]
    for name in value.keys() - fields.keys():
        yield f"{place}: {kind} has no {name}"
    for name, wanted in fields.items():
        if name in value:
            part = wanted.removesuffix("!")
            yield from _wrong(kinds, part, value[name], f"{place}.{name}")
        elif wanted.endswith("!"):
            yield f"{place}: {name} is missing"


def _as_part(kind: str, value: Mapping[str, Any]) -> None:
    """Hold a template or metadata to Kubernetes, within a kind of its own."""
    template = value if kind == "PodTemplateSpec" else {}
    metadata = {"name": "any"} if kind == "PodTemplateSpec" else value
    _as_kubernetes(
        {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": metadata,
            **({"template": template} if template else {}),
        }
    )


def _as_kubernetes(document: Mapping[str, Any]) -> None:
    kubernetes_validate.validate(
        document, kubernetes_validate.latest_version(), strict=True
    )
