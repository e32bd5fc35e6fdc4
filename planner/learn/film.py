"""A start on film as a piece of a lesson: draw the curve, watch it, meet the plan."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from planner.confirming.film import FILMS, Film, FilmStage, Frame, Use, read_film
from planner.errors import PlannerError
from planner.learn.account import rank_of
from planner.learn.display import ShownAsPage
from planner.planning.planning import plan
from planner.planning.result import Plan
from planner.show.document import wide_page
from planner.show.html import Html
from planner.show.palette import swatch
from planner.show.pieces import table_html
from planner.units import MIB, format_gib, format_size
from planner.user_files import user_path
from planner.values import frozen

_WIDTH = 1000
"""Of the picture, in parts: the place of a frame is one of them."""
_MARGIN = 25
"""On both sides, for the points of the first and the last moment."""
_AXIS = (
    "by the seconds of the start",
    "in the order of the start. The seconds are those of a machine without a GPU",
)
_SEEN = 0.01
"""Of the GPU's memory: a copy of weights that is smaller is no moment of its own."""
_LINES = {Use.TEMPORARY: "peak activation", Use.OUTSIDE: "not planned"}
"""The line of the account whose colour a use has, if it is not its own."""
_USES = {
    **{str(use): use for use in Use},
    "peak activation": Use.TEMPORARY,
    "unused budget": Use.EMPTY,
}
"""The use of each line of the account; other lines are loaded with the weights."""
_COLUMNS = ("Moment", "Taken", ("What happens", "pl-text"))


@frozen
class Moment:
    """A moment of the start that has a caption."""

    frame: int
    title: str
    """As it is asked, so it does not say what happens."""
    caption: str


@frozen(repr=False)
class StartOnFilm(ShownAsPage):
    """The film of a start with its captions, and the plan of the same start."""

    script = "film.js"

    film: Film
    moments: tuple[Moment, ...]
    plan: Plan | None
    """None for a model that the planner does not read."""
    is_drawn_first: bool = True
    """Whether the learner is asked to draw the curve before it is shown."""

    @classmethod
    def of(cls, film: Film, *, draw: bool = True) -> StartOnFilm:
        """Add captions and the plan to a film."""
        return cls(
            film=film,
            moments=tuple(_moments(film)),
            plan=_plan_of(film),
            is_drawn_first=draw,
        )

    @property
    def page_title(self) -> str:
        """The title of its own page."""
        return f"The start of {self.film.model} on film"

    @property
    def words(self) -> str:
        """What is filmed, and whose figures they are."""
        film = self.film
        flags = "".join(f", {name} {value}" for name, value in film.engine_args.items())
        said = (
            "A dry run: the sizes are vLLM's and PyTorch's own, in the order in which "
            "they came. No GPU was there: the driver's memory is the planner's "
            "estimate, and the seconds say nothing of a GPU."
            if film.is_dry
            else "Recorded on a GPU: the driver said how much memory is taken, and the "
            "log what for."
        )
        return (
            f"{film.model} on {film.gpu} ({format_gib(film.total_bytes)}), vLLM "
            f"{film.vllm_version}{flags}. {said}"
        )

    def __str__(self) -> str:
        rows = (f"{taken:>10}  {what}" for _title, taken, what in self._rows())
        return "\n".join([self.words, *rows])

    def table(self) -> Html:
        """Tell the moments as a table, where no script runs."""
        return wide_page(table_html(self.words, _COLUMNS, self._rows()))

    def _rows(self) -> list[tuple[str, str, str]]:
        taken = (self.film.frames[one.frame].device_bytes for one in self.moments)
        return [
            (one.title, format_gib(size), one.caption)
            for one, size in zip(self.moments, taken, strict=True)
        ]

    def described(self) -> dict[str, Any]:
        """Describe the film for the page's script; sizes in MiB."""
        film = self.film
        requested = film.measured.get("requested_memory")
        before = film.frames[0].bytes_of(Use.OUTSIDE)
        places = _places(film, self.moments)
        described = {
            "words": self.words,
            "gpu": film.gpu,
            "draw": self.is_drawn_first,
            "axis": _AXIS[film.is_dry],
            "total": film.total_bytes / MIB,
            "budget": requested and [(before + requested) / MIB, requested / MIB],
            "uses": [[str(use), *_colors(use)] for use in Use],
            "frames": [
                [x, *(round(size / MIB) for size in one.used)]
                for x, one in zip(places, film.frames, strict=True)
            ],
            "seconds": [round(one.seconds, 1) for one in film.frames],
            "moments": [[one.frame, one.title, one.caption] for one in self.moments],
            "lines": [[one.frame, one.text] for one in film.lines],
            "bar": None if self.plan is None else _bar(self.plan),
        }
        return {"film": described}


