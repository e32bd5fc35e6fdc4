"""In which order changes are offered."""

from __future__ import annotations

from collections.abc import Iterable

from planner.advice.result import AdviceItem
from planner.advice.situation import Situation


def ranked(situation: Situation, found: Iterable[AdviceItem]) -> tuple[AdviceItem, ...]:
    """Return changes in order.

    First those that serve (start, without a load), then those that start. Where the
    plan did not serve, what asks least of its user comes first; then requests and
    bytes gained decide. Other hardware comes last of those that do the same.
    """
    is_served = situation.is_served

    def key(item: AdviceItem) -> tuple[object, ...]:
        suffices = item.serves and not is_served
        asks = int(item.burden) if suffices else int(item.needs_hardware)
        return (
            not item.serves,
            not item.starts,
            asks,
            -item.gain_requests,
            -item.gain_bytes,
            -item.gain_tokens,
            item.title,
        )

    return tuple(sorted(found, key=key))
