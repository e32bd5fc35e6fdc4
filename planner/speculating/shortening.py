"""Drafts for shorter requests than their target's."""

from __future__ import annotations

from planner.errors import Refused
from planner.lengths import derived_max_model_len
from planner.model import ModelArchitecture
from planner.releases import Release
from planner.speculating.asked import AskedSpeculation


def longest_request(
    asked: AskedSpeculation, draft: ModelArchitecture, length: int, release: Release
) -> int | None:
    """Return the tokens to which a draft limits each request; None: it does not.

    A draft for shorter requests than its target shortens max_model_len, since 0.33.0
    and on the second runner; before, it guesses nothing for longer ones.

    Raises:
        Refused: for a length that draft or target do not allow, in vLLM's words.

    Source: vLLM 0.33.0 `config/vllm.py` _limit_max_model_len_to_draft,
    `config/speculative.py` _maybe_override_draft_max_model_len.
    """
    longest = int(min(derived_max_model_len(draft, release), 1 << 40))
    own = asked.max_model_len
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
    return kept if kept < length and release.since(0, 33) else None


def shortened(longest: int | None, length: int) -> tuple[str, ...]:
    """Return what a reader should know where a draft lowers max_model_len."""
    if longest is None:
        return ()
    return (
        f"The draft serves requests of {longest:,} tokens, to which vLLM lowers "
        f"max_model_len from {length:,}.",
    )
