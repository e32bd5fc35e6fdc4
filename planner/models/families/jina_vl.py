"""Jina's ranker of images: Qwen2-VL with its head, and one of its own."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.qwen2_vl import read_qwen2_vl
from planner.models.families.towers import blocks
from planner.models.layers import Part


def _read(facts: Facts, label: Label) -> ModelArchitecture:
    """Source: vLLM 0.33.0 `models/jina_vl.py` JinaVLScorer.

    One label is set by `models/config.py` JinaVLForSequenceClassificationConfig.
    """
    model = read_qwen2_vl(facts, label)
    size = model.hidden_size
    head = (
        blocks.column("score.dense", size, size, bias=True),
        blocks.row("score.out_proj", size, 1, bias=True),
    )
    own = {"part": Part.CLASSIFIER, "dtype": "float32", "is_quantizable": False}
    every = (*model.every_stage, *(replace(layer, **own) for layer in head))
    return replace(model, every_stage=every, is_pooling=True)


READERS = {"JinaVLForRanking": _read}
