"""Whisper, of which a decoder attends to an encoder of sounds."""

from __future__ import annotations

from collections.abc import Iterator

from planner.engine.layout import ParallelLayout
from planner.errors import UnknownArchitecture
from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.caches import AttentionLayer, CrossAttentionLayer
from planner.models.families.assembly import Body, Label, Skeleton, assemble
from planner.models.families.decoder import attention_scales, learned_positions
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks, sounds
from planner.models.families.towers.audio import convolutions, whisper_sizes
from planner.models.families.towers.blocks import AUDIO
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    QKVParallelLinear,
    Replicated,
    RowParallelLinear,
)
from planner.models.passes import block_pass
from planner.models.tensors import Tensors
from planner.values import frozen


def read_whisper(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Whisper, whose head is its word embeddings and whose vocabulary is whole.

    Source: vLLM 0.33.0 `models/whisper.py`.
    """
    size = facts.integer("d_model")
    words = Replicated(
        "model.decoder.embed_tokens",
        Part.EMBEDDINGS,
        ((facts.integer("vocab_size"), size),),
    )
    positions = learned_positions(
        facts.integer("max_target_positions"), size, "model.decoder.embed_positions"
    )
    skeleton = Skeleton(
        hidden_size=size,
        final_norm=(_norm("model.decoder.layer_norm", size, 1),),
        tie_word_embeddings=True,
    )
    body = Body.alike(_decoder_layer(facts), facts.integer("decoder_layers"))
    return assemble(
        facts,
        label,
        skeleton,
        body,
        layer_prefix="model.decoder.layers",
        first_stage=(words, positions),
        tied_embeddings=(),
        num_attention_heads=facts.integer("encoder_attention_heads"),
        towers=(_encoder(facts),),
        supports_pp=False,
        is_encoder_decoder=True,
    )


def _decoder_layer(facts: Facts) -> LayerKind:
    """Return a decoder layer; vLLM names its parts as if they lay one list deeper."""
    size = facts.integer("d_model")
    heads = facts.integer("decoder_attention_heads")
    cross = "layers.encoder_attn"
    modules: tuple[Module, ...] = (
        QKVParallelLinear(
            name="layers.self_attn.qkv_proj",
            input_size=size,
            num_heads=heads,
            num_kv_heads=heads,
            head_size=size // heads,
            bias=True,
        ),
        _row("layers.self_attn.out_proj", Part.ATTENTION, size, size),
        attention_scales(),
        _column(f"{cross}.q_proj", Part.ATTENTION, size, size),
        _column(
            f"{cross}.kv_proj",
            Part.ATTENTION,
            size,
            size,
            size,
            shards=("k_proj", "v_proj"),
        ),
        _row(f"{cross}.out_proj", Part.ATTENTION, size, size),
        attention_scales(),
        _column("layers.mlp.fc1", Part.MLP, size, facts.integer("decoder_ffn_dim")),
        _row("layers.mlp.fc2", Part.MLP, facts.integer("decoder_ffn_dim"), size),
        _norm("layer_norm", size, 3),
    )
    caches = tuple(
        kind(num_heads=heads, num_kv_heads=heads, head_size=size // heads)
        for kind in (AttentionLayer, CrossAttentionLayer)
    )
    return LayerKind(caches, modules)


def _encoder(facts: Facts) -> Tower:
    return Tower(
        AUDIO,
        tuple(encoder_modules(facts, "model.encoder")),
        items=sounds.whisper_items(facts),
        forward=block_pass(
            facts.integer("d_model"), facts.integer("encoder_ffn_dim"), beside=3
        ),
    )


def encoder_modules(
    facts: Facts, name: str, *, positions_dtype: str | None = None
) -> Iterator[Module]:
    """Yield Whisper's encoder, also as part of a larger model.

    Source: vLLM 0.33.0 `models/whisper.py` WhisperEncoder (init_in_fp32).
    """
    sizes, rows = whisper_sizes(facts), facts.integer("max_source_positions")
    size, qkv = sizes.width, "layers.self_attn.qkv_proj"
    yield from convolutions(facts, name)
    yield from blocks.repeated(
        f"{name}.layers",
        sizes.depth,
        blocks.qkv(qkv, size, sizes.heads, bias=True, shards=blocks.QKV_SHARDS),
        blocks.row("layers.self_attn.out_proj", size, size, bias=True),
        blocks.norms("layers.norm", size, count=2, bias=True),
        *blocks.plain_mlp("layers.mlp.fc1", "layers.mlp.fc2", size, sizes.mlp),
    )
    yield blocks.norms(f"{name}.layer_norm", size, bias=True)
    embedding = f"{name}.embed_positions"
    yield blocks.replicated(embedding, (rows, size), dtype=positions_dtype)


def _column(
    name: str,
    part: Part,
    input_size: int,
    *output_sizes: int,
    shards: tuple[str, ...] = (),
) -> ColumnParallelLinear:
    return ColumnParallelLinear(
        name, part, input_size, output_sizes, bias=True, shards=shards
    )


def _row(name: str, part: Part, input_size: int, output_size: int) -> RowParallelLinear:
    return RowParallelLinear(name, part, input_size, output_size, bias=True)


def _norm(name: str, size: int, count: int) -> Replicated:
    return Replicated(name, Part.NORMS, ((size,), (size,)) * count)


@frozen
class OneStage:
    """What cannot be planned in several pipeline stages.

    vLLM cuts the encoder's layers over the stages as it does the decoder's, though it
    builds them on the first only.

    Source: vLLM 0.33.0 `models/whisper.py` WhisperEncoder (make_layers).
    """

    name: str
    part: Part = Part.TOWERS

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return nothing.

        Raises:
            UnknownArchitecture: for several stages.
        """
        if layout.pipeline_parallel_size > 1:
            raise UnknownArchitecture(
                f"pipeline_parallel_size={layout.pipeline_parallel_size}: which layers "
                "of Whisper's encoder vLLM keeps then is not modelled. Use "
                "tensor_parallel_size, or limit_mm_per_prompt={'audio': 0}."
            )
        return ()


READERS = {
    "WhisperForConditionalGeneration": read_whisper,
}
