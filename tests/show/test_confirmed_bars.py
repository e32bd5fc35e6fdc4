"""Estimate and measurement as two bars, before any browser draws them."""

from dataclasses import replace

import pytest

from planner.show.charts.confirmed_bars import figure_spec
from planner.show.confirmation import (
    bars_html,
    compared,
    estimated,
    measured,
)
from planner.show.confirmation_text import spoken
from planner.show.palette import OTHER, PLOTLY_HATCHES, swatch
from planner.units import GIB
from tests import confirmations


def traces(confirmation) -> dict:
    """Traces by name."""
    return {trace["name"]: trace for trace in figure_spec(confirmation)["data"]}


@pytest.mark.parametrize("made", confirmations.ALL)
def test_the_segments_are_the_lines_of_both_accounts(made) -> None:
    """In GiB, to a thousandth; the estimate first."""
    drawn = traces(made())

    for number, parts in enumerate((estimated(made()), measured(made()))):
        for part in parts:
            size = max(part.size_bytes, 0) / GIB
            assert drawn[part.name]["x"][number] == pytest.approx(size, abs=0.001)
            assert drawn[part.name]["y"] == ["estimated", "measured"]


def test_the_estimate_is_hatched_by_its_basis_and_the_measurement_is_plain() -> None:
    """As in the bars of a plan."""
    drawn = traces(confirmations.confirmed())

    for part in estimated(confirmations.confirmed()):
        hatch = PLOTLY_HATCHES[part.basis]
        assert drawn[part.name]["marker"]["pattern"]["shape"] == [hatch, ""]


def test_lines_measured_together_have_the_colour_of_the_first() -> None:
    """persistent buffers + non-torch, beside the persistent buffers."""
    drawn = traces(confirmations.confirmed())
    together = drawn["persistent buffers + non-torch"]
    names = list(drawn)

    assert together["x"][0] == 0
    assert together["marker"]["color"] == swatch("persistent buffers").fill
    assert names.index(together["name"]) == names.index("persistent buffers") - 1
    assert names[-1] == "KV cache"


def test_what_covers_many_lines_is_grey() -> None:
    """Blue would say that all of it is weights."""
    sure = confirmations.confirmed()
    worker = replace(
        sure.measurement.workers[0], weights_bytes=None, consumed_bytes=18 * GIB
    )
    told = replace(sure.measurement, workers=(worker,))
    drawn = traces(replace(sure, measurement=told))

    assert drawn["all but the KV cache"]["marker"]["color"] == OTHER.fill
    assert next(iter(drawn)) == "all but the KV cache"


def test_the_band_is_where_the_range_lets_the_kv_cache_begin() -> None:
    """The budget less its high end, to the budget less its low end."""
    plan = confirmations.confirmed().plan
    rank = plan.limiting_rank
    shapes = figure_spec(confirmations.confirmed())["layout"]["shapes"]
    (band,) = (shape for shape in shapes if shape["type"] == "rect")
    (line,) = (shape for shape in shapes if shape["type"] == "line")
    budget = rank.requested_memory_bytes

    assert line["x0"] == pytest.approx(budget / GIB, abs=0.001)
    assert band["x0"] == pytest.approx(
        (budget - rank.available_kv_cache_high_bytes) / GIB, abs=0.001
    )
    assert band["x1"] == pytest.approx(
        (budget - rank.available_kv_cache_low_bytes) / GIB, abs=0.001
    )


def test_an_empty_second_bar_says_why() -> None:
    """vLLM ended before it measured."""
    notes = figure_spec(confirmations.contradicted())["layout"]["annotations"]

    assert any("ended before it measured" in note["text"] for note in notes)
    assert not any(
        "ended before it measured" in note["text"]
        for note in figure_spec(confirmations.confirmed())["layout"]["annotations"]
    )


@pytest.mark.parametrize("made", confirmations.ALL)
def test_plotly_takes_the_figure(made) -> None:
    """With a legend, which the page writes in HTML instead."""
    figure = made().figure()

    assert figure.layout.showlegend
    assert len(figure.data) == len(figure_spec(made())["data"])


def test_the_plain_bars_are_as_wide_as_the_sizes() -> None:
    """Both fill the budget: 100 % in all."""
    page = bars_html(confirmations.confirmed())

    assert page.count("<div class='pl-bar'>") == 2
    assert "pl-legend" in page
    widths = [float(part.split("%")[0]) for part in page.split("width:")[1:]]
    assert sum(widths) == pytest.approx(200, abs=0.1)


def test_a_dry_run_has_a_plain_bar_between_the_other_two() -> None:
    """Each with its own sizes, under one trace for each name."""
    measured_one, dry = confirmations.confirmed(), confirmations.dry()
    spec = figure_spec(measured_one, dry)
    drawn = {trace["name"]: trace for trace in spec["data"]}
    plain = figure_spec(measured_one)["layout"]["height"]

    assert spec["layout"]["yaxis"]["categoryarray"] == [
        *("estimated", "dry run", "measured")
    ]
    assert plain < spec["layout"]["height"]
    for place, parts in enumerate(
        (estimated(measured_one), measured(dry), measured(measured_one))
    ):
        for part in parts:
            size = max(part.size_bytes, 0) / GIB
            assert drawn[part.name]["x"][place] == pytest.approx(size, abs=0.001)
    for trace in drawn.values():
        assert trace["marker"]["pattern"]["shape"][1:] == ["", ""]
    # 60 MiB less are left on the device than in the dry run.
    cache = drawn["KV cache"]["x"]
    assert cache[1] - cache[2] == pytest.approx(60 / 1024, abs=0.002)


def test_a_dry_run_alone_is_named_as_one() -> None:
    """In the chart, the plain bars and for a screen reader."""
    dry = confirmations.dry()

    assert figure_spec(dry)["layout"]["yaxis"]["categoryarray"] == [
        *("estimated", "dry run")
    ]
    assert "<div class='pl-bar-name'>dry run</div>" in bars_html(dry)
    assert "Dry run: weights" in spoken(dry)
    assert "Measured" not in spoken(dry)


def test_each_start_that_measured_nothing_says_why() -> None:
    """Two empty bars, two texts, each at its own bar."""
    failed = confirmations.contradicted()
    told = replace(failed.measurement, is_dry=True)
    notes = figure_spec(failed, replace(failed, measurement=told))["layout"]
    places = [
        note["y"]
        for note in notes["annotations"]
        if "ended before it measured" in note["text"]
    ]

    assert places == ["dry run", "measured"]


def test_the_plain_bars_and_the_words_have_all_three() -> None:
    """In the order of the chart."""
    page = bars_html(confirmations.confirmed(), confirmations.dry())
    words = spoken(confirmations.confirmed(), confirmations.dry())

    assert page.count("<div class='pl-bar'>") == 3
    assert words.index("Estimated:") < words.index("Dry run:")
    assert words.index("Dry run:") < words.index("Measured:")


def test_the_table_has_a_column_for_the_dry_run() -> None:
    """A figure that only it has is there too, without a measured one."""
    table = compared(confirmations.confirmed(), confirmations.dry()).to_html()
    only_dry = compared(confirmations.contradicted(), confirmations.dry()).to_html()
    alone = compared(confirmations.confirmed()).to_html()

    assert "<td class='pl-number' data-label='Dry run'>15.00 GiB</td>" in table
    assert table.count("data-label='Dry run'") == table.count("data-label='Measured'")
    assert "<td class='pl-number' data-label='Measured'>-</td>" in only_dry
    assert "Dry run" not in alone
