"""The routed experts of one layer, as a rank computes them in the profile run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.engine.releases.change import Change
from planner.memory.account import NOTHING, Sized
from planner.memory.lines.attention_pass import language_model
from planner.memory.profile_run import ProfileRun
from planner.models.experts import FusedMoE
from planner.models.families.recorded import RecordedModule
from planner.models.layers import Module
from planner.models.tensors import ExpertsKernel, ServedExperts
from planner.units import format_size
from planner.values import frozen

_COUNTS = ("n_routed_experts", "num_experts", "num_local_experts")
_CHOSEN = "num_experts_per_tok"
_TWO = 2
_ROUTER_BYTES = 4
_SUMMED_IN_NORM = ("MiniMaxM3SparseForConditionalGeneration",)
"""Models whose layers leave the sum over ranks to the norm that follows."""
_FREES_SCORES = (
    *("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM"),
    "KimiK25ForConditionalGeneration",
)
"""Models whose experts compute their scores, and free them before they add up.

Source: vLLM 0.33.0 `models/deepseek_v2.py` DeepseekV2MoE.forward (router_logits are
hidden_states), `layers/fused_moe/runner/moe_runner.py` _forward_impl; dry runs of
DeepSeek-Coder-V2-Lite on four ranks, and of DeepSeek-V3-0324 and Kimi K2.5 on eight.
"""
_ROUTES_IN_RUNNER = frozenset(
    (
        *(*_FREES_SCORES, "AXK1ForCausalLM", "ExaoneMoEForCausalLM"),
        *("K2HorizonForCausalLM", "MistralLarge3ForCausalLM", "Qwen3MoeForCausalLM"),
        *("Qwen3NextForCausalLM", "Qwen3_5MoeForCausalLM", "Step3p5ForCausalLM"),
        "Qwen3_5MoeForConditionalGeneration",
    )
)
"""Models whose experts get hidden states instead of scores, from their own gate."""
_ADDS_UP_IN_RUNNER = Change(
    since=(0, 31),
    what=(
        "The outputs of routed and shared experts have names while they are added up. "
        "Releases before 0.31.0 were not read."
    ),
)


@frozen
class ExpertBlock:
    """A layer's routed experts, as a rank computes them."""

    run: ProfileRun
    experts: FusedMoE
    served: ServedExperts
    has_shared_experts: bool
    has_shared_gate: bool
    """Whether the shared experts' output is multiplied by a gate of its own."""

    @property
    def tokens(self) -> int:
        """Tokens that enter the experts: those of all data-parallel ranks."""
        layout = self.run.layout
        return self.run.max_num_batched_tokens * layout.data_parallel_size

    @property
    def is_gathered(self) -> bool:
        """Whether the tokens of other ranks enter the experts too."""
        return self.run.layout.data_parallel_size > 1

    @property
    def chunk(self) -> int:
        """Tokens computed at once.

        Source: vLLM 0.17.1 `layers/fused_moe/modular_kernel.py` _chunk_info and
        `fused_moe.py` fused_experts_impl; Marlin's own function has no chunks.
        """
        limit = self.run.expert_chunk_tokens
        is_marlin = self.served.kernel is ExpertsKernel.MARLIN
        if limit is None or (is_marlin and not self.served.keeps_workspace):
            return self.tokens
        return min(self.tokens, limit)

    @property
    def gate_and_up(self) -> int:
        """Rows of w13 on the rank."""
        return self.served.intermediate_size * (2 if self.experts.is_gated else 1)

    @property
    def is_monolithic(self) -> bool:
        """Whether one call computes the layer, without the workspace.

        Source: vLLM 0.33.0 `layers/fused_moe/experts/`, classes named Monolithic.
        """
        is_triton = self.served.kernel is ExpertsKernel.OAI_TRITON
        is_trtllm = self.served.kernel is ExpertsKernel.TRTLLM
        return is_trtllm or (is_triton and not self.is_gathered)


def blocks(run: ProfileRun) -> Iterator[ExpertBlock]:
    """Yield the experts of each kind of layer."""
    for kind in run.model.layer_kinds:
        yield from _of(run, kind.modules)


def blocks_of_draft(run: ProfileRun) -> Iterator[ExpertBlock]:
    """Yield those of a draft, which runs beside the sampler."""
    speculation = run.model.speculation if run.samples else None
    if speculation is not None and speculation.draft is not None:
        yield from _of(run, speculation.draft.last_stage)


