"""Llama 4's language model: which layers are chunked, which hold experts."""

from planner.engine.layout import ParallelLayout
from planner.memory.weights import stage_weights
from planner.models.architecture import ModelArchitecture
from planner.models.caches import AttentionLayer
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.llama4 import read_llama4_text

TINY = {
    "num_hidden_layers": 4,
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "intermediate_size": 16,
    "intermediate_size_mlp": 32,
    "num_local_experts": 2,
    "num_experts_per_tok": 1,
    "interleave_moe_layer_step": 2,
    "max_position_embeddings": 64,
    "attention_chunk_size": 32,
    "vocab_size": 64,
    "torch_dtype": "bfloat16",
}


def llama4(**changes: object) -> ModelArchitecture:
    """Return a tiny Llama 4 with some fields replaced."""
    facts = Facts({**TINY, **changes}, "llama4_text")
    label = Label(name="tiny", architecture="Llama4ForCausalLM")
    return read_llama4_text(facts, label)


def chunks(model: ModelArchitecture) -> list[int | None]:
    """Return the chunk of each layer's attention."""
    found = []
    for kind in model.layers:
        (cache,) = model.layer_kinds[kind].caches
        assert isinstance(cache, AttentionLayer)
        found.append(cache.attention_chunk_size)
    return found


def test_every_fourth_layer_sees_everything() -> None:
    """An empty list means the class's own pattern; 1 means that a layer has RoPE."""
    assert [32, 32, 32, None] == chunks(llama4())
    assert [32, 32, 32, None] == chunks(llama4(no_rope_layers=[]))
    assert [None, 32, None, 32] == chunks(llama4(no_rope_layers=[0, 1, 0, 1]))
    assert [None] * 4 == chunks(llama4(attention_chunk_size=None))


def test_every_second_layer_holds_experts() -> None:
    """Experts and one shared expert there, a plain MLP elsewhere.

    Elements of a layer, in bfloat16:

    attention (2 + 2 x 1) x 4 x 8 + 8 x 8 = 192, norms 2 x 8 = 16;
    plain: 3 x 32 x 8 = 768;
    experts: router 2 x 8 = 16, 2 x 3 x 16 x 8 = 768, shared 3 x 16 x 8 = 384 = 1,168.

    Two of each, embeddings and head 2 x 64 x 8, norm 8, rotary table 64 x 4; scales of
    attention 4 x 4 x 4 bytes; three layers with RoPE keep 4 ones in float32.
    """
    layers = 4 * (192 + 16) + 2 * 768 + 2 * 1168
    elements = layers + 2 * 64 * 8 + 8 + 64 * 4
    (stage,) = stage_weights(llama4(), ParallelLayout(), "bfloat16")
    assert 2 * elements + 4 * 4 * 4 + 3 * 4 * 4 == stage.weights_bytes
