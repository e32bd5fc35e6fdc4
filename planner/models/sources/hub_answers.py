"""What both clients of the Hub share: its address, its switches, what it answers."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from planner.errors import ModelUnavailable
from planner.models.sources import hub_errors
from planner.models.sources.hub_errors import HubQuery

LIBRARY = "vllm-memory-planner"
"""What the planner calls itself to the Hub, and in its cache."""
_TRUE = frozenset(("1", "on", "yes", "true"))
HUB = "https://huggingface.co"


def is_set(variable: str) -> bool:
    """Whether a variable of the environment is true, as huggingface_hub reads it."""
    return os.environ.get(variable, "").lower() in _TRUE


def described(requested: Callable[[], Any], query: HubQuery) -> Any:  # noqa: ANN401 - a ModelInfo
    """Return what is said of a model, its fields as they came.

    Raises:
        ModelUnavailable: for an answer that does not describe a model.
    """
    try:
        info = requested()
        if _describes_a_model(info):
            return info
    except (AttributeError, KeyError, TypeError) as error:
        raise ModelUnavailable(hub_errors.no_description(query)) from error
    raise ModelUnavailable(hub_errors.no_description(query))


def _describes_a_model(info: Any) -> bool:  # noqa: ANN401 - what came, typed as it should be
    counts = {} if info.safetensors is None else info.safetensors.parameters
    return (
        isinstance(info.sha, str | None)
        and all(isinstance(one.rfilename, str) for one in info.siblings or ())
        and all(isinstance(one.size, int | None) for one in info.siblings or ())
        and all(isinstance(count, int) for count in counts.values())
    )
