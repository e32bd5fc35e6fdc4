"""ColQwen: Qwen3-VL and Qwen3.5 as retrievers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.qwen3_vl import read_qwen3_5, read_qwen3_vl
from planner.models.layers import Part, Replicated

WIDTHS = ("embed_dim", "dims", "dim", "projection_dim", "colbert_dim")


def as_retriever(
    model: ModelArchitecture, columns: int | None, *, bias: bool = False
) -> ModelArchitecture:
    """Return a model that projects each token, whose prompts are not split."""
    shapes: tuple[tuple[int, ...], ...] = ()
    if columns:
        shapes = ((columns, model.hidden_size), (columns,))[: 2 if bias else 1]
    projection = Replicated(
        name="custom_text_proj", part=Part.CLASSIFIER, shapes=shapes, dtype="float32"
    )
    return replace(
        model,
        every_stage=(*model.every_stage, projection),
        is_pooling=True,
        is_encoder_only=True,
    )


def read_colqwen(
    facts: Facts,
    label: Label,
    *,
    base: Callable[[Facts, Label], ModelArchitecture],
    default: int | None = None,
) -> ModelArchitecture:
    """Return Qwen3-VL or Qwen3.5 as a retriever.

    Source: vLLM 0.33.0 `models/colqwen3.py`, `models/colqwen3_5.py`.
    """
    columns = facts.optional_integer(*WIDTHS) or default
    return as_retriever(base(facts, label), columns, bias=default is not None)


READERS = {
    "ColQwen3": partial(read_colqwen, base=read_qwen3_vl),
    "OpsColQwen3Model": partial(read_colqwen, base=read_qwen3_vl),
    "Qwen3VLNemotronEmbedModel": partial(read_colqwen, base=read_qwen3_vl),
    "ColQwen3_5": partial(read_colqwen, base=read_qwen3_5, default=128),
}
