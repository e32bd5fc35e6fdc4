"""A log's reading: its figures under the corpus's names, and what else it tells."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.log.lines import LogLine, joined_lines_of, lines_of
from planner.log.notes import noted_figures
from planner.log.outcome import outcome_of
from planner.log.sentences import Figure, figures_of
from planner.log.setting import Argument, Setting, seconds_between, setting_of
from planner.log.starts import begins_with_start, last_telling, starts_of

_OF_VLLM = re.compile(
    r"\bvLLM (?:API )?server|LLM engine \(v|\bEngineCore|vllm serve\b|/vllm/|\bvllm\."
    r"|init engine \(profile|for the cache blocks|gpu_memory_utilization"
    r"|serve at least one request with the model|User-specified max_model_len"
    r"|Starting vLLM|vllm-openai|-gpu-memory-utilization|\bvLLM\b|dummy requests"
    r"|█\s+version \d"
    r"|max[_-]model[_-]len|max[_-]num[_-](?:seqs|batched)|enforce[_-]eager",
)
"""What only a log of vLLM, or a quote from one, says."""
_AFTER = 500
"""So many lines after the end of a start are read for figures: not days of requests."""
_PROCESSES = re.compile(r"EngineCore|VllmWorker|A(?:PI|pi)Server|Worker(?:_|$)")
_TORCH_NO_MEMORY = re.compile(
    r"(?:[\w.]*OutOfMemoryError: )?(?:CUDA out of memory\. )?"
    r"Tried to allocate [\d.]+ [KMG]iB\b[^\n]*"
)
_NO_MEMORY = re.compile(r"\bOOM\b|out of memory|-> ValueError", re.IGNORECASE)
"""How people say in a note that a start failed."""
_OF_V0 = re.compile(r"# \w+ blocks:")
"""V0 refused what it could not run at full length once; V1 counts otherwise."""
_RUNS = (
    "available_kv_gib",
    "kv_tokens",
    "num_gpu_blocks",
    "max_concurrency",
    "cudagraph_gib",
)
"""Figures that people quote of a start that came up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReading:
    """What one start of vLLM logged; the last that tells something, if several."""

    figures: Mapping[str, Figure] = field(default_factory=dict)
    """By name; GiB where it ends in _gib, as vLLM rounded them."""
    started: bool | None = None
    """Whether the engine came up; None where the log ends before it is told."""
    error: str | None = None
    """What kept it from that, in vLLM's words after the error's type."""
    later_error: str | None = None
    """The first error after it was up: of a request, or of the engine at work."""
    is_vllm: bool = False
    """Whether this is a log of vLLM; False: nothing of vLLM was recognised."""
    num_starts: int = 0
    """How many starts the log holds."""
    setting: Setting = field(default_factory=Setting)
    seconds: float = 0.0
    """From the first line until it was up, or failed; 0.0 where no line has a time."""

    @property
    def vllm_version(self) -> str | None:
        """As vLLM wrote it, as in 0.20.1rc1.dev16+g7a1eb8ac2."""
        return self.setting.vllm_version

    @property
    def model(self) -> str | None:
        """The model's name or folder, as it was given."""
        return self.setting.model

    @property
    def arguments(self) -> Mapping[str, Argument]:
        """vLLM's "non-default args", else what the engine's configuration shows."""
        return self.setting.arguments or self.setting.resolved

    @property
    def peak_activation_gib(self) -> float | None:
        """The peak without the graphs' estimate, which some releases count in it."""
        peak = self.figures.get("activation_gib")
        if peak is None or not self.setting.is_estimate_in_peak:
            return peak
        return round(peak - self.figures.get("cudagraph_estimated_gib", 0.0), 2)

    @property
    def is_compile_cache_cold(self) -> bool | None:
        """Whether the model was compiled anew; None where the log does not tell."""
        return self.setting.is_compile_cache_cold

    @property
    def message(self) -> str | None:
        """The error without its type, to be laid beside a plan's."""
        if self.error is None:
            return None
        return re.sub(r"^[\w.]+(?:Error|Exception|NotFound): ", "", self.error)

    def to_dict(self) -> dict[str, float | int | bool | str]:
        """Return what the log says; what it does not say is absent."""
        said: dict[str, float | int | bool | str] = dict(self.figures)
        if self.started is not None:
            said["started"] = self.started
        if self.error is not None:
            said["error"] = self.error
        return said


def read_log(text: str) -> LogReading:
    """Return what a log of vLLM says, or a part of one, of any release from 0.2 on.

    Of several starts in one log the last counts that tells anything. Of several ranks
    the one that limits the plan counts: most weights, least memory left.

    >>> read_log("... Available KV cache memory: 51.38 GiB").figures
    {'available_kv_gib': 51.38}
    >>> read_log("ollama: model loaded").is_vllm
    False
    """
    reading = _reading(lines_of(text))
    joined = joined_lines_of(text)
    if joined is None:
        return reading
    other = _reading(joined)
    told = max(reading, other, key=lambda one: len(one.figures))
    return replace(told, figures={**reading.figures, **other.figures})


def _reading(lines: Sequence[LogLine]) -> LogReading:
    if not lines:
        return LogReading()
    starts = starts_of(lines)
    start = last_telling(starts)
    outcome = outcome_of(start)
    start = start[: outcome.end + _AFTER]
    said = "\n".join(line.text for line in start)
    is_log = any(line.level for line in start)
    figures = figures_of(said)
    if not is_log:
        figures = noted_figures(said, figures)
    if not (figures or _is_vllm(said, start)):
        return _out_of_memory(said)
    started = outcome.is_started
    if started is None and not begins_with_start(start):
        started = _quoted(said, figures, is_note=not is_log)
    return LogReading(
        figures=_kept(figures, start),
        started=started,
        error=outcome.error,
        later_error=outcome.later_error,
        is_vllm=True,
        num_starts=len(starts),
        setting=setting_of(said),
        seconds=seconds_between(start[: outcome.end]),
    )


def _out_of_memory(said: str) -> LogReading:
    """Return what PyTorch says of a full GPU, all that is often quoted of a start.

    Nothing shows that it was vLLM's.
    """
    sentence = _TORCH_NO_MEMORY.search(said)
    if sentence is None:
        return LogReading()
    return LogReading(started=False, error=sentence[0].strip())


def _is_vllm(said: str, lines: Sequence[LogLine]) -> bool:
    return bool(_OF_VLLM.search(said)) or any(
        _PROCESSES.match(line.process) for line in lines
    )


def _quoted(said: str, figures: Mapping[str, Figure], *, is_note: bool) -> bool | None:
    """Return whether the engine came up, from what somebody quotes of its log.

    A log that begins with a start must say how it ends. Of a quote the figures tell:
    what is needed and not there is a refusal, what was made room for is a start.
    """
    is_refused = (
        "needed_kv_gib" in figures
        or figures.get("available_kv_gib", 1) <= 0
        or (figures.get("max_concurrency", 1) < 1 and _OF_V0.search(said) is not None)
    )
    if is_refused or (is_note and _NO_MEMORY.search(said)):
        return False
    return True if any(name in figures for name in _RUNS) else None


def _kept(
    figures: Mapping[str, Figure], lines: Sequence[LogLine]
) -> Mapping[str, Figure]:
    """Leave out the graphs of a trial capture that no real one followed.

    The newer model runner captures once before the KV cache is made, to measure, and
    writes the same sentence as later. Source: vLLM 0.33.0 `v1/worker/gpu/
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
