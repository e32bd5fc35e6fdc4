"""How the forecast of speed is fitted: by sources, and its ranges by those left out."""

import json
from dataclasses import replace
from math import exp, log
from statistics import mean

import pytest

from planner.solve.speed.form import figures_of, times_of
from tools import fit_speed
from tools.fit_speed import (
    DATA,
    INSIDE,
    MEASURED,
    PARAMETERS,
    REGIMES,
    WEIGHTS,
    errors,
    errors_left_out,
    fitted,
    near,
    own_ranges,
    publisher,
    quantile,
    ranges,
    read,
)
from tools.speed_card import classes_of


@pytest.fixture(scope="module")
def samples():
    """All measurements that can be planned."""
    return list(read(MEASURED))


def test_a_source_is_who_published_it() -> None:
    """All files of a repository's owner are one source: one machine, one way."""
    addresses = (
        "https://github.com/a/b/tree/main/x",
        "https://github.com/a/c#y",
        "https://forums.developer.nvidia.com/t/6x-spark-setup/354399/18",
    )

    assert ["a", "a", "forums.developer.nvidia.com"] == list(map(publisher, addresses))


def test_the_data_file_is_of_these_measurements(samples) -> None:
    """As many, of as many sources, near as many kinds of starts."""
    table = json.loads(DATA.read_text(encoding="utf-8"))

    assert table["measurements"] == len(samples)
    assert table["sources"] == sorted({one.source for one in samples})
    assert table["near"] == near(samples)
    assert [one.name for one in PARAMETERS] == [
        one["name"] for one in table["parameters"]
    ]


def test_a_fit_finds_what_made_the_measurements(samples) -> None:
    """Most of the way from what is expected to the parameters of made times.

    What is expected holds the parameters back a little, more where few are measured.
    """
    expected = {one.name: one.expected for one in PARAMETERS}
    made_with = {name: 1.15 * value for name, value in expected.items()}
    made = [
        replace(one, measured=figures_of(times_of(one.point, made_with)))
        for one in samples[::20]
    ]
    found = fitted(made)
    before, after = (
        mean(abs(errors(one, values)["next_token"]) for one in made)
        for values in (expected, found)
    )

    assert after < before / 2


def test_a_source_is_left_out_of_the_fit_that_its_errors_are_of(samples) -> None:
    """Measurements of one source twice as slow are no better explained by the rest."""
    some = samples[::20]
    source = some[0].source
    slow = [
        replace(one, measured={name: 2 * v for name, v in one.measured.items()})
        if one.source == source
        else one
        for one in some
    ]
    before = {id(one.point): error for one, error in errors_left_out(some)}

    for sample, error in errors_left_out(slow):
        if sample.source == source:
            for name, value in error.items():
                assert value == pytest.approx(
                    before[id(sample.point)][name] + log(2), abs=1e-9
                )


def test_four_of_five_are_within_a_quantile_and_each_source_counts_less(
    samples,
) -> None:
    """Nine measurements of one source count as three of another."""
    one, other = samples[0], replace(samples[0], source="other")
    alike = [(one, float(number)) for number in range(1, 10)]

    assert 0.8 == INSIDE
    assert 8 == quantile(alike)
    # 9 / sqrt(9) + 1 = 4, of which four fifths are 3.2: beyond all nine.
    assert 100 == quantile([*alike, (other, 100.0)])


def test_ranges_are_of_regimes_and_of_all(samples) -> None:
    """Half of each, in logarithms."""
    by_regime = {one.regime: one for one in samples}
    sizes = dict(zip(REGIMES, (0.1, 0.2, 0.4), strict=True))
    left_out = [
        (by_regime[regime], dict.fromkeys(WEIGHTS, size))
        for regime, size in sizes.items()
    ]
    found = ranges(left_out)

    assert round(exp((0.1 + 0.4) / 2), 3) == found["one request"]["total"]
    assert round(exp(0.4), 3) == found["saturated"]["total"]


def test_own_ranges_are_of_pairs_of_the_same_start(samples) -> None:
    """What one other measurement leaves: 0.3 - 0.1, in both directions."""
    one, same = samples[0], replace(samples[0])
    other = replace(samples[0], start="another")
    pairs = [
        (sample, dict.fromkeys(WEIGHTS, error))
        for sample, error in ((one, 0.1), (same, 0.3), (other, 9.0))
    ]

    assert round(exp(0.2), 3) == own_ranges(pairs)["next_token"]


def test_every_measurement_is_in_a_row_of_the_report_card(samples) -> None:
    """Of its regime, memory, format and number of GPUs."""
    page = fit_speed.PAGE.read_text(encoding="utf-8")

    for sample in samples:
        for title in classes_of(sample):
            assert f"| {title} |" in page


@pytest.mark.nightly
def test_fitting_again_gives_the_same_figures(samples) -> None:
    """`make speed` changes nothing but the day."""
    table = json.loads(DATA.read_text(encoding="utf-8"))
    values = fitted(samples)
    left_out = errors_left_out(samples)

    for one in table["parameters"]:
        assert one["value"] == float(f"{values[one['name']]:.4g}")
    assert table["ranges"] == ranges(left_out)
    assert table["own_ranges"] == own_ranges(left_out)
