"""Films of starts: what they hold, and that a dry run's has vLLM's own figures."""

from __future__ import annotations

import base64
import json
import lzma
import zlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.confirming.dry.reel import Allocator, Reel, filmed
from planner.confirming.dry.result import DriverMemory
from planner.confirming.film import (
    DRY,
    FILMS,
    Film,
    FilmStage,
    Frame,
    Use,
    facts_of,
    placed,
    read_film,
)
from planner.confirming.measurement import Measurement, WorkerFigures
from planner.errors import PlannerError
from planner.units import GIB, MIB
from tests.confirming.test_dry_result import ARGUMENTS, MODEL, dry, worker

RECORDS = Path(__file__).parents[1] / "data/films"
NAMES = ("desk", "eager", "repacked")
MILLION = 1_000_000


def record(name: str) -> dict[str, Any]:
    """Return what the false GPU handed out in the start of a film, and more of it."""
    return json.loads(lzma.decompress((RECORDS / f"{name}.json.xz").read_bytes()))


def film(name: str) -> Film:
    """Return a film that comes with the planner."""
    return read_film(FILMS / f"{name}.json")


def said(shown: Film) -> list[tuple[str, Frame]]:
    """Return the lines of the log, each with its frame."""
    return [(text, shown.frames[at]) for at, text in shown.lines]


def at_first_snapshot(shown: Film) -> Frame:
    """Return the frame in which vLLM first looks how much memory is free."""
    behind = "worker requested memory"
    (found,) = (at for text, at in said(shown) if text.startswith(behind))
    return found


def last(shown: Film, stage: FilmStage) -> Frame:
    """Return the last frame of a stage that the film has."""
    found = shown.last(stage)
    assert found is not None
    return found


def a_film(*frames: Frame, lines: tuple[tuple[int, str], ...] = ()) -> Film:
    """Return a film of a card with 100 MiB."""
    return Film(
        model="a model",
        gpu="L4",
        vllm_version="0.33.0",
        engine_args={},
        source=DRY,
        total_bytes=100 * MIB,
        measured={},
        frames=frames,
        lines=lines,
    )


def frame(used: int, stage: FilmStage = FilmStage.LOADING, seconds: float = 0) -> Frame:
    """Return a moment with so many bytes of weights."""
    sizes = tuple(used if use is Use.WEIGHTS else 0 for use in Use)
    return Frame(seconds=seconds, stage=stage, used=sizes)


# --- the three starts, beside the false GPU and vLLM ---


@pytest.mark.parametrize("name", NAMES)
def test_its_curve_is_the_sum_of_the_false_gpu_at_each_moment(name: str) -> None:
    """Each frame is one of the device's sums, in their order; so are highest and end.

    The sums have one for each call that allocates or frees memory of the device.
    """
    frames = film(name).frames
    begin = frames[0].bytes_of(Use.OUTSIDE)
    sums = list(accumulate(record(name)["sizes"], initial=begin))
    rest = iter(sums)
    changed = [
        after.device_bytes
        for before, after in pairwise(frames)
        if after.device_bytes != before.device_bytes
    ]

    assert [one for one in changed if one not in rest] == []
    assert sums[-1] == frames[-1].device_bytes
    assert max(sums) == max(one.device_bytes for one in frames)


@pytest.mark.parametrize("name", NAMES)
def test_its_weights_and_its_peak_are_those_that_vllm_measured(name: str) -> None:
    """To the byte: "Model loading took", and what vLLM keeps free for a step."""
    shown = film(name)
    loaded, begun = last(shown, FilmStage.REPACKING), last(shown, FilmStage.STARTING)
    assert shown.peak is not None
    highest, after = shown.peak

    assert shown.measured["weights"] == loaded.tensor_bytes - begun.tensor_bytes
    assert shown.measured["weights"] == loaded.bytes_of(Use.WEIGHTS)
    peak = highest.tensor_bytes - after.tensor_bytes
    assert shown.measured["peak_activation"] == peak


@pytest.mark.parametrize("name", NAMES)
def test_what_is_left_of_the_profile_run_is_what_vllm_says_is_consumed(
    name: str,
) -> None:
    """It compares free memory with that of before, which has its first small blocks."""
    shown = film(name)
    after = last(shown, FilmStage.PROFILING)

    grown = after.device_bytes - at_first_snapshot(shown).device_bytes
    assert shown.measured["consumed"] == grown


@pytest.mark.parametrize("name", NAMES)
def test_its_end_is_what_stays(name: str) -> None:
    """Weights and KV cache as vLLM allocated them, and nothing temporary."""
    shown = film(name)
    end = shown.frames[-1]

    assert end.bytes_of(Use.WEIGHTS) == shown.measured["weights"]
    # A rest of up to 1 MiB is not split off.
    assert 0 <= end.bytes_of(Use.KV_CACHE) - shown.measured["kv_cache"] <= MIB
    assert end.bytes_of(Use.TEMPORARY) == 0


