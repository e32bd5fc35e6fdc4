"""Memory of processes other than the engine for images and videos.

On the GPU: what API servers need to decode videos, subtracted from the KV cache. In
CPU memory: caches of processed images, videos and audio.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.engine.environment import Environment
from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.engine.settings import EngineSettings
from planner.errors import PlannerError, Refused, UnknownArchitecture
from planner.memory.account import Basis, HostLine, Line, Per, line_of
from planner.memory.media.towers import served_towers
from planner.models.architecture import ModelArchitecture
from planner.units import GIB, MIB

DECODING = "frontend video decoding"
_HARDWARE = "pynvvideocodec"
_ON_GPU = (_HARDWARE, "deepstream")
_DECODERS = 2
"""The default of hw_decoders."""
_SURFACES_BYTES = 128 * MIB
_CONTEXT_BYTES = int(1.8 * 1024 * MIB)
_BYTES_OF_PIXEL = 3 * 2
"""Three colours, in the two surfaces of a decoder."""
_CACHE_GIB = 4
_DECODES_ON_GPU = Change(
    since=(0, 28, 0),
    what=(
        "Memory for videos that the GPU decodes is subtracted from the KV cache as "
        "from 0.28.0, the oldest release whose way is modelled."
    ),
)
_CACHES_NO_ENCODER_INPUTS = Change(
    since=(0, 11),
    what="Encoder-decoder models have no cache of processed media.",
)
_CACHES_MEDIA_TWICE = Change(
    until=(0, 10, 2),
    what="API server and engine each have a cache of processed media.",
    source=(
        "vLLM 0.10.1 `config/__init__.py` MultiModalConfig; 0.9.2 "
        "`v1/engine/mm_input_cache.py` MirroredProcessingCache"
    ),
)
_HAS_CACHE_ARGUMENT = Change(
    since=(0, 10, 1),
    what=(
        "mm_processor_cache_gb sets the size of the cache of processed media, 4 GiB by "
        "default. Before, VLLM_MM_INPUT_CACHE_GIB alone did, 8 GiB by default."
    ),
    source=(
        "vLLM 0.33.0 `config/multimodal.py` mm_processor_cache_gb; 0.9.2 `envs.py` "
        "VLLM_MM_INPUT_CACHE_GIB"
    ),
)
_READS_CACHE_VARIABLE = Change(
    until=(0, 13),
    what="VLLM_MM_INPUT_CACHE_GIB precedes mm_processor_cache_gb.",
    source="vLLM 0.10.1 `envs.py` VLLM_MM_INPUT_CACHE_GIB; 0.12.0 the same",
)


def api_servers(settings: EngineSettings, entrypoint: str) -> int:
    """Return the number of API servers: that of data-parallel engines.

    Source: vLLM 0.33.0 `entrypoints/cli/serve.py` (api_server_count where it is not
    given).
    """
    return (settings.data_parallel_size or 1) if entrypoint == "serve" else 1


def decoding_bytes(
    settings: EngineSettings,
    model: ModelArchitecture,
    env: Environment,
    entrypoint: str,
) -> int:
    """Return what is subtracted from the KV cache of every GPU for video decoding.

    Source: vLLM 0.33.0 `multimodal/gpu_ipc_memory.py` reserve_mm_ipc_gpu_memory,
    `multimodal/video_decoders/pynvvideocodec.py`.
    """
    if not model.towers:
        return 0
    frames = int((settings.mm_ipc_gpu_memory_gb or 0) * GIB)
    video = _video(settings)
    loader = video.get("video_backend") or env.video_loader_backend
    codec = video.get("backend")
    if loader != _HARDWARE and codec not in _ON_GPU:
        return frames
    decoders, surfaces = 1, _SURFACES_BYTES
    if _HARDWARE in (loader, codec):
        decoders = _whole(video, "hw_decoders", default=_DECODERS)
        surfaces = max(surfaces, _frame_bytes(video))
    servers = api_servers(settings, entrypoint)
    return frames + servers * (surfaces * decoders + _CONTEXT_BYTES)


def decoding_line(size_bytes: int) -> Line:
    """Return the line of `decoding_bytes`."""
    return line_of(
        DECODING,
        size_bytes,
        Basis.FORMULA,
        "mm_ipc_gpu_memory_gb, and for decoders of the GPU 1.8 GiB of each API "
        "server besides its surfaces: taken off the KV cache after vLLM has logged "
        "what is available for it",
    )


def no_room(reserved_bytes: int, available_bytes: int, frames_bytes: int) -> str:
    """Return vLLM's message where video decoding leaves nothing for the KV cache."""
    gib = [
        f"{size / GIB:.2f}"
        for size in (
            reserved_bytes,
            frames_bytes,
            reserved_bytes - frames_bytes,
            available_bytes,
        )
    ]
    return (
        f"frontend multimodal GPU decoding reserves {gib[0]} GiB ({gib[1]} GiB "
        f"raw-frame budget, {gib[2]} GiB decoder cache budget), but only "
        f"{gib[3]} GiB is available for the KV cache. Reduce mm_ipc_gpu_memory_gb or "
        "hw_decoders, use a different video backend, or increase "
        "gpu_memory_utilization."
    )


