"""The audio tower of Phi-4-multimodal: convolutions, then conformer blocks.

It is made of torch's own layers: every rank holds it in full, and nothing in it is
quantised.
"""

from __future__ import annotations

from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.layers import Module

_POSITIONS = 5000
"""Rows of the table of sinusoids, which the class fills and never uses."""
_SHAPED_OTHERWISE: dict[str, object] = {
    "batch_norm": False,
    "attention_group_size": 1,
    "attention_inner_dim": -1,
    "depthwise_multiplier": 1,
    "input_layer": "nemo_conv",
    "linear_glu_in_convm": False,
}
"""Settings under which a block has other layers, and what they have to be."""
_NEMO_SETTINGS = {"conv_channels", "is_causal", "activation"}
"""Of nemo_conv_settings, those under which the layers are the same ones."""


def conformer(facts: Facts, name: str) -> tuple[Module, ...]:
    """Return the encoder: depthwise convolutions, relative positions, blocks.

    Args:
        facts: audio_processor.config.
        name: of the encoder within the model.

    Raises:
        UnknownArchitecture: for settings under which its layers are others.

    Source: vLLM 0.33.0 `models/phi4mm_audio.py` ConformerEncoder,
    TransformerEncoderBase, ConformerEncoderLayer; `models/phi4mm_utils.py`.
    """
    _check(facts)
    size, mel_bins = facts.integer("attention_dim"), facts.integer("input_size")
    relative = facts.mapping("relative_attention_bias_args")
    sides = 1 if relative.get("t5_bias_symmetric") else 2
    distances = sides * int(relative.get("t5_bias_max_distance", 1000))
    return (
        *_subsampling(facts, f"{name}.embed"),
        blocks.replicated(f"{name}.pos_emb", (1, _POSITIONS, size)),
        blocks.replicated(
            f"{name}.relative_attention_bias_layer",
            (distances, facts.integer("attention_heads")),
        ),
        blocks.replicated(f"{name}.encoder_embedding", (mel_bins,), (mel_bins,)),
        blocks.replicated(f"{name}.dev_type", ()),
        *(
            module
            for index in range(facts.integer("num_blocks"))
            for module in _block(facts, f"{name}.encoders.{index}")
        ),
    )


def _check(facts: Facts) -> None:
    for field, usual in _SHAPED_OTHERWISE.items():
        if facts.value(field) not in (None, usual):
            raise facts.unsupported(field, f"{usual} is.")
    size = facts.integer("attention_dim")
    for field in ("ext_pw_out_channel", "depthwise_seperable_out_channel"):
        if facts.integer(field) != size:
            raise facts.unsupported(field, f"{size} is, as attention_dim.")
    if facts.mapping("relative_attention_bias_args").get("type") != "t5":
        raise facts.unsupported("relative_attention_bias_args", "type t5 is.")
    if not set(facts.mapping("nemo_conv_settings")) <= _NEMO_SETTINGS:
        raise facts.unsupported("nemo_conv_settings", "conv_channels alone is.")


def _subsampling(facts: Facts, name: str) -> tuple[Module, ...]:
    """Return convolutions that halve steps and frequencies, and a linear layer.

    Source: vLLM 0.33.0 `models/phi4mm_utils.py` NemoConvSubsampling.
    """
    settings = facts.mapping("nemo_conv_settings")
    channels = int(settings.get("conv_channels", 256))
    size, bins = facts.integer("attention_dim"), facts.integer("input_size")
    reduction = facts.integer("time_reduction", default=4)
    halvings = reduction.bit_length() - 1
    if reduction != 1 << halvings:
        raise facts.unsupported("time_reduction", "a power of two is.")
    extra = 3 if settings.get("is_causal") else 2  # padding on both sides
    for _halving in range(halvings):
        bins = (bins + extra - 3) // 2 + 1
    each = ((channels, 1, 3, 3), (channels,), (channels, channels, 1, 1), (channels,))
    return (
        blocks.convolution(f"{name}.conv.0", channels, 1, 3, 3, bias=True),
        blocks.replicated(f"{name}.conv", *(each * (halvings - 1))),
        blocks.replicated(f"{name}.out", (size, channels * bins), (size,)),
    )


def _block(facts: Facts, name: str) -> tuple[Module, ...]:
    """Return two halves of an MLP around attention and a convolution."""
    size, mlp_size = facts.integer("attention_dim"), facts.integer("linear_units")
    gated = facts.flag("bias_in_glu", default=True)
    mlp: tuple[tuple[int, ...], ...] = ((2 * mlp_size, size), (size, mlp_size), (size,))
    mlp += ((2 * mlp_size,),) if gated else ()
    kernel = facts.integer("kernel_size", default=3)
    wide = facts.integer("ext_pw_kernel_size", default=1)
    conv: tuple[tuple[int, ...], ...] = (
        (size, size, wide),
        (size,),
        (2 * size, size, wide),
        (2 * size,),
        (size, 1, kernel),
        (size,),
        (size, size, 1),
        (size,),
    )
    conv += ((1, size, 1),) * (2 if gated else 0)
    return (
        blocks.replicated(f"{name}.feed_forward_in", *mlp),
        blocks.replicated(f"{name}.self_attn", *((size, size),) * 4, *((size,),) * 4),
        blocks.replicated(f"{name}.conv", *conv),
        blocks.replicated(f"{name}.feed_forward_out", *mlp),
        blocks.norms(f"{name}.layer_norm", size, count=5, bias=True),
    )
