"""compare_gpus(): one model with the same arguments, on one GPU after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from planner.comparing.comparison import MOST_PLANS, Comparison, compare
from planner.errors import PlannerError
from planner.gpu import GPU, catalogue
from planner.inputs import Inputs
from planner.load import Load
from planner.result import Plan
from planner.sources.device import gpu_named

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

MOST_RANKS = 8
"""Tensor parallel ranks that are tried: those of a usual server."""


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
    why_not: str = ""
    """vLLM's words, or ours, where it does not serve."""
    price_per_gpu_hour: float | None = None
    """As given; None: no price."""

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
        "max_model_len_that_fits": plan.max_model_len_that_fits if plan else None,
        "price_per_gpu_hour": choice.price_per_gpu_hour,
        "price_per_hour": choice.price_per_hour,
        "price_per_request": choice.price_per_request,
        "price_per_million_tokens": choice.price_per_million_tokens,
        "why_not": choice.why_not,
    }


def compare_gpus(
    plan: Plan,
    gpus: Iterable[str | GPU] | None = None,
    price_per_hour: Mapping[str, float] | None = None,
    load: Load | None = None,
    *,
    currency: str = "",
) -> GPUComparison:
    """Plan the same model with the same arguments on each GPU.

    Where one GPU, or as many as the plan has, are too few, tensor parallel grows to the
    smallest size that vLLM accepts and that serves, up to eight.

    Args:
        plan: the model and its arguments; its own GPU does not matter.
        gpus: names or `GPU`s; by default the whole catalogue but MIG slices.
        price_per_hour: of one GPU, by name, in any currency.
        load: what each must hold at once; it sets `max_model_len` to its length. By
            default one request of the plan's.
        currency: a word to write behind prices.

    Raises:
        PlannerError: for an unknown GPU or a price that is none.
    """
    prices = _prices(price_per_hour or {})
    chosen = [_named(gpu) for gpu in gpus] if gpus is not None else _whole()
    if not chosen:
        raise PlannerError("compare_gpus() needs at least one GPU.")
    inputs = Inputs.of(plan)
    if load is not None:
        inputs = inputs.changed(max_model_len=load.request_tokens)
    choices = [_choose(inputs, gpu, load, prices.get(gpu.name)) for gpu in chosen]
    return GPUComparison(
        plan=plan,
        choices=tuple(sorted(choices, key=_order)),
        load=load,
        currency=currency,
    )


def _whole() -> list[GPU]:
    return [gpu for gpu in catalogue() if not gpu.mig_profile]


def _named(gpu: str | GPU) -> GPU:
    return gpu if isinstance(gpu, GPU) else gpu_named(gpu)


def _prices(given: Mapping[str, float]) -> dict[str, float]:
    """Check prices, and put them under the catalogue's names."""
    found = {}
    for name, price in given.items():
        value: object = price
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not isfinite(price) or price < 0:
            raise PlannerError(
                f"price_per_hour[{name!r}]={price!r}: a number from 0 is needed, such "
                "as 2.5."
            )
        try:
            found[gpu_named(name).name] = float(price)
        except PlannerError:
            found[name] = float(price)  # of a GPU that the user describes
    return found


def _choose(
    inputs: Inputs, gpu: GPU, load: Load | None, price: float | None
) -> GPUChoice:
    """Find the fewest ranks that serve; where none do, keep the plan as asked."""
    first: GPUChoice | None = None
    asked = inputs.engine_args.get("tensor_parallel_size") or 1
    for ranks in _sizes(asked, gpu):
        found = _planned(inputs, gpu, ranks)
        choice = GPUChoice(
            gpu=gpu,
            plan=found if isinstance(found, Plan) else None,
            serves=isinstance(found, Plan) and _serves(found, load),
            has_grown=ranks > asked,
            why_not=_why_not(found, load),
            price_per_gpu_hour=price,
        )
        if choice.serves:
            return choice
        first = first or choice
    if first is None:
        raise PlannerError(f"tensor_parallel_size={asked} has no sizes to try.")
    return first


def _sizes(asked: int, gpu: GPU) -> Iterator[int]:
    """Yield the tensor parallel sizes to try; slices and processors stay as asked."""
    yield asked
    if not gpu.mig_profile and not gpu.is_cpu:
        yield from range(asked + 1, MOST_RANKS + 1)


def _planned(inputs: Inputs, gpu: GPU, ranks: int) -> Plan | PlannerError:
    given = inputs.engine_args.get("tensor_parallel_size")
    size = given if ranks == (given or 1) else ranks
    try:
        return inputs.changed(gpu=gpu, tensor_parallel_size=size).plan()
    except PlannerError as error:
        return error


def _serves(plan: Plan, load: Load | None) -> bool:
    """Whether it starts and holds the load, even at the low end of the range."""
    if not plan.fits or load is None:
        return plan.fits
    replicas = plan.settings.data_parallel_size or 1
    return plan.max_concurrency_low * replicas >= load.requests


def _why_not(found: Plan | PlannerError, load: Load | None) -> str:
    if isinstance(found, PlannerError):
        return str(found)
    if found.error is not None:
        return found.error.message
    if load is not None and not _serves(found, load):
        holds = found.max_concurrency_low * (found.settings.data_parallel_size or 1)
        return (
            f"It starts, but surely holds only {holds:,.1f} of {load.requests:,} "
            f"requests of {load.request_tokens:,} tokens."
        )
    return ""


def _order(choice: GPUChoice) -> tuple[bool, float, int, int, str]:
    """Put what serves first, then the cheapest, then the fewest and smallest GPUs."""
    price = choice.price_per_hour
    count = choice.gpus_total or MOST_RANKS
    return (
        not choice.serves,
        float("inf") if price is None else price,
        count,
        count * choice.gpu.total_memory_bytes,
        choice.gpu.name,
    )
