"""Exceptions for refused input; a plan that does not fit is a result, not an error."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable

from planner.registries import provided

_LONGEST, _HEAD = 3_000, 2_000
"""Characters of a sentence, and of its beginning where it is longer."""


class PlannerError(ValueError):
    """Input that cannot be planned: what was given, what is allowed, what to do.

    Of a sentence that repeats a value of thousands of characters, the middle is left
    out.
    """

    code = "bad_input"
    """What programs tell errors apart by."""
    allowed = ""
    """What may be given instead, where the message names nothing that was given."""

    def __init__(self, message: str = "") -> None:
        """Store the message."""
        if len(message) > _LONGEST:
            message = f"{message[:_HEAD]} ... {message[_HEAD - _LONGEST :]}"
        super().__init__(message)

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows of it: in a notebook, the sentence first."""
        return provided(ErrorView).lines(self)


class ErrorView:
    """How an error is shown by IPython; no dataclass, whose import takes time."""

    def __init__(self, lines: Callable[[PlannerError], list[str]]) -> None:
        """Store the function that returns what is shown."""
        self.lines = lines


class UnknownArchitecture(PlannerError):  # noqa: N818 - the contract fixes the name
    """A model, cache type or setting whose memory the planner does not model.

    Raised instead of a guess; the message names the field that was not understood.
    """

    code = "unknown_architecture"


class ModelNotFound(PlannerError):  # noqa: N818 - reads as the sentence it is
    """The model is not in the catalogue, on disk or on the Hub."""

    code = "model_not_found"


class ModelUnavailable(PlannerError):  # noqa: N818 - reads as the sentence it is
    """The model exists but cannot be read: gated, offline, or no reply of the Hub."""

    code = "model_unavailable"


class TooOften(ModelUnavailable):
    """No more requests to the Hub for now; the message says when there are more."""

    code = "too_often"


class GatedModel(ModelUnavailable):
    """The model's files are given only to accounts that accepted its terms."""

    code = "gated_model"

    def __init__(self, message: str, instead: tuple[str, ...] = ()) -> None:
        """Store the message and models of the same shapes that are not gated."""
        super().__init__(message)
        self.instead = instead


class Refused(Exception):  # noqa: N818 - a past participle, as vLLM's log reads
    """A setting that vLLM itself refuses when it starts, in vLLM's words.

    Never reaches a user: `planner.planning.planning` turns it into a plan that does
    not fit.
    """


class RefusedArgument(Refused):
    """A refused argument that does not change the memory account.

    The plan reports vLLM's error and still shows the account.
    """


def deprecated(old: str, new: str, *, stacklevel: int = 3) -> None:
    """Warn that a name, argument or flag goes with the next release.

    Args:
        old: what the caller wrote.
        new: what does the same.
        stacklevel: as `warnings.warn` counts, from here; 3 is the caller's caller.
    """
    warnings.warn(
        f"{old} goes with the next release. Use {new}.",
        DeprecationWarning,
        stacklevel=stacklevel,
    )


def lacking(what: str, missing: ImportError) -> PlannerError:
    """Return the error of what needs a package of the extra for notebooks."""
    return PlannerError(
        f"{what} needs {missing.name}. Run: pip install 'vllm-memory-planner[notebook]'"
    )


def close_words(
    word: str, known: Iterable[str], most: int = 1, cutoff: float = 0.6
) -> list[str]:
    """Return the known words that are nearest to an unknown one, the nearest first.

    >>> close_words("dtyp", ["dtype", "seed"])
    ['dtype']
    """
    from difflib import get_close_matches  # noqa: PLC0415 - slow, and errors are rare

    return get_close_matches(word, list(known), most, cutoff)
