"""vLLM's environment variables that affect memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache

from planner.data import DATA
from planner.engine.environment_names import check_variables
from planner.engine.releases import NEWEST_RELEASE, Release
from planner.engine.releases.change import Change, recorded
from planner.engine.releases.shared import HAS_V2_RUNNER
from planner.errors import PlannerError, close_words
from planner.units import counted, on_each, whole_number
from planner.values import frozen

KNOWN = (
    "VLLM_PP_LAYER_PARTITION",
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN",
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
    "VLLM_USE_FLASHINFER_SAMPLER",
    "VLLM_USE_DEEP_GEMM",
    "VLLM_MOE_USE_DEEP_GEMM",
    "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE",
    "VLLM_USE_V2_MODEL_RUNNER",
    "VLLM_ATTENTION_BACKEND",
    "VLLM_FUSED_MOE_CHUNK_SIZE",
    "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE",
    "VLLM_CPU_KVCACHE_SPACE",
    "VLLM_CPU_CI_ENV",
    "VLLM_MM_INPUT_CACHE_GIB",
    "VLLM_VIDEO_LOADER_BACKEND",
    "VLLM_RAY_PER_WORKER_GPUS",
)
_DEEP_GEMM = "whether DeepGEMM computes FP8 layers, with scales and buffers of its own"
_EXPERTS = "the padding and the buffers of the kernel of experts that it chooses"
_ALL_REDUCE = "the buffers of the all-reduce that it chooses"
UNCOUNTED: Mapping[str, str] = {
    "VLLM_BATCH_INVARIANT": "kernels whose results do not depend on the batch",
    "VLLM_ENABLE_STARTUP_PLAN": (
        "the size that an earlier start has written down, which `planner calibration "
        "startup-plan` reads"
    ),
    "VLLM_MLA_DISABLE": "that latent attention keeps whole keys and values",
    "VLLM_USE_DEEP_GEMM_E8M0": _DEEP_GEMM,
    "VLLM_USE_DEEP_GEMM_TMA_ALIGNED_SCALES": _DEEP_GEMM,
    "VLLM_BLOCKSCALE_FP8_GEMM_FLASHINFER": "the buffers of FlashInfer's FP8 GEMM",
    "VLLM_DISABLED_KERNELS": "the kernels that take the place of those disabled",
    "VLLM_NVFP4_GEMM_BACKEND": "padding and buffers of that kernel",
    "VLLM_USE_TRTLLM_FP4_GEMM": "padding and buffers of that kernel",
    "VLLM_USE_FBGEMM": "buffers of that kernel",
    "VLLM_USE_TRITON_AWQ": "buffers of that kernel",
    "VLLM_TEST_FORCE_FP8_MARLIN": "weights as Marlin holds them",
    "VLLM_MARLIN_INPUT_DTYPE": "copies of inputs in another dtype",
    "VLLM_HUMMING_ONLINE_QUANT_CONFIG": "what it quantises",
    "VLLM_HUMMING_INPUT_QUANT_CONFIG": "copies of inputs in another dtype",
    "VLLM_USE_FLASHINFER_MOE_FP16": _EXPERTS,
    "VLLM_USE_FLASHINFER_MOE_FP4": _EXPERTS,
    "VLLM_USE_FLASHINFER_MOE_FP8": _EXPERTS,
    "VLLM_USE_FLASHINFER_MOE_INT4": _EXPERTS,
    "VLLM_USE_FLASHINFER_MOE_MXFP4_BF16": _EXPERTS,
    "VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8": _EXPERTS,
    "VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8_CUTLASS": _EXPERTS,
    "VLLM_FLASHINFER_MOE_BACKEND": _EXPERTS,
    "VLLM_MXFP4_USE_MARLIN": _EXPERTS,
    "VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE": _EXPERTS,
    "VLLM_ENABLE_FUSED_MOE_ACTIVATION_CHUNKING": "experts that compute a batch whole",
    "VLLM_ENABLE_MOE_DP_CHUNK": "experts that compute a batch in parts",
    "VLLM_MOE_DP_CHUNK_SIZE": "experts that compute a batch in parts",
    "VLLM_ALL2ALL_BACKEND": "its buffers between GPUs that hold different experts",
    "VLLM_DEEPEP_BUFFER_SIZE_MB": "buffers between GPUs with different experts",
    "VLLM_ALLREDUCE_USE_SYMM_MEM": _ALL_REDUCE,
    "VLLM_ALLREDUCE_USE_FLASHINFER": _ALL_REDUCE,
    "VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC": _ALL_REDUCE,
    "VLLM_FLASHINFER_ALLREDUCE_BACKEND": _ALL_REDUCE,
    "VLLM_FLASHINFER_ALLREDUCE_FUSION_THRESHOLDS_MB": _ALL_REDUCE,
    "VLLM_USE_NCCL_SYMM_MEM": _ALL_REDUCE,
    "VLLM_DISABLE_PYNCCL": _ALL_REDUCE,
    "VLLM_USE_TRTLLM_ATTENTION": "what TRT-LLM's kernel in FlashInfer allocates",
    "VLLM_USE_TRTLLM_DECODE_ATTENTION": "what TRT-LLM's kernel allocates",
    "VLLM_USE_CUDNN_PREFILL": "what cuDNN's kernel allocates for prompts",
    "VLLM_USE_TRTLLM_RAGGED_DEEPSEEK_PREFILL": "what TRT-LLM's kernel allocates",
    "VLLM_DISABLE_FLASHINFER_PREFILL": "what another kernel allocates for prompts",
    "VLLM_SPARSE_INDEXER_MAX_LOGITS_MB": "another size of the indexer's scores",
    "VLLM_REPLICATE_EMBED": "an embedding that every GPU holds whole",
    "VLLM_DCP_Q_REPLICATE": "copies of the query projection",
    "VLLM_USE_BREAKABLE_CUDAGRAPH": "graphs that are captured otherwise",
    "VLLM_ENABLE_INDUCTOR_MAX_AUTOTUNE": "what the compiler tries out",
    "VLLM_USE_STANDALONE_COMPILE": "what another compiler allocates",
    "VLLM_PLE_CPU_OFFLOAD": "embeddings of each layer in host memory",
}
"""Variables that change memory by an amount that plans do not count."""
_TABLE = DATA / "variables.json"
_MOST_GPUS = 1_000
_NO_EFFECT = ("", "0", "false", "auto")
"""Values of a variable in `UNCOUNTED` that leave things as they are by default."""
_ON_BY_DEFAULT = (
    *("VLLM_ALLREDUCE_USE_SYMM_MEM", "VLLM_USE_STANDALONE_COMPILE"),
    *("VLLM_ENABLE_FUSED_MOE_ACTIVATION_CHUNKING", "VLLM_ENABLE_MOE_DP_CHUNK"),
    "VLLM_USE_DEEP_GEMM_E8M0",
    "VLLM_USE_DEEP_GEMM_TMA_ALIGNED_SCALES",
)
_READS_ATTENTION_VARIABLE = Change(
    until=(0, 15),
    what="VLLM_ATTENTION_BACKEND chooses the attention backend.",
    source="vLLM 0.14.0 `config/attention.py`; 0.15.0 `envs.py` (gone)",
)
_ESTIMATES_CUDAGRAPHS = Change(
    since=(0, 18),
    what="vLLM estimates the memory of CUDA graphs before it captures them.",
    source="vLLM 0.18.0 `v1/worker/gpu_model_runner.py` profile_cudagraph_memory",
)
_CHARGES_CUDAGRAPHS = Change(
    since=(0, 20),
    what="The estimate of CUDA graphs is subtracted from the KV cache by default.",
    source="vLLM `envs.py` VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
)
_CHUNKED_LOCAL_SWITCH = Change(
    since=(0, 10, 1),
    what=(
        "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE decides whether models "
        "with chunked attention may have several KV cache groups."
    ),
    source="vLLM 0.10.0 and 0.10.1 `envs.py`",
)
_GROUPS_CHUNKED_LOCAL = Change(
    since=(0, 14),
    what="Chunked attention has a KV cache group of its own by default.",
    source="vLLM 0.14.0 `envs.py` VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE",
)


@frozen
class Environment:
    """The values of vLLM's environment variables.

    Source: vLLM 0.33.0 `envs.py`.
    """

    pp_layer_partition: str | None = None
    allow_long_max_model_len: bool = False
    estimate_cudagraphs: bool = True
    """Whether the estimate of CUDA graphs is subtracted from the KV cache."""
    use_flashinfer_sampler: bool | None = None
    """Whether FlashInfer samples tokens; None: the release's default."""
    uses_deep_gemm: bool = True
    """Whether DeepGEMM may compute FP8 layers."""
    experts_use_deep_gemm: bool = True
    """Whether it may compute FP8 experts, which both variables decide."""
    allow_chunked_local_attention: bool = True
    """Whether a model with chunked attention may have several KV cache groups."""
    use_v2_model_runner: bool | None = None
    """Whether the second model runner is used; None: vLLM chooses."""
    attention_backend: str | None = None
    """Attention backend of all layers, in releases without an argument for it."""
    fused_moe_chunk_size: int | None = None
    """Tokens that experts compute at once, in releases that split them."""
    flashinfer_workspace_bytes: int | None = None
    """FlashInfer's workspace; None: its default size."""
    cpu_kv_cache_gib: int | None = None
    """KV cache of vLLM's CPU build; None: the rest of its memory budget."""
    skips_cpu_warm_up: bool = False
    """Whether the CPU build skips compilation and warm-up."""
    mm_input_cache_gib: int | None = None
    """Cache of processed images in older releases; None: its default size."""
    video_loader_backend: str | None = None
    """Library that decodes videos; None: OpenCV."""
    uncounted: tuple[tuple[str, str], ...] = ()
    """Variables whose effect is not counted, and what that is."""
    notes: tuple[str, ...] = ()
    """Variables that the release does not read."""


