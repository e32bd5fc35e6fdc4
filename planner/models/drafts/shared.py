"""What drafts of several kinds share with their target, and how they limit it.

Rotary tables and word embeddings that a draft takes from its target, requests no longer
than the draft's, and EAGLE heads after a target in pipeline stages.

Source: vLLM 0.33.0 `layers/rotary_embedding/__init__.py` get_rope, which keeps one
table for each set of parameters; `v1/worker/gpu/spec_decode/eagle/utils.py`
maybe_share_target_embed, `eagle/eagle3_utils.py`
verify_supports_aux_hidden_states_over_pp.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.errors import Refused
from planner.models.architecture import ModelArchitecture
from planner.models.drafts.config import SpeculativeConfig
from planner.models.families.facts import Facts
from planner.models.files import ModelFiles
from planner.models.layers import Part, Replicated
from planner.models.lengths import derived_max_model_len
from planner.values import frozen

_CACHE_ONLY = ("default", "linear", "llama3", "ntk", "proportional")

_CHECKS_STAGES = Change(
    since=(0, 30),
    what=(
        "An EAGLE head on a later pipeline stage than the target's word embeddings "
        "needs word embeddings of its own."
    ),
)
_LIMITS_REQUESTS = Change(
    since=(0, 33),
    what=(
        "A draft for shorter requests than its target lowers max_model_len on the "
        "second model runner. Before, it guessed nothing for longer requests."
    ),
    source="vLLM 0.33.0 `config/vllm.py` _limit_max_model_len_to_draft",
)
_HEAD_CLASSES = {"eagle": "EagleLlamaForCausalLM", "eagle3": "Eagle3LlamaForCausalLM"}
_PASSING_STATES_ON = (
    "Llama",
    "Mistral",
    "Qwen2",
    "Qwen3ForCausalLM",
    "MiMoForCausalLM",
)


@frozen
class Target:
    """The model that a draft guesses for."""

    model: ModelArchitecture
    files: ModelFiles
    max_model_len: int


def only_sizes_rope(config: Mapping[str, Any]) -> bool:
    """Whether more positions leave the rotary frequencies as they are.

    Source: vLLM 0.33.0 `config/speculative.py` _rope_only_sizes_cache.
    """
    inner = config.get("transformer_layer_config")
    config = inner if isinstance(inner, Mapping) else config
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    kind = rope.get("rope_type") or rope.get("type") or "default"
    return kind in _CACHE_ONLY


def raised_positions(config: Mapping[str, Any], target: Target) -> int:
    """Return the positions of the draft's rotary table, raised to the target's length.

    Source: vLLM 0.27.0 `config/speculative.py`
    _maybe_override_draft_max_position_embeddings.
    """
    own = Facts(config, "llama").integer("max_position_embeddings", default=8192)
    return max(own, target.max_model_len) if only_sizes_rope(config) else own


def notes_on_shared(*shared: str) -> tuple[str, ...]:
    """Return what was assumed of a draft's modules that may be the target's."""
    if not shared:
        return ()
    return (
        f"The draft's {' and '.join(shared)} are taken for the target's own, as vLLM "
        "shares them unless the draft's checkpoint has others.",
    )


def target_ids(words: int) -> Replicated:
    """Return the target's number of each of a draft's words."""
    return Replicated("draft_id_to_target_id", Part.LM_HEAD, ((words,),), dtype="int64")


def names_tensor(files: ModelFiles, part: str) -> bool | None:
    """Whether a checkpoint has tensors of such a name; None: not known."""
    if not files.tensor_shapes:
        return None
    return any(part in name for name in files.tensor_shapes)


def shares_rope(draft: Mapping[str, Any], target: ModelFiles) -> bool:
    """Return whether draft and target use the same rotary table."""
    outer = target.config
    text = outer.get("text_config")
    return _rope_key(draft) == _rope_key(text if isinstance(text, Mapping) else outer)


def _rope_key(config: Mapping[str, Any]) -> tuple[object, ...]:
    merged = {
        **(config.get("rope_scaling") or {}),
        **(config.get("rope_parameters") or {}),
    }
    merged.setdefault("rope_theta", config.get("rope_theta", 10000.0))
    merged["rope_type"] = merged.pop("type", None) or merged.get("rope_type", "default")
    heads = config.get("num_attention_heads") or 1
    head_size = config.get("head_dim") or (config.get("hidden_size") or 0) // heads
    return (
        head_size,
        config.get("max_position_embeddings"),
        config.get("partial_rotary_factor"),
        tuple(sorted((k, str(v)) for k, v in merged.items() if v is not None)),
    )


def longest_request(
    requested: SpeculativeConfig,
    draft: ModelArchitecture,
    length: int,
    release: Release,
) -> int | None:
    """Return the tokens to which a draft limits each request; None: it does not.

    Raises:
        Refused: for a length that draft or target do not allow, in vLLM's words.

    Source: vLLM 0.33.0 `config/speculative.py` _maybe_override_draft_max_model_len.
    """
    longest = int(min(derived_max_model_len(draft, release), 1 << 40))
    own = requested.max_model_len
    if own is not None and own > longest:
        raise Refused(
            f"speculative_max_model_len={own} cannot be larger than "
            f"draft_max_model_len={longest}"
        )
    if own is not None and own > length:
        raise Refused(
            f"speculative_max_model_len={own} cannot be larger than "
            f"target_max_model_len={length}"
        )
    kept = min(longest, own or longest)
    return kept if kept < length and release.has(_LIMITS_REQUESTS) else None


def shortened(longest: int | None, length: int) -> tuple[str, ...]:
    """Return what a reader should know where a draft lowers max_model_len."""
    if longest is None:
        return ()
    return (
        f"The draft serves requests of {longest:,} tokens, to which vLLM lowers "
        f"max_model_len from {length:,}.",
    )


def stage_notes(
    method: str, files: ModelFiles, target: Target, layout: ParallelLayout
) -> tuple[str, ...]:
    """Return what a reader should know of a head on a later stage than the embeddings.

    Raises:
        Refused: where the head's checkpoint has no word embeddings, in vLLM's words.
    """
    if layout.pipeline_parallel_size == 1 or not layout.release.has(_CHECKS_STAGES):
        return ()
    has_words = names_tensor(files, "embed_tokens")
    if has_words is False:
        raise Refused(
            f"{_HEAD_CLASSES[method]} needs the target input embedding, but it is "
            "unavailable on this PP stage"
        )
    notes: tuple[str, ...] = ()
    if has_words is None:
        notes = (
            "With pipeline stages vLLM starts this draft only if its checkpoint has "
            "its own word embeddings, which is assumed.",
        )
    if method == "eagle3" and not target.model.architecture.startswith(
        _PASSING_STATES_ON
    ):
        notes = (
            *notes,
            "With pipeline stages few targets pass on what an EAGLE-3 draft reads; "
            f"whether {target.model.architecture} does is not known.",
        )
    return notes
