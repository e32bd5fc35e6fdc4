"""advise(): every single change that helps a plan, ranked, and combinations of them.

Whether a change helps is found by planning it. Warnings that come with advice are
common pitfalls, each with the plan's figures; those that every reader of a plan needs
are in `Plan.notes` (`planner.planning.cautions`).
"""

from __future__ import annotations

from collections.abc import Iterable

from planner.engine.releases import NEWEST
from planner.given import named_in_errors
from planner.memory.media.towers import limit_per_prompt
from planner.models.caches import MLALayer
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.solve.advice.combining import combined
from planner.solve.advice.makers import MAKERS
from planner.solve.advice.result import Advice, AdviceItem
from planner.solve.advice.situation import Burden, Situation
from planner.solve.advice.trying import offered
from planner.units import counted, format_gib


@named_in_errors
def advise(plan: Plan, load: Load | None = None) -> Advice:
    """Return the changes that make a plan start, or serve more.

    Every change is planned again, so its gain is exact.

    Args:
        plan: the plan to improve.
        load: requests that it must serve; None: those of the plan, and where it has
            none, any number of them of max_model_len tokens.
    """
    situation = Situation.of(plan, load)
    found = _found(situation)
    return Advice(
        plan=plan,
        load=situation.load,
        request_tokens=situation.request_tokens,
        requests=situation.requests(plan),
        items=ranked(situation, found.values()),
        combinations=combined(situation, found),
        warnings=warnings(situation),
    )


def _found(situation: Situation) -> dict[str, AdviceItem]:
    """Return the item of each maker; a change that two propose counts once."""
    found: dict[str, AdviceItem] = {}
    # A load that is served needs no more hardware.
    is_enough = situation.load is not None and situation.is_served
    for name, make in MAKERS.items():
        made = make(situation)
        if is_enough:
            made = (one for one in made if one.burden < Burden.HARDWARE)
        item = offered(situation, made)
        known = [other.changes for other in found.values()]
        if item is not None and item.changes not in known:
            found[name] = item
    return found


def ranked(situation: Situation, found: Iterable[AdviceItem]) -> tuple[AdviceItem, ...]:
    """Return changes in order, the best first.

    Those that serve (without a load: start) come first, then those that start. Among
    changes that make a plan serve, the smallest burden comes first; among others, those
    after which answers stay practically the same come first and other hardware last.
    Then the gain in requests and bytes decides.
    """
    is_served = situation.is_served

    def key(item: AdviceItem) -> tuple[object, ...]:
        suffices = item.serves and not is_served
        cost = item.burden if suffices else max(item.burden, Burden.ACCURACY)
        return (
            not item.serves,
            not item.starts,
            int(cost),
            -item.gain_requests,
            -item.gain_bytes,
            -item.gain_tokens,
            item.title,
        )

    return tuple(sorted(found, key=key))


_MANY_REQUESTS = 1024
_FEWER_REQUESTS = 256
_FAR_LONGER = 4
_LARGE_SHARE = 0.02
"""Share of the budget; less is not worth a warning."""
_CLOSE = 2
_GRAPHS = "CUDA graphs"


def warnings(situation: Situation) -> tuple[str, ...]:
    """Return the warnings in addition to the plan's own notes."""
    found = [
        _sampler(situation),
        _default_length(situation),
        _preallocated(situation.plan),
        _repeated_heads(situation.plan),
        _latent(situation.plan),
        _states(situation.plan),
        _graphs(situation.plan),
        _text_only(situation),
        _adapters(situation),
        _release(situation),
    ]
    return tuple(text for text in found if text)


def _is_large(plan: Plan, size_bytes: int) -> bool:
    rank = plan.limiting_rank
    return rank is not None and size_bytes >= _LARGE_SHARE * rank.requested_memory_bytes


def _kv_bytes(plan: Plan | None) -> int:
    rank = None if plan is None else plan.limiting_rank
    return 0 if rank is None else rank.available_kv_cache_bytes


def _sampler(situation: Situation) -> str:
    """Warn about the sampler's warm-up with a large max_num_seqs.

    Source: vLLM 0.33.0 `v1/worker/gpu/warmup.py` and 0.9.2
    `v1/worker/gpu_worker.py` compile_or_warm_up_model: "CUDA out of memory occurred
    when warming up sampler with N dummy requests".
    """
    resolved = situation.plan.resolved
    if resolved is None or resolved.max_num_seqs < _MANY_REQUESTS:
        return ""
    fewer = situation.again(max_num_seqs=_FEWER_REQUESTS)
    freed = _kv_bytes(fewer) - _kv_bytes(situation.plan)
    if not _is_large(situation.plan, freed):
        return ""
    origin = "" if situation.plan.settings.max_num_seqs else ", this GPU's default,"
    return (
        f"max_num_seqs={resolved.max_num_seqs:,}{origin} makes vLLM test its sampler "
        "with as many requests, which is where starts on a nearly full GPU run out of "
        f"memory; max_num_seqs={_FEWER_REQUESTS} frees {format_gib(freed)}."
    )


def _default_length(situation: Situation) -> str:
    """Warn where the default max_model_len is far above the load, or does not fit."""
    plan, load = situation.plan, situation.load
    if plan.resolved is None or plan.settings.max_model_len is not None:
        return ""
    length = plan.resolved.max_model_len
    if not plan.needed_kv_cache_bytes:
        return ""
    needs = format_gib(plan.needed_kv_cache_bytes)
    if load is not None and load.request_tokens * _FAR_LONGER <= length:
        return (
            f"max_model_len is not given, so vLLM allows {length:,} tokens, the "
            f"model's own limit, and insists on {needs} of KV cache for one such "
            f"request; the load needs {load.request_tokens:,}."
        )
    if plan.error is not None and plan.error.kind in ("max_model_len", "too_close"):
        return (
            f"max_model_len is not given, so vLLM insists on {needs} of KV cache for "
            f"one request of {length:,} tokens, the model's own limit. Set it to what "
            "your prompts and answers need."
        )
    return ""


