"""Drafts that guess a whole block of tokens in one pass: DFlash, XPress and DSpark.

A few decoder layers like Qwen3's, which look at what some of the target's layers saw.
Word embeddings and head are the target's own where they have its shape. Beside their
projections the layers hold those of keys and values once more, all in one.

Source: vLLM 0.33.0 `v1/worker/gpu/spec_decode/dflash/utils.py`, `dspark/utils.py`;
`config/speculative.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from planner.architectures.facts import Facts
from planner.architectures.rope import rope_cache
from planner.errors import Refused, UnknownArchitecture
from planner.layers import Module
from planner.model import ModelArchitecture
from planner.model_files import ModelFiles
from planner.quantization import quantised
from planner.releases import Release
from planner.speculating.asked import AskedSpeculation
from planner.speculating.block_facts import (
    PLAIN,
    SECOND,
    SPARK,
    XPRESS,
    BlockHead,
    flattened,
)
from planner.speculating.block_modules import FusedContext, assembled
from planner.speculating.rope_of import shares_rope
from planner.speculating.shared import (
    Target,
    names_tensor,
    raised_positions,
)

_FIRST_MODELLED = (0, 31, 0)
_FIRST_QUANTISED = (0, 32, 0)
_QUANTISED = "fp8"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockDraft:
    """A draft of this kind with what the rest of a plan needs to know of it."""

    model: ModelArchitecture
    num_aux_states: int
    """Layers of the target whose hidden states it reads."""
    block_size: int | None
    """Tokens of the block that it was trained for."""
    has_bonus: bool
    """Whether a step gives it one token more than it guesses."""
    vocab_size: int
    """Words that its head tells apart."""
    notes: tuple[str, ...] = ()


def read_block_draft(
    asked: AskedSpeculation,
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
    if not release.since(*_FIRST_MODELLED):
        raise UnknownArchitecture(
            f"speculative_config with method={method!r} is not modelled for vLLM "
            "before 0.31.0."
        )
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
    _check(head, asked, release)
    model = _quantised(head, asked, release)
    if not shares_rope(head.facts.config, target.files):
        model = replace(model, every_stage=_rope(head))
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
    """Return the positions of the rotary table, which 0.33.0 raises to the target's."""
    if release.since(0, 33):
        return raised_positions(config, target)
    return Facts(config, "qwen3").integer("max_position_embeddings", default=8192)


def _check(head: BlockHead, asked: AskedSpeculation, release: Release) -> None:
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
    if asked.dspark_draft_topk is not None and not head.is_spark:
        raise Refused("dspark_draft_topk is only supported by DSpark")
    if asked.xpress_topc is not None and not head.is_xpress:
        raise Refused("xpress_topc is only supported by XPress")
    if head.is_xpress:
        _check_xpress(head, asked, release)


def _check_xpress(head: BlockHead, asked: AskedSpeculation, release: Release) -> None:
    if head.draft_vocab_size != head.target.model.vocab_size:
        raise Refused(
            "XPress currently requires a full-vocab draft (the refiner bias is defined "
            "over the target vocabulary)."
        )
    if not release.since(0, 33):
        raise UnknownArchitecture(
            "speculative_config.model: XPress is not modelled for vLLM before 0.33.0."
        )
    topc = asked.xpress_topc
    if topc is None:
        topc = head.facts.integer("xpress_topc", default=512)
    if topc == 0:
        raise UnknownArchitecture(
            "speculative_config.xpress_topc=0: buffers for all words of all guesses "
            "are not modelled."
        )


def _quantised(
    head: BlockHead, asked: AskedSpeculation, release: Release
) -> ModelArchitecture:
    """Return the draft as its own checkpoint, or the user for it, has it quantised.

    Raises:
        UnknownArchitecture: for a method whose exceptions are not followed.
    """
    found = quantised(assembled(head), head.files, asked.quantization)
    if found.quantization is None:
        context = FusedContext(shape=head.shape, num_layers=head.num_layers)
        return replace(found, last_stage=(*found.last_stage, context))
    if found.quantization != _QUANTISED or not release.since(*_FIRST_QUANTISED):
        raise UnknownArchitecture(
            f"speculative_config.model: a {found.quantization} draft for "
            f"{'dspark' if head.is_spark else 'dflash'} is not modelled; fp8 is, from "
            "vLLM 0.32.0 on."
        )
    return found


def _rope(head: BlockHead) -> tuple[Module, ...]:
    return rope_cache(
        head.facts,
        head_size=head.shape.head_size,
        max_position=head.facts.integer("max_position_embeddings"),
    )


def _notes(head: BlockHead) -> tuple[str, ...]:
    shared = [
        words
        for words, is_own, tensor in (
            ("word embeddings", head.has_embeddings, "embed_tokens"),
            ("head", head.has_head, "lm_head"),
        )
        if not is_own and names_tensor(head.files, tensor) is not False
    ]
    if not shared:
        return ()
    return (
        f"The draft's {' and '.join(shared)} are taken for the target's own, as vLLM "
        "shares them unless the draft's checkpoint has others.",
    )
