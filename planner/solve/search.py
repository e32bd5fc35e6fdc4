"""The boundary between values that serve and values that do not, found by planning.

Bisection relies on a single boundary. Rounded blocks, capture sizes and switching
defaults can make several, so values 2, 3, 5, 9, ... beyond the boundary are tried too.

What is searched: the longest request, the most requests, and limits of the memory that
vLLM may use (the smallest share, the smallest KV cache).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache

from planner.engine.releases import resolve_version
from planner.errors import PlannerError
from planner.models.lengths import derived_max_model_len
from planner.planning.inputs import Inputs
from planner.planning.load import Load
from planner.planning.serving import NULL_BLOCKS, Serving, serve
from planner.values import frozen

MOST_TOKENS = 1 << 30
"""Upper limit of the search for models that have no limit."""
MOST_REQUESTS = 1 << 20
STEP = 0.01
_FINEST = 1e-6
_AtBytes = Callable[[int], Serving]


def largest(
    serves: Callable[[int], bool], least: int, most: int, guess: int | None = None
) -> int:
    """Return a number that serves while the next larger one does not.

    `least` - 1 when `least` does not serve; `most` when all do. No number that is 2,
    3, 5, 9, ... larger serves either.

    >>> largest(lambda number: number * number <= 2000, 1, 1000)
    44
    """
    known = cache(serves)
    edge = _edge(known, least, most, least if guess is None else guess)
    while edge >= least:
        beyond = _serving_beyond(known, edge, most)
        if beyond is None:
            break
        edge = _edge(known, least, most, beyond)
    return edge


def smallest(
    serves: Callable[[int], bool], least: int, most: int, guess: int | None = None
) -> int:
    """Return a number that serves while the next smaller one does not.

    `most` + 1 when `most` does not serve; `least` when all do.

    >>> smallest(lambda number: number * number > 2000, 1, 1000)
    45
    """
    mirrored = None if guess is None else -guess
    return -largest(lambda number: serves(-number), -most, -least, mirrored)


def _edge(serves: Callable[[int], bool], least: int, most: int, guess: int) -> int:
    """Bracket the boundary in doubling steps from the guess, then bisect."""
    low = high = min(max(guess, least), most)
    step = 1
    if serves(low):
        while serves(high):
            if high == most:
                return most
            low, high = high, min(high + step, most)
            step *= 2
    else:
        while not serves(low):
            if low == least:
                found = _serving_between(serves, least, high)
                if found is None:
                    return least - 1
                low = found
                break
            low, high = max(low - step, least), low
            step *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if serves(middle) else (low, middle)
    return low


def _serving_between(
    serves: Callable[[int], bool], least: int, most: int
) -> int | None:
    """Return a number above `least` that serves, which itself does not.

    vLLM refuses some arguments that follow from the smallest numbers: a request of few
    tokens leaves too few in a step for an image.
    """
    step = 1
    while least + step < most:
        if serves(least + step):
            return least + step
        step *= 2
    return None


def _serving_beyond(serves: Callable[[int], bool], edge: int, most: int) -> int | None:
    step = 1
    while edge + 1 + step <= most:
        if serves(edge + 1 + step):
            return edge + 1 + step
        step *= 2
    return None


@frozen
class Boundary:
    """The boundary between numbers that serve and numbers that do not."""

    value: int
    """The largest number that serves; `least` - 1 where none does."""
    least: int
    most: int
    at: Callable[[int], Serving]
    """Plans a number; cached."""

    @property
    def is_found(self) -> bool:
        """Whether any number serves."""
        return self.value >= self.least

    @property
    def beyond(self) -> Serving | None:
        """The start at the next number; None at the limit of the search."""
        return None if self.value == self.most else self.at(self.value + 1)


def longest(inputs: Inputs, load: Load, *, follows: bool = True) -> Boundary:
    """Find the greatest length at which the requests of a load are served at once.

    Args:
        inputs: the start; its `max_model_len` is ignored.
        load: its requests, answers and shared prefix; at least a token is prompt.
        follows: whether `max_num_seqs` follows the number of requests.
    """
    open_length = inputs.changed(max_model_len=None)

    @cache
    def at(tokens: int) -> Serving:
        return serve(open_length, load.of_length(tokens), follows=follows)

    least = load.output_tokens + 1
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
    return Boundary(value=value, least=least, most=most, at=at)


def most_at_once(inputs: Inputs, load: Load) -> Boundary:
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
    return Boundary(value=value, least=1, most=most, at=at)


def _limit(inputs: Inputs) -> int:
    """Return the model's own maximum length."""
    plan = inputs.plan()
    if plan.model is None:
        return MOST_TOKENS
    release, _ = resolve_version(plan.vllm_version)
    return int(min(derived_max_model_len(plan.model, release), MOST_TOKENS))


