"""Mamba layers of the first and second kind, as several families use them."""

from __future__ import annotations

from planner.engine.layout import ParallelLayout
from planner.errors import Refused
from planner.models.layers import (
    ColumnParallelLinear,
    LinearByLayout,
    Module,
    Part,
    Replicated,
    RowParallelLinear,
    Sharded,
)
from planner.models.states import Mamba1State, Mamba2State, held_groups
from planner.values import frozen


def mamba1(  # noqa: PLR0913 - what vLLM's class takes
    state: Mamba1State,
    hidden_size: int,
    *,
    name: str,
    time_step_rank: int,
    has_conv_bias: bool,
    has_bias: bool,
    norm_sizes: tuple[int, ...] = (),
) -> tuple[Module, ...]:
    """Return the modules of a Mamba layer; vLLM quantises none of them.

    Args:
        state: its dimensions.
        hidden_size: of the model.
        name: of the mixer within its layer.
        time_step_rank: rank of the time step's projection.
        has_conv_bias: of the convolution.
        has_bias: of the projections in and out.
        norm_sizes: of the norms on time step, B and C, empty without weights.

    Source: vLLM 0.33.0 `layers/mamba/mamba_mixer.py` MambaMixer.
    """
    size = state.intermediate_size

    def column(
        suffix: str, inputs: int, outputs: tuple[int, ...], *, bias: bool
    ) -> ColumnParallelLinear:
        return ColumnParallelLinear(
            f"{name}.{suffix}",
            Part.MIXERS,
            inputs,
            outputs,
            bias=bias,
            is_quantizable=False,
        )

    def row(suffix: str, outputs: int, *, bias: bool) -> RowParallelLinear:
        return RowParallelLinear(
            f"{name}.{suffix}",
            Part.MIXERS,
            size,
            outputs,
            bias=bias,
            is_quantizable=False,
        )

    return (
        column("conv1d", state.conv_kernel, (size,), bias=has_conv_bias),
        column("in_proj", hidden_size, (size, size), bias=has_bias),
        row("x_proj", time_step_rank + 2 * state.state_size, bias=False),
        column("dt_proj", time_step_rank, (size,), bias=True),
        row("out_proj", hidden_size, bias=has_bias),
        Sharded(f"{name}.A", Part.MIXERS, ((size, state.state_size),), dtype="float32"),
        Sharded(f"{name}.D", Part.MIXERS, ((size,),)),
        *(
            (
                Replicated(
                    f"{name}.layernorms",
                    Part.MIXERS,
                    tuple((norm,) for norm in norm_sizes),
                ),
            )
            if norm_sizes
            else ()
        ),
    )


@frozen
class MixerProjection(LinearByLayout):
    """A projection of Mamba 2 into x and z, the groups' B and C, and the heads' steps.

    Groups that the ranks do not divide are repeated on each rank, and the projection
    is then one part instead of several.

    Source: vLLM 0.33.0 `layers/mamba/mamba_mixer2.py` MambaMixer2 (in_proj, conv1d).
    """

    input_size: int
    state: Mamba2State
    has_gate_and_heads: bool
    """Whether z and the heads' time steps are among the outputs (in_proj)."""
    part: Part = Part.MIXERS

    def as_linear(self, layout: ParallelLayout) -> ColumnParallelLinear:
        """Return vLLM's layer.

        Raises:
            Refused: in vLLM's words, when ranks divide neither heads nor groups.
        """
        ranks, state = layout.tensor_parallel_size, self.state
        _check(state, ranks)
        groups = held_groups(state.n_groups, ranks) * state.state_size
        sizes: tuple[int, ...] = (state.intermediate_size, groups, groups)
        if self.has_gate_and_heads:
            sizes = (state.intermediate_size, *sizes, state.num_heads)
        if state.n_groups % ranks:
            sizes = (sum(sizes),)
        return ColumnParallelLinear(
            self.name,
            self.part,
            self.input_size,
            sizes,
            bias=self.bias,
            dtype=self.dtype,
            method=self.method,
        )


def _check(state: Mamba2State, ranks: int) -> None:
    if state.num_heads % ranks:
        raise Refused(
            "AssertionError: Tensor parallel world size must divide num heads."
        )
    if state.n_groups % ranks and state.n_groups != 1:
        raise Refused(
            "AssertionError: If tensor parallel world size does not divide "
            "num_groups, then num_groups must equal 1."
        )


def mamba2(  # noqa: PLR0913 - what vLLM's class takes
    state: Mamba2State,
    hidden_size: int,
    *,
    name: str,
    has_conv_bias: bool,
    has_bias: bool,
    has_norm: bool = True,
) -> tuple[Module, ...]:
    """Return the modules of a Mamba 2 layer.

    Args:
        state: its dimensions.
        hidden_size: of the model.
        name: of the mixer within its layer.
        has_conv_bias: of the convolution.
        has_bias: of the projections in and out.
        has_norm: whether the gated norm has a weight.

    Source: vLLM 0.33.0 `layers/mamba/mamba_mixer2.py` MambaMixer2.
    """
    heads, size = state.num_heads, state.intermediate_size
    norm = (Sharded(f"{name}.norm", Part.MIXERS, ((size,),)),)
    return (
        MixerProjection(
            name=f"{name}.conv1d",
            input_size=state.conv_kernel,
            state=state,
            has_gate_and_heads=False,
            bias=has_conv_bias,
            is_quantizable=False,
        ),
        MixerProjection(
            name=f"{name}.in_proj",
            input_size=hidden_size,
            state=state,
            has_gate_and_heads=True,
            bias=has_bias,
        ),
        Sharded(f"{name}.A", Part.MIXERS, ((heads,),), dtype="float32"),
        Sharded(f"{name}.D_and_dt_bias", Part.MIXERS, ((heads,), (heads,))),
        RowParallelLinear(
            f"{name}.out_proj", Part.MIXERS, size, hidden_size, bias=has_bias
        ),
        *(norm if has_norm else ()),
    )
