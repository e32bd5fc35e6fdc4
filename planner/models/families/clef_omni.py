"""Clef: a head that answers all questions of a prompt together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label, Reader
from planner.models.families.facts import Facts
from planner.models.families.qwen3_5 import read_qwen3_5
from planner.models.families.qwen3_omni_moe_thinker import read_qwen3_omni
from planner.models.layers import Module, Part, Replicated

_QUESTIONS = 3


def read_clef(facts: Facts, label: Label, *, base: Reader) -> ModelArchitecture:
    """Return a model whose head answers all questions of a prompt together.

    Source: vLLM 0.33.0 `models/clef_flash.py`, `clef_omni.py` and
    `clef_joint_schema.py` JointSchemaHead.
    """
    model = base(facts, label)
    head = Facts(facts.mapping("joint_head_config"), facts.model_type)
    modules = tuple(_joint_head(head))
    return replace(model, every_stage=(*model.every_stage, *modules), is_pooling=True)


def _joint_head(facts: Facts) -> Iterator[Module]:
    hidden, width = facts.integer("hidden_size"), facts.integer("width")
    wide = facts.integer("feedforward")
    norm = ((width,),) * 2
    attention = ((3 * width, width), (3 * width,), (width, width), (width,))
    mlp = ((wide, width), (wide,), (width, wide), (width,))
    head = partial(Replicated, part=Part.CLASSIFIER)
    yield head(
        name="pooler.head",
        shapes=(
            *((hidden,),) * 2,
            *((width, hidden),) * 6,
            (_QUESTIONS, width),
            *norm * 3,
            *((width, 4 * width), (width,), (1, width), (1,), (), (), ()),
        ),
    )
    for index in range(facts.integer("routing_layers")):
        name = f"pooler.head.evidence_layers.{index}"
        yield head(name=name, shapes=(*norm * 3, *attention, *mlp))
    for index in range(facts.integer("layers")):
        name = f"pooler.head.layers.{index}"
        yield head(name=name, shapes=(*norm * 3, *attention * 2, *mlp))


READERS = {
    "ClefFlashForJointSchema": partial(read_clef, base=read_qwen3_5),
    "ClefOmniForJointSchema": partial(read_clef, base=read_qwen3_omni),
}
