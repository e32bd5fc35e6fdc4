"""ModelFits: the models of the catalogue that a GPU serves, and the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.engine.gpu import GPU
from planner.models.catalogue import Entry
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.planning.serving import Serving
from planner.solve.advice.makers.checkpoints import format_of, shape_of, stem_of
from planner.solve.layouts import SIZES
from planner.values import frozen
from planner.views import Framed

if TYPE_CHECKING:
    from planner.solve.speed.speed import SpeedBound


@frozen(repr=False)
class ModelFit:
    """A model of the catalogue on the GPUs, with the load."""

    entry: Entry
    """Name, parameters as its publisher counts them, downloads, source."""
    kinds: tuple[str, ...] = ()
    """Of `planner.solve.which_models.KINDS`; empty where it was not planned."""
    serving: Serving | None = None
    """The start that serves, or the nearest to it; None: it was not planned."""
    speed: SpeedBound | None = None
    """An upper bound; None where the load is not served, or nothing is generated."""
    why: str = ""
    """What prevents it from serving the load."""

    @property
    def name(self) -> str:
        """Its name on the Hub."""
        return self.entry.name

    @property
    def model(self) -> str:
        """The name that all formats of the same model share."""
        return stem_of(self.name)

    @property
    def format(self) -> str:
        """How the weights are stored: by its name, its configuration, or its dtype."""
        plan = self.plan
        named = format_of(self.name)
        if named or plan is None or plan.model is None:
            return named
        dtype = "" if plan.resolved is None else plan.resolved.dtype
        return plan.model.quantization or dtype

    @property
    def plan(self) -> Plan | None:
        """Its plan; None where it was not planned."""
        return None if self.serving is None else self.serving.plan

    @property
    def is_served(self) -> bool:
        """Whether the GPUs serve the load with it."""
        return self.serving is not None and self.serving.is_served

    @property
    def requests_held(self) -> int | None:
        """Requests of the load's length that the KV cache holds; None: no limit."""
        return 0 if self.serving is None else self.serving.requests_held

    @property
    def longest_context(self) -> int | None:
        """The longest single request that fits; None where none does."""
        return None if self.plan is None else self.plan.max_model_len_that_fits

    @property
    def at_most_tokens_per_second(self) -> float | None:
        """Output tokens of all requests together, at most."""
        speed = self.speed
        return None if speed is None else speed.total_at_most_tokens_per_second

    def changes(self) -> dict[str, Any]:
        """Return what `Plan.changed` needs to get here: model and layout.

        None removes an argument.
        """
        given = None if self.plan is None else self.plan.settings
        return {"model": self.name} | {
            name: value if (value := getattr(given, name, None) or 1) > 1 else None
            for name in SIZES
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without the plan."""
        return {
            "name": self.name,
            "model": self.model,
            "kinds": list(self.kinds),
            "format": self.format,
            "num_parameters": self.entry.num_parameters,
            "num_downloads": self.entry.num_downloads,
            "is_served": self.is_served,
            "fits": self.plan is not None and self.plan.fits,
            "requests_held": self.requests_held,
            "longest_context": self.longest_context,
            "at_most_tokens_per_second": self.at_most_tokens_per_second,
            "why": self.why,
            "command": "" if self.plan is None else self.plan.command(),
        }

    def __repr__(self) -> str:
        """Return the model in one line."""
        return f"ModelFit({self.name}, is_served={self.is_served})"


@frozen(repr=False)
class ModelFits(Framed):
    """The models of the catalogue that serve a load on a GPU, and those that do not."""

    gpu: GPU
    gpus: int
    load: Load
    order: str
    found: tuple[ModelFit, ...]
    """Those that serve, in the order; formats of one model each on its own."""
    others: tuple[ModelFit, ...]
    """Those that do not."""

    @property
    def is_found(self) -> bool:
        """Whether any model serves."""
        return bool(self.found)

    def groups(self) -> tuple[tuple[ModelFit, ...], ...]:
        """Return those that serve by model, each with its releases, most bits first.

        Releases are of one model where their names and the shapes of their layers say
        so.
        """
        by_model: dict[tuple[object, ...], list[ModelFit]] = {}
        for one in self.found:
            model = None if one.plan is None else one.plan.model
            shape = () if model is None else shape_of(model)
            by_model.setdefault((one.model, shape), []).append(one)
        return tuple(
            tuple(sorted(formats, key=lambda one: (-_bytes(one), *_used(one))))
            for formats in by_model.values()
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; models without their plans."""
        return {
            "gpu": self.gpu.name,
            "gpus": self.gpus,
            "load": self.load.to_dict(),
            "order": self.order,
            "models": [one.to_dict() for one in self.found],
            "others": [one.to_dict() for one in self.others],
        }

    def __repr__(self) -> str:
        """Return the answer in one line."""
        return f"ModelFits({len(self.found)} found, {len(self.others)} not)"


def _bytes(one: ModelFit) -> int:
    """Return the bytes of its weights on all GPUs."""
    ranks = () if one.plan is None else one.plan.ranks
    return sum(rank.weights_bytes for rank in ranks)


def _used(one: ModelFit) -> tuple[int, str]:
    return -(one.entry.num_downloads or 0), one.name
