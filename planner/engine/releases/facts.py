"""Facts about releases that several rules share, and the first release of each name.

`Release` inherits the facts, one class per topic: `StartFacts`, `ProfilingFacts`,
`KVCacheFacts` and `WeightsFacts`. A fact that only one rule needs is beside that rule,
as the package's docstring says.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Literal

from planner.data import DATA
from planner.values import frozen


@frozen(kw_only=False)
class ReleaseNumber:
    """A release's number, which compares with tuples such as (0, 21)."""

    number: tuple[int, int, int]

    @property
    def version(self) -> str:
        """The release as text, such as 0.33.0."""
        return ".".join(map(str, self.number))

    def __ge__(self, first: tuple[int, ...]) -> bool:
        """Return whether this release is `first` or later."""
        return self.number >= first

    def __lt__(self, first: tuple[int, ...]) -> bool:
        """Return whether this release is older than `first`."""
        return self.number < first


class StartFacts(ReleaseNumber):
    """How a release fills in defaults of its arguments."""

    __slots__ = ()

    @property
    def fills_in_any_batch(self) -> bool:
        """Whether one rule fills in the default batch sizes of all entry points.

        Before, an engine of its own had another rule than the server and the LLM class.

        Source: vLLM 0.11.1 `engine/arg_utils.py`
        _set_default_max_num_seqs_and_batched_tokens_args.
        """
        return self >= (0, 11, 1)

    @property
    def heeds_tokens_of_whole_prompts(self) -> bool:
        """Whether max_num_batched_tokens applies when prompts are not split.

        Before, a step then had max_model_len tokens, whatever was set.

        Source: vLLM 0.10.1 `engine/arg_utils.py` _set_default_args_v1.
        """
        return self >= (0, 10, 1)

    @property
    def has_v2_runner(self) -> bool:
        """Whether the second model runner exists.

        Source: vLLM 0.12.0 `envs.py` VLLM_USE_V2_MODEL_RUNNER.
        """
        return self >= (0, 12)


class ProfilingFacts(ReleaseNumber):
    """How a release measures the memory that is left for the KV cache."""

    __slots__ = ()

    @property
    def subtracts_consumed(self) -> bool:
        """Whether the drop in free device memory is subtracted from the budget.

        Before: weights + increase of PyTorch's peak + increase of non-torch memory.

        Source: vLLM 0.27.0 `utils/mem_utils.py` memory_profiling.
        """
        return self >= (0, 27)

    @property
    def counts_distributed_start(self) -> bool:
        """Whether the buffers of NCCL and all-reduce are subtracted from the budget.

        Source: vLLM 0.10.2 and 0.11.0 `v1/worker/gpu_worker.py` init_device.
        """
        return self < (0, 11)


class KVCacheFacts(ReleaseNumber):
    """How a release divides and checks the KV cache."""

    __slots__ = ()

    @property
    def groups_all_ranks(self) -> bool:
        """Whether layers of all pipeline stages are grouped together.

        Before, each stage grouped its own.

        Source: vLLM 0.11.0 `v1/core/kv_cache_utils.py` get_kv_cache_configs.
        """
        return self >= (0, 11)

    @property
    def packs_pages(self) -> bool:
        """Whether a block can hold pages of several sizes.

        Source: vLLM 0.29.0 `v1/core/kv_cache_utils.py` _get_packed_kv_cache_groups.
        """
        return self >= (0, 29)

    @property
    def checks_groups(self) -> bool:
        """Whether a request's memory is computed by groups of layers, with padding.

        Before, it was the sum over all layers, each without padding.

        Source: vLLM 0.14.0 `v1/core/kv_cache_utils.py`
        _max_memory_usage_bytes_from_groups.
        """
        return self >= (0, 14)

    @property
    def checks_each_stage(self) -> bool:
        """Whether each stage is checked with its own layers.

        Otherwise the stage with the least memory is checked with all layers.


        Source: vLLM 0.17.0 `v1/core/kv_cache_utils.py` get_kv_cache_configs.
        """
        return self >= (0, 17) or self < (0, 14)


