"""One model planned again and again, over one argument or two."""

import itertools
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner import PlannerError
from planner.engine.releases import MODELLED
from planner.show.charts import curve as curves
from planner.show.charts import heat_map
from planner.show.grid import cell_text, sheet, spoken, unit_of
from planner.solve.comparing import (
    context_against_concurrency,
    gpus_against_concurrency,
)
from planner.solve.comparing.cells import VALUES, cell_of, not_planned
from planner.solve.comparing.sweep import MOST_CELLS
from planner.units import GIB
from tests import plans
from tests.show.test_charts import READABLE, contrast

MODEL = "Qwen/Qwen3-8B"
OVER = {
    "max_model_len": st.lists(
        st.sampled_from([None, 1024, 4096, 40_960, 65_536]), min_size=1, unique=True
    ),
    "kv_cache_dtype": st.lists(
        st.sampled_from(["auto", "fp8", "nope"]), min_size=1, unique=True
    ),
    "tensor_parallel_size": st.lists(
        st.sampled_from([1, 2, 3, 8]), min_size=1, unique=True
    ),
    "gpu": st.lists(
        st.sampled_from(["H100", "L4", "T4", "none such"]), min_size=1, unique=True
    ),
}


def small() -> planner.Grid:
    """Lengths and cache dtypes on 22 GiB: every verdict but one."""
    return planner.sweep(
        MODEL,
        gpu="L4",
        over={
            "max_model_len": [2048, 25_600, 32_768, 65_536],
            "kv_cache_dtype": ["auto", "fp8"],
        },
    )


def planned(values: tuple, arguments: dict):
    """Return the cell of a plan made alone."""
    try:
        return cell_of(values, planner.plan(MODEL, **arguments))
    except PlannerError as error:
        return not_planned(values, error)


@settings(max_examples=25)
@given(names=st.permutations(list(OVER)), data=st.data())
def test_a_cell_is_what_planning_says(names, data) -> None:
    """Every cell holds the figures of planner.plan with the same arguments."""
    over = {name: data.draw(OVER[name]) for name in names[:2]}
    grid = planner.sweep(MODEL, gpu="H100", over=over)

    assert len(grid.cells) == len(over[names[0]]) * len(over[names[1]])
    for values, cell in zip(itertools.product(*over.values()), grid.cells, strict=True):
        arguments = {"gpu": "H100", **dict(zip(over, values, strict=True))}
        assert planned(values, arguments) == cell


def test_a_sweep_of_a_plan_keeps_what_the_plan_was_given() -> None:
    """Two GPUs of a plan stay two."""
    plan = planner.plan(MODEL, gpu="L4", tensor_parallel_size=2)
    grid = planner.sweep(plan, over={"max_model_len": [4096, 8192]})

    assert [2, 2] == [cell.gpus_total for cell in grid.cells]
    assert plan.changed(max_model_len=8192) == grid.plan(max_model_len=8192)
    assert cell_of((8192,), grid.plan(max_model_len=8192)) == grid.cells[1]


def test_models_and_releases_can_be_swept_over() -> None:
    """An unknown model is a cell that says so; the sweep goes on."""
    grid = planner.sweep(
        MODEL,
        over={"model": [MODEL, "no/such"], "vllm_version": ["0.32.0", "0.33.0"]},
    )

    assert ["fits", "fits", "not planned", "not planned"] == [
        cell.verdict for cell in grid.cells
    ]
    assert "ModelUnavailable" == grid.cells[2].error_kind
    assert grid.cell(model=MODEL, vllm_version="0.32.0") is grid.cells[0]


def test_a_quantization_is_read_anew_for_each_cell() -> None:
    """It changes the model while it is read: fp8 halves the weights of the layers."""
    grid = planner.sweep(MODEL, over={"quantization": [None, "fp8_per_tensor"]})

    assert grid.cells[0].weights_bytes > grid.cells[1].weights_bytes


def test_a_generator_is_read_once_and_a_repeated_value_counts_once() -> None:
    """Values may come from anywhere."""
    lengths = (length for length in (4096, 8192, 4096))
    grid = planner.sweep(MODEL, over={"max_model_len": lengths})

    assert (4096, 8192) == grid.axes[0].values


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ({}, "takes one argument or two; 0"),
        ({"a": [1], "b": [1], "c": [1]}, "takes one argument or two; 3"),
        ({"max_model_len": 4096}, "a list of values is needed, such as [4096]"),
        ({"kv_cache_dtype": "fp8"}, "a list of values is needed, such as ['fp8']"),
        ({"max_model_len": []}, "at least one value"),
        ({"max_model_length": [1]}, "Did you mean max_model_len?"),
        ({"max_model_len": itertools.count(1)}, f"more than {MOST_CELLS:,} values"),
        (
            {"max_model_len": range(1, 1002), "max_num_seqs": range(1, 102)},
            "101,101 plans; 100,000 are the most",
        ),
    ],
)
def test_a_sweep_that_cannot_be_is_refused_at_once(over, words) -> None:
    """Before anything is planned, with what is allowed."""
    with pytest.raises(PlannerError, match=re.escape(words)):
        planner.sweep(MODEL, over=over)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"model": "no/such"}, "no/such"),
        ({"model": MODEL, "gpu": "none such"}, "none such"),
        ({"model": MODEL, "max_num_seqs": 0}, "max_num_seqs=0"),
    ],
)
def test_what_is_wrong_in_every_cell_is_an_error(arguments, words) -> None:
    """A grid in which nothing could be planned would tell nothing."""
    with pytest.raises(PlannerError, match=re.escape(words)):
        planner.sweep(**arguments, over={"max_model_len": [4096]})


