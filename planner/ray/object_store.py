"""What rows between stages take of the nodes' object stores, and when stages wait.

Source: Ray 2.44.1 to 2.60.0 `data/context.py` DEFAULT_TARGET_MAX_BLOCK_SIZE and
DEFAULT_MAX_NUM_BLOCKS_IN_STREAMING_GEN_BUFFER, `data/_internal/execution/
resource_manager.py` DEFAULT_OBJECT_STORE_MEMORY_LIMIT_FRACTION,
`_private/ray_constants.py` DEFAULT_OBJECT_STORE_MEMORY_PROPORTION.
"""

from __future__ import annotations

from collections.abc import Iterable

from planner.ray.nodes import Node
from planner.ray.stages import Stage

BLOCK_BYTES = 128 * 2**20
"""A block of rows is cut at this size; one of text is far smaller."""
BLOCKS_OF_A_TASK = 2
"""Blocks that a running task keeps ready for the next stage."""
MOST_OF_A_NODE = 200 * 10**9


def in_flight_bytes(stages: Iterable[Stage]) -> int:
    """Return what the output of running tasks takes at most: every block full.

    >>> in_flight_bytes(())
    0
    """
    workers = sum(
        stage.workers_minimum
        if stage.workers_maximum is None
        else stage.workers_maximum
        for stage in stages
    )
    return workers * BLOCKS_OF_A_TASK * BLOCK_BYTES


def usable_bytes(nodes: Iterable[Node]) -> int:
    """Return what Ray Data uses of the nodes' object stores: half.

    Beyond it, stages wait for those behind them.
    """
    return int(sum(node.object_store_memory_bytes for node in nodes)) // 2


def usual_store_bytes(memory_bytes: int) -> int:
    """Return the object store that Ray makes on a node of so much free memory.

    >>> usual_store_bytes(100 * 10**9)
    30000000000
    """
    return min(memory_bytes * 3 // 10, MOST_OF_A_NODE)
