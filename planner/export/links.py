"""A plan as a link: the query string that opens a page with the same plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from planner.engine import given_arguments
from planner.export.link_gpus import gpu_to_link
from planner.export.link_models import model_to_link
from planner.export.link_names import CARRIED, ENVIRONMENT, TRUST
from planner.export.values import to_text
from planner.releases import came_later, resolve_version

if TYPE_CHECKING:
    from planner.result import Plan

_SHORT = {"method": "spec_method", "num_speculative_tokens": "spec_tokens"}
_READABLE = "/:@,"
"""What a query may hold as it is; all else is quoted."""


def link(plan: Plan, base: str = "") -> str:
    """Return a link that opens the explorer or the app with this plan.

    It holds the model, the GPU with what differs from the catalogue, the release, and
    every argument and variable that bears on memory. What names files, secrets or code
    stays out; `link_names.KEPT_OUT` lists it.

    Args:
        plan: what to open.
        base: address of the page, such as http://127.0.0.1:8866/.

    Raises:
        PlannerError: for a model in a folder, which another machine does not have.

    >>> import planner
    >>> link(planner.plan("Qwen/Qwen3-8B", max_model_len=32768))
    '?model=Qwen/Qwen3-8B&gpu=H100&vllm_version=0.33.0&max_model_len=32768'
    """
    query = "&".join(
        f"{_quoted(name)}={_quoted(text)}" for name, text in _pairs(plan).items()
    )
    page, mark, fragment = base.partition("#")
    between = "&" if "?" in page else "?"
    return f"{page}{between}{query}{mark}{fragment}"


def _pairs(plan: Plan) -> dict[str, str]:
    entrypoint = {"entrypoint": plan.entrypoint} if plan.entrypoint != "serve" else {}
    environment = {
        f"env.{name}": value for name, value in plan.env if name in ENVIRONMENT
    }
    given = given_arguments(plan.settings)
    arguments = {
        name: to_text(name, value)
        for name, value in given.items()
        # Whether to trust a model's code is not the link's to say; that the plan did
        # is, so that the page can tell its reader.
        if name in CARRIED or (name == TRUST and value)
    }
    release, _ = resolve_version(plan.vllm_version)
    if came_later("arguments", "spec_method", release) is None:
        arguments |= _guessing(given.get("speculative_config"))
    return {
        "model": model_to_link(plan.name),
        **gpu_to_link(plan.gpu),
        "vllm_version": plan.vllm_version,
        **entrypoint,
        **environment,
        **arguments,
    }


def _guessing(config: object) -> dict[str, str]:
    """Return a table of speculative decoding under its short names, if it has no more.

    The table itself may name a folder, so no link sets it.
    """
    table = dict(config) if isinstance(config, Mapping) else {}
    if not table or not table.keys() <= _SHORT.keys():
        return {}
    return {_SHORT[name]: to_text(_SHORT[name], value) for name, value in table.items()}


def _quoted(text: str) -> str:
    return quote(text, safe=_READABLE)
