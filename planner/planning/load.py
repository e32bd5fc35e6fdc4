"""The load that a start must serve: how many requests at once, and how long each is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import PlannerError
from planner.values import frozen


@frozen
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
    """Number of requests at once, each at its full length."""

    def __post_init__(self) -> None:
        for name, least in (
            ("prompt_tokens", 1),
            ("output_tokens", 0),
            ("requests", 1),
        ):
            value: object = getattr(self, name)
            is_number = isinstance(value, int) and not isinstance(value, bool)
            if not is_number or getattr(self, name) < least:
                raise PlannerError(
                    f"{name}={value!r}: a whole number from {least} is needed."
                )

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

    @property
    def request_tokens(self) -> int:
        """Tokens of one finished request: the least `max_model_len` that allows it."""
        return self.prompt_tokens + self.output_tokens

    def share(self, engines: int) -> int:
        """Return the requests of the engine that has the most."""
        return -(-self.requests // engines)

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
