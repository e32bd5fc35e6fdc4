"""The Hugging Face Hub: whether it answers, and who asks."""

from __future__ import annotations

import os
from importlib.util import find_spec

from planner.doctor.finding import Finding, State
from planner.errors import PlannerError

_SECONDS = 5.0
_WITHOUT = "The bundled catalogue, folders and config files work."


def hub() -> Finding:
    """Ask the Hub once, with a short time-out."""
    if find_spec("huggingface_hub") is None:
        return Finding(
            name="hub",
            state=State.LIMITED,
            says="huggingface_hub is not installed",
            does=_WITHOUT,
            remedy="pip install 'vllm-memory-planner[app]'",
        )
    from huggingface_hub import constants, get_token  # noqa: PLC0415 - slow, optional

    if constants.HF_HUB_OFFLINE:
        return Finding(
            name="hub",
            state=State.LIMITED,
            says="offline by HF_HUB_OFFLINE",
            does=f"{_WITHOUT} So do models in the Hub's cache on this disk.",
            remedy="Unset HF_HUB_OFFLINE to ask the Hub.",
        )
    endpoint = os.environ.get("HF_ENDPOINT") or constants.ENDPOINT
    return _asked(endpoint, "with" if get_token() else "without")


def _asked(endpoint: str, token: str) -> Finding:
    from planner.sources.huggingface import search_hub  # noqa: PLC0415 - slow

    try:
        search_hub("Qwen3", limit=1, timeout_seconds=_SECONDS)
    except PlannerError:
        return Finding(
            name="hub",
            state=State.LIMITED,
            says=f"{endpoint} does not answer",
            does=f"{_WITHOUT} So do models in the Hub's cache on this disk.",
            remedy="Check the network; HF_ENDPOINT names a mirror.",
        )
    gated = "" if token == "with" else " Gated models need one: hf auth login."
    return Finding(
        name="hub",
        state=State.WORKS,
        says=f"{endpoint} answers, {token} a token",
        does=f"Every model on it can be planned.{gated}",
    )
