"""The headers of a checkpoint beside the weights that were computed."""

from __future__ import annotations

import json
from pathlib import Path

import planner
from planner.memory.checkpoint import _part_of_kind, reconcile
from planner.models.families import read
from planner.models.files import ModelFiles

Shapes = dict[str, tuple[str, tuple[int, ...]]]

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 640,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def checkpoint(layers: int = 2, dtype: str = "BF16") -> Shapes:
    """Every tensor of the model above, as its publisher would store it."""
    shapes: Shapes = {
        "model.embed_tokens.weight": (dtype, (640, 64)),
        "lm_head.weight": (dtype, (640, 64)),
        "model.norm.weight": (dtype, (64,)),
    }
    for layer in range(layers):
        at = f"model.layers.{layer}."
        for name, shape in {
            "self_attn.q_proj": (64, 64),
            "self_attn.k_proj": (32, 64),
            "self_attn.v_proj": (32, 64),
            "self_attn.o_proj": (64, 64),
            "self_attn.rotary_emb.inv_freq": (8,),
            "mlp.gate_proj": (128, 64),
            "mlp.up_proj": (128, 64),
            "mlp.down_proj": (64, 128),
            "input_layernorm": (64,),
            "post_attention_layernorm": (64,),
        }.items():
            shapes[f"{at}{name}.weight"] = (dtype, shape)
    return shapes


def model() -> planner.ModelArchitecture:
    """The architecture that the config describes."""
    return read(ModelFiles(name="tiny", config=CONFIG, source="test"))


def test_a_checkpoint_as_published_agrees() -> None:
    """2 x 640 x 64 words, 2 x (12,288 + 24,576 + 128) a layer's, 64 the norm's."""
    found = reconcile(model(), checkpoint())
    assert found is not None
    elements = 2 * 640 * 64 + 2 * (12288 + 24576 + 128) + 64
    assert (2 * elements, 0.0) == (found.checkpoint_bytes, found.share)
    assert "they agree" in str(found)


def test_floats_count_in_the_dtype_they_are_loaded_in() -> None:
    """A float32 file is loaded as bfloat16: the same weights."""
    found = reconcile(model(), checkpoint(dtype="F32"))
    assert found is not None
    assert 0.0 == found.share


def test_layers_for_multi_token_prediction_are_not_loaded() -> None:
    """A third layer beyond the config's two, and a module called mtp."""
    shapes = checkpoint(layers=3) | {"mtp.0.mlp.up_proj.weight": ("BF16", (128, 64))}
    found = reconcile(model(), shapes)
    assert found is not None
    assert 0.0 == found.share


def test_a_difference_names_the_parts() -> None:
    """Files whose MLP is twice as wide: 2 x 24,576 x 2 bytes more."""
    shapes = checkpoint()
    for name, (dtype, shape) in list(shapes.items()):
        if ".mlp." in name:
            shapes[name] = (dtype, (2 * shape[0], shape[1]))
    found = reconcile(model(), shapes)
    assert found is not None
    assert ("mlp", -2 * 24576 * 2) == (
        found.parts[0].name,
        found.parts[0].difference_bytes,
    )
    assert "mlp" in str(found)
    assert "agree" not in str(found)


def test_without_headers_there_is_nothing_to_compare() -> None:
    """The config alone."""
    assert reconcile(model(), {}) is None


def test_a_folder_with_weights_says_so_in_the_plan(tmp_path: Path) -> None:
    """A folder whose safetensors header lists the tensors."""
    header = {
        name: {"dtype": dtype, "shape": shape, "data_offsets": [0, 0]}
        for name, (dtype, shape) in checkpoint().items()
    }
    text = json.dumps(header).encode()
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)
    plan = planner.plan(tmp_path, gpu="L4")
    assert any("they agree" in note for note in plan.notes)


def test_a_layer_of_any_number_of_digits_is_beyond_the_models() -> None:
    """More than Python reads as a number."""
    name = f"model.layers.{'9' * 5000}.mlp.up_proj.weight"
    found = reconcile(model(), checkpoint() | {name: ("BF16", (128, 64))})
    assert found is not None
    assert 0.0 == found.share


def test_kinds_of_names_are_kept_for_a_bounded_number() -> None:
    """A server reads many models."""
    kept = _part_of_kind.cache_info().maxsize
    assert kept is not None
    assert kept <= 4096
