"""What recurrent layers keep of a request: states of a fixed size, however long it is.

One class per kind of layer; each says which states a rank holds, and of which role, on
which their dtype depends.

Source: vLLM 0.33.0 `layers/mamba/mamba_utils.py` MambaStateShapeCalculator.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from planner.engine.layout import divide
from planner.values import frozen


class Role(StrEnum):
    """What a state is for; `mamba_ssm_cache_dtype` holds for the recurrence only."""

    CONVOLUTION = "convolution"
    RECURRENCE = "recurrence"


class State(NamedTuple):
    """One state of one layer on one rank."""

    elements: int
    role: Role


@frozen
class Mamba1State:
    """Of a Mamba layer of the first kind.

    Source: vLLM 0.33.0 `layers/mamba/mamba_utils.py` mamba1_state_shape.
    """

    intermediate_size: int
    state_size: int
    conv_kernel: int
    recurrent_dtype: str | None = None
    """Which vLLM takes for the recurrence when the user names none; None: the dtype of
    the convolution."""

    def states(self, ranks: int, num_spec: int = 0) -> tuple[State, ...]:  # noqa: ARG002
        """Return the states on one of this many ranks, for this many guessed tokens."""
        channels = divide(self.intermediate_size, ranks)
        return (
            State(channels * (self.conv_kernel - 1), Role.CONVOLUTION),
            State(channels * self.state_size, Role.RECURRENCE),
        )


@frozen
class Mamba2State:
    """Of a Mamba layer of the second kind.

    Groups that the ranks do not divide are held once per rank.

    Source: vLLM 0.33.0 `layers/mamba/mamba_utils.py` mamba2_state_shape.
    """

    intermediate_size: int
    n_groups: int
    num_heads: int
    head_dim: int
    state_size: int
    conv_kernel: int
    recurrent_dtype: str | None = None
    has_default_dtype: bool = False
    """Whether `recurrent_dtype` is vLLM's default, not set by the config."""

    def states(self, ranks: int, num_spec: int = 0) -> tuple[State, ...]:
        """Return the states on one of this many ranks, for this many guessed tokens."""
        groups = held_groups(self.n_groups, ranks)
        channels = divide(self.intermediate_size + 2 * groups * self.state_size, ranks)
        heads = divide(self.num_heads, ranks)
        return (
            State(channels * (self.conv_kernel - 1 + num_spec), Role.CONVOLUTION),
            State(heads * self.head_dim * self.state_size, Role.RECURRENCE),
        )


def held_groups(n_groups: int, ranks: int) -> int:
    """Return the groups of a Mamba 2 layer that all ranks hold together.

    Source: vLLM 0.33.0 `layers/mamba/mamba_utils.py` extra_groups_for_head_shards.
    """
    return n_groups if n_groups % ranks == 0 else ranks


@frozen
class GatedDeltaNetState:
    """Of a gated delta net layer: a matrix of keys by values per value head.

    Source: vLLM 0.33.0 `layers/mamba/mamba_utils.py` gated_delta_net_state_shape.
    """

    num_k_heads: int
    num_v_heads: int
    head_k_dim: int
    head_v_dim: int
    conv_kernel: int
    recurrent_dtype: str | None = None
    exports_checkpoints: bool = True
    """Whether FlashInfer's prefill kernel, where there is one, saves states on its way
    (Qwen's layer does, Olmo's does not)."""

    def states(self, ranks: int, num_spec: int = 0) -> tuple[State, ...]:
        """Return the states on one of this many ranks, for this many guessed tokens."""
        keys = self.num_k_heads * self.head_k_dim
        channels = divide(2 * keys + self.num_v_heads * self.head_v_dim, ranks)
        heads = divide(self.num_v_heads, ranks)
        return (
            State(channels * (self.conv_kernel - 1 + num_spec), Role.CONVOLUTION),
            State(heads * self.head_v_dim * self.head_k_dim, Role.RECURRENCE),
        )


@frozen
class KimiDeltaAttentionState:
    """Of a Kimi delta attention layer; its recurrence is float32 unless set.

    Source: vLLM 0.33.0 `layers/mamba/mamba_utils.py` kda_state_shape, kda_state_dtype.
    """

    num_heads: int
    head_dim: int
    num_k_heads: int | None = None
    head_k_dim: int | None = None
    conv_kernel: int = 4
    recurrent_dtype: str | None = "float32"
    may_use_flash_kda: bool = False
    """Whether vLLM's class requests FlashKDA, and the gate is bounded as it needs."""

    def states(self, ranks: int, num_spec: int = 0) -> tuple[State, ...]:
        """Return the states on one of this many ranks, for this many guessed tokens."""
        k_heads = self.num_heads if self.num_k_heads is None else self.num_k_heads
        k_dim = self.head_dim if self.head_k_dim is None else self.head_k_dim
        channels = divide(self.num_heads * self.head_dim + 2 * k_heads * k_dim, ranks)
        heads = divide(self.num_heads, ranks)
        return (
            State(channels * (self.conv_kernel - 1 + num_spec), Role.CONVOLUTION),
            State(heads * self.head_dim * self.head_dim, Role.RECURRENCE),
        )


@frozen
class ShortConvolutionState:
    """Of a short convolution: the last few inputs.

    Source: vLLM 0.33.0 `layers/mamba/mamba_utils.py` short_conv_state_shape.
    """

    intermediate_size: int
    conv_kernel: int
    recurrent_dtype: str | None = None

    def states(self, ranks: int, num_spec: int = 0) -> tuple[State, ...]:
        """Return the state on one of this many ranks, for this many guessed tokens."""
        channels = divide(self.intermediate_size, ranks)
        return (State(channels * (self.conv_kernel - 1 + num_spec), Role.CONVOLUTION),)


@frozen
class LinearAttentionState:
    """Of a linear attention layer: a square matrix per head, of the cache's dtype.

    Source: vLLM 0.33.0 `layers/mamba/mamba_utils.py` linear_attention_state_shape,
    linear_attention_state_dtype.
    """

    num_heads: int
    head_dim: int
    recurrent_dtype: str | None = None

    def states(self, ranks: int, num_spec: int = 0) -> tuple[State, ...]:  # noqa: ARG002
        """Return the state on one of this many ranks, for this many guessed tokens."""
        heads = self.num_heads // ranks
        return (State(heads * self.head_dim * self.head_dim, Role.CONVOLUTION),)


@frozen
class RecordedState:
    """Of a layer that is known from a recording, whatever its kind."""

    sizes: tuple[int, ...]
    """Elements of each state over all ranks, the recurrence last."""
    recurrent_dtype: str | None = None

    def states(self, ranks: int, num_spec: int = 0) -> tuple[State, ...]:  # noqa: ARG002
        """Return the states on one of this many ranks."""
        *others, last = self.sizes
        role = Role.RECURRENCE if others else Role.CONVOLUTION
        convolutions = (State(divide(one, ranks), Role.CONVOLUTION) for one in others)
        return (*convolutions, State(divide(last, ranks), role))


StateLayer = (
    Mamba1State
    | Mamba2State
    | GatedDeltaNetState
    | KimiDeltaAttentionState
    | ShortConvolutionState
    | LinearAttentionState
    | RecordedState
)
