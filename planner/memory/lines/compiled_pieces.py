"""What there is while a compiled piece of the model runs.

A piece begins after attention, or the states of a mixer, and ends before the next ones.
Its caller holds what it takes until it is over, and it allocates what it returns.
"""

from __future__ import annotations

from planner.engine.generations import AMPERE
from planner.engine.releases.change import Change
from planner.memory.lines.attention_pass import (
    delta_net_sizes,
    kinds,
    language_model,
    mixer_sizes,
    query_and_key_widths,
)
from planner.memory.profile_run import ProfileRun, once_for_all_lengths
from planner.models.architecture import LayerKind
from planner.models.families.mamba_mixers import MixerProjection
from planner.models.families.recorded import RecordedModule
from planner.models.layers import (
    ColumnParallelLinear,
    Part,
    QKVParallelLinear,
    RowParallelLinear,
)

_KEEPS_STATES_APART = Change(
    since=(0, 31),
    what=(
        "Compiled norms have tensors of their own for their sums, as queries and keys "
        "have after theirs. Earlier releases were not compared."
    ),
    source="dry runs of 0.31.0 and 0.33.0 (PyTorch 2.13, 2.14)",
)
_CLEARS_STATES_EARLY = Change(
    since=(0, 33),
    what=(
        "A compiled piece clears the next states' room before its experts run. Earlier "
        "releases were compared with one start of 0.31.0."
    ),
)
_NORMALISES_IN_KERNEL = Change(
    since=(0, 31),
    what=(
        "A gated delta net that a kernel of vLLM's own decodes leaves its output alone "
        "to the compiled piece after it. Releases before 0.31.0 were not read."
    ),
    source=(
        "vLLM 0.31.0 `layers/mamba/gdn/qwen_gdn_linear_attn.py` forward_cuda "
        "(use_fused_gdn_decode)"
    ),
)
_IN_KERNEL_FOR_GUESSES = Change(
    since=(0, 32),
    what="That kernel of gated delta nets serves speculative decoding alone.",
    source=(
        "vLLM 0.32.0 `layers/mamba/gdn/qwen_gdn_linear_attn.py` "
        "enable_fused_gdn_spec_decode"
    ),
)
NORMALISES_OUTPUTS = (
    *("Gemma2ForCausalLM", "Gemma3ForCausalLM", "Gemma4ForCausalLM"),
    "Gemma4ForConditionalGeneration",
)
"""Models that normalise attention's output: compiled, its sum with others is in fp32.

Source: dry runs of 0.33.0: Gemma 3 1B on four ranks, traced; Gemma 2 27B and Gemma 4
26B on eight, Gemma 4 31B on four.
"""


def compiled_widths(
    run: ProfileRun, kind: LayerKind, module: object
) -> list[tuple[tuple[int, ...], str]]:
    """Return what a compiled piece has between a layer's output and attention.

    The widths of its tensors, at two points.

    Beside the residual and attention's output, which its caller holds: where the norm
    adds up, both inputs and both outputs are tensors of their own. At the projection
    after it, three states, queries, keys and values, and what their own norms return.
    One of two residuals of `held` is among the states.

    Source: dry runs of 0.33.0: Mixtral 8x22B on four ranks (5 states of 6,144, 1,536
    of attention), Qwen3-30B-A3B (4 of 2,048, 4,096, 5,120 and 4,608), Qwen3-4B on
    eight.
    """
    if isinstance(module, MixerProjection | ColumnParallelLinear):
        return _before_states(run, kind, module)
    if not isinstance(module, QKVParallelLinear) or module.part is not Part.ATTENTION:
        return []
    if not run.release.has(_KEEPS_STATES_APART):
        return []
    hidden = run.model.hidden_size
    queries, keys = query_and_key_widths(run, module)
    has_norms = any(m.name.endswith("qk_norm") for m in kind.modules)
    normed = queries + keys if has_norms else 0
    projected = queries + 2 * keys
    count = 5 if has_fitted_sums(run) else 3
    return [
        ((hidden,) * count, f"{count} x {hidden:,} sum and norm"),
        (
            (hidden, hidden, projected, normed),
            f"2 x {hidden:,} states + {projected:,} projected + {normed:,} normed",
        ),
    ]


