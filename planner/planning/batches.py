"""The limits of a step: max_num_batched_tokens and max_num_seqs, default and as given.

Source of all rules: vLLM 0.33.0 `engine/arg_utils.py` get_batch_defaults and
_set_default_max_num_seqs_and_batched_tokens_args.
"""

from __future__ import annotations

from planner.engine.generations import UNIFIED
from planner.engine.gpu import GPU
from planner.engine.releases import NEWEST_RELEASE, Release
from planner.engine.releases.change import Change
from planner.engine.releases.shared import HEEDS_TOKENS_OF_WHOLE_PROMPTS
from planner.engine.settings import EngineSettings
from planner.errors import PlannerError
from planner.memory.media.towers import is_prefix_lm, least_batched_tokens
from planner.models.architecture import ModelArchitecture
from planner.units import GIB

ENTRYPOINTS = ("serve", "llm", "engine")
ENGINE_BATCH = (2048, 128)
"""Defaults of the scheduler's configuration, on any GPU."""
_LARGE_GPU_BATCH = Change(
    since=(0, 28),
    what="GPUs with at least 160 GiB have their own batch default.",
    source="vLLM 0.28.0 `engine/arg_utils.py` get_batch_defaults",
)
_LIMITS_REQUESTS_TO_TOKENS = Change(
    since=(0, 10, 1),
    what="The default max_num_seqs is at most max_num_batched_tokens.",
    source="vLLM 0.10.1 `engine/arg_utils.py` _set_default_args_v1",
)
_LIMITS_TOKENS_TO_REQUESTS = Change(
    since=(0, 11, 1),
    what=(
        "The default max_num_batched_tokens is at most the tokens of all requests. "
        "Without chunked prefill it is also at least the default for split prompts."
    ),
    source="vLLM 0.11.1 `engine/arg_utils.py` _set_default_args",
)
_RAISES_TOKENS_FOR_IMAGES = Change(
    since=(0, 22),
    what="The default max_num_batched_tokens has room for the largest image or video.",
    source="vLLM 0.22.0 `engine/arg_utils.py` _get_min_mm_batched_tokens",
)
_MAY_KEEP_PROMPTS_WHOLE = Change(
    since=(0, 11, 1),
    what="enable_chunked_prefill=False takes effect for generative models.",
    source="vLLM 0.11.1 `engine/arg_utils.py` _set_default_args",
)
_KEEPS_ENCODER_PROMPTS_WHOLE = Change(
    since=(0, 12),
    what="Encoder-decoder models do not split prompts by default.",
    source="vLLM 0.12.0 `config/model.py` is_chunked_prefill_supported",
)
_KEEPS_ITEMS_WHOLE = Change(
    since=(0, 13),
    what=(
        "All tokens of an image are in one step where they attend in both directions. "
        "Gemma 4's may be split up to 0.19."
    ),
)
_KEEPS_GEMMA4_ITEMS_WHOLE = Change(
    since=(0, 20),
    what="All tokens of an image are in one step for Gemma 4 too.",
)


def check_entrypoint(entrypoint: str) -> None:
    """Refuse an entry point that vLLM does not have.

    Raises:
        PlannerError: naming the entry points that exist.
    """
    if entrypoint not in ENTRYPOINTS:
        raise PlannerError(
            f"entrypoint={entrypoint!r}: use serve (vllm serve), llm (the LLM class) "
            "or engine (the async engine itself, as Ray Data LLM starts it)."
        )


