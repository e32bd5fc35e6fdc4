"""Inkling: short convolutions beside attention, experts with shared sinks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations, pairwise
from math import log, prod

from planner.engine.layout import ParallelLayout, divide
from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.caches import ConvolutionStreamsLayer
from planner.models.experts import FusedMoE
from planner.models.families.assembly import Frame, Label, Placement, Reader, assemble
from planner.models.families.composite import composed, text_facts
from planner.models.families.decoder import (
    AttentionShape,
    attention_shape,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts, own_defaults
from planner.models.families.towers import blocks
from planner.models.layers import (
    ColumnParallelLinear,
    LinearByLayout,
    Module,
    Part,
    Replicated,
    RowParallelLinear,
    Sharded,
    kv_heads_per_rank,
)
from planner.models.tensors import Tensor, Tensors
from planner.values import frozen

# Inkling's encoders: layers that fold patches, and a table of quantised sounds.
_ROUNDED_CHANNELS = 64


def towers(facts: Facts) -> Iterator[Tower]:
    """Return the towers that the config switches on."""
    vision = Facts(facts.mapping("vision_config"), "inkling_vision_model")
    audio = Facts(facts.mapping("audio_config"), "inkling_audio_model")
    width = vision.optional_integer("decoder_dmodel")
    if width is not None:
        yield Tower(("image",), tuple(_vision(vision, width)))
    width = audio.optional_integer("decoder_dmodel")
    if width is not None:
        rows = audio.integer("n_mel_bins") * audio.integer("mel_vocab_size")
        last = ((width,),) if audio.flag("use_audio_norm") else ()
        yield Tower(
            ("audio",), (blocks.replicated("audio.encoder", (rows, width), *last),)
        )


def _vision(facts: Facts, width: int) -> Iterable[Module]:
    """Return the layers that fold patches, each several positions into one.

    Source: vLLM 0.33.0 `models/inkling/common/towers.py` HMLPPatchEncoder.
    """
    scales = _scales(facts)
    count = facts.integer("n_layers")
    for index, (start, end) in enumerate(pairwise(scales)):
        folded = prod(b // a for a, b in zip(start[:3], end[:3], strict=True))
        is_last = index == count - 1
        columns = width if is_last else end[3]
        name = f"visual.vision_encoder.layers.{index}"
        yield blocks.replicated(name, (columns, start[3] * folded))
        if not is_last:
            yield blocks.replicated(f"{name}.norm", (end[3],))
    if facts.flag("use_vision_norm"):
        yield blocks.replicated("visual.vision_encoder.final_norm", (width,))


_Scale = tuple[int, int, int, int]


def _scales(facts: Facts) -> list[_Scale]:
    """Return time, height, width and channels before and after each layer.

    Source: vLLM 0.33.0 `models/inkling/common/towers.py` plan_out_scales.
    """
    patch, channels = facts.integers("patch_size", "n_channels")
    times, layers = facts.integers("temporal_patch_size", "n_layers")
    side, depth = 1, 1
    scales: list[_Scale] = [(1, 1, 1, channels)]
    for factor in reversed(_prime_factors(patch)):
        side *= factor
        scales.append((1, side, side, _rounded(side**2 * channels)))
    for factor in reversed(_prime_factors(times)):
        depth *= factor
        scales.append((depth, side, side, _rounded(side**2 * channels * depth)))
    step = log(patch * patch * times * channels) / layers
    costs = [
        [abs(step * index - log(prod(scale[:3]))) for scale in scales]
        for index in range(layers + 1)
    ]
    chosen = _assigned(costs, len(scales))
    chosen[0], chosen[-1] = 0, len(scales) - 1
    return [scales[index] for index in chosen]


def _assigned(costs: list[list[float]], count: int) -> list[int]:
    """Return for each row a column, all of them in order where there are enough."""
    if len(costs) > count:
        return [row.index(min(row)) for row in costs]
    rows = range(len(costs))
    best = min(
        combinations(range(count), len(costs)),
        key=lambda columns: sum(costs[row][columns[row]] for row in rows),
    )
    return list(best)


def _rounded(channels: int) -> int:
    return -(-channels // _ROUNDED_CHANNELS) * _ROUNDED_CHANNELS


def _prime_factors(number: int) -> list[int]:
    factors, divisor = [], 2
    while number > 1:
        while number % divisor == 0:
            factors.append(divisor)
            number //= divisor
        divisor += 1
    return factors


_DEFAULTS = own_defaults("inkling")
_CONVOLVED = 4
_GATE_ROWS = 8
RENAMES = (
    ("model.llm.layers.", "model.layers."),
    ("model.llm.unembed", "lm_head"),
    ("language_model.layers.", "model.layers."),
    ("language_model.lm_head.", "lm_head."),
)


@frozen
class WithRelative(LinearByLayout):
    """Queries, keys, values, and of each head a vector for relative positions.

    Source: vLLM 0.33.0 `models/inkling/nvidia/attention.py` InklingAttention.
    """

    shape: AttentionShape
    d_rel: int
    name: str = "attn.qkvr"
    part: Part = Part.ATTENTION
    shards: tuple[str, ...] = ("wq_du", "wk_dv", "wv_dv", "wr_du")

    def as_linear(self, layout: ParallelLayout) -> ColumnParallelLinear:
        """Return vLLM's layer; too few keys and values are repeated."""
        own = self.shape
        ranks = layout.tensor_parallel_size
        kv_heads = kv_heads_per_rank(own.num_kv_heads, layout) * ranks
        return ColumnParallelLinear(
            self.name,
            self.part,
            own.hidden_size,
            (
                own.num_heads * own.head_size,
                kv_heads * own.head_size,
                kv_heads * own.head_size,
                own.num_heads * self.d_rel,
            ),
            bias=self.bias,
            shards=self.shards,
            method=self.method,
        )


