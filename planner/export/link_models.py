"""Which models a link may name: bundled ones, and owner/name on the Hub.

Never a folder or file: whoever opens a link would have the server read it.
"""

from __future__ import annotations

import re
from pathlib import Path

from planner import catalogue
from planner.errors import PlannerError
from planner.published import is_published
from planner.sources.hub_names import is_repo_id

DEFAULT_MODEL = "meta-llama/Llama-3.1-8B-Instruct"
"""What a link opens that names no model, or none that it may name."""

_HUB = "https://huggingface.co/"
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}\Z")


def model_to_link(name: str) -> str:
    """Return a model's name as a link writes it.

    Raises:
        PlannerError: for a folder or file, which another machine does not have.
    """
    is_bundled = catalogue.find(name) is not None
    if _lies_here(name) or not (is_bundled or _is_on_the_hub(name)):
        raise PlannerError(
            f"A link cannot hold the model {name!r}: it would open on other machines, "
            "which do not have this folder or file. Give owner/name on the Hub, or "
            "keep the plan as YAML."
        )
    return name


def model_from_link(text: str) -> str:
    """Return the model that a link names, written so that no folder is read for it.

    Raises:
        PlannerError: for everything else.
    """
    bundled = catalogue.find(text)
    name = text if bundled is None else bundled.name
    if bundled is None and not _is_on_the_hub(text):
        raise PlannerError(
            f"model={text!r}: a link names a bundled model or owner/name on the Hub."
        )
    # A folder of that name beside the server would come first: the address does not.
    return f"{_HUB}{name.replace('@', '/tree/')}" if _lies_here(name) else name


def _is_on_the_hub(text: str) -> bool:
    name, at, revision = text.partition("@")
    has_revision = not at or _REVISION.match(revision) is not None
    return name.count("/") == 1 and is_repo_id(name) and has_revision


def _lies_here(name: str) -> bool:
    if is_published():
        return False
    try:
        return Path(name).expanduser().exists()
    except (OSError, RuntimeError, ValueError):
        return False
