"""The fields that name a model and a GPU, and those of a GPU that is not in the list.

A model is searched for as you type, or given by any Hub id or folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from planner.app.widgets import choices, parsing
from planner.app.widgets.fields import (
    ChoiceField,
    Field,
    FieldError,
    OwnEntry,
)
from planner.errors import PlannerError
from planner.models.sources.hub_errors import is_repo_id
from planner.models.sources.hub_models import HubGroup, facts
from planner.models.sources.hub_search import can_search
from planner.surroundings import is_published

LONGEST_NAME = 500
_HUB = ("https://huggingface.co/", "https://hf.co/")
_PARTS = {
    "gpu_name": ("Name", "a slice (MIG), or as you call it", "H100-MIG-1g.10gb"),
    "gpu_memory": ("Memory", "as the driver reports it", "48GiB"),
    "gpu_capability": ("Compute capability", "as CUDA names it", "8.9"),
    "gpu_bandwidth": ("Bandwidth", "for the Speed tab; may be empty", "864GB/s"),
}
"""Title, hint and example of each part of a GPU that the user describes."""
_NOTHING = (
    "Name a slice of a GPU, such as H100-MIG-1g.10gb, or give memory and compute "
    "capability of another GPU. Only NVIDIA GPUs and CPUs are covered."
)
_NEEDED = ("gpu_memory", "gpu_capability")
_AS_TYPED = parsing.Notation(kind="text", parse=lambda _name, text: text)
"""Read with the other parts, where the GPU is."""

Find = Callable[[str, Callable[[Sequence[HubGroup], str], None]], None]
"""Searches models for a text and passes them on later, or a few words why not."""


class ModelField(Field):
    """A model by name; shows while it is being read."""

    kind = "model"

    def __init__(self, rows: Sequence[Sequence[object]], value: str) -> None:
        super().__init__("model", _hint(len(rows)), default=value)
        self.rows = rows
        """Name, size and kind of each bundled model."""
        self.has_hub = bool(rows) and can_search()
        """Whether a page may have the Hub searched."""
        self.reading = ""

    def put(self, value: object) -> None:
        """Set a name; None clears it."""
        self.value = "" if value is None else str(value)

    @property
    def has_choice(self) -> bool:
        """A plan needs a model."""
        return False

    @property
    def is_empty(self) -> bool:
        """Whether `read` returns None without a look: a model has to be named."""
        return False

    def read(self) -> str | None:
        """Return the model's name.

        Raises:
            PlannerError: without a name, or where a published app does not allow it.
        """
        text = str(self.value).strip()
        if not text:
            raise PlannerError(
                "No model was given. Choose one from the list, or type a Hub id such "
                f"as Qwen/Qwen3-8B{_or_folder()}."
            )
        if is_published() and not _is_hub_name(text):
            raise PlannerError(
                f"model={_short(text)!r} is not taken here. Choose one from the list, "
                "or type a Hub id: owner/name, such as Qwen/Qwen3-8B. Folders, files "
                "and addresses are read by a planner on your own machine only."
            )
        return text

    def receive(self, sent: object) -> bool:
        """Set a name."""
        if not isinstance(sent, str) or len(sent) > LONGEST_NAME:
            return False
        self.value = sent
        return True

    def show_reading(self, name: str) -> None:
        """Show that a model is being read; an empty name ends that."""
        self.say(reading=name)

    def state(self) -> dict[str, object]:
        """Add the bundled models, and the model that is being read."""
        made = super().state() | ({"rows": self.rows} if self.rows else {})
        made |= {"hub": True} if self.has_hub else {}
        return made | ({"reading": self.reading} if self.reading else {})


class DraftField(ModelField):
    """A draft model by name; optional."""

    def __init__(self, name: str) -> None:
        super().__init__((), "")
        self.name = self.term = name
        self.hint = "Hub id of a smaller model of the same family"

    @property
    def has_choice(self) -> bool:
        """Without a name there is no draft model."""
        return True

    def read(self) -> str | None:
        """Return the draft's name; None without one.

        Raises:
            PlannerError: where a published app does not allow it.
        """
        return super().read() if str(self.value).strip() else None

    def receive(self, sent: object) -> bool:
        """Set a name, or clear it."""
        return super().receive("" if sent is None else sent)


class GpuField(ChoiceField):
    """A GPU of the list."""

    @property
    def is_empty(self) -> bool:
        """Whether `read` returns None without a look: a GPU has to be named."""
        return False

    def read(self) -> Any:  # noqa: ANN401 - a name, or a GPU
        """Return the GPU.

        Raises:
            PlannerError: while none is chosen.
        """
        if self.value is None:
            raise PlannerError("No GPU was chosen. Choose one from the list.")
        return super().read()

    def state(self) -> dict[str, object]:
        """Add that none is chosen yet."""
        made = super().state()
        if self.value is not None:
            return made
        unchosen = [["", "Choose a GPU", "", "disabled"]]
        return made | {"options": [*unchosen, *self._listed], "v": ""}


class GpuNameField(OwnEntry):
    """The name of a GPU that is not in the list; those of slices are offered."""

    def state(self) -> dict[str, object]:
        """Add the names to choose from."""
        return super().state() | {"known": choices.slices()}


def other_gpu_fields() -> dict[str, Field]:
    """Return the fields of a GPU that is not in the list."""
    fields: dict[str, Field] = {}
    for name, (title, hint, example) in _PARTS.items():
        kind = GpuNameField if name == "gpu_name" else OwnEntry
        field = kind(name, hint, _AS_TYPED)
        field.title, field.term, field.kind = title, "gpu", "part"
        field.chosen = f"such as {example}"
        fields[name] = field
    return fields


def described_gpu(fields: Mapping[str, Field]) -> str:
    """Return the text by which `planner.plan` takes a GPU that is not in the list.

    A name alone is one of the catalogue, such as that of a slice.

    Raises:
        FieldError: where a part is missing; its field shows it too.
    """
    given = {name: str(field.value).strip() for name, field in fields.items()}
    if not any(given[name] for name in _PARTS if name != "gpu_name"):
        if given["gpu_name"]:
            return given["gpu_name"]
        fields["gpu_name"].show_error(_NOTHING)
        raise FieldError(_NOTHING)
    for name in _NEEDED:
        if not given[name]:
            title, hint, example = _PARTS[name]
            message = f"{title} of the other GPU is needed, {hint}, such as {example}."
            fields[name].show_error(message)
            raise FieldError(message)
    given["gpu_name"] = given["gpu_name"] or "another GPU"
    parts = ("name", "memory", "capability", "bandwidth")
    pairs = ((part, given[f"gpu_{part}"]) for part in parts)
    return ",".join(f"{part}={text}" for part, text in pairs if text)


def hub_rows(groups: Sequence[HubGroup]) -> list[list[str]]:
    """Return a row for each model of the Hub: name, facts, and of what it is a release.

    The last is empty for a model of its own.
    """
    rows = []
    for group in groups:
        if group.model is not None:
            rows.append([group.name, facts(group.model), ""])
        rows += [[one.name, facts(one), group.name] for one in group.releases]
    return rows


def _is_hub_name(text: str) -> bool:
    """Whether a text can be a name in the catalogue or on the Hub, or a page there."""
    return is_repo_id(text.partition("@")[0]) or text.startswith(_HUB)


def _hint(count: int) -> str:
    return f"search {count} models, or give a Hub id" + (
        "" if is_published() else " or a folder"
    )


def _or_folder() -> str:
    return "" if is_published() else " or the path of a folder with a config.json"


def _short(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:100]}..."  # noqa: PLR2004 - as short as a line
