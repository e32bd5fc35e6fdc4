"""Settings that vLLM refuses before it loads anything, with its messages in its order.

Source: vLLM 0.33.0 `config/scheduler.py` SchedulerConfig, `config/cache.py`,
`engine/arg_utils.py` create_engine_config, `config/model.py`
verify_with_parallel_config.
"""

from __future__ import annotations

from planner.engine.generations import AMPERE
from planner.engine.gpu import GPU
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release, came_later
from planner.engine.releases.change import Change
from planner.engine.settings import EngineSettings
from planner.errors import Refused, UnknownArchitecture
from planner.models.architecture import ModelArchitecture
from planner.models.families.names import SERVED_BY_TRANSFORMERS
from planner.models.families.refused import check_model_type_then


def check_device_dtype(dtype: str, gpu: GPU) -> None:
    """Refuse bfloat16 on GPUs before Ampere.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `platforms/cuda.py` check_if_supports_dtype.
    """
    if gpu.is_cpu or dtype != "bfloat16" or gpu.compute_capability >= AMPERE:
        return
    major, minor = gpu.compute_capability
    raise Refused(
        "Bfloat16 is only supported on GPUs with compute capability of at least 8.0. "
        f"Your {gpu.device_name} GPU has compute capability {major}.{minor}. You can "
        "use float16 instead by explicitly setting the `dtype` flag in CLI, for "
        "example: --dtype=half."
    )


def is_lmcache(settings: EngineSettings) -> bool:
    """Whether offloaded blocks go to a separate LMCache server.

    The server decides how much it keeps; vLLM does not pass kv_offloading_size on.

    Source: vLLM 0.33.0 `config/vllm.py` _post_init_kv_transfer_config.
    """
    return dict(settings.others).get("kv_offloading_backend") == "lmcache"


_OFFLOADS_BLOCKS = Change(
    since=(0, 28),
    what=(
        "KV blocks move to host memory (kv_offloading_size) as from 0.28.0, the oldest "
        "release whose way is modelled. Before, each worker pinned blocks of its own."
    ),
)


def check_kv_offloading(settings: EngineSettings, gpu: GPU, release: Release) -> None:
    """Reject KV offloading that is not modelled.

    The native backend leaves the GPU's blocks as they are. A size of 0 starts it too,
    and it then refuses that size.

    Raises:
        Refused: in vLLM's words, for a size of 0.
        UnknownArchitecture: naming kv_offloading_size.

    Source: vLLM 0.33.0 `config/vllm.py` _post_init_kv_transfer_config,
    `distributed/kv_transfer/kv_connector/v1/offloading_connector.py`,
    `v1/kv_offload/cpu/spec.py` CPUOffloadingSpec.
    """
    size = settings.kv_offloading_size
    if size is None:
        return
    if gpu.is_cpu or not release.has(_OFFLOADS_BLOCKS):
        raise UnknownArchitecture(
            f"kv_offloading_size={size!r} is modelled for vLLM 0.28.0 and later on "
            "GPUs only: before, each worker pins blocks of its own. Leave "
            "kv_offloading_size out."
        )
    if not size and not is_lmcache(settings):
        raise Refused(
            "cpu_bytes_to_use must be specified in kv_connector_extra_config "
            "(kv_offloading_size=0 starts the connector too: leave it out, or give GiB)"
        )


def check_batch(
    max_num_batched_tokens: int,
    max_num_seqs: int,
    max_model_len: int,
    *,
    has_chunked_prefill: bool,
) -> None:
    """Refuse a max_num_batched_tokens that is too small.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `config/scheduler.py` verify_max_model_len.
    """
    if max_num_batched_tokens < max_model_len and not has_chunked_prefill:
        raise Refused(
            f"max_num_batched_tokens ({max_num_batched_tokens}) is smaller than "
            f"max_model_len ({max_model_len}). This effectively limits the maximum "
            "sequence length to max_num_batched_tokens and makes vLLM reject longer "
            "sequences. Please increase max_num_batched_tokens or decrease "
            "max_model_len."
        )
    if max_num_batched_tokens < max_num_seqs:
        raise Refused(
            f"max_num_batched_tokens ({max_num_batched_tokens}) must be greater than "
            f"or equal to max_num_seqs ({max_num_seqs})."
        )