def batch_defaults(
    gpu: GPU, entrypoint: str, release: Release = NEWEST_RELEASE
) -> tuple[int, int]:
    """Return max_num_batched_tokens and max_num_seqs for a GPU and entry point.

    Only the server and the `LLM` class depend on the GPU; the async engine uses the
    scheduler's own defaults.

    Raises:
        PlannerError: for an unknown entry point.

    Source: vLLM 0.33.0 `v1/engine/async_llm.py` AsyncLLM.from_engine_args
    (UsageContext.ENGINE_CONTEXT); `config/scheduler.py` SchedulerConfig.
    """
    check_entrypoint(entrypoint)
    if entrypoint == "engine":
        return ENGINE_BATCH
    is_server = entrypoint == "serve"
    if gpu.is_cpu:
        return (2048, 128) if is_server else (4096, 256)
    memory_bytes = gpu.nvml_memory_bytes or gpu.total_memory_bytes
    if gpu.compute_capability in UNIFIED:
        memory_bytes = 0  # NVML does not report it there, and vLLM goes on without
    if release.has(_LARGE_GPU_BATCH) and memory_bytes >= 160 * GIB:
        return 16384, 1024
    is_large = memory_bytes >= 70 * GIB and "a100" not in gpu.device_name.lower()
    if is_large:
        return (8192 if is_server else 16384), 1024
    return (2048 if is_server else 8192), 256


_BY_DIFFUSION = "DiffusionGemmaForBlockDiffusion"
_FEWEST_BY_DIFFUSION, _MOST_BY_DIFFUSION = 128, 8
"""From 128 requests on, vLLM takes a number for a default, and lowers it to 8.

Source: vLLM 0.33.0 `models/config.py` DiffusionGemmaModelForBlockDiffusionConfig.
"""


def resolve_batch(
    settings: EngineSettings,
    model: ModelArchitecture,
    batch: tuple[int, int],
    max_model_len: int,
    release: Release = NEWEST_RELEASE,
) -> tuple[int, int]:
    """Return max_num_batched_tokens and max_num_seqs.

    `batch` holds both as `batch_defaults` returns them.
    """
    tokens, seqs = batch
    if settings.performance_mode == "throughput":
        tokens, seqs = 2 * tokens, 2 * seqs
    seqs = settings.max_num_seqs or seqs
    splits = chunked_prefill(settings, model, release)
    if not (splits or release.has(HEEDS_TOKENS_OF_WHOLE_PROMPTS)):
        tokens = max_model_len
    elif settings.max_num_batched_tokens is not None:
        tokens = settings.max_num_batched_tokens
    else:
        if not splits:
            is_exact = not release.has(_LIMITS_TOKENS_TO_REQUESTS)
            tokens = max_model_len if is_exact else max(max_model_len, tokens)
        if release.has(_RAISES_TOKENS_FOR_IMAGES):
            tokens = max(tokens, least_batched_tokens(model, settings))
        if release.has(_LIMITS_TOKENS_TO_REQUESTS):
            tokens = min(seqs * max_model_len, tokens)
    if settings.max_num_seqs is None and release.has(_LIMITS_REQUESTS_TO_TOKENS):
        seqs = min(seqs, tokens)
    return tokens, _by_class(model, seqs)


def _by_class(model: ModelArchitecture, seqs: int) -> int:
    """Return max_num_seqs as the model's class changes it."""
    is_by_diffusion = model.architecture == _BY_DIFFUSION
    return (
        _MOST_BY_DIFFUSION if is_by_diffusion and seqs >= _FEWEST_BY_DIFFUSION else seqs
    )


def chunked_prefill(
    settings: EngineSettings,
    model: ModelArchitecture,
    release: Release = NEWEST_RELEASE,
) -> bool:
    """Whether long prompts are split over several steps."""
    if not model.is_pooling and not release.has(_MAY_KEEP_PROMPTS_WHOLE):
        return True
    if settings.enable_chunked_prefill is not None:
        return settings.enable_chunked_prefill
    keeps_whole = release.has(_KEEPS_ENCODER_PROMPTS_WHOLE)
    is_whole = model.is_encoder_decoder and keeps_whole
    return not (model.is_encoder_only or is_whole)


def keeps_items_whole(
    settings: EngineSettings, model: ModelArchitecture, release: Release
) -> bool:
    """Whether all tokens of an image or sound must be in one step."""
    is_gemma4 = model.model_type.startswith("gemma4")
    change = _KEEPS_GEMMA4_ITEMS_WHOLE if is_gemma4 else _KEEPS_ITEMS_WHOLE
    is_bidirectional = is_prefix_lm(model, settings) and release.has(change)
    is_requested = bool(settings.disable_chunked_mm_input)
    return is_requested or is_bidirectional or model.is_encoder_decoder
