"""The reading of a log: its figures by name, its outcome and its settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from planner.confirming.log.lines import (
    LogLine,
    excerpt_of_start,
    joined_lines_of,
    lines_of,
    may_tell,
)
from planner.confirming.log.outcome import (
    READY,
    begins_with_start,
    outcome_of,
)
from planner.confirming.log.sentences import Figure, figures_of, noted_figures
from planner.confirming.log.setting import (
    Argument,
    LogSetting,
    seconds_between,
    setting_of,
)
from planner.confirming.log.starts import StartText, starts_in
from planner.confirming.log.usage import usage_in
from planner.given import named_in_errors
from planner.values import frozen

OF_VLLM = re.compile(
    r"\bvLLM (?:API )?server|LLM engine \(v|\bEngineCore|vllm serve\b|/vllm/|\bvllm\."
    r"|init engine \(profile|for the cache blocks|gpu_memory_utilization"
    r"|serve at least one request with the model|User-specified max_model_len"
    r"|Starting vLLM|vllm-openai|-gpu-memory-utilization|\bvLLM\b|dummy requests"
    r"|█\s+version \d|Avg prompt throughput:"
    r"|max[_-]model[_-]len|max[_-]num[_-](?:seqs|batched)|enforce[_-]eager",
)
"""Words that only a log of vLLM, or a quote from one, has."""
_SHORTEST = 12
"""Characters of a line that is part of an error's sentence."""
_AFTER = 500
"""Lines that are read for figures after a start's end: not days of requests."""
_PROCESSES = re.compile(r"EngineCore|VllmWorker|A(?:PI|pi)Server|Worker(?:_|$)")
_TORCH_NO_MEMORY = re.compile(
    r"(?:[\w.]*OutOfMemoryError: )?(?:CUDA out of memory\. )?"
    r"Tried to allocate [\d.]+ [KMG]iB\b[^\n]*"
)
_NO_MEMORY = re.compile(r"\bOOM\b|out of memory|-> ValueError", re.IGNORECASE)
"""Words for a failed start in people's notes."""
_OF_V0 = re.compile(r"# \w+ blocks:")
"""Logged by V0, which refused a concurrency below 1; V1 counts differently."""
_FIGURES_OF_A_START = (
    "available_kv_gib",
    "kv_tokens",
    "num_gpu_blocks",
    "max_concurrency",
    "cudagraph_gib",
)
"""Figures that people quote of a successful start."""
_A_SIZE = r"(\d+(?:\.\d+)?) ([KMG]iB)"
_ALLOCATION = {
    "tried_bytes": rf"Tried to allocate {_A_SIZE}",
    "total_bytes": rf"total capacity of {_A_SIZE}|{_A_SIZE} total capacity",
    "free_bytes": rf"(?:of which|only|;) {_A_SIZE} (?:is |was )?free",
    "in_use_bytes": rf"this process has {_A_SIZE} memory in use",
    "torch_bytes": rf"{_A_SIZE} (?:is )?(?:already )?allocated(?: by PyTorch|;)",
    "reserved_bytes": rf"{_A_SIZE} is reserved by PyTorch but unallocated",
    "graphs_bytes": rf"{_A_SIZE} (?:allocated )?in private pools",
}
_OTHER_PROCESS = re.compile(rf"Process (\d+) has {_A_SIZE} memory in use")
_BYTES_OF = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


@frozen
class Allocation:
    """PyTorch's account of the allocation that failed; None where it has no figure.

    Its sizes are rounded to 0.01 of their unit.

    Source: PyTorch 2.9 `c10/cuda/CUDACachingAllocator.cpp` malloc; before 2.1 shorter.
    """

    tried_bytes: int | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    in_use_bytes: int | None = None
    """What this process holds, PyTorch's and other memory."""
    torch_bytes: int | None = None
    """Allocated by PyTorch."""
    reserved_bytes: int | None = None
    """Reserved by PyTorch, but unallocated: fragments."""
    graphs_bytes: int | None = None
    """Of what PyTorch allocated, in private pools such as those of CUDA graphs."""
    others: tuple[tuple[int, int], ...] = ()
    """Other processes on the GPU: process id and bytes in use."""


