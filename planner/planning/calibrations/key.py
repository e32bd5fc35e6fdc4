"""What identifies a measured start: release, model and the settings that decide memory.

Settings that only divide the memory are left out (gpu_memory_utilization, a fixed KV
cache, a fixed number of blocks), so a start measured with one share serves plans with
another. The model counts by a fingerprint of its shape: two fine-tunes of one model, or
real and dummy weights, share their measurements.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from typing import Any
from weakref import WeakKeyDictionary

from planner.engine.arguments import ARGUMENTS, PLANNER_ONLY, Memory
from planner.engine.environment import Environment
from planner.engine.releases import Release
from planner.engine.releases.shared import SUBTRACTS_CONSUMED
from planner.engine.settings import EngineSettings
from planner.memory.media.towers import served_towers
from planner.models.architecture import ModelArchitecture
from planner.models.caches import AttentionLayer
from planner.models.states import StateLayer
from planner.planning.defaults import ResolvedSettings
from planner.values import frozen

_DIGITS = 16
_FACTS = (
    *("architecture", "hidden_size", "vocab_size", "num_attention_heads"),
    *("num_kv_heads", "head_size", "first_stage", "last_stage", "every_stage"),
    *("tied_embeddings", "layer_kinds", "layers", "towers", "deepstack_layers"),
    *("quantization", "num_experts", "kv_sources", "is_pooling"),
)
_JSON_SCALARS = (int, str, bool, type(None), float)
_KNOWN: WeakKeyDictionary[ModelArchitecture, str] = WeakKeyDictionary()
_ONLY_DIVIDE = frozenset(
    """
    gpu_memory_utilization kv_cache_memory_bytes num_gpu_blocks_override
    max_model_len is_max_model_len_auto mamba_block_size
    """.split()
)
"""Resolved settings on which no line except the KV cache depends."""
_RESOLVED = tuple(
    field.name for field in fields(ResolvedSettings) if field.name not in _ONLY_DIVIDE
)
_NOT_ON_THE_GPU = (
    *("others", "server", "trust_remote_code", "max_cpu_loras", "kv_offloading_size"),
    *PLANNER_ONLY,
)
_ADDED = frozenset(("cudagraph_mode", "is_compiled", "may_fuse_all_reduce"))
"""Resolved settings that the first records do not have; a new one is added here, or
every stored measurement would be lost."""
_GIVEN = tuple(
    field.name
    for field in fields(EngineSettings)
    if field.name not in {field.name for field in fields(ResolvedSettings)}
    and field.name not in _NOT_ON_THE_GPU
)
"""Given settings that have no resolved value, and affect the GPU."""
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
"""Environment variables that affect memory. Those left out only decide which requests
and groups are allowed, or whether graphs are charged, which each plan decides."""
_NO_VARIABLES = Environment()
_OF_THE_BATCH = (
    "max_num_batched_tokens",
    "max_num_seqs",
    "max_model_len",
    "block_size",
)
_IRRELEVANT = ("VLLM_", "HF_", "PLANNER_", "CUDA_VISIBLE_DEVICES")


@frozen
class Start:
    """The facts of a start that its key is made from."""

    model: ModelArchitecture
    settings: EngineSettings
    resolved: ResolvedSettings
    env: Environment
    given_env: tuple[tuple[str, str], ...]
    release: Release


@frozen
class Key:
    """Everything that two starts must have in common, except the GPU."""

    vllm_version: str
    architecture: str
    fingerprint: str
    """Of the model; see `fingerprint`."""
    settings: str
    """JSON with sorted names: given and resolved settings, and variables."""


def key_of(start: Start) -> Key:
    """Return the key of a start."""
    return Key(
        vllm_version=start.release.version,
        architecture=start.model.architecture,
        fingerprint=fingerprint(start.model),
        settings=as_text(_settings(start)),
    )


def is_same(record: Key, start: Key) -> bool:
    """Whether a record is of a start, also where an older version wrote it."""
    return (
        record.vllm_version == start.vllm_version
        and record.architecture == start.architecture
        and record.fingerprint == start.fingerprint
        and json.loads(record.settings) == _as_written(start, record)
    )


def _as_written(start: Key, record: Key) -> dict[str, Any]:
    """Return a start's settings without those that the record's version did not write.

    They follow from given settings, which are compared.
    """
    then: dict[str, Any] = json.loads(record.settings)
    now: dict[str, Any] = json.loads(start.settings)
    return {n: value for n, value in now.items() if n in then or n not in _ADDED}


def is_kin(record: Key, start: Key) -> bool:
    """Whether a start is of the same model family, with the same ranks and graphs.

    That is: the same model class and release, and all settings except the batch.
    """
    return (
        record.vllm_version == start.vllm_version
        and record.architecture == start.architecture
        and _without_batch(json.loads(record.settings))
        == _without_batch(_as_written(start, record))
    )


def fingerprint(model: ModelArchitecture) -> str:
    """Return a model's fingerprint, cached as long as the model exists."""
    known = _KNOWN.get(model)
    if known is None:
        facts = {name: plain(getattr(model, name)) for name in _FACTS}
        text = json.dumps(facts, sort_keys=True)
        from hashlib import sha256  # noqa: PLC0415 - slow

        known = sha256(text.encode()).hexdigest()[:_DIGITS]
        _KNOWN[model] = known
    return known


