"""The CPU memory of each machine of a start, and whether it holds what is kept there.

What a feature keeps stands in its own module under `planner/memory/`; here it is asked
for, in the order in which it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.defaults import ResolvedSettings
from planner.memory.host import HostLine, NodeAccount, Per, node_accounts
from planner.memory.host_tables import token_ids
from planner.memory.nodes import gpus_of_a_node, nodes
from planner.resolving import Question
from planner.result import Basis, RankMemory, VLLMError
from planner.stages import Stage
from planner.units import GIB, format_gib


def host_accounts(
    question: Question, resolved: ResolvedSettings, stages: Sequence[Stage]
) -> tuple[NodeAccount, ...]:
    """Return the account of each machine; none where vLLM runs on a processor.

    There the plan is about the machine's memory anyway.
    """
    if question.gpu.is_cpu:
        return ()
    layout, settings = question.layout, question.settings
    total = layout.world_size * layout.data_parallel_size
    gpus = gpus_of_a_node(
        total, settings.node_gpus, dict(settings.others).get("nnodes")
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


def capacity_bytes(question: Question) -> int | None:
    """Return the memory of a machine: as given, or as this machine reports it."""
    given = question.settings.node_memory_gib
    return question.gpu.host_memory_bytes if given is None else int(given * GIB)


def _of_worker(
    question: Question, resolved: ResolvedSettings, rank: RankMemory
) -> Iterator[HostLine]:
    """Return what each worker of a pipeline stage keeps."""
    if rank.offloaded_bytes:
        yield HostLine(
            name="offloaded weights",
            size_bytes=rank.offloaded_bytes,
            basis=Basis.EXACT,
            why=f"whole parameters until cpu_offload_gb="
            f"{question.settings.cpu_offload_gb} is reached",
        )
    yield token_ids(
        resolved.max_num_seqs,
        resolved.max_model_len,
        question.release,
        uses_v2_runner=resolved.uses_v2_model_runner,
    )


def _of_engine(question: Question) -> Iterator[HostLine]:
    """Return what each engine keeps, or a machine once."""
    blocks = question.settings.kv_offloading_size
    if blocks:
        yield HostLine(
            name="offloaded KV blocks",
            size_bytes=int(blocks * GIB),
            basis=Basis.EXACT,
            why=f"kv_offloading_size={blocks} GiB, of all workers together",
            per=Per.ENGINE,
        )


def host_error(accounts: Sequence[NodeAccount]) -> VLLMError | None:
    """Say which machine's memory does not hold what is kept there; None: all do.

    What is only assumed refuses nothing.
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
