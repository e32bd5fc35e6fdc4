"""What a plan says: lines per rank, KV cache figures, the verdict.

Values only; `planner.planning` computes them and `planner.presentation` shows them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING, Any

from planner.contract import plan_dict
from planner.engine import EngineSettings, command
from planner.releases import Release, number_of

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

    from planner.defaults import ResolvedSettings
    from planner.gpu import GPU
    from planner.memory.host import HostLine, NodeAccount
    from planner.memory.loading import Loading
    from planner.memory.profile_run import ProfileRun
    from planner.model import ModelArchitecture
    from planner.widgets.explorer import Explorer


class Basis(StrEnum):
    """How a figure is known, most certain first."""

    EXACT = "exact"  # vLLM's code decides it; byte for byte
    FORMULA = "formula"  # derived from vLLM's code, with a range where it is a bound
    MEASURED = "measured"  # from a named measured record
    ASSUMED = "assumed"  # our guess


class Outcome(StrEnum):
    """What becomes of a start."""

    FITS = "fits"  # at every point of the estimate's range
    TOO_CLOSE = "too close to call"  # at some points of it
    DOES_NOT_FIT = "does not fit"  # at none
    REFUSED = "refused"  # vLLM refuses the settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a rank's memory account."""

    name: str
    """vLLM's name for it, as shown in tables and legends."""
    size_bytes: int
    low_bytes: int
    high_bytes: int
    basis: Basis
    why: str
    """The arithmetic with this plan's numbers, written by the code that computed it."""
    record: str = ""
    """Id of the user's own measured start that the figure comes from; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightPart:
    """Bytes of one part of the weights (attention, mlp, experts, ...) on a rank."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemory:
    """The memory account of one pipeline stage; its tensor-parallel ranks are alike."""

    pp_rank: int
    weights_bytes: int
    allocated_weights_bytes: int
    requested_memory_bytes: int
    weight_parts: tuple[WeightPart, ...]
    lines: tuple[Line, ...]
    """Add up to `requested_memory_bytes`; the KV cache line may be negative."""
    available_kv_cache_bytes: int
    available_kv_cache_low_bytes: int
    available_kv_cache_high_bytes: int
    bytes_per_block: int
    set_aside_bytes: int = 0
    """vLLM's null block, where the release leaves it out of the check."""
    captured_graph_bytes: int = 0
    """What the CUDA graphs take once captured, whatever is charged for them."""
    outside: tuple[Line, ...] = ()
    """What takes memory beside the budget."""
    offloaded: HostLine | None = None
    """Parameters that lie in CPU memory, in no line; None: all are on the GPU."""
    offloaded_parameter_bytes: int = 0
    """The same by their own bytes, without what pinning adds."""
    profile_run: ProfileRun | None = field(default=None, compare=False, repr=False)
    """What the lines were computed from."""

    @property
    def outside_bytes(self) -> int:
        """What must find room beside the budget."""
        return sum(line.size_bytes for line in self.outside)

    @property
    def num_blocks(self) -> int:
        """KV cache blocks that fit on this rank."""
        if not self.bytes_per_block:
            return 1
        return max(self.available_kv_cache_bytes, 0) // self.bytes_per_block

    def line(self, name: str) -> Line:
        """Return the line called `name`.

        Raises:
            KeyError: when this rank has no such line.
        """
        for line in self.lines:
            if line.name == name:
                return line
        raise KeyError(name)


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class VLLMError:
    """Why vLLM would not start, in vLLM's words."""

    kind: str
    """refused, weights, no_kv, max_model_len, free_memory, num_seqs; or too_close and
    host_memory, in our words."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What vLLM would do with a model, a GPU and engine arguments.

    A plan that vLLM refuses before loading anything has no ranks and no `resolved`.
    """

    name: str
    """The model as the user called it."""
    model: ModelArchitecture | None
    """None when vLLM does not know the architecture any more."""
    gpu: GPU
    settings: EngineSettings
    """What the user typed."""
    resolved: ResolvedSettings | None
    """The same after vLLM's defaults; None when refused."""
    vllm_version: str
    """The release whose rules were used."""
    ranks: tuple[RankMemory, ...]
    """One per pipeline stage."""
    kv_groups: tuple[KVCacheGroup, ...]
    error: VLLMError | None
    outcome: Outcome
    """Fits, too close to call, does not fit, or refused."""
    blocks_per_request: int
    """Blocks that one request of `max_model_len` tokens needs."""
    num_gpu_blocks: int
    kv_cache_size_tokens: int
    """As vLLM logs it: max_concurrency x max_model_len, rounded down."""
    max_concurrency: float
    """Requests of `max_model_len` that the KV cache holds at once, as vLLM logs it."""
    max_concurrency_low: float
    """The same at the low end of the estimate's range."""
    max_model_len_that_fits: int | None
    """The longest that starts even at the low end of the estimate's range."""
    needed_kv_cache_bytes: int
    """KV cache that one request of `max_model_len` needs on the limiting rank."""
    host: tuple[NodeAccount, ...] = ()
    """CPU memory of each machine; nodes that are alike share an account."""
    loading: Loading | None = None
    """What loading reads from disk; None where that is not modelled."""
    notes: tuple[str, ...] = ()
    """What a reader must know: replaced release, uncertain facts, warnings."""
    entrypoint: str = "serve"
    """serve (`vllm serve`), llm (the `LLM` class) or engine (the async engine)."""
    env: tuple[tuple[str, str], ...] = ()
    """vLLM's environment variables as given."""

    @classmethod
    def refused(  # noqa: PLR0913 - the fields of a value
        cls,
        *,
        name: str,
        gpu: GPU,
        settings: EngineSettings,
        vllm_version: str,
        error: VLLMError,
        notes: tuple[str, ...],
        model: ModelArchitecture | None = None,
        entrypoint: str = "serve",
        env: tuple[tuple[str, str], ...] = (),
    ) -> Plan:
        """Return the plan of a start that vLLM refuses before it loads anything."""
        return cls(
            name=name,
            model=model,
            gpu=gpu,
            settings=settings,
            resolved=None,
            vllm_version=vllm_version,
            ranks=(),
            kv_groups=(),
            error=error,
            outcome=Outcome.REFUSED,
            blocks_per_request=0,
            num_gpu_blocks=0,
            kv_cache_size_tokens=0,
            max_concurrency=0.0,
            max_concurrency_low=0.0,
            max_model_len_that_fits=None,
            needed_kv_cache_bytes=0,
            notes=notes,
            entrypoint=entrypoint,
            env=env,
        )

    @property
    def fits(self) -> bool:
        """Whether vLLM would start, even at the low end of the estimate's range."""
        return self.error is None

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
        sizes = (
            self.settings.tensor_parallel_size,
            self.settings.pipeline_parallel_size,
            self.settings.data_parallel_size,
        )
        return prod(size or 1 for size in sizes)

    def changed(self, **changes: Any) -> Plan:  # noqa: ANN401 - vLLM's own types
        """Plan again with engine arguments, model, gpu, vllm_version, ... replaced.

        None takes an engine argument back, so that vLLM's default counts.

        Raises:
            PlannerError: for input that cannot be planned.
        """
        from planner.inputs import Inputs  # noqa: PLC0415 - it plans

        return Inputs.of(self).changed(**changes).plan()

    def command(self) -> str:
        """Return the `vllm serve` line that starts this plan."""
        if self.entrypoint != "serve":
            from planner.export.entrypoints import serve_line  # noqa: PLC0415

            return serve_line(self)
        release = Release(number_of(self.vllm_version))
        return command(self.name, self.settings, release)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, in the shape of the public contract."""
        return plan_dict(self)

    def to_frame(self) -> DataFrame:
        """Return the lines as a pandas frame, one row per rank and line."""
        from planner.presentation.frames import plan_frame  # noqa: PLC0415

        return plan_frame(self)

    def figure(self) -> Figure:
        """Return the memory bars as a plotly figure."""
        from planner.charts.memory_bars import figure  # noqa: PLC0415

        return figure(self)

    def explore(self) -> Explorer:
        """Return the interactive explorer, set to this plan."""
        from planner.widgets.explorer import Explorer  # noqa: PLC0415

        return Explorer.for_plan(self)

    def __str__(self) -> str:
        """Return the plan as text for a terminal."""
        from planner.presentation.text import plan_text  # noqa: PLC0415

        return plan_text(self)

    def _repr_mimebundle_(self, **_options: object) -> dict[str, Any]:
        from planner.presentation.bundle import mimebundle  # noqa: PLC0415

        return mimebundle(self)
