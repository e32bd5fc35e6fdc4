"""The tools that an agent may call, with the schemas of their arguments.

All of them only read: nothing is started, and nothing is written. `answers` has what
answers them, whose imports a list of the tools does not wait for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.engine.arguments import ARGUMENTS, Kind
from planner.engine.releases import NEWEST, OLDEST
from planner.planning.batches import ENTRYPOINTS
from planner.values import frozen

Values = Mapping[str, Any]
_LONGEST_NAME, _LONGEST_TEXT = 500, 500_000
_MOST_SECONDS = 60
SECONDS = 20
"""After which a search for set-ups ends, where nothing else is given."""
_TYPES = {
    Kind.SWITCH: "boolean",
    Kind.SHARE: "number",
    Kind.NUMBER: "number",
    Kind.TABLE: "object",
    Kind.NAMES: "array",
    Kind.NUMBERS: "array",
}
_ORDERS = ["fewest", "cheapest", "fastest"]
_QUALITIES = ["no loss", "little loss", "try your prompts first"]
"""Written out: a list of the tools does not wait for the solvers."""
_USUAL = (
    *("max_model_len", "max_num_seqs", "max_num_batched_tokens", "dtype"),
    *("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"),
    *("gpu_memory_utilization", "kv_cache_dtype", "quantization", "enforce_eager"),
    *("enable_expert_parallel", "cpu_offload_gb", "speculative_config"),
)
"""Engine arguments that a schema describes; all others are taken as well."""


@frozen
class Tool:
    """A function for agents."""

    name: str
    title: str
    text: str
    """What it answers, and when to call it."""
    properties: Mapping[str, Values]
    required: tuple[str, ...]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        return _object({**self.properties, **_WHOLE}, self.required)

    def listed(self) -> dict[str, Any]:
        """Return what `tools/list` says of it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.text,
            "inputSchema": self.schema,
            "annotations": {
                "title": self.title,
                "readOnlyHint": True,
                "destructiveHint": False,
                "idempotentHint": True,
                "openWorldHint": True,
            },
        }


