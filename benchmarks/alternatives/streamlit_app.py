"""The planner's form and chart in Streamlit, to compare with: `make bench-app`.

Written as a Streamlit author would: lists and plans are cached, the form is made of
Streamlit's own controls, and the chart is `st.plotly_chart` of the same figure.
"""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
import streamlit as st

import planner
from planner.engine.arguments import ARGUMENTS
from planner.engine.gpu import catalogue as gpu_catalogue
from planner.errors import PlannerError
from planner.models import catalogue
from planner.show import tables
from planner.show.charts.memory_bars import figure_spec
from planner.show.document import style

_DEFAULT_MODEL = "meta-llama/Llama-3.1-8B-Instruct"
_CHOICES = {
    "dtype": list(ARGUMENTS["dtype"].choices),
    "kv_cache_dtype": [None, *ARGUMENTS["kv_cache_dtype"].offered],
    "quantization": [None, *ARGUMENTS["quantization"].offered],
}


@st.cache_resource
def models() -> list[str]:
    """Names of the bundled models."""
    return [entry.name for entry in catalogue.entries()]


@st.cache_resource
def gpus() -> list[str]:
    """Names of the known GPUs."""
    return [gpu.name for gpu in gpu_catalogue()]


@st.cache_data(max_entries=1000)
def answer(model: str, gpu: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - of many kinds
    """Plan, and return what the page shows of it."""
    plan = planner.plan(model, gpu=gpu, **arguments)
    return {
        "figure": figure_spec(plan),
        "verdict": tables.verdict_html(plan),
        "error": tables.error_html(plan),
        "figures": tables.figures_html(plan),
        "tables": tables.tables_html(plan),
        "command": plan.command(),
    }


def form() -> dict[str, Any]:
    """Show the controls; returns what they say, without what is left to vLLM."""
    model = st.selectbox("model", models(), index=models().index(_DEFAULT_MODEL))
    gpu = st.selectbox("GPU", gpus(), index=gpus().index("H100"))
    utilization = st.slider("gpu_memory_utilization", 0.5, 1.0, 0.92, 0.01)
    counts = {
        name: st.number_input(name, min_value=1, value=None, placeholder="default")
        for name in ("max_model_len", "max_num_seqs", "max_num_batched_tokens")
    }
    parallel = {
        name: st.number_input(name, min_value=1, value=1)
        for name in (
            "tensor_parallel_size",
            "pipeline_parallel_size",
            "data_parallel_size",
        )
    }
    choices = {
        name: st.selectbox(name, [None, *filter(None, values)], format_func=_choice)
        for name, values in _CHOICES.items()
    }
    switches = {
        name: st.checkbox(name) or None
        for name in ("enforce_eager", "enable_expert_parallel")
    }
    given = counts | parallel | choices | switches
    return {
        "model": model,
        "gpu": gpu,
        "gpu_memory_utilization": utilization,
        **{name: value for name, value in given.items() if value is not None},
    }


def _choice(value: str | None) -> str:
    return value or "vLLM's choice"


def show(found: dict[str, Any]) -> None:
    """Show the answer."""
    st.html(f"<style>{style()}</style>")
    st.html(found["verdict"])
    if found["error"]:
        st.html(found["error"])
    st.plotly_chart(go.Figure(found["figure"]), key="bars")
    st.html(found["figures"])
    st.code(found["command"], language="bash")
    with st.expander("Memory lines"):
        st.html(found["tables"])


def main() -> None:
    """Show the page."""
    st.set_page_config(page_title="vLLM memory planner", layout="wide")
    left, right = st.columns([1, 2])
    with left:
        asked = form()
    with right:
        try:
            show(answer(**asked))
        except PlannerError as error:
            st.error(str(error))


main()