def environment_from(
    env: Mapping[str, str] | None, release: Release = NEWEST_RELEASE
) -> Environment:
    """Read vLLM's variables from `env`; those not named VLLM_... are ignored.

    A variable that the release does not know has no effect, and is noted. None is an
    error by its name.

    Raises:
        PlannerError: for a malformed name or value.
    """
    check_variables(env or {})
    given = {
        name: value for name, value in (env or {}).items() if name.startswith("VLLM_")
    }
    others = {name: value for name, value in given.items() if name not in KNOWN}
    _check_share(given.get("VLLM_RAY_PER_WORKER_GPUS", "1"))
    notes, read = _unread(given, release) if given else ((), ())
    uses_deep_gemm = _is_on(given, "VLLM_USE_DEEP_GEMM", "1")
    return Environment(
        pp_layer_partition=given.get("VLLM_PP_LAYER_PARTITION"),
        allow_long_max_model_len=_is_on(given, "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0"),
        estimate_cudagraphs=release.has(_ESTIMATES_CUDAGRAPHS)
        and _is_on(
            given,
            "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
            "1" if release.has(_CHARGES_CUDAGRAPHS) else "0",
        ),
        use_flashinfer_sampler=_switch(given, "VLLM_USE_FLASHINFER_SAMPLER"),
        uses_deep_gemm=uses_deep_gemm,
        experts_use_deep_gemm=uses_deep_gemm
        and _is_on(given, "VLLM_MOE_USE_DEEP_GEMM", "1"),
        allow_chunked_local_attention=not release.has(_CHUNKED_LOCAL_SWITCH)
        or _is_on(
            given,
            "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE",
            "1" if release.has(_GROUPS_CHUNKED_LOCAL) else "0",
        ),
        use_v2_model_runner=_switch(given, "VLLM_USE_V2_MODEL_RUNNER")
        if release.has(HAS_V2_RUNNER)
        else None,
        attention_backend=_backend(given, release),
        fused_moe_chunk_size=_number(given, "VLLM_FUSED_MOE_CHUNK_SIZE"),
        flashinfer_workspace_bytes=_number(
            given, "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE"
        ),
        cpu_kv_cache_gib=_number(given, "VLLM_CPU_KVCACHE_SPACE"),
        skips_cpu_warm_up=_is_on(given, "VLLM_CPU_CI_ENV", "0"),
        mm_input_cache_gib=_number(given, "VLLM_MM_INPUT_CACHE_GIB"),
        video_loader_backend=given.get("VLLM_VIDEO_LOADER_BACKEND"),
        uncounted=tuple(
            (f"{name}={others[name]}", UNCOUNTED[name])
            for name in read
            if name in others and _is_uncounted(name, others[name])
        ),
        notes=notes,
    )


