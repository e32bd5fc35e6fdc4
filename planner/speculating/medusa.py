"""Medusa's heads: each guesses one token further ahead, from the target's last states.

They keep no cache. vLLM dropped them with 0.33.0.

Source: vLLM 0.32.0 `models/medusa.py`, `transformers_utils/configs/medusa.py`,
`config/speculative.py` SpeculativeConfig.__post_init__.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.architectures.assembly import Body, Label, Skeleton, assemble
from planner.architectures.decoder import lm_head
from planner.architectures.facts import Facts
from planner.errors import UnknownArchitecture
from planner.layers import Module, Part, Replicated
from planner.model import ModelArchitecture
from planner.model_files import ModelFiles
from planner.releases import Release
from planner.speculating.shared import Target

_FIRST_MODELLED = (0, 18, 0)
_ALIGNS_WORDS = (0, 25, 0)
_DEFAULTS = {
    "hidden_size": 4096,
    "vocab_size": 32001,
    "num_heads": 5,
    "num_hidden_layers": 1,
}
_NO_ATTENTION = {"num_attention_heads": 0, "num_key_value_heads": 0, "head_dim": 1}


def read_medusa(
    files: ModelFiles, target: Target, release: Release, *, is_named: bool
) -> ModelArchitecture:
    """Return the heads; `is_named` says whether the user asked for the method.

    Raises:
        UnknownArchitecture: before 0.18.0, or for another width or vocabulary than
            the target's.
    """
    if not release.since(*_FIRST_MODELLED):
        raise UnknownArchitecture(
            "speculative_config with method='medusa' is not modelled for vLLM before "
            "0.18.0."
        )
    config = {**_named(files.config), **_NO_ATTENTION}
    facts = Facts(config, "medusa", _DEFAULTS)
    size, model = facts.integer("hidden_size"), target.model
    words = facts.integer("vocab_size")
    kept = facts.optional_integer("truncated_vocab_size") or words
    if words != model.vocab_size and is_named and release.since(*_ALIGNS_WORDS):
        words = kept = model.vocab_size
    if size != model.hidden_size or words != model.vocab_size:
        raise UnknownArchitecture(
            f"speculative_config.model: Medusa of {size} values and {words:,} words "
            f"beside a target of {model.hidden_size} and {model.vocab_size:,} "
            "(hidden_size, vocab_size) is not modelled."
        )
    base = assemble(
        facts,
        Label(name=files.name, architecture="MedusaModel"),
        Skeleton(hidden_size=size, vocab_size=words, final_norm=()),
        Body(kinds=(), layers=()),
    )
    return replace(
        base, first_stage=(), last_stage=_heads(facts, words, kept), tied_embeddings=()
    )


def _named(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config with vLLM's own names of its two numbers."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        if "num" in name and "heads" in name:
            found["num_heads"] = value
        elif "num" in name and "layers" in name:
            found["num_hidden_layers"] = value
        else:
            found[name] = value
    return found


def _heads(facts: Facts, words: int, kept: int) -> tuple[Module, ...]:
    size, heads = facts.integer("hidden_size"), facts.integer("num_heads")
    shape: tuple[tuple[int, ...], ...] = ((size, size),)
    if facts.flag("medusa_fc_bias"):
        shape = (*shape, (size,))
    blocks = Replicated(
        name="blocks",
        part=Part.MLP,
        shapes=shape * (heads * facts.integer("num_hidden_layers")),
    )
    if facts.flag("original_lm_head"):
        return blocks, replace(lm_head(kept, size), is_quantizable=False)
    head = replace(lm_head(words, size), is_quantizable=False)
    return blocks, *(replace(head, name=f"lm_heads.{i}") for i in range(heads))
