"""Groups of fields by feature: adapters, images, drafts, offloading, CUDA graphs.

They show arguments that "All engine arguments" has too, as far as they apply to the
model and to what is switched on. Parts of arguments that are tables have fields of
their own. Plain words stand beside vLLM's names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.app.widgets import parsing
from planner.app.widgets.controls import FieldGroup
from planner.app.widgets.fields import (
    VLLMS_CHOICE,
    ChoiceField,
    EntryField,
    Field,
    Options,
)
from planner.app.widgets.models import DraftField
from planner.app.widgets.tables import FieldTable, SubField
from planner.engine.arguments import ARGUMENTS, Feature, featured
from planner.engine.releases import NEWEST_RELEASE, Release
from planner.memory.compilation import GraphMode
from planner.memory.media.media_limits import SIZES, known_sizes
from planner.memory.media.pixels import understood_keys
from planner.memory.media.towers import UNLIMITED
from planner.models.architecture import ModelArchitecture
from planner.models.drafts.methods import mtp_type
from planner.values import frozen

MODALITIES: Mapping[str, str] = {
    "image": "images",
    "video": "videos",
    "audio": "sounds",
    "vision_chunk": "images and pieces of videos",
}
"""Names in limit_mm_per_prompt, and the words for them."""
_SIZE_HINTS = {
    "width": "pixels in the profile run, at most",
    "height": "pixels in the profile run, at most",
    "num_frames": "frames in the profile run, at most",
    "length": "samples in the profile run, at most",
}
_PROCESSOR_HINTS = {
    "max_pixels": "larger images are shrunk to this size",
    "min_pixels": "smaller images are enlarged to this size",
    "max_dynamic_patch": "tiles per image, at most",
    "min_dynamic_patch": "tiles per image, at least",
    "max_patches": "tiles per image, at most",
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
"""What vLLM requires beside a method, with the values of its guides; filled in."""
_METHODS = (
    ("ngram: earlier text of the request", "ngram"),
    ("draft_model: a smaller model", "draft_model"),
    ("eagle3: a head made for the model", "eagle3"),
    ("eagle: a head made for the model", "eagle"),
    ("dflash: a draft that proposes whole blocks", "dflash"),
    ("dspark: a draft that proposes whole blocks", "dspark"),
    ("suffix: text of any request", "suffix"),
)
_OWN_LAYERS = ("mtp: layers of the model itself", "mtp")
TERMS = (
    *("num_speculative_tokens", "draft model", "max_pixels", "min_pixels"),
    *("cudagraph_mode", "cudagraph_capture_sizes"),
)
"""Entries of the glossary for parts of tables."""
Fields = Mapping[str, Field]
_ADAPTERS = (
    Feature.ADAPTERS,
    Feature.ADAPTERS_OF_EXPERTS,
    Feature.ADAPTERS_OF_ENCODERS,
)


@frozen(kw_only=False)
class Planned:
    """What of the current plan decides which fields apply."""

    model: ModelArchitecture | None = None
    release: Release = NEWEST_RELEASE
    graph_mode: str | None = None


class Features:
    """The groups, the tables that some fields are parts of, and the hidden fields.

    `fields` are the fields of whole arguments, which the groups show too.
    """

    def __init__(self, fields: Fields) -> None:
        self._fields = dict(fields)
        self.limits = FieldTable(_table(fields, "limit_mm_per_prompt"), limits())
        self.processor = FieldTable(
            _table(fields, "mm_processor_kwargs"), processor_settings()
        )
        self.speculation = FieldTable(
            _table(fields, "speculative_config"), speculation()
        )
        self.graphs = FieldTable(
            _table(fields, "compilation_config"), graphs(), alone="mode"
        )
        self.tables = (self.limits, self.processor, self.speculation, self.graphs)
        self.parts: dict[str, Field] = {
            part.field.name: part.field for table in self.tables for part in table.parts
        }
        self._planned = Planned()
        self.groups = tuple(self._groups())

    @property
    def wrong(self) -> str:
        """The error of a part's entry; empty without one."""
        return next((table.wrong for table in self.tables if table.wrong), "")

    def show(self, planned: Planned) -> bool:
        """Update which fields apply to a plan, and show vLLM's choices.

        Returns:
            Whether that is another plan's model, release or mode than before.
        """
        before = self._planned
        is_same = planned.model is before.model and planned.release is before.release
        if is_same and planned.graph_mode == before.graph_mode:
            return False
        self._planned = planned
        self._show_choices(planned)
        return True

    def gone(self) -> list[str]:
        """Return the fields that do not apply at present and are not set."""
        applies = {*self._of_adapters(), *self._of_media(), *self._of_speculation()}
        applies |= {*self._of_machines(), *self._of_graphs()}
        return [
            field.name
            for group in self.groups
            for field in group.fields
            if field.name not in applies and not field.is_set
        ]

    def _groups(self) -> Iterator[FieldGroup]:
        named = self._fields
        limits, processor = self.limits.fields, self.processor.fields
        yield _folded("LoRA", self._of(*_ADAPTERS))
        yield _folded(
            "Images, video and audio",
            [
                *(named["language_model_only"], *limits[:-1], *processor[:-1]),
                *(*self._of(Feature.ENCODERS), limits[-1], processor[-1]),
            ],
        )
        yield _folded(
            "Speculative decoding",
            [*self.speculation.fields, *self._of(Feature.DRAFTS)],
        )
        yield _folded(
            "Offloading and host memory",
            self._of(Feature.OFFLOADING, Feature.PREFETCHING, Feature.HOST_MEMORY),
        )
        (mode, sizes), whole = self.graphs.fields[:-1], self.graphs.fields[-1]
        flags = self._of(Feature.GRAPH_SIZES)
        yield _folded(
            "CUDA graphs", [named["enforce_eager"], mode, sizes, *flags, whole]
        )

    def _of(self, *features: Feature) -> list[Field]:
        return [self._fields[name] for one in features for name in featured(one)]

    def _of_adapters(self) -> Iterator[str]:
        if self._fields["enable_lora"].value is not True:
            yield "enable_lora"
            return
        yield from featured(Feature.ADAPTERS)
        model = self._planned.model
        if model is not None and model.is_moe:
            yield from featured(Feature.ADAPTERS_OF_EXPERTS)
        if model is not None and model.towers:
            yield from featured(Feature.ADAPTERS_OF_ENCODERS)

    def _of_media(self) -> Iterator[str]:
        model, release = self._planned.model, self._planned.release
        if model is None or not model.towers:
            return
        yield "language_model_only"
        if self._fields["language_model_only"].value is True:
            return
        for modality in dict.fromkeys(n for t in model.towers for n in t.modalities):
            yield f"limit_mm_per_prompt.{modality}"
            for size in known_sizes(modality, model, release):
                yield f"limit_mm_per_prompt.{modality}.{size}"
        for key in understood_keys(model, release):
            yield f"mm_processor_kwargs.{key}"
        can_be_whole = any(tower.supports_data_parallel for tower in model.towers)
        for name in featured(Feature.ENCODERS):
            if name != "mm_encoder_tp_mode" or can_be_whole:
                yield name

    def _of_speculation(self) -> Iterator[str]:
        name = "speculative_config"
        yield f"{name}.method"
        if not self.speculation.whole.is_set:
            return
        yield f"{name}.num_speculative_tokens"
        method = self.speculation.value(f"{name}.method")
        if method == "ngram":
            yield from (f"{name}.prompt_lookup_min", f"{name}.prompt_lookup_max")
        elif method not in ("suffix", "ngram_gpu"):
            yield f"{name}.draft_sample_method"
            if method != "mtp":
                yield from (f"{name}.model", f"{name}.draft_tensor_parallel_size")

    def _of_machines(self) -> Iterator[str]:
        yield from (*featured(Feature.OFFLOADING), *featured(Feature.HOST_MEMORY))
        if self._fields["offload_backend"].value == "prefetch":
            yield from featured(Feature.PREFETCHING)

    def _of_graphs(self) -> Iterator[str]:
        yield "enforce_eager"
        if self._fields["enforce_eager"].value is True:
            return
        yield "compilation_config.cudagraph_mode"
        flags = featured(Feature.GRAPH_SIZES)
        if any(self._fields[name].since for name in flags):
            yield "compilation_config.cudagraph_capture_sizes"
        else:
            yield from flags

    def _show_choices(self, planned: Planned) -> None:
        model = planned.model
        self.parts["compilation_config.cudagraph_mode"].show_default(planned.graph_mode)
        if model is None:
            return
        for modality in MODALITIES:
            self.parts[f"limit_mm_per_prompt.{modality}"].show_default(UNLIMITED)
        for tower in model.towers:
            for item in tower.items:
                if item.resizing is not None and item.modality == "image":
                    most = self.parts["mm_processor_kwargs.max_pixels"]
                    most.show_default(item.resizing.most_pixels)
        method = self.parts["speculative_config.method"]
        assert isinstance(method, ChoiceField)
        config = {} if model.files is None else model.files.config
        options = methods(has_own_layers=mtp_type(config) is not None)
        if options != method.options and not method.is_set:
            method.options = options
        found = model.speculation
        method.show_default("none" if found is None else found.method)
        if found is not None:
            tokens = self.parts["speculative_config.num_speculative_tokens"]
            tokens.show_default(found.num_speculative_tokens)


