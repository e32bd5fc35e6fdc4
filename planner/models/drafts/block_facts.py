"""The config of a draft that guesses whole blocks, as vLLM reads it.

Source: vLLM 0.33.0 `models/qwen3_dflash.py`, `qwen3_dspark.py`;
`v1/worker/gpu/spec_decode/eagle/eagle3_utils.py` get_eagle3_aux_layers_from_config;
`transformers_utils/configs/speculators/algos.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import Refused
from planner.models.drafts.shared import Target
from planner.models.families.decoder import AttentionShape
from planner.models.families.facts import Facts
from planner.models.files import ModelFiles
from planner.values import frozen

PLAIN = ("DFlashDraftModel", "DFlashQwen3ForCausalLM")
SECOND = "DFlash2DraftModel"
XPRESS = ("Qwen3XPressModel", "DFlashQwen3XPressModel")
SPARK = ("Qwen3DSparkModel", "DSparkDraftModel")
_SLIDING = "sliding_attention"
_ROPE_THETA = 1_000_000.0

_SPARK_FIELDS = (
    *("markov_rank", "markov_head_type", "block_size", "enable_confidence_head"),
    *("confidence_head_with_markov", "use_aux_hidden_state"),
)
_SECOND_FIELDS = (
    *("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k"),
)


@frozen
class BlockHead:
    """A draft's config beside its target."""

    facts: Facts
    is_spark: bool
    architecture: str
    files: ModelFiles
    target: Target

    @property
    def is_second(self) -> bool:
        """Whether it is of DFlash's second version."""
        return self.architecture == SECOND

    @property
    def is_xpress(self) -> bool:
        """Whether it refines its guesses before they are checked."""
        return self.architecture in XPRESS

    @property
    def is_of_speculators(self) -> bool:
        """Whether the speculators library wrote the checkpoint."""
        return "speculators_model_type" in self.files.config

    @property
    def own(self) -> Mapping[str, Any]:
        """The draft's own fields, beyond those of a language model."""
        return {
            **self.facts.mapping("eagle_config"),
            **self.facts.mapping("dflash_config"),
        }

    @property
    def shape(self) -> AttentionShape:
        """Of the attention of each layer."""
        facts = self.facts
        bias = facts.flag("attention_bias")
        heads = facts.integer("num_attention_heads")
        size = facts.optional_integer("head_dim") or self.hidden_size // heads
        return AttentionShape(
            hidden_size=self.hidden_size,
            num_heads=heads,
            num_kv_heads=facts.integer("num_key_value_heads", default=heads),
            head_size=size,
            qkv_bias=bias,
            output_bias=bias,
            qk_norm_sizes=(size, size),
        )

    @property
    def hidden_size(self) -> int:
        """Of the draft's own states."""
        return self.facts.integer("hidden_size")

    @property
    def num_layers(self) -> int:
        """Decoder layers of the draft."""
        return self.facts.integer("num_hidden_layers")

    @property
    def vocab_size(self) -> int:
        """Vocabulary of its embeddings."""
        return self.facts.integer("vocab_size")

    @property
    def draft_vocab_size(self) -> int:
        """Vocabulary of its head."""
        return self.facts.optional_integer("draft_vocab_size") or self.vocab_size

    @property
    def reads_layers(self) -> bool:
        """Whether it reads hidden states of the target's layers."""
        is_set = self.own.get("use_aux_hidden_state")
        if is_set is None:
            return self.facts.flag("use_aux_hidden_state", default=True)
        return bool(is_set)

    @property
    def target_layers(self) -> tuple[int, ...]:
        """The target's layers that are read, by the first field that vLLM finds."""
        facts = self.facts
        for found in (
            facts.value("eagle_aux_hidden_state_layer_ids"),
            facts.mapping("dflash_config").get("target_layer_ids"),
            facts.value("dspark_target_layer_ids"),
            facts.value("target_layer_ids"),
            facts.mapping("dflash_config").get("layer_ids"),
            facts.mapping("eagle_config").get("layer_ids"),
        ):
            if found:
                return tuple(found)
        return tuple(range(self.num_layers))

    @property
    def has_embeddings(self) -> bool:
        """Whether the draft's word embeddings cannot be the target's."""
        target = self.target.model
        return (
            self.hidden_size != target.hidden_size
            or self.vocab_size != target.vocab_size
        )

    @property
    def has_head(self) -> bool:
        """Whether the draft's head cannot be the target's."""
        target = self.target.model
        return (
            self.draft_vocab_size != target.vocab_size
            or self.hidden_size != target.hidden_size
            or self.facts.flag("has_own_lm_head")
        )

    @property
    def has_sinks(self) -> bool:
        """Whether its heads have a learned sink each."""
        is_set = self.facts.mapping("dflash_config").get("attention_sink_bias")
        if is_set is None:
            return self.facts.flag("add_swa_attention_sink_bias")
        return bool(is_set)


