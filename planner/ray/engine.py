"""What one engine of a Ray Data LLM pipeline reserves.

Source: Ray 2.60.0 `llm/_internal/batch/stages/vllm_engine_stage.py`
vLLMEngineStage.post_init, _ray_scheduling_strategy_fn; how older releases differ is in
`planner.ray.releases`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import PlannerError
from planner.ray.amounts import (
    MOST_GPUS,
    check_amount,
    check_fraction,
    check_gpus,
    check_mapping,
    check_text,
    shown,
)
from planner.ray.bundles import (
    ACCELERATOR,
    ACCELERATOR_SHARE,
    Bundle,
    PlacementGroup,
    check_strategy,
    total,
)
from planner.ray.pipelines import Asked
from planner.ray.releases import RayRelease

BACKENDS = ("uni", "mp", "ray")


def backend_of(requested: Asked, world_size: int, release: RayRelease) -> str:
    """Return vLLM's executor: as requested, or as the release of Ray chooses.

    Raises:
        PlannerError: for an executor that Ray Data does not support.
    """
    name = requested.distributed_executor_backend
    if name is None and not release.chooses_ray_executor:
        return "mp"
    if name is None:
        return "uni" if world_size == 1 else "ray"
    if name not in BACKENDS:
        raise PlannerError(
            f"distributed_executor_backend={shown(name)}: with Ray Data LLM use ray "
            "(over nodes), mp (processes of one node) or uni (one GPU)."
        )
    if name == "uni" and world_size > 1:
        raise PlannerError(
            f"distributed_executor_backend='uni' runs one GPU, and tensor x pipeline "
            f"parallel is {world_size}: use ray, or mp within one node."
        )
    return name


def engine_request(
    requested: Asked, world_size: int, backend: str, release: RayRelease
) -> tuple[PlacementGroup, Bundle | None]:
    """Return what an engine reserves, and what its actor requests within a group.

    Raises:
        PlannerError: for explicit resources that this release of Ray does not accept.
    """
    check_gpus(world_size)
    explicit = _explicit(requested, world_size, release)
    has_group = backend == "ray" and (world_size > 1 or release.has_group_for_one_gpu)
    if has_group:
        return _group(requested, world_size, explicit, release), _of_actor(
            requested, {}
        )
    return _single(requested, world_size, explicit, release), None


def _group(
    requested: Asked,
    world_size: int,
    explicit: tuple[tuple[Bundle, ...], str] | None,
    release: RayRelease,
) -> PlacementGroup:
    bundles, strategy = explicit or (
        (Bundle.of({"GPU": 1, "CPU": 1}),) * world_size,
        release.strategy,
    )
    typed = {
        bundle: Bundle.of(bundle.to_dict() | _accelerator(requested))
        for bundle in dict.fromkeys(bundles)
    }
    return PlacementGroup(
        bundles=tuple(typed[bundle] for bundle in bundles), strategy=strategy
    )


def _single(
    requested: Asked,
    world_size: int,
    explicit: tuple[tuple[Bundle, ...], str] | None,
    release: RayRelease,
) -> PlacementGroup:
    """Return the request of an actor whose GPUs are all on its node.

    Raises:
        PlannerError: where the release passes GPUs or CPUs in a way that Ray refuses.
    """
    wanted: dict[str, float] = {"GPU": world_size}
    if explicit is not None:
        wanted = total(explicit[0]).to_dict()
        misplaced = [name for name in ("CPU", "GPU") if name in wanted]
        if misplaced and not release.since(50):
            executor = requested.distributed_executor_backend or "mp"
            raise PlannerError(
                f"resources_per_bundle with {' and '.join(misplaced)}: Ray "
                f"{release.version} refuses it on the {executor} executor: "
                "\"Use the 'num_cpus' and 'num_gpus' keyword instead of 'CPU' and "
                "'GPU' in 'resources' keyword\". Take Ray 2.50 or later."
            )
    return PlacementGroup(
        bundles=(_of_actor(requested, wanted),), strategy="PACK", is_single_request=True
    )


def _of_actor(requested: Asked, wanted: Mapping[str, float]) -> Bundle:
    """Return what an actor requests; one CPU by default.

    Source: Ray 2.60.0 `actor.py` ActorClass._remote.
    """
    return Bundle.of({"CPU": 1} | dict(wanted) | _accelerator(requested))


def _accelerator(requested: Asked) -> dict[str, float]:
    kind = requested.accelerator_type
    return {f"{ACCELERATOR}{kind}": ACCELERATOR_SHARE} if kind else {}


def _explicit(
    requested: Asked, world_size: int, release: RayRelease
) -> tuple[tuple[Bundle, ...], str] | None:
    """Return the bundles and strategy that the user gave; None without any."""
    config, each = requested.placement_group_config, requested.resources_per_bundle
    given = {"placement_group_config": config, "resources_per_bundle": each}
    known = release.resources_argument
    for name, value in given.items():
        if value is not None and name != known:
            offer = f"use {known}" if known else "it has no equivalent"
            raise PlannerError(
                f"{name}: Ray {release.version} has no such field; {offer}."
            )
    for name, value in given.items():
        check_mapping(name, value)
    if each is not None:
        return (Bundle.of(_checked(each)),) * world_size, release.strategy
    return None if config is None else _of_config(config, world_size, release)


def _of_config(
    config: Mapping[str, Any], world_size: int, release: RayRelease
) -> tuple[tuple[Bundle, ...], str]:
    """Read placement_group_config.

    Source: Ray 2.60.0 `llm/_internal/common/placement.py` PlacementGroupConfig.
    """
    allowed = ["bundles", "strategy"]
    if release.has_bundle_per_worker:
        allowed.insert(0, "bundle_per_worker")
    unknown = sorted(shown(name).strip("'") for name in set(config) - set(allowed))
    if unknown:
        raise PlannerError(
            f"placement_group_config has {', '.join(unknown)}: Ray {release.version} "
            f"takes {', '.join(allowed)}."
        )
    each, bundles = config.get("bundle_per_worker"), config.get("bundles")
    if (each is None) == (bundles is None):
        choice = " or ".join(name for name in allowed if name != "strategy")
        raise PlannerError(f"placement_group_config needs {choice}, and only one.")
    strategy = config.get("strategy") or "PACK"
    check_strategy(strategy)
    if bundles is None:
        return (Bundle.of(_checked(each)),) * world_size, strategy
    if not isinstance(bundles, list | tuple) or len(bundles) > MOST_GPUS:
        raise PlannerError(
            f"placement_group_config: bundles={shown(bundles)}: a list of 1 to "
            f"{MOST_GPUS:,} bundles is needed, as [{{'GPU': 1}}]."
        )
    return tuple(Bundle.of(_checked(bundle)) for bundle in bundles), strategy


def _checked(bundle: Any) -> dict[str, float]:  # noqa: ANN401 - typed by a user
    if not isinstance(bundle, Mapping):
        raise PlannerError(
            f"{shown(bundle)}: a bundle names resources, as {{'GPU': 1}}."
        )
    for name, amount in bundle.items():
        check_text("A resource's name in a bundle", name)
        check_amount(f"In a bundle {name}", amount)
        check_fraction("A bundle", name, amount)
    return dict(bundle)
