"""ColPali: PaliGemma as a retriever."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.colqwen3 import WIDTHS, as_retriever
from planner.models.families.facts import Facts
from planner.models.families.paligemma import read_paligemma


def read_colpali(facts: Facts, label: Label) -> ModelArchitecture:
    """Return ColPali: PaliGemma within a config of its own.

    Source: vLLM 0.33.0 `models/colpali.py`.
    """
    outer = {
        key: facts.config[key]
        for key in ("dtype", "torch_dtype")
        if key in facts.config
    }
    inner = Facts({**facts.mapping("vlm_config"), **outer}, "paligemma")
    model = read_paligemma(inner, label)
    columns = facts.optional_integer("embedding_dim", *WIDTHS)
    return as_retriever(replace(model, model_type=facts.model_type), columns)


READERS = {
    "ColPaliForRetrieval": read_colpali,
}