def _object(
    properties: Mapping[str, Values], required: tuple[str, ...] = ()
) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def _text(said: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON Schema's words
    return {"type": "string", "maxLength": _LONGEST_NAME, "description": said, **more}


def _number(said: str, least: float = 1, kind: str = "integer") -> dict[str, Any]:
    return {"type": kind, "minimum": least, "description": said}


def _argument(name: str) -> dict[str, Any]:
    """Return the schema of an engine argument."""
    argument = ARGUMENTS[name]
    said: dict[str, Any] = {"description": argument.hint or argument.text}
    if argument.kind in _TYPES:
        said["type"] = _TYPES[argument.kind]
    elif argument.taken or argument.offered:
        said["examples"] = [*(argument.taken or argument.offered)][:6]
    return said


_WHOLE: Mapping[str, Values] = {
    "whole": {
        "type": "boolean",
        "description": "true: the whole account with all arithmetic (5 to 30 kB) "
        "instead of the short answer",
    }
}
_TOKENS = {
    "prompt_tokens": _number("tokens of the longest prompt"),
    "output_tokens": _number("tokens of the longest answer", 0),
    "requests": _number("requests at once; 1 where it is left out"),
    "shared_prefix_tokens": _number("tokens that all prompts begin with", 0),
    "mean_prompt_tokens": _number("tokens of a prompt on average"),
    "mean_output_tokens": _number("tokens of an answer on average", 0),
}
_LOAD = {
    **_object(_TOKENS, ("prompt_tokens", "output_tokens")),
    "description": "the load to serve",
}
_MODEL = _text(
    "the model: owner/name on the Hugging Face Hub, also owner/name@revision or "
    "owner/name~AWQ for an estimated format"
)
_GPU = _text(
    "one GPU's name, such as H100, L4, A100-80GB or RTX4090; attached: this machine's "
    "own; or a description: name=MyGPU,memory=48GiB,capability=8.9,bandwidth=900GB/s; "
    "how many: tensor_parallel_size and the like in engine_args"
)
_VERSION = _text(f"release of vLLM, {OLDEST} to {NEWEST}; left out: {NEWEST}")
_ENGINE_ARGS = {
    "type": "object",
    "description": "arguments of `vllm serve`, with underscores; others are taken too",
    "properties": {name: _argument(name) for name in _USUAL},
    "additionalProperties": True,
}
_OTHER_ARGS = {
    "type": "object",
    "description": "arguments of `vllm serve`, as the tool plan takes them",
    "additionalProperties": True,
}
_ENV = {
    "type": "object",
    "description": "environment variables of vLLM, such as VLLM_ATTENTION_BACKEND",
    "additionalProperties": True,
}
_START: Mapping[str, Values] = {
    "vllm_version": _VERSION,
    "entrypoint": _text("how vLLM is started", enum=list(ENTRYPOINTS)),
    "engine_args": _OTHER_ARGS,
    "env": _ENV,
}
_QUESTION = {"model": _MODEL, "gpu": _GPU, **_START, "load": _LOAD}
_OF_TEXT: Mapping[str, Values] = {
    "text": _text(
        "a `vllm serve` command, docker run, manifest, compose file, Python code, log, "
        "traceback, nvidia-smi output, or a question in words; nothing of it is run",
        maxLength=_LONGEST_TEXT,
    ),
    "gpu": _text("the GPU, where the text does not name it"),
    "model": _text("the model, where the text does not name it"),
    "vllm_version": _text("likewise the release of vLLM"),
    "start": _number("which of several starts in the text, from 1"),
}


_ALL = (
    Tool(
        name="plan",
        title="Plan a start of vLLM",
        text="Whether vLLM starts this model on this GPU, what each GPU's memory "
        "holds, tokens and requests that the KV cache holds, whether a load is served, "
        "and the `vllm serve` command.",
        properties={**_QUESTION, "engine_args": _ENGINE_ARGS},
        required=("model", "gpu"),
    ),
    Tool(
        name="read",
        title="Read a text about a start",
        text="What a command, manifest, code, log, error or question says of a start "
        "of vLLM: model, GPU, arguments, what is open or not understood, its verdict.",
        properties=_OF_TEXT,
        required=("text",),
    ),
    Tool(
        name="explain",
        title="Explain a log, an error or a question",
        text="Why a start of vLLM failed or how it compares with its plan, and the "
        "cheapest changes that help, each planned. Also answers a question in words.",
        properties={**_OF_TEXT, "engine_args": _OTHER_ARGS},
        required=("text",),
    ),
    Tool(
        name="advise",
        title="What to change",
        text="Changes that make a start fit, or serve more, each planned, with what it "
        "costs, cheapest kind first.",
        properties=_QUESTION,
        required=("model", "gpu"),
    ),
    Tool(
        name="set_ups",
        title="Find GPUs for a load",
        text="Which GPUs, how many, in which layout serve a load, with prices and the "
        f"forecast of speed. Takes up to {SECONDS} seconds.",
        properties={
            "model": _MODEL,
            "load": _LOAD,
            "gpus": {
                "type": "array",
                "items": _text("a GPU's name"),
                "maxItems": 100,
                "description": "GPUs to choose from; left out: all of the catalogue",
            },
            **_START,
            "order": _text("what comes first", enum=_ORDERS),
            "quality": _text(
                "what other formats of weights and KV cache may cost in answers",
                enum=_QUALITIES,
            ),
            "gpus_per_node": _number("GPUs of a machine; 8 where it is left out"),
            "nodes": _number("machines; 1 where it is left out"),
            "prices": {
                "type": "object",
                "description": "price of one GPU for an hour, by name; left out: dated "
                "list prices, which are assumed",
                "additionalProperties": {"type": "number", "minimum": 0},
            },
            "currency": _text("word behind given prices"),
            "tokens_per_second_each": _number("each request's speed", 0, "number"),
            "first_token_seconds": _number("time to first token", 0, "number"),
            "seconds": {
                **_number("after which the search ends", kind="number"),
                "maximum": _MOST_SECONDS,
            },
        },
        required=("model", "load"),
    ),
    Tool(
        name="speed",
        title="How fast a start will be",
        text="Tokens per second and time to first token under a load: a forecast with "
        "its range where something near was measured, and a bound that nothing beats.",
        properties={
            **_QUESTION,
            "acceptance_length": _number(
                "with speculative decoding, vLLM's logged mean acceptance length",
                kind="number",
            ),
        },
        required=("model", "gpu", "load"),
    ),
    Tool(
        name="upgrade",
        title="What another release does to a start",
        text="The same start under each release of vLLM from vllm_version to another: "
        "what changes, by which rule, and settings that bring the old memory back.",
        properties={
            **_QUESTION,
            "to": _text(f"release to upgrade to; left out: {NEWEST}"),
        },
        required=("model", "gpu", "vllm_version"),
    ),
)
TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in _ALL}
