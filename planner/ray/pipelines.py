"""Pipeline: the cluster resources of a Ray Data LLM pipeline, with vLLM's memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from planner.planning.load import Load
from planner.planning.result import Plan
from planner.ray.bundles import Node, NodeType, PlacementGroup, plain
from planner.ray.stages import Stage, in_flight_bytes
from planner.values import frozen
from planner.views import Framed

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from planner.ray.bounds import Throughput
    from planner.ray.node_counts import NodesNeeded
    from planner.ray.placement import Placement


@frozen
class Asked:
    """The user's settings under Ray's names; None: Ray's default."""

    concurrency: int | tuple[int, int] | None = None
    accelerator_type: str | None = None
    batch_size: int | None = None
    max_concurrent_batches: int | None = None
    max_tasks_in_flight_per_actor: int | None = None
    max_pending_requests: int | None = None
    distributed_executor_backend: str | None = None
    """vLLM's argument, from which Ray derives what it reserves."""
    placement_group_config: Mapping[str, Any] | None = None
    resources_per_bundle: Mapping[str, float] | None = None
    """Before Ray 2.50."""
    preprocess_map_kwargs: Mapping[str, Any] | None = None
    postprocess_map_kwargs: Mapping[str, Any] | None = None
    chat_template_stage: Mapping[str, Any] | bool | None = None
    tokenize_stage: Mapping[str, Any] | bool | None = None
    detokenize_stage: Mapping[str, Any] | bool | None = None
    prepare_multimodal_stage: Mapping[str, Any] | bool | None = None


@frozen
class Caution:
    """One way in which a pipeline behaves unlike its numbers."""

    kind: str
    """starved, queued, in_flight, shared_gpu, no_limit, backend, entrypoint, ..."""
    message: str
    is_fatal: bool = False
    """Whether no engine can start with these settings."""


