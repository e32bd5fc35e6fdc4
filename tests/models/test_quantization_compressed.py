"""compressed-tensors checkpoints: groups of layers, and a scheme for each."""

from __future__ import annotations

from typing import Any

import pytest

from planner.engine.layout import ParallelLayout
from planner.errors import Refused, UnknownArchitecture
from planner.models.quantization.compressed_schemes import (
    Fp8Linear,
    Int8Linear,
    PackedEmbedding,
    PackedLinear,
    W4A8Fp8Linear,
)
from planner.models.quantization.compressed_tensors import (
    CompressedTensorsConfig,
    read_compressed_tensors,
)
from planner.models.quantization.interface import Context, Place
from planner.models.quantization.linear_kernels import (
    Mxfp4Linear,
    Mxfp8Linear,
    NvFp4Linear,
)
from planner.models.tensors import LinearOnRank, Tensor

H100, B200, L4, A100 = (
    ParallelLayout(compute_capability=capability, num_sms=100)
    for capability in ((9, 0), (10, 0), (8, 9), (8, 0))
)
INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}
FP8 = {"num_bits": 8, "type": "float", "strategy": "channel"}
TOKEN = {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True}
QKV = ("q_proj", "k_proj", "v_proj")


def linear(
    rows: tuple[int, ...], columns: int, *, ranks: int = 1, has_bias: bool = False
) -> LinearOnRank:
    """A layer whose inputs are divided over `ranks`."""
    return LinearOnRank(
        name="layer",
        input_size=columns * ranks,
        output_size=sum(rows),
        input_size_per_partition=columns,
        output_partition_sizes=rows,
        has_bias=has_bias,
    )


def read(
    weights: dict[str, Any],
    inputs: dict[str, Any] | None = None,
    form: str = "pack-quantized",
    **settings: Any,
) -> CompressedTensorsConfig:
    """A checkpoint with one group of all linear layers."""
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
    given = {"format": form, "config_groups": {"group_0": group}, **settings}
    return read_compressed_tensors(given, Context(text_model_type="llama"))


def place(name: str, shards: tuple[str, ...] = ()) -> Place:
    """A layer by its name."""
    return Place(prefix=f"model.layers.0.{name}", shards=shards)


def test_linear_layers_are_quantised_and_the_head_is_not() -> None:
    """The class of the head is called ParallelLMHead, which holds no "Linear"."""
    config = read(INT4)
    assert isinstance(config.linear(place("mlp.down_proj")), PackedLinear)
    assert config.head(Place(prefix="lm_head")) is None
    assert config.embedding(Place(prefix="model.embed_tokens")) is None


def test_names_and_regexes_leave_layers_out() -> None:
    """All parts of a packed layer, or none."""
    ignored = ["re:.*self_attn.*", "model.layers.0.mlp.down_proj"]
    config = read(INT4, ignore=ignored)
    assert config.linear(place("self_attn.qkv_proj", QKV)) is None
    assert config.linear(place("mlp.down_proj")) is None
    assert config.linear(place("mlp.up_proj")) is not None
    partly = read(INT4, ignore=["re:.*q_proj"])
    with pytest.raises(Refused, match="Found different quantization schemes for the"):
        partly.linear(place("self_attn.qkv_proj", QKV))


def test_a_layers_name_comes_before_its_class() -> None:
    """Mixed precision: the query, key and value in 8 bits, the rest in 4."""
    wide = {**INT4, "num_bits": 8, "strategy": "channel", "group_size": None}
    groups = {
        "group_0": {"targets": ["Linear"], "weights": INT4},
        "group_1": {"targets": [f"re:.*{name}" for name in QKV], "weights": wide},
    }
    config = read(INT4, config_groups=groups)
    qkv, down = (
        config.linear(place("self_attn.qkv_proj", QKV)),
        config.linear(place("mlp.down_proj")),
    )
    assert isinstance(qkv, PackedLinear)
    assert isinstance(down, PackedLinear)
    assert (8, 4) == (qkv.packing.num_bits, down.packing.num_bits)


def test_a_group_for_attention_quantises_its_cache_alone() -> None:
    """It has no weights, without which a group of layers cannot be read."""
    cache = {"weights": None, "input_activations": {**FP8, "strategy": "tensor"}}
    groups = {
        "group_0": {"targets": ["Linear"], "weights": INT4},
        "group_1": {"targets": ["LlamaAttention"], **cache},
    }
    config = read(INT4, config_groups=groups)
    assert isinstance(config.linear(place("mlp.down_proj")), PackedLinear)
    groups["group_1"]["targets"] = ["LlamaAttention", "re:.*down_proj"]
    with pytest.raises((Refused, UnknownArchitecture)):
        read(INT4, config_groups=groups)