def test_the_lines_of_the_log_have_their_frames() -> None:
    """What a line says of the moment is what the frame has."""
    shown = film("eager")
    (loaded,) = (at for text, at in said(shown) if text.startswith("Model loading"))
    free = "Free memory after profiling"
    ((text, after),) = (one for one in said(shown) if one[0].startswith(free))

    assert loaded.bytes_of(Use.WEIGHTS) == shown.measured["weights"]
    left = (shown.total_bytes - after.device_bytes) / GIB
    assert f"{free}: {left:.2f} GiB" in text


@pytest.mark.parametrize("name", NAMES)
def test_a_film_is_small_and_names_no_folder(name: str) -> None:
    """A lesson loads it, and it was made on somebody's machine."""
    text = (FILMS / f"{name}.json").read_text(encoding="utf-8")

    assert len(text) < 20_000
    assert "/root" not in text
    assert "/home" not in text


def test_weights_that_are_repacked_are_there_twice_for_a_moment() -> None:
    """Of AWQ, one layer after the other: old, new and copies beside them."""
    shown = film("repacked")
    highest, after = (
        shown.highest(FilmStage.REPACKING),
        last(shown, FilmStage.REPACKING),
    )
    assert highest is not None

    assert highest.tensor_bytes - after.tensor_bytes > 500 * MIB
    assert after.bytes_of(Use.TEMPORARY) == 0


@pytest.mark.parametrize("name", ["eager", "repacked"])
def test_the_film_that_comes_along_is_made_of_the_record(name: str) -> None:
    """Nothing of it is written by hand."""
    shown, recorded = film(name), record(name)
    outside = shown.frames[0].bytes_of(Use.OUTSIDE)
    reel = Reel(recorded, outside, has_graphs=False)
    frames = tuple(reel.frames())
    made = replace(shown, frames=frames, lines=placed(frames, reel.said()))

    assert shown == made.thinned()


# --- PyTorch's allocator ---


def test_blocks_are_rounded_and_split() -> None:
    """Small: to 512 bytes, the rest is split off. Large: a rest of 1 MiB is not."""
    allocator = Allocator()
    allocator.change_segment(0, 2 * MIB)
    allocator.change_segment(100 * MIB, 20 * MIB)

    assert allocator.allocate(0, 100) == 512
    assert allocator.allocate(512, 513) == 1024
    assert allocator.allocate(100 * MIB, 12 * MIB) == 12 * MIB
    assert allocator.allocate(112 * MIB, 7 * MIB) == 8 * MIB
    assert allocator.used_bytes == 20 * MIB + 1536


def test_a_limit_keeps_large_blocks_whole() -> None:
    """Of 20 MiB, as vLLM sets it: 25 of 30 MiB take all of it."""
    allocator = Allocator()
    allocator.change_segment(0, 30 * MIB)

    assert allocator.allocate(0, 25 * MIB, 20 * MIB) == 30 * MIB
    assert allocator.free(0) == 30 * MIB
    assert allocator.allocate(0, 25 * MIB) == 25 * MIB


def test_freed_neighbours_become_one_block() -> None:
    """So that a segment is whole again, and is given back."""
    allocator = Allocator()
    allocator.change_segment(0, 2 * MIB)
    for at in range(3):
        allocator.allocate(512 * at, 512)
    for at in (0, 2, 1):
        allocator.free(512 * at)
    allocator.change_segment(0, -2 * MIB)

    assert (allocator.used_bytes, allocator.reserved_bytes) == (0, 0)
    assert allocator.free(99) == 0


# --- a start written by hand ---


def by_hand() -> dict[str, Any]:
    """8 MiB of weights, 4 of a profile run, 6 of KV cache; the driver takes 3 beside.

    In seconds: loading from 1, the line at 3, profiling from 4, the KV cache from 7.
    """
    seg, gone, alloc, free = "segment_alloc", "segment_free", "alloc", "free_completed"
    marks = [
        (0, "starting", ""),
        (1, "loading weights", ""),
        (3, "", "Model loading took 0.01 GiB memory and 2.0 seconds"),
        (3, "", "Using cache directory: /somebody/s/folder for 1 GiB"),
        (4, "profiling", ""),
        (7, "KV cache", ""),
        (9, "ready", ""),
    ]
    events = [
        (2, seg, 0, 8 * MIB),
        (2, alloc, 0, 8 * MIB),
        (5, seg, 100 * MIB, 4 * MIB),
        (5, alloc, 100 * MIB, 4 * MIB),
        (6, free, 100 * MIB, 4 * MIB),
        (6, gone, 100 * MIB, 4 * MIB),
        (8, seg, 200 * MIB, 6 * MIB),
        (8, alloc, 200 * MIB, 6 * MIB),
    ]
    return {
        "marks": [(time * MILLION, stage, line) for time, stage, line in marks],
        "limits": [],
        "events": [(time * MILLION, *rest) for time, *rest in events],
        "device": [
            (8 * MIB, 0),
            (3 * MIB, 0),  # the driver's, without an address
            (4 * MIB, 100 * MIB),
            (-4 * MIB, 100 * MIB),
            (6 * MIB, 200 * MIB),
        ],
    }


