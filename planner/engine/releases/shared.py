"""Changes that the rules of several modules share; one rule's own are beside it."""

from __future__ import annotations

from planner.engine.releases.change import Change

FILLS_IN_ANY_BATCH = Change(
    since=(0, 11, 1),
    what=(
        "One rule fills in the default batch sizes of all entry points. Before, an "
        "engine of its own had another rule than the server and the LLM class."
    ),
    source=(
        "vLLM 0.11.1 `engine/arg_utils.py` "
        "_set_default_max_num_seqs_and_batched_tokens_args"
    ),
)
HEEDS_TOKENS_OF_WHOLE_PROMPTS = Change(
    since=(0, 10, 1),
    what=(
        "max_num_batched_tokens applies when prompts are not split. Before, a step "
        "then had max_model_len tokens, whatever was set."
    ),
    source="vLLM 0.10.1 `engine/arg_utils.py` _set_default_args_v1",
)
HAS_V2_RUNNER = Change(
    since=(0, 12),
    what="The second model runner exists.",
    source="vLLM 0.12.0 `envs.py` VLLM_USE_V2_MODEL_RUNNER",
)
SUBTRACTS_CONSUMED = Change(
    since=(0, 27),
    what=(
        "The drop in free device memory is subtracted from the budget. Before: weights "
        "+ increase of PyTorch's peak + increase of non-torch memory."
    ),
    source="vLLM 0.27.0 `utils/mem_utils.py` memory_profiling",
)
COUNTS_DISTRIBUTED_START = Change(
    until=(0, 11),
    what="The buffers of NCCL and all-reduce are subtracted from the budget.",
    source="vLLM 0.10.2 and 0.11.0 `v1/worker/gpu_worker.py` init_device",
)
GROUPS_ALL_RANKS = Change(
    since=(0, 11),
    what=(
        "Layers of all pipeline stages are grouped together. Before, each stage "
        "grouped its own."
    ),
    source="vLLM 0.11.0 `v1/core/kv_cache_utils.py` get_kv_cache_configs",
)
PACKS_PAGES = Change(
    since=(0, 29),
    what="A block can hold pages of several sizes.",
    source="vLLM 0.29.0 `v1/core/kv_cache_utils.py` _get_packed_kv_cache_groups",
)
CHECKS_GROUPS = Change(
    since=(0, 14),
    what=(
        "A request's memory is computed by groups of layers, with padding. Before, it "
        "was the sum over all layers, each without padding."
    ),
    source=(
        "vLLM 0.14.0 `v1/core/kv_cache_utils.py` _max_memory_usage_bytes_from_groups"
    ),
)
LAYS_SCALES_OUT_FOR_DEEP_GEMM = Change(
    since=(0, 11, 1),
    what="Loading a model converts block scales to DeepGEMM's layout.",
    source=(
        "vLLM 0.11.1 `layers/quantization/utils/fp8_utils.py` "
        "deepgemm_post_process_fp8_weight_block"
    ),
)
KNOWS_BLACKWELL_FAMILY = Change(
    since=(0, 13),
    what="B300 is treated like B200, as one family of GPUs.",
    source=(
        "vLLM 0.13.0 `utils/deep_gemm.py` is_deep_gemm_supported, "
        "`layers/quantization/mxfp4.py` get_mxfp4_backend"
    ),
)
HAS_QUERY_PROJECTIONS = Change(
    since=(0, 30),
    what="Gemma 4's layers that share a KV cache project queries only.",
    source="vLLM 0.30.0 `models/gemma4.py` Gemma4Attention",
)
PADS_EXPERTS_FOR_MARLIN = Change(
    since=(0, 25),
    what="Experts are padded to Marlin's tiles.",
    source=(
        "vLLM 0.25.0 `layers/quantization/utils/marlin_utils.py` "
        "marlin_moe_padded_intermediate"
    ),
)
KEEPS_RAW_NVFP4_SCALES = Change(
    until=(0, 10, 2),
    what="ModelOpt's scales are kept beside those converted for the kernel.",
    source=(
        "vLLM 0.10.1 and 0.10.2 `layers/quantization/modelopt.py` "
        "(weight_scale_swizzled)"
    ),
)
KEEPS_EXPERT_WORKSPACE = Change(
    since=(0, 14),
    what=(
        "Unquantised, FP8 and NVFP4 experts share a persistent workspace. Before, each "
        "layer allocated and freed its own intermediate results."
    ),
    source=(
        "vLLM 0.14.0 `layers/fused_moe/unquantized_fused_moe_method.py`, "
        "`layers/fused_moe/oracle/fp8.py` and `nvfp4.py` (FusedMoEModularKernel); "
        "`v1/worker/workspace.py`"
    ),
)
KEEPS_GPTQ_WORKSPACE = Change(
    since=(0, 20),
    what="GPTQ and INT8 experts use the persistent workspace of experts too.",
    source="vLLM 0.20.0 `layers/fused_moe/oracle/int_wna16.py` and `int8.py`",
)
KEEPS_AWQ_WORKSPACE = Change(
    since=(0, 22),
    what="AWQ experts use the persistent workspace of experts too.",
    source="vLLM 0.22.0 `layers/quantization/awq_marlin.py`",
)
PREFERS_FLASHINFER_QUANTISED_EXPERTS = Change(
    since=(0, 15),
    what="FlashInfer's FP8 and NVFP4 expert kernels are on by default.",
    source="vLLM 0.15.0 `layers/fused_moe/oracle/fp8.py` and `nvfp4.py`",
)
PREFERS_HUMMING = Change(
    since=(0, 32),
    what="Hopper uses Humming's kernels instead of Marlin's.",
    source="vLLM 0.32.0 `layers/quantization/utils/humming/priority.py`",
)
CHECKS_LEAST_STAGE = Change(
    since=(0, 14),
    until=(0, 17),
    what=(
        "The pipeline stage with the least memory is checked with all layers. Before "
        "and later, each stage is checked with its own layers."
    ),
    source="vLLM 0.14.0 and 0.17.0 `v1/core/kv_cache_utils.py` get_kv_cache_configs",
)
PADS_MXFP4_LESS = Change(
    since=(0, 27),
    what="TRT-LLM's MXFP4 experts are padded to 128 columns; before, to 256.",
    source=(
        "vLLM 0.27.0 `layers/fused_moe/oracle/mxfp4.py` "
        "mxfp4_round_up_hidden_size_and_intermediate_size"
    ),
)
CONSIDERS_CUTLASS = Change(
    since=(0, 10, 1),
    what="vLLM considers CUTLASS_MLA for latent attention on B200.",
)
CONSIDERS_FLASHINFER = Change(
    since=(0, 15),
    what="vLLM considers FLASHINFER_MLA for latent attention on B200.",
)
CONSIDERS_SPARSE_FLASH_ATTENTION = Change(
    since=(0, 25),
    what=(
        "Hopper uses FlashAttention for sparse latent attention, unless the cache is "
        "quantised."
    ),
    source="vLLM 0.25.0 `platforms/cuda.py` _get_backend_priorities",
)