def test_cells_are_found_by_their_values() -> None:
    """And a value that was not swept over is named."""
    grid = small()
    cell = grid.cell(max_model_len=25_600, kv_cache_dtype="fp8")

    assert (25_600, "fp8") == cell.values
    with pytest.raises(PlannerError, match="not in this sweep"):
        grid.cell(max_model_len=1, kv_cache_dtype="fp8")
    with pytest.raises(PlannerError, match="max_model_len and kv_cache_dtype"):
        grid.cell(max_model_len=1)
    with pytest.raises(PlannerError, match="use one of max_concurrency"):
        cell.figure("weights")


def test_the_frame_is_long_and_keeps_figures_whole() -> None:
    """One row per plan; the arguments come first."""
    frame = small().to_frame()

    assert 8 == len(frame)
    assert ["max_model_len (given)", "kv_cache_dtype", "fits"] == list(frame)[:3]
    assert set(VALUES) <= set(frame)
    assert list(frame["verdict"]) == [cell.verdict for cell in small().cells]


def test_plain_values_can_be_written_as_json() -> None:
    """A GPU is its name, a tuple a list."""
    gpus = [planner.GPU.named("L4"), "H100"]
    told = planner.sweep(MODEL, over={"gpu": gpus, "max_num_seqs": [8]}).to_dict()

    assert {"gpu": ["L4", "H100"], "max_num_seqs": [8]} == json.loads(json.dumps(told))[
        "over"
    ]
    assert told["cells"][1]["max_concurrency"] > 1


def test_the_text_marks_what_does_not_start_and_says_why() -> None:
    """A sign beside the figure, and each error once."""
    text = str(small())

    assert "✘ 0.80x" in text
    assert "⊘ 0.40x" in text
    assert "! too close to call, ✘ does not fit, ⊘ refused" in text
    assert 1 == text.count("To serve at least one request")


@pytest.mark.parametrize("made", plans.ALL)
def test_a_sweep_and_a_comparison_show_the_same_figures(made) -> None:
    """One table of figures says how each is read, and in which unit it is written."""
    cell = cell_of((), made())
    rows = {row.name: row for row in planner.compare(made()).rows if not row.is_line}

    shared = [name for name in VALUES if name in rows]
    assert 11 == len(shared)
    assert {name: unit_of(name) for name in shared} == {
        name: rows[name].unit for name in shared
    }
    if made().limiting_rank is not None:
        assert {name: cell.figure(name) for name in shared} == {
            name: rows[name].values[0] for name in shared
        }


def test_a_table_over_one_argument_has_the_figure_that_was_asked_for() -> None:
    """Beside the usual ones; nothing is shown twice."""
    grid = planner.sweep(MODEL, over={"max_num_seqs": [8, 16]})

    assert "weights_bytes" in sheet(grid, "weights_bytes").to_text()
    assert 1 == str(grid).count("  Maximum concurrency  ")


def test_the_heat_map_writes_every_figure_into_its_box() -> None:
    """The first argument across, the second up; a box that does not fit is hatched."""
    grid = small()
    (boxes,) = heat_map.figure_spec(grid)["data"]

    assert [0, 0, 1, 1, 2, 2, 3, 3] == boxes["x"]
    assert [-0.5, 0.5] * 4 == boxes["base"]
    assert "12.86" == boxes["text"][0]
    for cell, shape, text in zip(
        grid.cells, boxes["marker"]["pattern"]["shape"], boxes["text"], strict=True
    ):
        assert cell.fits == (shape == "")
        assert cell.fits == text[0].isdigit()


def test_figures_can_be_read_on_every_colour_of_the_scale() -> None:
    """4.5:1, as everywhere."""
    for step in range(101):
        fill = heat_map.colour_at(step / 100)
        assert contrast(heat_map.label_colour(fill), fill) >= READABLE


def test_too_many_boxes_are_refused_with_a_way_out() -> None:
    """Nobody can tell ten thousand boxes apart."""
    grid = planner.sweep(MODEL, over={"max_model_len": [4096, 8192]})
    many = type(grid)(inputs=grid.inputs, axes=grid.axes, cells=grid.cells * 2000)

    with pytest.raises(PlannerError, match="to_frame"):
        many.heat_map()


