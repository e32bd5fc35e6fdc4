"""All controls of the explorer, in groups; gathers their values for one plan."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from planner.errors import PlannerError
from planner.gpu import GPU
from planner.inputs import Inputs
from planner.lengths import derived_max_model_len
from planner.model import ModelArchitecture
from planner.releases import NEWEST_RELEASE, Release, came_later, resolve_version
from planner.widgets import arguments, choices, parsing
from planner.widgets.controls import Controls, Group
from planner.widgets.features import Features, Planned
from planner.widgets.fields import (
    ChoiceField,
    EntryField,
    Field,
    doubling_steps,
)
from planner.widgets.fields import FieldError as FieldError
from planner.widgets.fields import read_all as read_all
from planner.widgets.hub_search import HubSearch
from planner.widgets.models import ModelField

SHORTEST, LONGEST = 512, 1 << 20
"""Tokens where the slider of lengths begins, and where it ends for unknown models."""
SEQUENCE_STEPS = doubling_steps(1, 4096)
BATCH_STEPS = doubling_steps(256, 1 << 17)
SHARE_STEPS = tuple(round(0.05 + step / 100, 2) for step in range(96))


class Form:
    """The controls; `gather` reads them, `on_change` tells of each user action.

    `main` shows the few that matter most, and in folded groups what users switch on;
    `more` all others by vLLM's groups.
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
        """All other controls by vLLM's groups; made when they are first asked for."""
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
        """Return the keyword arguments for `planner.plan`; None means not given.

        Raises:
            PlannerError: when a field holds something that cannot be planned; the
                field shows it too.
        """
        self._show_what_applies()
        values = read_all(self.fields)
        if self.features.wrong:
            raise FieldError(self.features.wrong)
        return {name: value for name, value in values.items() if value is not None}

    def set(self, values: Mapping[str, object]) -> None:
        """Put values into their fields; leave out those that have none."""
        for name, value in values.items():
            if name in self.fields and value is not None:
                self.fields[name].put(value)

    def take(self, inputs: Inputs) -> dict[str, Any]:
        """Hold these inputs and nothing else; returns those that have no field."""
        card = self.fields["gpu"]
        assert isinstance(card, ChoiceField)
        options, chosen = choices.gpus(inputs.gpu)
        if options != card.options:
            card.options = options
        start = {"entrypoint": inputs.entrypoint, "vllm_version": inputs.vllm_version}
        name = getattr(inputs.model, "name", inputs.model)
        values = {**inputs.engine_args, **start, "model": name, "gpu": chosen}
        for name, field in self.fields.items():
            field.put(values.pop(name, None))
        return values | ({"env": dict(inputs.env)} if inputs.env else {})

    def show_defaults(self, resolved: object) -> None:
        """Show what vLLM chose for everything that was left to it."""
        for name, field in self.fields.items():
            field.show_default(getattr(resolved, name, None))
        self._graph_mode = getattr(resolved, "cudagraph_mode", None)

    def show_model(self, model: ModelArchitecture) -> None:
        """Show what applies to the model; let lengths end at what it was made for."""
        release = _release(self._release)
        self.features.show(Planned(model, release, self._graph_mode))
        self._show_what_applies()
        field = self.fields["max_model_len"]
        assert isinstance(field, EntryField)
        limit = derived_max_model_len(model, release)
        most = int(limit) if SHORTEST < limit < 1 << 30 else LONGEST
        field.set_steps(doubling_steps(SHORTEST, most))

    def place_error(self, error: PlannerError | str) -> bool:
        """Show an error of planning at the field that it names first.

        False where it names none: then the caller shows it.
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
        """Mark the arguments that came after the chosen release."""
        self._release = str(field.value)
        release = _release(self._release)
        for name, one in self.fields.items():
            first = came_later("arguments", name, release)
            one.show_since(first or "")


def _is_argument(word: str, text: str) -> bool:
    """Whether a word that plain English may have too is meant as an argument."""
    if "_" in word or "-" in word:
        return True
    return re.search(rf"--{word}\b|\b{word}=|[`'\"]{word}[`'\"]", text) is not None


def _release(text: str) -> Release:
    try:
        return resolve_version(text)[0]
    except PlannerError:
        return NEWEST_RELEASE


def _first_groups(model: str, gpu: str | GPU) -> list[Group]:
    card, number = _gpu_field(gpu), arguments.field_of("tensor_parallel_size")
    number.hint = "GPUs that share each layer"
    return [
        Group(
            "Model",
            [
                ModelField(choices.models(), model),
                ChoiceField("quantization", "of the weights", choices.QUANTIZATIONS),
            ],
        ),
        Group("GPU", [card, number, _share_field()]),
        Group(
            "Load",
            [
                EntryField(
                    "max_model_len",
                    "longest request, in tokens; auto: the longest that fits",
                    parsing.LENGTH,
                    steps=doubling_steps(SHORTEST, LONGEST),
                ),
                EntryField(
                    "max_num_seqs",
                    "requests at once, at most",
                    parsing.COUNT,
                    steps=SEQUENCE_STEPS,
                ),
                ChoiceField(
                    "kv_cache_dtype", "of the KV cache", choices.KV_CACHE_DTYPES
                ),
            ],
        ),
    ]


def _gpu_field(gpu: str | GPU) -> ChoiceField:
    options, chosen = choices.gpus(gpu)
    card = ChoiceField("gpu", "each of them", options)
    card.value = chosen
    card.default = None  # the plan needs a GPU, the first in the list too
    return card


def _share_field() -> EntryField:
    return EntryField(
        "gpu_memory_utilization",
        "share of each GPU that vLLM may use",
        parsing.NUMBER,
        steps=SHARE_STEPS,
    )


def _other_groups(without: frozenset[str]) -> list[Group]:
    start = [
        ChoiceField("entrypoint", "how vLLM is started", choices.ENTRYPOINTS),
        ChoiceField("vllm_version", "whose rules are used", choices.releases()),
    ]
    groups = arguments.groups(without)
    for field in groups["Scheduler"]:
        if field.name == "max_num_batched_tokens" and isinstance(field, EntryField):
            field.set_steps(BATCH_STEPS)
    made = [Group(title, fields) for title, fields in groups.items()]
    return [Group("Start", start), Group("Machine", _machine_fields()), *made]


def _machine_fields() -> list[Field]:
    """Return what is told to the planner alone: each machine's memory and GPUs."""
    amounts = {
        "node_memory_gib": "GiB of CPU memory of each machine",
        "disk_gb_per_second": "GB/s from its disk, for the load time; empty: 2",
        "pcie_gb_per_second": "GB/s to each GPU, for the load time; empty: 25",
    }
    gpus = "GPUs of each machine; empty: at most 8"
    return [
        EntryField("node_gpus", gpus, parsing.COUNT),
        *(EntryField(name, hint, parsing.NUMBER) for name, hint in amounts.items()),
    ]
