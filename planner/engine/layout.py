"""How a model is divided over GPUs, and vLLM's rules for dividing sizes."""

from __future__ import annotations

from planner.engine.releases import NEWEST_RELEASE, Release
from planner.errors import Refused
from planner.values import frozen


def divide(value: int, by: int) -> int:
    """Divide without remainder, as vLLM requires.

    Raises:
        Refused: in vLLM's words, when `by` does not divide `value`.

    Source: vLLM 0.33.0 `distributed/utils.py` ensure_divisibility.
    """
    if value % by:
        raise Refused(f"{value} is not divisible by {by}")
    return value // by


def pad_vocabulary(num_embeddings: int) -> int:
    """Round a vocabulary up to a multiple of 64.

    Source: vLLM 0.33.0 `layers/vocab_parallel_embedding.py` pad_vocab_size.
    """
    return -(-num_embeddings // 64) * 64


@frozen
class ParallelLayout:
    """The ranks of one deployment, and what their weights and buffers depend on.

    Source: vLLM 0.33.0 `config/parallel.py` ParallelConfig.
    """

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    decode_context_parallel_size: int = 1
    prefill_context_parallel_size: int = 1
    """Ranks that share prompts, of which only experts are divided here."""
    enable_expert_parallel: bool = False
    enable_eplb: bool = False
    """Whether experts are moved between ranks to balance their load."""
    num_redundant_experts: int = 0
    """Copies of experts in a layer, in addition to the model's own."""
    pp_layer_partition: str | None = None
    """VLLM_PP_LAYER_PARTITION, such as "20,28"."""
    compute_capability: tuple[int, int] = (9, 0)
    """Of the ranks' GPUs: some kernels need padded weights."""
    num_sms: int = 132
    """Streaming multiprocessors of a GPU; some workspaces scale with them."""
    dtype: str = "bfloat16"
    """Of the model; kernels of quantised layers depend on it."""
    max_num_batched_tokens: int = 0
    max_model_len: int = 0
    """Tokens of a step; buffers of some models scale with it."""
    enforce_eager: bool = False
    """Whether models run uncompiled, with vLLM's own operations."""
    enable_lora: bool = False
    """Whether experts use only kernels that support adapters."""
    moe_backend: str = "auto"
    """The requested kernel of experts, as vLLM spells it."""
    uses_deep_gemm: bool = True
    """Whether DeepGEMM may compute FP8 layers; experts have their own switch too."""
    experts_use_deep_gemm: bool = True
    release: Release = NEWEST_RELEASE
    """The release of vLLM whose rules the ranks follow."""

    @property
    def capability(self) -> int:
        """The compute capability as one number, such as 90."""
        return 10 * self.compute_capability[0] + self.compute_capability[1]

    @property
    def world_size(self) -> int:
        """GPUs of one engine: tensor x pipeline parallel."""
        return self.tensor_parallel_size * self.pipeline_parallel_size

    @property
    def expert_ranks(self) -> int:
        """Ranks that share a layer's experts: tensor x prefill context x data parallel.

        Source: vLLM 0.33.0 `layers/fused_moe/config.py` FusedMoEParallelConfig.make.
        """
        ranks = self.tensor_parallel_size * self.data_parallel_size
        return ranks * self.prefill_context_parallel_size

    @property
    def experts_tensor_parallel_size(self) -> int:
        """Ranks that each expert is divided over: 1 with expert parallelism."""
        return 1 if self.enable_expert_parallel else self.expert_ranks

    def local_num_experts(self, num_experts: int) -> int:
        """Return the experts on the rank that holds the most, copies included.

        Raises:
            Refused: in vLLM's words, when EPLB cannot divide the experts evenly.

        Source: vLLM 0.33.0 `layers/fused_moe/expert_map_manager.py`
        determine_expert_map: the first `num_experts % ranks` ranks hold one more;
        `layers/fused_moe/layer.py` FusedMoEFactory.
        """
        if not self.enable_expert_parallel:
            return num_experts
        count = self.physical_experts(num_experts)
        if self.enable_eplb and count % self.expert_ranks:
            raise Refused(
                "EPLB currently only supports even distribution of experts across "
                f"ranks. Got {count} experts and {self.expert_ranks} EP ranks."
            )
        return -(-count // self.expert_ranks)

    def physical_experts(self, num_experts: int) -> int:
        """Return the experts of a layer on all ranks together, copies included."""
        return num_experts + self.num_redundant_experts

    def stage_sizes(self, num_hidden_layers: int) -> tuple[int, ...]:
        """Return the number of layers of each pipeline stage.

        Raises:
            Refused: when VLLM_PP_LAYER_PARTITION does not fit the model.

        Source: vLLM 0.33.0 `distributed/utils.py` get_pp_indices.
        """
        num_stages = self.pipeline_parallel_size
        if self.pp_layer_partition is not None:
            return _given_partition(
                self.pp_layer_partition, num_stages, num_hidden_layers
            )
        sizes = [num_hidden_layers // num_stages] * num_stages
        # The last stage, which also has the head, is the last to get one more layer.
        for stage in range(2, num_hidden_layers % num_stages + 2):
            sizes[-stage] += 1
        return tuple(sizes)


def _given_partition(
    text: str, pp_size: int, num_hidden_layers: int
) -> tuple[int, ...]:
    try:
        partitions = tuple(int(layers) for layers in text.split(","))
    except ValueError as error:
        raise Refused(f"Invalid partition string: {text}") from error
    if len(partitions) != pp_size:
        raise Refused(f"{len(partitions)=} does not match {pp_size=}.")
    if sum(partitions) != num_hidden_layers:
        raise Refused(f"{sum(partitions)=} does not match {num_hidden_layers=}.")
    return partitions
