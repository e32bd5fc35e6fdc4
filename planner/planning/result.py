"""What a plan reports: memory lines per rank, KV cache figures and the verdict.

These are values, and their form as plain data for other programs;
`planner.planning.planning` computes them and `planner.show` displays them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from planner.engine.releases import Release, number_of
from planner.engine.settings import EngineSettings, command
from planner.memory.account import VLLMError
from planner.memory.estimate import RankMemory
from planner.registries import provided
from planner.values import frozen
from planner.views import Viewed, charts_of, views_of

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

    from planner.app.widgets.explorer import Explorer
    from planner.confirming.dry.result import DryRun
    from planner.engine.gpu import GPU
    from planner.memory.host.loading import Loading
    from planner.memory.host.nodes import NodeAccount
    from planner.memory.kv_cache.capacity import RequestBlocks
    from planner.memory.kv_cache.shared_prefix import SharedPrefix
    from planner.models.architecture import ModelArchitecture
    from planner.planning.defaults import ResolvedSettings
    from planner.planning.inputs import Inputs
    from planner.planning.load import Load
    from planner.planning.serving import Serving


class Outcome(StrEnum):
    """The outcome of a start."""

    FITS = "fits"  # at every point of the estimate's range
    TOO_CLOSE = "too close to call"  # at some points of it
    DOES_NOT_FIT = "does not fit"  # at none
    REFUSED = "refused"  # vLLM refuses the settings


@frozen
class KVCacheGroup:
    """Layers that share one block table.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` KVCacheGroupSpec.
    """

    kind: str
    """vLLM's spec class name, such as FullAttentionSpec."""
    num_layers: int
    block_size: int
    """Tokens in one block."""
    page_size_bytes: int
    """Bytes of one block of one layer on one rank."""


@frozen
class Alternative:
    """The KV cache where something is so that no argument of vLLM's shows.

    A first start compiles the model, later ones find it compiled; old releases sample
    with FlashInfer where it is installed.
    """

    argument: str
    """The planner's own argument that chooses it: compile_cache or sampler."""
    value: str
    is_planned: bool
    """Whether the plan's figures are these."""
    starts: bool
    """Whether one request of max_model_len fits."""
    available_kv_cache_bytes: int
    """Smallest rank's, as the next two."""
    available_kv_cache_low_bytes: int
    available_kv_cache_high_bytes: int
    num_gpu_blocks: int
    kv_cache_size_tokens: int
    max_concurrency: float


@frozen
class Engines:
    """The KV cache of all engines together, each a copy of the model."""

    engines: int
    """data_parallel_size."""
    num_gpu_blocks: int
    kv_cache_size_tokens: int
    max_concurrency: float
    """Requests of `max_model_len` that all engines hold at once."""


@frozen
class Plan(Viewed):
    """What vLLM would do with a model, a GPU and engine arguments.

    A plan that vLLM refuses before it loads anything has no ranks and no `resolved`.
    """

    name: str
    """The model as the user named it."""
    model: ModelArchitecture | None = None
    """None when vLLM no longer supports the architecture."""
    gpu: GPU
    settings: EngineSettings
    """Engine arguments as given."""
    resolved: ResolvedSettings | None = None
    """Engine arguments after vLLM's defaults; None when refused."""
    vllm_version: str
    """The release whose rules were used."""
    ranks: tuple[RankMemory, ...] = ()
    """One per pipeline stage."""
    kv_groups: tuple[KVCacheGroup, ...] = ()
    error: VLLMError | None
    outcome: Outcome
    """Fits, too close to call, does not fit, or refused."""
    blocks_per_request: int = 0
    """Blocks that one request of `max_model_len` tokens needs."""
    num_gpu_blocks: int = 0
    kv_cache_size_tokens: int = 0
    """As vLLM logs it: max_concurrency x max_model_len, rounded down."""
    max_concurrency: float = 0.0
    """Requests of `max_model_len` that the KV cache holds at once, as vLLM logs it."""
    max_concurrency_low: float = 0.0
    """The same at the low end of the estimate's range."""
    max_model_len_that_fits: int | None = None
    """The longest that starts even at the low end of the estimate's range."""
    needed_kv_cache_bytes: int = 0
    """KV cache that one request of `max_model_len` needs on the limiting rank."""
    host: tuple[NodeAccount, ...] = ()
    """CPU memory of each machine; identical nodes share an account."""
    loading: Loading | None = None
    """What loading reads from disk; None where that is not modelled."""
    alternatives: tuple[Alternative, ...] = ()
    """First and later starts, and either sampler, where they differ."""
    safe_gpu_memory_utilization: float | None = None
    """The largest that leaves enough outside the budget, where the given one may not;
    None: it does, or the verdict does not depend on it."""
    estimated_max_model_len: int | None = None
    """The longest that vLLM's own message names, where one request does not fit."""
    conditions: tuple[str, ...] = ()
    """Settings whose memory is not counted: it must fit in what is left."""
    notes: tuple[str, ...] = ()
    """Notes for the reader: replaced release, uncertain facts, warnings."""
    entrypoint: str = "serve"
    """serve (`vllm serve`), llm (the `LLM` class) or engine (the async engine)."""
    env: tuple[tuple[str, str], ...] = ()
    """vLLM's environment variables as given."""
    load: Load | None = None
    """The load that the start must serve, over all engines; None: none was given."""
    follows: tuple[str, ...] = ()
    """Names of the arguments in `settings` that follow from the load."""
    request_blocks: RequestBlocks | None = field(
        default=None, compare=False, repr=False
    )
    """Blocks of requests of any length; None where vLLM refuses the start."""
    shared_prefix: SharedPrefix | None = None
    """What of a common beginning an engine stores once; None: nothing is sure to be."""

    @property
    def fits(self) -> bool:
        """Whether vLLM would start, even at the low end of the estimate's range."""
        return self.error is None

    @property
    def is_share_too_large(self) -> bool:
        """Whether gpu_memory_utilization is more than is free, or leaves too little."""
        is_full = self.error is not None and self.error.kind == "free_memory"
        return is_full or self.safe_gpu_memory_utilization is not None

    @property
    def limiting_rank(self) -> RankMemory | None:
        """The rank with the fewest KV blocks; vLLM uses its number on every rank."""
        if not self.ranks:
            return None
        return min(self.ranks, key=lambda rank: rank.num_blocks)

    @property
    def margin_bytes(self) -> int | None:
        """KV cache left after one request of `max_model_len`; negative when short."""
        rank = self.limiting_rank
        if rank is None:
            return None
        usable = rank.available_kv_cache_bytes - rank.set_aside_bytes
        return usable - self.needed_kv_cache_bytes

    @property
    def gpus_total(self) -> int:
        """GPUs in all: tensor x pipeline x data parallel."""
        return self.settings.gpus_total

    @property
    def engines(self) -> int:
        """Copies of the model (data parallel), each with a KV cache of its own."""
        return self.settings.data_parallel_size or 1

    @property
    def all_engines(self) -> Engines:
        """The KV cache of all engines together; vLLM logs that of one."""
        return Engines(
            engines=self.engines,
            num_gpu_blocks=self.engines * self.num_gpu_blocks,
            kv_cache_size_tokens=self.engines * self.kv_cache_size_tokens,
            max_concurrency=self.engines * self.max_concurrency,
        )

    @property
    def serving(self) -> Serving | None:
        """How the start serves its load; None without a load."""
        return provided(Replanner).serving(self)

    def changed(self, **changes: Any) -> Plan:  # noqa: ANN401 - vLLM's own types
        """Plan again with engine arguments, model, gpu, vllm_version, ... replaced.

        None removes an engine argument, so that vLLM's default applies.

        Raises:
            PlannerError: for input that cannot be planned.
        """
        return provided(Replanner).changed(self, changes)

    def command(self) -> str:
        """Return the `vllm serve` line that starts this plan."""
        if self.entrypoint != "serve":
            from planner.planning.entrypoints import serve_line  # noqa: PLC0415 - few need it

            return serve_line(self)
        release = Release(number_of(self.vllm_version))
        return command(self.name, self.settings, release)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, in the form of the public contract."""
        from planner.planning.as_dict import plan_dict  # noqa: PLC0415 - few need it

        return plan_dict(self)

    def to_frame(self) -> DataFrame:
        """Return the lines as a pandas frame, one row per rank and line."""
        return views_of(self).frame(self)

    def figure(self) -> Figure:
        """Return the memory bars as a plotly figure."""
        return charts_of(self).figure(self)

    def dry_run(self, **options: Any) -> DryRun:  # noqa: ANN401 - of `dry_run`
        """Let vLLM itself start for this plan, on a GPU that is not there.

        Args:
            options: vllm_python, compile_cache, has_real_workers, time_limit_seconds,
                listener; see `planner.dry_run`.

        Raises:
            PlannerError: if vLLM cannot be started; a refusal is a result.
        """
        return provided(DryStarter).dry_run(self, **options)

    def explore(self) -> Explorer:
        """Return the interactive explorer, set to this plan."""
        return provided(ExplorerMaker).explorer(self)


@frozen
class Replanner:
    """Plans, and plans again: by what makes plans."""

    plan: Callable[[Inputs], Plan]
    changed: Callable[[Plan, Mapping[str, Any]], Plan]
    serving: Callable[[Plan], Serving | None]


@frozen
class DryStarter:
    """Starts vLLM for a plan without a GPU."""

    dry_run: Callable[..., DryRun]
    """Of a plan, with the options of `Plan.dry_run`."""


@frozen
class ExplorerMaker:
    """Makes the interactive explorer."""

    explorer: Callable[[Plan], Explorer]
