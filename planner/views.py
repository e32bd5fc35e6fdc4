"""How rooms above show the values of those below; see `planner.registries`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from planner.registries import provided
from planner.values import frozen

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

_Value = TypeVar("_Value")


def _lacks(*_given: object) -> NoReturn:
    raise TypeError("This value is not shown so.")


@frozen
class Views(Generic[_Value]):
    """How a value is shown; what it lacks is left out."""

    text: Callable[[_Value], str] = _lacks
    html: Callable[[_Value], str] = _lacks
    """With its style sheets, without a script: what a notebook shows."""
    page: Callable[[_Value], str] = _lacks
    """A page of its own, which loads nothing."""
    as_dict: Callable[[_Value], dict[str, Any]] = _lacks
    frame: Callable[[_Value], DataFrame] = _lacks

    def mimebundle(self, value: _Value) -> dict[str, str]:
        """Return what a notebook shows.

        The figure is left to `figure()`: a notebook shows only the richest form in the
        bundle, and the chart alone would hide the verdict and the table.
        """
        return bundle(self.text(value), self.html(value))


@frozen
class Charts(Generic[_Value]):
    """How a value is drawn, apart from `Views`: a text needs none of it."""

    figure: Callable[[_Value], Figure] = _lacks
    heat_map: Callable[[_Value, str], Figure] = _lacks
    """Of one of its figures, by name."""


def bundle(text: str, html: str) -> dict[str, str]:
    """Return what a notebook shows of a value, by MIME type.

    As plain strings: marimo 0.25 shows nothing of a class derived from them.
    """
    return {"text/plain": text, "text/html": str(html)}


def views_of(value: _Value) -> Views[_Value]:
    """Return how a value is shown."""
    return provided(Views, type(value).__name__)


def charts_of(value: _Value) -> Charts[_Value]:
    """Return how a value is drawn."""
    return provided(Charts, type(value).__name__)


class Viewed:
    """A result that is shown as text in a terminal, and as a page in a notebook."""

    __slots__ = ()

    def __str__(self) -> str:
        """Return it as text for a terminal."""
        return views_of(self).text(self)

    def _repr_mimebundle_(self, **_options: object) -> dict[str, str]:
        return views_of(self).mimebundle(self)


class Framed(Viewed):
    """A result that has a table, too."""

    __slots__ = ()

    def to_frame(self) -> DataFrame:
        """Return its table as a pandas frame.

        Raises:
            PlannerError: when pandas is not installed.
        """
        return views_of(self).frame(self)


class Charted:
    """A result that is drawn."""

    __slots__ = ()

    def figure(self) -> Figure:
        """Return it as a plotly figure.

        Raises:
            PlannerError: when plotly is not installed.
        """
        return charts_of(self).figure(self)
