"""Models with encoders of images, videos or sounds beside their language model.

A reader of such a model reads its language model as if it stood alone, builds the
towers, and puts both together here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.architectures.facts import Facts
from planner.model import ModelArchitecture, Tower


def nested(facts: Facts, name: str, model_type: str | None = None) -> Facts:
    """Return a config within the config, with its own class's defaults.

    Args:
        facts: the outer config.
        name: its field, such as "text_config".
        model_type: of the inner config where it does not say.

    Raises:
        UnknownArchitecture: when there is none.
    """
    inner: Any = facts.value(name)
    if not isinstance(inner, Mapping):
        raise facts.unsupported(name, "a nested config is needed.")
    return Facts(inner, str(inner.get("model_type") or model_type or ""))


def with_towers(
    model: ModelArchitecture,
    towers: tuple[Tower, ...],
    *,
    layer_prefix: str,
    prefix_renames: tuple[tuple[str, str], ...] = (),
    head_prefix: str = "",
) -> ModelArchitecture:
    """Return the language model with its towers, under the names of the whole.

    Args:
        model: the language model, as its own reader gives it.
        towers: the encoders with their projectors.
        layer_prefix: vLLM's name of the decoder layers within the whole model.
        prefix_renames: beginnings of names in the checkpoint and in vLLM.
        head_prefix: put before the names of embeddings, final norm and head.
    """

    def renamed(modules: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(replace(m, name=head_prefix + m.name) for m in modules)

    return replace(
        model,
        towers=towers,
        layer_prefix=layer_prefix,
        prefix_renames=prefix_renames,
        first_stage=renamed(model.first_stage),
        last_stage=renamed(model.last_stage),
        every_stage=renamed(model.every_stage),
        tied_embeddings=renamed(model.tied_embeddings),
    )
