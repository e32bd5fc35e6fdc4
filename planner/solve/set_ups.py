"""SetUps: GPUs and layouts that serve a load, with prices and speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from planner.engine.gpu import GPU, catalogue
from planner.errors import PlannerError
from planner.planning.inputs import Inputs
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.planning.serving import Serving
from planner.solve.formats import AS_GIVEN, ServedFormat
from planner.solve.layouts import Layout
from planner.solve.price_list import Price
from planner.values import frozen
from planner.views import Framed

if TYPE_CHECKING:
    from planner.solve.speed.forecast import Range, SpeedForecast
    from planner.solve.speed.speed import SpeedBound

ORDERS = ("fewest", "cheapest", "fastest")
"""What comes first: the fewest GPUs, the lowest price per hour or the most tokens per
second by the forecast, of those tried; after these, without one, by the bound."""
_FORECAST = {
    "tokens_per_second": "total_tokens_per_second",
    "tokens_per_second_each": "per_request_tokens_per_second",
    "first_token_seconds": "first_token_seconds",
}
"""Names in plain values: attributes of a forecast."""
_SECONDS = 3600


@frozen(repr=False)
class SetUp:
    """GPUs and a layout that serve the load."""

    gpu: GPU
    layout: Layout
    serving: Serving
    price: Price | None = None
    """Of one GPU for an hour; None: no price is known."""
    forecast: SpeedForecast | None = None
    """None: the GPU's bandwidth is not known, or there is no answer to generate."""
    is_sure_of_speed: bool = True
    """Whether the speed that is wanted is reached at the slow end of the range too."""
    format: ServedFormat = AS_GIVEN
    """Of weights and KV cache."""

    @property
    def plan(self) -> Plan:
        """The plan that serves the load."""
        return self.serving.plan

    @property
    def speed(self) -> SpeedBound | None:
        """An upper bound on speed, not a forecast; None where there is no forecast."""
        return None if self.forecast is None else self.forecast.bound

    @property
    def gpus_total(self) -> int:
        """Number of GPUs."""
        return self.layout.gpus

    @property
    def requests_held(self) -> int | None:
        """Requests of the load's length that all KV caches hold; None: no limit."""
        return self.serving.requests_held

    @property
    def price_per_hour(self) -> float | None:
        """Price of all GPUs for an hour; None without a price."""
        return None if self.price is None else self.price.per_hour * self.gpus_total

    @property
    def tokens_per_second(self) -> Range | None:
        """Output tokens of all requests together, as forecast; None: not known."""
        return None if self.forecast is None else self.forecast.total_tokens_per_second

    @property
    def at_most_tokens_per_second(self) -> float | None:
        """Output tokens of all requests together, at most."""
        return (
            None if self.speed is None else self.speed.total_at_most_tokens_per_second
        )

    @property
    def at_most_tokens_per_second_each(self) -> float | None:
        """Output tokens of one request, at most."""
        speed = self.speed
        return None if speed is None else speed.per_request_at_most_tokens_per_second

    @property
    def first_token_at_least_seconds(self) -> float | None:
        """Prefill time of one prompt that runs alone, at least."""
        return None if self.speed is None else self.speed.prefill_at_least_seconds

    @property
    def at_least_price_per_million_tokens(self) -> float | None:
        """Price of a million output tokens at the bound on speed: the lowest."""
        price, speed = self.price_per_hour, self.at_most_tokens_per_second
        return None if price is None or not speed else price / (speed * _SECONDS / 1e6)

    def changes(self) -> dict[str, Any]:
        """Return what `Plan.changed` needs to get here: GPU, layout, share, format.

        None removes an argument. A GPU of the catalogue is given by its name.
        """
        gpu = self.gpu
        return {
            "gpu": gpu.name if gpu in catalogue() else gpu,
            **self.format.changes,
            **self.layout.arguments(),
            "gpu_memory_utilization": self.plan.settings.gpu_memory_utilization,
        }

    def command(self) -> str:
        """Return the `vllm serve` line that starts it."""
        return self.plan.command()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without the plan."""
        price = self.price
        return {
            "gpu": self.gpu.name,
            "gpus_total": self.gpus_total,
            **asdict(self.layout),
            "gpu_memory_utilization": self.plan.settings.gpu_memory_utilization,
            "model": self.plan.name,
            "quantization": self.plan.settings.quantization,
            "kv_cache_dtype": self.plan.settings.kv_cache_dtype,
            "cost_class": str(self.format.cost_class),
            "requests": self.serving.load.requests,
            "requests_held": self.requests_held,
            "requests_served": self.serving.requests_served,
            "price_per_gpu_hour": None if price is None else price.per_hour,
            "price_source": "" if price is None else price.source,
            "price_date": "" if price is None else price.date,
            "price_per_hour": self.price_per_hour,
            **self._forecast_dict(),
            "is_sure_of_speed": self.is_sure_of_speed,
            "at_most_tokens_per_second": self.at_most_tokens_per_second,
            "at_most_tokens_per_second_each": self.at_most_tokens_per_second_each,
            "first_token_at_least_seconds": self.first_token_at_least_seconds,
            "at_least_price_per_million_tokens": (
                self.at_least_price_per_million_tokens
            ),
            "command": self.command(),
        }

    def _forecast_dict(self) -> dict[str, Any]:
        forecast, found = self.forecast, dict[str, Any]()
        for name, attribute in _FORECAST.items():
            part = None if forecast is None else getattr(forecast, attribute)
            found[name] = None if part is None else part.to_dict()
        return found

    def __repr__(self) -> str:
        """Return the set-up in one line."""
        return f"SetUp({self.gpus_total} x {self.gpu.name}, {self.layout})"


@frozen
class Miss:
    """A kind of GPU that does not serve the load, and what is missing."""

    gpu: GPU
    gpus_total: int
    """GPUs that were tried at most."""
    serving: Serving | None
    """The nearest start; None where the model is not modelled on this GPU."""
    why: str
    too_slow: str = ""
    """What of the speed that is wanted is lacking, where the load is served."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        held = None if self.serving is None else self.serving.requests_held
        return {
            "gpu": self.gpu.name,
            "gpus_total": self.gpus_total,
            "requests_held": held,
            "why": self.why,
        }