def plain(value: object) -> Any:  # noqa: ANN401, PLR0911 - a case for each of JSON's
    """Return a value as plain JSON data, the same in every process.

    Fields with their default value are left out, so that a field added in a later
    version of the planner does not change fingerprints.
    """
    if type(value) in _JSON_SCALARS:
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        entries = {
            field.name: plain(getattr(value, field.name))
            for field in fields(value)
            if field.init and not _is_default(field, getattr(value, field.name))
        }
        return [type(value).__name__, entries]
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, set | frozenset):
        return sorted(str(entry) for entry in value)
    # A method or a marker without fields is identified by its class.
    return getattr(value, "__qualname__", type(value).__qualname__)


def as_text(settings: Mapping[str, Any]) -> str:
    """Return settings as the text that is compared."""
    return json.dumps(settings, sort_keys=True)


def _given(settings: EngineSettings) -> dict[str, Any]:
    """Return given settings that have no resolved value, counted or not."""
    named = [(name, getattr(settings, name)) for name in _GIVEN]
    others = [
        (name, value)
        for name, value in settings.others
        if ARGUMENTS[name].memory is not Memory.NONE
    ]
    return {n: plain(value) for n, value in (*named, *others) if value is not None}


def _settings(start: Start) -> dict[str, Any]:
    settings = {name: plain(getattr(start.resolved, name)) for name in _RESOLVED}
    settings |= _given(start.settings)
    for name in _VARIABLES:
        value = getattr(start.env, name)
        if value != getattr(_NO_VARIABLES, name):
            settings[f"env.{name}"] = plain(value)
    for name, text in start.given_env:
        if not name.startswith(_IRRELEVANT):
            settings[f"env.{name}"] = text
    if _depends_on_length(start):
        is_auto = start.resolved.is_max_model_len_auto
        settings["max_model_len"] = "auto" if is_auto else start.resolved.max_model_len
    return settings


def _depends_on_length(start: Start) -> bool:
    """Whether max_model_len affects more than the KV cache.

    Latent attention and indexers reserve workspace for their context, encoders and
    videos are profiled at the longest prompt, and the first model runner allocates its
    block table before the profile run, which counts in releases that subtract the drop
    in free device memory.

    Source: vLLM 0.33.0 `layers/attention/mla_attention.py`,
    `layers/sparse_attn_indexer.py`, `multimodal/encoder_budget.py`,
    `v1/worker/gpu_model_runner.py` GPUModelRunner.__init__ (InputBatch).
    """
    model = start.model
    counts_tables = (
        start.release.has(SUBTRACTS_CONSUMED)
        and not start.resolved.uses_v2_model_runner
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


def _without_batch(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in settings.items() if name not in _OF_THE_BATCH
    }


def _is_default(field: Field[Any], value: object) -> bool:
    if field.default is not MISSING:
        return bool(value == field.default)
    if field.default_factory is not MISSING:
        return bool(value == field.default_factory())
    return False