def test_packed_integers_keep_the_shape_they_had() -> None:
    """1,024 x 256 on A100: words, two scales a row, and two numbers."""
    made = read(INT4).linear(place("mlp.down_proj"))
    assert made is not None
    assert made.tensors(linear((1024,), 256), A100) == (
        Tensor(1024 * 256 // 8, "int32"),
        Tensor(1024 * 2),
        Tensor(2, "int64"),
    )


def test_ranks_may_not_cut_through_a_group() -> None:
    """7,392 = 57.75 x 128; the first such layer is named."""
    method = read(INT4).linear(place("mlp.down_proj"))
    assert method is not None
    with pytest.raises(Refused) as caught:
        method.tensors(linear((8192,), 7392, ranks=4), H100)
    assert str(caught.value).startswith(
        "Weight input_size_per_partition=7392 for layer 'model.layers.0.mlp.down_proj' "
        "is not divisible by group_size=128. This happens when tensor_parallel_size"
    )


def test_fp8_by_row_on_ada_and_before() -> None:
    """Before Ada Humming unpacks it: 256 by 128 tiles, scales in 16 bits, locks."""
    method = read(FP8, TOKEN, "float-quantized").linear(place("mlp.down_proj"))
    assert isinstance(method, Fp8Linear)
    assert method.tensors(linear((1024,), 256), L4) == (
        Tensor(1024 * 256, "float8_e4m3fn"),
        Tensor(1024, "float32"),
    )
    assert method.tensors(linear((1000,), 200), A100) == (
        Tensor(1024 * 256 // 4, "int32"),
        Tensor(1024),
        Tensor(800, "int32"),
    )


def test_fp8_by_block_keeps_its_scales() -> None:
    """4,096 x 2,048: 32 x 16 blocks on Hopper; Humming keeps them before Ada."""
    weights = {**FP8, "strategy": "block", "block_structure": [128, 128]}
    inputs = {**TOKEN, "strategy": "group", "group_size": 128}
    method = read(weights, inputs, "float-quantized").linear(place("mlp.down_proj"))
    assert method is not None
    on_rank = linear((4096,), 2048)
    assert method.tensors(on_rank, H100)[1] == Tensor(32 * 16, "float32")
    assert method.tensors(on_rank, A100)[1] == Tensor(32 * 16, "float32")


def test_int8_has_a_scale_for_each_row() -> None:
    """Also for merged layers of one scale each; asymmetric inputs add corrections."""
    weights = {"num_bits": 8, "type": "int", "strategy": "channel"}
    inputs = {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True}
    method = read(weights, inputs, "int-quantized").linear(place("mlp.down_proj"))
    assert method == Int8Linear(is_channel=True, is_static=False, is_symmetric=True)
    merged = Int8Linear(is_channel=False, is_static=True, is_symmetric=False)
    assert merged.tensors(linear((64, 32), 128), H100) == (
        Tensor(96 * 128, "int8"),
        Tensor(96, "float32"),
        Tensor(1, "float32"),
        Tensor(96, "int32"),
        Tensor(1, "int32"),
    )


def test_floats_with_scales_for_few_columns_have_kernels_of_their_own() -> None:
    """NVFP4 with and without scales of activations, MXFP4, MXFP8."""
    nv = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
    mx = {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}
    wide = {**mx, "num_bits": 8, "scale_dtype": "torch.uint8"}
    down = place("mlp.down_proj")
    form = "nvfp4-pack-quantized"
    local = {**nv, "dynamic": "local"}
    assert read(nv, local, form).linear(down) == NvFp4Linear(has_input_scale=True)
    assert read(nv, None, form).linear(down) == NvFp4Linear(has_input_scale=False)
    assert read(mx, None, "mxfp4-pack-quantized").linear(down) == Mxfp4Linear()
    assert read(wide, None, "mxfp8-quantized").linear(down) == Mxfp8Linear()
    with pytest.raises(Refused, match="input quantization must also be NVFP4 format"):
        read(nv, TOKEN, form).linear(down)


def test_nvfp4_lies_in_tiles_on_blackwell() -> None:
    """100 x 272: 128 x 288 weights, two a byte; 128 x 20 scales; four single ones."""
    made = NvFp4Linear().tensors(linear((100,), 272), B200)
    assert made == (
        Tensor(128 * 288 // 2, "uint8"),
        Tensor(128 * 20, "float8_e4m3fn"),
        *(Tensor(1, "float32"),) * 4,
    )


def test_nvfp4_is_repacked_elsewhere() -> None:
    """Marlin's tile and one scale left of 16 bit activations."""
    made = NvFp4Linear(has_input_scale=False).tensors(linear((100,), 256), A100)
    assert made == (
        Tensor(128 * 256 // 8, "int32"),
        Tensor(128 * 16, "float8_e4m3fn"),
        Tensor(1, "float32"),
    )


def test_int4_weights_with_fp8_activations_are_hoppers() -> None:
    """Scales are written eight times, and once more for each row."""
    config = read(INT4, TOKEN)
    method = config.linear(place("mlp.down_proj"))
    assert isinstance(method, W4A8Fp8Linear)
    assert method.tensors(linear((256,), 512), H100) == (
        Tensor(256 * 512 // 8, "int32"),
        Tensor(256 * 4 * 8, "float8_e4m3fn"),
        Tensor(256, "float32"),
        Tensor(2, "int64"),
    )
    with pytest.raises(Refused, match="No compressed-tensors compatible scheme was"):
        method.tensors(linear((256,), 512), B200)


def test_embeddings_can_be_packed() -> None:
    """Where a target names their class."""
    groups = {"group_0": {"targets": ["Embedding"], "weights": INT4}}
    method = read(INT4, config_groups=groups).embedding(Place(prefix="model.embed"))
    assert isinstance(method, PackedEmbedding)
    assert method.tensors(linear((1000,), 256), H100) == (
        Tensor(1000 * 256 // 8, "int32"),
        Tensor(1000 * 2),
        Tensor(2, "int64"),
    )


def test_a_scheme_of_the_cache_makes_it_fp8() -> None:
    """Other widths are refused."""
    cache = {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True}
    config = read(FP8, TOKEN, "float-quantized", kv_cache_scheme=cache)
    assert ("fp8", True) == (config.kv_cache_dtype, config.has_kv_scales)
    plain = read(FP8, TOKEN, "float-quantized")
    assert (None, False) == (plain.kv_cache_dtype, plain.has_kv_scales)
    with pytest.raises(Refused, match="received num_bits=4, type=float"):
        read(FP8, TOKEN, kv_cache_scheme={**cache, "num_bits": 4})


def test_what_vllm_has_given_up_is_refused() -> None:
    """The order of activations, and sparsity."""
    with pytest.raises(Refused, match=r"\(actorder='group'\) is no longer supported"):
        read({**INT4, "actorder": "group"})
    assert read({**INT4, "actorder": "weight"}).schemes
    with pytest.raises(Refused, match="Sparsity support has been removed"):
        read(INT4, sparsity_config={"targets": ["Linear"]})


def test_transforms_are_not_guessed_at() -> None:
    """They add matrices of their own; those of weights are in the checkpoint."""
    with pytest.raises(UnknownArchitecture, match="transform_config"):
        read(INT4, transform_config={"config_groups": {"r1": {}}})
    places = [{"location": "weight_input"}, {"location": "weight_output"}]
    offline = {"config_groups": {"r1": {"apply": places}}}
    assert read(INT4) == read(INT4, transform_config=offline)


def test_an_old_gpu_is_refused_by_the_scheme() -> None:
    """Volta passes the method's limit, not the scheme's."""
    volta = ParallelLayout(compute_capability=(7, 0))
    method = read(INT4).linear(place("mlp.down_proj"))
    assert method is not None
    with pytest.raises(Refused, match=r"Min capability: 75\. Current capability: 70"):
        method.tensors(linear((1024,), 256), volta)


def test_experts_have_the_scheme_of_their_layers() -> None:
    """Three layers with one scheme; left out, they stay as they are."""
    experts = Place(
        prefix="model.layers.0.mlp.experts",
        projections=("gate_proj", "up_proj", "down_proj"),
    )
    assert read(FP8, TOKEN, "float-quantized").experts(experts) is not None
    ignored = read(FP8, TOKEN, "float-quantized", ignore=["re:.*experts.*"])
    assert ignored.experts(experts) is None
