"""InternViT, the vision tower of InternVL, NVLM-D, H2OVL and Skywork-R1V."""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.layers import Module


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    hidden_size: int
    num_heads: int
    num_dummy_heads: int
    intermediate_size: int
    qkv_bias: bool
    has_qk_norm: bool
    norm_bias: bool

    @property
    def total_heads(self) -> int:
        return self.num_heads + self.num_dummy_heads

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.num_heads


def intern_vit(
    facts: Facts, *, select_layer: int, num_dummy_heads: int = 0
) -> tuple[Module, ...]:
    """Return the tower up to the layer whose features are used.

    Source: vLLM 0.33.0 `models/intern_vit.py` InternVisionModel; `models/internvl.py`
    _init_vision_model.
    """
    shape = _shape(facts, num_dummy_heads)
    num_layers = select_layer + 1
    if select_layer < 0:
        num_layers += facts.integer("num_hidden_layers")
    name, size = "vision_model", shape.hidden_size
    patch = facts.integer("patch_size")
    positions = (facts.integer("image_size") // patch) ** 2 + 1
    modules: list[Module] = [
        blocks.replicated(f"{name}.embeddings", (size,), (positions, size)),
        blocks.convolution(
            f"{name}.embeddings.patch_embedding", size, 3, patch, patch, bias=True
        ),
    ]
    for index in range(num_layers):
        modules += _layer(f"{name}.encoder.layers.{index}", shape)
    return tuple(modules)


def _shape(facts: Facts, num_dummy_heads: int) -> _Shape:
    for name in ("qkv_bias", "qk_normalization", "norm_type"):
        if facts.value(name) is None:
            raise facts.unsupported(name, "the vision config must say.")
    return _Shape(
        hidden_size=facts.integer("hidden_size"),
        num_heads=facts.integer("num_attention_heads"),
        num_dummy_heads=num_dummy_heads,
        intermediate_size=facts.integer("intermediate_size"),
        qkv_bias=facts.flag("qkv_bias"),
        has_qk_norm=facts.flag("qk_normalization"),
        norm_bias=facts.value("norm_type") == "layer_norm",
    )


def _layer(name: str, shape: _Shape) -> tuple[Module, ...]:
    """Return a layer; ranks that do not divide its heads hold its attention whole."""
    size, heads = shape.hidden_size, shape.total_heads
    qkv = replace(
        blocks.qkv(f"{name}.attn.qkv", size, heads, bias=shape.qkv_bias),
        head_size=shape.head_size,
    )
    proj = blocks.row(f"{name}.attn.proj", heads * shape.head_size, size, bias=True)
    modules: tuple[Module, ...] = (
        blocks.WholeUnlessDivided(name=qkv.name, layer=qkv, num_heads=heads),
        blocks.WholeUnlessDivided(name=proj.name, layer=proj, num_heads=heads),
        *blocks.plain_mlp(
            f"{name}.mlp.fc1", f"{name}.mlp.fc2", size, shape.intermediate_size
        ),
        blocks.norms(f"{name}.norm", size, count=2, bias=shape.norm_bias),
        blocks.replicated(f"{name}.ls", (size,), (size,)),
    )
    if not shape.has_qk_norm:
        return modules
    wide = heads * shape.head_size
    return (*modules, blocks.norms(f"{name}.attn.qk_norm", wide, count=2, bias=False))


def hf_intern_vit(facts: Facts) -> tuple[Module, ...]:
    """Return the tower of the checkpoints that Transformers' own class reads.

    Nothing in it is quantised, and only its MLPs are cut over the ranks.

    Source: vLLM 0.33.0 `models/interns1_vit.py` InternS1VisionModel.
    """
    name, size = "vision_tower", facts.integer("hidden_size")
    image, patch = _sides(facts, "image_size"), _sides(facts, "patch_size")
    positions = (image[0] // patch[0]) * (image[1] // patch[1]) + 1
    tokens = [(size,)]
    if facts.flag("use_mask_token"):
        tokens.append((size,))
    modules: list[Module] = [blocks.replicated(f"{name}.embeddings", *tokens)]
    if facts.flag("use_absolute_position_embeddings"):
        modules.append(
            blocks.replicated(f"{name}.embeddings.position", (positions, size))
        )
    modules.append(
        blocks.convolution(
            f"{name}.embeddings.patch_embeddings.projection",
            size,
            facts.integer("num_channels"),
            *patch,
            bias=True,
        )
    )
    for index in range(facts.integer("num_hidden_layers")):
        modules += _hf_layer(facts, f"{name}.encoder.layer.{index}")
    if not facts.flag("use_mean_pooling"):
        modules.append(blocks.norms(f"{name}.layernorm", size, bias=True))
    return tuple(modules)


def _hf_layer(facts: Facts, name: str) -> tuple[Module, ...]:
    size, bias = facts.integer("hidden_size"), facts.flag("attention_bias")
    norm_bias = facts.value("norm_type") == "layer_norm"
    attention = [(size, size)] * 4 + [(size,)] * (4 if bias else 1)
    if facts.flag("use_qk_norm"):
        attention += [(size,), (size,)]
    mlp = blocks.plain_mlp(
        f"{name}.mlp.fc1",
        f"{name}.mlp.fc2",
        size,
        facts.integer("intermediate_size"),
    )
    return (
        blocks.replicated(f"{name}.attention", *attention),
        *blocks.unquantised(*mlp),
        blocks.norms(f"{name}.layernorm", size, count=2, bias=norm_bias),
        blocks.replicated(f"{name}.lambda", (size,), (size,)),
    )


def _sides(facts: Facts, name: str) -> tuple[int, int]:
    """Return height and width of what the config gives as one number or two."""
    value = facts.value(name)
    if isinstance(value, list | tuple):
        height, width = value
        return int(height), int(width)
    return facts.integer(name), facts.integer(name)
