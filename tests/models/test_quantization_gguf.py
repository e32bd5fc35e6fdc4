"""How vLLM holds the weights of GGUF files."""

from __future__ import annotations

from pathlib import Path

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.errors import Refused, UnknownArchitecture
from planner.models.files import ModelFiles
from planner.models.quantization.gguf import (
    GGUFConfig,
    GGUFExperts,
    GGUFLinear,
    read_gguf,
)
from planner.models.quantization.interface import Context, Place
from planner.models.tensors import ExpertsOnRank, LinearOnRank, Tensor
from tests.gguf_files import qwen3_tensors, write_qwen3

ONE, TWO = (
    ParallelLayout(compute_capability=(8, 9), num_sms=142, tensor_parallel_size=ranks)
    for ranks in (1, 2)
)
QKV = Place(
    prefix="model.layers.0.self_attn.qkv_proj", shards=("q_proj", "k_proj", "v_proj")
)


def _config(**types: str) -> GGUFConfig:
    files = ModelFiles(name="m", config={}, gguf_tensors=qwen3_tensors(**types))
    return read_gguf({}, Context(files=files))


def _linear(rows: tuple[int, ...], columns: int, ranks: int = 1) -> LinearOnRank:
    return LinearOnRank(
        name="layer",
        input_size=columns,
        output_size=sum(rows),
        input_size_per_partition=columns // ranks,
        output_partition_sizes=rows,
    )


def test_merged_rows_are_padded_to_the_longest() -> None:
    """q and k in Q4_K (576 bytes a row), v in Q6_K (840): 4,096 rows of 840."""
    method = _config(attn_v="Q6_K").linear(QKV)
    assert method == GGUFLinear(types=("Q4_K", "Q4_K", "Q6_K"))
    made = GGUFLinear(types=("Q4_K", "Q4_K", "Q6_K")).tensors(
        _linear((2048, 1024, 1024), 1024), ONE
    )
    assert made == (Tensor(4096 * 840, "uint8"), Tensor(3, "uint8"))


def test_ranks_divide_the_bytes_of_a_row() -> None:
    """Of 3,072 columns in Q6_K: 2,520 bytes, 1,260 on each of two ranks."""
    made = GGUFLinear(types=("Q6_K",)).tensors(_linear((1024,), 3072, ranks=2), TWO)
    assert made == (Tensor(1024 * 1260, "uint8"), Tensor(1, "uint8"))


def test_importance_types_are_unpacked() -> None:
    """They have no kernel that multiplies many tokens by packed weights."""
    layer = _linear((3072, 3072), 1024)
    packed = GGUFLinear(types=("Q4_K", "Q4_K")).tensors(layer, ONE)
    unpacked = GGUFLinear(types=("IQ4_XS", "IQ4_XS")).tensors(layer, ONE)
    assert packed[0].unpacked == 0
    assert unpacked[0].unpacked == 3072 * 1024


def test_floats_are_held_in_the_models_dtype() -> None:
    """F16 or BF16 parts, if all of a layer are."""
    kinds = {"attn_q": "F16", "attn_k": "F16", "attn_v": "BF16"}
    assert _config(**kinds).linear(QKV) is None
    with pytest.raises(Refused, match=r"^Detected some but not all shards of model"):
        _config(attn_v="F16").linear(QKV)


def test_types_without_a_kernel_are_refused() -> None:
    """In vLLM's words, which give the type's number."""
    with pytest.raises(Refused, match=r"^Unsupported GGUF quantization type 39 in"):
        _config(attn_q="MXFP4").linear(QKV)


def test_a_layer_that_the_file_lacks_is_not_modelled() -> None:
    """The message names the tensor."""
    with pytest.raises(UnknownArchitecture, match="attn_k"):
        _config(attn_k="").linear(QKV)
    with pytest.raises(UnknownArchitecture, match="in_proj"):
        _config().linear(Place(prefix="model.layers.0.mixer.in_proj"))


