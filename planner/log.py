"""What a log of vLLM says of memory, whatever the release.

Each figure has the words that a release of vLLM writes it with. Ranks and processes
write their own lines; of several the first one counts, as does vLLM's first rank, but
for what is said twice on purpose: from 0.18 on graphs are captured once to estimate
them, and again to keep them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_NUMBER = r"(-?[\d,]+(?:\.\d+)?)"
_GIB = rf"{_NUMBER}\s*GiB"

# Figure, and the words around it by release; Source: vLLM of each release,
# `v1/worker/gpu_worker.py`, `v1/worker/gpu_model_runner.py`,
# `v1/worker/gpu/model_runner.py`, `v1/core/kv_cache_utils.py`, `v1/engine/core.py`.
_FIRST: tuple[tuple[str, str], ...] = (
    ("weights_gib", rf"Model loading took {_GIB}"),
    ("available_kv_gib", rf"Available KV cache memory: {_GIB}"),
    ("kv_tokens", rf"(?:GPU )?KV cache size: {_NUMBER} tokens"),
    ("max_concurrency_len", rf"Maximum concurrency for {_NUMBER} tokens per request"),
    (
        "max_concurrency",
        rf"Maximum concurrency for [\d,]+ tokens per request: {_NUMBER}x",
    ),
    ("num_gpu_blocks", rf"num_gpu_blocks is: {_NUMBER}"),
    ("num_gpu_blocks", rf"# (?:GPU|cuda) blocks: {_NUMBER}"),
    ("cudagraph_estimated_gib", rf"Estimated CUDA graph memory: {_GIB}"),
    ("cudagraph_estimated_gib", rf"\(actual\), {_GIB} \(estimated\)"),
    ("activation_gib", rf"{_GIB} for peak activation"),
    ("activation_gib", rf"torch peak memory increase: {_GIB}"),
    ("non_torch_gib", rf"{_GIB} for non-torch memory"),
    ("non_torch_gib", rf"non-torch forward increase memory: {_GIB}"),
    ("profiled_weights_gib", rf"weights memory: {_GIB}"),
    ("total_non_kv_gib", rf"Total non KV cache memory: {_GIB}"),
    ("free_at_start_gib", rf"Free memory on device (?:\S+ )?\({_NUMBER}/"),
    ("total_gpu_gib", rf"Free memory on device (?:\S+ )?\([\d.]+/{_GIB}\)"),
    ("consumed_gib", rf"{_GIB} for consumed memory"),
    ("encoder_budget_tokens", rf"initialized with a budget of {_NUMBER} tokens"),
    ("needed_kv_gib", rf"\(?{_GIB} KV cache is needed"),
    ("estimated_max_len", rf"estimated maximum model length is {_NUMBER}"),
)
_LAST: tuple[tuple[str, str], ...] = (
    ("cudagraph_gib", rf"Graph capturing finished in [\d.]+ secs?, took {_GIB}"),
    ("cudagraph_gib", rf"CUDA graph pool memory: {_GIB} \(actual\)"),
)
_WHOLE = (
    "kv_tokens",
    "max_concurrency_len",
    "num_gpu_blocks",
    "encoder_budget_tokens",
    "estimated_max_len",
)
_STARTED = (
    "Application startup complete",
    "init engine (profile, create kv cache, warmup model) took",
    "Starting vLLM API server",
    "Starting vLLM server",
)
_ERROR = re.compile(
    r"((?:ValueError|RuntimeError|AssertionError|torch\.(?:cuda\.)?OutOfMemoryError"
    r"|torch\.AcceleratorError|pydantic_core\S*ValidationError): .*)"
)
_WRAPPED = "Engine core initialization failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReading:
    """The figures of one log, under the names that the corpus of start-ups has."""

    figures: Mapping[str, float | int] = field(default_factory=dict)
    """By name; GiB where it ends in _gib, as vLLM rounded them."""
    started: bool | None = None
    """Whether the engine came up; None where the log ends before it is told."""
    error: str | None = None
    """The first error in vLLM's words."""

    def to_dict(self) -> dict[str, float | int | bool | str]:
        """Return what the log says; what it does not say is absent."""
        said: dict[str, float | int | bool | str] = dict(self.figures)
        if self.started is not None:
            said["started"] = self.started
        if self.error is not None:
            said["error"] = self.error
        return said


def read_log(text: str) -> LogReading:
    """Return the figures of a log of vLLM 0.9 to 0.33, or of a part of one.

    >>> read_log("... Available KV cache memory: 51.38 GiB").to_dict()
    {'available_kv_gib': 51.38}
    """
    figures = dict(_found(text))
    error = _error(text)
    if any(words in text for words in _STARTED):
        started: bool | None = True
    else:
        started = None if error is None else False
    return LogReading(figures=figures, started=started, error=error)


def _found(text: str) -> Iterator[tuple[str, float | int]]:
    seen: set[str] = set()
    for name, pattern in _FIRST:
        match = None if name in seen else re.search(pattern, text)
        if match is not None:
            seen.add(name)
            yield name, _value(name, match[1])
    for name, pattern in _LAST:
        matches = [] if name in seen else re.findall(pattern, text)
        if matches:
            seen.add(name)
            yield name, _value(name, matches[-1])


def _value(name: str, digits: str) -> float | int:
    plain = digits.replace(",", "")
    return int(float(plain)) if name in _WHOLE else float(plain)


def _error(text: str) -> str | None:
    """Return the first error that says what went wrong."""
    for line in text.splitlines():
        match = _ERROR.search(line)
        if match is not None and _WRAPPED not in match[1]:
            return match[1].strip()
    return None
