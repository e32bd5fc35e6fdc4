"""Gated delta net: the linear attention of Qwen3-Next, Qwen3.5 and similar models."""

from __future__ import annotations

from dataclasses import dataclass

from planner.engine.layout import ParallelLayout
from planner.models.families.facts import Facts
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    Replicated,
    ReplicatedLinear,
    RowParallelLinear,
    Sharded,
)
from planner.models.states import GatedDeltaNetState
from planner.models.tensors import LinearMethod, Tensor

_NAME = "linear_attn"
_MARLIN_METHODS = ("auto_awq", "auto_gptq", "inc")


@dataclass(frozen=True, slots=True, kw_only=True)
class GateProjection:
    """The projection to a delta net's two gates per value head.

    Where Marlin's kernel would find too few rows on a rank, each holds all of them.

    Source: vLLM 0.33.0 `layers/mamba/gdn/qwen_gdn_linear_attn.py` maybe_disable_tp.
    """

    name: str
    input_size: int
    output_sizes: tuple[int, ...]
    part: Part = Part.MIXERS
    shards: tuple[str, ...] = ()
    is_quantizable: bool = True
    method: LinearMethod | None = None
    replicated_under: tuple[str, ...] = ()
    """Names of the quantisation methods under which every rank holds it in full,
    whether they quantise it or not."""
    is_replicated: bool = False

    def tensors(self, layout: ParallelLayout) -> tuple[Tensor, ...]:
        """Return the weight on a rank."""
        return self.as_linear(layout).tensors(layout)

    def as_linear(
        self,
        layout: ParallelLayout,  # noqa: ARG002 - as others' may depend on it
    ) -> ColumnParallelLinear | ReplicatedLinear:
        """Return vLLM's layer."""
        kind = ReplicatedLinear if self.is_replicated else ColumnParallelLinear
        return kind(
            name=self.name,
            part=self.part,
            input_size=self.input_size,
            output_sizes=self.output_sizes,
            method=self.method,
        )


def gated_delta_net_state(facts: Facts) -> GatedDeltaNetState:
    """Read the usual fields of a gated delta net.

    Source of `recurrent_dtype`: vLLM 0.33.0 `models/config.py`
    Qwen3_5ForConditionalGenerationConfig.
    """
    return GatedDeltaNetState(
        num_k_heads=facts.integer("linear_num_key_heads"),
        num_v_heads=facts.integer("linear_num_value_heads"),
        head_k_dim=facts.integer("linear_key_head_dim"),
        head_v_dim=facts.integer("linear_value_head_dim"),
        conv_kernel=facts.integer("linear_conv_kernel_dim"),
    )


def gated_delta_net(
    state: GatedDeltaNetState, hidden_size: int, *, is_interleaved: bool
) -> tuple[Module, ...]:
    """Return the modules of a gated delta net layer.

    Args:
        state: its dimensions.
        hidden_size: of the model.
        is_interleaved: whether the checkpoint has q, k, v and z in one tensor, group by
            group (Qwen3-Next), or apart (Qwen3.5).

    Source: vLLM 0.33.0 `layers/mamba/gdn/qwen_gdn_linear_attn.py`
    QwenGatedDeltaNetAttention.
    """
    keys = state.num_k_heads * state.head_k_dim
    values = state.num_v_heads * state.head_v_dim
    qkvz, ba = (keys, keys, values, values), (state.num_v_heads,) * 2
    return (
        ColumnParallelLinear(
            name=f"{_NAME}.conv1d",
            part=Part.MIXERS,
            input_size=state.conv_kernel,
            output_sizes=(2 * keys + values,),
            is_quantizable=False,
        ),
        ColumnParallelLinear(
            name=f"{_NAME}.in_proj_qkvz",
            part=Part.MIXERS,
            input_size=hidden_size,
            output_sizes=(sum(qkvz),) if is_interleaved else qkvz,
            shards=() if is_interleaved else ("in_proj_qkv", "in_proj_z"),
        ),
        GateProjection(
            name=f"{_NAME}.in_proj_ba",
            input_size=hidden_size,
            output_sizes=(sum(ba),) if is_interleaved else ba,
            shards=() if is_interleaved else ("in_proj_b", "in_proj_a"),
            replicated_under=() if is_interleaved else _MARLIN_METHODS,
        ),
        Sharded(
            name=f"{_NAME}.dt_bias", part=Part.MIXERS, shapes=((state.num_v_heads,),)
        ),
        Sharded(
            name=f"{_NAME}.A_log",
            part=Part.MIXERS,
            shapes=((state.num_v_heads,),),
            dtype="float32",
        ),
        Replicated(
            name=f"{_NAME}.norm", part=Part.MIXERS, shapes=((state.head_v_dim,),)
        ),
        RowParallelLinear(
            name=f"{_NAME}.out_proj",
            part=Part.MIXERS,
            input_size=values,
            output_size=hidden_size,
        ),
    )
