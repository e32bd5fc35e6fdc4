"""The needs of a start: machines, image, shared memory, disk, time and environment."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.engine.settings import given_arguments
from planner.errors import PlannerError
from planner.surroundings import is_published
from planner.units import GIB
from planner.user_files import user_path

if TYPE_CHECKING:
    from planner.planning.result import Plan

PORT = 8000
SECRET = "vllm-secrets"
"""Of a cluster, with the values that no manifest has."""
TOKEN_NOTE = (
    f"For a model that needs a token: kubectl create secret generic {SECRET} "
    "--from-literal=HF_TOKEN=..."
)
CACHE = "/root/.cache/huggingface"
SHARED_GIB = 4
SHARED_GIB_OF_A_GPU = 2
"""Shared memory for messages between processes, and for caches of images."""

_LOADING_BYTES_PER_SECOND = 50_000_000
_START_MINUTES = 10
_UNKNOWN_WEIGHTS_BYTES = 100 * GIB
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|(^|_)KEY($|_)", re.I)
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME = 50
_ARM = ("aarch64", "arm64")


def port(plan: Plan) -> int:
    """Return the port of the plan's server: vLLM's own unless the plan has another."""
    given = given_arguments(plan.settings).get("port")
    return given if isinstance(given, int) else PORT


def image(plan: Plan) -> str:
    """Return vLLM's image of the release, for the device of the plan."""
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
    """Return the minutes that a first start may take, with loading at 50 MB/s."""
    loading = weights_bytes(plan) / _LOADING_BYTES_PER_SECOND / 60
    return _START_MINUTES + math.ceil(loading)


def cache_gib(plan: Plan) -> int:
    """Return GiB of disk for the model: 1.5 times its weights, rounded up to tens."""
    return 10 * math.ceil((1.5 * weights_bytes(plan) / GIB + 5) / 10)


def local_folder(plan: Plan) -> Path | None:
    """Return the folder of a model on this machine; None for a model of the Hub."""
    if is_published():
        return None
    path = user_path(plan.name)
    try:
        found = path.parent if path.is_file() else path
        return found.resolve() if found.is_dir() else None
    except OSError:
        return None


def environment(plan: Plan) -> dict[str, str]:
    """Return the plan's variables, without secrets."""
    return {name: value for name, value in plan.env if not _SECRET.search(name)}


def secrets(plan: Plan) -> tuple[str, ...]:
    """Return the names of variables whose values are secret."""
    given = tuple(name for name, _ in plan.env if _SECRET.search(name))
    return tuple(dict.fromkeys(("HF_TOKEN", *given)))


def secret_variables(plan: Plan) -> list[dict[str, Any]]:
    """Return the variables that a pod has from the cluster's secret."""
    key = {"name": SECRET, "optional": True}
    return [
        {"name": name, "valueFrom": {"secretKeyRef": key | {"key": name}}}
        for name in secrets(plan)
    ]


def check_reachable(plan: Plan) -> None:
    """Refuse a model in a folder of this machine, which a cluster does not see."""
    if local_folder(plan) is not None:
        raise PlannerError(
            f"The model {plan.name!r} is in a folder of this machine, which a "
            "cluster does not see. Put it on a volume or the Hub, and plan with "
            "that name."
        )


def metadata(plan: Plan) -> dict[str, Any]:
    """Return the name and labels of what a cluster runs for a plan."""
    name = short_name(plan)
    labels = {"app.kubernetes.io/name": "vllm", "app.kubernetes.io/instance": name}
    return {"name": name, "labels": labels}


def short_name(plan: Plan) -> str:
    """Return a name after the model that is valid in DNS.

    Source: RFC 1123, labels of hosts.
    """
    model = plan.name.rstrip("/").rpartition("/")[2].lower()
    label = _NOT_IN_NAMES.sub("-", model)[:_LONGEST_NAME].strip("-")
    return f"vllm-{label}" if label else "vllm"


def headline(plan: Plan) -> str:
    """Return one line that describes the plan, for a comment."""
    count = f"{plan.gpus_total} x " if plan.gpus_total > 1 else ""
    served = plan.serving
    load = f", {served.words}" if served is not None and plan.fits else ""
    text = (
        f"{plan.name} with vLLM {plan.vllm_version} on {count}{plan.gpu.name}: "
        f"{plan.outcome}{load}."
    )
    return "".join(character if character.isprintable() else " " for character in text)
