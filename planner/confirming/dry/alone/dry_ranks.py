"""One process that stands for all ranks: process groups without peers.

A rank allocates what it allocates among its peers, but nothing is sent: collectives
leave tensors as they are, and gathered objects are this rank's own, repeated.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from vllm.v1.executor.uniproc_executor import UniProcExecutor

_FROM_EACH_STAGE = ("get_kv_cache_spec", "determine_available_memory")


class StageIsDone(Exception):  # noqa: N818 - it is no error
    """A stage before the last has profiled its run."""


def one_process_executor(
    config: Any,
    stage: int,
    folder: Path,
    *,
    is_last: bool,
) -> type[UniProcExecutor]:
    """Return an executor whose only worker is the first rank of a pipeline stage."""
    parallel = config.parallel_config
    world = parallel.world_size
    stages = parallel.pipeline_parallel_size
    in_stage = world // stages
    if world * parallel.data_parallel_size > 1:
        _without_peers()

    class OneProcess(UniProcExecutor):
        def _distributed_args(self) -> tuple[str, int, int]:
            method, _rank, _local = super()._distributed_args()
            return method, stage * in_stage, 0

        def collective_rpc(
            self,
            method: Any,
            *args: Any,
            **kwargs: Any,
        ) -> Any:
            result = super().collective_rpc(method, *args, **kwargs)
            if kwargs.get("single_value") or not isinstance(result, list):
                return result
            if method not in _FROM_EACH_STAGE:
                return result * world
            _leave(folder, stage, method, result[0])
            if not is_last and method == "determine_available_memory":
                raise StageIsDone
            if not is_last:
                return result * world
            each = [_left(folder, number, method) for number in range(stages)]
            return [one for one in each for _rank in range(in_stage)]

    return OneProcess


def _leave(folder: Path, stage: int, method: str, result: object) -> None:
    path = folder / f"stage-{stage}-{method}"
    path.write_bytes(pickle.dumps(result))


def _left(folder: Path, stage: int, method: str) -> Any:
    path = folder / f"stage-{stage}-{method}"
    return pickle.loads(path.read_bytes())


def _without_peers() -> None:
    """Replace process groups and what is exchanged through them."""
    from torch.testing._internal.distributed.fake_pg import (
        FakeStore,
    )

    begin, subgroup = dist.init_process_group, dist.new_group

    def init_process_group(*_args: Any, **kwargs: Any) -> None:
        begin(
            backend="fake",
            rank=kwargs["rank"],
            world_size=kwargs["world_size"],
            store=FakeStore(),
        )

    def new_group(ranks: Any = None, **_kwargs: Any) -> Any:
        return subgroup(ranks, backend="fake")

    dist.init_process_group = init_process_group
    dist.new_group = new_group
    dist.all_gather_object = _gather_objects
    dist.broadcast_object_list = lambda *_args, **_kwargs: None
    dist.all_gather = _gather
    dist.barrier = lambda *_args, **_kwargs: None
    dist.monitored_barrier = lambda *_args, **_kwargs: None
    _vllm_without_peers()


def _gather_objects(found: list[Any], one: Any, *_args: Any, **_kwargs: Any) -> None:
    found[:] = [one] * len(found)


def _gather(
    found: list[torch.Tensor], one: torch.Tensor, *_args: Any, **_kw: Any
) -> None:
    if one.device.type == "cpu":
        for each in found:
            each.copy_(one)


def _vllm_without_peers() -> None:
    import vllm.distributed.parallel_state as state
    from vllm.distributed.device_communicators import (
        custom_all_reduce,
        shm_broadcast,
    )

    def on_one_node(group: Any, source_rank: int = 0) -> list[bool]:  # noqa: ARG001
        return [True] * dist.get_world_size(group)

    state.in_the_same_node_as = on_one_node
    if hasattr(custom_all_reduce, "in_the_same_node_as"):
        custom_all_reduce.in_the_same_node_as = on_one_node
    if hasattr(custom_all_reduce, "_can_p2p"):
        custom_all_reduce._can_p2p = lambda *_args: True
    shm_broadcast.MessageQueue.create_from_process_group = staticmethod(
        lambda *_args, **_kwargs: None
    )
