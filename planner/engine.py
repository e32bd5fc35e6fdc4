"""EngineSettings: what the user typed, in vLLM's names.

None means not given; `planner.defaults.resolve` fills in what vLLM would.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from planner.engine_args import GONE, REASONS, SWITCHED_OFF, WITHOUT_EFFECT
from planner.errors import PlannerError, UnknownArchitecture
from planner.flags import flags as flags
from planner.releases import NEWEST_RELEASE, Release


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Engine arguments as given.

    Source: vLLM 0.33.0 `engine/arg_utils.py` EngineArgs; sizes are tokens, sequences,
    bytes or GPUs as their names say.
    """

    dtype: str | None = None
    """auto, bfloat16, float16 (half), float32 (float)."""
    quantization: str | None = None
    """None: as the checkpoint says; else a method applied while loading."""
    kv_cache_dtype: str | None = None
    """auto, bfloat16, float16, fp8, fp8_e4m3, fp8_e5m2, nvfp4, ..."""
    max_model_len: int | str | None = None
    """Tokens of the longest request; -1 or "auto" fits it to the memory."""
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    gpu_memory_utilization: float | None = None
    """Share of the GPU's total memory, above 0, at most 1."""
    kv_cache_memory_bytes: int | str | None = None
    """Fixes the KV cache instead of measuring what is left."""
    num_gpu_blocks_override: int | None = None
    block_size: int | None = None
    """Tokens in a KV cache block."""
    tensor_parallel_size: int | None = None
    pipeline_parallel_size: int | None = None
    data_parallel_size: int | None = None
    decode_context_parallel_size: int | None = None
    enable_expert_parallel: bool | None = None
    enforce_eager: bool | None = None
    cudagraph_capture_sizes: tuple[int, ...] | None = None
    max_cudagraph_capture_size: int | None = None
    optimization_level: int | None = None
    """0 (no CUDA graphs) to 3; 2 is the default."""
    compilation_config: Mapping[str, Any] | None = None
    """cudagraph_mode, mode and capture sizes; JSON, or its mode alone."""
    speculative_config: Mapping[str, Any] | None = None
    """Tokens guessed ahead: method, model, num_speculative_tokens; or JSON."""
    spec_method: str | None = None
    """Short for speculative_config's method."""
    spec_model: str | None = None
    """Short for its model, the draft."""
    spec_tokens: int | None = None
    """Short for its num_speculative_tokens."""
    performance_mode: str | None = None
    """balanced, interactivity or throughput."""
    async_scheduling: bool | None = None
    enable_prefix_caching: bool | None = None
    enable_chunked_prefill: bool | None = None
    mamba_block_size: int | None = None
    """Tokens in a block of layers that keep states; needs prefix caching."""
    mamba_cache_dtype: str | None = None
    """Of the states of recurrent layers: auto, float32, float16, bfloat16."""
    mamba_ssm_cache_dtype: str | None = None
    """Of their recurrence alone; auto: the model's choice, else as above."""
    gdn_prefill_backend: str | None = None
    """Kernel of gated delta nets for prompts: flashinfer, triton or cutedsl."""
    kv_cache_dtype_skip_layers: tuple[str, ...] | None = None
    """Layers whose KV cache keeps the model's dtype: indices, or sliding_window."""
    attention_backend: str | None = None
    """vLLM's name of the kernel for all layers."""
    disable_hybrid_kv_cache_manager: bool | None = None
    """Keeps sliding windows as full attention beside full-attention layers."""
    language_model_only: bool | None = None
    """Leaves out the encoders of images, videos and sounds."""
    limit_mm_per_prompt: Mapping[str, Any] | None = None
    """Items per prompt by modality; 0 leaves its encoder out."""
    mm_processor_kwargs: Mapping[str, Any] | None = None
    """max_pixels and min_pixels of images and videos."""
    mm_encoder_tp_mode: str | None = None
    """weights (cut over the ranks) or data (whole on each)."""
    skip_mm_profiling: bool | None = None
    """Leaves the encoders out of the profile run."""
    enable_mm_embeds: bool | None = None
    """Takes embeddings in place of images, also where the limit of images is 0."""
    disable_chunked_mm_input: bool | None = None
    """Keeps an image's tokens in one step, which must have room for them."""
    mm_processor_cache_gb: float | None = None
    """GiB of CPU memory for what the processor made of images."""
    mm_processor_cache_type: str | None = None
    """lru, or shm for shared memory."""
    mm_shm_cache_max_object_size_mb: int | None = None
    mm_ipc_gpu_memory_gb: float | None = None
    """GiB of each GPU in which API servers decode videos."""
    media_io_kwargs: Mapping[str, Any] | None = None
    """How images, videos and sounds are read, by modality."""
    cpu_offload_gb: float | None = None
    """GiB of each GPU's parameters that go to host memory."""
    cpu_offload_params: tuple[str, ...] | None = None
    """Parts of parameters' names that cpu_offload_gb may move; empty: all."""
    offload_backend: str | None = None
    """auto, uva (a budget) or prefetch (groups of layers)."""
    offload_group_size: int | None = None
    """Layers in a group, of which the last go to host memory; 0: no groups."""
    offload_num_in_group: int | None = None
    offload_prefetch_step: int | None = None
    """Layers that are copied ahead of their turn."""
    offload_params: tuple[str, ...] | None = None
    """Parts of parameters' names that groups move; empty: all."""
    kv_offloading_size: float | None = None
    """GiB of host memory for blocks that leave the GPU, of all ranks together."""
    enable_eplb: bool | None = None
    """Moves experts between the ranks that share them, as their load asks for."""
    eplb_config: Mapping[str, Any] | None = None
    """num_redundant_experts and how often experts move."""
    enable_lora: bool | None = None
    """Keeps room for adapters beside the layers."""
    max_loras: int | None = None
    """Adapters in one batch."""
    max_lora_rank: int | None = None
    lora_dtype: str | None = None
    """Of the adapters: auto (the model's), float16, bfloat16."""
    fully_sharded_loras: bool | None = None
    """Cuts both factors of an adapter over the ranks, not only one."""
    max_cpu_loras: int | None = None
    """Adapters in host memory."""
    lora_target_modules: tuple[str, ...] | None = None
    """Names of the only layers that adapters change."""
    enable_tower_connector_lora: bool | None = None
    """Lets adapters change encoders of images and sounds as well."""
    specialize_active_lora: bool | None = None
    """CUDA graphs for one, two, four ... adapters in a batch."""
    enable_mixed_moe_lora_format: bool | None = None
    """Keeps the gate and up projections of experts' adapters apart."""
    enable_moe_shared_loras: bool | None = None
    """Keeps the outer factors of experts' adapters once for all experts."""
    max_lora_cls_labels: int | None = None
    """Outputs of an adapter's own classification head."""
    runner: str | None = None
    """auto, generate, or pooling: embeddings of a model that could generate."""
    trust_remote_code: bool | None = None
    """Allows code of the model's own, which some configurations need."""
    node_memory_gib: float | None = None
    """GiB of CPU memory of each machine; for the planner alone."""
    node_gpus: int | None = None
    """GPUs of each machine; for the planner alone."""
    disk_gb_per_second: float | None = None
    """10^9 bytes a second that each machine's disk reads; for the planner alone."""
    pcie_gb_per_second: float | None = None
    """10^9 bytes a second from a machine to each of its GPUs; for the planner alone."""
    others: tuple[tuple[str, object], ...] = ()
    """Arguments without effect on GPU memory, kept for the command."""


