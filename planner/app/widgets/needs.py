"""What the user needs: the fields of the load, its presets, and first recipes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from planner.app.widgets import parsing
from planner.app.widgets.controls import FieldGroup
from planner.app.widgets.fields import Field, OwnEntry
from planner.planning.inputs import Inputs
from planner.planning.load import Load
from planner.values import frozen

TITLE = "What I need"
FOLLOWS = {
    "max_model_len": "follows what I need",
    "max_num_seqs": "follows what I need",
}
"""Controls whose value follows from the load until it is set by hand."""


@frozen
class Preset:
    """A usual load, with the sentence that says where its numbers come from."""

    title: str
    load: Load
    why: str


PRESETS = {
    "chat": Preset(
        title="Chat",
        load=Load(prompt_tokens=3072, output_tokens=1024, requests=20),
        why="A system prompt and some ten turns before it, and one more answer.",
    ),
    "rag": Preset(
        title="RAG",
        load=Load(prompt_tokens=12_288, output_tokens=1024, requests=10),
        why="A question with some twenty retrieved passages of 500 tokens each.",
    ),
    "agents": Preset(
        title="Agents",
        load=Load(prompt_tokens=61_440, output_tokens=4096, requests=8),
        why="Files and results of some twenty tool calls stay in the context.",
    ),
    "summaries": Preset(
        title="Summaries",
        load=Load(prompt_tokens=30_720, output_tokens=2048, requests=8),
        why="A report of some fifty pages in one prompt, two pages of answer.",
    ),
    "batch": Preset(
        title="Batch",
        load=Load(prompt_tokens=1792, output_tokens=256, requests=256),
        why="Rows of a table, offline: short texts, and many of them at once.",
    ),
}
_GIVEN = {
    "prompt_tokens": ("Prompt tokens", "of the longest prompt", 3072),
    "output_tokens": ("Answer tokens", "of the longest answer", 1024),
    "requests": ("Users at once", "requests that run at the same time", 1),
    "shared_prefix_tokens": ("Shared tokens", "that all prompts begin with", 0),
    "mean_prompt_tokens": ("Mean prompt", "tokens; empty: all are the longest", None),
    "mean_output_tokens": ("Mean answer", "tokens; empty: all are the longest", None),
}
"""Title, hint, and what counts where only the others are given."""
_MAY_BE_NOTHING = ("shared_prefix_tokens", "mean_output_tokens")


RECIPES: Mapping[str, Inputs] = {
    "Qwen3-32B, 20 users at 32K": Inputs(
        model="Qwen/Qwen3-32B",
        gpu="H100",
        load=Load(prompt_tokens=30_720, output_tokens=2048, requests=20),
    ),
    "Llama-3.3-70B, 2 x A100-40GB": Inputs(
        model="meta-llama/Llama-3.3-70B-Instruct",
        gpu="A100-40GB",
        engine_args={"tensor_parallel_size": 2},
        load=PRESETS["chat"].load,
    ),
    "Gemma 3 with images, L4": Inputs(
        model="google/gemma-3-4b-it",
        gpu="L4",
        engine_args={"limit_mm_per_prompt": {"image": 2}},
        load=Load(prompt_tokens=3072, output_tokens=1024, requests=8),
    ),
    "DeepSeek-R1, 8 x H200": Inputs(
        model="deepseek-ai/DeepSeek-R1",
        gpu="H200",
        engine_args={"tensor_parallel_size": 8},
        load=Load(prompt_tokens=7168, output_tokens=1024, requests=64),
    ),
    "8 LoRA adapters": Inputs(
        model="meta-llama/Llama-3.1-8B-Instruct",
        gpu="L40S",
        engine_args={"enable_lora": True, "max_loras": 8, "max_lora_rank": 64},
        load=PRESETS["chat"].load,
    ),
    "Qwen3-8B in FP8": Inputs(
        model="Qwen/Qwen3-8B-FP8", gpu="L4", load=PRESETS["chat"].load
    ),
}
"""A question to begin with -> the inputs that answer it."""


class NeedField(OwnEntry):
    """A part of the load; empty: none is given, and an entry is taken back."""

    def __init__(self, name: str) -> None:
        title, hint, self.assumed = _GIVEN[name]
        notation = parsing.FROM_NOTHING if name in _MAY_BE_NOTHING else parsing.COUNT
        super().__init__(name, hint, notation)
        self.title = title
        self.kind = "need"

    def show_assumed(self, is_needed: bool) -> None:
        """Show what counts while it is empty; nothing where no part is given."""
        is_number = is_needed and self.assumed is not None
        self.say(chosen=str(self.assumed) if is_number else "")


class PresetField(Field):
    """A row of buttons; its value is the name of the preset that the load equals."""

    kind = "presets"

    def __init__(self, press: Callable[[str], None]) -> None:
        super().__init__("load", default="")
        self.title = "Presets"
        self._press = press

    @property
    def has_choice(self) -> bool:
        """It is no argument of vLLM."""
        return False

    def receive(self, sent: object) -> bool:
        """Set the load of the pressed preset."""
        if not isinstance(sent, str) or sent not in PRESETS:
            return False
        self._press(sent)
        return True

    def state(self) -> dict[str, object]:
        """Add the buttons, each with its sentence."""
        buttons = [[key, one.title, one.why] for key, one in PRESETS.items()]
        return super().state() | {"options": buttons}


class Needs:
    """The fields of the load.

    `pressed` is called with the fields that a preset changed, once for all of them.
    """

    def __init__(self, pressed: Callable[[Field], None]) -> None:
        self._pressed = pressed
        self._is_setting = False
        self.presets = PresetField(self._press)
        self.parts = {name: NeedField(name) for name in _GIVEN}
        self.group = FieldGroup(TITLE, [self.presets, *self.parts.values()])

    @property
    def is_setting(self) -> bool:
        """Whether a preset sets the fields: they are reported together."""
        return self._is_setting

    def load(self) -> Load | None:
        """Return the load; None where no part is given.

        Raises:
            PlannerError: when an entry is invalid.
        """
        given = {name: field.read() for name, field in self.parts.items()}
        is_needed = any(value is not None for value in given.values())
        for field in self.parts.values():
            field.show_assumed(is_needed)
        if not is_needed:
            self.presets.value = ""
            return None
        parts: dict[str, Any] = {
            name: self.parts[name].assumed if value is None else value
            for name, value in given.items()
        }
        load = Load(**parts)
        self.presets.value = next(
            (key for key, one in PRESETS.items() if one.load == load), ""
        )
        return load

    def put(self, load: Load | None) -> None:
        """Set the fields to a load; None empties them."""
        given = {} if load is None else load.to_dict()
        for name, field in self.parts.items():
            field.put(given.get(name))

    def _press(self, key: str) -> None:
        """Set a preset's load; a second press takes it back."""
        self._is_setting = True
        try:
            is_pressed = self.presets.value == key
            self.put(None if is_pressed else PRESETS[key].load)
        finally:
            self._is_setting = False
        self._pressed(self.presets)


def recipe_named(number: Any) -> Inputs | None:  # noqa: ANN401 - what a page sent
    """Return the inputs of a recipe by its place in the list; None: there is none."""
    is_place = type(number) is int and 0 <= number < len(RECIPES)
    return list(RECIPES.values())[number] if is_place else None
