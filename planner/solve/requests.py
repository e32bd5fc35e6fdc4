"""Solvers for the load of a GPU: the most requests at once, and the longest context."""

from __future__ import annotations

from typing import Any

from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.given import named_in_errors
from planner.planning.load import Load
from planner.planning.words import fails, holds, where
from planner.solve.arguments import (
    Start,
    read_start,
    refuse_load,
    require_load,
    whole_number,
)
from planner.solve.nearest import nearest, nearest_of_any_length
from planner.solve.search import Boundary, longest, most_at_once
from planner.solve.solution import Solution
from planner.units import counted

_REQUESTS = "requests"
_CONTEXT = "context"


@named_in_errors
def most_requests(
    model: Start,
    gpu: str | GPU | Load | None = None,
    *,
    load: Load | None = None,
    **arguments: Any,  # noqa: ANN401 - vLLM's own argument names and types
) -> Solution:
    """Find how many requests of one length are served at once.

    Each request counts at its full length. Unless `max_num_seqs` is given, it follows
    each number that is tried: more sequences take tables, logits and CUDA graphs.

    Args:
        model: as `planner.plan` accepts it, or a plan whose arguments are reused.
        gpu: as `planner.plan` accepts it; None: the plan's, else H100. A Load here
            is treated as load=.
        load: length of a request, also as prompt_tokens= and output_tokens=; its
            number of requests is ignored.
        arguments: engine arguments, vllm_version, entrypoint and env.

    Raises:
        PlannerError: for input that cannot be planned; a load that nothing serves is
            not an error.
    """
    if arguments.get("requests") is not None:
        raise PlannerError(
            "requests= is the answer here: leave it out, or use "
            "planner.solve.longest_context for a fixed number of requests."
        )
    inputs, given = read_start(model, gpu, load, arguments)
    wanted = require_load(given, "Most requests")
    found = most_at_once(inputs, wanted)
    plan = found.at(1).plan
    sentence = (
        f"most requests of {counted(wanted.request_tokens, 'tokens')} at once for "
        f"{where(plan)}"
    )
    if found.is_found:
        return _requests_solution(found, sentence)
    short = found.at(1)
    other = nearest(inputs, short.load)
    return Solution(
        question=_REQUESTS,
        asked=sentence,
        unit="requests",
        next_plan=short.plan,
        why=f"Not one request of {counted(wanted.request_tokens, 'tokens')} is served: "
        f"{fails(short)}. {other.sentence}",
        nearest=other.loads,
    )


@named_in_errors
def longest_context(
    model: Start,
    gpu: str | GPU | None = None,
    *,
    requests: int | None = None,
    output_tokens: int = 0,
    shared_prefix_tokens: int = 0,
    **arguments: Any,  # noqa: ANN401 - vLLM's own argument names and types
) -> Solution:
    """Find the largest `max_model_len` at which `requests` are served at once.

    `max_num_seqs` follows `requests` unless it is given.

    >>> longest_context("Qwen/Qwen3-8B", "L4", requests=2, output_tokens=1000).unit
    'tokens'

    Args:
        model: as `planner.plan` accepts it, or a plan whose arguments are reused
            except `max_model_len`.
        gpu: as `planner.plan` accepts it; None: the plan's, else H100.
        requests: number at once, each at its full length; None: one, as vLLM itself
            requires to start, and `max_num_seqs` stays as it is.
        output_tokens: output of each request; the rest of its length is prompt.
        shared_prefix_tokens: of the prompts, what all begin with.
        arguments: engine arguments, vllm_version, entrypoint and env.

    Raises:
        PlannerError: for input that cannot be planned; a load that nothing serves is
            not an error.
    """
    refuse_load(
        gpu,
        "the length is the answer here. Give requests=, and output_tokens= if you "
        "like.",
    )
    if arguments.get("prompt_tokens") is not None:
        raise PlannerError(
            "prompt_tokens= is part of the answer here: leave it out, or use "
            "planner.solve.most_requests for requests of a given length."
        )
    inputs, _ = read_start(model, gpu, None, arguments)
    at_once = 1 if requests is None else whole_number("requests", requests)
    output = whole_number("output_tokens", output_tokens, least=0)
    shared = whole_number("shared_prefix_tokens", shared_prefix_tokens, least=0)
    follows = requests is not None
    asked = Load(
        prompt_tokens=max(shared, 1),
        output_tokens=output,
        requests=at_once,
        shared_prefix_tokens=shared,
    )
    found = longest(inputs, asked, follows=follows)
    plan = found.at(found.least).plan
    sentence = (
        f"longest context of {where(plan)} for {counted(at_once, 'requests')} at once"
    )
    if not found.is_found:
        short = found.at(found.least)
        other = nearest_of_any_length(inputs, short.load, follows=follows)
        return Solution(
            question=_CONTEXT,
            asked=sentence,
            unit="tokens",
            next_plan=short.plan,
            why=f"No length serves {counted(at_once, 'requests')}: {fails(short)}. "
            f"{other.sentence}",
            nearest=other.loads,
        )
    return _context_solution(found, sentence)


def _requests_solution(found: Boundary, sentence: str) -> Solution:
    at_edge, beyond = found.at(found.value), found.beyond
    why = f"{counted(found.value, 'requests').capitalize()}: {holds(at_edge)}. "
    if beyond is None:
        why += "The search ends here."
    else:
        why += f"{found.value + 1:,}: {fails(beyond)}."
    return Solution(
        question=_REQUESTS,
        asked=sentence,
        value=found.value,
        unit="requests",
        plan=at_edge.plan,
        next_plan=None if beyond is None else beyond.plan,
        why=why,
        load=at_edge.load,
    )


def _context_solution(found: Boundary, sentence: str) -> Solution:
    at_edge, beyond = found.at(found.value), found.beyond
    why = f"At max_model_len={found.value:,}: {holds(at_edge)}. "
    if beyond is None:
        why += "The model itself has no limit; the search ends here."
    else:
        why += f"At {found.value + 1:,}: {fails(beyond)}."
    if at_edge.load.output_tokens:
        why += (
            f" {counted(at_edge.load.prompt_tokens, 'tokens')} of prompt + "
            f"{at_edge.load.output_tokens:,} of output."
        )
    return Solution(
        question=_CONTEXT,
        asked=sentence,
        value=found.value,
        unit="tokens",
        plan=at_edge.plan,
        next_plan=None if beyond is None else beyond.plan,
        why=why,
        load=at_edge.load,
    )
