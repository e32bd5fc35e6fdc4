"""Starts of vLLM in the graphs of NVIDIA's Dynamo, which AIConfigurator writes, too.

Source: Dynamo 1.3 DynamoGraphDeployment, nvidia.com/v1alpha1 (`services`,
`extraPodSpec.mainContainer`) and v1beta1 (`components`, `podTemplate`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.reading.documents.yaml_nodes import Node
from planner.reading.documents.yaml_words import as_it_is
from planner.reading.reading import FoundStart
from planner.reading.starts.pods import (
    Surroundings,
    gpu_of,
    starts_in_container,
    variables_set_in,
)
from planner.units import whole_number

KINDS = ("DynamoGraphDeployment", "DynamoComponentDeployment")


def starts_in_graph(root: Node, around: Surroundings) -> Iterator[FoundStart]:
    """Yield the starts of a graph's workers, each by the name of its service."""
    above = dict(variables_set_in(root.get("spec") or root, as_it_is))
    for name, service in _services(root):
        pod = service.get("extraPodSpec") or service.get("podTemplate", "spec")
        if pod is None:
            continue
        main = pod.get("mainContainer")
        gpu, several = gpu_of(pod.get("nodeSelector"), pod.get("affinity"))
        inside = replace(
            around,
            shown=name,
            gpu=gpu,
            open=several,
            pods=whole_number(service.word("multinode", "nodeCount")) or 1,
            granted=_granted(service),
            given={**above, **dict(variables_set_in(service, as_it_is))},
        )
        for container in pod.items_of("containers") if main is None else (main,):
            yield from starts_in_container(container, inside)


def _services(root: Node) -> Iterator[tuple[str, Node]]:
    """Yield the parts of a graph, or the one of a component, with their names."""
    spec = root.get("spec") or root
    services = spec.get("services")
    parts = [] if services is None else [(key.text, one) for key, one in services.pairs]
    parts += [(one.word("name"), one) for one in spec.items_of("components")]
    yield from parts or [(root.word("metadata", "name"), spec)]


def _granted(service: Node) -> int | None:
    """Return the GPUs of each pod, which stand beside what the pod runs."""
    counts = (
        whole_number(service.word("resources", part, "gpu"))
        for part in ("limits", "requests")
    )
    return next((count for count in counts if count), None)