def _guessed_length(serving: Serving) -> int:
    """Return an estimate of the longest length, from the plan of very long requests."""
    longest_one = serving.plan.max_model_len_that_fits or 1
    if serving.share == 1 or not serving.blocks_per_request:
        return longest_one
    shared = serving.shared_blocks
    left = serving.num_blocks - NULL_BLOCKS - shared
    blocks = shared + left // serving.share
    return max(1, serving.load.request_tokens * blocks // serving.blocks_per_request)


@frozen
class Shares:
    """Possible values of `gpu_memory_utilization`, as multiples of a step."""

    step: Fraction

    @classmethod
    def of(cls, step: object) -> Shares:
        """Return the shares that are multiples of `step`.

        Raises:
            PlannerError: for a step that is not a number in range.
        """
        is_number = isinstance(step, int | float) and not isinstance(step, bool)
        if not is_number or not _FINEST <= float(str(step)) <= 1:
            raise PlannerError(
                f"step={step!r}: a number from {_FINEST:f} to 1 is needed, such as "
                "0.01."
            )
        return cls(step=Fraction(str(step)))

    @property
    def most(self) -> int:
        """Number of steps in the largest share, 1 or just below."""
        return int(1 / self.step)

    def share(self, steps: int) -> float:
        """Return a number of steps as a share."""
        return float(self.step * steps)


def is_enough(serving: Serving) -> bool:
    """Whether the budget is enough for a start, even if that much is not free.

    vLLM checks the free memory first, and needs some beside its budget. A budget that
    is too large for the GPU does not mean that the load is too large for the budget.
    """
    return serving.is_served or serving.plan.is_share_too_large


def at_share(
    inputs: Inputs, load: Load | None, shares: Shares
) -> Callable[[int], Serving]:
    """Return a cached function from a number of steps to the start with that share."""

    @cache
    def at(steps: int) -> Serving:
        return serve(inputs.changed(gpu_memory_utilization=shares.share(steps)), load)

    return at


def smallest_share(at: Callable[[int], Serving], shares: Shares) -> int | None:
    """Return the fewest steps that serve; None where no share serves."""
    steps = smallest(lambda number: is_enough(at(number)), 1, shares.most)
    return steps if steps <= shares.most and at(steps).is_served else None


def largest_share(at: Callable[[int], Serving], shares: Shares) -> int:
    """Return the most steps that are free and leave enough beside, at least 1."""

    def is_free(steps: int) -> bool:
        return not at(steps).plan.is_share_too_large

    return max(1, largest(is_free, 1, shares.most, shares.most))


def smallest_bytes(inputs: Inputs, load: Load | None) -> tuple[int, _AtBytes]:
    """Return the fewest `kv_cache_memory_bytes` that serve, and what plans them.

    The number exceeds the GPU's memory where none serve.
    """

    @cache
    def at(size_bytes: int) -> Serving:
        return serve(inputs.changed(kv_cache_memory_bytes=size_bytes), load)

    total = inputs.plan().gpu.total_memory_bytes
    first = at(total)
    each = max((rank.bytes_per_block for rank in first.plan.ranks), default=1)
    guess = first.needed_blocks * each
    most = max(total, guess)
    found = smallest(lambda size: is_enough(at(size)), 1, most, guess)
    return found, at
