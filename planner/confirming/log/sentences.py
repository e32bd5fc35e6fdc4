"""The figures in vLLM's sentences, of every release, and in people's notes of them.

Several ranks and engines log the same sentence. The one that limits the plan counts:
the largest figure of memory that is used, the smallest of memory that is left.

A note shortens these sentences, in a table or in an issue. It is short, has no head of
a record, and names its numbers: a number without a word beside it is not guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from operator import itemgetter
from typing import TypeAlias

Figure: TypeAlias = float | int

_NUMBER = r"(?<!\d)(?<!\d,)(-?\d[\d,]*(?:\.\d+)?)"
"""Never from within a number: of long digits every place would be tried to the end."""
_SIZE = rf"{_NUMBER}\s*(GiB|GB|MiB|MB|bytes)\b"
"""vLLM up to 0.8 logged GiB as GB."""
_STANDS_FOR = {"S": _SIZE, "N": _NUMBER, "_": r"-?[\d.,]+"}
_TOKEN = re.compile(r"(?<![\w\\])[SN_](?!\w)")
_IN_GIB = {"gib": 1, "gb": 1, "mib": 1 << 10, "mb": 1 << 10, "bytes": 1 << 30}

COUNTS = frozenset(
    "kv_tokens max_concurrency_len num_gpu_blocks encoder_budget_tokens "
    "estimated_max_len attn_block_size mamba_blocks".split()
)
"""Figures that are whole numbers."""


# Source: vLLM of each release. V1: `v1/worker/gpu_worker.py`, `gpu_model_runner.py`,
# `gpu/model_runner.py`, `cpu_worker.py`, `utils.py`, `startup_plan.py`,
# `v1/core/kv_cache_utils.py` and `kv_cache_planning.py`, `v1/metrics/loggers.py`,
# `utils/mem_utils.py`, `platforms/cpu.py`. V0: `worker/worker.py`, `model_runner.py`,
# `executor/executor_base.py`, `engine/llm_engine.py`.
SENTENCES: tuple[tuple[str, str], ...] = (
    ("weights_gib", r"(?:Model loading|Loading model weights) took:? S"),
    ("weights_gib", "Actual usage is S for weight"),
    ("weights_gib", "model weights take S"),
    ("available_kv_gib", "Available KV cache memory: S"),
    ("available_kv_gib", "the rest of the memory reserved for KV Cache is S"),
    ("available_kv_gib", "available_kv_cache_memory S"),
    ("available_kv_gib", "kv_cache_size=S"),
    ("available_kv_gib", "reserved S memory for KV Cache as specified"),
    ("available_kv_gib", r"(?:Auto|Explicitly) set \(N/_\) GiB for KV cache"),
    ("available_kv_gib", "VLLM_CPU_KVCACHE_SPACE not set. Using S for KV cache"),
    (
        "available_kv_gib",
        r"VLLM_CPU_KVCACHE_SPACE \(GiB\) for CPU backend is not set, using N by",
    ),
    ("available_kv_gib", r"kv_cache_memory_bytes=_ \(S\), recorded free-memory"),
    ("available_kv_gib", r"available HPU memory, S reserved for KV cache"),
    ("available_kv_gib", "Current kv cache memory in use is S"),
    ("available_kv_gib", r"available KV cache memory \(S\)"),
    ("available_kv_gib", r"to fit in available (?:GPU|KV cache) memory \(S"),
    ("available_kv_gib", r"requested memory for kv \(N/_ GiB\)"),
    ("available_kv_gib", r"max KV cache available = S"),
    ("kv_tokens", r"KV cache size(?: as reported at startup)?: N tokens"),
    ("kv_tokens", r"tokens that can be stored in KV cache \(N\)"),
    ("num_gpu_blocks", r"num_gpu_blocks(?: is)?:? N"),
    # From 0 when graphs are measured with a cache of their own.
    (
        "num_gpu_blocks",
        r"Overriding num_gpu_blocks=[1-9]\d* with num_gpu_blocks_override=N",
    ),
    ("num_gpu_blocks", r"# \w+ blocks: N, # CPU blocks"),
    ("num_gpu_blocks", r"(?:GPU|CUDA|TPU|XPU|HPU) blocks: N"),
    (
        "cudagraph_gib",
        r"(?<!Encoder\s)Graph capturing (?:finished in _ secs?, )?took S",
    ),
    ("cudagraph_gib", r"CUDA graph pool memory: S \(actual\)"),
    ("cudagraph_gib", "S for CUDAGraph memory"),
    ("cudagraph_estimated_gib", "Estimated CUDA graph memory: S"),
    ("cudagraph_estimated_gib", r"\(actual\), S \(estimated\)"),
    (
        "activation_gib",
        r"for consumed memory \(weights \+ non-torch\), S for peak activation",
    ),
    ("activation_gib", "torch peak memory increase: S"),
    ("activation_gib", "S for peak activation"),
    ("activation_gib", "PyTorch activation peak memory (?:takes )?S"),
    ("non_torch_gib", "non-torch forward increase memory: S"),
    ("non_torch_gib", "S for non-torch memory"),
    ("non_torch_gib", r"non_torch_memory(?: takes |=| )S(?!,)"),
    (
        "encoder_budget_tokens",
        r"Encoder cache (?:will be initialized with (?:a )?)?budget of N tokens",
    ),
    ("needed_kv_gib", "S KV cache is needed"),
    ("estimated_max_len", "estimated maximum model length is N"),
    ("mamba_blocks", r"exceeds available Mamba cache blocks \(N\)"),
    ("free_after_profile_gib", "current free memory S"),
    ("profiled_weights_gib", r"weights memory: S"),
    ("profiled_weights_gib", "model weights take S"),
    ("total_non_kv_gib", "Total non KV cache memory: S"),
    ("free_at_start_gib", r"Free memory on device:? (?:[a-z]\S+ )?\(?N/_ GiB"),
    ("free_at_start_gib", r"Initial free memory:? S"),
    ("free_at_start_gib", r"Available memory on node _ \(N/_ GiB\) on startup"),
    ("total_gpu_gib", r"Free memory on device:? (?:[a-z]\S+ )?\(?_/S"),
    ("total_gpu_gib", r"total_gpu_memory[ =]\(?S"),
    ("requested_gib", r"desired (?:GPU|CPU) memory utilization (?:is )?\(_, S\)"),
    ("requested_gib", r"Requested memory: _ \(util\), S"),
    ("requested_gib", "requested GPU memory: S"),
    ("requested_gib", r"requested memory for kv \(_/S\)"),
    ("requested_gib", "with S requested memory for the worker"),
    ("requested_gib", "worker requested memory: S"),
    ("requested_gib", r"gpu_memory_utilization \(_\) = S"),
    ("consumed_gib", "S for consumed memory"),
    ("consumed_gib", r"total consumed \(from mem_get_info\): S"),
    ("consumed_gib", "S memory was consumed by non-kv usages"),
    ("consumed_gib", r"worker already uses S \(model weights"),
    ("attn_block_size", r"attention block size (?:to )?N\b"),
    ("initial_memory_usage_gib", "initial_memory_usage=S"),
    ("peak_torch_gib", "peak_torch_memory=S"),
)
"""A figure and a wording of it; of several, the first one that a log has counts.

