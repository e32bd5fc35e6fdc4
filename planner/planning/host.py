"""The CPU memory of each machine of a start, and whether it is enough.

What each feature keeps there is computed in its own module under `planner/memory/`;
this module collects the lines in the order in which they are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.errors import PlannerError, Refused, UnknownArchitecture
from planner.memory.account import Basis, HostLine, Per, VLLMError
from planner.memory.estimate import RankMemory
from planner.memory.host.kv_connectors import (
    Connector,
    connectors,
    engine_lines,
    worker_lines,
)
from planner.memory.host.loading import Loading, loading_of, reading_of
from planner.memory.host.nodes import NodeAccount, gpus_of_a_node, node_accounts, nodes
from planner.memory.host.tables import (
    API_SERVER,
    ENGINE_CORE,
    WORKER_PROCESS,
    asleep,
    check_swap_space,
    gpu_budget,
    rope_positions,
    token_ids,
)
from planner.memory.lines.non_torch import is_unified
from planner.memory.media.frontend import cache_lines
from planner.models.layers import Part
from planner.planning.defaults import ResolvedSettings
from planner.planning.refusals import is_lmcache
from planner.planning.resolve import Question
from planner.planning.stages import Stage
from planner.units import GIB, format_gib


def host_accounts(
    question: Question, resolved: ResolvedSettings, stages: Sequence[Stage]
) -> tuple[NodeAccount, ...]:
    """Return the account of each machine; none where vLLM runs on a CPU.

    There the plan itself is the account of the machine's memory.
    """
    if question.gpu.is_cpu:
        _check_cpu_build(question)
        return ()
    layout, settings = question.layout, question.settings
    check_swap_space(
        dict(settings.others).get("swap_space"),
        layout.tensor_parallel_size,
        capacity_bytes(question),
        question.release,
    )
    total = layout.world_size * layout.data_parallel_size
    alone = 1 if is_unified(question.gpu) else None
    gpus = gpus_of_a_node(
        total, settings.node_gpus or alone, dict(settings.others).get("nnodes")
    )
    return node_accounts(
        nodes(
            layout.tensor_parallel_size,
            layout.pipeline_parallel_size,
            layout.data_parallel_size,
            gpus,
        ),
        [tuple(_of_worker(question, resolved, stage.rank)) for stage in stages],
        tuple(_of_engine(question)),
        capacity_bytes(question),
    )


def _check_cpu_build(question: Question) -> None:
    """Refuse features that the CPU build lacks.

    Raises:
        Refused: in vLLM's words, for sleep mode.
        UnknownArchitecture: naming kv_transfer_config.

    Source: vLLM 0.33.0 `config/model.py` ModelConfig, `platforms/interface.py`
    is_sleep_mode_available.
    """
    others = dict(question.settings.others)
    if others.get("enable_sleep_mode"):
        raise Refused("Sleep mode is not supported on current platform.")
    if others.get("kv_transfer_config"):
        raise UnknownArchitecture(
            "kv_transfer_config on vLLM's CPU build is not modelled. Leave it out."
        )


def capacity_bytes(question: Question) -> int | None:
    """Return the memory of a machine: as given, or as this machine reports it.

    Where GPU and CPU share their memory, it is the GPU's.
    """
    given, gpu = question.settings.node_memory_gib, question.gpu
    if given is not None:
        return int(given * GIB)
    if gpu.host_memory_bytes is None and is_unified(gpu):
        return gpu.total_memory_bytes
    return gpu.host_memory_bytes


def _of_worker(
    question: Question, resolved: ResolvedSettings, rank: RankMemory
) -> Iterator[HostLine]:
    """Yield what each worker of a pipeline stage keeps."""
    if is_unified(question.gpu):
        yield gpu_budget(rank.requested_memory_bytes)
    if rank.offloaded is not None:
        yield rank.offloaded
    if question.settings.enable_lora:
        from planner.memory.lora.towers import adapters_on_host  # noqa: PLC0415 - adapters only

        adapters = adapters_on_host(
            question.model,
            question.settings,
            question.layout,
            resolved.dtype,
        )
        if adapters is not None:
            yield adapters
    if dict(question.settings.others).get("enable_sleep_mode"):
        yield asleep(rank.allocated_weights_bytes)
    seqs, length = resolved.max_num_seqs, resolved.max_model_len
    uses_v2 = resolved.uses_v2_model_runner
    yield token_ids(seqs, length, question.release, uses_v2_runner=uses_v2)
    positions = rope_positions(question.model, seqs, length) if uses_v2 else None
    if positions is not None:
        yield positions
    yield from worker_lines(
        _connectors(question), rank.num_blocks * rank.bytes_per_block
    )
    yield WORKER_PROCESS


def _connectors(question: Question) -> tuple[Connector, ...]:
    config = dict(question.settings.others).get("kv_transfer_config")
    settings = question.settings
    if settings.kv_offloading_size is not None and is_lmcache(settings):
        config = {"kv_connector": "LMCacheMPConnector", "kv_role": "kv_both"}
    return connectors(
        config,
        question.model,
        question.release,
        keeps_groups=not settings.disable_hybrid_kv_cache_manager,
    )


def _of_engine(question: Question) -> Iterator[HostLine]:
    """Yield what is kept once per engine or once per machine."""
    yield from cache_lines(
        question.settings,
        question.model,
        question.env,
        question.release,
        question.entrypoint,
    )
    blocks = question.settings.kv_offloading_size
    yield from engine_lines(_connectors(question))
    if blocks and not is_lmcache(question.settings):
        yield HostLine(
            name="offloaded KV blocks",
            size_bytes=int(blocks * GIB),
            basis=Basis.EXACT,
            why=f"kv_offloading_size={blocks} GiB, of all workers together; shared "
            "memory (/dev/shm), in whole chunks of blocks",
            per=Per.ENGINE,
        )
    yield ENGINE_CORE
    if question.entrypoint == "serve":
        yield API_SERVER


def host_loading(
    question: Question,
    accounts: Sequence[NodeAccount],
    stages: Sequence[Stage],
) -> Loading | None:
    """Return what loading the weights reads; None where that is not modelled.

    Raises:
        Refused: in vLLM's words, for a format that it does not have.
        PlannerError: for a format that is not a string, or a speed that is not above 0.
    """
    given = dict(question.settings.others).get("load_format") or "auto"
    if not isinstance(given, str):
        raise PlannerError(f"load_format={given!r}: a text is needed, such as auto.")
    load_format = given.lower()
    reading = reading_of(load_format)
    if reading is None:
        return None
    fullest = max(accounts, key=lambda one: one.gpus, default=None)
    weights = [_loaded_bytes(stage.rank) for stage in stages]
    tensor = question.layout.tensor_parallel_size
    loading = loading_of(
        question.model,
        reading,
        load_format,
        workers=1 if fullest is None else fullest.gpus,
        weights_bytes=max(weights),
        loaded_bytes=tensor * sum(weights),
        room_bytes=None if fullest is None else fullest.left_bytes,
    )
    return loading.at(
        disk_gb_per_second=question.settings.disk_gb_per_second,
        pcie_gb_per_second=question.settings.pcie_gb_per_second,
    )


def _loaded_bytes(rank: RankMemory) -> int:
    """Return the bytes of a worker's weights that are read from files."""
    buffers = (p.size_bytes for p in rank.weight_parts if p.name == Part.BUFFERS)
    return rank.weights_bytes - sum(buffers) + rank.offloaded_parameter_bytes


def host_error(accounts: Sequence[NodeAccount]) -> VLLMError | None:
    """Return the error of the first machine with too little memory; None: all fit.

    Lines that are only assumed do not count.
    """
    for account in accounts:
        capacity = account.capacity_bytes
        if capacity is not None and account.certain_bytes > capacity:
            return VLLMError(kind="host_memory", message=_too_small(account, capacity))
    return None


def _too_small(account: NodeAccount, capacity: int) -> str:
    kept = ", ".join(
        f"{line.name} {format_gib(line.size_bytes)}"
        for line in account.lines
        if line.basis is not Basis.ASSUMED
    )
    return (
        f"A machine's CPU memory is too small: {format_gib(account.certain_bytes)} "
        f"are kept there by {account.gpus} "
        f"{'GPU' if account.gpus == 1 else 'GPUs'} ({kept}), and it has "
        f"{format_gib(capacity)}."
    )
