"""What a model takes of any GPU, where a question names none."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from planner.engine.gpu import GPU
from planner.engine.releases import NEWEST_RELEASE
from planner.errors import PlannerError
from planner.models.architecture import ModelArchitecture
from planner.models.lengths import derived_max_model_len
from planner.planning.defaults import gpu_memory_utilization
from planner.reading.questions.question_words import words_of
from planner.reading.questions.searching import usual_load
from planner.reading.reading import Reading
from planner.units import format_gib, format_size

_BYTES = {"16 bits": 2.0, "8 bits": 1.0, "4 bits": 0.5}
"""Of a parameter, without scales."""


def facts_of(model: ModelArchitecture) -> str:
    """Say what a model's config tells of its shape."""
    longest = derived_max_model_len(model, NEWEST_RELEASE)
    length = f"requests of up to {int(longest):,} tokens" if isfinite(longest) else ""
    experts = f"{model.num_experts} experts" if model.num_experts else ""
    shape = (
        f"{model.num_hidden_layers} layers of {model.hidden_size:,} values, "
        f"{model.num_attention_heads} heads of which {model.num_kv_heads} have KV"
    )
    return f"Its config: {', '.join(filter(None, (length, shape, experts)))}."


def sizes(reading: Reading) -> Iterator[str]:
    """Answer what a model takes of any GPU: its weights, and KV cache for a request."""
    length = usual_load(reading).request_tokens
    try:
        plan = reading.inputs("H100", max_model_len=length, load=None).plan()
    except PlannerError as error:
        yield str(error).partition("\n")[0]
        return
    rank = plan.limiting_rank
    if rank is None or plan.resolved is None:
        return
    if words_of("facts").search(reading.given) and plan.model is not None:
        yield facts_of(plan.model)
    total = sum(each.weights_bytes for each in plan.ranks)
    ranks = plan.resolved.tensor_parallel_size
    split = f" on each of {ranks} GPUs" if ranks > 1 else ""
    rest = (
        rank.requested_memory_bytes
        - rank.allocated_weights_bytes
        - rank.available_kv_cache_bytes
    )
    needed = plan.needed_kv_cache_bytes
    requests = 1 if reading.load is None else reading.load.requests
    assumed = "" if _is_length_told(reading) else " (assumed)"
    of_all = f" ({requests:,} of them {format_gib(needed * requests)})"
    yield (
        f"Weights take {format_gib(total)}{split}, and a request of {length:,} "
        f"tokens{assumed} {format_gib(needed)} of KV cache"
        f"{of_all if requests > 1 else ''}: {format_size(round(needed / length))} a "
        f"token, {format_size(rank.bytes_per_block)} for a block of "
        f"{plan.resolved.block_size} tokens. The rest of a start takes "
        f"{format_gib(rest)} on an H100."
    )


def of_parameters(billions: float, reading: Reading) -> str:
    """Say what the weights of a model take that is named by its size alone."""
    sizes = ", ".join(
        f"{format_gib(round(billions * 1e9 * bytes_each))} in {form}"
        for form, bytes_each in _BYTES.items()
    )
    room = ""
    if reading.gpu is not None:
        gpu = reading.gpu
        known = gpu if isinstance(gpu, GPU) else GPU.named(gpu)
        share = reading.engine_args.get("gpu_memory_utilization")
        share = gpu_memory_utilization(NEWEST_RELEASE) if share is None else share
        count = reading.gpus or 1
        budget = round(share * known.total_memory_bytes * count)
        room = f" vLLM takes {format_gib(budget)} of {count} x {known.name}."
    return (
        f"Weights of {billions:g} billion parameters take {sizes}, before any KV cache."
        f"{room}"
    )


def _is_length_told(reading: Reading) -> bool:
    return reading.load is not None or "max_model_len" in reading.engine_args
