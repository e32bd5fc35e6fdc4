"""A start on film as a piece of a lesson: draw the curve, watch it, meet the plan."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

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
from planner.units import MIB, format_gib
from planner.user_files import user_path
from planner.values import frozen

_WIDTH, _MARGIN = 1000, 25
"""Of the picture, in parts; the margin is for the points on both ends."""
_SEEN = 0.01
"""Of the GPU's memory: smaller copies of weights are no moment of their own."""
_COLORS = {
    Use.TEMPORARY: "peak activation",
    Use.OUTSIDE: "not planned",
    Use.EMPTY: "unused budget",
}
"""The line of the account whose colour a use has, where it is no line itself."""
_USES = {
    **{str(use): use for use in Use},
    "peak activation": Use.TEMPORARY,
    "unused budget": Use.EMPTY,
}
"""The use of each line of the account; other lines are loaded with the weights."""
_COLUMNS = ("Moment", "Taken", ("What happens", "pl-text"))


@cache
def _words() -> Mapping[str, Any]:
    path = Path(__file__).with_suffix(".toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _of_source(film: Film) -> Mapping[str, str]:
    """Return the words that depend on whose figures a film has."""
    words: Mapping[str, str] = _words()["dry" if film.is_dry else "recorded"]
    return words


@frozen
class Moment:
    """A moment of the start that has a caption."""

    frame: int
    title: str
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

    @property
    def page_title(self) -> str:
        """The title of its own page."""
        return f"The start of {self.film.model} on film"

    @property
    def words(self) -> str:
        """What is filmed, and whose figures they are."""
        film = self.film
        settings = (f", {name} {value}" for name, value in film.engine_args.items())
        return (
            f"{film.model} on {film.gpu} ({format_gib(film.total_bytes)}), vLLM "
            f"{film.vllm_version}{''.join(settings)}. {_of_source(film)['source']}"
        )

    def __str__(self) -> str:
        rows = (f"{taken:>10}  {caption}" for _title, taken, caption in self._rows())
        return "\n".join([self.words, *rows])

    def table(self) -> Html:
        """Tell the moments as a table, where no script runs."""
        return wide_page(table_html(self.words, _COLUMNS, self._rows()))

    def _rows(self) -> list[tuple[str, str, str]]:
        frames = self.film.frames
        return [
            (one.title, format_gib(frames[one.frame].device_bytes), one.caption)
            for one in self.moments
        ]

    def described(self) -> dict[str, Any]:
        """Describe the film for the page's script; sizes in MiB."""
        film = self.film
        requested = film.measured.get("requested_memory")
        before = film.frames[0].bytes_of(Use.OUTSIDE)
        places = _places(film, [one.frame for one in self.moments])
        described = {
            "words": self.words,
            "gpu": film.gpu,
            "draw": self.is_drawn_first,
            "axis": _of_source(film)["axis"],
            "total": film.total_bytes / MIB,
            "budget": requested and [(before + requested) / MIB, requested / MIB],
            "uses": [[use, swatch(_COLORS.get(use, use)).fill] for use in Use],
            "frames": [
                [x, *(round(size / MIB) for size in one.used)]
                for x, one in zip(places, film.frames, strict=True)
            ],
            "seconds": [round(one.seconds, 1) for one in film.frames],
            "moments": [[one.frame, one.title, one.caption] for one in self.moments],
            "lines": film.lines,
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
    found = film if isinstance(film, Film) else _named(film)
    return StartOnFilm(
        film=found,
        moments=tuple(_moments(found)),
        plan=_plan_of(found),
        is_drawn_first=draw,
    )


def _named(name: str | os.PathLike[str]) -> Film:
    bundled = {path.stem: path for path in sorted(FILMS.glob("*.json"))}
    path = bundled.get(os.fspath(name), user_path(name))
    if not path.is_file():
        raise PlannerError(
            f"There is no film {name}. These come along: {', '.join(bundled)}."
        )
    return read_film(path)


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
    """Yield the moments of a film, each with its caption; a frame is one of them."""
    places = {id(frame): at for at, frame in enumerate(film.frames)}
    frames = _frames(film)
    for title, caption in _words()["captions"].items():
        frame = frames.get(title)
        if frame is not None and (at := places.pop(id(frame), None)) is not None:
            said = caption.format(**_figures(film, frame))
            yield Moment(frame=at, title=title, caption=said)


def _frames(film: Film) -> Mapping[str, Frame | None]:
    """Return the frame of each moment; None, or none, where the start has none."""
    highest, last = film.peak or (None, None)
    frames = {
        "before it loads": film.frames[0],
        "weights loaded": film.last(FilmStage.LOADING),
        "profile run": highest,
        "after the profile run": last,
        "graphs measured": film.highest(FilmStage.TRIAL),
        "KV cache allocated": film.last(FilmStage.KV_CACHE),
        "ready": film.frames[-1],
    }
    if film.frames[-1].bytes_of(Use.GRAPHS):
        frames["graphs captured"] = film.last(FilmStage.CAPTURING)
    copied, repacked = (
        film.highest(FilmStage.REPACKING),
        film.last(FilmStage.REPACKING),
    )
    if copied and repacked:
        copies = copied.tensor_bytes - repacked.tensor_bytes
        if copies > _SEEN * film.total_bytes:
            frames |= {"weights repacked": copied, "after repacking": repacked}
    return frames


def _figures(film: Film, frame: Frame) -> Mapping[str, str]:
    """Return the figures that captions have."""
    highest, last = film.peak or (frame, frame)
    sizes = {
        "taken": frame.device_bytes,
        "total": film.total_bytes,
        "tensors": frame.tensor_bytes,
        "weights": frame.bytes_of(Use.WEIGHTS),
        "stays": frame.bytes_of(Use.BUFFERS) + frame.bytes_of(Use.NON_TORCH),
        "kv_cache": frame.bytes_of(Use.KV_CACHE),
        "peak": highest.tensor_bytes - last.tensor_bytes,
        "estimate": film.measured.get("cudagraph_estimate", 0),
        "graphs": film.frames[-1].bytes_of(Use.GRAPHS),
    }
    return {
        **{name: format_gib(size) for name, size in sizes.items()},
        "assumed": _of_source(film)["assumed"],
    }


def _places(film: Film, moments: Sequence[int]) -> list[int]:
    """Return the place of each frame: by seconds, or with the moments evenly.

    Between two moments of a dry run, whose seconds say nothing, frames are as far from
    each other.
    """
    if film.is_dry:
        step, shares = 1 / max(len(moments) - 1, 1), [0.0]
        for number, (begin, end) in enumerate(pairwise(moments)):
            count = end - begin
            shares += [step * (number + (at + 1) / count) for at in range(count)]
    else:
        whole = film.frames[-1].seconds or 1.0
        shares = [one.seconds / whole for one in film.frames]
    return [round(_MARGIN + (_WIDTH - 2 * _MARGIN) * one) for one in shares]


def _bar(made: Plan) -> Mapping[str, Any]:
    """Return the plan's bar by use, in MiB, with the words below it."""
    rank, sizes = rank_of(made), dict.fromkeys(Use, 0)
    for line in rank.lines:
        sizes[_USES.get(line.name, Use.WEIGHTS)] += line.size_bytes
    sizes[Use.OUTSIDE] += sum(line.size_bytes for line in rank.outside)
    return {
        "sizes": [round(size / MIB) for size in sizes.values()],
        "words": _words()["bar"],
    }
