"""All fields of the explorer, in groups; gathers their values for one plan."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from planner.app.widgets import arguments, choices
from planner.app.widgets.background import HubSearch
from planner.app.widgets.controls import Controls, Group
from planner.app.widgets.features import Features, Planned
from planner.app.widgets.fields import ChoiceField, EntryField, Field, doubling_steps
from planner.app.widgets.fields import FieldError as FieldError
from planner.app.widgets.fields import read_all as read_all
from planner.app.widgets.models import ModelField
from planner.engine.gpu import GPU
from planner.engine.releases import NEWEST_RELEASE, Release, came_later, resolve_version
from planner.errors import PlannerError
from planner.models.architecture import ModelArchitecture
from planner.models.lengths import derived_max_model_len
from planner.planning.inputs import Inputs

SHORTEST, LONGEST = 512, 1 << 20
"""Tokens at the ends of the slider of lengths; the upper one for unknown models."""
SEQUENCE_STEPS = doubling_steps(1, 4096)
BATCH_STEPS = doubling_steps(256, 1 << 17)
SHARE_STEPS = tuple(round(0.05 + step / 100, 2) for step in range(96))


class Form:
    """The fields; `gather` reads them, `on_change` reports each user action.

    `main` shows the most important ones and, in folded groups, those of features;
    `more` shows all others by vLLM's groups.
    """

    def __init__(self, model: str, gpu: str | GPU) -> None:
        first = _first_groups(model, gpu)
        known = frozenset(field.name for group in first for field in group.fields)
        others = _other_groups(known)
        self.fields: dict[str, Field] = {
            field.name: field for group in (*first, *others) for field in group.fields
        }
        self.features = Features(self.fields)
        self.main = Controls([*first, *self.features.groups])
        self._show_what_applies()
        self.search = HubSearch()
        self.main.find = self.search.find
        self._others = others
        self._release = ""
        self._graph_mode: str | None = None
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
        """Call `callback` once after each change of a field."""
        for field in self.fields.values():
            field.on_change(callback)
        for table in self.features.tables:
            table.on_wrong(callback)

    def gather(self) -> dict[str, Any]:
        """Return the keyword arguments for `planner.plan`, without those not set.

        Raises:
            PlannerError: when a field's entry is invalid; the field shows it too.
        """
        self._show_what_applies()
        values = read_all(self.fields)
        if self.features.wrong:
            raise FieldError(self.features.wrong)
        return {name: value for name, value in values.items() if value is not None}

    def set(self, values: Mapping[str, object]) -> None:
        """Set fields to these values; ignore values without a field."""
        for name, value in values.items():
            if name in self.fields and value is not None:
                self.fields[name].put(value)

    def take(self, inputs: Inputs) -> dict[str, Any]:
        """Set all fields to these inputs; return those that have no field."""
        chosen = self._offer_gpu(inputs.gpu)
        start = {"entrypoint": inputs.entrypoint, "vllm_version": inputs.vllm_version}
        name = getattr(inputs.model, "name", inputs.model)
        values = {**inputs.engine_args, **start, "model": name, "gpu": chosen}
        for name, field in self.fields.items():
            field.put(values.pop(name, None))
        return values | ({"env": dict(inputs.env)} if inputs.env else {})

    def values(self) -> dict[str, Any]:
        """Return every field's value as it was entered; see `restore`."""
        return {name: field.value for name, field in self.fields.items()}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Return to the values of `values`."""
        self._offer_gpu(values["gpu"])
        for name, value in values.items():
            self.fields[name].value = value

    def _offer_gpu(self, gpu: str | GPU) -> object:
        """Update the list of GPUs so that it has this one; return its value there."""
        card = self.fields["gpu"]
        assert isinstance(card, ChoiceField)
        options, chosen = choices.gpus(gpu)
        if options != card.options:
            card.options = options
        return chosen

    def show_defaults(self, resolved: object) -> None:
        """Show what vLLM chose where it was left to vLLM."""
        for name, field in self.fields.items():
            field.show_default(getattr(resolved, name, None))
        self._graph_mode = getattr(resolved, "cudagraph_mode", None)

    def show_model(self, model: ModelArchitecture) -> None:
        """Show what applies to the model; end the slider of lengths at its limit."""
        release = _release(self._release)
        self.features.show(Planned(model, release, self._graph_mode))
        self._show_what_applies()
        field = self.fields["max_model_len"]
        assert isinstance(field, EntryField)
        limit = derived_max_model_len(model, release)
        most = int(limit) if SHORTEST < limit < 1 << 30 else LONGEST
        field.set_steps(doubling_steps(SHORTEST, most))

    def place_error(self, error: PlannerError | str) -> bool:
        """Show an error of planning at the first field that it names.

        False where it names none: then the caller has to show it.
        """
        parts = self.features.parts
        named = re.findall(r"[a-z0-9]+(?:[._-][a-z0-9]+)*", str(error))
        for word in named:
            name = word.replace("-", "_")
            field = parts.get(name) or self.fields.get(name.partition(".")[0])
            if field is not None and _is_argument(word, str(error)):
                field.show_error(str(error))
                return True
        return False

    def _show_what_applies(self) -> None:
        gone = self.features.gone()
        if gone != self.main.gone:
            self.main.gone = gone

    def _show_release(self, field: Field) -> None:
        """Mark the arguments that the chosen release does not have yet."""
        self._release = str(field.value)
        release = _release(self._release)
        for name, one in self.fields.items():
            first = came_later("arguments", name, release)
            one.show_since(first or "")


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


def _first_groups(model: str, gpu: str | GPU) -> list[Group]:
    quantization = arguments.field_of("quantization")
    assert isinstance(quantization, ChoiceField)
    quantization.options = (("as published", None), *quantization.options[1:])
    length = _with_slider("max_model_len", doubling_steps(SHORTEST, LONGEST))
    share = _with_slider("gpu_memory_utilization", SHARE_STEPS)
    return [
        Group("Model", [ModelField(choices.models(), model), quantization]),
        Group("GPU", [_gpu_field(gpu), _field("tensor_parallel_size"), share]),
        Group(
            "Load",
            [
                length,
                _with_slider("max_num_seqs", SEQUENCE_STEPS),
                _field("kv_cache_dtype"),
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


def _gpu_field(gpu: str | GPU) -> ChoiceField:
    options, chosen = choices.gpus(gpu)
    card = ChoiceField("gpu", "each of them", options)
    card.value = chosen
    card.default = None  # else the first GPU in the list would count as not set
    return card


def _other_groups(without: frozenset[str]) -> list[Group]:
    start = [
        ChoiceField("entrypoint", "how vLLM is started", choices.ENTRYPOINTS),
        ChoiceField("vllm_version", "whose rules are used", choices.releases()),
    ]
    groups = arguments.groups(without)
    for fields in groups.values():
        for field in fields:
            if field.name == "max_num_batched_tokens" and isinstance(field, EntryField):
                field.set_steps(BATCH_STEPS)
    made = [Group(title, fields) for title, fields in groups.items()]
    return [Group("Start", start), *made]
