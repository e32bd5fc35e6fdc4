"""Prices of GPUs: dated list prices, and what the user types in their place."""

import re
from datetime import date

import pytest

from planner import PlannerError, solve
from planner.engine.gpu import GPU, catalogue
from planner.solve.price_list import (
    Price,
    PriceList,
    list_prices,
    price_list,
    saved_prices_path,
)

H100 = GPU.named("H100")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder for user data that is empty at first."""
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path))
    return tmp_path


def test_each_list_price_has_a_source_and_a_day():
    """None is a bare number, and each is of a GPU of the catalogue."""
    names = {gpu.name for gpu in catalogue()}
    for name, price in list_prices().prices.items():
        assert name in names
        assert 0 < price.per_hour < 100
        assert re.search(r"on demand", price.source)
        assert date(2025, 1, 1) < date.fromisoformat(price.date) < date(2027, 1, 1)
        assert not price.is_own
    oldest, newest = list_prices().dates
    assert oldest <= newest


def test_a_saved_price_takes_the_place_of_the_list_price():
    """It stays until it is forgotten."""
    listed = list_prices().of(H100)

    solve.save_price("H100", 2.25)
    assert Price(per_hour=2.25) == solve.gpu_prices().of(H100)
    assert solve.gpu_prices().of(H100).is_own
    assert {"H100": 2.25} == solve.gpu_prices().own

    solve.save_price("H100", None)
    assert listed == solve.gpu_prices().of(H100)


def test_a_published_app_neither_reads_nor_writes_prices(monkeypatch):
    """Its visitors are strangers to each other and to the machine."""
    solve.save_price("H100", 2.25)
    monkeypatch.setenv("PLANNER_PUBLISHED", "1")

    assert saved_prices_path() is None
    assert list_prices().of(H100) == solve.gpu_prices().of(H100)
    with pytest.raises(PlannerError, match="cannot be saved here"):
        solve.save_price("H100", 1.0)


def test_a_file_that_is_no_list_of_prices_is_refused_by_name(folder):
    """The message names the file, so that it can be corrected."""
    (folder / "prices.json").write_text('{"prices": {"H100": "cheap"}}')

    with pytest.raises(PlannerError, match=r"prices\.json cannot be read as prices"):
        solve.gpu_prices()


@pytest.mark.parametrize("price", [-1, float("nan"), float("inf"), "2", True, 2e6])
def test_a_price_is_a_number_from_0(price):
    """Anything else is refused, and nothing is saved."""
    with pytest.raises(PlannerError, match="a number from 0 is needed"):
        solve.save_price("H100", price)
    with pytest.raises(PlannerError, match="a number from 0 is needed"):
        price_list({"H100": price})
    assert not saved_prices_path().exists()


def test_given_prices_are_used_alone():
    """Names are the catalogue's, however they are written; no list price is added."""
    given = price_list({"h100": 2.5}, "EUR")

    assert 2.5 == given.of(H100).per_hour
    assert given.of(GPU.named("H200")) is None
    assert ("EUR", None) == (given.currency, given.dates)


def test_nothing_is_made_up_for_a_gpu_without_a_price():
    """Forgetting a price in a list of one's own leaves none."""
    own = PriceList(currency="EUR").changed("H100", 2.0)

    assert 2.0 == own.of(H100).per_hour
    assert own.changed("H100", None).of(H100) is None
    assert list_prices().of(GPU.named("Thor")) is None


def test_a_saved_currency_turns_list_prices_and_no_other():
    """A dollar in euros at a rate of the user's: nothing here knows today's."""
    listed = list_prices().of(H100).per_hour
    solve.save_currency("EUR", 0.5)
    solve.save_price("H200", 2.0)
    found = solve.gpu_prices()

    assert ("EUR", listed / 2) == (found.currency, found.of(H100).per_hour)
    assert 2.0 == found.of(GPU.named("H200")).per_hour
    assert found.changed("H100", 1.0).changed("H100", None) == found
    for word, rate in (("", 1), ("E" * 9, 1), ("EUR", 0), ("EUR", "x")):
        with pytest.raises(PlannerError):
            solve.save_currency(word, rate)
