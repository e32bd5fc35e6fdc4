"""Searches on the Hub while somebody types, and a way around a gated model.

A search is one request for the names and one for the quantised releases of each of the
first models, at the same time. Answers are remembered for a while. In a published app
each request is counted and bounded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache, partial

from planner.errors import ModelUnavailable
from planner.models import catalogue
from planner.models.sources import allowance, hub_bounds, hub_models
from planner.models.sources.concurrently import concurrently
from planner.models.sources.hub_answers import is_set
from planner.models.sources.hub_models import HubGroup, HubModel, Query
from planner.models.sources.periods import period
from planner.surroundings import is_in_browser, is_published

_NAME = re.compile(r"[a-z0-9][a-z0-9_./ -]{2,95}")
"""Part of a name: fewer than three characters are not worth a request, and the path of
a folder is nobody's business."""

_SECONDS = 2.0
_MOST_FOUND = 32
_MOST_GROUPS = 8
_MOST_RELEASES = 24
_FAMILIES, _PUBLISHED_FAMILIES = 3, 1
"""Models whose releases are requested; requests of a published app are counted."""
_REMEMBERED = 256

_MOST_INSTEAD = 3


def can_search() -> bool:
    """Whether this process may search the Hub at all; it may still be unreachable."""
    if is_in_browser() or is_set("HF_HUB_OFFLINE"):
        return False
    if is_published():
        return allowance.per_minute() > 0 and hub_bounds.can_bound()
    return True


def search(
    text: str, *, is_wanted: Callable[[], bool] = lambda: True
) -> tuple[HubGroup, ...]:
    """Return models on the Hub whose names hold `text`, most downloaded first.

    Below each are its quantised releases. Empty for a text that cannot be part of a
    name, and where no requests are to be made.

    Args:
        text: a part of a name.
        is_wanted: called between requests; False ends the search.

    Raises:
        ModelUnavailable: when the Hub does not answer, or had too many requests.
    """
    typed = " ".join(text.lower().split())
    if not _NAME.fullmatch(typed) or not can_search():
        return ()
    found = _found(hub_models.by_name(typed, _MOST_FOUND))
    groups = hub_models.grouped(found)[:_MOST_GROUPS]
    most = _PUBLISHED_FAMILIES if is_published() else _FAMILIES
    bases = [group.name for group in groups if _may_have_releases(group)][:most]
    if bases and is_wanted():
        kept = frozenset(group.name for group in groups)
        released = _releases(bases)
        shown = (model for model in found if model.group in kept)
        groups = hub_models.grouped((*shown, *released))
    return groups


def _may_have_releases(group: HubGroup) -> bool:
    return group.model is None or not group.model.quantization


def _releases(bases: Iterable[str]) -> tuple[HubModel, ...]:
    """Return the releases of models; those that cannot be read just now are not it."""

    def of_one(name: str) -> tuple[HubModel, ...]:
        try:
            found = _found(hub_models.quantised_of(name, _MOST_RELEASES))
        except ModelUnavailable:
            return ()
        return tuple(model for model in found if model.group == name)

    made = concurrently([partial(of_one, name) for name in bases])
    return tuple(model for found in made for model in found)


def ungated(gated: HubModel) -> tuple[str, ...]:
    """Return models of the same shapes that everybody can read, bundled ones first.

    Copies and fine-tunes with as many parameters are meant; one request at most.
    """
    names = dict.fromkeys(_bundled_like(gated))
    if len(names) < _MOST_INSTEAD and gated.num_parameters and can_search():
        with suppress(ModelUnavailable):
            query = hub_models.ungated_of(gated.name, _MOST_RELEASES)
            names |= dict.fromkeys(_same_shapes(gated, _found(query)))
    return tuple(names)[:_MOST_INSTEAD]


def _bundled_like(gated: HubModel) -> Iterator[str]:
    """Yield bundled models with the config.json that a gated one would have."""
    own = catalogue.find(gated.name)
    if own is not None:  # the Hub was asked because of a revision
        yield own.name
    part, base = _model_part(gated.name), gated.base_model
    for entry in catalogue.popular():
        sizes = {entry.num_parameters, gated.num_parameters}
        is_copy = _model_part(entry.name) == part
        is_related = base and base in (entry.name, entry.shape_of)
        # Of a copy under the same name the number of parameters may be unknown.
        is_as_large = len(sizes) == 1 and None not in sizes
        if (is_as_large and (is_copy or is_related)) or (is_copy and None in sizes):
            yield entry.name


def _model_part(name: str) -> str:
    return name.rpartition("/")[2].lower()


def _same_shapes(gated: HubModel, found: Iterable[HubModel]) -> Iterator[str]:
    for model in found:
        is_as_large = model.num_parameters == gated.num_parameters
        if is_as_large and not model.is_gated and not model.quantization:
            yield model.name


def _found(query: Query) -> tuple[HubModel, ...]:
    where = os.environ.get("HF_ENDPOINT", "")
    return _remembered(query, where, is_published(), period())


@lru_cache(maxsize=_REMEMBERED)
def _remembered(
    query: Query,
    where: str,  # noqa: ARG001 - part of the key, as each Hub has its own models
    published: bool,
    period: int,  # noqa: ARG001 - part of the key, so that answers expire
) -> tuple[HubModel, ...]:
    from planner.models.sources import hub_lists  # noqa: PLC0415 - slow

    ask = hub_lists.published_models if published else hub_lists.models
    return hub_models.read(ask(query, timeout_seconds=_SECONDS))