def limits() -> list[SubField]:
    """Return the fields for the number and size of items of each modality."""
    return list(_limits())


def _limits() -> Iterator[SubField]:
    for modality, words in MODALITIES.items():
        hint = f"{words} in a prompt, at most; 0: none"
        name = f"limit_mm_per_prompt.{modality}"
        count = EntryField(name, hint, parsing.FROM_NOTHING)
        yield _part(count, modality, "count")
        for size in SIZES.get(modality, ()):
            field = EntryField(f"{name}.{size}", _SIZE_HINTS[size], parsing.COUNT)
            yield _part(field, modality, size)


def processor_settings() -> list[SubField]:
    """Return the fields for settings of some families' processors."""
    made = []
    for key, hint in _PROCESSOR_HINTS.items():
        field = EntryField(f"mm_processor_kwargs.{key}", hint, parsing.COUNT)
        path = ("size", key) if key == "longest_edge" else (key,)
        made.append(_part(field, *path))
    return made


def methods(*, has_own_layers: bool) -> Options:
    """Return the methods of speculative decoding for a model."""
    own = (_OWN_LAYERS,) if has_own_layers else ()
    return ((VLLMS_CHOICE, None), *own, *_METHODS)


def speculation() -> list[SubField]:
    """Return the fields of speculative decoding: the method, and its settings."""
    name = "speculative_config"
    method = ChoiceField(
        f"{name}.method", "method that proposes tokens", methods(has_own_layers=False)
    )
    numbers = {
        "num_speculative_tokens": "tokens proposed in each step",
        "prompt_lookup_min": "matching tokens, at least",
        "prompt_lookup_max": "matching tokens, at most",
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
        _part(draft, "model", label=draft.name, term="draft model"),
        *(
            _part(EntryField(f"{name}.{key}", hint, parsing.COUNT), key)
            for key, hint in numbers.items()
        ),
        _part(sampling, "draft_sample_method"),
    ]


def graphs() -> list[SubField]:
    """Return the fields for the mode and the batch sizes of CUDA graphs."""
    name = "compilation_config"
    mode = ChoiceField(
        f"{name}.cudagraph_mode",
        "what CUDA graphs capture",
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
    term: str = "",
    starts: Mapping[str, Mapping[str, Any]] | None = None,
) -> SubField:
    whole, _, own = field.name.partition(".")
    field.label = label or own
    field.title = ARGUMENTS[whole].labels[own]
    field.term = next((one for one in (term, own) if one in TERMS), whole)
    return SubField(field=field, path=path, starts=starts, is_switch=bool(starts))


def _folded(title: str, fields: list[Field]) -> FieldGroup:
    return FieldGroup(title, fields, is_folded=True)


def _table(fields: Fields, name: str) -> EntryField:
    field = fields[name]
    assert isinstance(field, EntryField)
    return field
