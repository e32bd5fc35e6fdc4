"""Rotary embeddings: their parameters, and the cache of cosines each rank holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any

from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
from planner.errors import UnknownArchitecture
from planner.models.architecture import RopeParameters
from planner.models.families.facts import Facts
from planner.models.families.windows import SLIDING
from planner.models.layers import Part, Replicated
from planner.models.tensors import Tensor, Tensors
from planner.values import frozen

_ORIGINAL_LENGTH = "original_max_position_embeddings"
_ROWS_ARE_MAX_POSITION = ("default", "llama3", "ntk", "dynamic", "mllama4")
_CHOOSES_MROPE_ROWS = Change(
    since=(0, 32),
    what=(
        "A model says how far its tables of image positions reach. Before, all of them "
        "held four times the positions of the text."
    ),
    source="vLLM 0.32.0 `layers/rotary_embedding/mrope.py` (positions_factor)",
)


def rope_dict(facts: Facts) -> Mapping[str, Any]:
    """Return the rope parameters in one mapping, whichever way the config has them.

    Source: vLLM 0.33.0 `transformers_utils/config.py` patch_rope_parameters.
    """
    merged = {**facts.mapping("rope_scaling"), **facts.mapping("rope_parameters")}
    rope_type = merged.get("rope_type") or merged.get("type") or "default"
    if rope_type == "su":
        rope_type = "longrope"  # Phi-3's first name for it
    if rope_type == "mrope":
        rope_type = "default"  # what counts is that it has an mrope_section
    if any(isinstance(value, Mapping) for value in merged.values()):
        raise facts.unsupported("rope_parameters", "they differ by layer type")
    original = facts.value(_ORIGINAL_LENGTH)
    if original is not None:
        merged.setdefault(_ORIGINAL_LENGTH, original)
    return {**merged, "rope_type": rope_type}


def for_layer_type(facts: Facts, layer_type: str) -> Facts:
    """Return the config as layers of one kind see it, whose rotary embeddings differ.

    Newer configs keep rope parameters by kind of layer.
    """
    by_type = facts.mapping("rope_parameters")
    if not any(isinstance(value, Mapping) for value in by_type.values()):
        return facts
    return with_rope(facts, by_type.get(layer_type) or {})


def with_rope(facts: Facts, parameters: Any) -> Facts:  # noqa: ANN401 - the untyped border
    """Return the config with these rotary parameters instead of its own."""
    config = {**facts.config, "rope_scaling": None, "rope_parameters": parameters}
    return Facts(config, facts.model_type)


def rope_parameters(facts: Facts) -> tuple[RopeParameters, ...]:
    """Return what the derived context length depends on."""
    by_type = facts.mapping("rope_parameters")
    kinds = [k for k, value in by_type.items() if isinstance(value, Mapping)]
    ropes = [rope_dict(for_layer_type(facts, kind)) for kind in kinds]
    return tuple(
        RopeParameters(
            rope_type=rope["rope_type"],
            factor=_number(facts, rope, "factor"),
            original_max_position_embeddings=_tokens(facts, rope),
        )
        for rope in ropes or [rope_dict(facts)]
    )


def _tokens(facts: Facts, rope: Mapping[str, Any]) -> int | None:
    tokens = _number(facts, rope, _ORIGINAL_LENGTH)
    return None if tokens is None else int(tokens)


def _number(facts: Facts, rope: Mapping[str, Any], name: str) -> float | None:
    value: object = rope.get(name)
    if value is None or (isinstance(value, int | float) and value > 0):
        return value
    raise facts.unsupported("rope_parameters", f"{name} is no number above 0")


def yarn_rows(facts: Facts, rope: Mapping[str, Any]) -> int:
    """Return the original length times the factor, both of which have to be there.

    Raises:
        UnknownArchitecture: if one is missing, or no number above 0.

    Source: vLLM 0.33.0 `layers/rotary_embedding/deepseek_scaling_rope.py`.
    """
    factor, original = _number(facts, rope, "factor"), _tokens(facts, rope)
    if factor is None or original is None:
        raise facts.unsupported(
            "rope_scaling", "YaRN needs its factor and its original length."
        )
    return ceil(original * factor)


def rotary_dim(facts: Facts, head_size: int) -> int:
    """Return how many of a head's dimensions are rotated.

    Source: vLLM 0.33.0 `layers/rotary_embedding/__init__.py` get_rope.
    """
    # A null is an answer: the class's default does not replace it.
    rope = {"rope_dim": None, "partial_rotary_factor": None, **rope_dict(facts)}
    numbers = Facts(rope, facts.model_type)
    if rope["rope_dim"]:
        return numbers.integer("rope_dim")
    general = facts.number(
        "partial_rotary_factor", "rotary_pct", "rope_pct", default=1.0
    )
    return int(head_size * numbers.number("partial_rotary_factor", default=general))


def rope_rows(facts: Facts, max_position: int, mrope_positions_factor: int = 4) -> int:
    """Return how many positions the cache holds.

    `mrope_positions_factor` is by how much a model of images or videos enlarges it.

    Raises:
        UnknownArchitecture: for a scaling type whose cache is not known.

    Source: vLLM 0.33.0 `layers/rotary_embedding/`, `_compute_cos_sin_cache` of each
    scaling class.
    """
    rope = rope_dict(facts)
    rope_type = rope["rope_type"]
    factor = mrope_positions_factor if "mrope_section" in rope else 1
    if rope_type == "default":
        return max_position * factor
    if rope_type in _ROWS_ARE_MAX_POSITION:
        return max_position
    original = _tokens(facts, rope) or max_position
    if rope_type == "longrope":
        return original + max_position  # a short and a long table
    scale = _number(facts, rope, "factor")
    if scale is not None and rope_type == "linear":
        return ceil(max_position * scale)
    if scale is not None and rope_type == "yarn":
        return ceil(original * factor * scale)
    if scale is not None and rope_type in ("deepseek_yarn", "deepseek_llama_scaling"):
        return ceil(original * scale)
    raise UnknownArchitecture(
        f"config.json of model type {facts.model_type!r}: rope_type {rope_type!r} is "
        "not modelled, or lacks its factor."
    )


@frozen
class RotaryCache:
    """The cosine and sine table that all layers of a rank share."""

    rows: int
    rows_of_images: int
    """Where a release makes every table of image positions four times as long."""
    columns: int
    ends_with_length: bool = False
    """Whether it has no more rows than max_model_len."""
    is_scaled: bool = False
    """Whether YaRN multiplies cosines and sines."""
    name: str = "rotary_emb.cos_sin_cache"
    part: Part = Part.BUFFERS
    dtype: str | None = None

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return the table."""
        chosen = layout.release.has(_CHOOSES_MROPE_ROWS)
        rows = self.rows if chosen else self.rows_of_images
        if self.ends_with_length and layout.max_model_len:
            rows = min(rows, layout.max_model_len)
        return (Tensor(rows * self.columns, self.dtype),)


