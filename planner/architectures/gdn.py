"""Gated delta net: the linear attention of Qwen3-Next, Qwen3.5 and their kin."""

from __future__ import annotations

from planner.architectures.facts import Facts
from planner.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    Replicated,
    RowParallelLinear,
    Sharded,
)
from planner.states import GatedDeltaNetState

_NAME = "linear_attn"


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
        ColumnParallelLinear(
            name=f"{_NAME}.in_proj_ba",
            part=Part.MIXERS,
            input_size=hidden_size,
            output_sizes=(sum(ba),) if is_interleaved else ba,
            shards=() if is_interleaved else ("in_proj_b", "in_proj_a"),
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
