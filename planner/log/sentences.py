"""The figures in vLLM's own sentences, of every release.

Several ranks and engines write the same sentence. The plan is about the one that
limits it, so of several the largest counts for what is taken, and the smallest for what
is left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

Figure: TypeAlias = float | int

_NUMBER = r"(-?\d[\d,]*(?:\.\d+)?)"
_SIZE = rf"{_NUMBER}\s*(GiB|GB|MiB|MB|bytes)\b"
"""vLLM up to 0.8 wrote GB and meant GiB."""
_STANDS_FOR = {"S": _SIZE, "N": _NUMBER, "_": r"-?[\d.,]+"}
_TOKEN = re.compile(r"(?<![\w\\])[SN_](?!\w)")
_IN_GIB = {"gib": 1, "gb": 1, "mib": 1 << 10, "mb": 1 << 10, "bytes": 1 << 30}

COUNTS = frozenset(
    "kv_tokens max_concurrency_len num_gpu_blocks encoder_budget_tokens "
    "estimated_max_len attn_block_size".split()
)
"""Figures that are whole numbers of something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """Wordings of one figure: the first that a log has tells it."""

    name: str
    wordings: tuple[str, ...]
    """With N for a number, S for a size with its unit, _ for a number to skip."""
    choose: Callable[[Iterable[Figure]], Figure] = max
    """Of what several ranks and engines say."""


def _last(values: Iterable[Figure]) -> Figure:
    return list(values)[-1]


def _first(values: Iterable[Figure]) -> Figure:
    return next(iter(values))


# Source: vLLM of each release. V1: `v1/worker/gpu_worker.py`, `gpu_model_runner.py`,
# `gpu/model_runner.py`, `cpu_worker.py`, `utils.py`, `startup_plan.py`,
# `v1/core/kv_cache_utils.py` and `kv_cache_planning.py`, `v1/metrics/loggers.py`,
# `utils/mem_utils.py`, `platforms/cpu.py`. V0: `worker/worker.py`, `model_runner.py`,
# `executor/executor_base.py`, `engine/llm_engine.py`.
SENTENCES: tuple[Sentence, ...] = (
    Sentence(
        name="weights_gib",
        wordings=(
            r"(?:Model loading|Loading model weights) took:? S",
            "Actual usage is S for weight",
            "model weights take S",
        ),
    ),
    Sentence(
        name="available_kv_gib",
        wordings=(
            "Available KV cache memory: S",
            "the rest of the memory reserved for KV Cache is S",
            "available_kv_cache_memory S",
            "kv_cache_size=S",
            "reserved S memory for KV Cache as specified",
            r"(?:Auto|Explicitly) set \(N/_\) GiB for KV cache",
            "VLLM_CPU_KVCACHE_SPACE not set. Using S for KV cache",
            r"VLLM_CPU_KVCACHE_SPACE \(GiB\) for CPU backend is not set, using N by",
            r"kv_cache_memory_bytes=_ \(S\), recorded free-memory",
            r"available HPU memory, S reserved for KV cache",
            "Current kv cache memory in use is S",
            r"available KV cache memory \(S\)",
            r"to fit in available (?:GPU|KV cache) memory \(S",
            r"requested memory for kv \(N/_ GiB\)",
            r"max KV cache available = S",
        ),
        choose=min,
    ),
    Sentence(
        name="kv_tokens",
        wordings=(
            r"KV cache size(?: as reported at startup)?: N tokens",
            r"tokens that can be stored in KV cache \(N\)",
        ),
        choose=min,
    ),
    Sentence(
        name="num_gpu_blocks",
        wordings=(
            r"num_gpu_blocks(?: is)?:? N",
            # From 0 when graphs are measured with a cache of their own.
            r"Overriding num_gpu_blocks=[1-9]\d* with num_gpu_blocks_override=N",
            r"# \w+ blocks: N, # CPU blocks",
            r"(?:GPU|CUDA|TPU|XPU|HPU) blocks: N",
        ),
        choose=min,
    ),
    Sentence(
        name="cudagraph_gib",
        wordings=(
            r"(?<!Encoder\s)Graph capturing (?:finished in _ secs?, )?took S",
            r"CUDA graph pool memory: S \(actual\)",
            "S for CUDAGraph memory",
        ),
        choose=_last,
    ),
    Sentence(
        name="cudagraph_estimated_gib",
        wordings=("Estimated CUDA graph memory: S", r"\(actual\), S \(estimated\)"),
    ),
    Sentence(
        name="activation_gib",
        wordings=(
            r"for consumed memory \(weights \+ non-torch\), S for peak activation",
            "torch peak memory increase: S",
            "S for peak activation",
            "PyTorch activation peak memory (?:takes )?S",
        ),
    ),
    Sentence(
        name="non_torch_gib",
        wordings=(
            "non-torch forward increase memory: S",
            "S for non-torch memory",
            r"non_torch_memory(?: takes |=| )S(?!,)",
        ),
    ),
    Sentence(
        name="encoder_budget_tokens",
        wordings=(
            r"Encoder cache (?:will be initialized with (?:a )?)?budget of N tokens",
        ),
        choose=_first,
    ),
    Sentence(name="needed_kv_gib", wordings=("S KV cache is needed",)),
    Sentence(
        name="estimated_max_len",
        wordings=("estimated maximum model length is N",),
        choose=min,
    ),
    Sentence(
        name="profiled_weights_gib",
        wordings=(r"weights memory: S", "model weights take S"),
    ),
    Sentence(name="total_non_kv_gib", wordings=("Total non KV cache memory: S",)),
    Sentence(
        name="free_at_start_gib",
        wordings=(
            r"Free memory on device:? (?:[a-z]\S+ )?\(?N/_ GiB",
            r"Initial free memory:? S",
            r"Available memory on node _ \(N/_ GiB\) on startup",
        ),
        choose=min,
    ),
    Sentence(
        name="total_gpu_gib",
        wordings=(
            r"Free memory on device:? (?:[a-z]\S+ )?\(?_/S",
            r"total_gpu_memory[ =]\(?S",
        ),
        choose=_first,
    ),
    Sentence(
        name="requested_gib",
        wordings=(
            r"desired (?:GPU|CPU) memory utilization (?:is )?\(_, S\)",
            r"Requested memory: _ \(util\), S",
            "requested GPU memory: S",
            r"requested memory for kv \(_/S\)",
            "with S requested memory for the worker",
            "worker requested memory: S",
            r"gpu_memory_utilization \(_\) = S",
        ),
        choose=_first,
    ),
    Sentence(
        name="consumed_gib",
        wordings=(
            "S for consumed memory",
            r"total consumed \(from mem_get_info\): S",
            "S memory was consumed by non-kv usages",
            r"worker already uses S \(model weights",
        ),
    ),
    Sentence(
        name="attn_block_size",
        wordings=(r"attention block size (?:to )?N\b",),
        choose=_last,
    ),
    Sentence(name="initial_memory_usage_gib", wordings=("initial_memory_usage=S",)),
    Sentence(name="peak_torch_gib", wordings=("peak_torch_memory=S",)),
)
_CONCURRENCY = re.compile(
    rf"Maximum\s+concurrency\s+for\s+{_NUMBER}\s+tokens"
    rf"(?:(?:\s+per\s+|/)request:\s+{_NUMBER}x)?",
    re.IGNORECASE,
)


