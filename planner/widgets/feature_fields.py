"""The parts of tables that have a field of their own, under vLLM's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.compilation import GraphMode
from planner.memory.media_limits import SIZES
from planner.widgets import parsing
from planner.widgets.fields import VLLMS_CHOICE, ChoiceField, EntryField, Field, Options
from planner.widgets.models import DraftField
from planner.widgets.tables import Part

MODALITIES: Mapping[str, str] = {
    "image": "images",
    "video": "videos",
    "audio": "sounds",
    "vision_chunk": "images and pieces of videos",
}
"""Names in limit_mm_per_prompt, and what they are."""
_SIZE_HINTS = {
    "width": "pixels that the profile run takes, at most",
    "height": "pixels that the profile run takes, at most",
    "num_frames": "frames that the profile run takes, at most",
    "length": "samples that the profile run takes, at most",
}
_PROCESSOR_HINTS = {
    "max_pixels": "larger images are shrunk to it",
    "min_pixels": "smaller images are enlarged to it",
    "max_dynamic_patch": "tiles that an image is cut into, at most",
    "min_dynamic_patch": "tiles that an image is cut into, at least",
    "max_patches": "tiles that an image is cut into, at most",
    "max_soft_tokens": "tokens of an image: 70, 140, 280, 560 or 1120",
    "longest_edge": "pixels along an image's longest side",
}
_FEW_TOKENS = {"num_speculative_tokens": 5}
_STARTS: Mapping[str, Mapping[str, Any]] = {
    "ngram": _FEW_TOKENS,
    "draft_model": _FEW_TOKENS,
    "eagle": {"num_speculative_tokens": 3},
    "eagle3": {"num_speculative_tokens": 3},
}
"""What vLLM asks for beside a method, as its guides have it; typed for the user."""
_METHODS = (
    ("ngram: what was said before", "ngram"),
    ("draft_model: a smaller model", "draft_model"),
    ("eagle3: a head made for the model", "eagle3"),
    ("eagle: a head made for the model", "eagle"),
    ("dflash: a draft of whole blocks", "dflash"),
    ("dspark: a draft of whole blocks", "dspark"),
    ("suffix: what was said in any request", "suffix"),
)
_OWN_LAYERS = ("mtp: layers of the model itself", "mtp")


def limits() -> list[Part]:
    """Return how many items of each modality, and how large."""
    return list(_limits())


def _limits() -> Iterator[Part]:
    for modality, words in MODALITIES.items():
        hint = f"{words} in a prompt, at most; 0: none"
        name = f"limit_mm_per_prompt.{modality}"
        count = EntryField(name, hint, parsing.FROM_NOTHING)
        yield _part(count, modality, "count")
        for size in SIZES.get(modality, ()):
            field = EntryField(f"{name}.{size}", _SIZE_HINTS[size], parsing.COUNT)
            yield _part(field, modality, size)


def processor_settings() -> list[Part]:
    """Return what processors of some families understand."""
    made = []
    for key, hint in _PROCESSOR_HINTS.items():
        field = EntryField(f"mm_processor_kwargs.{key}", hint, parsing.COUNT)
        path = ("size", key) if key == "longest_edge" else (key,)
        made.append(_part(field, *path))
    return made


def methods(*, has_own_layers: bool) -> Options:
    """Return the ways to guess ahead that a model can be started with."""
    own = (_OWN_LAYERS,) if has_own_layers else ()
    return ((VLLMS_CHOICE, None), *own, *_METHODS)


def guessing() -> list[Part]:
    """Return how tokens are guessed ahead: the method, and what it needs."""
    name = "speculative_config"
    method = ChoiceField(
        f"{name}.method", "how tokens are guessed", methods(has_own_layers=False)
    )
    numbers = {
        "num_speculative_tokens": "tokens guessed ahead in each step",
        "prompt_lookup_min": "tokens that must be alike, at least",
        "prompt_lookup_max": "tokens that must be alike, at most",
        "draft_tensor_parallel_size": "GPUs that share the draft: 1, or all",
    }
    sampling = ChoiceField(
        f"{name}.draft_sample_method",
        "probabilistic keeps the draft's logits",
        [
            (VLLMS_CHOICE, None),
            ("greedy", "greedy"),
            ("probabilistic", "probabilistic"),
        ],
    )
    draft = DraftField(f"{name}.model")
    return [
        _part(method, "method", starts=_STARTS),
        _part(draft, "model", label="draft model"),
        *(
            _part(EntryField(f"{name}.{key}", hint, parsing.COUNT), key)
            for key, hint in numbers.items()
        ),
        _part(sampling, "draft_sample_method"),
    ]


def graphs() -> list[Part]:
    """Return of what CUDA graphs are captured, and for which batches."""
    name = "compilation_config"
    mode = ChoiceField(
        f"{name}.cudagraph_mode",
        "what CUDA graphs are recorded of",
        [(VLLMS_CHOICE, None), *((str(one), str(one)) for one in GraphMode)],
    )
    sizes = EntryField(
        f"{name}.cudagraph_capture_sizes", "batch sizes with a graph", parsing.SIZES
    )
    return [_part(mode, "cudagraph_mode"), _part(sizes, "cudagraph_capture_sizes")]


def _part(
    field: Field,
    *path: str,
    label: str = "",
    starts: Mapping[str, Mapping[str, Any]] | None = None,
) -> Part:
    whole, _, own = field.name.partition(".")
    field.label = label or own
    field.term = next((term for term in (label, own) if term in TERMS), whole)
    return Part(field=field, path=path, starts=starts, is_switch=bool(starts))


TERMS = (
    *("num_speculative_tokens", "draft model", "max_pixels", "min_pixels"),
    *("cudagraph_mode", "cudagraph_capture_sizes"),
)
"""Entries of the glossary about parts of tables."""
