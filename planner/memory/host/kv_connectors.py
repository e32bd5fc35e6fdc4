"""CPU memory of connectors that transfer KV blocks (kv_transfer_config).

Connectors read and write the GPU's existing blocks: where all layers store the same,
these do not change. Where caches differ, vLLM disables its hybrid manager for
connectors that do not support it; those that do may need a layout of their own.

Source: vLLM 0.33.0 `config/kv_transfer.py` KVTransferConfig,
`distributed/kv_transfer/kv_connector/factory.py`, `kv_connector/v1/` (each connector).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.errors import PlannerError, Refused, UnknownArchitecture
from planner.memory.account import Basis, HostLine, Per
from planner.models.architecture import ModelArchitecture
from planner.units import format_size
from planner.values import frozen

_ROLES = ("kv_producer", "kv_both", "kv_consumer")
_NIXL = ("NixlConnector", "NixlPullConnector", "NixlPushConnector")
_ELSEWHERE = ("ExampleConnector", "LMCacheMPConnector", "MooncakeConnector")
"""These store blocks on disk or in another process, or send them from GPU to GPU."""
_LMCACHE = "LMCacheConnectorV1"
_LMCACHE_BYTES = 5 * 10**9
"""Assumed: the default of max_local_cpu_size in LMCache's own configuration."""
_OFFLOADING = "OffloadingConnector"
_SEVERAL = "MultiConnector"
_ONE_GROUP = (_LMCACHE, "ExampleConnector", "LMCacheMPConnector")
"""Connectors without support for groups of caches."""
_KNOWN = (*_NIXL, *_ELSEWHERE, _LMCACHE, _OFFLOADING)
IS_READ = Change(
    since=(0, 28),
    what=(
        "Connectors (kv_transfer_config) transfer KV blocks as read from the code of "
        "this release; earlier ones are planned alike, under a condition."
    ),
)


@frozen
class Connector:
    """One configured connector."""

    name: str
    device: str
    """Where it buffers blocks: cuda or cpu."""
    extra: tuple[tuple[str, Any], ...] = ()


def connectors(
    config: object,
    model: ModelArchitecture,
    release: Release,
    *,
    keeps_groups: bool = True,
) -> tuple[Connector, ...]:
    """Return the connectors of kv_transfer_config.

    `keeps_groups`: whether caches that differ are in separate groups.

    Raises:
        PlannerError: for a configuration, or a part of one, that is not a table.
        Refused: in vLLM's words.
        UnknownArchitecture: naming kv_transfer_config, for what is not modelled.
    """
    if config is None or config == {}:
        return ()
    if not isinstance(config, Mapping):
        raise PlannerError(
            f"kv_transfer_config={config!r}: a table is needed, such as "
            '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}.'
        )
    name, role = config.get("kv_connector"), config.get("kv_role")
    if name is None:
        return ()
    if role is None:
        raise Refused(
            "Please specify kv_role when kv_connector is set, supported roles are "
            f"{_ROLES}"
        )
    if role not in _ROLES:
        raise Refused(f"Unsupported kv_role: {role}. Supported roles are {_ROLES}")
    found = tuple(_listed(config))
    _check(found, model, release, keeps_groups=keeps_groups)
    return found


def _listed(config: Mapping[str, Any]) -> Iterator[Connector]:
    extra = config.get("kv_connector_extra_config") or {}
    if not isinstance(extra, Mapping):
        raise PlannerError(
            f"kv_transfer_config: kv_connector_extra_config={extra!r}: a table is "
            'needed, such as {"cpu_bytes_to_use": 1000000000}.'
        )
    name = str(config.get("kv_connector"))
    if name == _SEVERAL:
        for inner in _inner(extra.get("connectors", ())):
            yield from _listed(inner)
        return
    device = str(config.get("kv_buffer_device") or "cuda")
    yield Connector(name=name, device=device, extra=tuple(extra.items()))