class WeightsFacts(ReleaseNumber):
    """How a release stores weights and runs routed experts."""

    __slots__ = ()

    @property
    def lays_scales_out_for_deep_gemm(self) -> bool:
        """Whether loading a model converts block scales to DeepGEMM's layout.

        Source: vLLM 0.11.1 `layers/quantization/utils/fp8_utils.py`
        deepgemm_post_process_fp8_weight_block.
        """
        return self >= (0, 11, 1)

    @property
    def knows_blackwell_family(self) -> bool:
        """Whether B300 is treated like B200, as one family of GPUs.

        Source: vLLM 0.13.0 `utils/deep_gemm.py` is_deep_gemm_supported,
        `layers/quantization/mxfp4.py` get_mxfp4_backend.
        """
        return self >= (0, 13)

    @property
    def has_query_projections(self) -> bool:
        """Whether Gemma 4's layers that share a KV cache project queries only.

        Source: vLLM 0.30.0 `models/gemma4.py` Gemma4Attention.
        """
        return self >= (0, 30)

    @property
    def pads_experts_for_marlin(self) -> bool:
        """Whether experts are padded to Marlin's tiles.

        Source: vLLM 0.25.0 `layers/quantization/utils/marlin_utils.py`
        marlin_moe_padded_intermediate.
        """
        return self >= (0, 25)

    @property
    def keeps_raw_nvfp4_scales(self) -> bool:
        """Whether ModelOpt's scales are kept beside those converted for the kernel.

        Source: vLLM 0.10.1 and 0.10.2 `layers/quantization/modelopt.py`
        (weight_scale_swizzled).
        """
        return self < (0, 10, 2)

    @property
    def trtllm_mxfp4_columns(self) -> int:
        """Multiple of columns to which MXFP4 experts are padded for TRT-LLM.

        Source: vLLM 0.27.0 `layers/fused_moe/oracle/mxfp4.py`
        mxfp4_round_up_hidden_size_and_intermediate_size.
        """
        return 128 if self >= (0, 27) else 256

    @property
    def keeps_expert_workspace(self) -> bool:
        """Whether unquantised, FP8 and NVFP4 experts share a persistent workspace.

        Before, each layer allocated and freed its own intermediate results.

        Source: vLLM 0.14.0 `layers/fused_moe/unquantized_fused_moe_method.py`,
        `layers/fused_moe/oracle/fp8.py` and `nvfp4.py` (FusedMoEModularKernel);
        `v1/worker/workspace.py`.
        """
        return self >= (0, 14)

    @property
    def keeps_gptq_workspace(self) -> bool:
        """Whether GPTQ and INT8 experts use the workspace of `keeps_expert_workspace`.

        Source: vLLM 0.20.0 `layers/fused_moe/oracle/int_wna16.py` and `int8.py`.
        """
        return self >= (0, 20)

    @property
    def keeps_awq_workspace(self) -> bool:
        """Whether AWQ experts use the workspace of `keeps_expert_workspace`.

        Source: vLLM 0.22.0 `layers/quantization/awq_marlin.py`.
        """
        return self >= (0, 22)

    @property
    def prefers_flashinfer_quantised_experts(self) -> bool:
        """Whether FlashInfer's FP8 and NVFP4 expert kernels are on by default.

        Source: vLLM 0.15.0 `layers/fused_moe/oracle/fp8.py` and `nvfp4.py`.
        """
        return self >= (0, 15)

    @property
    def prefers_humming(self) -> bool:
        """Whether Hopper uses Humming's kernels instead of Marlin's.

        Source: vLLM 0.32.0 `layers/quantization/utils/humming/priority.py`.
        """
        return self >= (0, 32)


Kind = Literal["arguments", "architectures", "kv_cache_dtypes"]


@cache
def _history() -> dict[Kind, dict[str, str]]:
    path = DATA / "release_history.json"
    table: dict[Kind, dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
    return table


def came_later(kind: Kind, name: str, release: ReleaseNumber) -> str | None:
    """Return the first release that has a name; None if `release` has it.

    Also None for a name that is unknown, or that the oldest release has already.
    """
    first = _history()[kind].get(name)
    if first is None:
        return None
    major, minor, patch = map(int, first.split("."))
    return None if release >= (major, minor, patch) else first