_FIELDS = tuple(
    field.name for field in fields(EngineSettings) if field.name != "others"
)

_WHOLE_NUMBERS = (
    "max_num_seqs",
    "max_num_batched_tokens",
    "num_gpu_blocks_override",
    "block_size",
    "mamba_block_size",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "decode_context_parallel_size",
    "max_cudagraph_capture_size",
    "optimization_level",
    "max_loras",
    "max_lora_rank",
    "max_cpu_loras",
    "mm_shm_cache_max_object_size_mb",
    "max_lora_cls_labels",
    "node_gpus",
    "offload_group_size",
    "offload_num_in_group",
    "offload_prefetch_step",
)
_LISTS = (
    "cudagraph_capture_sizes",
    "kv_cache_dtype_skip_layers",
    "cpu_offload_params",
    "lora_target_modules",
    "offload_params",
)
_AMOUNTS = (
    "cpu_offload_gb",
    "kv_offloading_size",
    "node_memory_gib",
    "mm_processor_cache_gb",
    "mm_ipc_gpu_memory_gb",
)
_MAY_BE_ZERO = (
    "max_cudagraph_capture_size",
    "mm_shm_cache_max_object_size_mb",
    "offload_group_size",
    "offload_prefetch_step",
    "optimization_level",
)
_MOST = {
    "pipeline_parallel_size": 1024,
    "max_cudagraph_capture_size": 65536,
    "optimization_level": 3,
}
"""Where each one more is worked out: beyond any machine, a plan would take minutes."""
_MOST_AMOUNT = 1e9
_LONGEST = 1 << 40
"""Tokens of max_model_len; no config.json may say more either."""