def watch_a_start(
    film: Film | str | os.PathLike[str] = "desk", *, draw: bool = True
) -> StartOnFilm:
    """Show the memory of one GPU while vLLM starts: draw the curve first, then watch.

    Args:
        film: of a dry run or a confirmation; the file that `--film` wrote; or one that
            comes with the planner: desk (Qwen3-8B on an L4), eager (on an L40S,
            without graphs), repacked (Qwen3-8B-AWQ on an L4).
        draw: whether the curve is to be drawn before it is shown.

    Raises:
        PlannerError: for a name without a film, and a file that is none.

    >>> watch_a_start("desk").film.model
    'Qwen/Qwen3-8B'
    """
    if isinstance(film, Film):
        return StartOnFilm.of(film, draw=draw)
    bundled = FILMS / f"{film}.json"
    is_bundled = isinstance(film, str) and film.isidentifier() and bundled.is_file()
    path = bundled if is_bundled else user_path(film)
    if not path.is_file():
        names = ", ".join(sorted(one.stem for one in FILMS.glob("*.json")))
        raise PlannerError(f"There is no film {film}. These come along: {names}.")
    return StartOnFilm.of(read_film(path), draw=draw)


def _plan_of(film: Film) -> Plan | None:
    """Return the plan of the start that was filmed; None where there is none."""
    arguments = dict(film.engine_args)
    try:
        made = plan(film.model, film.gpu, vllm_version=film.vllm_version, **arguments)
        rank_of(made)
    except PlannerError:
        return None
    return made


def _moments(film: Film) -> Iterator[Moment]:
    """Yield the moments of a film in their order, each frame once."""
    places = {id(frame): at for at, frame in enumerate(film.frames)}
    seen = set[int]()
    for frame, title, caption in _told(film):
        if frame is not None and id(frame) not in seen:
            seen.add(id(frame))
            at = places[id(frame)]
            yield Moment(frame=at, title=title, caption=caption(film, frame))


_Told: TypeAlias = tuple[Frame | None, str, Callable[[Film, Frame], str]]


def _told(film: Film) -> Iterator[_Told]:
    repacked = film.last(FilmStage.REPACKING)
    copied = film.highest(FilmStage.REPACKING)
    yield film.frames[0], "before it loads", _begin
    yield film.last(FilmStage.LOADING), "weights loaded", _loaded
    if repacked and copied and _differ(film, copied, repacked):
        yield copied, "weights repacked", _repacking
        yield repacked, "after repacking", _repacked
    if film.peak:
        highest, lowest = film.peak
        yield highest, "profile run", _peak
        yield lowest, "after the profile run", _drop
    yield film.highest(FilmStage.TRIAL), "graphs measured", _trial
    yield film.last(FilmStage.KV_CACHE), "KV cache allocated", _kv_cache
    if film.frames[-1].bytes_of(Use.GRAPHS):
        yield film.last(FilmStage.CAPTURING), "graphs captured", _graphs
    yield film.frames[-1], "ready", _ready


def _differ(film: Film, one: Frame, other: Frame) -> bool:
    return one.tensor_bytes - other.tensor_bytes >= _SEEN * film.total_bytes


def _begin(film: Film, frame: Frame) -> str:
    whose = ", the planner's estimate" if film.is_dry else ""
    return (
        f"{format_gib(frame.device_bytes)} of the card are taken before vLLM loads "
        f"anything: the CUDA context{whose}. nvidia-smi counts it, vLLM's budget does "
        "not."
    )


