"""What the lines that depend on vLLM's profile run need to know, in one value."""

from __future__ import annotations

from dataclasses import dataclass

from planner.dtypes import element_bytes
from planner.gpu import GPU
from planner.model import ModelArchitecture, Tower
from planner.parallel import ParallelLayout
from planner.releases import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRun:
    """One rank's profile run: `max_num_batched_tokens` tokens of `max_num_seqs`.

    Source: vLLM 0.33.0 `v1/worker/gpu/model_runner.py` profile_run.
    """

    model: ModelArchitecture
    gpu: GPU
    layout: ParallelLayout
    dtype: str
    max_num_batched_tokens: int
    max_num_seqs: int
    max_model_len: int = 0
    """Tokens of the longest request, by which latent attention sizes its context."""
    block_size: int = 16
    """Tokens in a block of the KV cache."""
    enforce_eager: bool = False
    pp_rank: int = 0
    num_layers: int = 1
    """Decoder layers of the stage."""
    is_first_stage: bool
    is_last_stage: bool
    uses_flashinfer_sampler: bool
    towers: tuple[tuple[Tower, ParallelLayout], ...] = ()
    """The towers that are built, with the ranks over which each is cut."""
    mm_limits: tuple[tuple[str, int], ...] = ()
    """Items of each of their modalities that a prompt may hold."""
    skip_mm_profiling: bool = False
    forces_v2_runner: bool | None = None
    """VLLM_USE_V2_MODEL_RUNNER; None where it is not set."""

    @property
    def element_size(self) -> int:
        """Bytes of one activation."""
        return element_bytes(self.dtype)

    @property
    def release(self) -> Release:
        """Of vLLM."""
        return self.layout.release

    @property
    def samples(self) -> bool:
        """Whether this rank turns hidden states into tokens."""
        return self.is_last_stage and not self.model.is_pooling
