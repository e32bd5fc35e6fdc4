"""The Hub's refusals in plain words: what was requested, why not, what to do.

Also which names a repository on the Hub can have (`is_repo_id`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from planner.errors import (
    GatedModel,
    ModelNotFound,
    ModelUnavailable,
    PlannerError,
    TooOften,
)
from planner.models.catalogue import nearest
from planner.surroundings import is_in_browser
from planner.values import frozen

if TYPE_CHECKING:
    from huggingface_hub import ModelInfo

LARGEST_FILE_BYTES = 16 << 20
"""Of a file beside the weights; the largest published ones list 100,000 modules."""

_UNAUTHORIZED, _TOO_MANY, _SERVER_ERROR = 401, 429, 500

_NOT_IN_A_BROWSER = (
    "is not in the bundled catalogue, and the browser edition does not query the Hub. "
    "Upload the model's config.json next to a notebook of this site, and give its "
    "path there."
)

_HOW_TO_LOG_IN = "set HF_TOKEN to an access token, or run `hf auth login`"

_REPO_ID = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)?")
_LONGEST_REPO_ID = 96


def refuse_in_browser(repo_id: str) -> None:
    """Refuse a model of the Hub where Python has no connections of its own.

    Raises:
        ModelUnavailable: in the browser edition.
    """
    if is_in_browser():
        near = did_you_mean(repo_id)
        raise ModelUnavailable(f"{repo_id!r} {_NOT_IN_A_BROWSER}{near}")


class Refused(Exception):  # noqa: N818 - what the Hub did
    """The Hub's refusal where the standard library asked, as huggingface_hub names it.

    Source: huggingface_hub 2.4.0 `utils/_http.py` hf_raise_for_status.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message or f"status {status}")
        self.status = status
        is_bad_token = message == "Invalid credentials in Authorization header"
        if status == _UNAUTHORIZED and not code and not is_bad_token:
            code = "RepoNotFound"  # or private: the Hub does not tell
        self.name = _NAMED.get(code, "HfHubHTTPError")


_NAMED = {
    "GatedRepo": "GatedRepoError",
    "RepoNotFound": "RepositoryNotFoundError",
    "RevisionNotFound": "RevisionNotFoundError",
}


@frozen
class HubQuery:
    """A model that was requested of the Hub."""

    repo_id: str
    revision: str | None
    endpoint: str
    has_token: bool

    @property
    def page(self) -> str:
        """Address of the model's page."""
        return f"{self.endpoint}/{self.repo_id}"


def library_errors() -> tuple[type[Exception], ...]:
    """Return the errors of what asks the Hub: huggingface_hub and its HTTP library.

    That library changed its name over huggingface_hub's releases; the parent of its
    own error class is where all of them meet.
    """
    try:
        from huggingface_hub import errors  # noqa: PLC0415 - optional
    except ImportError:
        return (Refused, OSError, ValueError)
    http_error: type[Exception] = errors.HfHubHTTPError.__mro__[1]
    return (http_error, errors.SafetensorsParsingError, OSError, ValueError)


def is_silence(error: Exception) -> bool:
    """Whether the Hub gave no answer, rather than a refusal."""
    if _is(error, "HFValidationError"):
        return False
    status = _status(error)
    return status is None or status >= _SERVER_ERROR or status == _TOO_MANY


def is_gated(error: Exception) -> bool:
    """Whether the Hub gives the files only to accounts that accepted the terms."""
    return _is(error, "GatedRepoError")


def _is(error: Exception, *names: str) -> bool:
    """Whether an error is of one of these classes of huggingface_hub."""
    if isinstance(error, Refused):
        return error.name in names
    if sys.modules.get("huggingface_hub") is None:  # nobody raised one of its errors
        return False
    from huggingface_hub import errors  # noqa: PLC0415 - optional

    return isinstance(error, tuple(getattr(errors, name) for name in names))


def _status(error: Exception) -> int | None:
    if isinstance(error, Refused):
        return error.status
    status: int | None = getattr(getattr(error, "response", None), "status_code", None)
    return status


def explain(error: Exception, query: HubQuery) -> PlannerError:
    """Return the error to raise for what asking the Hub raised."""
    if isinstance(error, PlannerError):
        return error
    if is_gated(error):
        return gated(query)
    if _is(error, "RepositoryNotFoundError", "HFValidationError"):
        return not_found(query)
    if _is(error, "RevisionNotFoundError"):
        return ModelNotFound(
            f"{query.repo_id!r} has no revision {query.revision!r} on the Hub. Leave "
            f"it out for the newest one, or see the branches and tags at {query.page}."
        )
    if _is(error, "HfHubHTTPError"):
        return _answered(error, query)
    return silent(error, query)


def not_found(query: HubQuery) -> ModelNotFound:
    """Return the error for a repository that is missing or private."""
    log_in = "" if query.has_token else f" If it is private, {_HOW_TO_LOG_IN}."
    return ModelNotFound(
        f"No model {query.repo_id!r} on the Hub ({query.endpoint}).{log_in}"
        f"{did_you_mean(query.repo_id)}"
    )


def did_you_mean(name: str) -> str:
    """Return a hint at bundled models of a similar name."""
    near = nearest(name)
    return f" Nearest in the bundled catalogue: {', '.join(near)}." if near else ""


