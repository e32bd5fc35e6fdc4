"""Groups for what users switch on: adapters, images, drafts, offloading, graphs.

They are another door to arguments that stand under "All engine arguments" too, and show
what applies: to the model, and to what is switched on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from planner.memory.media_limits import known_sizes
from planner.memory.pixels import understood_keys
from planner.memory.towers import UNLIMITED
from planner.model import ModelArchitecture
from planner.releases import NEWEST_RELEASE, Release
from planner.speculating.methods import mtp_type
from planner.widgets import feature_fields as parts
from planner.widgets.controls import Group
from planner.widgets.fields import ChoiceField, EntryField, Field
from planner.widgets.tables import Table

Fields = Mapping[str, Field]

_LORA = (
    *("enable_lora", "max_loras", "max_lora_rank", "fully_sharded_loras"),
    *("lora_dtype", "max_cpu_loras", "lora_target_modules", "specialize_active_lora"),
)
_LORA_OF_EXPERTS = ("enable_mixed_moe_lora_format", "enable_moe_shared_loras")
_LORA_OF_ENCODERS = ("enable_tower_connector_lora",)
_ENCODERS = ("mm_processor_cache_gb", "skip_mm_profiling")
_GUESSES = ("spec_method", "spec_model", "spec_tokens")
_MACHINE = (
    *("cpu_offload_gb", "offload_backend", "kv_offloading_size", "enable_sleep_mode"),
    *("node_memory_gib", "node_gpus", "load_format"),
    *("disk_gb_per_second", "pcie_gb_per_second"),
)
_PREFETCH = ("offload_group_size", "offload_num_in_group", "offload_prefetch_step")
_SIZES = ("cudagraph_capture_sizes", "max_cudagraph_capture_size")


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan on the screen, as far as it decides what applies."""

    model: ModelArchitecture | None = None
    release: Release = NEWEST_RELEASE
    graph_mode: str | None = None


class Features:
    """The groups, the tables that some of their fields are parts of, and what is gone.

    `fields` are the controls of whole arguments, which the groups show again.
    """

    def __init__(self, fields: Fields) -> None:
        self._fields = dict(fields)
        self.limits = Table(_table(fields, "limit_mm_per_prompt"), parts.limits())
        self.processor = Table(
            _table(fields, "mm_processor_kwargs"), parts.processor_settings()
        )
        self.guessing = Table(_table(fields, "speculative_config"), parts.guessing())
        self.graphs = Table(
            _table(fields, "compilation_config"), parts.graphs(), alone="mode"
        )
        self.tables = (self.limits, self.processor, self.guessing, self.graphs)
        self.parts: dict[str, Field] = {
            part.field.name: part.field for table in self.tables for part in table.parts
        }
        self._planned = Planned()
        self.groups = tuple(self._groups())

    @property
    def wrong(self) -> str:
        """What is wrong with an entry of a part; empty where nothing is."""
        return next((table.wrong for table in self.tables if table.wrong), "")

    def show(self, planned: Planned) -> None:
        """Take what applies from a plan, and show vLLM's choices."""
        before = self._planned
        is_same = planned.model is before.model and planned.release is before.release
        if not is_same or planned.graph_mode != before.graph_mode:
            self._planned = planned
            self._show_choices(planned)

    def gone(self) -> list[str]:
        """Return the fields that mean nothing at present: they do not apply."""
        applies = {*self._of_adapters(), *self._of_media(), *self._of_guessing()}
        applies |= {*self._of_machines(), *self._of_graphs()}
        return [
            field.name
            for group in self.groups
            for field in group.fields
            if field.name not in applies and not field.is_set
        ]

    def _groups(self) -> Iterator[Group]:
        named = self._fields
        media = ("language_model_only", "mm_encoder_tp_mode", *_ENCODERS)
        limits, processor = self.limits.fields, self.processor.fields
        adapters = (*_LORA, *_LORA_OF_EXPERTS, *_LORA_OF_ENCODERS)
        yield _folded("LoRA", [named[name] for name in adapters])
        yield _folded(
            "Images, video and audio",
            [named["language_model_only"], *limits[:-1], *processor[:-1]]
            + [named[name] for name in media[1:]]
            + [limits[-1], processor[-1]],
        )
        yield _folded(
            "Speculative decoding",
            [*self.guessing.fields, *(named[name] for name in _GUESSES)],
        )
        yield _folded(
            "Offloading and host memory",
            [named[name] for name in (*_MACHINE[:2], *_PREFETCH, *_MACHINE[2:])],
        )
        (mode, sizes), whole = self.graphs.fields[:-1], self.graphs.fields[-1]
        yield _folded(
            "CUDA graphs",
            [named["enforce_eager"], mode, sizes, *(named[n] for n in _SIZES), whole],
        )

    def _of_adapters(self) -> Iterator[str]:
        if self._fields["enable_lora"].value is not True:
            yield _LORA[0]
            return
        yield from _LORA
        model = self._planned.model
        if model is not None and model.is_moe:
            yield from _LORA_OF_EXPERTS
        if model is not None and model.towers:
            yield from _LORA_OF_ENCODERS

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
        yield from _ENCODERS
        if any(tower.supports_data_parallel for tower in model.towers):
            yield "mm_encoder_tp_mode"

    def _of_guessing(self) -> Iterator[str]:
        name = "speculative_config"
        yield f"{name}.method"
        if not self.guessing.whole.is_set:
            return
        yield f"{name}.num_speculative_tokens"
        method = self.guessing.value(f"{name}.method")
        if method == "ngram":
            yield from (f"{name}.prompt_lookup_min", f"{name}.prompt_lookup_max")
        elif method not in ("suffix", "ngram_gpu"):
            yield f"{name}.draft_sample_method"
            if method != "mtp":
                yield from (f"{name}.model", f"{name}.draft_tensor_parallel_size")

    def _of_machines(self) -> Iterator[str]:
        yield from _MACHINE
        if self._fields["offload_backend"].value == "prefetch":
            yield from _PREFETCH

    def _of_graphs(self) -> Iterator[str]:
        yield "enforce_eager"
        if self._fields["enforce_eager"].value is True:
            return
        yield "compilation_config.cudagraph_mode"
        if self._fields[_SIZES[0]].since:
            yield "compilation_config.cudagraph_capture_sizes"
        else:
            yield from _SIZES

    def _show_choices(self, planned: Planned) -> None:
        model = planned.model
        self.parts["compilation_config.cudagraph_mode"].show_default(planned.graph_mode)
        if model is None:
            return
        for modality in parts.MODALITIES:
            self.parts[f"limit_mm_per_prompt.{modality}"].show_default(UNLIMITED)
        for tower in model.towers:
            for item in tower.items:
                if item.resizing is not None and item.modality == "image":
                    most = self.parts["mm_processor_kwargs.max_pixels"]
                    most.show_default(item.resizing.most_pixels)
        method = self.parts["speculative_config.method"]
        assert isinstance(method, ChoiceField)
        config = {} if model.files is None else model.files.config
        options = parts.methods(has_own_layers=mtp_type(config) is not None)
        if options != method.options and not method.is_set:
            method.options = options
        found = model.speculation
        method.show_default("none" if found is None else found.method)
        if found is not None:
            tokens = self.parts["speculative_config.num_speculative_tokens"]
            tokens.show_default(found.num_speculative_tokens)


def _folded(title: str, fields: list[Field]) -> Group:
    return Group(title, fields, is_folded=True)


def _table(fields: Fields, name: str) -> EntryField:
    field = fields[name]
    assert isinstance(field, EntryField)
    return field
