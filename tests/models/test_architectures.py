"""config.json to ModelArchitecture: what each family's fields mean to vLLM."""

import re
from pathlib import Path

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.errors import PlannerError, Refused, UnknownArchitecture
from planner.models.caches import AttentionLayer
from planner.models.families import read, supported_architectures
from planner.models.files import ModelFiles
from planner.models.tensors import Tensor
from tests.configs import BERT, GPT2, LLAMA_8B, QWEN3_MOE, QWEN3_SMALL, architecture


def module_names(config: dict[str, object], **changes: object) -> list[str]:
    """Names of the first layer's modules."""
    return [m.name for m in architecture(config, **changes).layer_kinds[0].modules]


def test_llama_is_read_with_its_dimensions() -> None:
    """32 layers of 32 heads, 8 of them KV heads, 4,096 / 32 = 128 wide."""
    model = architecture(LLAMA_8B)
    assert 32 == model.num_hidden_layers
    assert (32, 8, 128) == (
        model.num_attention_heads,
        model.num_kv_heads,
        model.head_size,
    )


def test_a_head_size_of_its_own_wins_over_the_quotient() -> None:
    """Qwen3-0.6B has hidden size 1,024, 16 heads and head_dim 128, not 64."""
    model = architecture(QWEN3_SMALL, hidden_size=1024)
    assert 128 == model.head_size


def test_a_silent_config_means_the_class_default() -> None:
    """Mistral without num_key_value_heads has 8, as Transformers' class says."""
    config = {k: v for k, v in LLAMA_8B.items() if k != "num_key_value_heads"}
    model = architecture(
        config,
        architectures=["MistralForCausalLM"],
        model_type="mistral",
        sliding_window=None,
        rope_scaling=None,
    )
    assert 8 == model.num_kv_heads


MISTRAL = {
    **LLAMA_8B,
    "architectures": ["MistralForCausalLM"],
    "model_type": "mistral",
}


def windows(config: dict[str, object], **changes: object) -> list[int | None]:
    """The window of each layer."""
    model = architecture(config, **changes)
    kinds = [kind.caches for kind in model.layer_kinds]
    return [
        cache.sliding_window
        for layer in model.layers
        for cache in kinds[layer]
        if isinstance(cache, AttentionLayer)
    ]


def test_a_null_is_an_answer() -> None:
    """sliding_window: null switches Mistral's default window of 4,096 off."""
    assert [4096] * 32 == windows(MISTRAL)
    assert [None] * 32 == windows(MISTRAL, sliding_window=None)
    assert [None] * 32 == windows(MISTRAL, sliding_window=0)


def test_gemma_alternates_windows_and_full_attention() -> None:
    """Gemma 2 every second layer, Gemma 3 every sixth; layer_types may say so."""
    gemma2 = {
        **LLAMA_8B,
        "architectures": ["Gemma2ForCausalLM"],
        "model_type": "gemma2",
        "rope_scaling": None,
    }
    assert [4096, None, 4096, None] == windows(gemma2)[:4]
    gemma3 = {**gemma2, "architectures": ["Gemma3ForCausalLM"]}
    pattern = windows(gemma3, model_type="gemma3_text", sliding_window=512)[:7]
    assert [512, 512, 512, 512, 512, None, 512] == pattern
    given = ["full_attention"] * 31 + ["sliding_attention"]
    assert [None] * 31 + [4096] == windows(gemma2, layer_types=given)


def test_cohere2_looks_one_token_further() -> None:
    """Its window is counted without the token itself."""
    config = {
        **LLAMA_8B,
        "architectures": ["Cohere2ForCausalLM"],
        "model_type": "cohere2",
        "rope_scaling": None,
    }
    assert [4097, 4097, 4097, None] == windows(config)[:4]


def test_layer_types_of_layers_that_are_left_out_do_not_count() -> None:
    """As with hf_overrides={"num_hidden_layers": 3}: two windows, then full attention.

    A dry run of Muse Glimmer with six layers has the weights of six.
    """
    given = ["sliding_attention", "sliding_attention", *["full_attention"] * 30]
    few = {**MISTRAL, "num_hidden_layers": 3}
    assert [4096, 4096, None] == windows(few, layer_types=given, sliding_window=4096)


def test_layer_types_beyond_windows_are_named() -> None:
    """Chunked attention is not modelled yet."""
    with pytest.raises(UnknownArchitecture, match="layer_types"):
        windows(MISTRAL, layer_types=["chunked_attention"] * 32, sliding_window=4096)


