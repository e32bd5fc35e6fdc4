"""What surrounds the decoder layers that guess, by the model's family.

Source: vLLM 0.33.0 `models/deepseek_mtp.py`, `glm4_moe_mtp.py`, `glm4_moe_lite_mtp.py`,
`glm_ocr_mtp.py`, `qwen3_next_mtp.py`, `qwen3_5_mtp.py`, `mimo_mtp.py`,
`mimo_v2_mtp.py`, `ernie_mtp.py`, `exaone_moe_mtp.py`, `longcat_flash_mtp.py`,
`nemotron_h_mtp.py`; `vllm/models/deepseek_v32/nvidia/mtp.py`,
`deepseek_v4/nvidia/mtp.py`, `glm5next/common/mtp.py`, `minimax_m3/nvidia/mtp.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from planner.engine.releases.change import Change
from planner.models.architecture import ModelArchitecture
from planner.models.drafts.methods import runs
from planner.models.families.rope import RotaryCache
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    Replicated,
    ReplicatedLinear,
    TokenBuffer,
)
from planner.values import frozen


def _runs(layers: str, since: str) -> Change:
    return runs(f"{layers} for multi-token prediction", since)


@frozen
class HeadShape:
    """What surrounds the decoder layer of one family."""

    prefix: str
    """vLLM's name of the list of layers."""
    is_numbered_on: bool
    """Whether its layers are numbered after the target's, not from 0."""
    around: Callable[[int], tuple[Module, ...]]
    """Norms and projection, each layer its own, by the hidden size."""
    once: Callable[[int], tuple[Module, ...]]
    """The same, once for all layers."""
    tables: Callable[[ModelArchitecture], tuple[Module, ...]] | None = None
    """Its tables that the target holds otherwise, by the target; None: none."""
    without: tuple[Part, ...] = ()
    """Parts of the target's layers that its layers lack."""
    plain: tuple[str, ...] = ()
    """Its layers that are not quantised as the target's are."""
    since: Change = _runs("layers", "0.18.0")
    """The release with which they are modelled first."""
    keeps_embeddings: bool = True
    """Whether a stage apart from the word embeddings holds them for the draft."""


def _norms(hidden_size: int, count: int) -> Replicated:
    return Replicated("norms", Part.NORMS, ((hidden_size,),) * count)


def _projected(hidden_size: int) -> tuple[Module, ...]:
    """Three norms, and a projection that is never quantised."""
    return (
        _norms(hidden_size, 3),
        Replicated("eh_proj", Part.MLP, ((hidden_size, 2 * hidden_size),)),
    )


def _joined(name: str, hidden_size: int) -> tuple[Module, ...]:
    """Three norms, and a projection of token and state that ranks share."""
    return (
        _norms(hidden_size, 3),
        ColumnParallelLinear(name, Part.MLP, 2 * hidden_size, (hidden_size,)),
    )


def _two_norms(hidden_size: int) -> tuple[Module, ...]:
    """Two norms, and a plain projection."""
    return (
        _norms(hidden_size, 2),
        Replicated("linear_proj", Part.MLP, ((hidden_size, 2 * hidden_size),)),
    )


def _whole(hidden_size: int) -> tuple[Module, ...]:
    """Three norms, and a projection that every rank holds, quantised like the rest."""
    return (
        _norms(hidden_size, 3),
        ReplicatedLinear("eh_proj", Part.MLP, 2 * hidden_size, (hidden_size,)),
    )


def _apart(hidden_size: int) -> tuple[Module, ...]:
    """Three norms, and a projection each for token and state."""
    return (
        _norms(hidden_size, 3),
        *(
            ReplicatedLinear(name, Part.MLP, hidden_size, (hidden_size,))
            for name in ("e_proj", "h_proj")
        ),
    )


def _no_modules(_hidden_size: int) -> tuple[Module, ...]:
    return ()


def _rotary(model: ModelArchitecture) -> tuple[Module, ...]:
    """The target's rotary table once more, whose halves are arranged otherwise."""
    return tuple(m for m in model.every_stage if isinstance(m, RotaryCache))


def _choices(model: ModelArchitecture) -> tuple[Module, ...]:
    """The buffer of what sparse attention chose, which the target keeps to itself."""
    return tuple(m for m in model.every_stage if isinstance(m, TokenBuffer))


def _mixed(model: ModelArchitecture) -> tuple[Module, ...]:
    """What joins the residual streams before the head: the target's once more."""
    part = Part.HYPER_CONNECTIONS
    return tuple(m for m in model.every_stage if m.part is part)


_NUMBERED = HeadShape(
    prefix="model.layers", is_numbered_on=True, around=_projected, once=_no_modules
)
_QWEN = HeadShape(
    prefix="mtp.layers",
    is_numbered_on=False,
    around=_no_modules,
    once=partial(_joined, "mtp.fc"),
)
_NEMOTRON = HeadShape(
    prefix="mtp.layers",
    is_numbered_on=False,
    around=_no_modules,
    once=partial(_joined, "mtp.layers.0.eh_proj"),
    keeps_embeddings=False,
)
_WINDOWED = HeadShape(
    prefix="model.mtp.layers",
    is_numbered_on=False,
    around=_projected,
    once=_no_modules,
    plain=("self_attn.o_proj",),
    since=_runs("MiMo-V2's layers", "0.21.0"),
)
SHAPES: Mapping[str, HeadShape] = {
    "deepseek_mtp": _NUMBERED,
    "glm4_moe_mtp": _NUMBERED,
    "glm4_moe_lite_mtp": _NUMBERED,
    "mimo_mtp": _NUMBERED,
    "qwen3_next_mtp": _QWEN,
    "qwen3_5_mtp": _QWEN,
    "nemotron_h_mtp": _NEMOTRON,
    "mimo_v2_mtp": _WINDOWED,
    "ernie_mtp": replace(_NUMBERED, around=_two_norms, tables=_rotary),
    "exaone_moe_mtp": _QWEN,
    "longcat_flash_mtp": replace(_NUMBERED, around=_whole),
    "deepseek_v4_mtp": replace(_NUMBERED, around=_apart, tables=_mixed),
    "glm_ocr_mtp": _NUMBERED,
    "glm5_next_mtp": replace(
        _NUMBERED,
        without=(Part.HYPER_CONNECTIONS,),
        tables=_choices,
        since=_runs("GLM-5.3-Flash's layers", "0.33.0"),
    ),
    "minimax_m3_mtp": HeadShape(
        prefix="model.layers",
        is_numbered_on=False,
        around=_whole,
        once=_no_modules,
        since=_runs("MiniMax-M3's layers", "0.33.0"),
    ),
}