_MAPPINGS = {
    "eplb_config": {"num_redundant_experts": 32},
    "mm_processor_kwargs": {"max_pixels": 1003520},
    "media_io_kwargs": {"video": {"num_frames": 32}},
}
_STATE_DTYPES = ("auto", "float32", "float16", "bfloat16")
CHOICES: Mapping[str, tuple[str, ...]] = {
    "mamba_cache_dtype": _STATE_DTYPES,
    "mamba_ssm_cache_dtype": _STATE_DTYPES,
    "gdn_prefill_backend": ("flashinfer", "triton", "cutedsl"),
    "mm_processor_cache_type": ("lru", "shm"),
    "lora_dtype": ("auto", "float16", "bfloat16"),
    "offload_backend": ("auto", "prefetch", "uva"),
    "runner": ("auto", "generate", "pooling"),
}
"""Arguments that are one of a few words."""


def settings_from(engine_args: Mapping[str, Any]) -> EngineSettings:
    """Check engine arguments and return them typed.

    Raises:
        PlannerError: for an unknown argument or a value that vLLM could not read.
        UnknownArchitecture: for an argument whose memory is not modelled yet.
    """
    given: dict[str, Any] = {}
    others: list[tuple[str, object]] = []
    for name, value in engine_args.items():
        if name in _FIELDS:
            given[name] = value
        elif name in WITHOUT_EFFECT or name in GONE:
            _check_swap_space(name, value)
            others.append((name, value))
        elif name in SWITCHED_OFF:
            _refuse_unless_off(name, value)
            others.append((name, value))
        else:
            raise _unknown_argument(name)
    _check(given)
    if given.get("gpu_memory_utilization") is not None:
        # vLLM's configuration class makes a number of it that it logs as 1.0.
        given["gpu_memory_utilization"] = float(given["gpu_memory_utilization"])
    for name in _LISTS:
        if isinstance(given.get(name), list | set | frozenset):
            given[name] = tuple(given[name])
    return EngineSettings(**given, others=tuple(others))


def _check_swap_space(name: str, value: object) -> None:
    if name in GONE and value is not None and not _is_amount(value):
        raise PlannerError(f"{name}={value!r}: a number of GiB from 0 is needed.")


def _refuse_unless_off(name: str, value: object) -> None:
    if value is not None and value not in SWITCHED_OFF[name]:
        raise UnknownArchitecture(
            f"{name}={value!r} changes memory in a way that is not modelled yet"
            f"{f': {REASONS[name]}' if name in REASONS else ''}. Leave {name} out."
        )