@frozen
class ConvolvedHeads:
    """The short convolutions of a rank's keys and values."""

    num_kv_heads: int
    head_size: int
    kernel_size: int
    name: str = "attn.kv_sconv"
    part: Part = Part.ATTENTION

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return both kernels on a rank."""
        rows = kv_heads_per_rank(self.num_kv_heads, layout) * self.head_size
        return (Tensor(rows * self.kernel_size),) * 2


@frozen
class SinkExperts:
    """Shared experts that each token uses, divided among ranks and never quantised.

    Source: vLLM 0.33.0 `models/inkling/nvidia/moe.py` InklingSinkExperts.
    """

    count: int
    hidden_size: int
    intermediate_size: int
    name: str = "mlp.sink_experts"
    part: Part = Part.SHARED_EXPERTS

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return both weights on a rank."""
        width = divide(self.intermediate_size, layout.tensor_parallel_size)
        elements = self.count * width * self.hidden_size
        return (Tensor(2 * elements), Tensor(elements))


def read_inkling_text(facts: Facts, label: Label) -> ModelArchitecture:
    """Return the language model of Inkling, whose embeddings each rank holds in full.

    Source: vLLM 0.33.0 `models/inkling/nvidia/model.py`, `models/inkling/configs.py`.
    """
    facts = _renamed(facts)
    if not facts.integer("n_shared_experts"):
        raise facts.unsupported("n_shared_experts", "vLLM asserts that there are some.")
    size = facts.integer("hidden_size")
    local = set(facts.value("local_layer_ids") or ())
    full = _shape(facts, is_local=False)
    num_dense = facts.integer("dense_mlp_idx")
    layers = (
        _layer(facts, is_local=index in local, is_dense=index < num_dense)
        for index in range(facts.integer("num_hidden_layers"))
    )
    padded = facts.optional_integer("padded_vocab_size")
    words, vocab_size = padded, facts.integer("vocab_size")
    if words is None:
        words = vocab_size
        vocab_size = min(facts.optional_integer("unpadded_vocab_size") or words, words)
    frame = Frame(size, placement=Placement.EVERYWHERE, is_tied=False)
    padded_facts = facts.having(vocab_size=words)
    model = assemble(
        padded_facts,
        label,
        frame,
        layers,
        vocab_size=vocab_size,
        prefix_renames=RENAMES,
        # vLLM's checks see the heads of full attention.
        num_attention_heads=full.num_heads,
        num_kv_heads=full.num_kv_heads,
        head_size=full.head_size,
    )
    extra = (norms(size, count=1),) if facts.flag("use_embed_norm") else ()
    whole = Replicated("model.embed_tokens", Part.EMBEDDINGS, ((words, size),))
    others = (m for m in model.every_stage if m.part is not Part.EMBEDDINGS)
    return replace(model, every_stage=(whole, *extra, *others))


def _renamed(facts: Facts) -> Facts:
    """Return the config under the names of the model's first release.

    Transformers calls the width of an expert moe_intermediate_size.
    """
    given = {**_DEFAULTS, **facts.config}
    own, narrow = given["intermediate_size"], given.get("moe_intermediate_size")
    if given.get("dense_intermediate_size") is None:
        given["dense_intermediate_size"] = own
        given["intermediate_size"] = own if narrow is None else narrow
    if given.get("sconv_kernel_size") is None:
        kernel = given.get("conv_kernel_size")
        given["sconv_kernel_size"] = _CONVOLVED if kernel is None else kernel
    return Facts(given, facts.model_type)


