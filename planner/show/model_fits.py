"""Which models a GPU serves: as text, a pandas frame and HTML, a row for each model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.planning.words import load_text
from planner.show.frames import frame_of
from planner.show.sheet import Answer, Listing, Sheet, Table
from planner.show.speed import rate_text
from planner.units import counted

if TYPE_CHECKING:
    import pandas as pd

    from planner.solve.model_fits import ModelFit, ModelFits

_HEAD = (
    "Model",
    "Parameters",
    "Format",
    "Holds",
    "Longest request",
    "Tokens per second, at most",
    "Downloads",
    "Other formats",
)
_SHOWN = 40
"""Models in the table; the frame and the dictionary have all."""
_MISSES = 12
_DEFAULTS = (
    "With vLLM's defaults and the release of this page; several GPUs in one machine, "
    "tensor parallel before pipeline stages before replicas."
)
_NOTES = (
    "By facts alone: how good answers are is not known here. Chat and code are told by "
    "a model's name; licences and dates are not in the bundled catalogue.",
    "Speed is a bound: no start is faster, most are slower.",
)


def _title(found: ModelFits) -> str:
    number = f"{found.gpus} x " if found.gpus > 1 else ""
    return f"Models for {number}{found.gpu.name} with {load_text(found.load)} at once"


def headline(found: ModelFits) -> str:
    """Write how many models serve it, in how many releases, and how many do not."""
    models = len(found.groups())
    if not models:
        return f"None of {counted(len(found.others), 'releases')} serves it"
    verb = "does" if len(found.others) == 1 else "do"
    return (
        f"{counted(models, 'models')} in {counted(len(found.found), 'releases')}; "
        f"{len(found.others):,} {verb} not serve it"
    )


def _cells(formats: tuple[ModelFit, ...]) -> list[str]:
    """Write the format with the most bits, and the names of the others."""
    one, *rest = formats
    size, speed = one.entry.num_parameters, one.at_most_tokens_per_second
    held, longest = one.requests_held, one.longest_context
    return [
        one.name,
        "" if size is None else f"{size / 10**9:,.1f} B",
        one.format,
        "no limit" if held is None else f"{held:,}",
        "" if longest is None else f"{longest:,}",
        "" if speed is None else rate_text(speed),
        "" if one.entry.num_downloads is None else f"{one.entry.num_downloads:,}",
        ", ".join(dict.fromkeys(o.format for o in rest if o.format != one.format)),
    ]


def sheet(found: ModelFits) -> Sheet:
    """Say how many models serve it, and name them with their figures."""
    groups = found.groups()
    shown = groups[:_SHOWN]
    left = len(groups) - len(shown)
    more = [f"{counted(left, 'more models')}, which the frame has."] if left else []
    return Sheet(
        (
            Answer(
                tone="fits" if found.is_found else "short",
                symbol="✔" if found.is_found else "✘",
                headline=headline(found),
                subject=_title(found),
            ),
            Table(f"Most {found.order} first", _HEAD, list(map(_cells, shown))),
            Listing([*more, *_NOTES]),
        )
    )


def drawn(found: ModelFits, *, is_whole: bool) -> dict[str, object]:
    """Return what the page's table shows, by the names of its traits.

    Args:
        found: what has been found so far.
        is_whole: whether the search has ended.
    """
    groups = found.groups()
    left = len(groups) - _SHOWN
    more = [f"{counted(left, 'more models')} serve it too."] if left > 0 else []
    so_far = "" if is_whole else "Searching. So far: "
    return {
        "answer": f"{so_far}{_title(found)}: {headline(found)}",
        "needs": found.load.requests,
        "rows": [_page_row(formats) for formats in groups[:_SHOWN]],
        "misses": [f"{o.name}: {o.why}" for o in found.others[:_MISSES]],
        "remarks": [*more, _DEFAULTS, *_NOTES],
    }


def _page_row(formats: tuple[ModelFit, ...]) -> dict[str, object]:
    one, *rest = formats
    return {**_figures(one), "others": [_figures(other) for other in rest]}


def _figures(one: ModelFit) -> dict[str, str]:
    """Return the cells of one release."""
    name, size, form, held, longest, speed, downloads, _ = _cells((one,))
    return {
        "name": name,
        "size": size,
        "format": form,
        "held": held,
        "longest": longest,
        "speed": speed,
        "downloads": downloads,
    }


def frame(found: ModelFits) -> pd.DataFrame:
    """Return one row per model and format that serves.

    Raises:
        PlannerError: when pandas is not installed.
    """
    rows = [one.to_dict() for one in found.found]
    return frame_of(rows, () if rows else ("name",))