N is a number, S a size with its unit, _ a number to skip.
"""
_OF_SEVERAL: tuple[tuple[Callable[[list[Figure]], Figure], str], ...] = (
    (
        min,
        "available_kv_gib kv_tokens num_gpu_blocks estimated_max_len mamba_blocks "
        "free_at_start_gib",
    ),
    (itemgetter(0), "encoder_budget_tokens total_gpu_gib requested_gib"),
    (itemgetter(-1), "cudagraph_gib attn_block_size"),
)
"""Which figure counts of several ranks and engines; of all others, the largest."""
_CHOOSE = {name: one for one, names in _OF_SEVERAL for name in names.split()}
_CONCURRENCY = re.compile(
    rf"Maximum\s+concurrency\s+for\s+{_NUMBER}\s+tokens"
    rf"(?:(?:\s+per\s+|/)request:\s+{_NUMBER}x)?",
    re.IGNORECASE,
)


def figures_of(text: str) -> dict[str, Figure]:
    """Return the figures in one start's messages, by name."""
    found = dict(_concurrency(text))
    for name, wording in SENTENCES:
        if name in found:
            continue
        matches = compiled(wording).finditer(text)
        values = [number(name, *match.groups()) for match in matches]
        if values:
            found[name] = _CHOOSE.get(name, max)(values)
    return found


def number(name: str, digits: str, unit: str = "") -> Figure:
    """Return a figure from its digits: GiB for a size, whole for a count."""
    value = float(digits.replace(",", ""))
    if name in COUNTS:
        return int(value)
    shrink = _IN_GIB[unit.lower()] if unit else 1
    return value if shrink == 1 else value / shrink


@cache
def compiled(wording: str) -> re.Pattern[str]:
    r"""Return a wording as a pattern that also matches text wrapped at its spaces.

    >>> compiled("took S").search("took 1.5\n GiB").groups()
    ('1.5', 'GiB')
    """
    pattern = _TOKEN.sub(lambda token: _STANDS_FOR[token[0]], wording)
    return re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE)


def _concurrency(text: str) -> Mapping[str, Figure]:
    """Return the engines' lowest concurrency, and the length that it is for."""
    matches = list(_CONCURRENCY.finditer(text))
    complete = [match for match in matches if match[2]]
    if not complete:
        lengths = [number("max_concurrency_len", match[1]) for match in matches]
        return {"max_concurrency_len": lengths[0]} if lengths else {}
    lowest = min(complete, key=lambda match: number("max_concurrency", match[2]))
    return {
        "max_concurrency_len": number("max_concurrency_len", lowest[1]),
        "max_concurrency": number("max_concurrency", lowest[2]),
    }


