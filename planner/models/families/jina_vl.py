"""Jina's ranker of images: Qwen2-VL with its head, and one of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.qwen2_vl import read_qwen2_vl
from planner.models.families.towers import blocks
from planner.models.layers import Module, Part


def _head(size: int) -> Iterator[Module]:
    for layer in (
        blocks.column("score.dense", size, size, bias=True),
        blocks.row("score.out_proj", size, 1, bias=True),
    ):
        yield replace(
            layer, part=Part.CLASSIFIER, dtype="float32", is_quantizable=False
        )


def _read(facts: Facts, label: Label) -> ModelArchitecture:
    """Source: vLLM 0.33.0 `models/jina_vl.py` JinaVLScorer.

    One label is set by `models/config.py` JinaVLForSequenceClassificationConfig.
    """
    model = read_qwen2_vl(facts, label)
    every = (*model.every_stage, *_head(model.hidden_size))
    return replace(model, every_stage=every, is_pooling=True)


READERS = {"JinaVLForRanking": _read}
