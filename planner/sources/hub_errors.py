"""The Hub's refusals in plain words: what was asked, why not, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from planner.catalogue import nearest
from planner.errors import ModelNotFound, ModelUnavailable, PlannerError
from planner.in_browser import is_in_browser

_UNAUTHORIZED, _TOO_MANY, _SERVER_ERROR = 401, 429, 500

_LIBRARY_MISSING = (
    "is not in the bundled catalogue, and reading it from the Hub needs "
    'huggingface_hub: pip install "vllm-memory-planner[app]". '
    "Or give the path of its config.json."
)
_NOT_IN_A_BROWSER = (
    "is not in the bundled catalogue, and the browser edition does not ask the Hub. "
    "Upload the model's config.json beside this notebook, and give its path."
)

_HOW_TO_LOG_IN = "set HF_TOKEN to an access token, or run `hf auth login`"


def missing() -> str:
    """Say why a Hub model cannot be read without huggingface_hub, and what to do."""
    return _NOT_IN_A_BROWSER if is_in_browser() else _LIBRARY_MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked of the Hub."""

    repo_id: str
    revision: str | None
    endpoint: str
    has_token: bool

    @property
    def page(self) -> str:
        """Address of the model's page."""
        return f"{self.endpoint}/{self.repo_id}"


def library_errors() -> tuple[type[Exception], ...]:
    """Return what huggingface_hub raises, and what its HTTP library does.

    That library changed its name over huggingface_hub's releases; the parent of its
    own error class is where all of them meet.
    """
    from huggingface_hub import errors  # noqa: PLC0415 - only where it is installed

    http_error: type[Exception] = errors.HfHubHTTPError.__mro__[1]
    return (http_error, errors.SafetensorsParsingError, OSError, ValueError)


def is_silence(error: Exception) -> bool:
    """Whether the Hub did not answer the question, rather than with no."""
    from huggingface_hub import errors  # noqa: PLC0415 - only where it is installed

    if isinstance(error, errors.HFValidationError):
        return False
    status = _status(error)
    return status is None or status >= _SERVER_ERROR or status == _TOO_MANY


def _status(error: Exception) -> int | None:
    status: int | None = getattr(getattr(error, "response", None), "status_code", None)
    return status


def explain(error: Exception, asked: Asked) -> PlannerError:
    """Return the error to raise for what huggingface_hub raised."""
    from huggingface_hub import errors  # noqa: PLC0415 - only where it is installed

    if isinstance(error, errors.GatedRepoError):
        return _gated(asked)
    if isinstance(error, errors.RepositoryNotFoundError | errors.HFValidationError):
        return not_found(asked)
    if isinstance(error, errors.RevisionNotFoundError):
        return ModelNotFound(
            f"{asked.repo_id!r} has no revision {asked.revision!r} on the Hub. Leave "
            f"it out for the newest one, or see the branches and tags at {asked.page}."
        )
    if isinstance(error, errors.HfHubHTTPError):
        return _answered(error, asked)
    return silent(error, asked)


def not_found(asked: Asked) -> ModelNotFound:
    """No such repository, or a private one; the Hub does not tell which."""
    log_in = "" if asked.has_token else f" If it is private, {_HOW_TO_LOG_IN}."
    return ModelNotFound(
        f"No model {asked.repo_id!r} on the Hub ({asked.endpoint}).{log_in}"
        f"{did_you_mean(asked.repo_id)}"
    )


def did_you_mean(name: str) -> str:
    """Return a hint at bundled models of a similar name."""
    near = nearest(name)
    return f" Nearest in the bundled catalogue: {', '.join(near)}." if near else ""


def not_cached(asked: Asked) -> ModelUnavailable:
    """Offline, and never fetched."""
    return ModelUnavailable(
        f"{asked.repo_id!r} is neither in the bundled catalogue nor in the Hub's cache "
        "on this disk, and HF_HUB_OFFLINE forbids asking the Hub. Unset it once to "
        "fetch its config.json, or give the path of one."
        f"{did_you_mean(asked.repo_id)}"
    )


def silent(error: BaseException, asked: Asked) -> ModelUnavailable:
    """No answer, or none in time."""
    error = error.__cause__ or error
    what = (
        "did not answer in time (HF_HUB_ETAG_TIMEOUT sets the seconds)"
        if "Timeout" in type(error).__name__
        else f"cannot be reached ({_reason(error)})"
    )
    return ModelUnavailable(
        f"{asked.repo_id!r}: the Hub ({asked.endpoint}) {what}, and the model is not "
        "in its cache on this disk. Check the network (HF_ENDPOINT names a mirror), or "
        f"give the path of a config.json.{did_you_mean(asked.repo_id)}"
    )


def no_config(asked: Asked, files: Iterable[str]) -> PlannerError:
    """Say what a repository without config.json holds instead."""
    names = set(files)
    start = f"{asked.repo_id!r} has no config.json on the Hub: it holds"
    if any(name.endswith(".gguf") for name in names):
        return ModelNotFound(
            f"{start} GGUF files, which the planner does not read. Give the name of "
            "the model they were made from."
        )
    if "adapter_config.json" in names:
        return ModelNotFound(
            f"{start} a LoRA adapter. Give the name of its base model."
        )
    if "model_index.json" in names:
        return ModelNotFound(f"{start} a Diffusers pipeline, not a language model.")
    if "params.json" in names:
        return ModelNotFound(
            f"{start} params.json (Mistral's own format), from which alone the planner "
            "does not read a model. Give the name of the same model in Hub format."
        )
    return ModelNotFound(f"{start} no model that vLLM could load. See {asked.page}.")


def _gated(asked: Asked) -> ModelUnavailable:
    if asked.has_token:
        return ModelUnavailable(
            f"{asked.repo_id!r} is gated and your token has no access to it. Accept "
            f"its terms at {asked.page} with the account of that token (access may "
            "take a while to be granted), and see that the token may read gated "
            "repositories."
        )
    return ModelUnavailable(
        f"{asked.repo_id!r} is gated and no token was given. Accept its terms at "
        f"{asked.page}, then {_HOW_TO_LOG_IN}."
    )


def _answered(error: Exception, asked: Asked) -> PlannerError:
    status = _status(error)
    if status == _UNAUTHORIZED:
        return ModelUnavailable(
            f"{asked.repo_id!r}: the Hub refused your token. Set HF_TOKEN to a valid "
            "access token, or unset it (and run `hf auth logout`) for public models."
        )
    if status == _TOO_MANY:
        return ModelUnavailable(
            f"{asked.repo_id!r}: the Hub allows no more requests for now. Wait a few "
            f"minutes, or {_HOW_TO_LOG_IN} for a higher limit."
        )
    return ModelUnavailable(
        f"{asked.repo_id!r}: the Hub ({asked.endpoint}) answered with an error "
        f"({status or _reason(error)}). Try again later, or give the path of a "
        "config.json."
    )


def _reason(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
