"""EAGLE heads behind pipeline stages."""

from __future__ import annotations

from typing import Any

import pytest

from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.errors import Refused
from planner.models.drafts.shared import Target, stage_notes
from planner.models.files import ModelFiles
from tests.configs import LLAMA_8B
from tests.models.test_speculating import EAGLE3, drafted

ASKED = {"method": "eagle3", "num_speculative_tokens": 3}


def notes(tensors: dict[str, Any], **layout: Any) -> tuple[str, ...]:
    """Return the notes on a head with these tensors behind a Llama."""
    files = ModelFiles(name="draft", config=EAGLE3, tensor_shapes=tensors)
    plain: Any = type("Model", (), {"architecture": "LlamaForCausalLM"})()
    target = Target(model=plain, files=files, max_model_len=8192)
    asked = {"tensor_parallel_size": 1, "pipeline_parallel_size": 2, **layout}
    return stage_notes("eagle3", files, target, ParallelLayout(**asked))


def test_a_head_without_words_of_its_own_cannot_lie_on_a_later_stage() -> None:
    """Since 0.30.0; its target's words are on the first."""
    alone = {"midlayer.mlp.up_proj.weight": ("BF16", (1, 1))}
    with pytest.raises(Refused, match="needs the target input embedding"):
        notes(alone)
    assert () == notes(alone, pipeline_parallel_size=1)
    assert () == notes(alone, release=Release((0, 29, 0)))
    assert () == notes({**alone, "embed_tokens.weight": ("BF16", (1, 1))})


def test_what_cannot_be_seen_is_said(tmp_path) -> None:
    """A plan from a config alone says what it takes for granted."""
    plan = drafted(tmp_path, LLAMA_8B, ASKED, EAGLE3, pipeline_parallel_size=2)
    assert any("which is assumed" in note for note in plan.notes)
