"""Speculative decoding: fewer tokens guessed, or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.advice.candidate import Burden, Candidate
from planner.advice.makers.ladders import halves
from planner.advice.situation import Situation
from planner.engine import EngineSettings
from planner.model import Speculation

_NONE = {
    "speculative_config": None,
    "spec_method": None,
    "spec_model": None,
    "spec_tokens": None,
}


def fewer_guesses(situation: Situation) -> Iterator[Candidate]:
    """Guess fewer tokens in each step: fewer states, logits and graphs."""
    found = _speculation(situation)
    if found is None:
        return
    for tokens in halves(found.num_speculative_tokens, 1):
        yield Candidate(
            kind="num_speculative_tokens",
            title=f"Guess {tokens} token{'s' * (tokens > 1)} ahead instead of "
            f"{found.num_speculative_tokens}",
            changes=_with_tokens(situation.plan.settings, tokens),
            cost="Easy passages gain less speed.",
            burden=Burden.SPEED,
        )


def without(situation: Situation) -> Iterator[Candidate]:
    """Guess nothing ahead: neither draft nor its KV cache."""
    found = _speculation(situation)
    if found is None:
        return
    given = situation.plan.settings
    what = "without the draft" if found.draft is not None else "without guessing ahead"
    yield Candidate(
        kind="speculative_config",
        title=f"Serve {what}",
        changes={name: None for name in _NONE if getattr(given, name) is not None},
        cost="Each step gives one token a request; the answers stay the same.",
        burden=Burden.SPEED,
    )


def _speculation(situation: Situation) -> Speculation | None:
    model = situation.model
    return None if model is None else model.speculation


def _with_tokens(given: EngineSettings, tokens: int) -> dict[str, Any]:
    if given.spec_tokens is not None:
        return {"spec_tokens": tokens}
    config: Any = given.speculative_config
    if not isinstance(config, Mapping):
        return {"spec_tokens": tokens}
    kept = {k: v for k, v in config.items() if k.replace("-", "_") != _TOKENS}
    return {"speculative_config": {**kept, _TOKENS: tokens}}


_TOKENS = "num_speculative_tokens"
