"""compare_gpus(): one model with the same arguments on several GPUs, and its price."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from planner.engine.devices import gpu_named
from planner.engine.gpu import GPU, catalogue
from planner.errors import PlannerError
from planner.given import named_in_errors
from planner.planning.inputs import Inputs
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.planning.serving import Serving, serve
from planner.solve.comparing.comparison import MOST_PLANS, Comparison, compare
from planner.solve.price_list import checked_prices
from planner.solve.speed.bound import speed_bound
from planner.units import counted
from planner.values import frozen
from planner.views import Charted, Framed

MOST_RANKS = 8
"""Largest tensor parallel size that is tried: the GPUs of a usual server."""


@frozen
class GPUChoice:
    """The result for GPUs of one kind."""

    gpu: GPU
    plan: Plan | None
    """With the fewest GPUs that serve, else as requested; None: no plan."""
    serves: bool
    """Whether it starts, and holds the load where one was given."""
    has_grown: bool
    """Whether tensor parallel had to grow beyond the requested size."""
    requests_held: int | None = None
    """Whole requests of the load's length that all replicas hold at once, even at the
    low end of the estimate's range; None: no load, or no limit by the KV cache."""
    why_not: str = ""
    """vLLM's message, or ours, where it does not serve."""
    price_per_gpu_hour: float | None = None
    """As given; None: no price."""
    at_most_tokens_per_second: float | None = None
    """Bound of `speed_bound` on output tokens under the load, not a forecast; None:
    no load, or the GPU's bandwidth is not known."""

    @property
    def gpus_total(self) -> int | None:
        """Total number of GPUs; None without a plan."""
        return self.plan.gpus_total if self.plan is not None else None

    @property
    def requests(self) -> float | None:
        """Requests of `max_model_len` that all replicas hold at once."""
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
        """Price of all GPUs; None without a price or a plan that serves."""
        count = self.gpus_total
        if self.price_per_gpu_hour is None or count is None or not self.serves:
            return None
        return self.price_per_gpu_hour * count

    @property
    def price_per_request(self) -> float | None:
        """Price per hour for each request that is held at once."""
        return _per(self.price_per_hour, self.requests)

    @property
    def price_per_million_tokens(self) -> float | None:
        """Price per hour for each million tokens that the KV cache holds."""
        tokens = self.kv_cache_size_tokens
        return _per(self.price_per_hour, None if tokens is None else tokens / 1e6)

    @property
    def at_least_price_per_million_answer_tokens(self) -> float | None:
        """Price of a million output tokens at the bound: the least possible."""
        speed = self.at_most_tokens_per_second
        return _per(self.price_per_hour, None if speed is None else speed * 3600 / 1e6)


@frozen
class GPUComparison(Framed, Charted):
    """One model with the same arguments on GPUs of several kinds, best first."""

    plan: Plan
    """The plan whose model and arguments are compared."""
    choices: tuple[GPUChoice, ...]
    load: Load | None = None
    """Load that each must serve; None: one request of `max_model_len`."""
    currency: str = ""
    """Currency of the prices, as the user writes it."""

    @property
    def sizes_tried(self) -> tuple[int, ...]:
        """Tensor parallel sizes that were tried, up to the first that serves.

        All with the plan's own pipeline and data parallel sizes.
        """
        given = self.plan.settings.tensor_parallel_size or 1
        return tuple(range(given, max(given, MOST_RANKS) + 1))

    @property
    def best(self) -> GPUChoice | None:
        """The first that serves; None where none does."""
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
            "load": None if load is None else load.to_dict(),
            "currency": self.currency,
            "tensor_parallel_sizes_tried": list(self.sizes_tried),
            "gpus": self.rows(),
        }


