"""The memory bars as values, before any browser draws them."""

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.memory.account import Basis
from planner.show.charts.frame import bars
from planner.show.charts.memory_bars import figure, figure_spec
from planner.show.charts.picture import page_spec
from planner.show.charts.traces import SOFT, soft_edge
from planner.show.document import style
from planner.show.palette import MISSING, OTHER, SWATCHES, css_background
from planner.show.verdict import missing_bytes
from planner.units import GIB, format_gib
from tests import plans
from tests.rows import each_row

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


@each_row("swatch", [*SWATCHES.values(), OTHER])
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


def test_gpus_that_are_alike_share_a_bar_from_two_on() -> None:
    """Eight ranks of one stage are one bar; a single GPU has its name alone."""
    alone = planner.plan(plans.LLAMA_8B, gpu="H100")
    eight = planner.plan(plans.LLAMA_70B, gpu="H200", tensor_parallel_size=8)
    engines = planner.plan(plans.LLAMA_8B, gpu="H200", data_parallel_size=8)

    assert [bar.label for bar in bars(alone)] == ["H100"]
    assert [bar.label for bar in bars(eight)] == ["8 x H200"]
    assert [bar.label for bar in bars(engines)] == ["8 x H200"]


def test_stages_that_differ_have_a_bar_each_with_its_count() -> None:
    """The first stage holds the embeddings, the last the head of the model."""
    drawn = bars(plans.in_stages())

    assert [bar.label for bar in drawn] == ["stage 0: 2 x H100", "stage 1: 2 x H100"]
    assert [bar.rank.pp_rank for bar in drawn] == [0, 1]


@settings(max_examples=40, deadline=None)
@given(
    tensor=st.sampled_from([1, 2, 4, 8]),
    stages=st.integers(1, 8),
    engines=st.integers(1, 3),
)
def test_every_gpu_is_counted_in_one_bar(tensor, stages, engines) -> None:
    """The counts add up to the plan's GPUs, and neighbours differ in what they show."""
    plan = planner.plan(
        plans.LLAMA_70B,
        gpu="H100",
        tensor_parallel_size=tensor,
        pipeline_parallel_size=stages,
        data_parallel_size=engines,
    )
    drawn = bars(plan)
    sizes = [[line.size_bytes for line in bar.rank.lines] for bar in drawn]

    assert tensor * stages * engines == plan.gpus_total
    assert plan.gpus_total == sum(bar.num_gpus for bar in drawn)
    assert all(one != other for one, other in pairwise(sizes))


@pytest.mark.parametrize("plan", [plans.fitting, plans.too_long, plans.in_stages])
def test_the_soft_edge_spans_where_the_kv_cache_may_begin(plan) -> None:
    """From what its high end leaves of the budget to what its low end leaves."""
    spec = figure_spec(plan())
    soft = next(trace for trace in spec["data"] if trace["name"] == SOFT)

    for bar in bars(plan()):
        rank = bar.rank
        early = rank.requested_memory_bytes - rank.available_kv_cache_high_bytes
        late = rank.requested_memory_bytes - rank.available_kv_cache_low_bytes
        assert soft_edge(bar) == (
            early,
            rank.requested_memory_bytes - rank.available_kv_cache_bytes,
            late,
        )
        slices = [
            (base, base + size)
            for label, base, size in zip(
                soft["y"], soft["base"], soft["x"], strict=True
            )
            if label == bar.label
        ]
        assert min(slices)[0] == pytest.approx(early / GIB, abs=0.002)
        assert max(slices)[1] == pytest.approx(late / GIB, abs=0.002)


def test_a_cache_of_a_size_that_was_set_has_no_soft_edge() -> None:
    """`kv_cache_memory_bytes` leaves nothing to estimate."""
    plan = planner.plan(plans.LLAMA_8B, gpu="H100", kv_cache_memory_bytes=20 * GIB)

    assert [soft_edge(bar) for bar in bars(plan)] == [None]
    assert SOFT not in {trace["name"] for trace in figure_spec(plan)["data"]}
    assert page_spec(plan)["picture"]["soft"] == ""


def test_a_figure_stands_alone() -> None:
    """What was planned, the verdict, and every part with its size in the legend."""
    plan = plans.too_long()
    drawn = figure(plan)
    names = [trace.name for trace in drawn.data if trace.showlegend]
    missing = format_gib(missing_bytes(plan, plan.limiting_rank))

    assert f"<b>{plans.LLAMA_8B} on L4</b>" in drawn.layout.title.text
    assert "Does not fit" in drawn.layout.title.text
    for line in plan.limiting_rank.lines:
        assert f"{line.name} {format_gib(line.size_bytes)}" in names
    assert f"missing {missing}" in names


def test_the_legend_of_a_figure_has_the_sizes_of_the_machine_too() -> None:
    """Adapters are in GPU memory and in CPU memory, each with its own size."""
    plan = planner.plan(
        "Qwen/Qwen2.5-VL-7B-Instruct", gpu="H100", enable_lora=True, max_loras=4
    )
    names = [trace.name for trace in figure(plan).data if trace.showlegend]
    (account,) = plan.host

    for line in account.lines:
        assert f"CPU memory: {line.name} {format_gib(line.size_bytes)}" in names
    assert len(names) == len(set(names))


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


def test_a_figure_in_voila_is_a_widget(monkeypatch) -> None:
    """Plotly's own renderer ends with an error in Voilà's pages; a widget does not."""
    usual = plans.fitting().figure()
    monkeypatch.setenv("VOILA_BASE_URL", "/")
    shown = plans.fitting().figure()
    usual_json, shown_json = usual.to_plotly_json(), shown.to_plotly_json()

    assert list(shown._repr_mimebundle_()) == [
        "application/vnd.jupyter.widget-view+json"
    ]
    assert shown_json["layout"]["height"] == usual_json["layout"]["height"]
    assert [trace["name"] for trace in shown_json["data"]] == [
        trace["name"] for trace in usual_json["data"]
    ]