def check_frontend(
    settings: EngineSettings, model: ModelArchitecture, release: Release
) -> None:
    """Refuse values that vLLM refuses; for text-only models it ignores them.

    Raises:
        PlannerError: for impossible values.
        Refused: in vLLM's words.
        UnknownArchitecture: for GPU decoding in releases that are not modelled.
    """
    if not model.towers:
        return
    requests_decoding = bool(settings.mm_ipc_gpu_memory_gb) or any(
        _video(settings).get(name) in _ON_GPU for name in ("video_backend", "backend")
    )
    if requests_decoding and not release.has(_DECODES_ON_GPU):
        since = ".".join(map(str, _DECODES_ON_GPU.since))
        raise UnknownArchitecture(
            f"mm_ipc_gpu_memory_gb: what vLLM {release.version} takes off for videos "
            f"that the GPU decodes is not modelled; from {since} on it is."
        )
    kind = settings.mm_processor_cache_type
    size = settings.mm_shm_cache_max_object_size_mb
    if kind != "shm" and size not in (None, 128):
        raise Refused(
            "1 validation error for ModelConfig\n  Value error, "
            "'mm_shm_cache_max_object_size_mb' should only be set when "
            "'mm_processor_cache_type' is 'shm'."
        )


def cache_lines(
    settings: EngineSettings,
    model: ModelArchitecture,
    env: Environment,
    release: Release,
    entrypoint: str,
) -> Iterator[HostLine]:
    """Return the caches of processed media, which fill up with use.

    With one engine and one API server the data is only in the engine, or in shared
    memory; with several, each API server has a cache.

    Source: vLLM 0.33.0 `multimodal/cache/factories.py` _get_cache_type,
    `multimodal/cache/lru.py`, `multimodal/cache/shm.py`.
    """
    gib = cache_gib(settings, env, release)
    if not served_towers(model, settings) or not gib:
        return
    if model.is_encoder_decoder and release.has(_CACHES_NO_ENCODER_INPUTS):
        return
    servers = api_servers(settings, entrypoint)
    engines = settings.data_parallel_size or 1
    together = f"{gib:g} GiB x ({_counted(servers, 'API server')} + "
    together += f"{_counted(engines, 'engine')})"
    if release.has(_CACHES_MEDIA_TWICE):
        count, where = servers + engines, f"{together}, each with its own cache"
    elif servers > 1 or engines > 1:
        count = servers
        where = f"{gib:g} GiB in each of {servers} API servers; none in the engines"
    elif settings.mm_processor_cache_type == "shm":
        count, where = 1, f"{gib:g} GiB of shared memory"
    else:
        count = 1
        where = f"{gib:g} GiB in the engine; the API server stores only keys"
    if count != servers + engines:
        where += f" (vLLM's own description counts {together})"
    yield HostLine(
        name="processed images",
        size_bytes=int(gib * GIB) * count,
        basis=Basis.ASSUMED,
        why=f"mm_processor_cache_gb: {where}; it fills with use",
        per=Per.NODE,
        is_usual=settings.mm_processor_cache_gb is None,
    )


def _counted(count: int, name: str) -> str:
    return f"{count} {name}" + ("" if count == 1 else "s")


def cache_gib(settings: EngineSettings, env: Environment, release: Release) -> float:
    """Return the size of one cache in GiB."""
    in_env = env.mm_input_cache_gib
    if not release.has(_HAS_CACHE_ARGUMENT):
        return 2 * _CACHE_GIB if in_env is None else in_env
    if in_env not in (None, _CACHE_GIB) and release.has(_READS_CACHE_VARIABLE):
        return in_env
    requested = settings.mm_processor_cache_gb
    return _CACHE_GIB if requested is None else requested


def _video(settings: EngineSettings) -> Mapping[str, Any]:
    """Return media_io_kwargs of videos.

    Raises:
        PlannerError: where it is not a mapping.
    """
    video = (settings.media_io_kwargs or {}).get("video", {})
    if not isinstance(video, Mapping):
        raise PlannerError(
            f"media_io_kwargs: video={video!r}: names and values are needed."
        )
    return video


def _frame_bytes(video: Mapping[str, Any]) -> int:
    width, height = (video.get(f"max_{side}") for side in ("width", "height"))
    if width is None and height is None:
        return 0
    if width is None or height is None:
        raise Refused("max_width and max_height must be set together")
    sides = [_whole(video, f"max_{side}") for side in ("width", "height")]
    return sides[0] * sides[1] * _BYTES_OF_PIXEL


def _whole(video: Mapping[str, Any], name: str, default: int = 0) -> int:
    value = video.get(name, default)
    if type(value) is not int or value < 1:
        raise Refused(f"{name} must be a positive integer")
    return value
