"""compare_gpus(): one model with the same arguments, on one GPU after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import isfinite

from planner.comparing.gpu_choices import GPUChoice, GPUComparison
from planner.errors import PlannerError
from planner.gpu import GPU, catalogue
from planner.inputs import Inputs
from planner.load import Load
from planner.result import Plan
from planner.roofline.bound import speed_bound
from planner.serving import Serving, serve
from planner.sources.device import gpu_named

MOST_RANKS = 8
"""Tensor parallel ranks that are tried: those of a usual server."""


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
        load: what each must serve; it sets `max_model_len` to its length, and
            `max_num_seqs` to its requests unless that is given. By default each must
            start.
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
        found = _planned(inputs, gpu, ranks, load)
        choice = GPUChoice(
            gpu=gpu,
            plan=found.plan if isinstance(found, Serving) else None,
            serves=_serves(found, load),
            has_grown=ranks > asked,
            requests_held=None if load is None else _held(found),
            why_not=_why_not(found, load),
            price_per_gpu_hour=price,
        )
        if choice.serves:
            return replace(choice, at_most_tokens_per_second=_speed(choice, load))
        first = first or choice
    if first is None:
        raise PlannerError(f"tensor_parallel_size={asked} has no sizes to try.")
    return first


def _speed(choice: GPUChoice, load: Load | None) -> float | None:
    if choice.plan is None or load is None or not load.output_tokens:
        return None
    try:
        bound = speed_bound(choice.plan, load)
    except PlannerError:
        return None
    return bound.total_at_most_tokens_per_second


def _sizes(asked: int, gpu: GPU) -> Iterator[int]:
    """Yield the tensor parallel sizes to try; slices and processors stay as asked."""
    yield asked
    if not gpu.mig_profile and not gpu.is_cpu:
        yield from range(asked + 1, MOST_RANKS + 1)


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
            f"It starts, but max_num_seqs={plan.resolved.max_num_seqs} works on fewer "
            f"than {load.requests:,} requests at once."
        )
    return (
        f"It starts, but surely holds only {found.requests_held:,} of "
        f"{load.requests:,} requests of {load.request_tokens:,} tokens."
    )


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
