"""The decoders that differ from Llama in a bias, a norm or a window, and how.

`registry` lists which architectures have which style.

Source: vLLM 0.33.0 `models/`, the module of each; `models/transformers/` for those
that vLLM leaves to Transformers.
"""

from __future__ import annotations

from planner.models.families.assembly import Placement
from planner.values import frozen


@frozen
class Style:
    """How a decoder differs from Llama."""

    qkv_bias: bool | str = False
    """Yes, no, or the config field that decides."""
    output_bias: bool | str = False
    mlp_bias: bool | str = False
    is_gated: bool = True
    norm_count: int = 2
    norm_bias: bool = False
    qk_norm: bool | str = False
    """One norm over each head's dimensions for query and key."""
    is_qk_norm_wide: bool = False
    """The query/key norm covers all heads at once."""
    is_transformers_backend: bool = False
    """vLLM has no class of its own and wraps Transformers' model."""
    placement: Placement = Placement.BY_STAGE
    has_layer_windows: bool = False
    """vLLM's class gives each layer its own window."""
    extra_window_tokens: int = 0
    """What the class adds to sliding_window."""
    has_local_rope: bool = False
    """Layers with a window have rotary embeddings of their own."""
    has_xielu: bool = False
    """The activation has two scalars to learn and two fixed ones."""
    mrope_positions_factor: int = 4
    """By how much rotary caches grow when images and videos have positions."""


LLAMA = Style(mlp_bias="mlp_bias", has_layer_windows=True)
STYLES = {
    "Llama": LLAMA,
    "Qwen2": Style(qkv_bias=True),
    "Qwen3": Style(
        qkv_bias="attention_bias", output_bias="attention_bias", qk_norm=True
    ),
    "Phi3": Style(),
    "Gemma": Style(
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        placement=Placement.EVERYWHERE,
    ),
    "Gemma2": Style(
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        norm_count=4,
        placement=Placement.EVERYWHERE,
        has_layer_windows=True,
    ),
    "Gemma3": Style(
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        norm_count=4,
        qk_norm=True,
        placement=Placement.EVERYWHERE,
        has_layer_windows=True,
        has_local_rope=True,
    ),
    "Exaone4": Style(
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        qk_norm=True,
        has_layer_windows=True,
    ),
    "Cohere2": Style(
        norm_count=1,
        qk_norm="use_qk_norm",
        placement=Placement.EVERYWHERE,
        has_layer_windows=True,
        extra_window_tokens=1,
    ),
    "MiMo": Style(qkv_bias=True),
    "Apertus": Style(
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias="mlp_bias",
        is_gated=False,
        qk_norm=True,
        has_layer_windows=True,
        has_xielu=True,
    ),
    "Glm4": Style(qkv_bias="attention_bias", norm_count=4),
    "Cohere": Style(
        norm_count=1, qk_norm="use_qk_norm", placement=Placement.EVERYWHERE
    ),
    "Nemotron": Style(
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias="mlp_bias",
        is_gated=False,
        norm_bias=True,
    ),
    "Orion": Style(norm_bias=True, placement=Placement.EVERYWHERE),
    "StableLm": Style(
        qkv_bias="use_qkv_bias", norm_bias=True, placement=Placement.EVERYWHERE
    ),
    "InternLM2": Style(
        qkv_bias="bias", output_bias="bias", placement=Placement.EVERYWHERE
    ),
    "MiniCPM": Style(placement=Placement.EVERYWHERE),
    "Olmo": Style(
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        norm_count=0,
        is_transformers_backend=True,
    ),
    "Olmo2": Style(
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        qk_norm=True,
        is_qk_norm_wide=True,
        is_transformers_backend=True,
    ),
    "Olmo3": Style(
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        qk_norm=True,
        is_qk_norm_wide=True,
        is_transformers_backend=True,
        has_layer_windows=True,
        has_local_rope=True,
    ),
    "SmolLM3": Style(
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias="mlp_bias",
        is_transformers_backend=True,
    ),
    "SeedOss": Style(
        qkv_bias="attention_bias",
        output_bias="attention_out_bias",
        mlp_bias="mlp_bias",
        is_transformers_backend=True,
    ),
    "Glm": Style(qkv_bias="attention_bias", is_transformers_backend=True),
    "Helium": Style(
        qkv_bias="attention_bias", mlp_bias="mlp_bias", is_transformers_backend=True
    ),
    "Arcee": Style(
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias="mlp_bias",
        is_gated=False,
        is_transformers_backend=True,
    ),
    "Jais2": Style(
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias="mlp_bias",
        is_gated=False,
        norm_bias=True,
        is_transformers_backend=True,
    ),
    "Starcoder2": Style(
        qkv_bias="use_bias",
        output_bias="use_bias",
        mlp_bias="use_bias",
        is_gated=False,
        norm_bias=True,
        is_transformers_backend=True,
    ),
    "Cwm": Style(
        mlp_bias="mlp_bias", is_transformers_backend=True, has_layer_windows=True
    ),
    "HunYuanDense": Style(
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        qk_norm=True,
        is_transformers_backend=True,
    ),
    "VaultGemma": Style(
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        is_transformers_backend=True,
        has_layer_windows=True,
    ),
    "Ministral": Style(is_transformers_backend=True, has_layer_windows=True),
    "NanoChat": Style(
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        is_gated=False,
        norm_count=0,
        is_transformers_backend=True,
    ),
}
