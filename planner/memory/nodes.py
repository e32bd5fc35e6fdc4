"""Which workers and engines live on which machine.

vLLM numbers the ranks of an engine stage by stage, and the engines one after the other;
machines take them in that order.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

GPUS_IN_A_NODE = 8
"""What servers hold; more GPUs are taken to stand in several of them."""
_MOST = 64
"""Nodes that are told apart; a larger cluster repeats them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine."""

    number: int
    workers: tuple[int, ...]
    """Of each pipeline stage."""
    engines: int

    @property
    def gpus(self) -> int:
        """GPUs of the machine that vLLM uses."""
        return sum(self.workers)


def gpus_of_a_node(total: int, given: int | None, nnodes: object) -> int:
    """Return how many ranks share a machine: as given, else at most eight."""
    if given:
        return min(given, total)
    if isinstance(nnodes, int) and nnodes > 0:
        return ceil(total / nnodes)
    return min(total, GPUS_IN_A_NODE)


def nodes(tensor: int, stages: int, engines: int, gpus: int) -> tuple[Node, ...]:
    """Return the machines of `engines` engines with `gpus` GPUs on each of them.

    >>> [node.workers for node in nodes(tensor=2, stages=2, engines=2, gpus=4)]
    [(2, 2), (2, 2)]
    >>> [node.engines for node in nodes(tensor=4, stages=1, engines=2, gpus=2)]
    [1, 0, 1, 0]
    """
    size = tensor * stages
    total = size * engines
    count = min(ceil(total / gpus), _MOST)
    ends = [min((number + 1) * gpus, total) for number in range(count)]
    begins = [number * gpus for number in range(count)]
    return tuple(
        Node(
            number=number,
            workers=tuple(
                _before(end, tensor, stage, size) - _before(begin, tensor, stage, size)
                for stage in range(stages)
            ),
            engines=ceil(end / size) - ceil(begin / size),
        )
        for number, (begin, end) in enumerate(zip(begins, ends, strict=True))
    )


def _before(place: int, tensor: int, stage: int, size: int) -> int:
    """Return how many workers of a stage stand before a place in the order."""
    engines, rest = divmod(place, size)
    return engines * tensor + min(max(rest - stage * tensor, 0), tensor)
