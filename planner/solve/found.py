"""Edges of loads on one start: the longest requests, and the most of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from planner.inputs import Inputs
from planner.lengths import derived_max_model_len
from planner.load import Load
from planner.releases import resolve_version
from planner.serving import NULL_BLOCKS, Serving, serve
from planner.solve.searching import largest

MOST_TOKENS = 1 << 30
"""Where the search ends for models without a limit of their own."""
MOST_REQUESTS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The edge between numbers that serve and numbers that do not."""

    value: int
    """The last that serves; one less than the least where none does."""
    least: int
    most: int
    at: Callable[[int], Serving]
    """Plans a number, each once."""

    @property
    def is_found(self) -> bool:
        """Whether any number serves."""
        return self.value >= self.least

    @property
    def beyond(self) -> Serving | None:
        """The start at the next number; None where the search ends."""
        return None if self.value == self.most else self.at(self.value + 1)


def longest(
    inputs: Inputs, requests: int, *, follows: bool = True, output_tokens: int = 0
) -> Found:
    """Find the longest requests of which so many are served at once.

    Args:
        inputs: the start; its `max_model_len` does not count.
        requests: at once.
        follows: whether `max_num_seqs` follows them.
        output_tokens: of each request, beside at least one token of prompt.
    """
    open_length = inputs.changed(max_model_len=None)

    @cache
    def at(tokens: int) -> Serving:
        load = with_length(output_tokens, tokens, requests)
        return serve(open_length, load, follows=follows)

    least = output_tokens + 1
    limit = _limit(open_length)
    most = MOST_TOKENS
    if limit < MOST_TOKENS:
        error = at(max(limit + 1, least)).plan.error
        if error is not None and error.kind == "refused":
            most = max(limit + 1, least)
    value = largest(
        lambda tokens: at(tokens).is_served,
        least,
        most,
        _guessed_length(at(max(min(limit, most), least))),
    )
    return Found(value=value, least=least, most=most, at=at)


def with_length(output_tokens: int, tokens: int, requests: int) -> Load:
    """Return requests of so many tokens, of which the last are output."""
    output = min(output_tokens, tokens - 1)
    return Load(prompt_tokens=tokens - output, output_tokens=output, requests=requests)


def _limit(inputs: Inputs) -> int:
    """Return the length that the model was made for."""
    plan = inputs.plan()
    if plan.model is None:
        return MOST_TOKENS
    release, _ = resolve_version(plan.vllm_version)
    return int(min(derived_max_model_len(plan.model, release), MOST_TOKENS))


def _guessed_length(serving: Serving) -> int:
    """Return about how long requests may be, from the plan of very long ones."""
    longest_one = serving.plan.max_model_len_that_fits or 1
    if serving.share == 1 or not serving.blocks_per_request:
        return longest_one
    blocks = (serving.num_blocks - NULL_BLOCKS) // serving.share
    return max(1, serving.load.request_tokens * blocks // serving.blocks_per_request)


def most_at_once(inputs: Inputs, load: Load) -> Found:
    """Find how many requests of the load's length are served at once."""

    @cache
    def at(requests: int) -> Serving:
        return serve(inputs, replace(load, requests=requests))

    given = inputs.engine_args.get("max_num_seqs")
    copies = inputs.engine_args.get("data_parallel_size") or 1
    most = given * copies + 1 if given else MOST_REQUESTS
    first = at(1).requests_held
    guess = first if first is None else at(min(max(first, 1), most)).requests_held
    value = largest(lambda number: at(number).is_served, 1, most, guess or 1)
    return Found(value=value, least=1, most=most, at=at)
