"""Drafts that guess a whole block of tokens in one pass: DFlash, XPress and DSpark.

A few decoder layers like Qwen3's, which read the hidden states of some of the target's
layers. Word embeddings and head are the target's where the draft has none or the same
shape. The layers hold their key and value projections a second time, all merged in one.

Source: vLLM 0.33.0 `v1/worker/gpu/spec_decode/dflash/utils.py`, `dspark/utils.py`;
`config/speculative.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.errors import Refused, UnknownArchitecture
from planner.models.architecture import ModelArchitecture
from planner.models.drafts.block_facts import (
    PLAIN,
    SECOND,
    SPARK,
    XPRESS,
    BlockHead,
    flattened,
)
from planner.models.drafts.block_modules import FusedContext, assembled
from planner.models.drafts.config import SpeculativeConfig
from planner.models.drafts.methods import check_modelled, runs
from planner.models.drafts.shared import (
    Target,
    names_tensor,
    notes_on_shared,
    raised_positions,
    shares_rope,
)
from planner.models.families.facts import Facts
from planner.models.families.rope import rope_cache
from planner.models.files import ModelFiles
from planner.models.quantization import quantised
from planner.values import frozen

_RUNS_BLOCK_DRAFTS = runs("DFlash and DSpark drafts", "0.31.0")
_RUNS_QUANTISED = Change(
    since=(0, 32),
    what=(
        "vLLM holds FP8 drafts of DFlash and DSpark as in 0.32.0, the oldest release "
        "whose way is modelled."
    ),
)
_RUNS_XPRESS = runs("XPress drafts", "0.33.0")
_RAISES_POSITIONS = Change(
    since=(0, 33),
    what=(
        "The rotary tables of DFlash and DSpark drafts have as many positions as the "
        "target's max_model_len, if the draft has fewer."
    ),
)
_QUANTISED = "fp8"


@frozen
class BlockDraft:
    """A draft of this kind, with its facts that the rest of a plan needs."""

    model: ModelArchitecture
    num_aux_states: int
    """Layers of the target whose hidden states it reads."""
    block_size: int | None
    """Tokens of the block that it was trained for."""
    has_bonus: bool
    """Whether a step's input has one token more than it guesses."""
    vocab_size: int
    """Vocabulary of its head."""
    notes: tuple[str, ...] = ()


def read_block_draft(
    requested: SpeculativeConfig,
    method: str,
    files: ModelFiles,
    target: Target,
    release: Release,
) -> BlockDraft:
    """Return a draft for the methods dflash and dspark.

    Raises:
        Refused: in vLLM's words.
        UnknownArchitecture: for a draft that is not modelled, by name.
    """
    check_modelled(_RUNS_BLOCK_DRAFTS, f"method={method!r}", release)
    config = flattened(files.config)
    architecture = str(next(iter(config.get("architectures") or ("",))))
    known = (*PLAIN, SECOND, *XPRESS) if method == "dflash" else SPARK
    if architecture not in known or str(config.get("model_type")) != "qwen3":
        raise UnknownArchitecture(
            f"speculative_config.model: a draft of architecture {architecture!r} and "
            f"model_type {config.get('model_type')!r} is not modelled for {method}; "
            f"{', '.join(known)} of qwen3 are."
        )
    head = BlockHead(
        facts=Facts(
            {**config, "max_position_embeddings": _positions(config, target, release)},
            "qwen3",
        ),
        is_spark=method == "dspark",
        architecture=architecture,
        files=files,
        target=target,
    )
    _check(head, requested, release)
    model = _quantised(head, requested, release)
    if not shares_rope(head.facts.config, target.files):
        rope = rope_cache(head.facts, head.shape.head_size)
        model = replace(model, every_stage=rope)
    return BlockDraft(
        model=model,
        num_aux_states=len(head.target_layers) if head.reads_layers else 0,
        block_size=head.facts.optional_integer("block_size"),
        has_bonus=not head.is_spark
        or not head.facts.flag("sample_from_anchor", default=True),
        vocab_size=head.draft_vocab_size,
        notes=_notes(head),
    )


def _positions(config: Mapping[str, Any], target: Target, release: Release) -> int:
    """Return the positions of the draft's rotary table."""
    if release.has(_RAISES_POSITIONS):
        return raised_positions(config, target)
    return Facts(config, "qwen3").integer("max_position_embeddings", default=8192)


def _check(head: BlockHead, requested: SpeculativeConfig, release: Release) -> None:
    """Refuse what vLLM refuses of such drafts.

    Raises:
        Refused: in vLLM's words.
        UnknownArchitecture: for XPress scored over all words, or before its release.
    """
    if head.facts.mapping("dflash_config").get("sample_from_anchor"):
        raise Refused(
            "sample_from_anchor=True is not supported for DFlash. DFlash uses a fixed "
            "1+N query layout where the anchor is the bonus token."
        )
    if requested.dspark_draft_topk is not None and not head.is_spark:
        raise Refused("dspark_draft_topk is only supported by DSpark")
    if requested.xpress_topc is not None and not head.is_xpress:
        raise Refused("xpress_topc is only supported by XPress")
    if head.is_xpress:
        _check_xpress(head, requested, release)


def _check_xpress(
    head: BlockHead, requested: SpeculativeConfig, release: Release
) -> None:
    if head.draft_vocab_size != head.target.model.vocab_size:
        raise Refused(
            "XPress currently requires a full-vocab draft (the refiner bias is defined "
            "over the target vocabulary)."
        )
    if not release.has(_RUNS_XPRESS):
        raise UnknownArchitecture(
            "speculative_config.model: XPress is not modelled for vLLM before 0.33.0."
        )
    topc = requested.xpress_topc
    if topc is None:
        topc = head.facts.integer("xpress_topc", default=512)
    if topc == 0:
        raise UnknownArchitecture(
            "speculative_config.xpress_topc=0: buffers for all words of all guesses "
            "are not modelled."
        )


def _quantised(
    head: BlockHead, requested: SpeculativeConfig, release: Release
) -> ModelArchitecture:
    """Return the draft, quantised by its own checkpoint or by the user.

    Raises:
        UnknownArchitecture: for a method whose exceptions are not modelled.
    """
    found = quantised(assembled(head), head.files, requested.quantization)
    if found.quantization is None:
        context = FusedContext(shape=head.shape, num_layers=head.num_layers)
        return replace(found, last_stage=(*found.last_stage, context))
    if found.quantization != _QUANTISED or not release.has(_RUNS_QUANTISED):
        raise UnknownArchitecture(
            f"speculative_config.model: a {found.quantization} draft for "
            f"{'dspark' if head.is_spark else 'dflash'} is not modelled; fp8 is, from "
            "vLLM 0.32.0 on."
        )
    return found


def _notes(head: BlockHead) -> tuple[str, ...]:
    shared = [
        words
        for words, is_own, tensor in (
            ("word embeddings", head.has_embeddings, "embed_tokens"),
            ("head", head.has_head, "lm_head"),
        )
        if not is_own and names_tensor(head.files, tensor) is not False
    ]
    return notes_on_shared(*shared)
