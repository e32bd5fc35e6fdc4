"""A dry run as HTML, and how it differs from a measurement of the same plan."""

from dataclasses import replace

from planner.confirming.confirmation import Confirmed
from planner.show.confirmation_text import facts
from planner.show.dry_run import (
    answer,
    apart,
    apart_part,
    ranks,
    sheet,
)
from planner.show.sheet import html_of
from planner.units import GIB, MIB
from tests import confirmations


def changed(confirmation, **figures):
    """The same with other figures of its worker."""
    worker = replace(confirmation.measurement.workers[0], **figures)
    return replace(
        confirmation, measurement=replace(confirmation.measurement, workers=(worker,))
    )


def test_the_headline_says_whether_it_starts() -> None:
    """As the verdict does, beside vLLM's error."""
    run = confirmations.dry_run()
    told = replace(run.measurement, is_started=False, error="no <room>")
    refused = replace(run, measurement=told)
    stopped = replace(run, measurement=replace(run.measurement, is_started=None))

    assert [answer(one).headline for one in (run, refused, stopped)] == [
        *("Starts", "Does not start", "Not decided")
    ]
    assert "no &lt;room&gt;" in answer(refused).to_html()
    assert "vLLM said" not in answer(run).to_html()


def test_ranks_are_a_table_with_one_more_for_a_cold_cache() -> None:
    """Nothing where vLLM did not come so far."""
    run = confirmations.dry_run()
    both = html_of(ranks(replace(run, cold=run.measurement)))
    none = html_of(
        ranks(replace(run, measurement=replace(run.measurement, workers=())))
    )

    assert html_of(ranks(run)).count("<table") == 1
    assert "15.00 GiB" in html_of(ranks(run))
    assert both.count("<table") == 2
    assert "With a cold compile cache" in both
    assert none == ""


def test_a_line_that_differs_says_by_how_much_and_why() -> None:
    """Memory of the driver is only assumed; 40 of 100 MiB were measured."""
    (said,) = apart(confirmations.dry(), confirmations.confirmed())

    assert said == (
        "persistent buffers + non-torch: 0.06 GiB more on the device than in the dry "
        "run, which only assumes the driver's memory."
    )


def test_what_a_log_would_round_away_does_not_differ() -> None:
    """Less than 0.01 GiB, and the KV cache, which is what the others leave."""
    plan = confirmations.dry().plan
    told = confirmations.dry_measurement(plan, 95 * MIB)
    near = confirmations.of(plan, told, Confirmed.CONFIRMED)

    assert list(apart(near, confirmations.confirmed())) == []
    assert (
        "the same to 0.01 GiB" in apart_part(near, confirmations.confirmed()).to_html()
    )


def test_a_peak_may_differ_by_the_compile_cache() -> None:
    """The one that compiled is named, if only one did."""
    confirmed = confirmations.confirmed()
    peak = confirmed.measurement.workers[0].peak_activation_bytes
    lower = changed(confirmations.dry(), peak_activation_bytes=peak - GIB)
    (said,) = (one for one in apart(lower, confirmed) if one.startswith("peak"))
    both = replace(
        lower, measurement=replace(lower.measurement, is_compile_cache_cold=True)
    )
    (same,) = (one for one in apart(both, confirmed) if one.startswith("peak"))

    assert said == (
        "peak activation: 1.00 GiB more on the device than in the dry run; the other "
        "start had a cold compile cache."
    )
    assert same.endswith("than in the dry run.")


def test_a_start_without_figures_is_not_compared() -> None:
    """There is nothing to agree on."""
    assert apart_part(confirmations.dry(), confirmations.contradicted()) is None


def test_the_device_of_a_dry_run_is_one_that_it_stands_for() -> None:
    """No GPU was there."""
    assert "Stands for" in dict(facts(confirmations.dry()))
    assert "Device" in dict(facts(confirmations.confirmed()))


def test_the_whole_page_has_verdict_ranks_and_both_bars() -> None:
    """Or says why there is no estimate; a length that is unknown is left out."""
    planned = sheet(confirmations.dry_run()).to_html()
    unplanned = sheet(confirmations.unplanned_run()).to_html()

    assert planned.count("class='pl-bar'") == 2
    assert "0 tokens" not in planned
    assert "The architecture NewForCausalLM is not modelled." in unplanned
    assert "class='pl-bar'" not in unplanned