def allocation_in(text: str) -> Allocation | None:
    """Return the first failed allocation that a text reports; None without one.

    >>> error = "Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 23.52 GiB"
    >>> allocation_in(error).tried_bytes
    20971520
    """
    begin = text.find("Tried to allocate")
    if begin < 0:
        return None
    words = " ".join(text[begin : begin + 1200].split())
    words = words[
        : words.find("Tried to allocate", 1) if "Tried" in words[1:] else None
    ]
    sizes = {name: _size(re.search(one, words)) for name, one in _ALLOCATION.items()}
    others = {
        int(match[1]): _size_of(match[2], match[3])
        for match in _OTHER_PROCESS.finditer(words)
    }
    return Allocation(**sizes, others=tuple(others.items()))


def _size(match: re.Match[str] | None) -> int | None:
    parts = [part for part in match.groups() if part] if match else []
    return _size_of(parts[0], parts[1]) if parts else None


def _size_of(digits: str, unit: str) -> int:
    return round(float(digits) * _BYTES_OF[unit])


@frozen
class LogReading:
    """What one start of vLLM logged, as `read_log` chooses it from several."""

    figures: Mapping[str, Figure] = field(default_factory=dict)
    """By name, as vLLM rounded them; a name that ends in _gib is in GiB."""
    started: bool | None = None
    """Whether the engine started; None if the log ends before that."""
    error: str | None = None
    """The error that stopped it: its type, then vLLM's words."""
    later_error: str | None = None
    """The first error after the start: of a request, or of the running engine."""
    is_vllm: bool = False
    """Whether this is a log of vLLM; False if nothing of vLLM was recognised."""
    num_starts: int = 0
    """Number of starts in the log."""
    setting: LogSetting = field(default_factory=LogSetting)
    seconds: float = 0.0
    """From the first line until it was ready or failed; 0.0 if no line has a time."""

    @property
    def vllm_version(self) -> str | None:
        """As vLLM wrote it, such as 0.20.1rc1.dev16+g7a1eb8ac2."""
        return self.setting.vllm_version

    @property
    def model(self) -> str | None:
        """The model's name or folder, as it was given."""
        return self.setting.model

    @property
    def arguments(self) -> Mapping[str, Argument]:
        """vLLM's "non-default args", else those of the engine's configuration."""
        return self.setting.arguments or self.setting.resolved

    @property
    def total_gib(self) -> float | None:
        """The GPU's memory: as logged, else the budget divided by its share."""
        logged = self.figures.get("total_gpu_gib")
        wanted = self.figures.get("requested_gib")
        share = self.setting.shown.get("gpu_memory_utilization")
        if logged or not wanted or not isinstance(share, float) or not 0 < share <= 1:
            return logged
        return round(wanted / share, 2)

    @property
    def peak_activation_gib(self) -> float | None:
        """The peak without the graphs' estimate, which some releases include."""
        peak = self.figures.get("activation_gib")
        if peak is None or not self.setting.is_estimate_in_peak:
            return peak
        return round(peak - self.figures.get("cudagraph_estimated_gib", 0.0), 2)

    @property
    def is_compile_cache_cold(self) -> bool | None:
        """Whether the model was compiled in this start; None if unknown."""
        return self.setting.is_compile_cache_cold

    @property
    def compile_cache(self) -> str | None:
        """Which start it was: cold (it compiled the model), warm, or None: unknown."""
        words = {True: "cold", False: "warm", None: None}
        return words[self.is_compile_cache_cold]

    @property
    def sampler(self) -> str | None:
        """Which code samples tokens: flashinfer, pytorch, or None: unknown."""
        return self.setting.sampler

    @property
    def message(self) -> str | None:
        """The error without its type, for comparison with a plan's."""
        if self.error is None:
            return None
        return re.sub(r"^[\w.]+(?:Error|Exception|NotFound): ", "", self.error)

    def to_dict(self) -> dict[str, float | int | bool | str]:
        """Return figures, outcome and error, without those that the log lacks."""
        values: dict[str, float | int | bool | str] = dict(self.figures)
        if self.compile_cache is not None:
            values["compile_cache"] = self.compile_cache
        if self.sampler is not None:
            values["sampler"] = self.sampler
        if self.started is not None:
            values["started"] = self.started
        if self.error is not None:
            values["error"] = self.error
        return values