@frozen(repr=False)
class Pipeline(Framed):
    """A Ray Data LLM pipeline: stages, what they reserve, and one replica's memory."""

    plan: Plan
    """The memory of one engine replica."""
    asked: Asked
    ray_version: str
    backend: str
    """vLLM's executor: uni (one GPU), mp (one node) or ray (over nodes)."""
    batch_size: int
    """Rows of a batch."""
    max_concurrent_batches: int
    """Batches that an engine processes concurrently."""
    max_tasks_in_flight: int
    """Batches that Ray Data sends to an engine at once; further ones wait."""
    max_pending_requests: int | None
    """Concurrent rows in one engine; None: no limit."""
    stages: tuple[Stage, ...]
    """In the order in which rows pass them."""
    num_rows: int | None = None
    load: Load | None = None
    """Tokens of a row; its number of requests is not used."""
    throughput: Throughput | None = None
    """Bounds on rows per second and time; None without a load."""
    cautions: tuple[Caution, ...] = ()

    @property
    def engine(self) -> Stage:
        """The stage that runs vLLM."""
        return next(stage for stage in self.stages if stage.is_engine)

    @property
    def accelerator_type(self) -> str | None:
        """Ray's name of the GPUs that engines request; None: any."""
        return self.asked.accelerator_type

    @property
    def replicas_minimum(self) -> int:
        """Engines that Ray Data requests at the start."""
        return self.engine.workers_minimum

    @property
    def replicas_maximum(self) -> int:
        """The maximum number of engines."""
        return self.engine.workers_maximum or self.engine.workers_minimum

    @property
    def gpus_per_replica(self) -> float:
        """GPUs of one engine: tensor x pipeline parallel, unless set explicitly."""
        return self.engine.worker.gpus

    @property
    def gpus_minimum(self) -> float:
        """GPUs of the fewest workers of each stage."""
        return plain(sum(stage.gpus_minimum for stage in self.stages))

    @property
    def gpus_maximum(self) -> float:
        """GPUs of the most workers of each stage: the guide's upper bound.

        A stage without a limit counts with one worker; a caution says so.
        """
        return plain(sum(stage.gpus_maximum for stage in self.stages))

    @property
    def gpus_total(self) -> float:
        """The same as `gpus_maximum`."""
        return self.gpus_maximum

    @property
    def gpus_to_start(self) -> float:
        """The fewest GPUs with which the pipeline produces rows.

        One engine, and the larger of a pre- and a postprocessing task: tasks release
        their resources, so these two can take turns.
        """
        return self._to_start("GPU")

    @property
    def cpus_per_replica(self) -> float:
        """Logical CPUs of one engine."""
        return self.engine.worker.cpus

    @property
    def cpus_minimum(self) -> float:
        """Logical CPUs of the fewest workers of each stage."""
        return plain(sum(stage.cpus_minimum for stage in self.stages))

    @property
    def cpus_maximum(self) -> float:
        """Logical CPUs of the most workers of each stage."""
        return plain(sum(stage.cpus_maximum for stage in self.stages))

    @property
    def cpus_to_start(self) -> float:
        """The fewest logical CPUs with which it produces rows; tasks take turns."""
        return self._to_start("CPU")

    def _to_start(self, resource: str) -> float:
        each = [(one.is_actors, one.worker.total.get(resource)) for one in self.stages]
        tasks = [amount for is_actors, amount in each if not is_actors]
        actors = sum(amount for is_actors, amount in each if is_actors)
        return plain(actors + max(tasks, default=0))

    @property
    def object_store_bytes(self) -> int:
        """The most that rows between stages take, if every block of rows is full."""
        return in_flight_bytes(self.stages)

    @property
    def placement_groups(self) -> tuple[PlacementGroup, ...]:
        """What each replica reserves, for the maximum number of replicas."""
        return (self.engine.worker,) * self.replicas_maximum

    @property
    def rows_in_flight(self) -> int:
        """Rows in one engine at once: batches x rows, up to max_pending_requests."""
        batches = min(self.max_concurrent_batches, self.max_tasks_in_flight)
        rows = batches * self.batch_size
        limit = self.max_pending_requests
        return rows if limit is None else min(rows, limit)

    def on(self, nodes: Iterable[Node]) -> Placement:
        """Place the pipeline on nodes, as Ray would.

        Raises:
            PlannerError: without a node, or for two nodes with the same name.
        """
        from planner.ray.scheduler import place  # noqa: PLC0415 - slow

        return place(self, _tuple(nodes))

    def nodes_needed(self, node_types: Iterable[NodeType]) -> NodesNeeded:
        """Return how many nodes of each type the pipeline needs.

        Raises:
            PlannerError: where no type can hold a worker.
        """
        from planner.ray.node_counts import nodes_needed  # noqa: PLC0415 - slow

        return nodes_needed(self, _tuple(node_types))

    def to_dict(self) -> dict[str, Any]:
        """Return the pipeline as plain values; the plan in the contract's shape."""
        from planner.ray.placement import pipeline_dict  # noqa: PLC0415 - few need it

        return pipeline_dict(self)

    def figure(self, nodes: Iterable[Node] | None = None) -> Figure:
        """Return the nodes, their GPUs and the workers on them as a plotly figure.

        Without `nodes`: nodes of eight GPUs, as many as the most workers need.
        """
        if nodes is None:
            from planner.ray.node_counts import usual_nodes  # noqa: PLC0415 - slow

            return self.on(usual_nodes(self)).figure()
        return self.on(nodes).figure()

    def __repr__(self) -> str:
        """Return the pipeline in one line, without the plan."""
        return (
            f"Pipeline({self.plan.name}: {self.replicas_minimum} to "
            f"{self.replicas_maximum} replicas of {self.gpus_per_replica:g} GPUs, "
            f"{self.gpus_total:g} GPUs in total)"
        )


def _tuple(given: object) -> tuple[Any, ...]:
    """Return what was given one after the other; what is no list is named later."""
    if isinstance(given, Iterable) and not isinstance(given, str | bytes):
        return tuple(given)
    return (given,)
