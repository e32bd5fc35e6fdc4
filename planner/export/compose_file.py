"""A plan as a Docker Compose file: one container on one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.engine.settings import serve_words
from planner.errors import PlannerError
from planner.export import needs
from planner.export.yaml_text import yaml_text
from planner.given import named_in_errors
from planner.planning.entrypoints import release_of, serve_arguments
from planner.planning.machines import nodes_of

if TYPE_CHECKING:
    from planner.planning.result import Plan

_MODELS = "/models"
_MIG_DEVICE = "${MIG_DEVICE:?the UUID of a MIG device, as nvidia-smi -L shows it}"
_HEALTH = (
    "import urllib.request as u; u.urlopen('http://127.0.0.1:{port}/health', timeout=5)"
)


@named_in_errors
def compose(plan: Plan) -> str:
    """Return a file for `docker compose up` that serves this plan.

    Raises:
        PlannerError: for GPUs of several machines, which Compose does not start.

    Source: the Compose specification; vLLM 0.33.0's image, whose server answers /health
    once the model is loaded.
    """
    found = nodes_of(plan)
    if found.count > 1:
        raise PlannerError(
            f"Docker Compose starts containers on one machine, and this plan needs "
            f"{found.count} with {found.gpus} GPUs each. Take the Kubernetes manifest, "
            "or choose sizes that fit one machine."
        )
    service = _service(plan, found.gpus)
    document = {
        "services": {"vllm": service},
        "volumes": {"huggingface": {}},
    }
    return _comments(plan) + yaml_text(document) + "\n"


def _comments(plan: Plan) -> str:
    lines = [
        needs.headline(plan),
        "HF_TOKEN is taken from the shell, for models that need one.",
        "It listens on this machine only: change 127.0.0.1 to let others in, and give "
        "vLLM an --api-key then.",
    ]
    return "".join(f"# {line}\n" for line in lines)


def _service(plan: Plan, gpus: int) -> dict[str, Any]:
    folder = needs.local_folder(plan)
    model = plan.name if folder is None else f"{_MODELS}/{folder.name}"
    words = serve_words(model, serve_arguments(plan), release_of(plan))
    port = needs.port(plan)
    service: dict[str, Any] = {
        "image": needs.image(plan),
        "entrypoint": words[:2],
        "command": [_escaped(word) for word in words[2:]],
        "environment": _environment(plan),
        "ports": [f"127.0.0.1:{port}:{port}"],
        "volumes": _volumes(plan),
        "shm_size": f"{needs.shared_gib(gpus)}gb",
        "healthcheck": {
            "test": ["CMD", "python3", "-c", _HEALTH.format(port=port)],
            "interval": "30s",
            "timeout": "10s",
            "retries": 3,
            "start_period": f"{needs.start_minutes(plan)}m",
        },
        "restart": "unless-stopped",
    }
    if plan.gpu.is_cpu:
        # vLLM binds its threads and memory to a NUMA node.
        return service | {
            "cap_add": ["SYS_NICE"],
            "security_opt": ["seccomp=unconfined"],
        }
    return service | {"deploy": _reservation(plan, gpus)}


def _environment(plan: Plan) -> dict[str, str | None]:
    """Return the variables; None passes the value of the shell on."""
    given = {n: _escaped(value) for n, value in needs.environment(plan).items()}
    return dict.fromkeys(needs.secrets(plan), None) | given


def _volumes(plan: Plan) -> list[Any]:
    cache = f"huggingface:{needs.CACHE}"
    folder = needs.local_folder(plan)
    if folder is None:
        return [cache]
    bind = {
        "type": "bind",
        "source": _escaped(str(folder)),
        "target": _escaped(f"{_MODELS}/{folder.name}"),
        "read_only": True,
    }
    return [cache, bind]


def _reservation(plan: Plan, gpus: int) -> dict[str, Any]:
    device: dict[str, Any] = {"driver": "nvidia", "capabilities": ["gpu"]}
    if plan.gpu.mig_profile:
        device["device_ids"] = [_MIG_DEVICE]
    else:
        device["count"] = gpus
    return {"resources": {"reservations": {"devices": [device]}}}


def _escaped(text: str) -> str:
    """Escape dollar signs, so that Compose does not substitute variables."""
    return text.replace("$", "$$")
