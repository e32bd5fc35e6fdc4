"""The page's bars: the segments of all memory lines in one trace, where they were."""

from itertools import pairwise

import pytest

import planner
from planner.show.charts.memory_bars import figure_spec
from planner.show.charts.picture import page_spec
from planner.show.charts.traces import SOFT, as_one_trace


def bar(x, marker, **rest):
    """A trace of stacked bars, as the charts describe it."""
    shared = {
        "type": "bar",
        "orientation": "h",
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "customdata": [f"hover {size}" for size in x],
    }
    line = {"line": {"color": "grey", "width": 1}}
    return shared | {"x": x, "marker": line | marker} | rest


def test_segments_keep_their_places_and_their_looks() -> None:
    """GPU 0: 2 at 0, then 3 at 2; GPU 1: 4 at 0, nothing more; the rest from 6 on."""
    hatched = {
        "pattern": {
            "shape": ["/", ""],
            "bgcolor": "blue",
            "fgcolor": "navy",
            "size": 7,
            "solidity": 0.25,
        },
        "color": "blue",
    }
    rows = ["GPU 0", "GPU 1"]
    one = as_one_trace(
        {
            "data": [
                bar([2, 4], hatched, y=rows, text=["a", "b"]),
                bar([3, 0], {"color": "red"}, y=rows),
                bar([1, None], {"color": "white"}, y=rows, base=[6, 6]),
            ],
            "layout": {"barmode": "stack", "height": 100},
        }
    )
    (trace,) = one["data"]

    assert trace["y"] == ["GPU 0", "GPU 1", "GPU 0", "GPU 0"]
    assert trace["base"] == [0, 0, 2, 6]
    assert trace["x"] == [2, 4, 3, 1]
    assert trace["text"] == ["a", "b", "", ""]
    assert trace["customdata"] == ["hover 2", "hover 4", "hover 3", "hover 1"]
    pattern = trace["marker"]["pattern"]
    assert pattern["bgcolor"] == ["blue", "blue", "red", "white"]
    assert pattern["fgcolor"] == [
        "navy",
        "rgba(0, 0, 0, 0)",
        "rgba(0, 0, 0, 0)",
        "rgba(0, 0, 0, 0)",
    ]
    assert one["layout"] == {"barmode": "overlay", "height": 100}


@pytest.mark.parametrize(
    ("gpu", "arguments"),
    [
        ("H100", {}),
        ("L4", {"tensor_parallel_size": 2, "pipeline_parallel_size": 3}),
        ("T4", {"dtype": "half"}),
        ("L4", {"max_model_len": 40_960, "gpu_memory_utilization": 0.5}),
    ],
)
def test_the_page_shows_what_the_figure_shows(gpu, arguments) -> None:
    """Each segment of the account ends where the next begins; none is left out."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu, **arguments)
    drawn = figure_spec(plan)
    (trace,) = page_spec(plan)["data"]
    sizes = [
        size
        for one in drawn["data"]
        for size in one["x"]
        if size and "base" not in one and one["name"] != SOFT
    ]

    assert sorted(trace["x"][: len(sizes)]) == sorted(sizes)
    for row in set(trace["y"]):
        ends = [
            (base, base + size)
            for y, base, size in zip(
                trace["y"][: len(sizes)], trace["base"], trace["x"], strict=False
            )
            if y == row
        ]
        assert all(end == begin for (_, end), (begin, _) in pairwise(ends))


def test_hovering_says_the_size_of_what_lies_beside_the_budget() -> None:
    """79.19 GiB in all, of which vLLM may use 72.85: 6.34 beside, not 79.19."""
    plan = planner.plan("Qwen/Qwen3-8B", "H100")
    (trace,) = page_spec(plan)["data"]

    assert "Outside vLLM's budget 6.3" in trace["customdata"][-1]