def _inner(given: object) -> Iterator[Mapping[str, Any]]:
    for inner in given if isinstance(given, list | tuple) else (given,):
        if not isinstance(inner, Mapping):
            raise PlannerError(
                f"kv_transfer_config: connectors={given!r}: a list of tables is "
                'needed, such as [{"kv_connector": "NixlConnector", "kv_role": '
                '"kv_both"}].'
            )
        yield inner


def _check(
    found: tuple[Connector, ...],
    model: ModelArchitecture,
    release: Release,
    *,
    keeps_groups: bool,
) -> None:
    for connector in found:
        if connector.name not in _KNOWN:
            raise _unknown(f"with {connector.name}")
        if connector.name == _LMCACHE and dict(connector.extra).get("use_layerwise"):
            raise _unknown("with use_layerwise, which changes the CUDA graphs,")
        if connector.name == _OFFLOADING and not _offloaded_bytes(connector):
            raise Refused(
                "cpu_bytes_to_use must be specified in kv_connector_extra_config"
            )
    if len(model.cache_layers) > 1 or model.state_layers:
        is_read = release.has(IS_READ)
        _check_groups(found, model, keeps_groups=keeps_groups, is_read=is_read)


def _check_groups(
    found: tuple[Connector, ...],
    model: ModelArchitecture,
    *,
    keeps_groups: bool,
    is_read: bool,
) -> None:
    """Leave out caches that differ, where the connector's effect on them is not known.

    OffloadingConnector transfers the blocks of every group unchanged.

    Source: vLLM 0.33.0 `distributed/kv_transfer/kv_connector/factory.py`
    supports_hma_config; `config/vllm.py` (need_disable_hybrid_kv_cache_manager).
    """
    if is_read and all(connector.name == _OFFLOADING for connector in found):
        return
    if model.state_layers:
        raise _unknown("with layers that store states")
    if not is_read or any(connector.name in _ONE_GROUP for connector in found):
        if not keeps_groups:
            return
        raise _unknown(
            "with layers whose caches differ: vLLM switches its hybrid manager off for "
            "this connector, which disable_hybrid_kv_cache_manager=True plans; it"
        )
    raise _unknown("with layers whose caches differ")


def _unknown(what: str) -> UnknownArchitecture:
    return UnknownArchitecture(
        f"kv_transfer_config {what} is not modelled yet. Leave kv_transfer_config out."
    )


def _offloaded_bytes(connector: Connector) -> int:
    size: Any = dict(connector.extra).get("cpu_bytes_to_use")
    if type(size) is float and not isfinite(size):
        return 0
    return max(int(size), 0) if type(size) in (int, float) else 0


def worker_lines(
    found: tuple[Connector, ...], kv_cache_bytes: int
) -> Iterator[HostLine]:
    """Return what each worker holds, with `kv_cache_bytes` of blocks on its GPU."""
    for connector in found:
        if connector.name in _NIXL and connector.device == "cpu":
            yield HostLine(
                name="KV transfer buffers",
                size_bytes=kv_cache_bytes,
                basis=Basis.FORMULA,
                why=f"{connector.name} with kv_buffer_device=cpu: a copy of the GPU's "
                f"blocks, {format_size(kv_cache_bytes)}",
            )
        if connector.name == _LMCACHE:
            yield HostLine(
                name="LMCache",
                size_bytes=_LMCACHE_BYTES,
                basis=Basis.ASSUMED,
                why="LMCache's own configuration decides (max_local_cpu_size); 5 GB "
                "where it says nothing",
            )


def engine_lines(found: tuple[Connector, ...]) -> Iterator[HostLine]:
    """Return what all workers of an engine hold together."""
    for connector in found:
        if connector.name == _OFFLOADING:
            size = _offloaded_bytes(connector)
            yield HostLine(
                name="offloaded KV blocks",
                size_bytes=size,
                basis=Basis.EXACT,
                why=f"cpu_bytes_to_use={size:,}, of all workers together; shared "
                "memory (/dev/shm), in whole chunks of blocks",
                per=Per.ENGINE,
            )
