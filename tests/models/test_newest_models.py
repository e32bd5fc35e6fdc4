"""What is refused of the newest models, and their own rules, worked by hand.

`tests/models/test_registry_answers.py` holds the whole against vLLM's answers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.errors import UnknownArchitecture
from planner.models.families.bailing_hybrid import FilledBlocks
from planner.models.families.inkling import ConvolvedHeads, SinkExperts
from planner.models.layers import Part, RowParallelLinear
from planner.models.quantization.fp8 import Fp8BlockLinear
from planner.models.tensors import Tensor
from tests.configs import architecture

INKLING: dict[str, Any] = {
    "architectures": ["InklingForCausalLM"],
    "model_type": "inkling_model",
    "torch_dtype": "bfloat16",
    "hidden_size": 256,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 1024,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "num_experts_per_tok": 2,
    "intermediate_size": 64,
    "model_max_length": 1024,
}
STEP5: dict[str, Any] = {
    "architectures": ["Step5ForCausalLM"],
    "model_type": "step5",
    "torch_dtype": "bfloat16",
    "hidden_size": 512,
    "intermediate_size": 256,
    "num_attention_heads": 8,
    "num_attention_groups": 2,
    "head_dim": 192,
    "num_hidden_layers": 2,
    "vocab_size": 1024,
    "moe_intermediate_size": 128,
    "use_head_wise_attn_gate": True,
    "sparse_config": {"index_tp_size": 2, "sparse_indexer_num_heads": 8},
}
GEMMA: dict[str, Any] = {
    "architectures": ["Gemma4ForCausalLM"],
    "model_type": "gemma4_text",
    "torch_dtype": "bfloat16",
    "num_hidden_layers": 2,
    "layer_types": ["sliding_attention", "full_attention"],
    "hidden_size_per_layer_input": 0,
}


def _plan(folder: Path, config: dict[str, Any], **arguments: Any) -> planner.Plan:
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return planner.plan(folder, **{"gpu": "H100", **arguments})


def _refusal(plan: planner.Plan) -> str:
    error = plan.to_dict()["error"]
    assert error["kind"] == "refused"
    return str(error["message"])


def test_inklings_convolutions_need_a_head_on_each_rank(tmp_path: Path) -> None:
    """Ranks beyond the KV heads would need a part of one."""
    said = _refusal(_plan(tmp_path, INKLING, tensor_parallel_size=4))

    assert said == "sconv SWA cache supports tp_size <= num_kv_heads (2), got 4"


def test_inklings_convolutions_are_kept_in_bfloat16(tmp_path: Path) -> None:
    """Their kernels read nothing else."""
    said = _refusal(_plan(tmp_path, INKLING, dtype="float16"))

    assert said == "sconv SWA cache supports bfloat16 only, got torch.float16"


def test_inklings_streams_fill_a_power_of_two(tmp_path: Path) -> None:
    """Per head 2 x 32 keys and values, 2 x 128 of the width: 320, held as 512."""
    groups = _plan(tmp_path, INKLING).kv_groups

    (streams,) = {group for group in groups if group.kind == "SlidingWindowSpec"}
    assert streams.num_layers == 2
    assert streams.page_size_bytes == 2 * 512 * 2 * streams.block_size


def test_inkling_has_shared_experts() -> None:
    """vLLM asserts that there are some."""
    with pytest.raises(UnknownArchitecture, match="n_shared_experts"):
        architecture({**INKLING, "n_shared_experts": 0})


def test_inklings_own_tensors_on_a_rank() -> None:
    """Two kernels of a rank's KV heads; the shared experts' two weights."""
    two = ParallelLayout(tensor_parallel_size=2)
    convolved = ConvolvedHeads(num_kv_heads=4, head_size=8, kernel_size=4)
    shared = SinkExperts(count=2, hidden_size=16, intermediate_size=8)

    assert convolved.tensors(two) == (Tensor(2 * 8 * 4),) * 2
    assert shared.tensors(two) == (Tensor(2 * 2 * 4 * 16), Tensor(2 * 4 * 16))


@pytest.mark.parametrize(
    ("changes", "arguments", "said"),
    [
        ({"sparse_config": None}, {}, "Step5 requires a checkpoint with a sparse_conf"),
        ({}, {"dtype": "float16"}, "Step5 DSA kernels require bfloat16 activations"),
        ({"head_dim": 128}, {}, "Step5 DSA kernels require head_size 192, got 128."),
        ({"num_attention_heads": 4}, {}, "require q_heads_per_kv in {4, 8, 16}, got 2"),
        ({}, {"gpu": "L40S"}, "compute capability"),
        ({}, {"quantization": "fp8"}, "cannot be quantized"),
        ({}, {"kv_cache_dtype": "fp8_e5m2"}, "kv_cache_dtype"),
        ({"num_attention_groups": 1}, {}, "must align with attention KV groups: 2 !="),
    ],
)
def test_step5_is_refused(
    tmp_path: Path, changes: dict[str, Any], arguments: dict[str, Any], said: str
) -> None:
    """What its kernels do not compute is refused when the model is built."""
    assert said in _refusal(_plan(tmp_path, {**STEP5, **changes}, **arguments))


def test_step5_without_sparse_layers_keeps_keys_and_values_alone(
    tmp_path: Path,
) -> None:
    """A config may switch the indexer off, and give some layers a window."""
    config = {
        **STEP5,
        "sparse_config": {"enabled": False},
        "layer_types": ["sliding_attention", "full_attention"],
        "sliding_window": 128,
        "swa_num_attention_heads": 4,
    }

    kinds = {group.kind for group in _plan(tmp_path, config).kv_groups}

    assert kinds == {"SlidingWindowSpec", "FullAttentionSpec"}


def test_flint_takes_flashinfer_alone(tmp_path: Path) -> None:
    """On Hopper, FlashAttention would serve its layers."""
    config = {"architectures": ["FlintForCausalLM"], "model_type": "flint"}
    small = {**config, "num_hidden_layers": 2, "torch_dtype": "bfloat16"}

    assert _refusal(_plan(tmp_path, small)) == "Flint requires FlashInfer attention"
    assert _plan(tmp_path, small, gpu="B200").fits


def test_gemmas_layers_of_full_attention_differ_alike() -> None:
    """A size for a single layer becomes that of its kind, or is refused."""
    model = architecture({**GEMMA, "per_layer_config": {"1": {"head_dim": 128}}})

    assert model.head_size == 256
    with pytest.raises(UnknownArchitecture, match="per_layer_config"):
        architecture({**GEMMA, "per_layer_config": {"0": {"head_dim": 128}}})


@pytest.mark.parametrize(("given", "used"), [(None, 8), (128, 8), (127, 127)])
def test_diffusion_lowers_what_looks_like_a_default(
    tmp_path: Path, given: int | None, used: int
) -> None:
    """From 128 requests on, vLLM takes max_num_seqs for its own default."""
    config = {
        "architectures": ["DiffusionGemmaForBlockDiffusion"],
        "model_type": "diffusion_gemma",
        "torch_dtype": "bfloat16",
        "text_config": {"num_hidden_layers": 6},
    }

    assert _plan(tmp_path, config, max_num_seqs=given).resolved.max_num_seqs == used


@pytest.mark.parametrize(
    "changes", [{"indexer_n_heads": 4}, {"ple_layer_ids": [1]}], ids=str
)
def test_qwen4s_indexer_and_ngrams_are_not_read(changes: dict[str, Any]) -> None:
    """They are named rather than left out of the figures."""
    config = {"architectures": ["Qwen4ExpForCausalLM"], "model_type": "qwen4_exp_text"}

    with pytest.raises(UnknownArchitecture, match=next(iter(changes))):
        architecture({**config, **changes})


def test_lings_shared_experts_are_filled_up_for_blocks_of_fp8() -> None:
    """768 columns on 8 ranks become 1,024: a block of 128 on each."""
    layer = RowParallelLinear(
        name="down", part=Part.SHARED_EXPERTS, input_size=768, output_size=256
    )
    eight = ParallelLayout(tensor_parallel_size=8)

    plain = FilledBlocks(name="down", layer=layer)
    filled = FilledBlocks(
        name="down", layer=layer, method=Fp8BlockLinear(model_type="")
    )

    assert plain.as_linear(eight).input_size == 768
    assert filled.as_linear(eight).input_size == 1024
