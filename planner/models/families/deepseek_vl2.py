"""DeepSeek-VL2: SigLIP as the library timm has it, and DeepSeek's language model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.engine.layout import ParallelLayout
from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.multimodal import read_as, text_facts
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.facts import deepseek_vl2_items
from planner.models.layers import ColumnParallelLinear, Module, Part, RowParallelLinear
from planner.models.tensors import LinearMethod, Tensors
from planner.values import frozen

_RENAMES = (("language.", "language_model."),)
_PROJECTOR = {
    "projector_type": "downsample_mlp_gelu",
    "input_dim": 1152,
    "n_embed": 2048,
    "depth": 2,
    "mlp_ratio": 1,
    "downsample_ratio": 2,
}
_SIZE, _MLP_SIZE, _LAYERS, _PATCH, _IMAGE = 1152, 4304, 27, 14, 384
"""Of vit_so400m_patch14_siglip_384, which is built whatever config.json says."""


def _projector_facts(facts: Facts) -> Facts:
    given = facts.mapping("projector_config")
    return Facts({**_PROJECTOR, **given}, "mlp_projector")


def _tower(facts: Facts, _text_size: int) -> Tower:
    """Return a tower that has sizes of its own, not the config's.

    Source: vLLM 0.33.0 `models/deepseek_vl2.py` DeepseekVLV2ForCausalLM;
    `transformers_utils/configs/deepseek_vl2.py`.
    """
    projector = _projector(_projector_facts(facts))
    return Tower(
        IMAGE, (*timm_siglip("vision"), projector), items=deepseek_vl2_items(facts)
    )


def _ends(facts: Facts, _text_size: int) -> tuple[Module, ...]:
    """Return parameters of the whole, which are there even where the tower is not."""
    size = _projector_facts(facts).integer("n_embed")
    return (blocks.replicated("image_newline", (size,), (size,)),)


def read_language_model(facts: Facts, label: Label) -> ModelArchitecture:
    """Return the language model, whose attention is latent unless its sizes say not.

    Source: vLLM 0.33.0 `models/deepseek_v2.py` DeepseekV2DecoderLayer (use_mha).
    """
    text = text_facts(facts, "deepseek_v2", name="language_config")
    names = text.value("architectures") or ()
    if names and names[0] != "DeepseekV2ForCausalLM":
        raise text.unsupported("architectures", "DeepseekV2ForCausalLM is.")
    if any(text.value(name) for name in ("qk_nope_head_dim", "qk_rope_head_dim")):
        return read_as(text, label, "DeepseekV2ForCausalLM")
    # The class divides the width by the heads, whatever head_dim the config class has.
    head_size = text.integer("hidden_size") // text.integer("num_attention_heads")
    text = Facts({**text.config, "head_dim": head_size}, text.model_type)
    inner = label.of("DeepseekV2ForCausalLM")
    return label.readers["DeepseekForCausalLM"](text, inner)


def _projector(facts: Facts) -> Module:
    """Return linear layers over squares of patches, torch's own.

    Source: vLLM 0.33.0 `models/deepseek_vl2.py` MlpProjector.
    """
    size, ratio = facts.integers("n_embed", "downsample_ratio")
    if facts.value("projector_type") != "downsample_mlp_gelu":
        raise facts.unsupported("projector_type", "downsample_mlp_gelu is.")
    wide, given = size * facts.integer("mlp_ratio"), facts.integer("input_dim")
    between = ((wide, wide), (wide,)) * (facts.integer("depth") - 2)
    first = ((wide, given * ratio * ratio), (wide,))
    return blocks.replicated("projector", *first, *between, (size, wide), (size,))


@frozen
class _DividedWhenSeveral:
    """A linear layer that is torch's own on one rank, and vLLM's on several.

    Source: vLLM 0.33.0 `models/deepseek_vl2.py` patch_vit_for_tp.
    """

    name: str
    layer: ColumnParallelLinear | RowParallelLinear
    part: Part = Part.TOWERS
    is_quantizable: bool = True
    method: LinearMethod | None = None

    @property
    def shards(self) -> tuple[str, ...]:
        """Names of the checkpoint's layers packed in it: none."""
        return self.layer.shards

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return weight and bias on a rank."""
        method = None if layout.tensor_parallel_size == 1 else self.method
        return replace(self.layer, method=method).tensors(layout)


def timm_siglip(name: str) -> Iterator[Module]:
    """Yield the vision model with the head that pools its output.

    Attention is whole on every rank; the names of the MLPs have no prefix, as the class
    passes none on.
    """
    square, vector = (_SIZE, _SIZE), (_SIZE,)
    attention = ((3 * _SIZE, _SIZE), (3 * _SIZE,), square, vector)
    patches = (_IMAGE // _PATCH) ** 2
    embedding, pool = f"{name}.patch_embed", f"{name}.attn_pool"
    yield blocks.convolution(embedding, _SIZE, 3, _PATCH, _PATCH, bias=True)
    yield blocks.replicated(f"{name}.pos_embed", (1, patches, _SIZE))
    for index in range(_LAYERS):
        block = f"{name}.blocks.{index}"
        yield blocks.norms(f"{block}.norm", _SIZE, count=2, bias=True)
        yield blocks.replicated(f"{block}.attn", *attention)
        yield from _mlp(f"blocks.{index}.mlp")
    yield blocks.norms(f"{name}.norm", _SIZE, bias=True)
    yield blocks.replicated(f"{pool}.latent", (1, 1, _SIZE))
    yield blocks.norms(f"{pool}.norm", _SIZE, bias=True)
    yield blocks.replicated(f"{pool}.attn", *attention)
    yield from _mlp("attn_pool.mlp")


def _mlp(name: str) -> tuple[Module, ...]:
    return tuple(
        _DividedWhenSeveral(name=layer.name, layer=layer)
        for layer in blocks.plain_mlp(f"{name}.fc1", f"{name}.fc2", _SIZE, _MLP_SIZE)
    )


READERS = {
    "DeepseekVLV2ForCausalLM": Composite(
        _tower, text=read_language_model, beside=_ends, renames=_RENAMES
    )
}
