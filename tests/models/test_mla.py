"""Multi-head latent attention: the modules of a layer, against sums done by hand."""

from typing import Any

from planner.engine.layout import ParallelLayout
from planner.engine.releases import NEWEST_RELEASE, Release
from planner.memory.weights import stage_weights
from planner.models.caches import AttentionLayer, IndexerCacheLayer, MLALayer
from planner.models.families.mla import KVUpProjection
from planner.models.tensors import LinearOnRank, Tensor
from tests.configs import architecture

SCALES_PER_LAYER = 4 * 4  # key, value, query and softmax scale, float32

V2_LITE: dict[str, Any] = {
    "architectures": ["DeepseekV2ForCausalLM"],
    "model_type": "deepseek_v2",
    "torch_dtype": "bfloat16",
    "hidden_size": 2048,
    "intermediate_size": 10944,
    "moe_intermediate_size": 1408,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "q_lora_rank": None,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "first_k_dense_replace": 1,
    "topk_method": "greedy",
    "vocab_size": 102400,
    "max_position_embeddings": 163840,
    "rope_scaling": {
        "type": "yarn",
        "factor": 40,
        "original_max_position_embeddings": 4096,
    },
}

V32: dict[str, Any] = {
    **V2_LITE,
    "architectures": ["DeepseekV32ForCausalLM"],
    "model_type": "deepseek_v32",
    "q_lora_rank": 1536,
    "topk_method": "noaux_tc",
    "index_topk": 2048,
    "index_head_dim": 128,
    "index_n_heads": 64,
    "num_hidden_layers": 4,
}


class Bytewise:
    """A method that holds one byte per weight."""

    def tensors(
        self,
        on_rank: LinearOnRank,
        layout: ParallelLayout,  # noqa: ARG002 - part of the protocol
    ) -> tuple[Tensor, ...]:
        """Return the weight alone."""
        rows = on_rank.output_size_per_partition
        return (Tensor(rows * on_rank.input_size_per_partition, "uint8"),)


def parts_of(config: dict[str, Any], layout: ParallelLayout) -> dict[str, int]:
    """Bytes by part on one stage, in bfloat16."""
    (stage,) = stage_weights(architecture(config), layout, "bfloat16")
    return {part.name: part.size_bytes for part in stage.parts}


def test_latent_attention_of_v2_lite_adds_up() -> None:
    """16 heads of 128 + 64, halved over two ranks; what is compressed stays whole."""
    parts = parts_of(V2_LITE, ParallelLayout(tensor_parallel_size=2))
    per_layer = (
        2048 * (512 + 64)  # kv_a_proj_with_mqa, on every rank
        + 2048 * 8 * (128 + 64)  # q_proj
        + 512 * 8 * (128 + 128)  # kv_b_proj
        + 8 * 128 * 2048  # o_proj
    )
    assert 27 * 2 * per_layer == parts["attention"]
    assert 2 * (27 * (512 + 2 * 2048) + 2048) == parts["norms"]


def test_scaled_positions_are_held_in_float32_uncompiled_since_0_14() -> None:
    """4,096 x 40 = 163,840 rows of 64, 4 bytes each where FlashInfer rotates them."""

    def table(config: dict[str, Any], *, eager: bool, release: Release) -> int:
        layout = ParallelLayout(enforce_eager=eager, release=release)
        return parts_of(config, layout)["buffers"] - 27 * SCALES_PER_LAYER

    plain, new = {**V2_LITE, "rope_scaling": None}, NEWEST_RELEASE
    assert 163840 * 64 * 4 == table(V2_LITE, eager=True, release=new)
    assert 163840 * 64 * 2 == table(V2_LITE, eager=False, release=new)
    assert 163840 * 64 * 2 == table(plain, eager=True, release=new)
    old = Release((0, 13, 0))
    assert 163840 * 64 * 2 == table(V2_LITE, eager=True, release=old)


def test_layers_before_first_k_dense_replace_hold_no_experts() -> None:
    """One layer of 10,944 columns, 26 of 64 experts and two shared ones."""
    parts = parts_of(V2_LITE, ParallelLayout())
    assert 2 * 3 * 2048 * 10944 == parts["mlp"]
    assert 26 * 2 * 3 * 2048 * 1408 * 64 == parts["experts"]
    assert 26 * 2 * 3 * 2048 * 1408 * 2 == parts["shared experts"]
    assert 26 * 2 * 64 * 2048 == parts["router"]