def _shape(facts: Facts, *, is_local: bool) -> AttentionShape:
    full = attention_shape(
        facts, qkv_bias=facts.flag("q_bias"), output_bias=facts.flag("o_bias")
    )
    if not is_local:
        return full
    heads, kv_heads = full.num_heads, full.num_kv_heads
    return replace(
        full,
        num_heads=facts.integer("swa_num_attention_heads", default=heads),
        num_kv_heads=facts.integer("swa_num_key_value_heads", default=kv_heads),
        head_size=facts.integer("swa_head_dim", default=full.head_size),
    )


def _layer(facts: Facts, *, is_local: bool, is_dense: bool) -> LayerKind:
    size, kernel = facts.integers("hidden_size", "sconv_kernel_size")
    shape = _shape(facts, is_local=is_local)
    window = facts.integer("sliding_window_size") if is_local else None
    kept = replace(kv_of(shape), sliding_window=window, is_inkling=True)
    streams = ConvolutionStreamsLayer(
        num_kv_heads=shape.num_kv_heads,
        head_size=shape.head_size,
        hidden_size=size,
        kernel_size=kernel,
    )
    modules = (
        *_attention(facts, shape, window),
        norms(size),
        Sharded("sconv", Part.MLP, ((size, kernel),) * 2),
        *(_mlp(facts) if is_dense else _experts(facts)),
    )
    return LayerKind((streams, kept), modules)


def _attention(
    facts: Facts, shape: AttentionShape, window: int | None
) -> tuple[Module, ...]:
    d_rel, extent = facts.integers("d_rel", "rel_extent")
    reach = extent if window is None else window
    return (
        WithRelative(shape=shape, d_rel=d_rel, bias=shape.qkv_bias),
        RowParallelLinear(
            "attn.wo_ud",
            Part.ATTENTION,
            shape.num_heads * shape.head_size,
            shape.hidden_size,
            bias=shape.output_bias,
        ),
        Replicated("attn.rel_logits_proj", Part.ATTENTION, ((d_rel, reach),)),
        Replicated("attn.qk_norm", Part.NORMS, ((shape.head_size,),) * 2),
        ConvolvedHeads(
            num_kv_heads=shape.num_kv_heads,
            head_size=shape.head_size,
            kernel_size=facts.integer("sconv_kernel_size"),
        ),
        Replicated("attn.scales", Part.BUFFERS, ((), ()), dtype="float32"),
    )


def _mlp(facts: Facts) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/inkling/nvidia/mlp.py` InklingDenseMLP."""
    size = facts.integer("hidden_size")
    width = facts.integer("dense_intermediate_size")
    scale = Replicated("mlp.global_scale", Part.MLP, ((1,),))
    return (
        ColumnParallelLinear("mlp.gate_up_proj", Part.MLP, size, (2 * width,)),
        RowParallelLinear("mlp.down_proj", Part.MLP, width, size),
        *((scale,) if facts.flag("use_global_scale") else ()),
    )


def _experts(facts: Facts) -> tuple[Module, ...]:
    """Return a gate of whole rows of eight, routed experts, and shared ones.

    Source: vLLM 0.33.0 `models/inkling/nvidia/moe.py` InklingMoE.
    """
    size, width = facts.integers("hidden_size", "intermediate_size")
    routed = facts.integer("n_routed_experts")
    shared = facts.integer("n_shared_experts")
    rows = -(-(routed + shared) // _GATE_ROWS) * _GATE_ROWS
    in_float32 = (
        *(((1,),) if facts.flag("use_global_scale") else ()),
        *(((routed,),) if facts.flag("use_gate_bias") else ()),
    )
    return (
        Replicated("mlp.gate", Part.ROUTER, ((rows, size),)),
        Replicated("mlp.gate.bias", Part.ROUTER, in_float32, dtype="float32"),
        FusedMoE(
            name="mlp.experts",
            num_experts=routed,
            top_k=facts.integer("num_experts_per_tok"),
            hidden_size=size,
            intermediate_size=width,
            is_renormalized=False,
        ),
        SinkExperts(count=shared, hidden_size=size, intermediate_size=width),
    )


def read_inkling(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Inkling with the towers that its config switches on.

    Source: vLLM 0.33.0 `models/inkling/nvidia/model.py`
    InklingForConditionalGeneration.
    """
    text = text_facts(facts, "inkling_model")
    model = read_inkling_text(text, label)
    return composed(facts, label, model, *towers(facts), prefix="", renames=RENAMES)


READERS: dict[str, Reader] = {
    "InklingForCausalLM": read_inkling_text,
    "InklingForConditionalGeneration": read_inkling,
}
