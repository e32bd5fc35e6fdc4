"""A private model by hand: sizes of a known architecture, or a pasted config.json."""

from __future__ import annotations

import json
from typing import Any

import pytest

import planner
from planner.app.widgets.by_hand import _OFFERED, ByHand
from planner.app.widgets.explorer import Explorer
from planner.models import catalogue

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 5120,
    "num_hidden_layers": 64,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 25600,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
"""Qwen3-32B's sizes."""


@pytest.fixture
def explorer() -> Explorer:
    """The explorer on a model and a GPU that the user chose."""
    return Explorer("meta-llama/Llama-3.1-8B-Instruct", "H100")


def set_by_hand(explorer: Explorer, **sizes: Any) -> None:
    """Set sizes as a page does."""
    for name, value in sizes.items():
        explorer.form.fields[f"hand_{name}"].receive(str(value))


def test_sizes_of_a_published_model_give_its_plan(explorer: Explorer) -> None:
    """Qwen3-32B from its dimensions: the same bytes of weights and of KV cache."""
    sizes = {n: CONFIG[n] for n in ByHand().sizes if n in CONFIG}
    set_by_hand(explorer, architecture="Qwen3ForCausalLM", **sizes, tie="false")
    published = planner.plan("Qwen/Qwen3-32B", gpu="H100")

    assert explorer.plan.name == "my-model"
    assert explorer.plan.command() == "vllm serve my-model"
    assert (
        explorer.plan.limiting_rank.bytes_per_block
        == published.limiting_rank.bytes_per_block
    )
    rank, other = explorer.plan.limiting_rank, published.limiting_rank
    assert rank.weights_bytes == other.weights_bytes


def test_what_is_not_given_is_as_published(explorer: Explorer) -> None:
    """The entry shows it; half the layers have half the KV cache."""
    set_by_hand(explorer, architecture="LlamaForCausalLM")
    whole = explorer.plan.limiting_rank.bytes_per_block
    layers = explorer.form.fields["hand_num_hidden_layers"]
    set_by_hand(explorer, num_hidden_layers=int(layers.chosen) // 2)

    assert explorer.plan.limiting_rank.bytes_per_block == whole // 2


@pytest.mark.parametrize("architecture", _OFFERED)
def test_every_architecture_can_be_changed_in_depth(explorer, architecture) -> None:
    """Lists with an entry for each layer follow."""
    set_by_hand(explorer, architecture=architecture, num_hidden_layers=12)

    assert explorer.plan.model.architecture == architecture
    assert explorer.plan.model.num_hidden_layers == 12


def test_experts_are_asked_for_where_there_are_any(explorer: Explorer) -> None:
    """And the sizes are hidden while no architecture is chosen."""
    at_first = set(explorer.form.main.gone)
    set_by_hand(explorer, architecture="LlamaForCausalLM")
    dense = set(explorer.form.main.gone)
    set_by_hand(explorer, architecture="MixtralForCausalLM", num_experts=4)

    assert {"hand_hidden_size", "hand_num_experts"} <= at_first
    assert "hand_hidden_size" not in dense
    assert "hand_num_experts" in dense
    assert "hand_num_experts" not in explorer.form.main.gone
    assert explorer.plan.model.is_moe


def test_a_pasted_config_is_planned_and_can_be_changed(explorer: Explorer) -> None:
    """A config.json without a name is the model itself."""
    text = json.dumps(CONFIG, indent=2)
    message = {"piece": text, "is_first": True, "is_last": True, "is_whole": True}
    explorer.pasted.box._handle_custom_msg(message, [])
    explorer.pasted.wait(300)
    pasted = explorer.plan.limiting_rank.bytes_per_block
    set_by_hand(explorer, num_key_value_heads=4)

    assert "config.json of a model" in explorer.pasted.box.said
    assert (
        planner.plan("Qwen/Qwen3-32B", gpu="H100").limiting_rank.bytes_per_block
        == pasted
    )
    assert explorer.plan.limiting_rank.bytes_per_block == pasted // 2
    explorer.pasted.view._handle_custom_msg({"press": "undo"}, [])
    assert explorer.plan.name == "meta-llama/Llama-3.1-8B-Instruct"


def test_sizes_that_no_model_has_are_refused_and_the_plan_stays(explorer) -> None:
    """A text that is no number at its entry."""
    set_by_hand(explorer, architecture="LlamaForCausalLM", hidden_size="wide")

    assert "hidden_size" in explorer.form.fields["hand_hidden_size"].error
    assert explorer.results.answer.is_stale


def test_a_change_is_applied_to_the_model_by_hand(explorer: Explorer) -> None:
    """And it is not in a link, which others could not open."""
    set_by_hand(explorer, architecture="LlamaForCausalLM", num_hidden_layers=40)
    explorer._apply("A shorter length", {"max_model_len": 8192})

    assert explorer.plan.name == "my-model"
    assert explorer.plan.resolved.max_model_len == 8192
    assert explorer.form.fields["hand_num_hidden_layers"].value == "40"
    assert explorer.header.query == ""


def test_each_offered_architecture_has_a_published_example() -> None:
    """Of which it takes what is not given."""
    published = {
        (config.get("architectures") or [""])[0] for _, config in catalogue.configs()
    }
    assert {*_OFFERED} <= published