def _unknown_argument(name: str) -> PlannerError:
    known = (*_FIELDS, *WITHOUT_EFFECT, *SWITCHED_OFF)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]}?" if near else ""
    return PlannerError(f"{name!r} is not an engine argument of vLLM.{hint}")


def _check(given: Mapping[str, Any]) -> None:
    for name in _WHOLE_NUMBERS:
        value = given.get(name)
        if value is None:
            continue
        least = 0 if name in _MAY_BE_ZERO else 1
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise PlannerError(
                f"{name}={value!r}: a whole number from {least} is needed."
            )
        if value > _MOST.get(name, value):
            raise PlannerError(
                f"{name}={value!r}: at most {_MOST[name]:,} is planned; no machine has "
                "more."
            )
    utilization = given.get("gpu_memory_utilization")
    if utilization is not None and not _is_share(utilization):
        raise PlannerError(
            f"gpu_memory_utilization={utilization!r}: a number above 0 and at most 1 "
            "is needed, such as 0.92."
        )
    _check_kinds(given)
    _check_max_model_len(given.get("max_model_len"))
    _check_choices(given)


def _check_kinds(given: Mapping[str, Any]) -> None:
    for name in _AMOUNTS:
        amount = given.get(name)
        if amount is not None and not _is_amount(amount):
            raise PlannerError(
                f"{name}={amount!r}: a number of GiB from 0 to {_MOST_AMOUNT:,.0f} is "
                "needed."
            )
    for name, example in _MAPPINGS.items():
        asked = given.get(name)
        if not isinstance(asked, Mapping | None):
            raise PlannerError(
                f"{name}={asked!r}: names and values are needed, such as {example}."
            )
    names = given.get("lora_target_modules")
    if names is not None and not _are_names(names):
        raise PlannerError(
            f"lora_target_modules={names!r}: names of layers are needed, such as "
            "['qkv_proj', 'o_proj']."
        )


def _check_choices(given: Mapping[str, Any]) -> None:
    for name, choices in CHOICES.items():
        value = given.get(name)
        if value is not None and value not in choices:
            raise PlannerError(f"{name}={value!r}: use one of {', '.join(choices)}.")


def _are_names(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(x, str) for x in value)


def _is_share(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 < value <= 1
    )


def _is_amount(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 <= value <= _MOST_AMOUNT
    )


def _check_max_model_len(value: object) -> None:
    if value is None or value in ("auto", -1):
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise PlannerError(
            f"max_model_len={value!r}: a whole number from 1, -1 or auto is needed."
        )
    if value > _LONGEST:
        raise PlannerError(f"max_model_len={value!r}: at most {_LONGEST:,} is planned.")


def command(
    model: str, settings: EngineSettings, release: Release = NEWEST_RELEASE
) -> str:
    """Return a release's `vllm serve` line that asks for these settings.

    >>> command("org/model", EngineSettings(tensor_parallel_size=2, enforce_eager=True))
    'vllm serve org/model --tensor-parallel-size 2 --enforce-eager'
    """
    return shlex.join(serve_words(model, given_arguments(settings), release))


def serve_words(
    model: str, arguments: Mapping[str, object], release: Release = NEWEST_RELEASE
) -> list[str]:
    """Return the words of `vllm serve`; a folder may be called like a flag."""
    named = f"./{model}" if model.startswith("-") else model
    return ["vllm", "serve", named, *flags(arguments, release)]


def given_arguments(settings: EngineSettings) -> dict[str, Any]:
    """Return what was given, by vLLM's argument names; None stands for not given."""
    named = {name: getattr(settings, name) for name in _FIELDS}
    given = {**named, **dict(settings.others)}
    return {name: value for name, value in given.items() if value is not None}
