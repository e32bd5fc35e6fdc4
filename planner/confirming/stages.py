"""The progress of a start, from the log lines of every release of vLLM."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from planner.confirming.log.lines import lines_of
from planner.units import whole_number


class StartStage(StrEnum):
    """The stages of a confirmation, in their order."""

    CHECKING = "checking"
    """Memory, GPU and vLLM's installation are checked; nothing runs yet."""
    STARTING = "starting"
    """vLLM is imported and resolves its arguments."""
    LOADING = "loading weights"
    COMPILING = "compiling"
    PROFILING = "profiling"
    KV_CACHE = "KV cache"
    CAPTURING = "capturing graphs"
    READY = "ready"
    GENERATING = "generating"
    LOAD = "load probe"
    STOPPING = "stopping"
    DONE = "done"

    @property
    def fraction(self) -> float:
        """Completed share of the stages, 0 to 1, for a progress bar."""
        return self.position / (len(StartStage) - 1)

    @property
    def position(self) -> int:
        """Place among the stages, from 0."""
        return list(StartStage).index(self)


# Words in the first line of each stage, the last stage first: a line of an early stage
# may have words of a later one's configuration. Source: vLLM 0.10 to 0.33,
# `v1/engine/core.py`, `v1/worker/gpu_model_runner.py`, `v1/worker/gpu/model_runner.py`,
# `v1/worker/gpu/cudagraph_utils.py`, `v1/worker/gpu_worker.py`, `cpu_model_runner.py`,
# `cpu_worker.py`, `v1/core/kv_cache_utils.py`, `compilation/`,
# `model_executor/model_loader/`, `entrypoints/`.
_WORDS: Mapping[StartStage, str] = {
    StartStage.READY: (
        r"Application startup complete|Uvicorn running on"
        r"|vLLM gRPC server started|API server: HTTP server started"
    ),
    StartStage.CAPTURING: (
        r"^Capturing .*?(?:CUDA|XPU|ACL) ?graph|^CG Capture:"
        r"|[Gg]raph capturing finished|CUDA graph pool memory:"
        r"|^JIT kernel warmup|DeepGEMM warmup|Warming up FlashInfer"
    ),
    StartStage.KV_CACHE: (
        r"Available KV cache memory|KV cache size: |GiB for KV cache on node"
        r"|memory for KV Cache as specified|Auto-fit max_model_len"
        r"|Applying persisted startup plan|VLLM_CPU_KVCACHE_SPACE not set"
    ),
    StartStage.PROFILING: (
        r"Encoder cache will be initialized|Skipping memory profiling"
        r"|Initial profiling/warmup run|Profiling CUDA graph memory"
        r"|Memory profiling takes|Estimated CUDA graph memory"
        r"|torch\.compile .*t(?:akes|ook) [\d.]+ s in total|^Warming up done"
    ),
    StartStage.COMPILING: (
        r"Using cache directory: .* torch\.compile|Dynamo bytecode transform"
        r"|Directly load (?:the compiled|AOT)|Compiling (?:a graph|model) "
        r"|sav(?:ed|ing) AOT compiled|Starting torch\.compile|Start compiling"
        r"|Cache the graph|Warming up model for the compilation"
        r"|Model loading took|Loading model weights took"
        r"|torch\.compile cache is disabled|reconstruct(?:ed|ing) serializable fn"
    ),
    StartStage.LOADING: (
        r"Starting to load (?:draft )?model|Loading model from scratch"
        r"|^Loading .*(?:shards|Streamer|loader):"
        r"|Loading weights|Multi-thread loading|Initializing model took"
        r"|Loading drafter model|Time spent downloading weights"
    ),
    StartStage.STARTING: (
        r"vLLM (?:API )?server version|█\s+version \d|non-default args"
        r"|Initializing a V1 LLM engine|Resolved architecture|Using max model len"
    ),
}
_STAGES = {stage: re.compile(words) for stage, words in _WORDS.items()}
_EAGER = re.compile(
    r"Enforce eager set, disabling torch\.compile"
    r"|Cudagraph is disabled under eager mode"
)
_BAR = re.compile(
    r"(?P<name>[A-Z][^|%]*?):\s+(?P<percent>\d{1,3})%[^/]*?"
    r"(?P<done>[\d.]+\w?)/(?P<all>[\d.]+\w?)"
)


def stage_of(line: str) -> StartStage | None:
    """Return the stage that a line of vLLM's log shows; None for other lines.

    >>> stage_of("(EngineCore pid=7) Available KV cache memory: 6.0 GiB")
    <StartStage.KV_CACHE: 'KV cache'>
    """
    found = [_stage(part.text) for part in lines_of(line)]
    reached = [stage for stage in found if stage is not None]
    return max(reached, key=lambda stage: stage.position, default=None)


def progress_of(line: str) -> float | None:
    """Return the completed share of a stage, 0 to 1; None for a line without a bar.

    Bars end in carriage returns: of several in one line, the last counts.

    >>> progress_of("Loading safetensors checkpoint shards:  50% Completed | 2/4")
    0.5
    """
    found = [
        bar
        for part in lines_of(line)
        for bar in _BAR.finditer(part.text)
        if _stage(bar["name"] + ":") in {StartStage.LOADING, StartStage.CAPTURING}
    ]
    if not found:
        return None
    done, total = whole_number(found[-1]["done"]), whole_number(found[-1]["all"])
    if done is None or total is None:  # 13.3G of 155G
        return min(int(found[-1]["percent"]) / 100, 1.0)
    return min(done / total, 1.0) if total else None


def _stage(text: str) -> StartStage | None:
    message = text.lstrip()
    for stage, pattern in _STAGES.items():
        if pattern.search(message):
            return stage
    return None


class StageTracker:
    """The stage of one start; it only moves forward.

    A trial capture of graphs, which measures them before the KV cache is allocated, and
    a second engine that is behind the first do not change it.
    """

    def __init__(self) -> None:
        self.stage = StartStage.CHECKING
        self.reached = [self.stage]
        """Every stage until now: an eager start captures no graphs."""
        self._progress = 0.0
        self._is_eager = False

    @property
    def fraction(self) -> float:
        """Completed share of the whole run, 0 to 1."""
        position = self.stage.position + self._progress
        return min(position / (len(StartStage) - 1), 1.0)

    @property
    def progress(self) -> float:
        """Completed share of this stage, 0 to 1; 0 if no line shows it."""
        return self._progress

    def advance(self, line: str) -> StartStage:
        """Read a line of vLLM's log and return the stage."""
        self._is_eager = self._is_eager or _EAGER.search(line) is not None
        found = stage_of(line)
        if found is None or self._is_trial(found):
            return self.stage
        if found is StartStage.COMPILING and self._is_eager:
            found = StartStage.PROFILING
        self.reach(found)
        if found is self.stage:
            self._progress = max(self._progress, progress_of(line) or 0.0)
        return self.stage

    def reach(self, stage: StartStage) -> StartStage:
        """Move forward to a stage, never back, and return the current stage."""
        if stage.position > self.stage.position:
            self.stage, self._progress = stage, 0.0
            self.reached.append(stage)
        return self.stage

    def _is_trial(self, stage: StartStage) -> bool:
        """Return whether graphs are captured only to measure them."""
        is_early = self.stage.position < StartStage.KV_CACHE.position
        return stage is StartStage.CAPTURING and is_early