def check_states(*, has_prefix_caching: bool, has_chunked_prefill: bool) -> None:
    """Refuse prefix caching of recurrent layers' states without chunked prefill.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `models/config.py` MambaModelConfig.
    """
    if has_prefix_caching and not has_chunked_prefill:
        raise Refused("Chunked prefill is required for Mamba prefix caching.")


def check_mamba_block_size(
    requested: int | None, max_model_len: int, *, has_prefix_caching: bool
) -> None:
    """Refuse mamba_block_size without prefix caching.

    Raises:
        Refused: in vLLM's words, for any model.

    Source: vLLM 0.33.0 `config/vllm.py` validate_mamba_block_size.
    """
    if requested not in (None, max_model_len) and not has_prefix_caching:
        raise Refused("--mamba-block-size can only be set with --enable-prefix-caching")


_CHECKS_WINDOWS = Change(
    since=(0, 25),
    what=(
        "A model whose configuration takes only a number as its sliding window does "
        "not start without one: with 0, or with disable_sliding_window."
    ),
    source=(
        "vLLM 0.25.1, the first that was read which requires Transformers 5, and "
        "0.33.0 `config/model.py` ModelConfig.__post_init__; dry runs of 0.33.0"
    ),
)
_HAVE_A_WINDOW = frozenset(
    {
        *("cwm", "diffusion_gemma_text", "exaone_moe", "gemma3n_text", "gemma4_text"),
        *("gemma4_unified_text", "laguna", "mimo_v2_flash", "openai_privacy_filter"),
    }
)
"""Model types whose class takes only a number.

Source: Transformers 5.5.4 to 5.20.2 `models/*/configuration_*.py` (sliding_window).
"""


def check_window(
    settings: EngineSettings, model: ModelArchitecture, release: Release
) -> None:
    """Refuse a model without a sliding window whose configuration has to have one.

    A configuration class of the repository's own checks nothing.

    Raises:
        Refused: in the words that vLLM passes on from Transformers.
    """
    if model.files is None or not release.has(_CHECKS_WINDOWS):
        return
    config = model.files.config
    has_code = bool(config.get("auto_map")) and settings.trust_remote_code
    own = config.get("text_config") or config
    is_without = settings.disable_sliding_window or own.get("sliding_window") == 0
    if is_without and own.get("model_type") in _HAVE_A_WINDOW and not has_code:
        raise Refused(
            "Validation error for field 'sliding_window': TypeError: Field "
            "'sliding_window' expected int, got NoneType (value: None)"
        )


def check_parallel(model: ModelArchitecture, layout: ParallelLayout) -> None:
    """Refuse a parallel layout that the model does not support.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `config/model.py` verify_with_parallel_config;
    `config/parallel.py` (decode context parallel).
    """
    tensor, dcp = layout.tensor_parallel_size, layout.decode_context_parallel_size
    if tensor % dcp:
        raise Refused(f"tp_size={tensor} must be divisible by dcp_size={dcp}.")
    if model.num_attention_heads % tensor:
        raise Refused(
            f"Total number of attention heads ({model.num_attention_heads}) must be "
            f"divisible by tensor parallel size ({tensor})."
        )
    if layout.enable_expert_parallel and not model.is_moe:
        raise Refused(
            "Number of experts in the model must be greater than 0 when expert "
            "parallelism is enabled."
        )
    if layout.pipeline_parallel_size > 1 and not model.supports_pp:
        raise Refused(
            "Pipeline parallelism is not supported for this model. Supported models "
            "implement the `SupportsPP` interface."
        )
    if dcp > 1 and not model.has_latent_attention:
        if not layout.release.has(_EXPLAINS_DECODE_CONTEXT):
            _assert_decode_context(model, tensor, dcp)
        _check_decode_context(model, tensor, dcp)


_EXPLAINS_DECODE_CONTEXT = Change(
    since=(0, 27),
    what=(
        "Refusals about decode context parallelism are sentences. Before, they were "
        "assertions."
    ),
    source="vLLM 0.26.0 and 0.27.0 `config/model.py` verify_with_parallel_config",
)


