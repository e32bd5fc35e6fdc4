"""The control that names a model: search as you type, or any Hub id or folder."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import ipywidgets as w

from planner.errors import PlannerError
from planner.widgets.fields import Field, label


class ModelField(Field):
    """A model by name; tells while it is being read."""

    def __init__(self, names: Sequence[str], value: str) -> None:
        self.control = w.Combobox(
            value=value,
            options=list(names),
            ensure_option=False,
            continuous_update=False,
            description=label(
                "model", f"search {len(names)} models, or give a Hub id or a folder"
            ),
            description_allow_html=True,
            placeholder="org/name",
            tooltip="Which model to serve. Models in the list are planned offline; "
            "any other name is read from the Hugging Face Hub (config.json and the "
            "sizes of the weights, never the weights).",
        )
        self._reading = w.HTML()
        self._reading.add_class("planner-reading")
        super().__init__("model", [self.control, self._reading], value)
        self.add_class("planner-model")
        self.control.observe(self._chosen, names="value")
        self.observe(self._set, names="value")

    def read(self) -> object:
        """Return the model's name.

        Raises:
            PlannerError: when there is none.
        """
        if not str(self.value).strip():
            raise PlannerError(
                "No model was given. Choose one from the list, or type a Hub id such "
                "as Qwen/Qwen3-8B or the path of a folder with a config.json."
            )
        return str(self.value).strip()

    def show_reading(self, name: str) -> None:
        """Say that a model is being read; an empty name says that it is done."""
        self._reading.value = (
            f"<p class='pl-reading'>Reading {escape(name)} …</p>" if name else ""
        )

    def _chosen(self, change: dict[str, str]) -> None:
        self.value = change["new"]

    def _set(self, change: dict[str, str]) -> None:
        self.control.value = change["new"]
