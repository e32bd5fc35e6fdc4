"""All controls of the explorer, in groups; gathers their values for one plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import ipywidgets as w

from planner.errors import PlannerError
from planner.gpu import GPU
from planner.inputs import Inputs
from planner.widgets import choices
from planner.widgets.fields import (
    ChoiceField,
    CountField,
    Field,
    ShareField,
    StepField,
    SwitchField,
    doubling_steps,
)
from planner.widgets.models import ModelField
from planner.widgets.parsing import parse_count, parse_length

LENGTH_STEPS = doubling_steps(512, 1 << 20)
SEQUENCE_STEPS = doubling_steps(1, 4096)
BATCH_STEPS = doubling_steps(256, 1 << 17)


class Form(w.VBox):
    """The controls; `gather` reads them, `on_change` tells of each user action."""

    def __init__(self, model: str, gpu: str | GPU) -> None:
        self.groups = {
            "Model": _model_fields(model),
            "GPU": _gpu_fields(gpu),
            "Load": _load_fields(),
            "Parallelism": _parallel_fields(),
            "Start": _start_fields(),
        }
        self.fields = {
            field.name: field for group in self.groups.values() for field in group
        }
        super().__init__([_group(title, kids) for title, kids in self.groups.items()])
        self.add_class("planner-form")

    @property
    def model(self) -> ModelField:
        """The field that names the model."""
        field = self.fields["model"]
        assert isinstance(field, ModelField)
        return field

    def on_change(self, callback: Callable[[object], None]) -> None:
        """Call `callback` once after each change of a field."""
        for field in self.fields.values():
            field.observe(callback, names="value")

    def gather(self) -> dict[str, Any]:
        """Return the keyword arguments for `planner.plan`; None means not given.

        Raises:
            PlannerError: when a field holds something that cannot be planned; the
                field shows it too.
        """
        values = read_all(self.fields)
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
        if options != tuple(card.control.options):
            card.control.options = options
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


class FieldError(PlannerError):
    """A field cannot be read; the field itself shows the message."""


def read_all(fields: Mapping[str, Field]) -> dict[str, Any]:
    """Return what fields hold; each shows what is wrong with it.

    Raises:
        FieldError: with the first of them.
    """
    values: dict[str, Any] = {}
    wrong: list[str] = []
    for name, field in fields.items():
        try:
            values[name] = field.read()
        except PlannerError as error:
            wrong.append(str(error))
            field.show_error(str(error))
        else:
            field.show_error("")
    if wrong:
        raise FieldError(wrong[0])
    return values


def _group(title: str, fields: Sequence[Field]) -> w.VBox:
    heading = w.HTML(f"<h2 class='pl-group'>{escape(title)}</h2>")
    group = w.VBox([heading, *fields])
    group.add_class("planner-group")
    group.add_class(f"planner-group-{title.lower()}")
    return group


def _model_fields(model: str) -> list[Field]:
    return [
        ModelField(choices.models(), model),
        ChoiceField(
            "dtype",
            "of weights and activations",
            "The number format vLLM computes in. auto: the model's own.",
            choices.DTYPES,
        ),
        ChoiceField(
            "quantization",
            "of the weights",
            "How the weights are stored. As published: what the checkpoint says.",
            choices.QUANTIZATIONS,
        ),
        SwitchField(
            "language_model_only",
            "no images, videos or sounds",
            "Leaves a multimodal model's encoders out: saves their weights.",
        ),
        SwitchField(
            "trust_remote_code",
            "code that comes with the model",
            "Allows vLLM to run Python code from the model's repository, which some "
            "models need to start at all.",
        ),
    ]


def _gpu_fields(gpu: str | GPU) -> list[Field]:
    options, chosen = choices.gpus(gpu)
    card = ChoiceField(
        "gpu",
        "each of them",
        "The GPU with the memory that the CUDA runtime reports.",
        options,
    )
    card.value = chosen
    card.default = None  # the plan needs a GPU, the first in the list too
    return [
        card,
        ShareField(
            "gpu_memory_utilization",
            "share of the GPU that vLLM may use",
            "vLLM plans with this share of the GPU's total memory; what is left over "
            "holds the CUDA context and other processes.",
            choices.DEFAULT_UTILIZATION,
        ),
    ]


def _load_fields() -> list[Field]:
    return [
        StepField(
            "max_model_len",
            "longest request, in tokens",
            "Tokens of the longest request, prompt and answer together. Type a number, "
            "32K, or auto for the longest that fits; empty: the model's own limit.",
            steps=LENGTH_STEPS,
            parse=parse_length,
        ),
        StepField(
            "max_num_seqs",
            "requests at once, at most",
            "How many requests vLLM works on at the same time at most. Empty: vLLM's "
            "default for this GPU and entry point.",
            steps=SEQUENCE_STEPS,
            parse=parse_count,
        ),
        StepField(
            "max_num_batched_tokens",
            "tokens per step, at most",
            "Tokens that one step of the engine may hold; sets the peak activation. "
            "Empty: vLLM's default for this GPU and entry point.",
            steps=BATCH_STEPS,
            parse=parse_count,
        ),
        ChoiceField(
            "kv_cache_dtype",
            "of the KV cache",
            "The number format of the KV cache. auto: as the model; fp8: half of it.",
            choices.KV_CACHE_DTYPES,
        ),
    ]


def _parallel_fields() -> list[Field]:
    return [
        CountField(
            "tensor_parallel_size",
            "GPUs that share each layer",
            "Each layer is cut over this many GPUs.",
        ),
        CountField(
            "pipeline_parallel_size",
            "stages of layers",
            "The layers are dealt out to this many stages, one after the other.",
        ),
        CountField(
            "data_parallel_size",
            "copies of the engine",
            "This many engines run side by side, each with its own KV cache.",
        ),
        SwitchField(
            "enable_expert_parallel",
            "whole experts per GPU",
            "Mixture-of-experts models: deal out whole experts, do not cut each.",
        ),
    ]


def _start_fields() -> list[Field]:
    return [
        SwitchField(
            "enforce_eager",
            "no CUDA graphs: less memory, slower",
            "Do without CUDA graphs: saves their memory, costs speed.",
        ),
        ChoiceField(
            "entrypoint",
            "how vLLM is started",
            "vLLM's defaults differ between its server and the LLM class.",
            choices.ENTRYPOINTS,
        ),
        ChoiceField(
            "vllm_version",
            "whose rules are used",
            "The vLLM release that the plan follows.",
            choices.releases(),
        ),
    ]
