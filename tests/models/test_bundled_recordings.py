"""The recordings that the planner brings: real models without a reader."""

from __future__ import annotations

import pytest

import planner
from planner.data import DATA
from planner.models.families.recorded import read_recorded
from planner.models.files import ModelFiles
from planner.models.recordings import read_recording

PATHS = sorted((DATA / "recordings").glob("*.json"))


def test_there_are_some() -> None:
    """Laguna and Mistral Small 4 at least."""
    models = {read_recording(path).model for path in PATHS}

    assert {"poolside/Laguna-XS.2", "mistralai/Mistral-Small-4-119B-2603"} <= models


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_what_vllm_built_is_planned(path) -> None:
    """Weights on one rank and on two are vLLM's own, as the recording has them."""
    recording = read_recording(path)
    assert recording.config_key == path.stem
    config = {
        "architectures": [recording.whole["model"]["architecture"]],
        "num_attention_heads": recording.whole["model"]["num_attention_heads"],
        "hidden_size": recording.whole["model"]["hidden_size"],
        "max_position_embeddings": 8192,
    }
    model = read_recorded(ModelFiles(name=recording.model, config=config), recording)

    for ranks, run in zip((1, 2), recording.runs, strict=False):
        plan = planner.plan(
            model, gpu="B300", tensor_parallel_size=ranks, max_model_len=4096
        )
        assert plan.ranks
        loaded = run["ranks"][0]["weights_bytes"]
        assert plan.ranks[0].allocated_weights_bytes == pytest.approx(loaded, rel=0.005)