def added_up(block: ExpertBlock) -> Sized:
    """Return a layer's outputs while they are added up.

    Those of the routed and of the shared experts have names, beside them their sum, and
    the sum over ranks, unless the next norm adds it up; and so have the scores. Where a
    compiled piece multiplies the shared experts' output by a gate, it is both outputs.

    Source: vLLM 0.33.0 `layers/fused_moe/runner/moe_runner.py` forward,
    `models/qwen2_moe.py` Qwen2MoeMLP.forward; dry runs of MiniMax-M3 on eight H200, of
    Qwen3-VL-235B on eight H100, and of Qwen3-Next compiled on four, also of 0.31.0.
    """
    run, experts = block.run, block.experts
    is_left_out = run.compiles and not block.has_shared_gate
    if is_left_out or block.is_gathered or not run.release.has(_ADDS_UP_IN_RUNNER):
        return NOTHING
    is_divided = run.layout.tensor_parallel_size > 1
    sums = is_divided and run.model.architecture not in _SUMMED_IN_NORM
    count = 1 + 2 * int(block.has_shared_experts) + int(sums)
    scores_bytes = _ROUTER_BYTES * experts.num_experts
    if language_model(run) in _FREES_SCORES:
        scores_bytes = 0
    if run.compiles:
        count, scores_bytes = 2, 0
    tokens = run.max_num_batched_tokens
    hidden = tokens * run.model.hidden_size * run.element_size
    tensors = (*[hidden] * count, tokens * scores_bytes)
    size_bytes = sum(tensors)
    return Sized(
        size_bytes=size_bytes,
        why=f"{count} outputs of experts and sums {format_size(size_bytes)}",
        tensors=tensors,
    )


def copied_inputs_bytes(block: ExpertBlock) -> int:
    """Return the copies of a layer's input that a compiled piece makes of it.

    The operator of experts has the input as an argument of its own for the scores and
    for shared experts. No other operator needs it, so the norm writes it for each.

    Source: vLLM 0.31.0 and 0.33.0 `models/qwen3_moe.py` Qwen3MoeSparseMoeBlock.forward,
    `models/deepseek_v2.py` DeepseekV2MoE.forward, `layers/fused_moe/runner/` forward
    (moe_forward, moe_forward_shared); PyTorch 2.14 `_inductor/ir.py` realize_input;
    compiled dry runs of Qwen3-235B and Kimi K2.6 on eight ranks.
    """
    run = block.run
    routes_itself = language_model(run) in _ROUTES_IN_RUNNER
    if not (run.compiles and routes_itself and run.release.has(_ADDS_UP_IN_RUNNER)):
        return 0
    copies = 1 + int(block.has_shared_experts)
    hidden = run.model.hidden_size * run.element_size
    return copies * run.max_num_batched_tokens * hidden


def _of(run: ProfileRun, modules: Sequence[Module]) -> Iterator[ExpertBlock]:
    for module in modules:
        experts = _recorded(run, module)
        if isinstance(module, FusedMoE):
            experts = module
        if experts is not None:
            yield ExpertBlock(
                run=run,
                experts=experts,
                served=experts.served(run.layout),
                has_shared_experts=any("shared_expert" in m.name for m in modules),
                has_shared_gate=any("shared_expert_gate" in m.name for m in modules),
            )


def _recorded(run: ProfileRun, module: Module) -> FusedMoE | None:
    """Return experts that are known from a recording, where they are not quantised.

    The recording has the bytes of both weights, config.json how many there are.
    """
    if not (
        isinstance(module, RecordedModule) and module.is_expert and run.model.files
    ):
        return None
    config, held = run.model.files.config, module.held
    count = next((n for name in _COUNTS if isinstance(n := config.get(name), int)), 0)
    top_k = config.get(_CHOSEN)
    is_plain = len(held) == _TWO and {t.dtype for t in held} <= {None, run.dtype}
    if not (count and isinstance(top_k, int) and is_plain):
        return None
    first, second = (tensor.cut_bytes for tensor in held)
    hidden = run.model.hidden_size
    return FusedMoE(
        name=module.name,
        num_experts=count,
        top_k=top_k,
        hidden_size=hidden,
        intermediate_size=second // (count * hidden * run.element_size),
        is_gated=first > second,
    )