def not_cached(query: HubQuery) -> ModelUnavailable:
    """Return the error for a model that is not in the cache, offline."""
    return ModelUnavailable(
        f"{query.repo_id!r} is neither in the bundled catalogue nor in the Hub's cache "
        "on this disk, and HF_HUB_OFFLINE forbids contacting the Hub. Unset it once to "
        "fetch its config.json, or give the path of one."
        f"{did_you_mean(query.repo_id)}"
    )


def silent(error: BaseException, query: HubQuery) -> ModelUnavailable:
    """Return the error where the Hub did not answer, or not in time."""
    error = error.__cause__ or error
    what = (
        "did not answer in time (HF_HUB_ETAG_TIMEOUT sets the seconds)"
        if "Timeout" in type(error).__name__
        else f"cannot be reached ({_reason(error)})"
    )
    return ModelUnavailable(
        f"{query.repo_id!r}: the Hub ({query.endpoint}) {what}, and the model is not "
        "in its cache on this disk. Check the network (HF_ENDPOINT names a mirror), or "
        f"give the path of a config.json.{did_you_mean(query.repo_id)}"
    )


def no_list(error: Exception, query: HubQuery) -> ModelUnavailable:
    """Return the error of a search that was not answered."""
    instead = "Type the model's whole name, or choose a bundled one."
    if _status(error) == _TOO_MANY:
        return TooOften(
            f"The Hub ({query.endpoint}) allows no more requests for now. {instead}"
        )
    return ModelUnavailable(
        f"The Hub ({query.endpoint}) gave no suggestions for {query.repo_id!r} "
        f"({type(error).__name__}). {instead}"
    )


def refuse_large(query: HubQuery, info: ModelInfo, names: Iterable[str]) -> None:
    """Refuse a repository whose small files are large, before any is read.

    Raises:
        PlannerError: for a file that is larger than any config of a model.
    """
    wanted = frozenset(names)
    for sibling in info.siblings or ():
        size = sibling.size or 0
        if sibling.rfilename in wanted and size > LARGEST_FILE_BYTES:
            raise PlannerError(
                f"{sibling.rfilename} of {query.repo_id!r} has {size >> 20} MiB, and "
                f"the planner reads up to {LARGEST_FILE_BYTES >> 20}: it is not the "
                f"config of a model. See {query.page}."
            )


def no_description(query: HubQuery) -> str:
    """Say that an answer about a model holds something else."""
    return (
        f"What the Hub ({query.endpoint}) sends about {query.repo_id!r} does not "
        "describe a model. Try again, or give a folder with its config.json."
    )


def no_config(query: HubQuery, files: Iterable[str]) -> PlannerError:
    """Say what a repository without config.json holds instead."""
    names = set(files)
    start = f"{query.repo_id!r} has no config.json on the Hub: it holds"
    if any(name.endswith(".gguf") for name in names):
        return ModelNotFound(
            f"{start} GGUF files. Name one, or its type: {query.repo_id}:Q4_K_M."
        )
    if "adapter_config.json" in names:
        return ModelNotFound(
            f"{start} a LoRA adapter. Give the name of its base model."
        )
    if "model_index.json" in names:
        return ModelNotFound(f"{start} a Diffusers pipeline, not a language model.")
    return ModelNotFound(f"{start} no model that vLLM could load. See {query.page}.")


def gated(query: HubQuery, instead: tuple[str, ...] = ()) -> GatedModel:
    """Return the error for a gated model: how to get in, and what is open instead."""
    if query.has_token:
        how = (
            f"{query.repo_id!r} is gated and your token has no access to it. Accept "
            f"its terms at {query.page} with the account of that token (access may "
            "take a while to be granted), and see that the token may read gated "
            "repositories."
        )
    else:
        how = (
            f"{query.repo_id!r} is gated and no token was given. Accept its terms at "
            f"{query.page}, make a token at {query.endpoint}/settings/tokens, then "
            f"{_HOW_TO_LOG_IN}."
        )
    return GatedModel(how + open_instead(instead), instead)


def open_instead(names: tuple[str, ...]) -> str:
    """Return a hint at models that can be planned in place of a gated one."""
    if not names:
        return ""
    return f" Of the same shapes and not gated: {', '.join(names)}."


def _answered(error: Exception, query: HubQuery) -> PlannerError:
    status = _status(error)
    if status == _UNAUTHORIZED:
        return ModelUnavailable(
            f"{query.repo_id!r}: the Hub refused your token. Set HF_TOKEN to a valid "
            "access token, or unset it (and run `hf auth logout`) for public models."
        )
    if status == _TOO_MANY:
        return ModelUnavailable(
            f"{query.repo_id!r}: the Hub allows no more requests for now. Wait a few "
            f"minutes, or {_HOW_TO_LOG_IN} for a higher limit."
        )
    return ModelUnavailable(
        f"{query.repo_id!r}: the Hub ({query.endpoint}) answered with an error "
        f"({status or _reason(error)}). Try again later, or give the path of a "
        "config.json."
    )


def _reason(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def is_repo_id(text: str) -> bool:
    """Whether the Hub could have a repository of this name.

    Source: huggingface_hub 2.4.0 `utils/_validators.py` validate_repo_id.
    """
    return (
        _REPO_ID.fullmatch(text) is not None
        and len(text) <= _LONGEST_REPO_ID
        and "--" not in text
        and ".." not in text
        and not text.endswith((".git", ".", "-"))
        and not text.startswith((".", "-"))
    )
