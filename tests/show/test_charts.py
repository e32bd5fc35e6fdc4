"""The memory bars as values, before any browser draws them."""

import re

import pytest

import planner
from planner.memory.account import Basis
from planner.show.charts.frame import MAX_SINGLE_BARS, bars
from planner.show.charts.memory_bars import figure, figure_spec, page_spec
from planner.show.page import style
from planner.show.palette import MISSING, OTHER, SWATCHES, css_background
from planner.show.verdict import missing_bytes
from planner.units import GIB
from tests import plans

READABLE = 4.5
"""WCAG's contrast for text."""


def luminance(colour: str) -> float:
    """WCAG's relative luminance of #RRGGBB."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """WCAG's contrast ratio of two colours."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("swatch", [*SWATCHES.values(), OTHER])
def test_labels_can_be_read_on_their_fill_and_on_its_hatch(swatch) -> None:
    """4.5:1 on both."""
    assert contrast(swatch.label, swatch.fill) >= READABLE
    assert contrast(swatch.label, swatch.hatch) >= READABLE


def test_the_verdicts_carry_white_text_that_can_be_read() -> None:
    """The badge's symbol on its colour."""
    tones = re.findall(r"--pl-(?:good|warn|bad): (#\w{6})", style())

    assert len(tones) == 3
    assert min(contrast("#FFFFFF", tone) for tone in tones) >= READABLE


def test_every_line_of_a_plan_has_its_own_colour() -> None:
    """No two segments of a bar look alike."""
    names = [line.name for line in plans.fitting().limiting_rank.lines]
    fills = {SWATCHES[name].fill for name in names}

    assert len(names) == len(fills)
    assert MISSING not in fills


@pytest.mark.parametrize("basis", Basis)
def test_only_an_exact_line_is_solid(basis) -> None:
    """The table's swatch is hatched as the chart is."""
    is_hatched = "gradient" in css_background("weights", basis)

    assert is_hatched == (basis is not Basis.EXACT)


@pytest.mark.parametrize("plan", [plans.fitting, plans.too_long, plans.in_stages])
def test_the_segments_are_the_lines_of_the_account(plan) -> None:
    """In GiB, to a thousandth; a negative KV cache has no width."""
    traces = {trace["name"]: trace for trace in figure_spec(plan())["data"]}

    for number, bar in enumerate(bars(plan())):
        for line in bar.rank.lines:
            drawn = traces[line.name]["x"][number]
            assert drawn == pytest.approx(max(line.size_bytes, 0) / GIB, abs=0.001)


def test_what_is_missing_is_drawn_beyond_the_requested_line() -> None:
    """Starting at the line, as wide as the shortage, and labelled."""
    plan = plans.too_long()
    spec = figure_spec(plan)
    missing = next(trace for trace in spec["data"] if trace["name"] == "missing")
    size = missing_bytes(plan, plan.limiting_rank) / GIB
    edge = plan.limiting_rank.requested_memory_bytes / GIB

    assert missing["x"] == [pytest.approx(size, abs=0.001)]
    assert missing["base"] == [pytest.approx(edge, abs=0.001)]
    assert spec["layout"]["xaxis"]["range"][1] >= size + edge
    labels = [note["text"] for note in spec["layout"]["annotations"]]
    assert f"<b>missing {size:.2f} GiB</b>" in labels


@pytest.mark.parametrize(
    ("gpu", "utilization", "above", "beside"),
    [
        ("RTX4090", 0.98, "right", "right"),  # 23.0 of 32.5 GiB: the last third
        ("L4", 0.92, "center", "right"),  # 20.3 of 32.5 GiB
        ("H100", 0.35, "center", "left"),  # 27.7 of 79.2 GiB
        ("H100", 0.25, "left", "left"),  # 19.8 of 79.2 GiB: the first third
    ],
)
def test_labels_stay_inside_the_chart_and_off_the_line(
    gpu, utilization, above, beside
) -> None:
    """An early line has its labels to its right, a late one to its left."""
    plan = planner.plan(plans.LLAMA_8B, gpu=gpu, gpu_memory_utilization=utilization)
    notes = figure_spec(plan)["layout"]["annotations"]
    requested = next(note for note in notes if "may use" in note["text"])
    missing = next(note for note in notes if "missing" in note["text"])

    assert requested["xanchor"] == above
    assert missing["xanchor"] == beside
    assert missing["x"] == requested["x"]
    assert (missing["xshift"] < 0) == (beside == "right")


