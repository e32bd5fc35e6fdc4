"""What the planner raises for input it refuses; not fitting is a result."""

from __future__ import annotations


class PlannerError(ValueError):
    """Input that cannot be planned: what was given, what is allowed, what to do."""


class UnknownArchitecture(PlannerError):  # noqa: N818 - the contract fixes the name
    """A model, cache kind or setting whose memory the planner does not know.

    Raised instead of a guess; the message names the field that was not understood.
    """


class ModelNotFound(PlannerError):  # noqa: N818 - reads as the sentence it is
    """No such model in the catalogue, on disk or on the Hub."""


class ModelUnavailable(PlannerError):  # noqa: N818 - reads as the sentence it is
    """The model exists but cannot be read now: gated, offline, or the Hub is silent."""


class Refused(Exception):  # noqa: N818 - a past participle, as vLLM's log reads
    """A setting that vLLM itself refuses at start, in vLLM's words.

    Never reaches a user: `planner.planning` turns it into a plan that does not fit.
    """


class RefusedArgument(Refused):
    """A refused argument that leaves the memory account as it is without it.

    The plan says what vLLM says, and shows the account all the same.
    """


class RefusedSince(Refused):
    """What a release of vLLM began to refuse; older ones take it, unknown how."""

    def __init__(self, message: str, since: tuple[int, int, int]) -> None:
        """Keep the words, and the first release that refuses."""
        super().__init__(message)
        self.since = since