def test_experts_have_a_type_for_each_projection() -> None:
    """w13 by that of gate and up, w2 by that of down; ranks divide both."""
    experts = ExpertsOnRank(
        name="experts",
        num_experts=4,
        global_num_experts=4,
        top_k=2,
        hidden_size=1024,
        intermediate_size=768,
        intermediate_size_per_partition=384,
    )
    made = GGUFExperts(gate="Q4_K", down="Q6_K").tensors(experts, TWO)
    assert made == (
        Tensor(4 * 768 * 576, "uint8"),
        Tensor(4 * 1024 * (630 // 2), "uint8"),
        Tensor(1, "uint8"),
        Tensor(1, "uint8"),
    )


def test_gate_and_up_have_one_type() -> None:
    """vLLM holds both in one tensor."""
    tensors = {
        "blk.0.ffn_gate_exps.weight": ("Q4_K", (4, 768, 1024)),
        "blk.0.ffn_up_exps.weight": ("Q4_K", (4, 768, 1024)),
        "blk.0.ffn_down_exps.weight": ("Q6_K", (4, 1024, 768)),
    }
    place = Place(prefix="model.layers.0.mlp.experts")
    config = GGUFConfig(tensors=tensors)
    assert config.experts(place) == GGUFExperts(gate="Q4_K", down="Q6_K")
    tensors["blk.0.ffn_up_exps.weight"] = ("Q5_K", (4, 768, 1024))
    with pytest.raises(UnknownArchitecture, match="gate and up of one"):
        config.experts(place)


def test_a_plan_holds_what_the_package_holds(tmp_path: Path) -> None:
    """Bytes of the package's own classes, loaded with such a file.

    Measured with vllm-gguf-plugin 0.0.5 on vLLM 0.33.0: of a layer qkv_proj 3,440,643,
    o_proj 1,179,649, gate_up_proj 3,538,946, down_proj 2,580,481; embeddings 87,515,137
    and head 127,626,241.
    """
    path = write_qwen3(
        tmp_path / "m.gguf", attn_v="Q6_K", ffn_down="Q6_K", output="Q6_K"
    )
    made = planner.plan(path, gpu="L40S")
    parts = {part.name: part.size_bytes for part in made.ranks[0].weight_parts}
    assert parts["attention"] == 2 * (3_440_643 + 1_179_649)
    assert parts["mlp"] == 2 * (3_538_946 + 2_580_481)
    assert parts["embeddings"] == 87_515_137
    assert parts["lm_head"] == 127_626_241
    assert any("vllm-gguf-plugin" in note for note in made.notes)
    assert any("hf_config_path" in note for note in made.notes)


def test_blackwell_took_no_bfloat16(tmp_path: Path) -> None:
    """From 0.13 to 0.23; the package has no such rule."""
    path = write_qwen3(tmp_path / "m.gguf")
    refused = planner.plan(path, gpu="B200", vllm_version="0.23.0")
    assert refused.error is not None
    assert "torch.bfloat16 is not supported" in refused.error.message
    assert planner.plan(path, gpu="B200").error is None
    half = planner.plan(path, gpu="B200", vllm_version="0.23.0", dtype="float16")
    assert half.error is None


def test_the_argument_needs_a_file() -> None:
    """A model in another format has no blocks."""
    with pytest.raises(UnknownArchitecture, match="needs a GGUF file"):
        planner.plan("Qwen/Qwen3-8B", gpu="L40S", quantization="gguf")


def test_older_releases_take_a_file_on_disk_only(tmp_path: Path) -> None:
    """Names on the Hub came with 0.12."""
    write_qwen3(tmp_path / "m-Q4_K_M.gguf")
    refused = planner.plan(f"{tmp_path}:Q4_K_M", gpu="L40S", vllm_version="0.11.0")
    assert refused.error is not None
    assert "local path" in refused.error.message
