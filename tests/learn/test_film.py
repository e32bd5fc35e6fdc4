"""A start on film in a lesson: its moments, its captions, and the plan beside it."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from planner.confirming.film import FILMS, RECORDED, Use
from planner.errors import PlannerError
from planner.learn import watch_a_start
from planner.learn.account import rank_of
from planner.learn.film import StartOnFilm
from planner.units import MIB, format_gib

NAMES = ("desk", "eager", "repacked")


@pytest.fixture(params=NAMES)
def shown(request) -> StartOnFilm:
    """A film that comes along, as a lesson shows it."""
    return watch_a_start(request.param)


def titles(shown: StartOnFilm) -> list[str]:
    """Return what the moments are called."""
    return [one.title for one in shown.moments]


def test_moments_are_in_their_order_from_the_first_frame_to_the_last(shown) -> None:
    """So each frame lies between two of them."""
    places = [one.frame for one in shown.moments]

    assert places == sorted(set(places))
    assert (places[0], places[-1]) == (0, len(shown.film.frames) - 1)


def test_a_start_has_the_moments_that_it_has() -> None:
    """Graphs where they are captured, repacking where it shows."""
    common = {"before it loads", "weights loaded", "profile run", "KV cache allocated"}
    graphs = {"graphs measured", "graphs captured"}
    repacked = {"weights repacked", "after repacking"}
    found = {name: set(titles(watch_a_start(name))) for name in NAMES}

    assert all(common <= one for one in found.values())
    assert graphs <= found["desk"]
    assert not graphs & (found["eager"] | found["repacked"])
    assert repacked <= found["repacked"]
    assert not repacked & (found["desk"] | found["eager"])


def test_captions_have_vllms_own_figures(shown) -> None:
    """Weights, peak and KV cache as vLLM measured them, in GiB."""
    said = {one.title: one.caption for one in shown.moments}
    measured = shown.film.measured

    assert f"take {format_gib(measured['weights'])}." in said["weights loaded"]
    assert f"reach {format_gib(measured['peak_activation'])}." in said["profile run"]
    kv_cache = shown.film.frames[-1].bytes_of(Use.KV_CACHE)
    assert f"left: {format_gib(kv_cache)}," in said["KV cache allocated"]


def test_the_plan_of_the_same_start_is_its_bar(shown) -> None:
    """All lines of the account, and what is outside of the budget below them."""
    assert shown.plan is not None
    rank = rank_of(shown.plan)
    sizes = shown.described()["film"]["bar"]["sizes"]
    outside = sum(one.size_bytes for one in rank.outside)

    assert sum(sizes) == pytest.approx(
        (rank.requested_memory_bytes + outside) / MIB, abs=len(sizes)
    )
    weights = sizes[list(Use).index(Use.WEIGHTS)]
    assert weights == round(rank.line("weights").size_bytes / MIB)


def test_the_planners_kv_cache_is_near_what_vllm_allocated(shown) -> None:
    """Within 1 % of the card: the bar lands where the film ends."""
    bar = shown.described()["film"]["bar"]["sizes"]
    at = list(Use).index(Use.KV_CACHE)

    off = abs(bar[at] - shown.film.measured["kv_cache"] / MIB)
    assert off < 0.01 * shown.film.total_bytes / MIB


def test_frames_are_drawn_from_the_left_to_the_right(shown) -> None:
    """With the moments as far from each other as the next; sizes in MiB."""
    described = shown.described()["film"]
    places = [frame[0] for frame in described["frames"]]
    moments = [places[at] for at, _title, _caption in described["moments"]]
    gaps = {after - before for before, after in pairwise(moments)}

    assert places == sorted(places)
    assert max(gaps) - min(gaps) <= 1
    last = shown.film.frames[-1].device_bytes / MIB
    assert sum(described["frames"][-1][1:]) == pytest.approx(last, abs=len(Use))


def test_a_recording_lies_on_its_seconds() -> None:
    """The middle of the time is the middle of the picture."""
    film = watch_a_start("eager").film
    recorded = watch_a_start(replace(film, source=RECORDED))
    places = [frame[0] for frame in recorded.described()["film"]["frames"]]
    whole = film.frames[-1].seconds

    assert places == [round(25 + 950 * one.seconds / whole) for one in film.frames]
    assert "Recorded on a GPU" in recorded.words
    assert "planner's estimate" not in str(recorded)


def test_it_is_told_without_a_script(shown) -> None:
    """In a terminal, and as a table: each moment with its size and its caption."""
    text, table = str(shown), str(shown.table())

    for moment in shown.moments:
        size = format_gib(shown.film.frames[moment.frame].device_bytes)
        assert f"{size}  {moment.caption}" in text
        assert moment.title in table
    assert "No GPU was there" in text


def test_a_page_of_its_own_is_small_and_loads_nothing(shown) -> None:
    """60 kB, of which a third is the film."""
    page = shown.to_html()

    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "src=" not in page
    assert len(json.dumps(shown.described())) < 25_000
    assert len(page) < 120_000


def test_a_file_is_a_film_too(tmp_path) -> None:
    """As `--film` writes it; the film itself as well."""
    path = tmp_path / "mine.json"
    film = watch_a_start("eager").film
    film.write(path)

    assert watch_a_start(path, draw=False).film == film
    assert watch_a_start(film).described()["film"]["draw"] is True


def test_a_name_without_a_film_is_answered_with_those_that_are_there() -> None:
    """Neither a name nor a file."""
    assert sorted(one.stem for one in FILMS.glob("*.json")) == sorted(NAMES)
    with pytest.raises(PlannerError, match=r"no film best\. .*desk, eager, repacked"):
        watch_a_start("best")