def rope_cache(  # noqa: PLR0913 - what vLLM's get_rope takes
    facts: Facts,
    head_size: int,
    *,
    max_position: int | None = None,
    default_positions: int | None = None,
    dim: int | None = None,
    mrope_positions_factor: int = 4,
) -> tuple[RotaryCache, ...]:
    """Return the cosine and sine table that all layers of a rank share.

    Its rows before any scaling are `max_position`, or else max_position_embeddings,
    or `default_positions` where the config does not say.
    """
    if max_position is None:
        name = "max_position_embeddings"
        max_position = facts.integer(name, default=default_positions)
    return (
        RotaryCache(
            rows=rope_rows(facts, max_position, mrope_positions_factor),
            rows_of_images=rope_rows(facts, max_position),
            columns=rotary_dim(facts, head_size) if dim is None else dim,
            is_scaled=rope_dict(facts)["rope_type"] == "yarn",
        ),
    )


def local_rope_cache(head_size: int, max_position: int) -> tuple[Replicated, ...]:
    """Return the table of layers with a window, which are never scaled."""
    return (
        Replicated(
            "rotary_emb_local.cos_sin_cache", Part.BUFFERS, ((max_position, head_size),)
        ),
    )


def inverse_frequencies(
    facts: Facts, head_size: int, dim: int | None = None
) -> tuple[Replicated, ...]:
    """Return the rotary buffers of the Transformers modeling backend.

    Source: Transformers' rotary embedding modules keep `inv_freq` and
    `original_inv_freq`, float32, and no table.
    """
    half = (rotary_dim(facts, head_size) if dim is None else dim) // 2
    return (
        Replicated(
            "rotary_emb.inv_freq", Part.BUFFERS, ((half,), (half,)), dtype="float32"
        ),
    )


def typed_ropes(
    facts: Facts,
    types: Iterable[str],
    head_size: int,
    *,
    default_positions: int | None = None,
    local: Facts | None = None,
) -> tuple[RotaryCache, ...]:
    """Return one rotary table for each set of parameters among these kinds of layer.

    Args:
        facts: of the config, whose rope_parameters may differ by kind of layer.
        types: the kinds that occur.
        head_size: of the attention.
        default_positions: rows before any scaling where the config does not say.
        local: what holds for windows where the config does not keep it by kind.

    Source: vLLM 0.33.0 `layers/rotary_embedding/__init__.py` get_rope, which shares
    tables that are alike.
    """
    max_position = facts.integer("max_position_embeddings", default=default_positions)
    tables: dict[str, RotaryCache] = {}
    for kind in dict.fromkeys(types):
        own = for_layer_type(facts, kind)
        if own is facts and local is not None and kind == SLIDING:
            own = local
        key = f"{sorted(rope_dict(own).items())}{rotary_dim(own, head_size)}"
        if key not in tables:
            (table,) = rope_cache(own, head_size, max_position=max_position)
            tables[key] = table
    return tuple(tables.values())
