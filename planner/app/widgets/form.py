"""All fields of the explorer, in groups; gathers their values for one plan."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from planner.app.widgets import arguments, by_hand, choices
from planner.app.widgets.background import HubSearch
from planner.app.widgets.by_hand import ByHand
from planner.app.widgets.controls import Controls, FieldGroup
from planner.app.widgets.features import Features, Planned
from planner.app.widgets.fields import ChoiceField, EntryField, Field, doubling_steps
from planner.app.widgets.fields import FieldError as FieldError
from planner.app.widgets.fields import read_all as read_all
from planner.app.widgets.models import (
    GpuField,
    ModelField,
    described_gpu,
    other_gpu_fields,
)
from planner.app.widgets.needs import FOLLOWS, Needs
from planner.engine.gpu import GPU
from planner.engine.releases import NEWEST_RELEASE, Release, came_later, resolve_version
from planner.errors import (
    GatedModel,
    ModelNotFound,
    ModelUnavailable,
    PlannerError,
    UnknownArchitecture,
)
from planner.models import catalogue
from planner.models.architecture import ModelArchitecture
from planner.models.lengths import derived_max_model_len
from planner.planning.inputs import Inputs
from planner.planning.load import Load

SHORTEST, LONGEST = 512, 1 << 20
"""Tokens at the ends of the slider of lengths; the upper one for unknown models."""
SEQUENCE_STEPS = doubling_steps(1, 4096)
BATCH_STEPS = doubling_steps(256, 1 << 17)
SHARE_STEPS = tuple(round(0.05 + step / 100, 2) for step in range(96))
USUAL_SIZES = (1, 2, 4, 8)
"""Numbers of GPUs that have a button."""
SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
"""Numbers of GPUs on the face of the page."""


class Form:
    """The fields; `gather` reads them, `on_change` reports each user action.

    `main` shows the most important ones and, in folded groups, those of features;
    `more` shows all others by vLLM's groups.
    """

    def __init__(self, model: str, gpu: str | GPU) -> None:
        self._callbacks: list[Callable[[object], None]] = []
        self.needs = Needs(self._report)
        first = _first_groups(model, gpu)
        self.other_gpu = other_gpu_fields()
        card, *sizes = first[1].fields
        first[1] = FieldGroup(first[1].title, [card, *self.other_gpu.values(), *sizes])
        self.hand = ByHand()
        first.insert(1, self.hand.group)
        first.insert(0, self.needs.group)
        known = frozenset(field.name for group in first for field in group.fields)
        others = _other_groups(known)
        self.fields: dict[str, Field] = {
            field.name: field
            for group in (*first, *others)
            for field in group.fields
            if field is not self.needs.presets
        }
        self.features = Features(self.fields)
        self.main = Controls([*first, *self.features.groups])
        self._show_what_applies()
        self.search = HubSearch()
        self.main.find = self.search.find
        self._others = others
        self._release = ""
        self._graph_mode: str | None = None
        self._resolved: dict[type, tuple[str, ...]] = {}
        self.fields["vllm_version"].on_change(self._show_release)
        self._show_release(self.fields["vllm_version"])

    @cached_property
    def more(self) -> Controls:
        """All other fields by vLLM's groups; created at the first access."""
        more = Controls(self._others, finder="Find an argument")
        more.add_class("pc-more")
        return more

    @property
    def model(self) -> ModelField:
        """The field that names the model."""
        field = self.fields["model"]
        assert isinstance(field, ModelField)
        return field

    def on_change(self, callback: Callable[[object], None]) -> None:
        """Call `callback` once after each change of a field, or of several together."""
        if not self._callbacks:
            for field in self.fields.values():
                field.on_change(self._report)
            for table in self.features.tables:
                table.on_wrong(self._report)
        self._callbacks.append(callback)

    def _report(self, changed: object) -> None:
        if not self.needs.is_setting:
            for callback in self._callbacks:
                callback(changed)

    def gather(self) -> dict[str, Any]:
        """Return the keyword arguments for `planner.plan`, without those not set.

        Raises:
            PlannerError: when a field's entry is invalid; the field shows it too.
        """
        self._show_what_applies()
        values = read_all(self.fields)
        if self.features.wrong:
            raise FieldError(self.features.wrong)
        load = self.needs.load()
        for name, words in FOLLOWS.items():
            self.fields[name].say(own="" if load is None else words)
        if values["gpu"] == choices.OTHER_GPU:
            values["gpu"] = described_gpu(self.other_gpu)
        if self.hand.is_chosen:
            values |= {"model": self.hand.model(), "quantization": None}
        own = (*self.needs.parts, *self.other_gpu, *self.hand.fields)
        for name in own:  # no arguments of a plan
            values.pop(name, None)
        asked = values | {"load": load}
        return {name: value for name, value in asked.items() if value is not None}

    def set(self, values: Mapping[str, object]) -> None:
        """Set fields to these values; ignore values without a field."""
        load = values.get("load")
        if isinstance(load, Load):
            self.needs.put(load)
        for name, value in values.items():
            if name in self.fields and value is not None:
                self.fields[name].put(value)

    def take(self, inputs: Inputs) -> dict[str, Any]:
        """Set all fields to these inputs; return those that have no field."""
        chosen = self._offer_gpu(inputs.gpu)
        start = {"entrypoint": inputs.entrypoint, "vllm_version": inputs.vllm_version}
        name = getattr(inputs.model, "name", inputs.model)
        values = {**inputs.engine_args, **start, "model": name, "gpu": chosen}
        if inputs.load is not None:
            values |= inputs.load.to_dict()
        if name == by_hand.NAME:
            kept = {"model": self.model, **self.hand.fields}
            values |= {name: field.value for name, field in kept.items()}
        for name, field in self.fields.items():
            field.put(values.pop(name, None))
        return values | ({"env": dict(inputs.env)} if inputs.env else {})

    def put(self, values: Mapping[str, Any]) -> None:
        """Set some fields, and let the others be; None: the user has to choose."""
        for name, value in values.items():
            self.fields[name].put(self._offer_gpu(value) if name == "gpu" else value)

    def values(self) -> dict[str, Any]:
        """Return every field's value as it was entered; see `restore`."""
        return {name: field.value for name, field in self.fields.items()}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Return to the values of `values`."""
        self._offer_gpu(values["gpu"])
        for name, value in values.items():
            self.fields[name].value = value

    def _offer_gpu(self, gpu: str | GPU | None) -> object:
        """Update the list of GPUs so that it has this one; return its value there."""
        if gpu is None:  # it is asked for
            return None
        card = self.fields["gpu"]
        assert isinstance(card, ChoiceField)
        options, chosen = choices.gpus(gpu)
        if options != card.options:
            card.options = options
        return chosen

    def show_defaults(self, resolved: object) -> None:
        """Show what vLLM chose where it was left to vLLM."""
        for name in self._resolved_names(type(resolved)):
            self.fields[name].show_default(getattr(resolved, name))
        self._graph_mode = getattr(resolved, "cudagraph_mode", None)

    def _resolved_names(self, kind: type) -> tuple[str, ...]:
        """Return the fields for which resolved settings say vLLM's choice."""
        if kind not in self._resolved:
            names = (name for name in self.fields if hasattr(kind, name))
            self._resolved[kind] = tuple(names)
        return self._resolved[kind]

    def forget_defaults(self) -> None:
        """Show no longer what vLLM chose for another start; it has not chosen yet."""
        for field in self.fields.values():
            if not field.name.endswith("parallel_size"):  # left to vLLM, always 1
                field.say(chosen="")

    def show_model(self, model: ModelArchitecture) -> None:
        """Show what applies to the model; end the slider of lengths at its limit."""
        release = _release(self._release)
        if not self.features.show(Planned(model, release, self._graph_mode)):
            return
        self._show_what_applies()
        field = self.fields["max_model_len"]
        assert isinstance(field, EntryField)
        limit = derived_max_model_len(model, release)
        most = int(limit) if SHORTEST < limit < 1 << 30 else LONGEST
        field.set_steps(doubling_steps(SHORTEST, most))
        if not field.chosen and most == limit:
            field.show_default(most)

    def place_error(self, error: PlannerError | str) -> bool:
        """Show an error of planning at the first field that it names.

        An error of reading the model is shown there, with the nearest names. False
        where it names none.
        """
        name = str(self.model.value)
        if isinstance(error, ModelNotFound | ModelUnavailable) and name in str(error):
            instead = error.instead if isinstance(error, GatedModel) else ()
            self.model.show_error(str(error), instead or catalogue.nearest(name))
            return True
        if self.fields["gpu"].value == choices.OTHER_GPU:
            for part in self.other_gpu.values():
                if part.value and f"{part.value!r}" in str(error):
                    part.show_error(str(error))
                    return True
        parts = self.features.parts
        named = re.findall(r"[a-z0-9]+(?:[._-][a-z0-9]+)*", str(error))
        for word in named:
            name = word.replace("-", "_")
            field = parts.get(name) or self.fields.get(name.partition(".")[0])
            if field is not None and _is_argument(word, str(error)):
                field.show_error(str(error))
                return True
        if isinstance(error, UnknownArchitecture):
            self.model.show_error(str(error))
            return True
        return False

    def _show_what_applies(self) -> None:
        gone = self.features.gone()
        if self.fields["gpu"].value != choices.OTHER_GPU:
            gone += self.other_gpu
        gone += [*self.hand.gone(), *["quantization"] * self.hand.is_chosen]
        if gone != self.main.gone:
            self.main.gone = gone

    def _show_release(self, field: Field) -> None:
        """Mark the arguments that the chosen release does not have yet."""
        self._release = str(field.value)
        release = _release(self._release)
        for name, one in self.fields.items():
            first = came_later("arguments", name, release)
            one.say(since=first or "")


