"""Prices of GPUs: dated list prices, and the user's own in their place.

A list price is an assumption: it says what one provider asked for one GPU on one day.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field, replace
from functools import cache
from math import nan
from pathlib import Path
from types import MappingProxyType
from typing import Any

from planner.engine.devices import gpu_named
from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.given import named_in_errors
from planner.planning.calibrations.record import write_whole
from planner.surroundings import data_folder, is_in_browser, is_published
from planner.user_files import MOST_CONFIG_BYTES, read_file
from planner.values import frozen

OWN = "your own price"
MOST = 1e6
"""A higher price of one GPU for an hour is a slip of the keyboard."""
_LONGEST_CURRENCY = 8
_DATA = Path(__file__).resolve().parents[1] / "data"
_FILE = "prices.json"


@frozen
class Price:
    """Price of one GPU for an hour, and where it comes from."""

    per_hour: float
    source: str = OWN
    date: str = ""
    """Day on which the source named it, as YYYY-MM-DD; empty for one's own."""

    @property
    def is_own(self) -> bool:
        """Whether the user gave it; otherwise it is assumed."""
        return not self.date


@frozen
class PriceList:
    """Prices by the catalogue's names of GPUs, in one currency."""

    prices: Mapping[str, Price] = field(default_factory=dict)
    currency: str = ""
    rate: float | None = None
    """What one unit of the list's currency is in this one; None: no list prices."""

    def of(self, gpu: GPU) -> Price | None:
        """Return the price of a GPU; None without one."""
        return self.prices.get(gpu.name)

    def changed(self, name: str, per_hour: float | None) -> PriceList:
        """Return the list with a price replaced; None brings the list price back.

        Raises:
            PlannerError: for anything but a number from 0.
        """
        rest = {other: price for other, price in self.prices.items() if other != name}
        if per_hour is not None:
            rest |= {name: Price(per_hour=checked(name, per_hour))}
        elif name in list_prices().prices and self.rate is not None:
            rest |= {name: _exchanged(list_prices().prices[name], self.rate)}
        return replace(self, prices=MappingProxyType(rest))

    def exchanged(self, currency: str, rate: float) -> PriceList:
        """Return the list prices in another currency, the user's own as they are.

        Raises:
            PlannerError: for a currency that is no short word, or a rate that is no
                number above 0.
        """
        word, rate = checked_currency(currency, rate)
        times = rate / (self.rate or rate)
        prices = {n: _exchanged(price, times) for n, price in self.prices.items()}
        return PriceList(prices=MappingProxyType(prices), currency=word, rate=rate)

    @property
    def own(self) -> dict[str, float]:
        """The user's own prices."""
        return {
            name: price.per_hour for name, price in self.prices.items() if price.is_own
        }

    @property
    def dates(self) -> tuple[str, str] | None:
        """The oldest and the newest day of the list prices; None without any."""
        found = sorted(price.date for price in self.prices.values() if price.date)
        return (found[0], found[-1]) if found else None


@cache
def list_prices() -> PriceList:
    """Return the public list prices of `planner/data/prices.json`."""
    table: dict[str, Any] = json.loads((_DATA / _FILE).read_text(encoding="utf-8"))
    documents: dict[str, dict[str, str]] = table["documents"]
    return PriceList(
        prices=MappingProxyType(
            {
                name: Price(per_hour=price, **documents[document])
                for name, (price, document) in table["prices"].items()
            }
        ),
        currency=table["currency"],
        rate=1.0,
    )


def gpu_prices() -> PriceList:
    """Return the list prices, with the prices that the user saved in their place.

    In the currency that the user saved.

    Raises:
        PlannerError: for a file of prices that cannot be read.
    """
    prices, money = _saved()
    found = list_prices()
    if money is not None:
        found = found.exchanged(*money)
    for name, price in prices.items():
        found = found.changed(name, price)
    return found


def _exchanged(price: Price, rate: float) -> Price:
    """Return a list price in another currency; the user's own stays."""
    return price if price.is_own else replace(price, per_hour=price.per_hour * rate)


def price_list(
    given: PriceList | Mapping[str, float] | None, currency: str = ""
) -> PriceList:
    """Return the prices to use: those given by name, or `gpu_prices()` for None.

    Raises:
        PlannerError: for an invalid price.
    """
    if isinstance(given, PriceList):
        return given
    if given is None:
        return gpu_prices()
    prices = {
        name: Price(per_hour=price)
        for name, price in checked_prices(given, "prices").items()
    }
    return PriceList(prices=prices, currency=currency)