MAX_LINES = 20
"""Longer texts are not notes."""

_BY = r"(?:[:=]|\s\([^)]*\):?)?"
"""Between a name and its number."""
_TABLE_ROW = r"S\s*\|\s*S\s*\|\s*N\s*\|\s*N(?:x)"
"""Weights, KV cache memory, tokens, concurrency: vLLM's order in a log."""

_NOTES: tuple[tuple[str, str], ...] = (
    ("weights_gib", rf"(?:Per-GPU )?model memory(?:/GPU)?{_BY} S"),
    ("weights_gib", rf"(?:Model|Weight) load(?:ing)?(?: to VRAM)?{_BY} S"),
    ("weights_gib", r"(?:Weight load \(|Loading weights: )S"),
    ("weights_gib", r"S(?:/GPU model memory| weights)"),
    ("weights_gib", r"S (?:of )?model memory"),
    ("weights_gib", r"\bweights N\b"),
    ("weights_gib", r"N weights\b"),
    ("weights_gib", r'"weight_memory_gib": N'),
    ("weights_gib", r"(?:^|\| )S[;|\s]+KV _ GiB"),
    ("available_kv_gib", rf"Available KV(?: cache)?{_BY} S"),
    ("available_kv_gib", r"(?:KV cache Available: |Available for KV |KV cache is )S"),
    ("available_kv_gib", r"(?:only S for|and S) KV cache"),
    ("available_kv_gib", r"limited KV cache \(S\)"),
    ("available_kv_gib", r"(?:only|exceeding the) S available"),
    ("available_kv_gib", r"only N available"),
    ("available_kv_gib", r"S KV-cache memory"),
    ("available_kv_gib", r"S remaining"),
    ("available_kv_gib", r"positive \(S\)"),
    ("available_kv_gib", r"\d x N = _ GiB pool"),
    ("available_kv_gib", r"\bKV S"),
    ("available_kv_gib", r"\bKV N(?= \||$| TP)"),
    ("available_kv_gib", r'"kv_cache_memory_gib": N'),
    ("available_kv_gib", r"S \(_ tok(?:ens)?\)"),
    ("kv_tokens", r"pool(?: size)?(?: at \w+ context)?: N tokens"),
    ("kv_tokens", r"GiB(?: \(|, )N tok(?:ens)?\b"),
    ("kv_tokens", r"\| N tokens"),
    ("kv_tokens", r"KV cache of N tokens|N KV-cache tokens"),
    ("kv_tokens", r'"kv_cache_tokens": N'),
    ("num_gpu_blocks", r'"kv_cache_blocks": N'),
    ("max_concurrency", r"N(?:x) max concurrency"),
    ("max_concurrency", r"(?:tok(?:ens)?\)|[|;]) (?:\| )?N(?:x)(?= \||$)"),
    ("max_concurrency", r'"max_concurrency": N'),
    ("needed_kv_gib", r"(?:needs|needed|requires) S"),
    ("estimated_max_len", r"suggested max N tokens"),
    ("cudagraph_gib", r"(?-i:CUDAGraph) N"),
    ("cudagraph_gib", r"CUDA graph capture \([^)]*\) _ s, S"),
    ("cudagraph_estimated_gib", r"CUDA graph memory S estimated"),
    ("cudagraph_estimated_gib", r"CUDA-graph reserve N"),
    ("activation_gib", r"\bactivation N\b"),
    ("activation_gib", r"S activation"),
    ("activation_gib", r"N activation"),
    ("non_torch_gib", r"\bnon-torch N\b"),
    ("non_torch_gib", r"N non-torch\b"),
)


_MEASURED = re.compile(
    r"\bKV\b|GPU blocks|kv_cache|concurrency|\bpool\b|\btok\)|\| [\d,]+ tokens\b"
    r"|\|.*[KMG]iB.*\||\bpositive \("
)
"""Words without which a size is no figure of a start: "the model needs 140 GB"."""


def noted_figures(text: str, figures: Mapping[str, Figure]) -> dict[str, Figure]:
    """Return the figures of vLLM's sentences, with those that a note adds."""
    found = dict(figures)
    if text.count("\n") >= MAX_LINES or not _MEASURED.search(text):
        return found
    for name, wording in _NOTES:
        match = None if name in found else compiled(wording).search(text)
        if match is not None:
            found[name] = number(name, *[part for part in match.groups() if part])
    for name, figure in _row(text).items():
        found.setdefault(name, figure)
    return found


def _row(text: str) -> dict[str, Figure]:
    match = compiled(_TABLE_ROW).search(text)
    if match is None:
        return {}
    weights, unit, kv, kv_unit, tokens, requests = match.groups()
    return {
        "weights_gib": number("weights_gib", weights, unit),
        "available_kv_gib": number("available_kv_gib", kv, kv_unit),
        "kv_tokens": number("kv_tokens", tokens),
        "max_concurrency": number("max_concurrency", requests),
    }
