"""Fields of a config.json: whole numbers, factors and pairs, or a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import UnknownArchitecture
from planner.models.families.facts import Facts
from planner.models.families.rope import rope_rows, rotary_dim, yarn_rows
from tests.configs import LLAMA_8B, architecture


def facts(**config: Any) -> Facts:
    """A config of a class that has no defaults."""
    return Facts(config, "llama-of-tests")


def test_a_factor_may_be_whole_or_not() -> None:
    """0.25 and 4; a missing one is the default."""
    given = facts(ratio=0.25, factor=4)
    assert [0.25, 4.0, 1.5] == [
        given.number("ratio"),
        given.number("factor"),
        given.number("other", default=1.5),
    ]


@pytest.mark.parametrize(
    "value", ["4", [4], True, -0.5, float("inf"), float("nan"), 1e300]
)
def test_a_factor_that_is_none_is_refused(value: object) -> None:
    """A list times a size would be a list as long."""
    with pytest.raises(UnknownArchitecture, match=r"ratio is .*, a number from 0 to"):
        facts(ratio=value).number("ratio")


def test_a_missing_factor_is_named() -> None:
    """Without a default there is nothing to compute with."""
    with pytest.raises(UnknownArchitecture, match="ratio is None: vLLM's class needs"):
        facts().number("ratio")


def test_a_part_of_each_head_is_rotated() -> None:
    """The rotary embedding's own factor comes before that of the config."""
    own = {"partial_rotary_factor": 0.25}
    assert [32, 64, 128] == [
        rotary_dim(facts(rope_parameters=own, rotary_pct=0.5), 128),
        rotary_dim(facts(rotary_pct=0.5), 128),
        rotary_dim(facts(), 128),
    ]


def test_yarn_lengthens_its_original_length() -> None:
    """4,096 x 2.5, whatever max_position_embeddings says."""
    rope = {"original_max_position_embeddings": 4096, "factor": 2.5}
    assert 10_240 == yarn_rows(facts(), rope)
    assert 10_240 == rope_rows(
        facts(rope_parameters={**rope, "rope_type": "yarn"}), max_position=99
    )


@pytest.mark.parametrize(
    "rope",
    [
        {"factor": 2.0},
        {"original_max_position_embeddings": 4096},
        {"original_max_position_embeddings": [1], "factor": 4_000_000_000},
    ],
)
def test_yarn_needs_two_numbers(rope: dict[str, Any]) -> None:
    """A list of one item, four billion times, would take all memory."""
    with pytest.raises(UnknownArchitecture, match=r"YaRN needs|is no number above 0"):
        yarn_rows(facts(), rope)


def test_a_size_that_is_no_whole_number_builds_no_module() -> None:
    """2,560.5 columns: a weight of half a byte is none."""
    with pytest.raises(UnknownArchitecture, match=r"is 2560\.5, a whole number"):
        architecture(LLAMA_8B, intermediate_size=2560.5)


def test_a_weight_beyond_any_memory_is_refused() -> None:
    """2**39 words of 2**12 numbers are 2**51 elements."""
    with pytest.raises(UnknownArchitecture, match="embed_tokens cannot be built"):
        architecture(LLAMA_8B, vocab_size=1 << 39)


def test_a_field_is_asked_by_its_usual_name() -> None:
    """And named as the config names it where it is missing."""
    usual = facts(n_embd=64, n_layer=2).called(
        {"hidden_size": ("hidden_size", "n_embd"), "width": ("n_inner",)}, {"heads": 4}
    )
    assert [64, 4] == [usual.integer("hidden_size"), usual.integer("heads")]
    assert usual.value("width") is None
    with pytest.raises(UnknownArchitecture, match="n_inner is None"):
        usual.integer("width")
