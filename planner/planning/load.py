"""The load that a start must serve: how many requests at once, and how long each is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from math import ceil, inf, sqrt
from typing import Any

from planner.errors import PlannerError
from planner.values import frozen

_SIGMAS = 1.645
"""Standard deviations within which 19 of 20 values of a normal distribution lie below
the upper end."""
_MOST_AT_ONCE = 1 << 30
_IN_GENERAL = (
    ("prompt_tokens", 1),
    ("output_tokens", 0),
    ("requests", 1),
    ("shared_prefix_tokens", 0),
)
_ON_AVERAGE = (("mean_prompt_tokens", 1), ("mean_output_tokens", 0))


@frozen(repr=False)
class Load:
    """Requests that run at the same time.

    >>> Load(prompt_tokens=3000, output_tokens=1000, requests=16).request_tokens
    4000

    Raises:
        PlannerError: for counts that are not whole numbers in range.
    """

    prompt_tokens: int
    """Prompt of one request, the longest that is expected."""
    output_tokens: int
    """Answer of one request, the longest that is expected."""
    requests: int = 1
    """Number of requests at once, each at its full length unless a mean is given."""
    shared_prefix_tokens: int = 0
    """Beginning of the prompt that all requests have in common, such as a system prompt
    or documents. Where prefix caching finds it, an engine stores it once."""
    mean_prompt_tokens: int | None = None
    """Prompt of a request on average; None: all are as long as the longest."""
    mean_output_tokens: int | None = None
    """Answer of a request on average; None: all are as long as the longest."""

    def __post_init__(self) -> None:
        for name, least in (*_IN_GENERAL, *_ON_AVERAGE):
            value: object = getattr(self, name)
            if value is None and (name, least) in _ON_AVERAGE:
                continue
            is_number = isinstance(value, int) and not isinstance(value, bool)
            if not is_number or getattr(self, name) < least:
                raise PlannerError(
                    f"{name}={value!r}: a whole number from {least} is needed."
                )
        for name, limit in (
            ("mean_output_tokens", "output_tokens"),
            ("mean_prompt_tokens", "prompt_tokens"),
            ("shared_prefix_tokens", "mean_prompt_tokens"),
            ("shared_prefix_tokens", "prompt_tokens"),
        ):
            value, most = getattr(self, name), getattr(self, limit)
            if None not in (value, most) and value > most:
                raise PlannerError(f"{name}={value!r} is more than {limit}={most!r}.")

    @classmethod
    def given(cls, value: object, /) -> Load:
        """Return what was given as `load=`.

        Raises:
            PlannerError: for anything else than a load.
        """
        if isinstance(value, cls):
            return value
        raise PlannerError(
            f"load={value!r}: give a planner.Load, such as planner.Load("
            "prompt_tokens=3000, output_tokens=1000, requests=16)."
        )

    @classmethod
    def conversation(
        cls,
        *,
        turns: int,
        prompt_tokens: int,
        output_tokens: int,
        requests: int = 1,
        shared_prefix_tokens: int = 0,
    ) -> Load:
        """Return the load of users who each are in a conversation of several turns.

        Each prompt repeats what was said before: the longest request is the last turn,
        and on average users are in the middle. Between two turns vLLM holds nothing for
        a user; what its prefix cache still has by then is not counted.

        >>> found = Load.conversation(turns=3, prompt_tokens=100, output_tokens=200)
        >>> found.prompt_tokens, found.mean_prompt_tokens
        (700, 400)

        Args:
            turns: prompts of a user in a conversation.
            prompt_tokens: first prompt, with what all users share; each later one adds
                as many as this has besides.
            output_tokens: each answer.
            requests: users who wait for an answer at the same time.
            shared_prefix_tokens: what the conversations begin with.

        Raises:
            PlannerError: for counts that are not whole numbers in range.
        """
        first = cls(
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            requests=requests,
            shared_prefix_tokens=shared_prefix_tokens,
        )
        given: object = turns
        if isinstance(given, bool) or not isinstance(given, int) or turns < 1:
            raise PlannerError(f"turns={turns!r}: a whole number from 1 is needed.")
        each = prompt_tokens - shared_prefix_tokens + output_tokens
        if turns == 1:
            return first
        return replace(
            first,
            prompt_tokens=prompt_tokens + (turns - 1) * each,
            mean_prompt_tokens=prompt_tokens + ceil((turns - 1) * each / 2),
            mean_output_tokens=output_tokens,
        )

    @staticmethod
    def at_once(requests_per_second: float, seconds_per_request: float) -> int:
        """Return how many requests run at once where they arrive at a rate.

        Rate x time are there on average (Little's law). Where arrivals do not depend on
        each other, their number follows a Poisson distribution; the value returned is
        not exceeded in 19 of 20 moments. The time is that of the start that is planned:
        measure it, or take a bound for what it is (`planner.speed_bound`).

        >>> Load.at_once(requests_per_second=2, seconds_per_request=8)
        23

        Raises:
            PlannerError: for anything but positive numbers.
        """
        rate: dict[str, object] = {
            "requests_per_second": requests_per_second,
            "seconds_per_request": seconds_per_request,
        }
        for name, value in rate.items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not (is_number and 0 < float(str(value)) < inf):
                raise PlannerError(f"{name}={value!r}: a positive number is needed.")
        mean = requests_per_second * seconds_per_request
        if mean > _MOST_AT_ONCE:
            raise PlannerError(f"{mean:,.0f} requests at once are not planned.")
        return max(1, ceil(mean + _SIGMAS * sqrt(mean)))

    @property
    def request_tokens(self) -> int:
        """Tokens of one finished request: the least `max_model_len` that allows it."""
        return self.prompt_tokens + self.output_tokens

    @property
    def has_mean(self) -> bool:
        """Whether a mean length is given, by which requests at once are counted."""
        return self.mean_prompt_tokens is not None or (
            self.mean_output_tokens is not None
        )

    @property
    def held_tokens(self) -> int:
        """Tokens that a running request counts for: its full length, or its average."""
        return self.average_tokens if self.has_mean else self.request_tokens

    @property
    def average_tokens(self) -> int:
        """Tokens that a running request stores on average.

        An answer grows while it runs, so that requests in the middle of answers of one
        length store half of them. Long answers run longer: over all moments the stored
        part is at most half of the longest answer, whatever the others are, and at most
        the mean where lengths vary less than an exponential distribution.
        """
        half = ceil(self.output_tokens / 2)
        return self.mean_prompt + min(self.mean_output, half)

    @property
    def mean_prompt(self) -> int:
        """Prompt of a request on average; the longest where no mean is given."""
        mean = self.mean_prompt_tokens
        return self.prompt_tokens if mean is None else mean

    @property
    def mean_output(self) -> int:
        """Answer of a request on average; the longest where no mean is given."""
        mean = self.mean_output_tokens
        return self.output_tokens if mean is None else mean

    @property
    def reused_tokens(self) -> int:
        """Tokens of the shared prefix that can be found in a cache.

        vLLM computes the last token of a prompt again, for its logits.

        Source: vLLM 0.33.0 `v1/core/kv_cache_manager.py` get_computed_blocks.
        """
        return min(self.shared_prefix_tokens, self.prompt_tokens - 1)

    def share(self, engines: int) -> int:
        """Return the requests of the engine that has the most."""
        return -(-self.requests // engines)

    def with_prompt(self, prompt_tokens: int) -> Load:
        """Return the load with prompts of another length, and means in proportion."""
        mean = self.mean_prompt_tokens
        if mean is not None:
            mean = max(1, mean * prompt_tokens // self.prompt_tokens)
        return replace(
            self,
            prompt_tokens=prompt_tokens,
            mean_prompt_tokens=mean,
            shared_prefix_tokens=min(self.shared_prefix_tokens, mean or prompt_tokens),
        )

    def of_length(self, tokens: int) -> Load:
        """Return requests that are all of `tokens`, with the answers of this load."""
        output = min(self.output_tokens, tokens - 1)
        prompt = tokens - output
        return Load(
            prompt_tokens=prompt,
            output_tokens=output,
            requests=self.requests,
            shared_prefix_tokens=min(self.shared_prefix_tokens, prompt),
        )

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the engine arguments that follow from the load: those not given.

        `max_model_len` becomes the length of its requests, `max_num_seqs` the number
        of requests on one engine.

        >>> load = Load(prompt_tokens=3000, output_tokens=1000, requests=16)
        >>> load.arguments({"data_parallel_size": 2})
        {'max_model_len': 4000, 'max_num_seqs': 8}
        """
        engines = given.get("data_parallel_size")
        share = self.share(engines if type(engines) is int and engines > 0 else 1)
        wanted = {"max_model_len": self.request_tokens, "max_num_seqs": share}
        return {n: value for n, value in wanted.items() if given.get(n) is None}

    def to_dict(self) -> dict[str, int]:
        """Return the parts that are given."""
        return {
            part.name: getattr(self, part.name)
            for part in fields(self)
            if part.name in _ALWAYS or getattr(self, part.name) != part.default
        }

    def __repr__(self) -> str:
        """Return how the load is written: the parts that are given."""
        parts = ", ".join(f"{name}={value}" for name, value in self.to_dict().items())
        return f"Load({parts})"


_ALWAYS = ("prompt_tokens", "output_tokens", "requests")
LOAD_PARTS = tuple(part.name for part in fields(Load))
"""Names of what a load is made of."""