@frozen(repr=False)
class SetUps(Framed):
    """The set-ups that serve a load, and the GPUs that do not, nearest first."""

    inputs: Inputs
    """Model and arguments that all share; GPU and layout are replaced."""
    load: Load
    found: tuple[SetUp, ...]
    """Fewest GPUs first."""
    misses: tuple[Miss, ...]
    order: str = "fewest"
    """What comes first where it is shown: fewest (GPUs) or cheapest (per hour)."""
    currency: str = ""
    gpus_tried: tuple[int, ...] = ()
    """Numbers of GPUs that were tried of each kind, up to the first that serves."""
    not_tried: tuple[str, ...] = ()
    """What the search left out, a sentence each."""
    price_dates: tuple[str, str] | None = None
    """Oldest and newest day of the list prices; None where all prices are given."""

    @property
    def fewest(self) -> SetUp | None:
        """Of those tried, the set-up with the fewest GPUs; None: nothing serves."""
        return next(iter(self.ranked("fewest")), None)

    @property
    def cheapest(self) -> SetUp | None:
        """Of those tried, the one with the lowest price per hour; None without any."""
        first = next(iter(self.ranked("cheapest")), None)
        return None if first is None or first.price is None else first

    @property
    def is_found(self) -> bool:
        """Whether anything serves."""
        return bool(self.found)

    def ranked(self, order: str | None = None) -> tuple[SetUp, ...]:
        """Return the best set-up of each kind of GPU and format, best first.

        Args:
            order: fewest (GPUs), cheapest (per hour) or fastest; None: `order`.

        Raises:
            PlannerError: for another order.
        """
        return ranked(self.found, order or self.order)

    def trade_offs(self, order: str | None = None) -> tuple[SetUp, ...]:
        """Return those of `ranked` that no other beats, in its order.

        Another beats it where it is no worse in price, number of GPUs, forecast of
        speed and class of its format, and better in one of them.

        Raises:
            PlannerError: for an order that there is not.
        """
        rows = self.ranked(order)
        scores = {id(one): _scores(one) for one in rows}
        return tuple(
            one
            for one in rows
            if not any(_beats(scores[id(o)], scores[id(one)]) for o in rows)
        )

    def others(self, set_up: SetUp) -> tuple[SetUp, ...]:
        """Return the other layouts on the same GPUs, fastest first."""
        key = (set_up.gpu, set_up.format.name)
        same = (one for one in self.found if (one.gpu, one.format.name) == key)
        return tuple(other for other in same if other is not set_up)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; set-ups without their plans."""
        model = self.inputs.model
        return {
            "model": model if isinstance(model, str) else model.name,
            "vllm_version": self.inputs.vllm_version,
            "load": self.load.to_dict(),
            "currency": self.currency,
            "gpus_tried": list(self.gpus_tried),
            "not_tried": list(self.not_tried),
            "set_ups": [set_up.to_dict() for set_up in self.found],
            "misses": [miss.to_dict() for miss in self.misses],
        }

    def __repr__(self) -> str:
        """Return the answer in one line."""
        return f"SetUps({len(self.found)} found, fewest={self.fewest!r})"


def ranked(found: Sequence[SetUp], order: str = "fewest") -> tuple[SetUp, ...]:
    """Return the best set-up of each kind and format, best first; see `SetUps.ranked`.

    Raises:
        PlannerError: for an unknown order.
    """
    check_order(order)
    best: dict[tuple[GPU, str], SetUp] = {}
    for set_up in sorted(found, key=layout_rank):
        best.setdefault((set_up.gpu, set_up.format.name), set_up)
    keys = {"fewest": few_rank, "cheapest": _cheap_rank, "fastest": _fast_rank}
    return tuple(sorted(best.values(), key=keys[order]))


def check_order(order: str) -> None:
    """Refuse an order that there is not.

    Raises:
        PlannerError: naming those there are.
    """
    if order not in ORDERS:
        raise PlannerError(f"order={order!r}: use one of {', '.join(ORDERS)}.")


def _slowness(set_up: SetUp) -> tuple[float, float]:
    """Order by the forecast, and what has none after it by the bound."""
    found = set_up.tokens_per_second
    if found is not None:
        return -found.value, 0.0
    return 0.0, -(set_up.at_most_tokens_per_second or 0.0)


def layout_rank(set_up: SetUp) -> tuple[float, float, int, int, bool]:
    """Order layouts on the same GPUs: the fastest, then the simplest."""
    layout = set_up.layout
    return (
        *_slowness(set_up),
        layout.pipeline_parallel_size,
        layout.data_parallel_size,
        layout.enable_expert_parallel,
    )


def _price_rank(set_up: SetUp) -> float:
    price = set_up.price_per_hour
    return float("inf") if price is None else price


def few_rank(set_up: SetUp) -> tuple[int, float, int, int, str]:
    """Order set-ups: the fewest GPUs, then price, class of format, and memory."""
    memory, place = set_up.gpu.total_memory_bytes, set_up.format.cost_class.place
    return set_up.gpus_total, _price_rank(set_up), place, memory, set_up.gpu.name


def _cheap_rank(set_up: SetUp) -> tuple[float, int, int, int, str]:
    gpus, price, place, memory, name = few_rank(set_up)
    return price, gpus, place, memory, name


def _fast_rank(set_up: SetUp) -> tuple[float, float, int, float, int, int, str]:
    return *_slowness(set_up), *few_rank(set_up)


def _scores(set_up: SetUp) -> tuple[float, ...]:
    """Return what set-ups are compared by, each the less the better."""
    return (
        _price_rank(set_up),
        set_up.gpus_total,
        *_slowness(set_up)[:1],
        set_up.format.cost_class.place,
    )


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))