def test_a_window_that_is_switched_off_does_not_count() -> None:
    """Qwen2's use_sliding_window: false."""
    model = architecture(
        {**LLAMA_8B, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"},
        sliding_window=4096,
        use_sliding_window=False,
    )
    assert (0,) * 32 == model.layers


def test_qwen3_norms_query_and_key() -> None:
    """Two norms of head size in each layer."""
    assert "self_attn.qk_norm" in module_names(QWEN3_SMALL)
    assert "self_attn.qk_norm" not in module_names(LLAMA_8B)


def test_tied_embeddings_leave_no_head() -> None:
    """The last stage needs a copy of the embeddings instead."""
    tied = architecture(QWEN3_SMALL)
    assert ["layernorm"] == [module.name for module in tied.last_stage]
    assert 1 == len(tied.tied_embeddings)


def test_some_classes_build_everything_on_every_stage() -> None:
    """GPT-2 in vLLM holds embeddings, positions and norm on each stage."""
    model = architecture(GPT2)
    assert () == model.first_stage == model.last_stage
    assert {"model.embed_tokens", "wpe", "layernorm"} == {
        module.name for module in model.every_stage
    }


def test_dense_layers_among_experts_are_told_apart() -> None:
    """decoder_sparse_step 2: every second layer holds experts."""
    model = architecture(QWEN3_MOE, decoder_sparse_step=2)
    assert (0, 1, 0, 1) == model.layers[:4]
    assert model.is_moe


def test_an_encoder_keeps_no_kv_cache() -> None:
    """BERT's attention is encoder-only, and vLLM cannot cut it into stages."""
    model = architecture(BERT)
    assert () == model.attention_layers
    assert not model.supports_pp
    assert model.is_pooling


@pytest.mark.parametrize(
    ("scaling", "rows"),
    [
        (None, 131072),
        ({"type": "linear", "factor": 4.0}, 524288),
        ({"type": "dynamic", "factor": 4.0}, 131072),
        (
            {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
            131072,
        ),
        (
            {"type": "longrope", "original_max_position_embeddings": 4096},
            131072 + 4096,
        ),
    ],
)
def test_rope_scaling_decides_how_long_the_cache_is(
    scaling: dict[str, object] | None, rows: int
) -> None:
    """Cosines and sines for so many positions, head size wide."""
    model = architecture(LLAMA_8B, rope_scaling=scaling)
    (cache,) = model.every_stage
    assert (Tensor(rows * 128),) == cache.tensors(ParallelLayout())


def test_an_unknown_rope_type_is_named() -> None:
    """No guess at a table whose length is not known."""
    with pytest.raises(UnknownArchitecture, match="rope_type 'spiral'"):
        architecture(LLAMA_8B, rope_scaling={"rope_type": "spiral", "factor": 2.0})


def test_an_architecture_not_modelled_yet_names_the_nearest_one() -> None:
    """The field, the value, and what is close to it."""
    with pytest.raises(
        UnknownArchitecture,
        match=r"architectures: 'DeepseekV41ForCausalLM'.*DeepseekV4ForCausalLM",
    ):
        architecture(LLAMA_8B, architectures=["DeepseekV41ForCausalLM"])


def test_an_architecture_that_nobody_has_is_refused_with_the_nearest_one() -> None:
    """In vLLM's words, which list all that it knows."""
    with pytest.raises(
        Refused,
        match=r"\['LlamaForCausalLN'\] are not supported for now.*\(Nearest: Llama",
    ):
        architecture(LLAMA_8B, architectures=["LlamaForCausalLN"])


def test_a_model_type_without_a_configuration_class_is_refused() -> None:
    """Unless the model brings its own."""
    with pytest.raises(Refused, match="has model type `llamb` but Transformers does"):
        architecture(LLAMA_8B, model_type="llamb")


def test_a_name_that_stands_for_another_is_only_not_modelled() -> None:
    """vLLM serves a classifier by the class of the generating model."""
    with pytest.raises(UnknownArchitecture, match="NanbeigeForTokenClassification"):
        architecture(LLAMA_8B, architectures=["NanbeigeForTokenClassification"])


def test_an_architecture_that_vllm_dropped_is_refused_in_its_words() -> None:
    """vLLM names the last release that had it."""
    with pytest.raises(Refused, match=r"was supported in vLLM until v0\.23\.0"):
        architecture(LLAMA_8B, architectures=["QWenLMHeadModel"], model_type="qwen")


@pytest.mark.parametrize(
    "dropped", ["MllamaForConditionalGeneration", "PersimmonForCausalLM"]
)
def test_what_vllm_dropped_and_transformers_has_is_only_not_modelled(
    dropped: str,
) -> None:
    """Llama 3.2 Vision starts with 0.33.0, by the Transformers backend."""
    with pytest.raises(UnknownArchitecture, match=f"{dropped}.*is not modelled yet"):
        architecture(LLAMA_8B, architectures=[dropped])


def test_attention_in_both_directions_keeps_no_cache() -> None:
    """is_causal: false makes an embedding model of Llama and Qwen."""
    model = architecture(LLAMA_8B, is_causal=False)
    assert () == model.attention_layers
    assert 32 == model.num_attention_heads


def test_a_missing_dimension_is_named() -> None:
    """The message says which field and what is needed."""
    with pytest.raises(UnknownArchitecture, match="hidden_size is 'wide'"):
        architecture(LLAMA_8B, hidden_size="wide")


def test_a_config_of_no_model_is_refused() -> None:
    """Without `architectures` vLLM could not choose a class either."""
    with pytest.raises(PlannerError, match="no `architectures`"):
        read(ModelFiles(name="x", config={"model_type": "llama"}))


def test_more_than_fifty_architectures_are_understood() -> None:
    """The list is sorted and has no double."""
    names = supported_architectures()
    assert len(names) > 50
    assert sorted(set(names)) == list(names)


def test_what_a_class_derives_is_no_default() -> None:
    """Falcon's MLP is four times as wide as the model, not as wide as Falcon-7B's.

    60 layers x 2 x 8,192 x 32,768 elements x 2 bytes.
    """
    plan = planner.plan("tiiuae/falcon-40b", gpu="H200", max_model_len=2048)
    parts = {part.name: part.size_bytes for part in plan.ranks[0].weight_parts}
    assert 60 * 2 * 8192 * 32768 * 2 == parts["mlp"]


def test_the_page_of_dry_runs_lists_only_what_has_no_reader() -> None:
    """What has a reader is planned without a dry run."""
    page = (Path(__file__).parents[2] / "docs/dry-run.md").read_text(encoding="utf-8")
    table = page.partition("### Architectures without a reader")[2]
    listed = re.findall(r"^\| (`.*`) \|", table.partition("## ")[0], re.MULTILINE)
    names = {name.strip("` ") for row in listed for name in row.split(",")}
    assert len(names) > 5
    assert not names & set(supported_architectures())
