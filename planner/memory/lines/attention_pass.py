"""What attention and the mixers that take its place hold, without compilation."""

from __future__ import annotations

from collections.abc import Iterator

from planner.memory.profile_run import ProfileRun
from planner.models.architecture import LayerKind
from planner.models.families.mamba_mixers import MixerProjection
from planner.models.families.registry import BUILT_OTHERWISE
from planner.models.layers import (
    ColumnParallelLinear,
    Part,
    QKVParallelLinear,
    RowParallelLinear,
)

_PARALLEL = "GPTNeoXForCausalLM"
DELTA_NET_INPUT, _DELTA_NET_OUTPUT = "linear_attn.in_proj_qkvz", "linear_attn.out_proj"
_SHORT_CONV = "short_conv.in_proj"
_STEPS_AND_GROUPS = "x_proj"
"""Projects to time steps, B and C: in the mixer of the first Mamba alone."""
_ROTATES_A_COPY = ("PhiMoEForCausalLM",)
"""Models with long RoPE whose attention is wider than their experts' part of a rank.

Source: vLLM 0.33.0 `layers/rotary_embedding/phi3_long_rope_scaled_rope.py` forward.
"""
_NORMALISES_QUERIES_IN_FP32 = ("MiniCPMV4_6ForConditionalGeneration",)
"""Models with images whose gated attention has no kernel that splits and normalises.

Source: vLLM 0.31.0 and 0.33.0 `models/qwen3_next.py` use_fused_qk_norm_rope_gate: it
needs rotary sections for images, or text alone.
"""
_ROTATES_IN_FP32 = ("OlmoForCausalLM", "Olmo2ForCausalLM", "Olmo3ForCausalLM")
_FP32 = 4


def is_left_to_transformers(run: ProfileRun) -> bool:
    """Return whether Transformers' class serves a model that once had vLLM's own."""
    own = BUILT_OTHERWISE.get(run.model.architecture)
    return own is not None and not run.release.has(own[0])


def kinds(run: ProfileRun) -> Iterator[LayerKind]:
    """Yield the kinds that layers have: a family may list more."""
    for index in dict.fromkeys(run.model.layers):
        yield run.model.layer_kinds[index]


def language_model(run: ProfileRun) -> str:
    """Return the class of the language model, or of the model itself."""
    return run.model.language_architecture or run.model.architecture


