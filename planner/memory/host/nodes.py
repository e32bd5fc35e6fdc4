"""The nodes of a deployment, and the account of each node's CPU memory.

A node is the GPUs of one machine and the memory that their processes share. vLLM
numbers the ranks of an engine stage by stage, and the engines one after the other;
machines take them in that order. A feature that allocates CPU memory returns a
`HostLine`; `node_accounts` counts how often each line occurs on a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from planner.memory.account import Basis, HostLine, Per
from planner.units import format_size
from planner.values import frozen

GPUS_IN_A_NODE = 8
"""GPUs of a server; more GPUs are assumed to be in several servers."""
_MOST = 64
"""Nodes that are modelled one by one; a larger cluster repeats them."""


@frozen
class Node:
    """One machine."""

    number: int
    workers: tuple[int, ...]
    """Workers of each pipeline stage."""
    engines: int

    @property
    def gpus(self) -> int:
        """GPUs of the machine that vLLM uses."""
        return sum(self.workers)


def gpus_of_a_node(total: int, given: int | None, nnodes: object) -> int:
    """Return how many ranks share a machine: as given, otherwise at most eight."""
    if given:
        return min(given, total)
    if isinstance(nnodes, int) and nnodes > 0:
        return -(-total // nnodes)
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


@frozen
class NodeLine:
    """What all workers, engines or the node together allocate under one name."""

    name: str
    size_bytes: int
    """On the whole node."""
    basis: Basis
    why: str
    per: Per
    is_usual: bool


@frozen
class NodeAccount:
    """The CPU memory of one node, or of several that are alike."""

    nodes: tuple[int, ...]
    """Numbers of the nodes with this account, from 0."""
    gpus: int
    """GPUs of one such node."""
    engines: int
    """Engines on one such node; an engine runs where its first worker is."""
    lines: tuple[NodeLine, ...]
    capacity_bytes: int | None
    """Total memory of one node; None: not known."""

    @property
    def needed_bytes(self) -> int:
        """The sum of all lines."""
        return sum(line.size_bytes for line in self.lines)

    @property
    def certain_bytes(self) -> int:
        """The sum without assumed lines."""
        return sum(
            line.size_bytes for line in self.lines if line.basis is not Basis.ASSUMED
        )

    @property
    def left_bytes(self) -> int | None:
        """The node's unused memory; negative when too small."""
        if self.capacity_bytes is None:
            return None
        return self.capacity_bytes - self.needed_bytes

    @property
    def is_worth_showing(self) -> bool:
        """Whether a setting allocates CPU memory, or its size is known."""
        is_known = self.capacity_bytes is not None
        return is_known or any(not line.is_usual for line in self.lines)


def node_accounts(
    nodes: Sequence[Node],
    workers: Sequence[tuple[HostLine, ...]],
    others: Sequence[HostLine],
    capacity_bytes: int | None,
) -> tuple[NodeAccount, ...]:
    """Return the account of each node; nodes with equal accounts share one.

    Args:
        nodes: which workers and engines run where.
        workers: the lines of a worker of each pipeline stage.
        others: the lines of an engine or a node.
        capacity_bytes: of each node; None: not known.
    """
    found: dict[tuple[int, int, tuple[NodeLine, ...]], list[int]] = {}
    for node in nodes:
        lines = _lines(node, workers, others)
        found.setdefault((node.gpus, node.engines, lines), []).append(node.number)
    return tuple(
        NodeAccount(
            nodes=tuple(numbers),
            gpus=gpus,
            engines=engines,
            lines=lines,
            capacity_bytes=capacity_bytes,
        )
        for (gpus, engines, lines), numbers in found.items()
    )


def _lines(
    node: Node, workers: Sequence[tuple[HostLine, ...]], others: Sequence[HostLine]
) -> tuple[NodeLine, ...]:
    """Combine the lines of one name, in their order."""
    counted: dict[str, list[tuple[int, HostLine]]] = {}
    for count, lines in zip(node.workers, workers, strict=True):
        for line in lines:
            counted.setdefault(line.name, []).append((count, line))
    counts = {Per.ENGINE: node.engines, Per.NODE: 1}
    for line in others:
        counted.setdefault(line.name, []).append((counts[line.per], line))
    combined = (_combined(lines) for lines in counted.values())
    return tuple(line for line in combined if line.size_bytes)


def _combined(lines: list[tuple[int, HostLine]]) -> NodeLine:
    first = lines[0][1]
    merged: dict[tuple[int, str], int] = {}
    for count, line in lines:
        key = (line.size_bytes, line.why)
        merged[key] = merged.get(key, 0) + count
    parts = [
        _times(count, size, first.per) + why
        for (size, why), count in merged.items()
        if count and size
    ]
    return NodeLine(
        name=first.name,
        size_bytes=sum(count * line.size_bytes for count, line in lines),
        basis=first.basis,
        why="; ".join(parts),
        per=first.per,
        is_usual=first.is_usual,
    )


def _times(count: int, size_bytes: int, per: Per) -> str:
    if count == 1:
        return ""
    return f"{count} {per}s x {format_size(size_bytes)}, each "


def _before(place: int, tensor: int, stage: int, size: int) -> int:
    """Return how many workers of a stage come before a place in the order."""
    engines, rest = divmod(place, size)
    return engines * tensor + min(max(rest - stage * tensor, 0), tensor)