def _is_argument(word: str, text: str) -> bool:
    """Whether a word that may be plain English names an argument here."""
    if "_" in word or "-" in word:
        return True
    return re.search(rf"--{word}\b|\b{word}=|[`'\"]{word}[`'\"]", text) is not None


def _release(text: str) -> Release:
    try:
        return resolve_version(text)[0]
    except PlannerError:
        return NEWEST_RELEASE


def _first_groups(model: str, gpu: str | GPU) -> list[FieldGroup]:
    quantization = arguments.field_of("quantization")
    assert isinstance(quantization, ChoiceField)
    quantization.options = (("as published", None), *quantization.options[1:])
    expert = _field("enable_expert_parallel")
    expert.kind = "switch"
    length = _with_slider("max_model_len", doubling_steps(SHORTEST, LONGEST))
    share = _with_slider("gpu_memory_utilization", SHARE_STEPS)
    sizes = [_with_buttons(name) for name in SIZES]
    name = ModelField(choices.models(), model)
    name.title = "Model"
    return [
        FieldGroup("", [name, quantization, _field("dtype")]),
        FieldGroup("GPUs and parallelism", [_gpu_field(gpu), *sizes, expert]),
        FieldGroup(
            "Limits",
            [
                length,
                _with_slider("max_num_seqs", SEQUENCE_STEPS),
                _field("kv_cache_dtype"),
                share,
            ],
        ),
    ]


