"""Set-ups and the map of loads as people see them."""

import re

import pytest

from planner import GPU, Load, PlannerError, solve
from planner.show import load_map as map_shown
from planner.show import set_ups as shown
from planner.show.charts.load_map import figure_spec
from planner.solve.layouts import Layout

MODEL = "Qwen/Qwen3-32B"
LOAD = Load(prompt_tokens=32_000, output_tokens=768, requests=20)
NAMES = ["B300", "H200", "B200", "H100", "A100-80GB", "A40", "L40S", "RTX8000", "L4"]


@pytest.fixture(scope="module")
def found():
    """Eight kinds of GPU that serve, one that does not."""
    return solve.set_ups(MODEL, LOAD, NAMES, prices={"H200": 4, "A40": 0.5})


@pytest.fixture(scope="module")
def drawn():
    """The loads that one H100 serves."""
    load = Load(prompt_tokens=16_000, output_tokens=768, requests=8)
    return solve.load_map(MODEL, load, gpu="H100", requests=[1, 2, 8])


def test_the_text_begins_with_the_answer(found):
    """The fewest, and what costs least: 6 x 0.5 = 3 beside 2 x 4 = 8; of which."""
    text = str(found)

    assert text.startswith(
        "✔ Fewest: 1 x B300. Cheapest: 6 x A40 (3.00 per hour). "
        "Tried: 1 to 8 GPUs of each kind\n"
    )
    assert f"GPUs for {MODEL} with 20 requests of 32,768 tokens at once" in text
    assert text.endswith(found.fewest.command())


def test_the_deciding_columns_come_first(found):
    """GPUs, price, what it holds, speed; then the rest."""
    assert [
        "GPUs",
        "Price per hour",
        "Holds (needs 20)",
        "Tokens per second",
    ] == list(shown.cells(found.ranked()[0], found))[:4]
    (line,) = re.findall(r"^2 x H200, TP 2 .*$", str(found), re.MULTILINE)
    best = next(one for one in found.ranked() if one.gpu.name == "H200")
    assert re.search(rf"8\.00 +{best.requests_held} ", line)
    assert re.search(r"^1 x B300 +no price", str(found), re.MULTILINE)


def test_without_any_price_there_is_no_column_for_it():
    """And a sentence says how to give one."""
    bare = solve.set_ups(MODEL, LOAD, "H200", prices={})

    assert "Price per hour" not in shown.cells(bare.ranked()[0], bare)
    assert shown.NO_PRICES in str(bare)


def test_assumed_prices_say_so_with_their_days():
    """List prices are dated; one's own need no word."""
    listed = solve.set_ups(MODEL, LOAD, "H200")
    own = solve.set_ups(MODEL, LOAD, "H200", prices={"H200": 4}, currency="EUR")

    assert re.search(r"Prices are assumed: .* of 20\d\d-\d\d-\d\d", str(listed))
    assert "assumed" not in str(own)
    assert "8.00 EUR" in str(own)


def test_a_miss_says_how_much_is_missing(found):
    """The nearest first, in requests and in GiB."""
    text = str(found)
    near = found.misses[0]

    assert "L4" == near.gpu.name
    served = near.serving.requests_served
    assert f"8 x L4: serves {served} of 20 at once. " in text
    assert re.search(r"L4: .* GiB of KV cache missing for 20 requests", text)


def test_nothing_that_serves_is_an_answer_too():
    """The sign, the words, and what is nearest."""
    none = solve.set_ups(MODEL, LOAD, "L4")

    assert str(none).startswith("✘ None of these GPUs serves it")
    assert "1 kind of GPU does not serve it:\n  8 x L4: " in str(none)
    assert "pl-short" in none._repr_mimebundle_()["text/html"]


def test_the_page_shows_five_and_folds_the_others(found):
    """The sixth to eighth kind are in details; so is the miss."""
    html = found._repr_mimebundle_()["text/html"]
    open_part, _, folded = html.partition("<summary>The other 3</summary>")

    assert 5 == len(re.findall(r"<th scope='row'>\d x ", open_part))
    assert 3 == len(re.findall(r"<th scope='row'>\d x ", folded))
    assert "<summary>1 kind of GPU does not serve it</summary>" in folded