def _is_uncounted(name: str, value: str) -> bool:
    if name not in UNCOUNTED:
        return False
    text = value.strip().lower()
    off = ("", "1", "true") if name in _ON_BY_DEFAULT else _NO_EFFECT
    return text not in off


@cache
def variables() -> Mapping[str, tuple[str, str]]:
    """Return every VLLM_ variable: the release it came with, and that it went with.

    Empty: the oldest release has it, or the newest.

    Source: vLLM 0.9.2 to 0.33.0 `envs.py` environment_variables.
    """
    rows = json.loads(_TABLE.read_text(encoding="utf-8"))
    return {name: (came, gone) for name, (came, gone) in rows.items()}


@cache
def _reads(name: str) -> tuple[Change, Change]:
    """Return when vLLM reads a variable: since it came, and until it went."""
    came, gone = variables()[name]
    words, source = f"vLLM reads {name}.", "planner/data/variables.json"
    return (
        recorded(words, since=came, source=source),
        recorded(words, until=gone, source=source),
    )


def _unread(
    given: Iterable[str], release: Release
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return notes on the variables that a release does not read, and the others."""
    notes: list[str] = []
    read: list[str] = []
    unknown: list[str] = []
    known = variables()
    for name in given:
        if name not in known:
            if name not in KNOWN:
                unknown.append(name)
            continue
        (came, gone), (has_come, stays) = known[name], _reads(name)
        if not release.has(has_come):
            notes.append(
                f"vLLM {release.version} does not read {name} yet: {came} does."
            )
        elif not release.has(stays):
            notes.append(
                f"vLLM {release.version} does not read {name} any more, since {gone}."
            )
        else:
            read.append(name)
    return (*notes, *_unknown_notes(unknown)), tuple(read)


def _unknown_notes(names: Sequence[str]) -> list[str]:
    return on_each(
        names,
        lambda name, shown: (
            f"No release of vLLM reads {shown}; it is kept.{_nearest(name)}"
        ),
        lambda others, shown: (
            f"No release of vLLM reads {counted(others, 'more variables')}, such as "
            f"{shown}; they are kept."
        ),
    )


@lru_cache(maxsize=256)
def _nearest(name: str) -> str:
    near = close_words(name, variables())
    return f" Did you mean {near[0]}?" if near else ""


def _switch(env: Mapping[str, str], name: str) -> bool | None:
    """Return whether a variable is on; None where it is not set."""
    return _is_on(env, name, "0") if name in env else None


def _backend(env: Mapping[str, str], release: Release) -> str | None:
    """Return the backend's current name; older releases appended _VLLM_V1."""
    name = env.get("VLLM_ATTENTION_BACKEND")
    if name is None or not release.has(_READS_ATTENTION_VARIABLE):
        return None
    return name.strip().upper().removesuffix("_VLLM_V1").removesuffix("_V1")


def _number(env: Mapping[str, str], name: str) -> int | None:
    """Return a whole number from 1; None where the variable is not set.

    Raises:
        PlannerError: for anything else.
    """
    text = env.get(name)
    if text is None:
        return None
    number = whole_number(text.strip())
    if not number:
        raise PlannerError(f"{name}={text[:40]!r}: a whole number from 1 is needed.")
    return number


def _check_share(text: str) -> None:
    """Check the GPUs that a worker requests of Ray.

    Raises:
        PlannerError: for what is not a number of GPUs.
    """
    try:
        is_number = 0 <= float(text) < _MOST_GPUS
    except ValueError:
        is_number = False
    if not is_number:
        raise PlannerError(
            f"VLLM_RAY_PER_WORKER_GPUS={text[:40]!r}: a number of GPUs is needed, such "
            "as 0.5."
        )


def _is_on(env: Mapping[str, str], name: str, default: str) -> bool:
    return env.get(name, default).strip().lower() in ("1", "true")