def _preallocated(plan: Plan) -> str:
    """Note that vLLM takes its whole budget, however small the model is."""
    rank = plan.limiting_rank
    if rank is None or not plan.fits or plan.gpu.is_cpu or plan.resolved is None:
        return ""
    available = rank.available_kv_cache_bytes
    if plan.resolved.kv_cache_memory_bytes is not None or not plan.kv_groups:
        return ""
    if available < _CLOSE * max(rank.weights_bytes, plan.needed_kv_cache_bytes):
        return ""
    return (
        f"vLLM takes its whole budget of {format_gib(rank.requested_memory_bytes)} "
        f"when it starts, {format_gib(available)} of it for the KV cache, although the "
        f"weights take {format_gib(rank.weights_bytes)} only. nvidia-smi shows that at "
        "once; a lower gpu_memory_utilization, or kv_cache_memory_bytes, takes less."
    )


def _repeated_heads(plan: Plan) -> str:
    """Warn where there are more ranks than KV heads, which are then replicated."""
    model, resolved = plan.model, plan.resolved
    if model is None or resolved is None or model.has_latent_attention:
        return ""
    ranks, heads = resolved.tensor_parallel_size, model.num_kv_heads
    shards = heads * resolved.decode_context_parallel_size
    if ranks <= shards or not model.attention_layers:
        return ""
    return (
        f"The model has {heads} KV heads, fewer than the {ranks} GPUs it is cut over: "
        f"each head is kept {ranks // heads} times, so the KV cache of a request is no "
        f"smaller on each GPU than with tensor_parallel_size={heads}."
    )


def _latent(plan: Plan) -> str:
    """Warn that every rank holds the whole cache of latent attention."""
    model, resolved = plan.model, plan.resolved
    if model is None or resolved is None or resolved.tensor_parallel_size == 1:
        return ""
    if not any(isinstance(layer, MLALayer) for layer in model.cache_layers):
        return ""
    if resolved.decode_context_parallel_size > 1:
        return ""
    ranks = resolved.tensor_parallel_size
    return (
        f"Latent attention (MLA) has one KV head: each of the {ranks} GPUs keeps the "
        "whole KV cache of every request, and cutting the model further does not "
        "shrink it. Data parallel attention or decode_context_parallel_size does."
    )


def _states(plan: Plan) -> str:
    """Warn where max_num_seqs comes close to the blocks for states.

    Source: vLLM 0.33.0 `config/compilation.py` resolve_cudagraph_mode_and_sizes.
    """
    model, resolved = plan.model, plan.resolved
    if model is None or resolved is None or not model.state_layers or not plan.ranks:
        return ""
    blocks = plan.num_gpu_blocks
    if not resolved.cudagraph_capture_sizes or not blocks:
        return ""
    if blocks > _CLOSE * resolved.max_num_seqs:
        return ""
    return (
        "Every request needs a block for its states, and vLLM refuses to start with "
        f"max_num_seqs above its blocks: {resolved.max_num_seqs:,} requests here, "
        f"{blocks:,} blocks expected. Lower max_num_seqs to keep clear of that."
    )


def _graphs(plan: Plan) -> str:
    """Note the memory of CUDA graphs, where it is large."""
    rank = plan.limiting_rank
    if rank is None or plan.gpu.is_cpu or not rank.bytes_per_block:
        return ""
    charged = sum(line.size_bytes for line in rank.lines if line.name == _GRAPHS)
    if not _is_large(plan, charged):
        return ""
    return (
        f"vLLM sets {format_gib(charged)} aside for CUDA graphs before it captures "
        f"them; about {format_gib(rank.captured_graph_bytes)} are used then. Fewer "
        "capture sizes, or enforce_eager, give it to the KV cache."
    )


def _text_only(situation: Situation) -> str:
    """Note what an unused encoder costs where only text is sent."""
    plan, model = situation.plan, situation.model
    if model is None or not plan.ranks:
        return ""
    names = {name for tower in model.towers for name in tower.modalities}
    sent = sorted(name for name in names if limit_per_prompt(name, plan.settings))
    if not sent:
        return ""
    changed = situation.again(limit_mm_per_prompt=dict.fromkeys(sent, 0))
    freed = _kv_bytes(changed) - _kv_bytes(plan)
    if not _is_large(plan, freed):
        return ""
    return (
        f"The encoder of {' and '.join(sent)} inputs, and trying it out with the "
        f"largest one, take {format_gib(freed)} even if only text is sent; "
        "language_model_only gives that to the KV cache."
    )


def _adapters(situation: Situation) -> str:
    """Note what LoRA slots take before an adapter is loaded."""
    settings = situation.plan.settings
    if not settings.enable_lora or not situation.plan.ranks:
        return ""
    without = situation.again(enable_lora=False)
    taken = _kv_bytes(without) - _kv_bytes(situation.plan)
    if not _is_large(situation.plan, taken):
        return ""
    return (
        f"Room for {counted(settings.max_loras or 1, 'adapters')} of rank "
        f"{settings.max_lora_rank or 16} takes {format_gib(taken)} when vLLM starts, "
        "whatever their real rank."
    )


def _release(situation: Situation) -> str:
    """Note where the newest release would start."""
    plan = situation.plan
    if plan.fits or plan.vllm_version == NEWEST:
        return ""
    newest = situation.again(vllm_version=NEWEST)
    if newest is None or not newest.fits:
        return ""
    return f"vLLM {NEWEST} would start this; {plan.vllm_version} does not."