def test_the_absorbed_projection_is_copied_only_when_quantised() -> None:
    """512 x 8 heads x 256 = 1,048,576 weights: viewed anew, or bytes and a copy."""
    plain = KVUpProjection(
        name="kv_b_proj", kv_lora_rank=512, num_heads=16, head_size=256
    )
    quantised = KVUpProjection(
        name="kv_b_proj",
        kv_lora_rank=512,
        num_heads=16,
        head_size=256,
        method=Bytewise(),
    )
    layout = ParallelLayout(tensor_parallel_size=2)
    assert (Tensor(1048576),) == plain.tensors(layout)
    assert (Tensor(1048576, "uint8"), Tensor(1048576)) == quantised.tensors(layout)


def test_an_indexer_adds_its_projections_and_the_buffer_of_choices() -> None:
    """64 heads of 128 from 1,536; 2,048 to 128 + 64; a float32 norm with a bias."""
    layout = ParallelLayout(max_num_batched_tokens=1024)
    without = {k: v for k, v in V32.items() if not k.startswith("index_")}
    more = {
        part: size - parts_of(without, layout)[part]
        for part, size in parts_of(V32, layout).items()
    }
    assert 4 * 2 * (1536 * 64 * 128 + 2048 * (128 + 64)) == more["attention"]
    assert 4 * 4 * 2 * 128 == more["norms"]
    own_table = 163840 * 64 * 2  # dimensions paired otherwise
    assert 1024 * 2048 * 4 + own_table == more["buffers"]


def test_every_fourth_layer_may_choose_for_the_next() -> None:
    """From layer 2 on, with a frequency of 4: 0, 1, then 5."""
    model = architecture(
        V32, index_topk_freq=4, index_skip_topk_offset=2, num_hidden_layers=6
    )
    caches = [model.layer_kinds[kind].caches for kind in model.layers]
    choosing = [i for i, kept in enumerate(caches) if len(kept) == 2]
    assert [0, 1, 5] == choosing
    keys, attention = caches[0]
    assert IndexerCacheLayer(row_bytes=128 + 4) == keys
    assert isinstance(attention, MLALayer)
    assert 512 + 64 == attention.head_size


def test_glm_4_7_flash_routes_in_float32() -> None:
    """64 experts of 2,048: 4 bytes a weight, and a bias for each expert."""
    config = {
        **V2_LITE,
        "architectures": ["Glm4MoeLiteForCausalLM"],
        "model_type": "glm4_moe_lite",
        "n_shared_experts": 1,
    }
    parts = parts_of(config, ParallelLayout())
    assert 26 * 4 * (64 * 2048 + 64) == parts["router"]
    assert 26 * 2 * 3 * 2048 * 1408 == parts["shared experts"]


def test_longcat_keeps_two_caches_a_layer() -> None:
    """Two attentions and two MLPs a layer; 512 + 256 rows in the router."""
    model = architecture(
        V2_LITE,
        architectures=["LongcatFlashForCausalLM"],
        model_type="longcat_flash",
        num_layers=3,
        num_hidden_layers=3,
        n_routed_experts=512,
        zero_expert_num=256,
        moe_topk=12,
        ffn_hidden_size=4096,
        expert_ffn_hidden_size=1024,
    )
    (stage,) = stage_weights(model, ParallelLayout(), "bfloat16")
    parts = {part.name: part.size_bytes for part in stage.parts}
    assert 2 == len(model.layer_kinds[0].caches)
    assert 3 * 4 * 768 * (2048 + 1) == parts["router"]
    assert 3 * 2 * 2 * 3 * 2048 * 4096 == parts["mlp"]
    assert 3 * 2 * 512 * 3 * 2048 * 1024 == parts["experts"]


def test_minicpm3_keeps_keys_and_values_per_head() -> None:
    """16 heads of 128 + 64, on both sides of the cache."""
    model = architecture(
        V2_LITE,
        architectures=["MiniCPM3ForCausalLM"],
        model_type="minicpm3",
        q_lora_rank=768,
        tie_word_embeddings=True,
    )
    (kept,) = model.cache_layers
    expected = AttentionLayer(num_heads=16, num_kv_heads=16, head_size=192)
    assert expected == kept
    (stage,) = stage_weights(model, ParallelLayout(), "bfloat16")
    parts = {part.name: part.size_bytes for part in stage.parts}
    per_layer = 2048 * 768 + 768 * 16 * 192 + 2048 * 576 + 512 * 16 * 256
    assert 27 * 2 * (per_layer + 16 * 128 * 2048) == parts["attention"]