def _assert_decode_context(model: ModelArchitecture, tensor: int, dcp: int) -> None:
    """Refuse what `_check_decode_context` does, in the older releases' words."""
    kv_heads = model.num_kv_heads
    if not kv_heads:
        return
    queries = model.num_attention_heads // kv_heads
    if tensor <= kv_heads:
        why = (
            f"tensor parallel size {tensor} must be greater than total num kv heads "
            f"{kv_heads} when enable decode context parallel for GQA/MQA"
        )
    elif dcp > tensor // kv_heads:
        why = (
            "decode context parallel size must less than or equal to (tensor parallel "
            f"size {tensor} // total num kv heads {kv_heads}) = {tensor // kv_heads}, "
            f"but got {dcp}"
        )
    elif queries % dcp:
        why = (
            f"Total number of q per kv attn heads ({queries}) must be divisible by dcp "
            f"world size when enable decode context parallel for GQA ({dcp})."
        )
    else:
        return
    raise Refused(f"1 validation error for VllmConfig\n  Assertion failed, {why}")


def _check_decode_context(model: ModelArchitecture, tensor: int, dcp: int) -> None:
    kv_heads = model.num_kv_heads
    if tensor <= kv_heads:
        raise Refused(
            "Decode context parallelism for GQA/MQA requires "
            f"`--tensor-parallel-size` ({tensor}) to be greater than the model's "
            f"total number of KV heads ({kv_heads}). Increase "
            "`--tensor-parallel-size` or set `--decode-context-parallel-size 1`."
        )
    if not kv_heads:
        # vLLM divides by the number of KV heads, which is 0 for Mamba.
        raise Refused("ZeroDivisionError: integer division or modulo by zero")
    largest = tensor // kv_heads
    if dcp > largest:
        raise Refused(
            f"`--decode-context-parallel-size` ({dcp}) exceeds the maximum supported "
            f"value ({largest}) for `--tensor-parallel-size` ({tensor}) and {kv_heads} "
            "model KV heads."
        )
    queries = model.num_attention_heads // kv_heads
    if queries % dcp:
        raise Refused(
            f"The model's number of query heads per KV head ({queries}) must be "
            f"divisible by `--decode-context-parallel-size` ({dcp}) for GQA/MQA."
        )


def check_architecture(model: ModelArchitecture, release: Release) -> None:
    """Refuse a model that only later releases support.

    Raises:
        Refused: with the beginning of vLLM's message, and an explanation of ours.

    Source: vLLM 0.33.0 `models/registry.py` _raise_for_unsupported.
    """
    first = came_later("architectures", model.architecture, release)
    if first is not None:
        if model.files is not None:
            check_model_type_then(model.files.config, release)
            if model.architecture in SERVED_BY_TRANSFORMERS:
                return
        raise Refused(
            f"Model architectures {[model.architecture]} are not supported for now. "
            f"(It came with vLLM {first}; before, only a Transformers of the time that "
            "knew it could serve it, which is not modelled.)"
        )


_HOLDS_GUESSES_OF_ADAPTERS = Change(
    since=(0, 31),
    what=(
        "A step has room for the guesses of all requests where adapters are served. "
        "Releases before 0.31.0 were not read."
    ),
)


def check_speculation(
    model: ModelArchitecture,
    max_num_batched_tokens: int,
    max_num_seqs: int,
    layout: ParallelLayout,
) -> None:
    """Refuse steps without room for draft tokens.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 and 0.25.0 `config/vllm.py` _set_max_num_scheduled_tokens;
    0.31.0 and 0.33.0 `engine/arg_utils.py` create_engine_config.
    """
    found = model.speculation
    if found is None:
        return
    guessed = max_num_seqs * (found.num_speculative_tokens + 1)
    is_checked = layout.enable_lora and layout.release.has(_HOLDS_GUESSES_OF_ADAPTERS)
    if is_checked and max_num_batched_tokens < guessed:
        raise Refused(
            "Consider increasing max_num_batched_tokens or decreasing "
            "num_speculative_tokens"
        )
    if found.draft is None:
        return
    if found.counts_lookahead:
        if max_num_batched_tokens <= found.num_lookahead_tokens:
            raise Refused(
                "VllmConfig does not have enough slots to schedule a token and support "
                "the speculative decoding settings. Got "
                f"{max_num_batched_tokens=} and "
                f"num_lookahead_tokens={found.num_lookahead_tokens}."
            )
        return
    left = max_num_batched_tokens - max_num_seqs
    if found.method == "draft_model" and left <= 0:
        raise Refused(
            f"max_num_scheduled_tokens is set to {left} based on the speculative "
            "decoding settings, which does not allow any tokens to be scheduled. "
            "Increase max_num_batched_tokens to accommodate the additional draft token "
            "slots, or decrease num_speculative_tokens or max_num_seqs."
        )
