"""The entry point: a model's files in, a ModelArchitecture or a clear refusal out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache

from planner.engine.releases import NEWEST, Release
from planner.engine.releases.change import RefusedSince, recorded
from planner.errors import PlannerError, UnknownArchitecture, close_words
from planner.models.architecture import ModelArchitecture
from planner.models.families import registry
from planner.models.families.assembly import Label
from planner.models.families.conversion import base_of, converted
from planner.models.families.facts import facts_for, last_field
from planner.models.families.naming import with_names
from planner.models.families.recorded import check_recorded_as, read_recorded
from planner.models.families.refused import (
    REMOVED_IN,
    check_architecture,
    check_custom_code,
    check_model_type,
    check_sizes,
    is_served_by_transformers,
    vllm_architectures,
)
from planner.models.families.registry import Before, readers
from planner.models.files import ModelFiles
from planner.models.quantization import quantised
from planner.models.recordings import find_recording


def supported_architectures() -> tuple[str, ...]:
    """Names of the architectures the planner understands, sorted."""
    return tuple(sorted(readers()))


def built_otherwise(files: ModelFiles, release: Release) -> Before | None:
    """Return the change until which a model was built as by `release`; None: now.

    Rules that a layer follows by itself (`ParallelLayout.release`) do not count.
    """
    names = files.config.get("architectures")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        return None
    return registry.built_otherwise(names[0], release)


@lru_cache(maxsize=64)
def read(
    files: ModelFiles,
    quantization: str | None = None,
    *,
    trust_remote_code: bool = False,
    before: Before | None = None,
) -> ModelArchitecture:
    """Return the model as vLLM builds it, cached for the same files.

    `quantization` and `trust_remote_code` are the engine arguments of these names;
    `before` is an answer of `built_otherwise`.

    Raises:
        UnknownArchitecture: naming the field that was not understood.
        PlannerError: when config.json is not one of a model.
        Refused: in vLLM's words, for an architecture that it has dropped, or custom
            code that the user has not allowed.
    """
    check_custom_code(files.name, files.config, is_trusted=trust_remote_code)
    check_model_type(files.config)
    architecture = _architecture_name(files)
    if architecture in REMOVED_IN and not is_served_by_transformers(architecture):
        last = REMOVED_IN[architecture]
        major, minor, patch = map(int, last.split("."))
        raise RefusedSince(
            f"Model architecture {architecture} was supported in vLLM until "
            f"v{last}, and is not supported anymore. Please use an older version of "
            "vLLM if you want to use this model architecture.",
            since=recorded(
                f"The class of {architecture} is gone.",
                since=f"{major}.{minor}.{patch + 1}",
                source="vLLM 0.33.0 `models/registry.py` _PREVIOUSLY_SUPPORTED_MODELS",
            ),
        )
    base = architecture
    if architecture not in readers() and architecture not in vllm_architectures():
        base = base_of(architecture, readers()) or architecture
    recording = None if base in readers() else find_recording(files.config)
    if recording is None:
        try:
            return _built(files, (architecture, base), quantization, before)
        except UnknownArchitecture:
            recording = find_recording(files.config)
            if recording is None:
                raise
    check_recorded_as(recording, quantization)
    return read_recorded(files, recording)


def _built(
    files: ModelFiles,
    names: tuple[str, str],
    quantization: str | None,
    before: Before | None,
) -> ModelArchitecture:
    """Return the model as its reader builds it.

    Args:
        files: the model's files.
        names: of its architecture, and of that from which it is converted.
        quantization: the engine argument.
        before: an answer of `built_otherwise`.

    Raises:
        UnknownArchitecture: without a reader, or naming what it does not read.
    """
    architecture, base = names
    reader = readers(before).get(base)
    if reader is None:
        check_architecture(architecture, files.config)
        raise _unknown(files, architecture)
    model_type = str(files.config.get("model_type", ""))
    with _naming(files, last_field):
        facts = facts_for(dict(files.config), model_type)
        label = Label(name=files.name, architecture=base, readers=readers())
        model = reader(facts, label)
        check_sizes(model)
        model = with_names(model)
        if base != architecture:
            model = converted(model, facts, architecture)
    with _naming(files, lambda: "quantization_config"):
        model = quantised(model, files, quantization)
    return replace(
        model,
        source=files.source,
        is_certain=files.is_certain,
        shape_of=files.shape_of,
    )


@contextmanager
def _naming(files: ModelFiles, field: Callable[[], str]) -> Iterator[None]:
    """Turn a reader's failure on a malformed config into an error naming the field.

    Readers trust the shape of nested values; no config.json may end in a traceback.
    """
    try:
        yield
    except PlannerError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as e:
        raise UnknownArchitecture(
            f"config.json of {files.name!r} was not understood at {field()} "
            f"({type(e).__name__}: {e}). Is the value what the model's publisher wrote?"
        ) from e


def _architecture_name(files: ModelFiles) -> str:
    names = files.config.get("architectures")
    if isinstance(names, list) and names and isinstance(names[0], str):
        return names[0]
    raise PlannerError(
        f"config.json of {files.name!r} has no `architectures`; vLLM needs its first "
        "entry to know the model. Is this the config.json of a model?"
    )


def _unknown(files: ModelFiles, architecture: str) -> UnknownArchitecture:
    near = close_words(architecture, readers(), most=3)
    hint = f" Nearest known: {', '.join(near)}." if near else ""
    return UnknownArchitecture(
        f"architectures: {architecture!r} (of {files.name!r}) is not modelled yet."
        f"{hint} Two ways to a plan: vLLM itself answers without a GPU, on Linux "
        f"(python -m venv vllm-env && vllm-env/bin/pip install vllm=={NEWEST}, 10 GB; "
        "with PLANNER_VLLM_PYTHON=vllm-env/bin/python `planner plan` asks it, and so "
        "does planner.dry_run); or a recording of it, which `planner record` makes "
        "there and any machine reads."
    )
