"""One process that stands for all ranks: process groups without peers.

A rank allocates what it allocates among its peers, but nothing is sent: collectives
leave tensors as they are, and gathered objects are this rank's own, repeated.
"""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from vllm.v1.executor.uniproc_executor import UniProcExecutor

_SUMS_ON_HOST = (
    "vllm.distributed.utils",
    "vllm.distributed.parallel_state",
    "vllm.config.parallel",
)
_FROM_EACH_STAGE = ("get_kv_cache_spec", "determine_available_memory")
_AFTER_SPECS = "set_kv_cache_layout"
"""What the engine calls between the two, since 0.31.

Source: vLLM 0.31.0 and 0.33.0 `v1/engine/core.py` _initialize_kv_caches.
"""


class StageIsDone(Exception):  # noqa: N818 - not an error
    """A stage before the last has profiled its run."""


class _ProfilesAlways(UniProcExecutor):
    """Profiles a run without a KV cache, too, where vLLM measures nothing."""

    has_no_cache = False

    def collective_rpc(self, method: object, *args: object, **kwargs: object) -> Any:
        """Call a method of the worker; graphs ask for the layout of the cache."""
        result = super().collective_rpc(method, *args, **kwargs)
        if method == "get_kv_cache_spec":
            self.has_no_cache = not result[0]
        last = _AFTER_SPECS if hasattr(self, _AFTER_SPECS) else "get_kv_cache_spec"
        if method == last and self.has_no_cache:
            super().collective_rpc("determine_available_memory")
        return result


def one_process_executor(
    config: Any,
    stage: int,
    folder: Path,
    *,
    is_last: bool,
) -> type[UniProcExecutor]:
    """Return an executor whose only worker is the first rank of a pipeline stage."""
    parallel = config.parallel_config
    _stand_for_all_ranks(config)
    world = parallel.world_size
    stages = parallel.pipeline_parallel_size
    in_stage = world // stages

    class OneProcess(_ProfilesAlways):
        def _distributed_args(self) -> tuple[str, int, int]:
            method, _rank, _local = super()._distributed_args()
            return method, stage * in_stage, 0

        def collective_rpc(
            self, method: object, *args: object, **kwargs: object
        ) -> Any:
            result = super().collective_rpc(method, *args, **kwargs)
            if kwargs.get("single_value") or not isinstance(result, list):
                return result
            if method not in _FROM_EACH_STAGE:
                return result * world
            _leave(folder, stage, str(method), result[0])
            if not is_last and method == "determine_available_memory":
                raise StageIsDone
            if not is_last:
                return result * world
            return _of_all_ranks(folder, str(method), stages, in_stage)

    return OneProcess


def _stand_for_all_ranks(config: Any) -> None:
    _separate_replicas(config)
    parallel = config.parallel_config
    if parallel.world_size * parallel.data_parallel_size > 1:
        _without_peers()


def _separate_replicas(config: Any) -> None:
    """Let replicas of a model without experts know nothing of each other.

    Source: vLLM 0.33.0 v1/engine/core.py, EngineCoreProc.run_engine_core.
    """
    parallel = config.parallel_config
    if parallel.data_parallel_size == 1 or config.model_config.is_moe:
        return
    if hasattr(parallel, "reconfigure_for_independent_dp_rank"):
        parallel.reconfigure_for_independent_dp_rank()
    else:
        parallel.data_parallel_size = parallel.data_parallel_size_local = 1
        parallel.data_parallel_rank = 0


def _leave(folder: Path, stage: int, method: str, result: object) -> None:
    path = folder / f"stage-{stage}-{method}"
    path.write_bytes(pickle.dumps(result))


def _of_all_ranks(folder: Path, method: str, stages: int, in_stage: int) -> list[Any]:
    each = [_left(folder, number, method) for number in range(stages)]
    return [one for one in each for _rank in range(in_stage)]


def _left(folder: Path, stage: int, method: str) -> Any:
    path = folder / f"stage-{stage}-{method}"
    return pickle.loads(path.read_bytes())  # written by this program


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
    found: list[torch.Tensor], one: torch.Tensor, *_args: object, **_kwargs: object
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
    for name in _SUMS_ON_HOST:
        module: Any = importlib.import_module(name)
        if hasattr(module, "cpu_all_reduce_"):
            module.cpu_all_reduce_ = lambda tensor, *_args, **_kwargs: tensor
    _replicas_agree()


def _replicas_agree() -> None:
    """Let every data-parallel rank run what this one runs.

    Each rank sets its own column of a table, and the sum over all ranks fills it.
    Source: vLLM 0.33.0 v1/worker/dp_utils.py.
    """
    import vllm.v1.worker.dp_utils as replicas

    if hasattr(replicas, "_skip_dp_coordination"):
        # The newer model runner has a mode that does just this.
        importlib.import_module("vllm.v1.worker.gpu.dp_utils")
        replicas._skip_dp_coordination.set(True)
    if hasattr(replicas, "_run_ar"):
        replicas._run_ar = _own_columns(replicas._run_ar)


def _own_columns(run: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    replicas: Any = importlib.import_module("vllm.v1.worker.dp_utils")

    def table(*args: Any, **kwargs: Any) -> torch.Tensor:
        group = replicas._get_device_and_group

        def on_host(*_args: object) -> tuple[str, Any]:
            return "cpu", replicas.get_dp_group().cpu_group

        replicas._get_device_and_group = on_host  # the device's would read as zeros
        try:
            found = run(*args, **kwargs)
        finally:
            replicas._get_device_and_group = group
        rank = replicas.get_dp_group().rank_in_group
        return found[:, rank : rank + 1].expand_as(found).clone()

    return table
