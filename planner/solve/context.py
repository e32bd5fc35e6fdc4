"""The longest context that serves so many requests at once."""

from __future__ import annotations

from typing import Any

from planner.errors import PlannerError
from planner.gpu import GPU
from planner.solve.asking import Start, asked, no_load, whole
from planner.solve.found import Found, longest
from planner.solve.nearest import nearest_of_any_length
from planner.solve.solution import Solution
from planner.solve.words import counted, fails, holds, where

_QUESTION = "context"


def longest_context(
    model: Start,
    gpu: str | GPU | None = None,
    *,
    requests: int | None = None,
    output_tokens: int = 0,
    **arguments: Any,  # noqa: ANN401 - vLLM's own argument names and types
) -> Solution:
    """Find the largest `max_model_len` with which so many requests are served at once.

    `max_num_seqs` follows `requests` unless it is given.

    >>> longest_context("Qwen/Qwen3-8B", "L4", requests=2, output_tokens=1000).unit
    'tokens'

    Args:
        model: as `planner.plan` takes it, or a plan whose arguments count; its
            `max_model_len` does not.
        gpu: as `planner.plan` takes it; None: the plan's, else H100.
        requests: at once, each at its full length; None: one, as vLLM itself asks
            when it starts, and `max_num_seqs` stays as it is.
        output_tokens: of each request; the rest of its length is prompt.
        arguments: engine arguments, vllm_version, entrypoint and env.

    Raises:
        PlannerError: for input that cannot be planned; a load that nothing serves is
            an answer.
    """
    no_load(
        gpu,
        "the length is what is asked for. Give requests=, and output_tokens= if you "
        "like.",
    )
    if arguments.get("prompt_tokens") is not None:
        raise PlannerError(
            "prompt_tokens= is what the longest context is about: leave it out, or ask "
            "planner.solve.most_requests for requests of a given length."
        )
    inputs, _ = asked(model, gpu, None, arguments)
    at_once = 1 if requests is None else whole("requests", requests)
    output = whole("output_tokens", output_tokens, least=0)
    follows = requests is not None
    found = longest(inputs, at_once, follows=follows, output_tokens=output)
    plan = found.at(found.least).plan
    sentence = (
        f"longest context of {where(plan)} for {counted(at_once, 'requests')} at once"
    )
    if not found.is_found:
        short = found.at(found.least)
        other = nearest_of_any_length(inputs, short.load, follows=follows)
        return Solution(
            question=_QUESTION,
            asked=sentence,
            value=None,
            unit="tokens",
            plan=None,
            next_plan=short.plan,
            why=f"No length serves {counted(at_once, 'requests')}: {fails(short)}. "
            f"{other.sentence}",
            nearest=other.loads,
        )
    return _solution(found, sentence)


def _solution(found: Found, sentence: str) -> Solution:
    at_edge, beyond = found.at(found.value), found.beyond
    why = f"At max_model_len={found.value:,}: {holds(at_edge)}. "
    if beyond is None:
        why += "The model has no limit of its own, and the search ends here."
    else:
        why += f"At {found.value + 1:,}: {fails(beyond)}."
    if at_edge.load.output_tokens:
        why += (
            f" {at_edge.load.prompt_tokens:,} tokens of prompt + "
            f"{at_edge.load.output_tokens:,} of output."
        )
    return Solution(
        question=_QUESTION,
        asked=sentence,
        value=found.value,
        unit="tokens",
        plan=at_edge.plan,
        next_plan=None if beyond is None else beyond.plan,
        why=why,
        load=at_edge.load,
    )