def figures_of(text: str) -> dict[str, Figure]:
    """Return the figures of one start's messages by their names in the corpus."""
    found = dict(_concurrency(text))
    for sentence in SENTENCES:
        values = _said(sentence, text)
        if values:
            found[sentence.name] = sentence.choose(values)
    return found


def _said(sentence: Sentence, text: str) -> list[Figure]:
    for wording in sentence.wordings:
        matches = compiled(wording).finditer(text)
        values = [number(sentence.name, *match.groups()) for match in matches]
        if values:
            return values
    return []


def number(name: str, digits: str, unit: str = "") -> Figure:
    """Return a figure from its digits: GiB for a size, whole for a count."""
    value = float(digits.replace(",", ""))
    if name in COUNTS:
        return int(value)
    shrink = _IN_GIB[unit.lower()] if unit else 1
    return value if shrink == 1 else value / shrink


@cache
def compiled(wording: str) -> re.Pattern[str]:
    r"""Return a wording as a pattern that may be wrapped at any of its spaces.

    >>> compiled("took S").search("took 1.5\n GiB").groups()
    ('1.5', 'GiB')
    """
    pattern = _TOKEN.sub(lambda token: _STANDS_FOR[token[0]], wording)
    return re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE)


def _concurrency(text: str) -> Mapping[str, Figure]:
    """The least of what engines say, and the length that it is for."""
    matches = list(_CONCURRENCY.finditer(text))
    told = [match for match in matches if match[2]]
    if not told:
        lengths = [number("max_concurrency_len", match[1]) for match in matches]
        return {"max_concurrency_len": lengths[0]} if lengths else {}
    least = min(told, key=lambda match: number("max_concurrency", match[2]))
    return {
        "max_concurrency_len": number("max_concurrency_len", least[1]),
        "max_concurrency": number("max_concurrency", least[2]),
    }
