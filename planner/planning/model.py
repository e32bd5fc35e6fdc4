"""The model of a start, with the quantization and overrides that were asked for."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from os import PathLike

from planner.engine.releases import Release
from planner.engine.releases.change import Change, RefusedSince
from planner.engine.settings import EngineSettings, table
from planner.errors import (
    ModelNotFound,
    ModelUnavailable,
    PlannerError,
    Refused,
    UnknownArchitecture,
)
from planner.models.architecture import ModelArchitecture
from planner.models.drafts.config import requested_speculation
from planner.models.estimates import Format, estimated
from planner.models.families import built_otherwise, read
from planner.models.families.pooling import as_run
from planner.models.families.refused import check_model_type_then
from planner.models.files import ModelFiles, overridden
from planner.models.lengths import without_windows
from planner.models.quantization import requantised
from planner.models.sources.finding import model_files
from planner.models.sources.gguf_config import checked, with_config

_POOLING_CONVERTS = ("embed", "classify")
"""Values of convert that make a generating model a pooling one; the head of classes
that classify adds, a few rows of hidden_size, is not counted."""


def draft_files(
    settings: EngineSettings, model: ModelArchitecture, release: Release
) -> ModelFiles | None:
    """Return the files of the draft that speculative_config names; None without one."""
    try:
        requested = requested_speculation(settings, release)
    except Refused:
        return None  # raised again later, in vLLM's order
    if requested is None or requested.model is None or model.is_pooling:
        return None
    files = model_files(requested.model)
    return None if files is model.files else files


def check_refuses(refusal: Refused, release: Release) -> None:
    """Reject what only later releases refuse.

    Raises:
        UnknownArchitecture: with the message of the later releases.
    """
    if isinstance(refusal, RefusedSince) and not release.has(refusal.since):
        raise UnknownArchitecture(
            f"vLLM {release.version} still serves a model that is not modelled, as "
            f"later ones say: {refusal}"
        ) from None


def architecture(
    given: str | PathLike[str] | ModelArchitecture,
    settings: EngineSettings,
    release: Release,
) -> ModelArchitecture:
    """Return the model as a release of vLLM would run it with these arguments.

    Raises:
        PlannerError: for a model that cannot be read.
        Refused: in vLLM's words.
    """
    model = _model_or_files(given, settings)
    method, trusted = settings.quantization, bool(settings.trust_remote_code)
    asks_for_pooling = settings.convert in _POOLING_CONVERTS
    if isinstance(model, ModelFiles):
        try:
            found = _read_for(release, model, method, trusted=trusted)
        except Refused:
            check_model_type_then(model.config, release)  # vLLM asks for it first
            raise
        asks_for_pooling |= model.asks_for_pooling
    elif method is None and not _is_read_again(model, release):
        found = model
    elif model.files is not None:
        # Only the checkpoint's own files determine what the argument does.
        found = _read_for(release, model.files, method, trusted=True)
        asks_for_pooling |= model.is_pooling
    else:
        found = requantised(model, str(method))
    if settings.disable_sliding_window:
        found = without_windows(found)
    if settings.runner in (None, "auto") and asks_for_pooling:
        return as_run(found, "pooling")
    return as_run(found, settings.runner)


def estimated_model(
    model: ModelArchitecture, form: Format, *, trusted: bool
) -> ModelArchitecture:
    """Return a usual checkpoint of a model that was read already; nothing is read.

    Raises:
        PlannerError: where the model is quantised already, or was read from no files.
    """
    files = estimated(_files_of(model), form)
    return _read(files, None, trusted=trusted, before=None)


def _model_or_files(
    given: str | PathLike[str] | ModelArchitecture, settings: EngineSettings
) -> ModelFiles | ModelArchitecture:
    """Return a model that was read already, or the files that have to be read."""
    overrides = table(settings, "hf_overrides")
    if not isinstance(given, ModelArchitecture):
        files = _with_config(model_files(given), settings)
    else:
        # The settings name the draft again.
        model = given if given.speculation is None else given.speculation.target
        if not overrides:
            return model
        files = _files_of(model)
    return overridden(files, overrides) if overrides else files


def _with_config(files: ModelFiles, settings: EngineSettings) -> ModelFiles:
    """Return a GGUF file's model with the config.json that the arguments name.

    Source: vllm-gguf-plugin 0.0.5 `plugin.py` _get_gguf_config_source.
    """
    if not files.gguf_tensors:
        return files
    others = dict(settings.others)
    for name in ("hf_config_path", "tokenizer"):
        source = others.get(name)
        if isinstance(source, str) and not source.endswith(".gguf"):
            return checked(_configured(files, source))
    return checked(files)


def _configured(files: ModelFiles, source: str) -> ModelFiles:
    """Return a GGUF file's model with another's config; its own without an answer."""
    try:
        return with_config(files, model_files(source))
    except (ModelNotFound, ModelUnavailable):
        if files.config:
            return files
        raise


def _files_of(model: ModelArchitecture) -> ModelFiles:
    """Return the files a model was read from.

    Raises:
        PlannerError: where it was read from none, so that nothing can be overridden.
    """
    if model.files is None:
        raise PlannerError(
            f"hf_overrides: {model.name} comes without a config.json that it could "
            "change. Change the ModelArchitecture itself, or give a folder or a name."
        )
    return model.files


def _is_read_again(model: ModelArchitecture, release: Release) -> bool:
    """Whether a model was read as the newest release builds it, and another was not."""
    return model.files is not None and built_otherwise(model.files, release) is not None


def _read_for(
    release: Release, files: ModelFiles, method: str | None, *, trusted: bool
) -> ModelArchitecture:
    """Read a model as a release builds it; all that build it alike share one object."""
    before = built_otherwise(files, release)
    return _read(files, method, trusted=trusted, before=before)


@lru_cache(maxsize=64)
def _read(
    files: ModelFiles,
    method: str | None,
    *,
    trusted: bool,
    before: Change | None,
) -> ModelArchitecture:
    """Read a model; where vLLM refuses the method, with the checkpoint's own.

    The same files give the same object, so that their plans are equal.
    """
    requested = read(files, method, trust_remote_code=trusted, before=before)
    mismatch = requested.quantization_limits.mismatch
    if mismatch is None:
        return replace(requested, files=files)
    own = read(files, None, trust_remote_code=trusted, before=before)
    limits = replace(own.quantization_limits, mismatch=mismatch)
    return replace(own, quantization_limits=limits, files=files)
