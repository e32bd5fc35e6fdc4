"""What becomes of one model on several kinds of GPU, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.comparing.comparison import MOST_PLANS, Comparison, compare
from planner.gpu import GPU
from planner.load import Load
from planner.result import Plan

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUChoice:
    """What becomes of the model on GPUs of one kind."""

    gpu: GPU
    plan: Plan | None
    """With the fewest GPUs that serve, or as asked where none do; None: no plan."""
    serves: bool
    """Whether it starts, and holds the load where one was given."""
    has_grown: bool
    """Whether tensor parallel had to grow beyond what was asked."""
    requests_held: int | None = None
    """Whole requests of the load's length that all replicas hold at once, even at the
    low end of the estimate's range; None: no load, or the KV cache sets no limit."""
    why_not: str = ""
    """vLLM's words, or ours, where it does not serve."""
    price_per_gpu_hour: float | None = None
    """As given; None: no price."""
    at_most_tokens_per_second: float | None = None
    """Bound of `speed_bound` on the answers' tokens under the load, no forecast; None:
    no load, or the GPU's bandwidth is not known."""

    @property
    def gpus_total(self) -> int | None:
        """GPUs in all; None without a plan."""
        return self.plan.gpus_total if self.plan is not None else None

    @property
    def requests(self) -> float | None:
        """Requests of `max_model_len` held at once, by all replicas."""
        return self._all(self.plan.max_concurrency) if self.plan else None

    @property
    def requests_low(self) -> float | None:
        """The same at the low end of the estimate's range."""
        return self._all(self.plan.max_concurrency_low) if self.plan else None

    @property
    def kv_cache_size_tokens(self) -> int | None:
        """Tokens that the KV caches of all replicas hold."""
        return int(self._all(self.plan.kv_cache_size_tokens)) if self.plan else None

    def _all(self, figure: float) -> float:
        replicas = 1 if self.plan is None else self.plan.settings.data_parallel_size
        return figure * (replicas or 1)

    @property
    def price_per_hour(self) -> float | None:
        """Of all GPUs; None without a price or a plan that serves."""
        count = self.gpus_total
        if self.price_per_gpu_hour is None or count is None or not self.serves:
            return None
        return self.price_per_gpu_hour * count

    @property
    def price_per_request(self) -> float | None:
        """Per hour, for each request that is held at once."""
        return _per(self.price_per_hour, self.requests)

    @property
    def price_per_million_tokens(self) -> float | None:
        """Per hour, for each million tokens that the KV cache holds."""
        tokens = self.kv_cache_size_tokens
        return _per(self.price_per_hour, None if tokens is None else tokens / 1e6)

    @property
    def at_least_price_per_million_answer_tokens(self) -> float | None:
        """Price of a million tokens of answers at that bound: it cannot be less."""
        speed = self.at_most_tokens_per_second
        return _per(self.price_per_hour, None if speed is None else speed * 3600 / 1e6)


def _per(price: float | None, count: float | None) -> float | None:
    return price / count if price is not None and count else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUComparison:
    """One model with the same arguments on GPUs of several kinds, best first."""

    plan: Plan
    """What was asked for."""
    choices: tuple[GPUChoice, ...]
    load: Load | None = None
    """What each must hold; None: one request of `max_model_len`."""
    currency: str = ""
    """Of the prices, in the user's word."""

    @property
    def best(self) -> GPUChoice | None:
        """The first that serves; None: none does."""
        return next((choice for choice in self.choices if choice.serves), None)

    @property
    def has_prices(self) -> bool:
        """Whether any price was given."""
        return any(choice.price_per_gpu_hour is not None for choice in self.choices)

    def comparison(self) -> Comparison:
        """Return the plans of the first eight side by side.

        Raises:
            PlannerError: when no GPU has a plan.
        """
        found = [c for c in self.choices if c.plan is not None][:MOST_PLANS]
        plans = [choice.plan for choice in found if choice.plan is not None]
        return compare(*plans, names=[choice.gpu.name for choice in found])

    def rows(self) -> list[dict[str, Any]]:
        """Return one mapping per GPU: sizes in whole bytes, prices as given."""
        return [_row(choice) for choice in self.choices]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        load = self.load
        return {
            "model": self.plan.name,
            "vllm_version": self.plan.vllm_version,
            "command": self.plan.command(),
            "load": None
            if load is None
            else {
                "prompt_tokens": load.prompt_tokens,
                "output_tokens": load.output_tokens,
                "requests": load.requests,
            },
            "currency": self.currency,
            "gpus": self.rows(),
        }

    def to_frame(self) -> DataFrame:
        """Return a pandas frame, one row per GPU.

        Raises:
            PlannerError: when pandas is not installed.
        """
        from planner.presentation.comparison_gpus import frame  # noqa: PLC0415

        return frame(self)

    def figure(self) -> Figure:
        """Return what each GPU holds as a plotly figure.

        Raises:
            PlannerError: when plotly is not installed.
        """
        from planner.charts.gpu_bars import figure  # noqa: PLC0415

        return figure(self)

    def __str__(self) -> str:
        """Return the table as text for a terminal."""
        from planner.presentation.comparison_gpus import gpus_text  # noqa: PLC0415

        return gpus_text(self)

    def _repr_mimebundle_(self, **_options: object) -> dict[str, str]:
        from planner.presentation.comparison_gpus import mimebundle  # noqa: PLC0415

        return mimebundle(self)


def _row(choice: GPUChoice) -> dict[str, Any]:
    plan, rank = choice.plan, None if choice.plan is None else choice.plan.limiting_rank
    return {
        "gpu": choice.gpu.name,
        "serves": choice.serves,
        "verdict": "not planned" if plan is None else str(plan.outcome),
        "gpus_total": choice.gpus_total,
        "tensor_parallel_size": None
        if plan is None
        else plan.settings.tensor_parallel_size or 1,
        "has_grown": choice.has_grown,
        "total_memory_bytes": choice.gpu.total_memory_bytes,
        "available_kv_cache_bytes": rank.available_kv_cache_bytes if rank else None,
        "kv_cache_size_tokens": choice.kv_cache_size_tokens,
        "requests": choice.requests,
        "requests_low": choice.requests_low,
        "requests_held": choice.requests_held,
        "max_model_len_that_fits": plan.max_model_len_that_fits if plan else None,
        "price_per_gpu_hour": choice.price_per_gpu_hour,
        "price_per_hour": choice.price_per_hour,
        "price_per_request": choice.price_per_request,
        "price_per_million_tokens": choice.price_per_million_tokens,
        "at_most_tokens_per_second": choice.at_most_tokens_per_second,
        "at_least_price_per_million_answer_tokens": (
            choice.at_least_price_per_million_answer_tokens
        ),
        "why_not": choice.why_not,
    }