def test_the_bars_of_weights_that_are_too_large_are_still_drawn() -> None:
    """Not fitting is an answer."""
    spec = figure_spec(plans.too_large())
    weights = next(trace for trace in spec["data"] if trace["name"] == "weights")

    assert weights["x"][0] > 100
    assert spec["layout"]["xaxis"]["range"][1] > weights["x"][0]


def test_both_lines_are_drawn_and_labelled() -> None:
    """The GPU's total, and what vLLM may use of it."""
    plan = plans.fitting()
    layout = figure_spec(plan)["layout"]

    drawn = {shape["x0"] for shape in layout["shapes"]}
    total = round(plan.gpu.total_memory_bytes / GIB, 3)
    requested = round(plan.limiting_rank.requested_memory_bytes / GIB, 3)
    assert drawn == {total, requested}
    text = " ".join(note["text"] for note in layout["annotations"])
    assert f"GPU total {total:.2f} GiB" in text
    assert f"vLLM may use {requested:.2f} GiB (0.92 x total)" in text


def test_a_refused_plan_draws_an_empty_gpu() -> None:
    """No segments, only the outline of the whole."""
    spec = figure_spec(plans.refused())
    total = round(plans.refused().gpu.total_memory_bytes / GIB, 3)

    assert [(trace["name"], trace["x"]) for trace in spec["data"]] == [
        ("nothing allocated", [total])
    ]
    assert len(spec["layout"]["shapes"]) == 1


def test_hovering_shows_the_arithmetic() -> None:
    """The text that the calculation wrote."""
    spec = figure_spec(plans.fitting())
    weights = next(trace for trace in spec["data"] if trace["name"] == "weights")
    why = plans.fitting().limiting_rank.line("weights").why

    assert why.split()[0] in weights["customdata"][0]


def test_few_gpus_have_a_bar_each() -> None:
    """Numbered as vLLM numbers them: stage by stage."""
    drawn = bars(plans.in_stages())

    assert [bar.label for bar in drawn] == ["GPU 0", "GPU 1", "GPU 2", "GPU 3"]
    assert [bar.rank.pp_rank for bar in drawn] == [0, 0, 1, 1]


def test_many_gpus_share_a_bar_when_they_are_alike() -> None:
    """Every GPU is counted once."""
    plan = planner.plan(
        plans.LLAMA_70B, gpu="H100", tensor_parallel_size=8, pipeline_parallel_size=4
    )
    drawn = bars(plan)

    assert plan.gpus_total > MAX_SINGLE_BARS
    assert len(drawn) <= 4
    assert sum(bar.num_gpus for bar in drawn) == 32
    assert drawn[0].label == "stage 0<br>8 GPUs alike"


@pytest.mark.parametrize("plan", plans.ALL)
def test_plotly_accepts_the_figure(plan) -> None:
    """plan.figure() checks every property; the page's JSON is the same."""
    drawn = figure(plan())

    assert len(drawn.data) == len(figure_spec(plan())["data"])


def test_the_machine_s_memory_stands_below_the_gpus_on_a_scale_of_its_own() -> None:
    """Offloaded weights of two GPUs and the rest of 64 GiB; the GPUs' bars above."""
    plan = planner.plan(
        plans.LLAMA_8B,
        tensor_parallel_size=2,
        cpu_offload_gb=2,
        max_model_len=4096,
        node_memory_gib=64,
    )
    spec = figure_spec(plan)
    below = [trace for trace in spec["data"] if trace.get("yaxis") == "y2"]
    drawn = {trace["name"]: trace["x"][0] for trace in below}
    (account,) = plan.host

    for line in account.lines:
        assert drawn[line.name] == pytest.approx(line.size_bytes / GIB, abs=0.001)
    assert sum(x or 0 for x in drawn.values()) == pytest.approx(64, abs=0.01)
    layout = spec["layout"]
    assert layout["yaxis2"]["domain"][1] < layout["yaxis"]["domain"][0]
    assert any(shape.get("xref") == "x2" for shape in layout["shapes"])
    assert "yaxis2" not in figure_spec(plans.fitting())["layout"]


def test_what_a_machine_lacks_is_drawn_beyond_its_memory() -> None:
    """From the capacity on, as long as what is missing."""
    plan = planner.plan(
        plans.LLAMA_8B, cpu_offload_gb=8, max_model_len=4096, node_memory_gib=8
    )
    over = next(
        trace
        for trace in figure_spec(plan)["data"]
        if trace["name"] == "missing CPU memory"
    )
    (account,) = plan.host

    assert over["base"] == [8]
    assert over["x"][0] == pytest.approx(account.needed_bytes / GIB - 8, abs=0.001)
    assert len(page_spec(plan)["data"]) == 2
