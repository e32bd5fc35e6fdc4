"""Images for retrieval: Qwen3-VL, Qwen3.5 and PaliGemma, which keep their heads."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label, Reader
from planner.models.families.facts import Facts
from planner.models.families.paligemma import read_paligemma
from planner.models.families.qwen3_5 import read_qwen3_5
from planner.models.families.qwen3_vl import read_qwen3_vl
from planner.models.layers import Part, Replicated

_WIDTHS = ("embed_dim", "dims", "dim", "projection_dim", "colbert_dim")


def _retriever(
    model: ModelArchitecture, columns: int | None, *, bias: bool = False
) -> ModelArchitecture:
    """Return a model that projects each token, whose prompts are not split."""
    shapes: tuple[tuple[int, ...], ...] = ()
    if columns:
        shapes = ((columns, model.hidden_size), (columns,))[: 2 if bias else 1]
    projection = Replicated(
        "custom_text_proj", Part.CLASSIFIER, shapes, dtype="float32"
    )
    return replace(
        model,
        every_stage=(*model.every_stage, projection),
        is_pooling=True,
        is_encoder_only=True,
    )


def _read(
    facts: Facts, label: Label, *, base: Reader, default: int | None = None
) -> ModelArchitecture:
    """Source: vLLM 0.33.0 `models/colqwen3.py`, `models/colqwen3_5.py`."""
    columns = facts.optional_integer(*_WIDTHS) or default
    return _retriever(base(facts, label), columns, bias=default is not None)


def _read_colpali(facts: Facts, label: Label) -> ModelArchitecture:
    """Return ColPali: PaliGemma within a config of its own.

    Source: vLLM 0.33.0 `models/colpali.py`.
    """
    keys = {"dtype", "torch_dtype"} & set(facts.config)
    outer = {key: facts.config[key] for key in keys}
    inner = Facts({**facts.mapping("vlm_config"), **outer}, "paligemma")
    model = read_paligemma(inner, label)
    columns = facts.optional_integer("embedding_dim", *_WIDTHS)
    return _retriever(replace(model, model_type=facts.model_type), columns)


READERS: dict[str, Reader] = {
    **dict.fromkeys(
        ("ColQwen3", "OpsColQwen3Model", "Qwen3VLNemotronEmbedModel"),
        partial(_read, base=read_qwen3_vl),
    ),
    "ColQwen3_5": partial(_read, base=read_qwen3_5, default=128),
    "ColPaliForRetrieval": _read_colpali,
}
