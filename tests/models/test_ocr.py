"""Models that read documents, with towers small enough to add up by hand."""

from typing import Any

import planner
from planner.engine.layout import ParallelLayout
from planner.models.architecture import Tower
from planner.models.families import read
from planner.models.files import ModelFiles
from tests.configs import architecture

FLAT: dict[str, Any] = {
    "torch_dtype": "bfloat16",
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 64,
    "max_position_embeddings": 32,
}
DOTS: dict[str, Any] = {
    **FLAT,
    "architectures": ["DotsOCRForCausalLM"],
    "model_type": "dots_ocr",
    "auto_map": {"AutoConfig": "configuration_dots.DotsOCRConfig"},
    "vision_config": {
        "embed_dim": 8,
        "hidden_size": 5,
        "intermediate_size": 6,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    },
}
PADDLE: dict[str, Any] = {
    **FLAT,
    "architectures": ["PaddleOCRVLForConditionalGeneration"],
    "model_type": "paddleocr_vl",
    "head_dim": 8,
    "rope_scaling": {"mrope_section": [2, 1, 1], "rope_type": "default"},
    "vision_config": {
        "hidden_size": 8,
        "intermediate_size": 6,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 28,
    },
}
PATCHES = 8 * 3 * 196 + 8


def dots() -> Tower:
    """The tower of dots.ocr, whose code the user trusts."""
    files = ModelFiles(name="org/model", config=DOTS)
    (tower,) = read(files, trust_remote_code=True).towers
    return tower


def elements(tower: Tower) -> int:
    """Elements of a tower on one rank."""
    return sum(t.elements for m in tower.modules for t in m.tensors(ParallelLayout()))


def test_dots_ocr_counts_its_tower_by_hand() -> None:
    """One block without biases: qkv 192, out 64, norms 16, MLP 3 x 8 x 6.

    Norms of 8 after the patches and the blocks; merger: norm 16, 32 x 32 + 32 and
    5 x 32 + 5; one rotary frequency for heads of 4.
    """
    tower = dots()
    block, merger = 192 + 64 + 16 + 144, 16 + 1056 + 165
    assert PATCHES + 8 + block + 8 + merger + 1 == elements(tower)


def test_dots_ocr_never_quantises_its_merger() -> None:
    """vLLM's class hands nothing on to it."""
    tower = dots()
    kept = [
        m.name for m in tower.modules if getattr(m, "is_quantizable", None) is False
    ]
    assert ["vision_tower.merger.mlp.0", "vision_tower.merger.mlp.2"] == kept


def test_paddle_ocr_counts_its_tower_by_hand() -> None:
    """One layer of SigLIP: norms 32, qkv 192 + 24, out 72, MLP 48 + 6 + 48 + 8.

    2 x 2 positions of 8 and their numbers, norm 16, one frequency; projector: norm 16,
    32 x 32 + 32 and 16 x 32 + 16.
    """
    (tower,) = architecture(PADDLE).towers
    layer, projector = 32 + 216 + 72 + 110, 16 + 1056 + 528
    assert PATCHES + 36 + layer + 16 + 1 + projector == elements(tower)


def test_paddle_ocr_stretches_its_rotary_cache_and_refuses_stages() -> None:
    """32 positions of 8 dimensions, fourfold for images."""
    model = architecture(PADDLE)
    (rotary,) = model.every_stage
    assert [4 * 32 * 8] == [t.elements for t in rotary.tensors(ParallelLayout())]
    plan = planner.plan(model, gpu="H100", pipeline_parallel_size=2)
    assert plan.error is not None
    assert plan.error.message.startswith("Pipeline parallelism is not supported")


def test_paddle_ocr_is_tied_whatever_its_flat_config_says() -> None:
    """The field outside is not handed in, and the inner class ties by itself."""
    assert architecture(PADDLE, tie_word_embeddings=False).tied_embeddings
