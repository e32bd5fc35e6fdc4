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