def test_names_from_outside_are_escaped():
    """A GPU that the user describes can have any name."""
    gpu = GPU(name="<b>", total_memory_bytes=300 << 30, compute_capability=(9, 0))
    html = solve.set_ups(MODEL, LOAD, [gpu], prices={})._repr_mimebundle_()["text/html"]

    assert "1 x <b>" not in html
    assert "1 x &lt;b&gt;" in html


def test_a_frame_has_a_row_for_each_set_up(found):
    """Layouts on the same GPUs are rows of their own."""
    pytest.importorskip("pandas")
    frame = found.to_frame()

    assert len(found.found) == len(frame)
    assert {"gpu", "gpus_total", "price_per_hour"} < set(frame.columns)
    assert 2 == len(solve.set_ups(MODEL, LOAD, "L4").to_frame().columns)


def test_a_layout_is_written_in_letters():
    """Only what is more than one; nothing for one GPU."""
    whole = Layout(
        tensor_parallel_size=4,
        pipeline_parallel_size=2,
        data_parallel_size=2,
        enable_expert_parallel=True,
    )

    assert ["TP 4, PP 2, DP 2, EP", ""] == [
        shown.layout_words(whole),
        shown.layout_words(Layout()),
    ]


def test_the_map_says_in_each_cell_what_is_served(drawn):
    """A sign and a number, so that colour is never alone."""
    text = str(drawn)
    states = {cell.state: map_shown.cell_text(cell) for cell in drawn.cells}

    assert {"served", "starts", "does not start"} >= set(states)
    assert states["served"].startswith("✔ ")
    assert re.fullmatch(r"! \d of 8", states["starts"])
    assert map_shown.LEGEND in text
    assert "Requests at once that Qwen/Qwen3-32B on H100 serves" in text
    assert all(f"{prompt:,}" in text for prompt in drawn.prompts)


def test_the_map_is_drawn_with_a_box_for_each_load(drawn):
    """Column by column; colours follow the state."""
    spec = figure_spec(drawn)
    (boxes,) = spec["data"]

    assert [map_shown.cell_text(cell) for cell in drawn.cells] == boxes["text"]
    colours = {
        (cell.state, colour)
        for cell, colour in zip(drawn.cells, boxes["marker"]["color"], strict=True)
    }
    assert len(colours) == len({state for state, _ in colours}) > 1
    assert "1 x H100" in spec["layout"]["annotations"][0]["text"]


def test_the_map_is_read_aloud_by_its_ends(drawn):
    """How many, the most requests, and the longest prompt."""
    served = [cell for cell in drawn.cells if cell.state == "served"]
    said = map_shown.spoken_map(drawn)

    assert f"{len(served)} of {len(drawn.cells)} loads are served" in said
    most = max(served, key=lambda cell: (cell.requests_served, cell.load.prompt_tokens))
    assert f"prompts of {most.load.prompt_tokens:,} tokens" in said


def test_a_map_of_nothing_is_said_in_one_sentence():
    """One L4 has no room for the weights."""
    none = solve.load_map(MODEL, LOAD, gpu="L4")

    assert "0 of" in map_shown.spoken_map(none)
    assert {"✘"} == {map_shown.cell_text(cell) for cell in none.cells}
    assert {"rgba(128, 128, 128, 0.09)"} == set(
        figure_spec(none)["data"][0]["marker"]["color"]
    )
    assert "does not fit" not in none._repr_mimebundle_()["text/html"]


def test_the_map_is_a_plotly_figure(drawn):
    """Where plotly is installed."""
    pytest.importorskip("plotly")

    assert 1 == len(drawn.figure().data)


def test_an_unknown_order_is_refused(found):
    """By name, with the orders there are."""
    with pytest.raises(PlannerError, match="order='best': use one of"):
        found.ranked("best")


def test_formats_have_columns_where_there_are_several():
    """Which, and what it costs; those that no other beats come first."""
    several = solve.set_ups(
        MODEL, LOAD, ["H100", "A40"], prices={"A40": 0.5}, quality="little loss"
    )

    best = several.trade_offs()
    assert ["Format", "Answers", "Other layouts"] == [*shown.cells(best[0], several)][
        -3:
    ]
    alone = solve.set_ups(MODEL, LOAD, "H100", prices={})
    assert "Format" not in shown.cells(alone.found[0], alone)
    rows, count = shown.best_first(several)
    assert (best, len(best)) == (rows[:count], count)
    assert re.search(r"^\d x A40.* KV cache in fp8 +little loss", str(several), re.M)
    assert "Not tried: More GPUs of a kind" in str(several)
