"""What a start needs of the machines it runs on: GPUs, nodes, image, room, patience."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from planner.errors import PlannerError
from planner.published import is_published
from planner.units import GIB

if TYPE_CHECKING:
    from planner.result import Plan

PORT = 8000
GPUS_IN_A_NODE = 8
"""What servers hold; more GPUs are taken to stand in several of them."""
CACHE = "/root/.cache/huggingface"
SHARED_GIB = 4
SHARED_GIB_OF_A_GPU = 2
"""Shared memory for what processes hand each other, and caches of pictures."""

_LOADING_BYTES_PER_SECOND = 50_000_000
_START_MINUTES = 10
_UNKNOWN_WEIGHTS_BYTES = 100 * GIB
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|(^|_)KEY($|_)", re.I)
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME = 50
_ARM = ("aarch64", "arm64")


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """Machines that are alike, and the GPUs of each."""

    count: int
    gpus: int


def nodes(plan: Plan) -> Nodes:
    """Return the machines of a plan: as `nnodes` says, else eight GPUs in each.

    Raises:
        PlannerError: where the GPUs cannot be divided so.
    """
    if plan.gpu.is_cpu:
        return Nodes(count=1, gpus=0)
    asked = dict(plan.settings.others).get("nnodes")
    total = plan.gpus_total
    count = asked if isinstance(asked, int) else math.ceil(total / GPUS_IN_A_NODE)
    if count < 1 or total % count:
        raise PlannerError(
            f"{total} GPUs cannot be divided over {count} machines alike. Choose sizes "
            "whose product is a multiple of the GPUs in one machine, or give nnodes."
        )
    return Nodes(count=count, gpus=total // count)


def image(plan: Plan) -> str:
    """Return vLLM's own image of the release, for the device of the plan."""
    tag = f"v{plan.vllm_version}"
    processor = plan.gpu.processor
    if processor is None:
        return f"vllm/vllm-openai:{tag}"
    kind = "arm64-cpu" if processor.architecture in _ARM else "cpu"
    return f"public.ecr.aws/q9t5s3a7/vllm-{kind}-release-repo:{tag}"


def shared_gib(gpus: int) -> int:
    """Return GiB of /dev/shm for the processes of one machine."""
    return SHARED_GIB + SHARED_GIB_OF_A_GPU * gpus


def weights_bytes(plan: Plan) -> int:
    """Return bytes of weights over all GPUs of one copy of the model."""
    if not plan.ranks:
        return _UNKNOWN_WEIGHTS_BYTES
    shards = plan.settings.tensor_parallel_size or 1
    return shards * sum(rank.weights_bytes for rank in plan.ranks)


def start_minutes(plan: Plan) -> int:
    """Return minutes that a first start may take: loading at 50 MB/s, and the rest."""
    loading = weights_bytes(plan) / _LOADING_BYTES_PER_SECOND / 60
    return _START_MINUTES + math.ceil(loading)


def cache_gib(plan: Plan) -> int:
    """Return GiB of disk for the model: its weights once and a half, by tens."""
    return 10 * math.ceil((1.5 * weights_bytes(plan) / GIB + 5) / 10)


def local_folder(plan: Plan) -> Path | None:
    """Return the folder of a model that lies on this machine; None for the Hub's."""
    if is_published():
        return None
    path = Path(plan.name).expanduser()
    try:
        found = path.parent if path.is_file() else path
        return found.resolve() if found.is_dir() else None
    except OSError:
        return None


def environment(plan: Plan) -> dict[str, str]:
    """Return the plan's variables, without those that hold a secret."""
    return {name: value for name, value in plan.env if not _SECRET.search(name)}


def secrets(plan: Plan) -> tuple[str, ...]:
    """Return the names of variables whose values are nobody's business."""
    given = tuple(name for name, _ in plan.env if _SECRET.search(name))
    return tuple(dict.fromkeys(("HF_TOKEN", *given)))


def short_name(plan: Plan) -> str:
    """Return a name that DNS takes, after the model.

    Source: RFC 1123, labels of hosts.
    """
    model = plan.name.rstrip("/").rpartition("/")[2].lower()
    label = _NOT_IN_NAMES.sub("-", model)[:_LONGEST_NAME].strip("-")
    return f"vllm-{label}" if label else "vllm"


def headline(plan: Plan) -> str:
    """Return one line that says what was planned, for a comment."""
    count = f"{plan.gpus_total} x " if plan.gpus_total > 1 else ""
    text = (
        f"{plan.name} with vLLM {plan.vllm_version} on {count}{plan.gpu.name}: "
        f"{plan.outcome}."
    )
    return "".join(character if character.isprintable() else " " for character in text)