def _field(name: str) -> Field:
    return arguments.field_of(name)


def _with_slider(name: str, steps: Sequence[float]) -> EntryField:
    field = arguments.field_of(name)
    assert isinstance(field, EntryField)
    field.set_steps(steps)
    return field


def _with_buttons(name: str) -> EntryField:
    field = arguments.field_of(name)
    assert isinstance(field, EntryField)
    field.kind, field.usual = "sizes", USUAL_SIZES
    return field


def _gpu_field(gpu: str | GPU) -> ChoiceField:
    options, chosen = choices.gpus(gpu)
    card = GpuField("gpu", "each of them", options, grouped=choices.generation)
    card.title = "GPU"
    card.value = chosen
    card.default = None  # else the first GPU in the list would count as not set
    return card


def _other_groups(without: frozenset[str]) -> list[FieldGroup]:
    start = [
        ChoiceField("entrypoint", "how vLLM is started", choices.ENTRYPOINTS),
        ChoiceField("vllm_version", "whose rules are used", choices.releases()),
    ]
    groups = arguments.groups(without)
    for fields in groups.values():
        for field in fields:
            if field.name == "max_num_batched_tokens" and isinstance(field, EntryField):
                field.set_steps(BATCH_STEPS)
    made = [FieldGroup(title, fields) for title, fields in groups.items()]
    return [FieldGroup("Start", start), *made]
