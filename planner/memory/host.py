"""The account of a node's CPU memory: what each of its processes keeps there.

A node is the GPUs of one machine and the memory that their processes share. A feature
that keeps something on the host says so with a `HostLine`; `node_accounts` counts how
often each is kept on a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from planner.memory.nodes import Node
from planner.result import Basis
from planner.units import format_size


class Per(StrEnum):
    """How often a line is kept."""

    WORKER = "worker"  # by the process of each GPU
    ENGINE = "engine"  # by each engine: once per data-parallel rank
    NODE = "node"  # once per machine


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLine:
    """Something that one worker, engine or node keeps in CPU memory."""

    name: str
    """As shown in tables and legends."""
    size_bytes: int
    """Of one worker, engine or node."""
    basis: Basis
    why: str
    """The arithmetic with this plan's numbers."""
    per: Per = Per.WORKER
    is_usual: bool = False
    """Whether every start keeps it: no reason to speak of CPU memory at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    """What all workers, engines or the node together keep under one name."""

    name: str
    size_bytes: int
    """On the whole node."""
    basis: Basis
    why: str
    per: Per
    is_usual: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAccount:
    """The CPU memory of one node, or of several that are alike."""

    nodes: tuple[int, ...]
    """Numbers of the nodes that it stands for, from 0."""
    gpus: int
    """On one of them."""
    engines: int
    """That live on one of them; an engine lives where its first worker is."""
    lines: tuple[NodeLine, ...]
    capacity_bytes: int | None
    """Whole memory of one node; None: not known."""

    @property
    def needed_bytes(self) -> int:
        """What all lines add up to."""
        return sum(line.size_bytes for line in self.lines)

    @property
    def certain_bytes(self) -> int:
        """The same without what is assumed."""
        return sum(
            line.size_bytes for line in self.lines if line.basis is not Basis.ASSUMED
        )

    @property
    def left_bytes(self) -> int | None:
        """What is left of the node's memory; negative when short."""
        if self.capacity_bytes is None:
            return None
        return self.capacity_bytes - self.needed_bytes

    @property
    def is_worth_showing(self) -> bool:
        """Whether a setting keeps something there, or the memory is known."""
        is_known = self.capacity_bytes is not None
        return is_known or any(not line.is_usual for line in self.lines)


def node_accounts(
    nodes: Sequence[Node],
    workers: Sequence[tuple[HostLine, ...]],
    others: Sequence[HostLine],
    capacity_bytes: int | None,
) -> tuple[NodeAccount, ...]:
    """Return the account of each node; nodes with the same one share it.

    Args:
        nodes: which workers and engines live where.
        workers: what a worker of each pipeline stage keeps.
        others: what an engine or a node keeps.
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
    """Put together what is kept under one name, in the order of the lines."""
    counted: dict[str, list[tuple[int, HostLine]]] = {}
    for count, lines in zip(node.workers, workers, strict=True):
        for line in lines:
            counted.setdefault(line.name, []).append((count, line))
    counts = {Per.ENGINE: node.engines, Per.NODE: 1}
    for line in others:
        counted.setdefault(line.name, []).append((counts[line.per], line))
    together = (_together(several) for several in counted.values())
    return tuple(line for line in together if line.size_bytes)


def _together(several: list[tuple[int, HostLine]]) -> NodeLine:
    first = several[0][1]
    merged: dict[tuple[int, str], int] = {}
    for count, line in several:
        key = (line.size_bytes, line.why)
        merged[key] = merged.get(key, 0) + count
    parts = [
        _times(count, size, first.per) + why
        for (size, why), count in merged.items()
        if count and size
    ]
    return NodeLine(
        name=first.name,
        size_bytes=sum(count * line.size_bytes for count, line in several),
        basis=first.basis,
        why="; ".join(parts),
        per=first.per,
        is_usual=first.is_usual,
    )


def _times(count: int, size_bytes: int, per: Per) -> str:
    if count == 1:
        return ""
    return f"{count} {per}s x {format_size(size_bytes)}, each "
