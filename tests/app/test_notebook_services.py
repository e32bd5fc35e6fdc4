"""The explorer in notebook services: Colab's widgets, and where there are none."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from IPython.core.formatters import DisplayFormatter

import planner

VIEW = "application/vnd.jupyter.widget-view+json"
MODEL = "Qwen/Qwen3-8B"
LOAD = planner.Load(prompt_tokens=1000, output_tokens=200, requests=4)


def shown(explorer: planner.Explorer) -> tuple[dict[str, Any], dict[str, Any]]:
    """What IPython sends for it, with any ipywidgets: data and metadata."""
    return DisplayFormatter().format(explorer)


def test_a_viewer_without_widgets_gets_the_plan_and_a_note() -> None:
    """As GitHub, marimo, and a notebook that was closed and is read: never blank."""
    data, _ = shown(planner.Explorer(MODEL, "H100"))
    page = data["text/html"]

    assert "The controls of the explorer need Jupyter" in page
    assert "Fits" in page
    assert f"vllm serve {MODEL}" in page
    assert "role='img'" in page
    assert f"{MODEL} on H100" in data["text/plain"]


def test_a_jupyter_with_widgets_gets_the_explorer_itself() -> None:
    """The live view names the explorer's own model, not that of a part of it."""
    explorer = planner.Explorer(MODEL, "H100")
    data, described = shown(explorer)

    assert data[VIEW]["model_id"] == explorer.model_id
    assert {} == described


def test_voila_gets_the_page_that_it_draws_first(monkeypatch) -> None:
    """Its script takes the chart over; there are widgets for certain."""
    monkeypatch.setenv("VOILA_BASE_URL", "/")
    data, _ = shown(planner.Explorer(MODEL, "H100"))

    assert "planner-snapshot" in data["text/html"]
    assert "The controls of the explorer need" not in data["text/html"]


@pytest.fixture
def colab(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A stand-in for Colab's own package; the list says what it was asked for.

    Source: google-colab `google/colab/output/_widgets.py`.
    """
    asked: list[str] = []
    output = ModuleType("google.colab.output")
    output.enable_custom_widget_manager = lambda: asked.append("manager")
    output._widgets = SimpleNamespace(_installed_url="https://ssl.example/manager.js")
    monkeypatch.setitem(sys.modules, "google.colab.output", output)
    # It enables the manager once in a process.
    cached = sys.modules["anywidget._util"].enable_custom_widget_manager_once
    cached.cache_clear()
    yield asked
    cached.cache_clear()


def test_colab_enables_its_custom_widgets_and_is_told_for_the_output(colab) -> None:
    """Without both, Colab shows ipywidgets' own boxes with nothing in them."""
    _, described = shown(planner.Explorer(MODEL, "T4"))

    assert ["manager"] == colab
    assert described[VIEW]["colab"]["custom_widget_manager"]["url"].startswith("https")


@pytest.mark.parametrize(
    "value",
    [
        planner.plan(MODEL, gpu="L4"),
        planner.advise(planner.plan(MODEL, gpu="L4")),
        planner.compare(planner.plan(MODEL, gpu="L4"), planner.plan(MODEL, gpu="H100")),
        planner.read(f"vllm serve {MODEL}"),
        planner.speed_bound(planner.plan(MODEL, gpu="H100"), LOAD),
        planner.Explorer(MODEL, "L4"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_shown_is_plain_strings(value) -> None:
    """marimo sends `{}` for a class derived from them, which is a blank cell."""
    bundle = value._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    kinds = {name: type(data[name]) for name in ("text/plain", "text/html")}

    assert {"text/plain": str, "text/html": str} == kinds
