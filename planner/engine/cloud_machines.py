"""Machines of clouds by their types' names, and GPUs that are named with a count."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from planner.data import DATA
from planner.values import frozen

_PREFIXES = ("ml.", "standard_")
"""SageMaker's before EC2's names, and Azure's, which people leave out."""
_COUNTED = re.compile(
    r"(?:(?P<before>[1-9]\d?) ?[x*] ?)?(?P<name>[A-Za-z][\w .-]*?)"
    r"(?:(?: ?[x*] ?|:)(?P<after>[1-9]\d?))?\Z"
)


@frozen
class Machine:
    """A type of machine that a cloud rents: its GPU, and how many it has."""

    name: str
    gpu: str
    """The catalogue's name of its GPUs."""
    gpus: int


def machine_named(name: str) -> Machine | None:
    """Return the machine of that type; None for any other name.

    Source: the clouds' own lists, as planner/data/machines.json names them.

    >>> machine_named("ml.g5.12xlarge")
    Machine(name='g5.12xlarge', gpu='A10G', gpus=4)
    """
    return _machines().get(_key(name))


def counted(name: str) -> tuple[str, int]:
    """Split a GPU's name from its count; an empty name where there is no count.

    >>> counted("2x H100"), counted("H100:8"), counted("H100")
    (('H100', 2), ('H100', 8), ('', 0))
    """
    match = _COUNTED.match(name.strip())
    if match is None or not (match["before"] or match["after"]):
        return "", 0
    return match["name"].strip(), int(match["before"] or match["after"])


@cache
def _machines() -> Mapping[str, Machine]:
    clouds: dict[str, Any] = json.loads(
        (DATA / "machines.json").read_text(encoding="utf-8")
    )
    return {
        _key(name): Machine(name=name, gpu=gpu, gpus=gpus)
        for cloud in clouds.values()
        for name, (gpu, gpus) in cloud["machines"].items()
    }


def _key(name: str) -> str:
    key = name.strip().lower()
    for prefix in _PREFIXES:
        key = key.removeprefix(prefix)
    return key
