"""Embeddings of models that could generate."""

import json
from pathlib import Path

import pytest

import planner
from planner.engine.gpu import GPU
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.errors import PlannerError, UnknownArchitecture
from planner.memory.weights import stage_weights
from planner.models.families.pooling import as_run
from tests.configs import BERT, LLAMA_8B, QWEN3_SMALL, architecture


def test_pooling_drops_the_head() -> None:
    """128,256 rows of 4,096 in bfloat16; the embeddings stay."""
    model = architecture(LLAMA_8B)
    pooled = as_run(model, "pooling")
    (whole,), (without,) = (
        stage_weights(m, ParallelLayout(), "bfloat16") for m in (model, pooled)
    )
    assert 2 * 128256 * 4096 == whole.weights_bytes - without.weights_bytes
    assert pooled.is_pooling


def test_a_tied_head_is_the_embeddings_and_stays() -> None:
    """Nothing is dropped."""
    model = architecture(QWEN3_SMALL, tie_word_embeddings=True)
    assert model.last_stage == as_run(model, "pooling").last_stage


def test_other_runners_leave_the_model_as_it_is() -> None:
    """Also pooling, of a model that does nothing else."""
    model, bert = architecture(LLAMA_8B), architecture(BERT)
    for runner in (None, "auto", "generate"):
        assert model is as_run(model, runner)
    assert bert is as_run(bert, "pooling")
    with pytest.raises(UnknownArchitecture, match="runner='generate'"):
        as_run(bert, "generate")


def test_the_argument_reaches_the_plan() -> None:
    """No sampler's head on an H100: 1,002 MiB less."""
    device = GPU.named("H100")
    model = architecture(LLAMA_8B)
    plans = [planner.plan(model, device, runner=name) for name in ("auto", "pooling")]
    generating, pooling = (plan.ranks[0].weights_bytes for plan in plans)
    assert 2 * 128256 * 4096 == generating - pooling


@pytest.mark.parametrize(
    ("kind", "has_head"),
    [
        ("sentence_transformers.models.Pooling", False),
        ("sentence_transformers.models.Normalize", True),
    ],
)
def test_sentence_transformers_ask_for_pooling(
    tmp_path: Path, kind: str, has_head: bool
) -> None:
    """A modules.json that pools makes an embedding model of one that generates."""
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B))
    modules = [{"idx": 0, "type": "sentence_transformers.models.Transformer"}]
    modules.append({"idx": 1, "type": kind})
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    plan = planner.plan(tmp_path, "H100")
    parts = {part.name for part in plan.ranks[0].weight_parts if part.size_bytes}
    assert ("lm_head" in parts) is has_head
    assert plan.model is not None
    assert plan.model.is_pooling is not has_head


def test_a_broken_side_file_names_itself(tmp_path: Path) -> None:
    """Not the config.json."""
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B))
    (tmp_path / "modules.json").write_text("[{")
    with pytest.raises(PlannerError, match=r"modules\.json is not JSON"):
        planner.plan(tmp_path, "H100")


def test_roberta_held_positions_and_types_in_full() -> None:
    """Before 0.25, over two ranks; now 576 and 64 padded rows are halved."""
    config = {
        **BERT,
        "architectures": ["RobertaModel"],
        "model_type": "roberta",
        "max_position_embeddings": 514,
        "type_vocab_size": 1,
    }
    model = architecture(config)
    width = model.hidden_size
    elements = []
    for release in ((0, 24, 0), (0, 25, 0)):
        layout = ParallelLayout(tensor_parallel_size=2, release=Release(release))
        tensors = [t for m in model.every_stage for t in m.tensors(layout)]
        elements.append(sum(tensor.elements for tensor in tensors))
    assert (514 + 1 - (576 + 64) // 2) * width == elements[0] - elements[1]
