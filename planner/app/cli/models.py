"""`planner models`: the bundled catalogue of models, and those on the Hub."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from planner.app.cli.shared import Output
from planner.errors import PlannerError
from planner.models import catalogue
from planner.models.sources.hub_models import HubGroup, HubModel, facts

EXAMPLES = ("planner models", "planner models qwen3", "planner models qwen3-32b --hub")

_LEAST_TYPED = 3


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    parser.add_argument("search", nargs="?", default="", help="part of a name")
    parser.add_argument(
        "--hub",
        action="store_true",
        help="search the Hub too: most downloaded first, each above its quantised "
        "releases",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: dict[str, Any], out: Output) -> int:
    """List models, and return the exit status."""
    text = options["search"]
    entries = catalogue.entries()
    if text:
        entries = catalogue.search(text, limit=len(entries))
    rows = [catalogue.entry_dict(entry) for entry in entries]
    if not options["hub"]:
        lines = map(catalogue.entry_line, entries)
        return out.write(lambda: rows, lambda: "\n".join(lines), entries)
    groups = _on_hub(text)
    return out.write(
        lambda: {"bundled": rows, "hub": [asdict(group) for group in groups]},
        lambda: "\n".join(_both(entries, groups)),
        entries or groups,
    )


def _on_hub(text: str) -> tuple[HubGroup, ...]:
    """Return what the Hub has of that name.

    Raises:
        PlannerError: for a text that is too short, or where there are no requests.
        ModelUnavailable: when the Hub does not answer.
    """
    if len(text.strip()) < _LEAST_TYPED:
        raise PlannerError(
            f"--hub searches for a part of a name of {_LEAST_TYPED} characters or "
            "more, such as `planner models qwen3 --hub`."
        )

    from planner.models.sources.hub_search import can_search, search  # noqa: PLC0415 - slow

    if not can_search():
        raise PlannerError(
            "--hub cannot search here: HF_HUB_OFFLINE is set, or this is a browser."
        )

    return search(text)


def _both(
    entries: Sequence[catalogue.Entry], groups: Sequence[HubGroup]
) -> Iterator[str]:
    if entries:
        yield "Bundled: planned offline"
        yield from map(catalogue.entry_line, entries)
        yield ""
    yield "On the Hugging Face Hub, most downloaded first"
    for group in groups:
        yield group.name if group.model is None else _line(group.model, "")
        yield from (_line(release, "  ") for release in group.releases)
        if group.rest:
            yield f"  and {group.rest} more"
    if not groups:
        yield "no model of this name that vLLM could load"


def _line(model: HubModel, indent: str) -> str:
    return f"{indent + model.name:55}  {facts(model)}"