def windows(head: BlockHead) -> tuple[int | None, ...]:
    """Return the window of each layer, None for full attention.

    Raises:
        Refused: for windowed layers without a size, in vLLM's words.

    Source: vLLM 0.33.0 `models/qwen3_dflash.py` _resolve_layer_attention.
    """
    types = _layer_types(head)
    is_windowed = bool(head.facts.mapping("dflash_config").get("use_swa"))
    if is_windowed and _SLIDING not in types:
        types = (_SLIDING,) * head.num_layers
    if _SLIDING not in types:
        return (None,) * head.num_layers
    size = head.facts.mapping("dflash_config").get("swa_window_size", _window(head))
    if size is None:
        raise Refused(
            "DFlash sliding attention requires a window size configured in "
            "dflash_config.swa_window_size or the top-level sliding_window."
        )
    return tuple(int(size) if kind == _SLIDING else None for kind in types)


def _layer_types(head: BlockHead) -> tuple[str, ...]:
    """Return each layer's kind as Qwen3's config class fills it in."""
    given = head.facts.value("layer_types")
    if given:
        return tuple(given)
    first = head.facts.integer("max_window_layers", default=28)
    has_window = _window(head) is not None and not head.is_of_speculators
    return tuple(
        _SLIDING if has_window and layer >= first else "full_attention"
        for layer in range(head.num_layers)
    )


def _window(head: BlockHead) -> int | None:
    """Return sliding_window, which Qwen3's config class drops where it is not used."""
    if head.is_of_speculators or head.facts.flag("use_sliding_window"):
        return head.facts.optional_integer("sliding_window")
    return None


def flattened(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config as vLLM's class of the speculators library flattens it."""
    layer = config.get("transformer_layer_config")
    kind = config.get("speculators_model_type")
    if kind is None or not isinstance(layer, Mapping):
        return {"rope_theta": _ROPE_THETA, **config}
    read = config.get("aux_hidden_state_layer_ids") or ()
    own: dict[str, Any] = {
        "head_dim": layer.get("head_dim")
        or int(layer["hidden_size"]) // int(layer["num_attention_heads"]),
        "layer_types": layer.get("layer_types"),
        "eagle_aux_hidden_state_layer_ids": list(read),
        **{
            name: config[name]
            for name in (*_SPARK_FIELDS, "draft_vocab_size", "target_hidden_size")
            if config.get(name) is not None
        },
    }
    if kind == "dspark":
        own["architectures"] = ["Qwen3DSparkModel"]
        own["sample_from_anchor"] = bool(config.get("sample_from_anchor"))
    else:
        own["architectures"] = [SECOND if kind == "dflash2" else PLAIN[0]]
        own["dflash_config"] = {
            "causal": not config.get("sliding_window_non_causal", True),
            **{name: config[name] for name in _SECOND_FIELDS if name in config},
        }
    return {"rope_theta": _ROPE_THETA, "model_type": "qwen3", **layer, **own}