@named_in_errors
def read_log(text: str) -> LogReading:
    """Return the reading of a log of vLLM, or of a part, of any release from 0.2 on.

    Of several starts in one log, the last with figures or an outcome counts. Of several
    ranks, the one that limits the plan counts: most weights, least memory left. Of a
    log of many megabytes, its head, its last start and its end are read.

    >>> read_log("... Available KV cache memory: 51.38 GiB").figures
    {'available_kv_gib': 51.38}
    >>> read_log("ollama: model loaded").is_vllm
    False
    """
    first, *others = starts_in(text)
    return read_start(first, num_starts=1 + len(others))


def read_start(start: StartText, num_starts: int = 1) -> LogReading:
    """Return the reading of one start in a log that holds so many."""
    excerpt = excerpt_of_start(start)
    reading = _reading(lines_of(excerpt))
    joined = joined_lines_of(excerpt)
    if joined is not None:
        other = _reading(joined)
        fuller = max(reading, other, key=lambda one: len(one.figures))
        reading = replace(fuller, figures={**reading.figures, **other.figures})
    return replace(reading, num_starts=num_starts if reading.is_vllm else 0)


def is_telling(line: str, read: LogReading) -> bool:
    """Return whether a line gave a log's reading a figure, a setting or its outcome."""
    for one in lines_of(line):
        words = one.text.strip()
        if len(words) > _SHORTEST and words in (read.error or ""):
            return True
        if may_tell(line) and (
            READY.search(words)
            or figures_of(words)
            or setting_of(words) != LogSetting()
        ):
            return True
    return False


def _reading(lines: Sequence[LogLine]) -> LogReading:
    if not lines:
        return LogReading()
    outcome = outcome_of(lines)
    start = lines[: outcome.end + _AFTER]
    text = "\n".join(line.text for line in start)
    is_log = any(line.level for line in start)
    figures = figures_of(text) | usage_in(text)
    if not is_log:
        figures = noted_figures(text, figures)
    if not (figures or _is_vllm(text, start)):
        return _out_of_memory(text)
    started = outcome.is_started
    if started is None and not begins_with_start(start):
        started = _quoted(text, figures, is_note=not is_log)
    return LogReading(
        figures=_kept(figures, start),
        started=started,
        error=outcome.error,
        later_error=outcome.later_error,
        is_vllm=True,
        setting=setting_of(text),
        seconds=seconds_between(start[: outcome.end]),
    )


def _out_of_memory(text: str) -> LogReading:
    """Return PyTorch's out-of-memory error, often all that is quoted of a start.

    Nothing in it shows that it is vLLM's.
    """
    sentence = _TORCH_NO_MEMORY.search(text)
    if sentence is None:
        return LogReading()
    return LogReading(started=False, error=sentence[0].strip())


def _is_vllm(text: str, lines: Sequence[LogLine]) -> bool:
    return bool(OF_VLLM.search(text)) or any(
        _PROCESSES.match(line.process) for line in lines
    )


def _quoted(text: str, figures: Mapping[str, Figure], *, is_note: bool) -> bool | None:
    """Return whether the engine started, from a part of its log that was quoted.

    A log that has the beginning of a start must also have its outcome. In a quote,
    figures show it: a missing KV cache is a refusal, an allocated one is a start.
    """
    is_refused = (
        "needed_kv_gib" in figures
        or figures.get("available_kv_gib", 1) <= 0
        or (figures.get("max_concurrency", 1) < 1 and _OF_V0.search(text) is not None)
    )
    if is_refused or (is_note and _NO_MEMORY.search(text)):
        return False
    return True if any(name in figures for name in _FIGURES_OF_A_START) else None


def _kept(
    figures: Mapping[str, Figure], lines: Sequence[LogLine]
) -> Mapping[str, Figure]:
    """Remove the graphs of a trial capture if no real capture followed it.

    The second model runner captures once before it allocates the KV cache, to measure,
    and logs the same sentence as later. Source: vLLM 0.33.0 `v1/worker/gpu/
    model_runner.py` profile_cudagraph_memory.
    """
    captures = _numbers(r"Graph capturing finished", lines)
    caches = _numbers(r"Available KV cache memory|KV cache size", lines)
    is_trial = captures and caches and captures[-1] < caches[0]
    if not is_trial or not lines[captures[-1]].level:
        return figures
    return {name: value for name, value in figures.items() if name != "cudagraph_gib"}


def _numbers(pattern: str, lines: Sequence[LogLine]) -> list[int]:
    return [
        number for number, line in enumerate(lines) if re.search(pattern, line.text)
    ]
