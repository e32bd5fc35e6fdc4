"""The page's bars, figures and command are those of `planner.plan(...).to_dict()`.

The controls are set at random, as a visitor's browser would send it; what the page then
shows is compared with a plan made from the same inputs, without the page.
"""

import html
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import planner
from planner.app.widgets.explorer import Explorer
from planner.engine.releases import NEWEST
from planner.export import read_link
from planner.units import format_gib

MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "Qwen/Qwen3-30B-A3B",
    "google/gemma-3-4b-it",
    "deepseek-ai/DeepSeek-R1",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "BAAI/bge-m3",
)
STATES = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS),
        "gpu": st.sampled_from(["L4", "A100", "H100", "H200", "B200"]),
        "vllm_version": st.sampled_from([NEWEST, "0.25.1", "0.19.1"]),
    },
    optional={
        "prompt_tokens": st.integers(1, 60_000).map(str),
        "output_tokens": st.integers(0, 4_000).map(str),
        "requests": st.integers(1, 300).map(str),
        "tensor_parallel_size": st.sampled_from(["1", "2", "3", "8"]),
        "pipeline_parallel_size": st.sampled_from(["1", "2"]),
        "data_parallel_size": st.sampled_from(["1", "2", "8"]),
        "max_model_len": st.sampled_from(["512", "8k", "32K", "auto"]),
        "max_num_seqs": st.sampled_from(["1", "64", "1024"]),
        "gpu_memory_utilization": st.sampled_from(["0.3", "0.9", "1"]),
        "kv_cache_dtype": st.sampled_from(["fp8", "auto"]),
    },
)


@pytest.fixture(scope="module")
def explorer() -> Explorer:
    """One page for all states, as a visitor's is."""
    return Explorer()


def words(part: str) -> str:
    """Return the text of a piece of HTML."""
    return html.unescape(re.sub(r"<[^>]+>", " ", part))


def sent(explorer: Explorer, state: dict[str, str]) -> None:
    """Send a state to the controls; what it does not name is left to vLLM."""
    for name, field in explorer.form.main.fields.items():
        if name in ("model", "gpu", "vllm_version"):
            continue
        if name in state or field.is_set:
            field.receive(state.get(name, ""))
    for name in ("vllm_version", "gpu", "model"):
        explorer.form.fields[name].receive(state[name])


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@example(
    state={
        "model": "Qwen/Qwen3-Next-80B-A3B-Instruct",
        "gpu": "L4",
        "vllm_version": NEWEST,
        "pipeline_parallel_size": "2",
        "gpu_memory_utilization": "0.3",
    }
)
@given(state=STATES)
def test_the_page_shows_what_the_plan_says(explorer, state: dict[str, str]) -> None:
    """Law: in every state, or the page says that it is not for the state."""
    sent(explorer, state)
    answer, plan = explorer.results.answer, explorer.plan
    if answer.is_stale:
        assert answer.alert
        return
    alone = planner.plan(**explorer.request()).to_dict()

    assert plan.to_dict() == alone
    assert alone["command"] in html.unescape(words(answer.parts["command"]))
    _check_bars(answer.figure["picture"], alone)
    _check_figures(words(answer.parts["figures"]), alone)
    _check_verdict(words(answer.parts["verdict"]), alone)
    if explorer.header.query:
        assert read_link(explorer.header.query).inputs.plan().to_dict()["model"]


def _check_bars(picture: dict[str, Any], alone: dict[str, Any]) -> None:
    """Each segment has the size of its line."""
    rows = picture["groups"][0]["rows"]
    assert len(rows) == len({row["title"] for row in rows})
    for rank in alone["ranks"]:
        lines = {one["name"]: one["bytes"] for one in rank["lines"] if one["bytes"] > 0}
        if not any(alone["bytes_per_block"]) and "KV cache" in lines:
            lines["unused budget"] = lines.pop("KV cache")
        drawn = [_sizes(row) for row in rows]
        kept = {n: format_gib(b).removesuffix(" GiB") for n, b in lines.items()}
        whole = {n: text for n, text in kept.items() if n != "weights"}
        assert any(whole.items() <= sizes.items() for sizes in drawn), (whole, drawn)


def _sizes(row: dict[str, Any]) -> dict[str, str]:
    return {name: size for name, size, *_ in row["parts"]}


def _check_figures(told: str, alone: dict[str, Any]) -> None:
    if not alone["ranks"]:
        assert told == ""
        return
    engines = alone["all_engines"]
    if not any(alone["bytes_per_block"]):
        assert "nothing is stored between steps" in told
        return
    kind = (alone["error"] or {"kind": ""})["kind"]
    if alone["available_kv_cache_bytes"] <= 0 or kind == "weights":
        assert "Available KV cache  none" in told
        return
    assert f"{engines['kv_cache_size_tokens']:,}" in told
    assert (f"{engines['max_concurrency']:,.2f}x" in told) != (kind == "refused")
    assert format_gib(alone["available_kv_cache_bytes"]) in told
    longest = alone["max_model_len_that_fits"]
    assert ("none" if longest is None else f"{longest:,}") in told


def _check_verdict(told: str, alone: dict[str, Any]) -> None:
    serves, load = alone["serves"], alone["load"]
    if load is None or not alone["fits"]:
        assert "serves" not in told
        return
    number = min(serves["requests_served"], load["requests"])
    assert f"serves {number:,} of {load['requests']:,} at once" in told
    assert ("✔" in told) == serves["is_served"]