def test_uses_follow_from_the_stage_and_from_what_stays() -> None:
    """In MiB, as they are piled up, with 1 MiB of before below."""
    frames = list(Reel(by_hand(), MIB, has_graphs=False).frames())
    sizes = [tuple(size // MIB for size in one.used) for one in frames]

    assert tuple(Use)[:5] == (
        Use.OUTSIDE,
        Use.WEIGHTS,
        Use.NON_TORCH,
        Use.BUFFERS,
        Use.KV_CACHE,
    )
    assert sizes == [
        (1, 8, 0, 0, 0, 0, 0, 0),
        (1, 8, 3, 0, 0, 0, 4, 0),
        (1, 8, 3, 0, 0, 0, 0, 4),  # freed, and still PyTorch's
        (1, 8, 3, 0, 0, 0, 0, 0),
        (1, 8, 3, 0, 6, 0, 0, 0),
        (1, 8, 3, 0, 6, 0, 0, 0),
    ]
    assert [one.seconds for one in frames] == [2, 5, 6, 6, 8, 9]


def test_lines_stand_behind_what_was_allocated_before_them() -> None:
    """Those with a path of a machine are left out."""
    reel = Reel(by_hand(), 0, has_graphs=False)
    lines = placed(tuple(reel.frames()), reel.said())

    assert [(at, text[:13]) for at, text in lines] == [(0, "Model loading")]


def test_a_dry_run_has_the_film_of_its_record() -> None:
    """Over what the driver took before, with the arguments of the run."""
    driver = DriverMemory(outside_bytes=MIB)
    packed = base64.b64encode(zlib.compress(json.dumps(by_hand()).encode())).decode()

    film = filmed(dry(worker(), driver=(driver,)), packed).film

    assert film is not None
    assert film.is_dry
    assert (film.model, film.gpu) == (MODEL, "H100")
    assert film.engine_args == ARGUMENTS
    assert film.measured["weights"] == worker().weights_bytes
    assert film.frames[0].bytes_of(Use.OUTSIDE) == MIB
    assert film.frames[-1].bytes_of(Use.KV_CACHE) == 6 * MIB


def test_a_segment_that_the_device_does_not_know_is_an_error() -> None:
    """Then one of the two records is not of this start."""
    recorded = by_hand() | {"device": []}

    with pytest.raises(LookupError, match="does not know"):
        list(Reel(recorded, 0, has_graphs=False).frames())


# --- thinned, written and read ---


@st.composite
def films(drawn: st.DrawFn) -> Film:
    """Films of up to 300 frames, in the order of their stages, with some lines."""
    sizes = drawn(
        st.lists(st.integers(0, 100 * MIB), min_size=1, max_size=300), label="sizes"
    )
    stages = sorted(
        drawn(st.sampled_from(FilmStage)).position for _size in range(len(sizes))
    )
    frames = [
        frame(size, list(FilmStage)[stage], seconds=at / 8)
        for at, (size, stage) in enumerate(zip(sizes, stages, strict=True))
    ]
    places = st.lists(st.integers(0, len(sizes) - 1), max_size=5)
    lines = ((at, f"line {at}") for at in sorted(drawn(places)))
    return a_film(*frames, lines=tuple(lines))


def _extremes(shown: Film) -> Iterator[tuple[int, int]]:
    for stage in FilmStage:
        sizes = [one.device_bytes for one in shown.frames if one.stage is stage]
        if sizes:
            yield min(sizes), max(sizes)


@given(films())
def test_a_thinned_film_keeps_extremes_steps_and_lines(whole: Film) -> None:
    """Lowest and highest of each stage; both sides of each step of 1 %; lines."""
    thin = whole.thinned()

    assert list(_extremes(thin)) == list(_extremes(whole))
    assert set(thin.frames) <= set(whole.frames)
    for before, after in pairwise(whole.frames):
        if abs(after.device_bytes - before.device_bytes) >= MIB:
            assert {before, after} <= set(thin.frames)
    of_whole = [(whole.frames[at], text) for at, text in whole.lines]
    assert [(thin.frames[at], text) for at, text in thin.lines] == of_whole


@given(films())
def test_what_is_written_is_read_again(tmp_path_factory, whole: Film) -> None:
    """Differences and stages are put together as they were."""
    path = tmp_path_factory.mktemp("films") / "a.json"
    whole.write(path)

    assert read_film(path) == whole


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"film": 2}', '{"film": 1, "stages": [1, 2]}']
)
def test_another_file_is_no_film(tmp_path, text: str) -> None:
    """One sentence, with how to make one."""
    path = tmp_path / "other.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(PlannerError, match=r"is not a film.*--film"):
        read_film(path)


def test_a_film_keeps_no_secret() -> None:
    """It is made to be shown: the token of the Hub is left out."""
    given = {"hf_token": "hf_secret", "max_model_len": 8192}
    worker = WorkerFigures(rank=0, weights_bytes=5)

    facts = facts_of(Measurement(vllm_version="0.33.0"), worker, given)

    assert facts == {
        "engine_args": {"max_model_len": 8192},
        "vllm_version": "0.33.0",
        "measured": {"weights": 5},
    }


def test_a_film_has_frames() -> None:
    """Else there is nothing to show."""
    with pytest.raises(PlannerError, match="at least one frame"):
        a_film()
