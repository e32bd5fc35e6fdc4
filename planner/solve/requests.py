"""The most requests of one length that are served at once."""

from __future__ import annotations

from typing import Any

from planner.errors import PlannerError
from planner.gpu import GPU
from planner.load import Load
from planner.solve.asking import Start, asked, needed
from planner.solve.found import Found, most_at_once
from planner.solve.nearest import nearest
from planner.solve.solution import Solution
from planner.solve.words import counted, fails, holds, where

_QUESTION = "requests"


def most_requests(
    model: Start,
    gpu: str | GPU | Load | None = None,
    *,
    load: Load | None = None,
    **arguments: Any,  # noqa: ANN401 - vLLM's own argument names and types
) -> Solution:
    """Find how many requests of one length are served at once.

    Each is counted at its full length. `max_num_seqs` is planned with each number that
    is tried unless it is given: more sequences cost tables, logits and CUDA graphs.

    Args:
        model: as `planner.plan` takes it, or a plan whose arguments count.
        gpu: as `planner.plan` takes it; None: the plan's, else H100. A Load counts
            as load=.
        load: how long a request is, also as prompt_tokens= and output_tokens=; its
            number of requests does not count.
        arguments: engine arguments, vllm_version, entrypoint and env.

    Raises:
        PlannerError: for input that cannot be planned; a load that nothing serves is
            an answer.
    """
    if arguments.get("requests") is not None:
        raise PlannerError(
            "requests= is what is asked for here: leave it out, or ask "
            "planner.solve.longest_context for so many requests."
        )
    inputs, given = asked(model, gpu, load, arguments)
    wanted = needed(given, "Most requests")
    found = most_at_once(inputs, wanted)
    plan = found.at(1).plan
    sentence = (
        f"most requests of {wanted.request_tokens:,} tokens at once for {where(plan)}"
    )
    if found.is_found:
        return _solution(found, sentence)
    short = found.at(1)
    other = nearest(inputs, short.load)
    return Solution(
        question=_QUESTION,
        asked=sentence,
        value=None,
        unit="requests",
        plan=None,
        next_plan=short.plan,
        why=f"Not one request of {wanted.request_tokens:,} tokens is served: "
        f"{fails(short)}. {other.sentence}",
        nearest=other.loads,
    )


def _solution(found: Found, sentence: str) -> Solution:
    at_edge, beyond = found.at(found.value), found.beyond
    why = f"{counted(found.value, 'requests').capitalize()}: {holds(at_edge)}. "
    if beyond is None:
        why += "The search ends here."
    else:
        why += f"{found.value + 1:,}: {fails(beyond)}."
    return Solution(
        question=_QUESTION,
        asked=sentence,
        value=found.value,
        unit="requests",
        plan=at_edge.plan,
        next_plan=None if beyond is None else beyond.plan,
        why=why,
        load=at_edge.load,
    )