@named_in_errors
def compare_gpus(
    plan: Plan,
    gpus: Iterable[str | GPU] | None = None,
    price_per_hour: Mapping[str, float] | None = None,
    load: Load | None = None,
    *,
    currency: str = "",
) -> GPUComparison:
    """Plan the same model with the same arguments on each GPU.

    Where the plan's number of GPUs is too small, tensor parallel grows to the smallest
    size that vLLM accepts and that serves, up to eight.

    Args:
        plan: the model and its arguments; its own GPU does not matter.
        gpus: names or `GPU`s; by default the whole catalogue except MIG slices.
        price_per_hour: price of one GPU, by name, in any currency.
        load: load that each must serve. It sets `max_model_len` to its length and,
            unless given, `max_num_seqs` to its requests. By default the plan's own;
            without one, each must start.
        currency: word to write after prices.

    Raises:
        PlannerError: for an unknown GPU or an invalid price.
    """
    prices = checked_prices(price_per_hour or {}, "price_per_hour")
    chosen = (
        [_named(gpu) for gpu in gpus]
        if gpus is not None
        else [gpu for gpu in catalogue() if not gpu.mig_profile]
    )
    if not chosen:
        raise PlannerError("compare_gpus() needs at least one GPU.")
    load = plan.load if load is None else Load.given(load)
    inputs = Inputs.of(plan).changed(load=None)
    if load is not None:
        inputs = inputs.changed(max_model_len=None)  # follows from the load
    choices = [_choose(inputs, gpu, load, prices.get(gpu.name)) for gpu in chosen]
    return GPUComparison(
        plan=plan,
        choices=tuple(sorted(choices, key=_order)),
        load=load,
        currency=currency,
    )


def _choose(
    inputs: Inputs, gpu: GPU, load: Load | None, price: float | None
) -> GPUChoice:
    """Find the fewest ranks that serve; without any, return the plan as requested."""
    first: GPUChoice | None = None
    requested = inputs.engine_args.get("tensor_parallel_size") or 1
    for ranks in _sizes(requested, gpu):
        found = _planned(inputs, gpu, ranks, load)
        choice = GPUChoice(
            gpu=gpu,
            plan=found.plan if isinstance(found, Serving) else None,
            serves=_serves(found, load),
            has_grown=ranks > requested,
            requests_held=None if load is None else _held(found),
            why_not=_why_not(found, load),
            price_per_gpu_hour=price,
        )
        if choice.serves:
            return replace(choice, at_most_tokens_per_second=_speed(choice, load))
        first = first or choice
    if first is None:
        raise PlannerError(
            f"tensor_parallel_size={requested}: give at least one size to try."
        )
    return first


def _sizes(requested: int, gpu: GPU) -> Iterator[int]:
    """Yield the tensor parallel sizes to try: one only for MIG slices and CPUs."""
    yield requested
    if not gpu.mig_profile and not gpu.is_cpu:
        yield from range(requested + 1, MOST_RANKS + 1)


def _planned(
    inputs: Inputs, gpu: GPU, ranks: int, load: Load | None
) -> Serving | PlannerError:
    given = inputs.engine_args.get("tensor_parallel_size")
    size = given if ranks == (given or 1) else ranks
    try:
        return serve(inputs.changed(gpu=gpu, tensor_parallel_size=size), load)
    except PlannerError as error:
        return error


def _serves(found: Serving | PlannerError, load: Load | None) -> bool:
    """Whether it starts and serves the load, even at the low end of the range."""
    if isinstance(found, PlannerError):
        return False
    return found.plan.fits if load is None else found.is_served


def _held(found: Serving | PlannerError) -> int | None:
    return 0 if isinstance(found, PlannerError) else found.requests_held


def _why_not(found: Serving | PlannerError, load: Load | None) -> str:
    if isinstance(found, PlannerError):
        return str(found)
    plan = found.plan
    if plan.error is not None:
        return plan.error.message
    if load is None or found.is_served:
        return ""
    if not found.admits and plan.resolved is not None:
        return (
            f"It starts, but max_num_seqs={plan.resolved.max_num_seqs} allows fewer "
            f"than {counted(load.requests, 'requests')} at once."
        )
    return (
        f"It starts, but is certain to hold only {found.requests_held:,} of "
        f"{counted(load.requests, 'requests')} of "
        f"{counted(load.request_tokens, 'tokens')}."
    )


def _speed(choice: GPUChoice, load: Load | None) -> float | None:
    if choice.plan is None or load is None or not load.output_tokens:
        return None
    try:
        bound = speed_bound(choice.plan, load)
    except PlannerError:
        return None
    return bound.total_at_most_tokens_per_second


def _order(choice: GPUChoice) -> tuple[bool, float, int, int, str]:
    """Order choices: those that serve, then by price, number and size of GPUs."""
    price = choice.price_per_hour
    count = choice.gpus_total or MOST_RANKS
    return (
        not choice.serves,
        float("inf") if price is None else price,
        count,
        count * choice.gpu.total_memory_bytes,
        choice.gpu.name,
    )


def _named(gpu: str | GPU) -> GPU:
    return gpu if isinstance(gpu, GPU) else gpu_named(gpu)


def _per(price: float | None, count: float | None) -> float | None:
    return price / count if price is not None and count else None


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