def query_and_key_widths(run: ProfileRun, module: QKVParallelLinear) -> tuple[int, int]:
    """Return the widths of a rank's queries, and of its keys or values."""
    ranks = run.layout.tensor_parallel_size
    keys = -(-module.num_kv_heads // ranks) * module.head_size
    return module.num_heads // ranks * module.head_size, keys


def attention_widths(
    run: ProfileRun, kind: LayerKind, module: object, sums: int
) -> list[tuple[int, str]]:
    """Return what attention has at its output's projection, without compilation.

    Queries, keys and values as projected, with names; queries and keys after their own
    norms; and attention's output. With ranks, `sums` is the width of their sum.

    Transformers' GPT-NeoX copies what it has rotated for vLLM's kernel, and has values
    with a name too.

    Source: vLLM 0.33.0 `models/gemma4.py` Gemma4Attention, `models/qwen3.py`
    Qwen3Attention, `models/transformers/base.py` vllm_flash_attention_forward;
    Transformers 5 `models/gpt_neox/modeling_gpt_neox.py` GPTNeoXAttention.forward.
    """
    if not isinstance(module, QKVParallelLinear) or module.part is not Part.ATTENTION:
        return []
    queries, keys = query_and_key_widths(run, module)
    has_norms = any(m.name.endswith("qk_norm") for m in kind.modules)
    normed = queries + keys if has_norms else 0
    projected = queries + 2 * keys
    if run.model.architecture == _PARALLEL and is_left_to_transformers(run):
        fp8 = queries // run.element_size if run.kv_cache_dtype.startswith("fp8") else 0
        text = f"2 x {projected:,} queries, keys, values + {queries + keys:,} rotated"
        return [
            (
                2 * projected + queries + keys + queries + fp8,
                f"{text} + {queries:,}" + (f" + {fp8:,} in FP8" if fp8 else ""),
            )
        ]
    text = f"{projected:,} queries, keys, values + {normed:,} normed + {queries:,}"
    if run.model.architecture in _ROTATES_A_COPY:
        normed += queries + keys
        text += f" + {queries + keys:,} rotated"
    text += f" + {sums:,} sum" if sums else ""
    return [(projected + normed + queries + sums, text)]


def gated_attention_widths(
    run: ProfileRun, kind: LayerKind, module: object, held: int
) -> list[tuple[int, str]]:
    """Return what attention with a gate has where its output is multiplied by it.

    All as projected; queries, keys and the gate once more, from one kernel; attention's
    output, the gate's sigmoid and their product. Four hidden states are there. Without
    that kernel the norm has three tensors of queries in fp32 beside both copies.

    Source: vLLM 0.33.0 `models/qwen3_next.py` Qwen3NextAttention.forward; traced dry
    runs of Qwen3.5-122B-A10B on two ranks and of MiniCPM-V 4.6.
    """
    if not isinstance(module, QKVParallelLinear) or module.part is not Part.ATTENTION:
        return []
    ranks, hidden = run.layout.tensor_parallel_size, run.model.hidden_size
    queries, keys = query_and_key_widths(run, module)
    output = sum(
        m.input_size // ranks
        for m in kind.modules
        if isinstance(m, RowParallelLinear) and m.part is Part.ATTENTION
    )
    if queries != 2 * output:
        return []
    projected, more = queries + 2 * keys, 4 * hidden - held
    text = f"{projected:,} projected + 5 x {output:,} + {keys:,} keys"
    widths = [(projected + 5 * output + keys + more, f"{text} + {more:,} more states")]
    if run.model.architecture in _NORMALISES_QUERIES_IN_FP32:
        copied = 2 * output + 3 * _FP32 // run.element_size * output
        text = f"{projected:,} projected + {copied:,} queries and gate, in fp32 too"
        widths.append((projected + copied + more, f"{text} + {more:,} more states"))
    return widths


def short_conv_widths(
    run: ProfileRun, module: object, sums: int
) -> list[tuple[int, str]]:
    """Return what a short convolution has at its output, without compilation.

    Both gates and the input as projected, two products of them, and the output; with
    ranks also the sum.

    Source: vLLM 0.33.0 `layers/mamba/short_conv.py` ShortConv.forward_cuda; a traced
    dry run of LFM2.5-8B-A1B.
    """
    if not isinstance(module, ColumnParallelLinear) or module.name != _SHORT_CONV:
        return []
    projected = sum(module.output_sizes) // run.layout.tensor_parallel_size
    products = 2 * projected // 3
    out = run.model.hidden_size + sums
    text = f"{projected:,} projected + {products:,} products + {out:,} output"
    return [(projected + products + out, text)]


def rotation_widths(
    run: ProfileRun, kind: LayerKind, module: object, held: int
) -> list[tuple[int, str]]:
    """Return what OLMo of Transformers has while it rotates keys.

    Embeddings and residual; queries, keys and values as projected; queries and keys of
    all ranks after their norms, or the first OLMo's input after its own; queries as
    rotated in fp32, and three such tensors of keys; cosines and sines for full
    attention and for windows.

    Source: Transformers 5.20 `models/olmo3/modeling_olmo3.py` apply_rotary_pos_emb,
    Olmo3RotaryEmbedding.forward; a traced dry run of Olmo-3-7B on four ranks.
    """
    is_theirs = run.model.architecture in _ROTATES_IN_FP32 and is_left_to_transformers(
        run
    )
    if not is_theirs or not isinstance(module, QKVParallelLinear):
        return []
    ranks, size = run.layout.tensor_parallel_size, module.head_size
    has_norms = any(m.name.endswith("qk_norm") for m in kind.modules)
    heads = module.num_heads + module.num_kv_heads
    every = heads * size if has_norms else run.model.hidden_size
    queries, keys = (
        -(-count // ranks) * size for count in (module.num_heads, module.num_kv_heads)
    )
    in_fp32 = _FP32 // run.element_size
    windows = {getattr(one, "sliding_window", None) for one in run.model.cache_layers}
    tables = 2 * len(windows) * size * in_fp32
    rotated = in_fp32 * (queries + 3 * keys)
    values = 2 * run.model.hidden_size + queries + 2 * keys + every + rotated + tables
    text = f"{every:,} normed + {rotated:,} rotated + {tables:,} tables"
    return [(values - held, f"{text} + {values - every - rotated - tables - held:,}")]


def mixer_sizes(run: ProfileRun, module: object) -> tuple[int, int]:
    """Return what a mixer of Mamba 2 projects and its states; 0 of other modules."""
    if not isinstance(module, MixerProjection) or not module.has_gate_and_heads:
        return 0, 0
    ranks = run.layout.tensor_parallel_size
    projected = sum(module.as_linear(run.layout).output_sizes) // ranks
    return projected, module.state.intermediate_size // ranks


def mixer_widths(
    run: ProfileRun, kind: LayerKind, module: object
) -> list[tuple[int, str]]:
    """Return what a mixer of Mamba 2 has at its norm, without compilation.

    What was projected, the states' output, and two tensors in fp32. A kernel without
    these serves the norm of one group on one rank. Callers hold one hidden state less
    than beside an MLP.

    Source: vLLM 0.12.0 and 0.29.0 `layers/mamba/mamba_mixer2.py` MambaMixer2.forward,
    Mixer2RMSNormGated; allocations of a dry run of 0.29.0.
    """
    projected, states = mixer_sizes(run, module)
    if not isinstance(module, MixerProjection) or not projected:
        return []
    ranks = run.layout.tensor_parallel_size
    norm = f"{module.name.removesuffix('in_proj')}norm"
    has_norm = any(one.name == norm for one in kind.modules)
    has_kernel = has_norm and module.state.n_groups == ranks == 1
    normed = states if has_kernel else 2 * _FP32 // run.element_size * states
    hidden = run.model.hidden_size
    text = f"{projected:,} projected + {states:,} states + {normed:,} normed"
    return [
        (projected + states + normed - hidden, f"{text} - {hidden:,} of a later output")
    ]


def first_mixer_widths(
    run: ProfileRun, kind: LayerKind, module: object, sums: int
) -> list[tuple[int, str]]:
    """Return what a mixer of the first Mamba has at its output, without compilation.

    Both halves as projected, a copy of one, and the output, for which its caller has a
    tensor as well; with ranks also the sum.

    Source: vLLM 0.31.0 and 0.33.0 `layers/mamba/mamba_mixer.py` MambaMixer.forward_impl
    (attn_metadata is None); 0.33.0 `models/jamba.py` JambaMambaDecoderLayer.forward,
    `models/mamba.py` MambaDecoderLayer.forward; a traced dry run of Jamba on eight
    ranks.
    """
    if not isinstance(module, ColumnParallelLinear):
        return []
    mixer = module.name.removesuffix("in_proj")
    is_first = any(m.name == f"{mixer}{_STEPS_AND_GROUPS}" for m in kind.modules)
    if mixer == module.name or not is_first:
        return []
    projected = sum(module.output_sizes) // run.layout.tensor_parallel_size
    copied, out = projected // 2, run.model.hidden_size + sums
    text = f"{projected:,} projected + {copied:,} copied + {out:,} output"
    return [(projected + copied + out, text)]


def delta_net_widths(
    run: ProfileRun, kind: LayerKind, module: object, held: int
) -> list[tuple[int, str]]:
    """Return what a gated delta net has at its last product, without compilation.

    Queries, keys, values and z as projected, attention's output and the norm's. Where
    the projection has them group by group, each is copied, and three of them are put
    together again. The norm before it returns sums anew: four hidden states are there,
    with the net's output five, and with the sum over ranks six.

    Source: vLLM 0.33.0 `layers/mamba/gdn/qwen_gdn_linear_attn.py` forward_cuda,
    fix_query_key_value_ordering; a traced dry run of Qwen3-Next-80B-A3B on four ranks.
    """
    projected, values, copied = delta_net_sizes(run, kind, module)
    if not projected:
        return []
    hidden = run.model.hidden_size
    states = 5 + int(run.layout.tensor_parallel_size > 1)
    copied += projected if copied else 0
    text = f"{projected:,} projected + {copied:,} copied + 2 x {values:,} output"
    return [
        (
            projected + copied + 2 * values + states * hidden - held,
            f"{text} + {states * hidden - held:,} more hidden states",
        )
    ]


def delta_net_sizes(
    run: ProfileRun, kind: LayerKind, module: object
) -> tuple[int, int, int]:
    """Return what a gated delta net projects, its values, and what it joins again.

    Only a projection group by group has queries, keys and values to join.
    """
    if not isinstance(module, ColumnParallelLinear) or module.name != DELTA_NET_INPUT:
        return 0, 0, 0
    ranks = run.layout.tensor_parallel_size
    projected = sum(module.output_sizes) // ranks
    values = next(
        m.input_size // ranks
        for m in kind.modules
        if isinstance(m, RowParallelLinear) and m.name == _DELTA_NET_OUTPUT
    )
    is_interleaved = len(module.output_sizes) == 1
    return projected, values, projected - values if is_interleaved else 0
