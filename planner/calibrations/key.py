"""Under what a start is kept: release, model and the settings that decide memory.

Left out is what only divides the memory: gpu_memory_utilization, a fixed KV cache, a
fixed number of blocks. So a start measured with one share serves plans with another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from planner.caches import AttentionLayer
from planner.calibrations.fingerprint import fingerprint, plain
from planner.defaults import ResolvedSettings
from planner.engine import EngineSettings
from planner.environment import Environment
from planner.flags import PLANNER_ONLY
from planner.memory.towers import served_towers
from planner.model import ModelArchitecture
from planner.releases import Release
from planner.states import StateLayer

_ONLY_DIVIDE = frozenset(
    """
    gpu_memory_utilization kv_cache_memory_bytes num_gpu_blocks_override
    max_model_len is_max_model_len_auto mamba_block_size
    """.split()
)
"""Of the resolved settings: those that no line but the KV cache depends on."""
_RESOLVED = tuple(
    field.name for field in fields(ResolvedSettings) if field.name not in _ONLY_DIVIDE
)
_NOT_ON_THE_GPU = (
    *("others", "trust_remote_code", "max_cpu_loras", "kv_offloading_size"),
    *PLANNER_ONLY,
)
_TYPED = tuple(
    field.name
    for field in fields(EngineSettings)
    if field.name not in {field.name for field in fields(ResolvedSettings)}
    and field.name not in _NOT_ON_THE_GPU
)
"""Of the typed settings: those that are not resolved, and reach the GPU."""
_VARIABLES = tuple(
    field.name
    for field in fields(Environment)
    if field.name
    not in (
        "allow_long_max_model_len",
        "allow_chunked_local_attention",
        "estimate_cudagraphs",
    )
)
"""Variables that change more than which requests and groups are allowed; whether the
estimate of graphs is charged is decided anew for each plan."""
_NO_VARIABLES = Environment()
_OF_THE_BATCH = (
    "max_num_batched_tokens",
    "max_num_seqs",
    "max_model_len",
    "block_size",
)
_NO_MATTER = ("VLLM_", "HF_", "PLANNER_", "CUDA_VISIBLE_DEVICES")


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a plan says of the start that it is made for."""

    model: ModelArchitecture
    settings: EngineSettings
    resolved: ResolvedSettings
    env: Environment
    given_env: tuple[tuple[str, str], ...]
    release: Release


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """All that two starts must have in common, beside the GPU."""

    vllm_version: str
    architecture: str
    fingerprint: str
    """Of the model, from `planner.calibrations.fingerprint`."""
    settings: str
    """JSON with sorted names: what is typed, what is resolved, variables."""


def key_of(start: Start) -> Key:
    """Return the key of a start."""
    return Key(
        vllm_version=start.release.version,
        architecture=start.model.architecture,
        fingerprint=fingerprint(start.model),
        settings=as_text(_settings(start)),
    )


def is_kin(record: Key, start: Key) -> bool:
    """Return whether a start is one of the same family, with the same ranks and graphs.

    The same class of models in the same release, with all settings but the batch.
    """
    return (
        record.vllm_version == start.vllm_version
        and record.architecture == start.architecture
        and _without_batch(record) == _without_batch(start)
    )


def _without_batch(key: Key) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(key.settings)
    return {name: told[name] for name in told if name not in _OF_THE_BATCH}


def as_text(settings: Mapping[str, Any]) -> str:
    """Return settings as the text by which they are compared."""
    return json.dumps(settings, sort_keys=True)


def _settings(start: Start) -> dict[str, Any]:
    told = {name: plain(getattr(start.resolved, name)) for name in _RESOLVED}
    for name in _TYPED:
        value = getattr(start.settings, name)
        if value is not None:
            told[name] = plain(value)
    for name in _VARIABLES:
        value = getattr(start.env, name)
        if value != getattr(_NO_VARIABLES, name):
            told[f"env.{name}"] = plain(value)
    for name, text in start.given_env:
        if not name.startswith(_NO_MATTER):
            told[f"env.{name}"] = text
    if _depends_on_length(start):
        is_auto = start.resolved.is_max_model_len_auto
        told["max_model_len"] = "auto" if is_auto else start.resolved.max_model_len
    return told


def _depends_on_length(start: Start) -> bool:
    """Return whether max_model_len decides more than the KV cache.

    Latent attention and indexers reserve room for their context, encoders and videos
    are tried out as long as prompts may be, and the first model runner makes its table
    of blocks before the profile run, which counts from the release on that looks at
    what the device lost.

    Source: vLLM 0.33.0 `layers/attention/mla_attention.py`,
    `layers/sparse_attn_indexer.py`, `multimodal/encoder_budget.py`,
    `v1/worker/gpu_model_runner.py` GPUModelRunner.__init__ (InputBatch).
    """
    model = start.model
    counts_tables = (
        start.release.subtracts_consumed and not start.resolved.uses_v2_model_runner
    )
    has_other_caches = any(
        not isinstance(layer, AttentionLayer | StateLayer)
        for layer in model.cache_layers
    )
    return (
        counts_tables
        or has_other_caches
        or model.is_encoder_decoder
        or bool(served_towers(model, start.settings))
    )