def has_fitted_sums(run: ProfileRun) -> bool:
    """Whether compiled sums were fitted to starts, larger blocks included."""
    normalises = language_model(run) in NORMALISES_OUTPUTS
    return normalises and run.layout.tensor_parallel_size > 1


def _before_states(
    run: ProfileRun, kind: LayerKind, module: object
) -> list[tuple[tuple[int, ...], str]]:
    """Return what a piece returns to a mixer: what it projected, and room for states.

    Beside them is the norm's output. A delta net with groups joins queries, keys and
    values again once that is freed, and copies z.
    """
    projected, states = mixer_sizes(run, module)
    beside: tuple[int, ...] = (run.model.hidden_size,)
    more = "normed"
    if not projected:
        projected, states, joined = delta_net_sizes(run, kind, module)
        if joined:
            beside, more = (joined, states), "joined"
    if not projected:
        return []
    text = f"{projected:,} projected + {states:,} states + {sum(beside):,} {more}"
    return [((projected, states, *beside), text)]


def cleared_bytes(run: ProfileRun) -> int:
    """Return the next states' room, which a piece clears before its experts run.

    Source: traced dry runs of Qwen3-Next-80B-A3B-Thinking-FP8 on two ranks and of
    Qwen3-Next-80B-A3B-Instruct on four.
    """
    if not (run.compiles and run.release.has(_CLEARS_STATES_EARLY)):
        return 0
    states = (
        delta_net_sizes(run, kind, module)[1]
        for kind in kinds(run)
        for module in kind.modules
    )
    return run.max_num_batched_tokens * run.element_size * max(states, default=0)


@once_for_all_lengths
def left_width(run: ProfileRun) -> int:
    """Return what a layer leaves, at most, to the piece after its attention or states.

    Attention's output and its gate, which is as wide. A mixer of Mamba 2 leaves its
    states and all that it projected, of which the gate is a view; a gated delta net its
    output and z, which is a view where nothing is joined again.

    Source: vLLM 0.16.0, 0.31.0 and 0.33.0 `layers/mamba/mamba_mixer2.py`
    MambaMixer2.forward; 0.33.0 `layers/mamba/gdn/qwen_gdn_linear_attn.py` forward_cuda,
    `models/qwen3_next.py` Qwen3NextAttention.forward; traced dry runs of
    Nemotron-Nano-9B-v2 and Qwen3-Next-80B-A3B.
    """
    return max(
        (_left(run, kind, module) for kind in kinds(run) for module in kind.modules),
        default=0,
    )


def _left(run: ProfileRun, kind: LayerKind, module: object) -> int:
    if isinstance(module, RowParallelLinear | RecordedModule):
        if module.part is not Part.ATTENTION:
            return 0
        width = module.input_size // run.layout.tensor_parallel_size
        return width * (2 if _has_gate(kind) else 1)
    projected, values, joined = delta_net_sizes(run, kind, module)
    if joined:
        projected = values
    elif _normalises_in_kernel(run):
        projected = 0
    return max(sum(mixer_sizes(run, module)), projected + values)


def _normalises_in_kernel(run: ProfileRun) -> bool:
    """Return whether a delta net's norm is part of its kernel: then z is not needed.

    Source: vLLM 0.33.0 `layers/mamba/gdn/qwen_gdn_linear_attn.py`
    _fused_gdn_decode_unsupported_reason; a dry run of Qwen3.6-35B-A3B with its draft.
    """
    release = run.release
    is_asked = run.model.speculation is not None or not release.has(
        _IN_KERNEL_FOR_GUESSES
    )
    is_able = run.dtype == "bfloat16" and run.layout.compute_capability >= AMPERE
    return release.has(_NORMALISES_IN_KERNEL) and is_asked and is_able


def _has_gate(kind: LayerKind) -> bool:
    """Return whether attention's output is multiplied by a gate, projected with it."""
    parts = [one for one in kind.modules if one.part is Part.ATTENTION]
    queries = sum(
        one.num_heads * one.head_size
        for one in parts
        if isinstance(one, QKVParallelLinear)
    )
    output = sum(one.input_size for one in parts if isinstance(one, RowParallelLinear))
    return bool(output) and queries == 2 * output
