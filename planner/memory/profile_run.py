"""A profile run: all inputs of the lines that depend on it, as one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from functools import lru_cache, wraps
from typing import Any, TypeVar

from planner.engine.dtypes import element_bytes
from planner.engine.environment import Environment
from planner.engine.gpu import GPU
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.memory.compilation import GraphMode
from planner.models.architecture import DummySizes, ModelArchitecture, Tower
from planner.units import MIB
from planner.values import frozen

_Figure = TypeVar("_Figure")

_REMEMBERED = 256
"""More than the batches of a sweep over lengths and sequences."""
_CHUNKS_EXPERTS = Change(
    until=(0, 18),
    what="Experts process at most VLLM_FUSED_MOE_CHUNK_SIZE tokens at once.",
    source="vLLM 0.9.2 to 0.17.1 `envs.py` VLLM_FUSED_MOE_CHUNK_SIZE",
)
_CHUNKS_EXPERTS_BY_16384 = Change(
    since=(0, 12),
    what=(
        "VLLM_FUSED_MOE_CHUNK_SIZE, the tokens that experts process at once, is 16,384 "
        "by default; before, 32,768."
    ),
    source="vLLM 0.9.2 to 0.17.1 `envs.py` VLLM_FUSED_MOE_CHUNK_SIZE",
)
_HAS_CONFIRMED_PEAKS = Change(
    until=(0, 21),
    what=(
        "The first model runner's sampler has a peak that logs of starts confirm to a "
        "few MiB."
    ),
)


def once(
    function: Callable[[ProfileRun], _Figure],
) -> Callable[[ProfileRun], _Figure]:
    """Compute a figure of a profile run once, however many lines use it."""
    key = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def remembered(run: ProfileRun) -> _Figure:
        if key not in run.memo:
            run.memo[key] = function(run)
        figure: _Figure = run.memo[key]
        return figure

    return remembered


def once_for_all_lengths(
    function: Callable[[ProfileRun], _Figure],
) -> Callable[[ProfileRun], _Figure]:
    """Compute a figure once for all runs that differ only in their longest request.

    The function receives a run without a length, so that it cannot depend on it.
    """
    computed = once(function)

    @wraps(function)
    def remembered(run: ProfileRun) -> _Figure:
        return computed(run.without_length)

    return remembered


@frozen
class ProfileRun:
    """One rank's profile run: `max_num_batched_tokens` tokens, `max_num_seqs` requests.

    Source: vLLM 0.33.0 `v1/worker/gpu/model_runner.py` profile_run.
    """

    model: ModelArchitecture
    gpu: GPU
    layout: ParallelLayout
    interconnect: str | None = None
    """What joins the GPUs of a machine; None: as this GPU usually has it."""
    dtype: str
    max_num_batched_tokens: int
    max_num_seqs: int
    is_batch_given: bool = False
    """Whether the user set max_num_batched_tokens."""
    max_model_len: int = 0
    """Tokens of the longest request, from which latent attention sizes its context."""
    block_size: int = 16
    """Tokens in a block of the KV cache."""
    env: Environment = Environment()
    enforce_eager: bool = False
    is_compiled: bool = True
    """Whether vLLM compiles the model."""
    compile_cache: str | None = None
    """cold (a first start) or warm (a later one); None: not known."""
    embedding_factor_bytes: int = 0
    """The adapters' first factors of the word embeddings."""
    may_fuse_all_reduce: bool = True
    """Whether compilation may fuse all-reduce with the norm that follows it."""
    graph_mode: GraphMode = GraphMode.FULL_AND_PIECEWISE
    """What the CUDA graphs capture."""
    capture_sizes: tuple[int, ...] = ()
    """Batch sizes of the CUDA graphs; none in eager mode."""
    graph_cases: int = 1
    """Graphs of each size: more than one where batches with adapters have their own."""
    kv_cache_dtype: str = "auto"
    pp_rank: int = 0
    num_layers: int = 1
    """Decoder layers of the stage."""
    is_first_stage: bool
    is_last_stage: bool
    uses_v2_runner: bool = True
    use_flashinfer_sampler: bool | None = None
    """VLLM_USE_FLASHINFER_SAMPLER, or the user's word; None where neither is set."""
    towers: tuple[tuple[Tower, ParallelLayout], ...] = ()
    """The towers that are built, each with the ranks over which it is sharded."""
    mm_limits: tuple[tuple[str, int], ...] = ()
    """Items per prompt of each of their modalities."""
    mm_settings: tuple[tuple[str, int], ...] = ()
    """The entries of mm_processor_kwargs that determine sizes."""
    mm_sizes: tuple[tuple[str, DummySizes], ...] = ()
    """Sizes of limit_mm_per_prompt, by modality."""
    divides_items: bool = False
    """Whether ranks divide whole items among them (mm_encoder_tp_mode="data")."""
    skip_mm_profiling: bool = False
    embeds_only: tuple[Tower, ...] = ()
    """Towers that are not served, but whose embeddings requests may contain."""
    eplb_window: int = 1000
    """Steps over which the load of experts is recorded, with EPLB."""
    takes_prompt_embeds: bool = False
    """Whether prompts may be vectors, which needs a buffer for them."""
    decoding_bytes: int = 0
    """Subtracted from the KV cache for videos that API servers decode."""

    memo: dict[str, Any] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    """Figures that are already computed, by the name of their function."""

    @property
    def element_size(self) -> int:
        """Bytes of one activation."""
        return element_bytes(self.dtype)

    @property
    def release(self) -> Release:
        """The vLLM release."""
        return self.layout.release

    @property
    def flashinfer_buffer_bytes(self) -> int:
        """FlashInfer's workspace.

        Source: vLLM 0.33.0 `envs.py` VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE.
        """
        return self.env.flashinfer_workspace_bytes or 394 * MIB

    @property
    def expert_chunk_tokens(self) -> int | None:
        """Tokens that experts process at once; None: all of them."""
        usual = _expert_chunk_tokens(self.release)
        if usual is None:
            return None
        return self.env.fused_moe_chunk_size or usual

    @property
    def num_requests(self) -> int:
        """Requests in the profile run: their blocks of draft tokens must fit in a step.

        Source: vLLM 0.31.0 `v1/worker/gpu/model_runner.py` _dummy_run
        (num_query_per_req).
        """
        speculation = self.model.speculation
        each = 1
        if speculation and speculation.guesses_at_once:
            each = speculation.num_lookahead_tokens
        return min(self.max_num_seqs, max(1, self.max_num_batched_tokens // each))

    @property
    def is_verified(self) -> bool:
        """Whether logs of starts confirm the release's peaks to a few MiB."""
        return not self.uses_v2_runner and self.release.has(_HAS_CONFIRMED_PEAKS)

    @property
    def peak_spread_percent(self) -> int:
        """Uncertainty of the sampler's peak."""
        return 1 if self.is_verified else 15

    @property
    def forward_spread_percent(self) -> int:
        """Uncertainty of the forward pass."""
        return 10

    @property
    def without_length(self) -> ProfileRun:
        """The same run without its longest request; one object for all lengths."""
        if "without_length" not in self.memo:
            alike = _first_alike(replace(self, max_model_len=0))
            self.memo["without_length"] = alike
        run: ProfileRun = self.memo["without_length"]
        return run

    @property
    def depends_on_length(self) -> bool:
        """Whether a line of the budget depends on the longest request.

        Latent attention sizes its context by it, encoders their items, and n-gram
        speculation its table of all tokens.
        """
        return (
            bool(self.towers)
            or self.model.has_latent_attention
            or self.gpu.is_cpu
            or self.model.speculation is not None
        )

    @property
    def compiles(self) -> bool:
        """Whether the model runs compiled."""
        return self.is_compiled and not self.enforce_eager

    @property
    def has_media(self) -> bool:
        """Whether requests may contain images, sounds or their embeddings.

        Source: vLLM 0.33.0 `config/model.py` supports_multimodal_inputs (not
        where all limits are 0).
        """
        return bool(self.towers or self.embeds_only)

    @property
    def has_adapters(self) -> bool:
        """Whether it starts with slots for adapters of the word embeddings."""
        return self.embedding_factor_bytes > 0

    @property
    def samples(self) -> bool:
        """Whether this rank samples tokens."""
        return self.is_last_stage and not self.model.is_pooling


def _expert_chunk_tokens(release: Release) -> int | None:
    """Return the tokens that experts process at once; None: all."""
    if not release.has(_CHUNKS_EXPERTS):
        return None
    return 16384 if release.has(_CHUNKS_EXPERTS_BY_16384) else 32768


@lru_cache(maxsize=_REMEMBERED)
def _first_alike(run: ProfileRun) -> ProfileRun:
    """Return the first run that is equal, with what was computed for it."""
    return run