@named_in_errors
def save_price(name: str, per_hour: float | None) -> None:
    """Save the user's price of a GPU; None forgets it, so that the list price applies.

    Raises:
        PlannerError: for an invalid price, in a published app or a browser, which store
            nothing, or where the file cannot be written.
    """
    prices, money = _saved()
    rest = {other: one for other, one in prices.items() if other != name}
    if per_hour is not None:
        rest |= {name: checked(name, per_hour)}
    _save(rest, money)


@named_in_errors
def save_currency(currency: str, rate: float) -> None:
    """Save the user's currency, in which list prices are shown from then on.

    Args:
        currency: a short word, such as EUR.
        rate: what one US dollar is in it: the prices of the list are in dollars.

    Raises:
        PlannerError: as of `save_price`, and for an invalid currency or rate.
    """
    _save(_saved()[0], checked_currency(currency, rate))


def _save(prices: Mapping[str, float], money: tuple[str, float] | None) -> None:
    path = saved_prices_path()
    if path is None:
        raise PlannerError(
            "Prices cannot be saved here. Give them as prices={'H100': 2.5}."
        )
    content: dict[str, object] = {"prices": dict(sorted(prices.items()))}
    if money is not None:
        content |= {"currency": money[0], "rate": money[1]}
    try:
        write_whole(path, json.dumps(content, indent=1) + "\n")
    except OSError as error:
        raise PlannerError(
            f"{path} cannot be written: {error.strerror or error}. The price holds "
            "until you leave; PLANNER_DATA_DIR names another folder."
        ) from None


def saved_prices_path() -> Path | None:
    """Return the file of the user's prices; None where a server keeps none for users.

    It may not exist. A published app keeps nothing of its visitors, and a browser has
    no folder that lasts: there, the page keeps the prices.
    """
    folder = None if is_published() or is_in_browser() else data_folder()
    return None if folder is None else Path(folder) / _FILE


def _saved() -> tuple[dict[str, float], tuple[str, float] | None]:
    """Return the prices that the user saved, and the currency with its rate, if any.

    Raises:
        PlannerError: for a file that is not what `save_price` writes.
    """
    path = saved_prices_path()
    if path is None or not path.exists():
        return {}, None
    try:
        found = json.loads(read_file(path, MOST_CONFIG_BYTES))
        prices = {str(n): checked(n, price) for n, price in found["prices"].items()}
        has_money = "currency" in found
        money = (
            checked_currency(found["currency"], found["rate"]) if has_money else None
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PlannerError(
            f"{path} cannot be read as prices ({error}). Correct it, or remove it to "
            "use the list prices."
        ) from None
    return prices, money


def checked_currency(currency: str, rate: object) -> tuple[str, float]:
    """Return a currency and what one unit of the list's currency is in it.

    Raises:
        PlannerError: for a currency that is no short word, or a rate that is no number
            above 0.
    """
    name = str(currency).strip()
    value = checked("rate", rate, "currency")
    if not 0 < len(name) <= _LONGEST_CURRENCY or not name.isprintable() or not value:
        raise PlannerError(
            f"currency={currency!r} with rate={rate!r}: use a short word such as EUR, "
            f"and what one {list_prices().currency} is in it, such as 0.92."
        )
    return name, value


def checked_prices(given: Mapping[str, float], argument: str) -> dict[str, float]:
    """Check prices, and return them by the catalogue's names.

    Raises:
        PlannerError: for anything but numbers from 0.
    """
    found = {}
    for name, price in given.items():
        value = checked(name, price, argument)
        try:
            found[gpu_named(name).name] = value
        except PlannerError:
            found[name] = value  # a GPU that the user describes
    return found


def checked(name: str, price: object, argument: str = "prices") -> float:
    """Return a price of one GPU for an hour.

    Raises:
        PlannerError: for anything but a number from 0.
    """
    is_number = isinstance(price, int | float) and not isinstance(price, bool)
    value = float(price) if is_number else nan  # type: ignore[arg-type]
    if not 0 <= value <= MOST:
        raise PlannerError(
            f"{argument}[{name!r}]={price!r}: a number from 0 is needed, such as 2.5."
        )
    return value
