"""What vLLM's classes call their layers, where their names are not Llama's.

Readers use Llama's names. Quantised checkpoints name exceptions by vLLM's names or
their own, and by the layers of the checkpoint that vLLM packs into one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planner.models.architecture import ModelArchitecture
from planner.models.layers import Module
from planner.values import frozen

_QKV = ("q_proj", "k_proj", "v_proj")


@frozen
class Naming:
    """The names of one class."""

    layers: str = "model.layers"
    """The list of decoder layers."""
    qkv: tuple[str, tuple[str, ...]] = ("self_attn.qkv_proj", _QKV)
    """A name, and the checkpoint's layers that are packed in it."""
    output: str = "self_attn.o_proj"
    gate_up: tuple[str, tuple[str, ...]] = (
        "mlp.gate_up_proj",
        ("gate_proj", "up_proj"),
    )
    up: str = "mlp.up_proj"
    down: str = "mlp.down_proj"
    prefix_renames: tuple[tuple[str, str], ...] = ()
    """Beginnings of names in the checkpoint and in vLLM."""

    def apply(self, model: ModelArchitecture) -> ModelArchitecture:
        """Return the model with these names of its layers."""
        kinds = tuple(
            replace(kind, modules=tuple(map(self._named, kind.modules)))
            for kind in model.layer_kinds
        )
        return replace(
            model,
            layer_kinds=kinds,
            layer_prefix=self.layers,
            prefix_renames=self.prefix_renames,
        )

    def _named(self, module: Module) -> Module:
        found = {
            "self_attn.qkv_proj": self.qkv,
            "self_attn.o_proj": (self.output, ()),
            "mlp.gate_up_proj": self.gate_up,
            "mlp.up_proj": (self.up, ()),
            "mlp.down_proj": (self.down, ()),
        }.get(module.name)
        if found is None or not hasattr(module, "shards"):
            return module
        linear: Any = module
        renamed: Module = replace(linear, name=found[0], shards=found[1])
        return renamed


_BERT = Naming(
    layers="model.encoder.layer",
    qkv=("attention.self.qkv_proj", ("query", "key", "value")),
    output="attention.output.dense",
    up="intermediate.dense",
    down="output.dense",
    prefix_renames=(
        ("bert.", "model."),
        ("roberta.", "model."),
        ("encoder.", "model.encoder."),
        ("embeddings.", "model.embeddings."),
    ),
)
_BERT_CLASSIFIER = replace(_BERT, layers="roberta.encoder.layer", prefix_renames=())
_BLOOM = Naming(
    layers="transformer.h",
    qkv=("self_attention.query_key_value", ()),
    output="self_attention.dense",
    up="mlp.dense_h_to_4h",
    down="mlp.dense_4h_to_h",
)

NAMINGS: dict[str, Naming] = {
    "BertModel": _BERT,
    "RobertaModel": _BERT,
    "XLMRobertaModel": _BERT,
    "RobertaForMaskedLM": _BERT,
    "RobertaForSequenceClassification": _BERT_CLASSIFIER,
    "XLMRobertaForSequenceClassification": _BERT_CLASSIFIER,
    "BloomForCausalLM": _BLOOM,
    "FalconForCausalLM": _BLOOM,
    "ChatGLMModel": replace(
        _BLOOM,
        layers="transformer.encoder.layers",
        gate_up=("mlp.dense_h_to_4h", ()),
    ),
    "ExaoneForCausalLM": Naming(
        layers="model.h",
        qkv=("attn.attention.qkv_proj", _QKV),
        output="attn.attention.out_proj",
        gate_up=("mlp.gate_up_proj", ("c_fc_0", "c_fc_1")),
        down="mlp.c_proj",
    ),
    "GPT2LMHeadModel": Naming(
        layers="transformer.h",
        qkv=("attn.c_attn", ()),
        output="attn.c_proj",
        up="mlp.c_fc",
        down="mlp.c_proj",
    ),
    "GPTBigCodeForCausalLM": Naming(
        layers="model.h",
        qkv=("attn.c_attn", ()),
        output="attn.c_proj",
        up="mlp.c_fc",
        down="mlp.c_proj",
        prefix_renames=(("transformer.", "model."),),
    ),
    "GPTJForCausalLM": Naming(
        layers="transformer.h",
        qkv=("attn.qkv_proj", ()),
        output="attn.out_proj",
        up="mlp.fc_in",
        down="mlp.fc_out",
    ),
    "GPTNeoXForCausalLM": Naming(
        qkv=("attention.query_key_value", ()),
        output="attention.dense",
        up="mlp.dense_h_to_4h",
        down="mlp.dense_4h_to_h",
        prefix_renames=(("gpt_neox.", "model."),),
    ),
    "InternLM2ForCausalLM": Naming(
        qkv=("attention.wqkv", ()),
        output="attention.wo",
        gate_up=("feed_forward.gate_up_proj", ("w1", "w3")),
        down="feed_forward.w2",
    ),
    "OPTForCausalLM": Naming(
        layers="model.decoder.layers",
        output="self_attn.out_proj",
        up="fc1",
        down="fc2",
        prefix_renames=(("decoder.", "model.decoder."),),
    ),
    "Phi3ForCausalLM": Naming(
        qkv=("self_attn.qkv_proj", ()), gate_up=("mlp.gate_up_proj", ())
    ),
    "PhiForCausalLM": Naming(output="self_attn.dense", up="mlp.fc1", down="mlp.fc2"),
    "Starcoder2ForCausalLM": Naming(up="mlp.c_fc", down="mlp.c_proj"),
    "GlmForCausalLM": Naming(gate_up=("mlp.gate_up_proj", ())),
}
NAMINGS["ChatGLMForConditionalGeneration"] = NAMINGS["ChatGLMModel"]
NAMINGS["GLM4VForCausalLM"] = NAMINGS["ChatGLMModel"]


def with_names(model: ModelArchitecture) -> ModelArchitecture:
    """Return the model with its layers named as vLLM's class names them."""
    naming = NAMINGS.get(model.architecture)
    return model if naming is None else naming.apply(model)
