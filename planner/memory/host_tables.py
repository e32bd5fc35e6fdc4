"""Tables that a worker keeps in CPU memory for each request that it may work on.

Source: vLLM 0.33.0 `v1/worker/gpu/states.py` RequestState, `v1/worker/gpu/mm/rope.py`
RopeState and `v1/worker/gpu/buffer_utils.py` UvaBuffer (second model runner);
`v1/worker/gpu_input_batch.py` InputBatch (first model runner).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.memory.host import HostLine
from planner.model import ModelArchitecture
from planner.releases import Release
from planner.result import Basis
from planner.units import format_size

_TOKEN_ID = 4
_FLAG = 1
_POSITION = 4
_FEWEST_CHANNELS = 3
_ROPE = ("rope_parameters", "rope_scaling")


def pinned_bytes(size_bytes: int) -> int:
    """Return what PyTorch takes of CPU memory to pin a tensor: a power of two.

    >>> pinned_bytes(234_881_024), pinned_bytes(1024)
    (268435456, 1024)

    Source: PyTorch `aten/src/ATen/core/CachingHostAllocator.h` allocate.
    """
    return 1 << (size_bytes - 1).bit_length() if size_bytes > 0 else 0


def token_ids(
    max_num_seqs: int, max_model_len: int, release: Release, *, uses_v2_runner: bool
) -> HostLine:
    """Return the tokens of every request at its full length, by request.

    The second model runner pins them, so that the GPU reads them where they are. The
    first also keeps whether each is a token or an embedding, from 0.11.0 on.
    """
    entry = _TOKEN_ID
    if not uses_v2_runner and release.since(0, 11):
        entry += _FLAG
    table = max_num_seqs * max_model_len * entry
    size = pinned_bytes(table) if uses_v2_runner else table
    return HostLine(
        name="token ids",
        size_bytes=size,
        basis=Basis.EXACT if uses_v2_runner else Basis.FORMULA,
        why=f"{max_num_seqs:,} max_num_seqs x {max_model_len:,} max_model_len x "
        f"{entry} bytes = {format_size(table)}"
        + (_pinned(size) if uses_v2_runner else ", resident once written"),
        is_usual=True,
    )


def rope_positions(
    model: ModelArchitecture, max_num_seqs: int, max_model_len: int
) -> HostLine | None:
    """Return the positions of prompts with images, by request and channel.

    For the second model runner and models with several positions for each token.
    """
    channels = rope_channels(model)
    if not channels:
        return None
    table = max_num_seqs * max_model_len * channels * _POSITION
    size = pinned_bytes(table)
    return HostLine(
        name="rope positions",
        size_bytes=size,
        basis=Basis.EXACT,
        why=f"{max_num_seqs:,} max_num_seqs x {max_model_len:,} max_model_len x "
        f"{channels} channels x {_POSITION} bytes = {format_size(table)}"
        + _pinned(size),
        is_usual=True,
    )


def rope_channels(model: ModelArchitecture) -> int:
    """Return how many positions a token has; 0 for models with the usual one.

    Source: vLLM 0.33.0 `transformers_utils/config.py` uses_mrope, mrope_num_dims.
    """
    if model.files is None or not model.is_multimodal:
        return 0
    config = model.files.config
    parts = [config, *(part for part in config.values() if isinstance(part, Mapping))]
    sections = [_section(part) for part in parts]
    thinker = config.get("thinker_config")
    if isinstance(thinker, Mapping):
        sections += [_section(p) for p in thinker.values() if isinstance(p, Mapping)]
    found = [len(section) for section in sections if section]
    return max(_FEWEST_CHANNELS, *found) if found else 0


def _section(part: Mapping[str, Any]) -> list[Any]:
    for name in _ROPE:
        rope = part.get(name)
        section = rope.get("mrope_section") if isinstance(rope, Mapping) else None
        if isinstance(section, list):
            return section
    return []


def _pinned(size_bytes: int) -> str:
    return f"; pinned in a power of two, {format_size(size_bytes)}"