def _loaded(_film: Film, frame: Frame) -> str:
    return (
        f"The weights take {format_gib(frame.bytes_of(Use.WEIGHTS))}. vLLM allocated "
        "them layer by layer while it built the model, and filled them afterwards: "
        "reading the files takes time, not memory."
    )


def _repacking(_film: Film, frame: Frame) -> str:
    return (
        "The quantised weights are brought into the form that the kernels read. Old "
        "and new are in memory together, one layer at a time: "
        f"{format_gib(frame.tensor_bytes)} of tensors for a moment."
    )


def _repacked(_film: Film, frame: Frame) -> str:
    return (
        f"In their new form the weights take {format_gib(frame.bytes_of(Use.WEIGHTS))}. "
        "The copies are freed."
    )


def _peak(film: Film, frame: Frame) -> str:
    after = film.peak[1] if film.peak else frame
    peak = format_gib(frame.tensor_bytes - after.tensor_bytes)
    return (
        "The profile run computes one step with as many tokens as a step may have. Its "
        f"activations reach {peak}. vLLM notes the peak: so much has to stay free."
    )


def _drop(_film: Film, frame: Frame) -> str:
    stays = frame.bytes_of(Use.BUFFERS) + frame.bytes_of(Use.NON_TORCH)
    return (
        "The activations are freed, and PyTorch gives the memory back. "
        f"{format_gib(stays)} stay beside the weights: buffers, kernels, workspaces."
    )


def _trial(film: Film, _frame: Frame) -> str:
    estimate = format_size(film.measured.get("cudagraph_estimate", 0))
    return (
        "vLLM captures a few CUDA graphs, measures them and drops them. Its estimate "
        f"for all is {estimate}: that much has to stay free as well."
    )


def _kv_cache(_film: Film, frame: Frame) -> str:
    return (
        "The KV cache takes what the budget has left: "
        f"{format_gib(frame.bytes_of(Use.KV_CACHE))}, before any request has come."
    )


def _graphs(film: Film, _frame: Frame) -> str:
    whose = " (the driver's part is the planner's estimate)" if film.is_dry else ""
    return (
        "vLLM captures CUDA graphs, which take "
        f"{format_size(film.frames[-1].bytes_of(Use.GRAPHS))}{whose}. They use the "
        "room that was kept for them."
    )


def _ready(film: Film, frame: Frame) -> str:
    return (
        f"Ready: {format_gib(frame.device_bytes)} of {format_gib(film.total_bytes)} "
        "are taken, and no request has come. Requests fill the KV cache from inside; "
        "a step's activations use what was left free."
    )


def _places(film: Film, moments: Sequence[Moment]) -> list[int]:
    """Return the place of each frame: by seconds, or with the moments evenly.

    Between two moments of a dry run, whose seconds say nothing, frames are as far from
    each other.
    """
    first, last = _MARGIN, _WIDTH - _MARGIN
    if film.is_dry:
        ends = [one.frame for one in moments]
        step = 1 / max(len(ends) - 1, 1)
        shares = [0.0]
        for number, (begin, end) in enumerate(pairwise(ends)):
            count = end - begin
            shares += [step * (number + (at + 1) / count) for at in range(count)]
    else:
        whole = film.frames[-1].seconds or 1.0
        shares = [one.seconds / whole for one in film.frames]
    return [round(first + (last - first) * one) for one in shares]


def _colors(use: Use) -> tuple[str, str]:
    """Return fill and ink of a use."""
    colours = swatch(_LINES.get(use, "unused budget" if use is Use.EMPTY else str(use)))
    return colours.fill, colours.label


def _bar(made: Plan) -> Mapping[str, Any]:
    """Return the plan's bar by use, in MiB, with the words below it."""
    rank = rank_of(made)
    sizes = dict.fromkeys(Use, 0)
    for line in rank.lines:
        sizes[_USES.get(line.name, Use.WEIGHTS)] += line.size_bytes
    sizes[Use.OUTSIDE] += sum(line.size_bytes for line in rank.outside)
    return {
        "sizes": [round(size / MIB) for size in sizes.values()],
        "words": "The planner's bar, computed without vLLM. It has the peak of the "
        "profile run, which the start leaves free.",
    }