def test_a_curve_has_a_line_per_value_of_the_other_argument() -> None:
    """With the estimate's range as a band below each."""
    spec = curves.figure_spec(small().lines())
    lines = [trace for trace in spec["data"] if trace["mode"] == "lines+markers"]
    bands = [trace for trace in spec["data"] if trace["mode"] == "lines"]

    assert ["auto", "fp8"] == [line["name"] for line in lines]
    assert [2048, 25_600, 32_768, 65_536] == lines[0]["x"]
    assert 2 == len(bands)
    low = small().cell(max_model_len=2048, kv_cache_dtype="auto").max_concurrency_low
    assert low == bands[0]["y"][-1]


def test_what_does_not_start_is_a_cross_on_the_line() -> None:
    """Not told by colour."""
    spec = curves.figure_spec(small().lines())
    line = next(trace for trace in spec["data"] if trace.get("name") == "auto")

    assert ["circle", *["x-thin-open"] * 3] == line["marker"]["symbol"]


def test_either_argument_can_be_the_colour() -> None:
    """And a figure can go to the right."""
    grid = small()

    assert "kv_cache_dtype" == grid.lines(color="max_model_len").x
    assert 4 == len(grid.lines(color="max_model_len").lines)
    assert [
        cells for _, cells in grid.lines(x="gpus_total", color="kv_cache_dtype").lines
    ] == [grid.cells[0::2], grid.cells[1::2]]
    with pytest.raises(PlannerError, match="this sweep is over"):
        grid.lines(color="nothing")


def test_nine_lines_are_refused_with_a_way_out() -> None:
    """There are eight colours and eight symbols."""
    over = {"kv_cache_dtype": ["auto", "fp8"], "max_num_seqs": range(1, 10)}
    grid = planner.sweep(MODEL, over=over)

    with pytest.raises(PlannerError, match="at most 8 lines"):
        grid.curve()
    assert 2 == len(grid.lines(x="max_num_seqs").lines)


@pytest.mark.parametrize("value", VALUES)
def test_plotly_takes_both_charts_of_every_figure(value) -> None:
    """Sizes are drawn in GiB."""
    grid = small()
    drawn = grid.curve(value)

    assert 1 == len(grid.heat_map(value).data)
    line = drawn.data[-2]
    if value == "weights_bytes":
        assert line.y[0] == pytest.approx(grid.cells[0].weights_bytes / GIB, abs=0.001)


def test_context_against_concurrency_plans_every_length() -> None:
    """Up to the model's own length, each point a plan; longer never holds more."""
    plan = plans.fitting()
    curve = context_against_concurrency(plan)
    ((_, cells),) = curve.lines

    assert 131_072 == cells[-1].max_model_len
    assert plan.max_concurrency == cells[-1].max_concurrency
    assert (
        cells[3].max_concurrency
        == plan.changed(max_model_len=cells[3].max_model_len).max_concurrency
    )
    figures = [cell.max_concurrency for cell in cells]
    assert figures == sorted(figures, reverse=True)


def test_a_plan_refused_whatever_its_length_has_no_curve() -> None:
    """vLLM's words say why."""
    with pytest.raises(PlannerError, match="No length"):
        context_against_concurrency(plans.refused())


def test_gpus_against_concurrency_names_sizes_that_vllm_refuses() -> None:
    """64 heads can be shared by 1, 2, 4 and 8 ranks; 70B needs four of them."""
    curve = gpus_against_concurrency(planner.plan(plans.LLAMA_70B, gpu="H100"))
    ((_, cells),) = curve.lines

    assert [1, 2, 4, 8] == [curve.x_of(cell) for cell in cells]
    assert [False, False, True, True] == [cell.fits for cell in cells]


def test_pages_and_sentences_say_what_the_charts_draw() -> None:
    """The table twin, and the sentence for a screen reader."""
    grid = small()
    bundle = grid._repr_mimebundle_()

    assert str(grid) == bundle["text/plain"]
    for cell in grid.cells:
        assert cell_text(cell, "max_concurrency") in bundle["text/html"]
    assert "4 of 8 plans fit" in spoken(grid)
    assert "at max_model_len 2,048" in spoken(grid)
    lines = curves.figure_spec(grid.lines())["data"]
    auto = next(one for one in lines if one.get("name") == "auto")
    assert (2048, 12.86) == (auto["x"][0], round(auto["y"][0], 2))


def test_names_from_users_are_text() -> None:
    """A model or a GPU may be called anything."""
    strange = planner.GPU.named("L4", name="<b>")
    grid = planner.sweep(MODEL, over={"gpu": [strange, "H100"], "max_num_seqs": [1, 2]})

    assert "<b>" not in grid._repr_mimebundle_()["text/html"]
    assert "&lt;b>" in heat_map.figure_spec(grid)["layout"]["xaxis"]["ticktext"][0]


def test_all_releases_are_an_axis() -> None:
    """Oldest first, as a chart has them."""
    grid = planner.sweep(
        MODEL, "L4", over={"vllm_version": ["all"]}, max_model_len=4096
    )
    assert [*reversed(MODELLED)] == list(grid.axes[0].values)
    assert all(cell.fits for cell in grid.cells)
