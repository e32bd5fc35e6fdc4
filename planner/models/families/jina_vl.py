"""Jina's ranker of images: Qwen2-VL with its head, and one of its own."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.qwen2_vl import read_qwen2_vl
from planner.models.layers import ColumnParallelLinear, Part, RowParallelLinear


def read_jina_vl(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Jina's ranker of images: Qwen2-VL with its head, and one of its own.

    Source: vLLM 0.33.0 `models/jina_vl.py` JinaVLScorer; `models/config.py`
    JinaVLForSequenceClassificationConfig, which sets one label.
    """
    model = read_qwen2_vl(facts, label)
    size = model.hidden_size
    dense = ColumnParallelLinear(
        name="score.dense",
        part=Part.CLASSIFIER,
        input_size=size,
        output_sizes=(size,),
        bias=True,
        dtype="float32",
        is_quantizable=False,
    )
    out = RowParallelLinear(
        name="score.out_proj",
        part=Part.CLASSIFIER,
        input_size=size,
        output_size=1,
        bias=True,
        dtype="float32",
        is_quantizable=False,
    )
    every = (*model.every_stage, dense, out)
    return replace(model, every_stage=every, is_pooling=True)


READERS = {
    "JinaVLForRanking": read_jina_vl,
}
