"""How far a start is, told from vLLM's log lines of every release."""

from __future__ import annotations

from enum import StrEnum


class StartStage(StrEnum):
    """The stages of a confirmation, in their order."""

    CHECKING = "checking"
    """Memory, GPU, vLLM's installation; nothing runs yet."""
    STARTING = "starting"
    """vLLM imports itself and resolves its arguments."""
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
        """Share of the stages that lie behind, 0 to 1, for a progress bar."""
        stages = list(StartStage)
        return stages.index(self) / (len(stages) - 1)


class StageTracker:
    """The stage of one start; it only moves forward."""

    def __init__(self) -> None:
        self.stage = StartStage.CHECKING

    @property
    def fraction(self) -> float:
        """Share of the whole run that lies behind, 0 to 1."""
        return self.stage.fraction

    def advance(self, line: str) -> StartStage:
        """Take note of a line of vLLM's log and return the stage."""
        found = stage_of(line)
        return self.stage if found is None else self.reach(found)

    def reach(self, stage: StartStage) -> StartStage:
        """Go on to a stage, never back, and return the stage."""
        stages = list(StartStage)
        self.stage = max(self.stage, stage, key=stages.index)
        return self.stage


def stage_of(line: str) -> StartStage | None:
    """Return the stage that a line of the log tells of, if any."""
    for words, stage in _WORDS:
        if words in line:
            return stage
    return None


_WORDS = (
    ("Starting to load model", StartStage.LOADING),
    ("Model loading took", StartStage.COMPILING),
    ("Warming up model for the compilation", StartStage.COMPILING),
    ("Available KV cache memory", StartStage.KV_CACHE),
    ("GiB for KV cache on node", StartStage.KV_CACHE),
)
